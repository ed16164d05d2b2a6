#include "vswitch/fabric/error_advice.h"

#include <sys/resource.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace eoib {

absl::Status ErrnoWithAdvice(int error, absl::string_view what, absl::string_view advice) {
  const absl::Status status = absl::ErrnoToStatus(error, what);
  if (advice.empty()) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), "; ", advice));
}

std::string LockedMemoryAdvice(int error) {
  rlimit limit = {};
  if (error != ENOMEM || getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "";
  const std::string now =
      limit.rlim_cur == RLIM_INFINITY ? "unlimited" : absl::StrCat(limit.rlim_cur / 1024, " KiB");
  return absl::StrCat(
      "the limit of locked memory is ", now,
      ": raise it (\"ulimit -l unlimited\", or LimitMEMLOCK=infinity in the systemd unit)");
}

std::string ControlledQKeyAdvice(int error, QKey qkey) {
  if (error != EPERM || !qkey.IsControlled()) return "";
  return absl::StrCat(
      "this kernel lets only CAP_NET_RAW set a controlled Q_Key such as ", qkey.ToString(),
      ": give eoibd that capability (CapabilityBoundingSet=CAP_NET_ADMIN "
      "CAP_NET_RAW in the systemd unit; AmbientCapabilities= too, if it does not run as root), or "
      "allow it to all users with \"rdma system set privileged-qkey on\"");
}

std::string DeviceNodeAdvice(int error, absl::string_view node, absl::string_view module) {
  switch (error) {
    case EACCES:
    case EPERM:
      return absl::StrCat("this user may not open ", node,
                          ": run as root, or as a member of the group that owns it (ls -l ", node,
                          "); in a systemd unit or a container allow the device");
    case ENOENT:
    case ENODEV:
    case ENXIO:
    case ENOSYS:
      return absl::StrCat("there is no ", node, ": load its kernel module (modprobe ", module,
                          "); in a container hand the device in");
    default:
      return "";
  }
}

}  // namespace eoib
