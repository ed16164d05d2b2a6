#include "vswitch/port/open_tap.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "vswitch/port/netdev.h"

namespace eoib {
namespace {

constexpr int kFlags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;

// Returns the TAP, or sets *error to an errno value. *step says which call failed.
UniqueFd Attach(const std::string& name, int flags, const char** step, int* error) {
  *step = "open /dev/net/tun";
  UniqueFd tap(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  *error = errno;
  if (!tap.valid()) return tap;
  ifreq request{};
  std::memcpy(request.ifr_name, name.data(), name.size());
  request.ifr_flags = static_cast<short>(flags);
  *step = "attach";
  if (ioctl(tap.get(), TUNSETIFF, &request) == 0) return tap;
  *error = errno;
  return UniqueFd();
}

absl::Status Failed(const std::string& name, const char* step, int error) {
  if (std::strcmp(step, "attach") != 0) {
    return absl::UnavailableError(
        absl::StrCat("open /dev/net/tun for ", name, ": ", strerror(error), "; ",
                     error == EACCES ? "the process may not use the device: see its mode"
                                     : "load the tun module (modprobe tun)"));
  }
  if (error == EPERM) {
    return absl::PermissionDeniedError(absl::StrCat(
        "make TAP ", name,
        ": the process has no CAP_NET_ADMIN; run it as root, or give it that capability"));
  }
  if (error == EBUSY) {
    return absl::AlreadyExistsError(absl::StrCat(
        "open TAP ", name, ": another process has it open; stop that, or choose another name"));
  }
  return absl::InternalError(absl::StrCat("make TAP ", name, ": ", strerror(error)));
}

// Why the netdev of that name cannot be taken over, or nothing.
std::string Owner(const NetdevInfo& info, const std::string& alias) {
  if (info.kind != "tun")
    return absl::StrCat("it is a ", info.kind.empty() ? "device" : info.kind, " of another owner");
  const bool is_of_an_agent = absl::StartsWith(info.alias, "eoib:");
  return is_of_an_agent && !alias.empty() && info.alias != alias
             ? absl::StrCat("it is the TAP of ", absl::CHexEscape(info.alias))
             : "";
}

absl::StatusOr<OpenedTap> TakeOver(const NetdevInfo& info, const std::string& alias) {
  if (const std::string owner = Owner(info, alias); !owner.empty()) {
    return absl::AlreadyExistsError(absl::StrCat("make TAP ", absl::CHexEscape(info.name),
                                                 ": a netdev of that name exists, and ", owner,
                                                 "; choose another name"));
  }
  const char* step;
  int error;
  OpenedTap opened{Attach(info.name, kFlags, &step, &error), false,
                   !alias.empty() && info.alias == alias};
  if (!opened.fd.valid()) return Failed(absl::CHexEscape(info.name), step, error);
  return opened;
}

// In a temporary thread, so that no other thread ends up in that namespace.
absl::StatusOr<OpenedTap> TakeOverIn(int network_namespace, const NetdevInfo& info,
                                     const std::string& alias) {
  absl::StatusOr<OpenedTap> opened;
  std::thread([&] {
    if (setns(network_namespace, CLONE_NEWNET) == 0) {
      opened = TakeOver(info, alias);
    } else {
      opened = absl::ErrnoToStatus(
          errno, absl::StrCat("enter the network namespace of TAP ", absl::CHexEscape(info.name)));
    }
  }).join();
  return opened;
}

}  // namespace

absl::StatusOr<OpenedTap> OpenTap(const std::string& name, const std::string& alias,
                                  TapFinder* finder) {
  // The kernel would replace "%d" by a number.
  if (name.empty() || name.size() >= IFNAMSIZ ||
      name.find_first_of("/:% \t\n") != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", name, "\" is not a netdev name; write 1 to ", IFNAMSIZ - 1,
                     " bytes without space, '/', ':' or '%'"));
  }
  const UniqueFd netlink(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  NetdevInfo here;
  const bool exists = netlink.valid() && FindNetdev(netlink.get(), name, &here) == 0;
  if (!alias.empty() && finder != nullptr && !(exists && here.alias == alias)) {
    if (absl::optional<TapFinder::Found> found = finder->Find(alias))
      return TakeOverIn(found->network_namespace, found->info, alias);
  }
  if (exists) return TakeOver(here, alias);
  const char* step;
  int error;
  OpenedTap opened{Attach(name, kFlags | IFF_TUN_EXCL, &step, &error), true, true};
  if (!opened.fd.valid()) return Failed(name, step, error);
  return opened;
}

}  // namespace eoib
