#include "gateway/endpoint/tun_device.h"

#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/ip.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/daemon/log.h"
#include "gateway/endpoint/netlink.h"

namespace eoib::endpoint {
namespace {

// Marks a netdev that this program has made, so that a later process recognizes it. `ip link` shows it.
constexpr char kAlias[] = "eoib-ipoib";

absl::Status Failed(absl::string_view what, absl::string_view name) {
  const int error = errno;
  return absl::InternalError(absl::StrCat(what, " ", name, ": ", strerror(error)));
}

absl::Status CheckName(const std::string& name) {
  // The kernel would replace "%d" by a number.
  if (!name.empty() && name.size() < IFNAMSIZ && name.find_first_of("/:% \t\n") == std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("\"", name, "\" cannot name a netdev: 1 to ", IFNAMSIZ - 1, " bytes without space, '/', ':' and '%' can"));
}

absl::StatusOr<UniqueFd> OpenTun(const std::string& name) {
  UniqueFd tun(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!tun.valid()) {
    return absl::UnavailableError(absl::StrCat("open /dev/net/tun for ", name, ": ", strerror(errno),
                                               "; load the tun module (modprobe tun) and run with CAP_NET_ADMIN"));
  }
  ifreq request{};
  std::memcpy(request.ifr_name, name.data(), name.size());
  request.ifr_flags = static_cast<short>(IFF_TUN | IFF_NO_PI);
  if (ioctl(tun.get(), TUNSETIFF, &request) == 0) return tun;
  if (errno == EBUSY || errno == EINVAL) {
    return absl::AlreadyExistsError(absl::StrCat("make TUN ", name, ": a netdev of that name exists, and ",
                                                 errno == EBUSY ? "a process has it open" : "is no TUN",
                                                 "; choose another name"));
  }
  return Failed("make TUN", name);
}

absl::StatusOr<std::string> AliasOf(int index) {
  auto netlink = Netlink::Open(0);
  if (!netlink.ok()) return netlink.status();
  NetlinkRequest request(RTM_GETLINK, 0);
  request.Put<ifinfomsg>()->ifi_index = index;
  std::string alias;
  const absl::Status status = (*netlink)->Execute(&request, "read the alias of the TUN", [&](const nlmsghdr* message) {
    if (message->nlmsg_type != RTM_NEWLINK) return;
    ForEachAttribute(message, sizeof(ifinfomsg), [&](const nlattr* attribute) {
      if (mnl_attr_get_type(attribute) == IFLA_IFALIAS) alias = mnl_attr_get_str(attribute);
    });
  });
  if (!status.ok()) return status;
  return alias;
}

// Changes attributes of the interface, which `put` adds to the request, and sets the flags `flags`.
absl::Status Change(int index, absl::string_view what, absl::FunctionRef<void(nlmsghdr*)> put, unsigned flags = 0) {
  auto netlink = Netlink::Open(0);
  if (!netlink.ok()) return netlink.status();
  NetlinkRequest request(RTM_SETLINK, 0);
  auto* const header = request.Put<ifinfomsg>();
  header->ifi_index = index;
  header->ifi_flags = header->ifi_change = flags;
  put(request.message());
  return (*netlink)->Execute(&request, what);
}

absl::Status SetUp(int index) {
  return Change(
      index, "set the TUN up", [](nlmsghdr*) {}, IFF_UP);
}

absl::Status SetMtu(int index, uint32_t mtu) {
  return Change(index, absl::StrCat("set MTU ", mtu, " of the TUN"),
                [mtu](nlmsghdr* message) { mnl_attr_put_u32(message, IFLA_MTU, mtu); });
}

absl::Status SetAlias(int index) {
  return Change(index, "set the alias of the TUN", [](nlmsghdr* message) { mnl_attr_put_str(message, IFLA_IFALIAS, kAlias); });
}

// Changes an attribute of one address family (IFLA_AF_SPEC).
absl::Status Configure(int index, uint16_t family, absl::string_view what, absl::FunctionRef<void(nlmsghdr*)> put) {
  return Change(index, what, [&](nlmsghdr* message) {
    nlattr* const families = mnl_attr_nest_start(message, IFLA_AF_SPEC);
    nlattr* const ours = mnl_attr_nest_start(message, family);
    put(message);
    mnl_attr_nest_end(message, ours);
    mnl_attr_nest_end(message, families);
  });
}

// The kernel would generate a link-local address of its own.
absl::Status NoLinkLocal(int index) {
  return Configure(index, AF_INET6, "have the kernel make no link-local address",
                   [](nlmsghdr* message) { mnl_attr_put_u8(message, IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE); });
}

// Without this, removing a duplicate IPv4 address would remove the other addresses of its subnet as well.
absl::Status PromoteSecondaries(int index) {
  return Configure(index, AF_INET, "have addresses outlive the first of their subnet", [](nlmsghdr* message) {
    nlattr* const numbers = mnl_attr_nest_start(message, IFLA_INET_CONF);
    mnl_attr_put_u32(message, IPV4_DEVCONF_PROMOTE_SECONDARIES, 1);
    mnl_attr_nest_end(message, numbers);
  });
}

EndpointDrop WriteFailure(int error) {
  switch (error) {
    case EAGAIN:
      return EndpointDrop::kTunFull;
    case EIO:     // the netdev is down
    case EBADFD:  // the netdev was deleted
      return EndpointDrop::kTunDown;
    default:
      return EndpointDrop::kTunError;
  }
}

}  // namespace

TunDevice::TunDevice(std::string name, UniqueFd tun, bool made) : name_(std::move(name)), tun_(std::move(tun)), made_(made) {}

absl::StatusOr<std::unique_ptr<TunDevice>> TunDevice::Open(const std::string& name) {
  const absl::Status good = CheckName(name);
  if (!good.ok()) return good;
  const unsigned before = if_nametoindex(name.c_str());
  bool made = before == 0;
  if (!made) {
    const auto alias = AliasOf(static_cast<int>(before));
    made = alias.ok() && *alias == kAlias;
  }
  auto tun = OpenTun(name);
  if (!tun.ok()) return tun.status();
  auto device = std::unique_ptr<TunDevice>(new TunDevice(name, *std::move(tun), made));
  const absl::Status status = device->Configure();
  if (!status.ok()) return status;
  return device;
}

absl::Status TunDevice::Configure() {
  index_ = static_cast<int>(if_nametoindex(name_.c_str()));
  absl::Status status = SetCarrier(false);
  if (status.ok() && made_) status = SetAlias(index_);
  // Fails on a kernel without IPv6, where there is nothing to turn off.
  if (const absl::Status off = NoLinkLocal(index_); !off.ok()) LogWarning(off.message());
  if (status.ok()) status = PromoteSecondaries(index_);
  if (status.ok()) status = SetUp(index_);
  if (status.ok() && ioctl(tun_.get(), TUNSETPERSIST, 1) != 0) return Failed("keep over a crash the netdev", name_);
  return status;
}

TunDevice::~TunDevice() {
  if (made_) ioctl(tun_.get(), TUNSETPERSIST, 0);
}

absl::Status TunDevice::SetCarrier(bool up) {
  int carrier = up;
  if (ioctl(tun_.get(), TUNSETCARRIER, &carrier) != 0) return Failed("set the carrier of", name_);
  return absl::OkStatus();
}

void TunDevice::SetLink(uint32_t mtu) {
  absl::Status status;
  if (mtu != 0 && mtu != mtu_) status = SetMtu(index_, mtu);
  if (status.ok() && mtu != 0) mtu_ = mtu;  // a failed change is tried again
  status.Update(SetCarrier(mtu != 0));
  if (!status.ok()) LogWarning(status.message());
}

TunDevice::ReadResult TunDevice::Read(absl::Span<uint8_t> buffer, absl::Span<const uint8_t>* packet) {
  const ssize_t size = read(tun_.get(), buffer.data(), buffer.size());
  if (size > 0) {
    *packet = buffer.first(static_cast<size_t>(size));
    return ReadResult::kPacket;
  }
  return size < 0 && errno == EBADFD ? ReadResult::kDeleted : ReadResult::kNothing;
}

EndpointDrop TunDevice::Write(absl::Span<const uint8_t> packet) {
  return write(tun_.get(), packet.data(), packet.size()) >= 0 ? EndpointDrop::kNone : WriteFailure(errno);
}

}  // namespace eoib::endpoint
