#include "vswitch/port/open_tap.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace eoib {
namespace {

ifreq RequestFor(const std::string& name) {
  ifreq request{};
  std::memcpy(request.ifr_name, name.data(), name.size());
  return request;
}

// True if this namespace has a netdev of that name and MAC: a former process was killed and left it behind.
bool WasLeftBehind(const std::string& name, MacAddr mac) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = RequestFor(name);
  return socket.valid() && ioctl(socket.get(), SIOCGIFHWADDR, &request) == 0 &&
         MacAddr::FromWire(request.ifr_hwaddr.sa_data) == mac;
}

}  // namespace

absl::StatusOr<UniqueFd> OpenTap(const std::string& name, MacAddr mac) {
  // The kernel would replace "%d" by a number.
  if (name.empty() || name.size() >= IFNAMSIZ || name.find_first_of("/:% \t\n") != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("\"", name, "\" is not a netdev name; write 1 to ", IFNAMSIZ - 1,
                                                   " bytes without space, '/', ':' or '%'"));
  }
  UniqueFd tap(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!tap.valid()) {
    return absl::UnavailableError(absl::StrCat("open /dev/net/tun for ", name, ": ", strerror(errno),
                                               "; load the tun module (modprobe tun) and run with CAP_NET_ADMIN"));
  }
  ifreq request = RequestFor(name);
  // Tries to create the netdev exclusively: one that belongs to another program must not be taken over. The query of its MAC
  // comes only after EBUSY, because for an unknown name the kernel would look for a module.
  request.ifr_flags = static_cast<short>(IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | IFF_TUN_EXCL);
  if (ioctl(tap.get(), TUNSETIFF, &request) == 0) return tap;
  if (errno == EBUSY && WasLeftBehind(name, mac)) {
    request = RequestFor(name);
    request.ifr_flags = static_cast<short>(IFF_TAP | IFF_NO_PI | IFF_VNET_HDR);
    if (ioctl(tap.get(), TUNSETIFF, &request) == 0) return tap;
  }
  if (errno == EBUSY || errno == EEXIST || (errno == EINVAL && if_nametoindex(name.c_str()) != 0)) {
    return absl::AlreadyExistsError(absl::StrCat(
        "make TAP ", name, ": a netdev of that name exists; delete it (ip link delete ", name, ") or choose another name"));
  }
  return absl::InternalError(absl::StrCat("make TAP ", name, ": ", strerror(errno)));
}

}  // namespace eoib
