#include "vswitch/port/tap_port.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "vswitch/port/netdev.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {
namespace {

// With its zero below IFALIASZ; <linux/if.h> and <net/if.h> exclude each other.
constexpr size_t kLongestAlias = 254;

absl::Status TapError(absl::string_view what, absl::string_view name) {
  const int error = errno;
  return absl::InternalError(absl::StrCat(what, " ", name, ": ", strerror(error)));
}

bool SameFile(int a, int b) {
  struct stat status_a, status_b;
  return fstat(a, &status_a) == 0 && fstat(b, &status_b) == 0 &&
         status_a.st_dev == status_b.st_dev && status_a.st_ino == status_b.st_ino;
}

// The drop reason for a failed write to the TAP.
DropReason TapFailure(int error) {
  switch (error) {
    case EAGAIN:
      return DropReason::kPortFull;
    case EIO:     // the netdev is down
    case EBADFD:  // the netdev was deleted
    case EBADF:   // the same, after StopReading
      return DropReason::kPortDown;
    case EMSGSIZE:
      return DropReason::kPortTooLarge;
    default:
      return DropReason::kPortError;
  }
}

}  // namespace

TapPort::TapPort(const Options& options, OpenedTap tap, UniqueFd nothing)
    : options_(options),
      name_(options.name),
      mac_(options.mac),
      is_new_(tap.is_new),
      is_ours_(tap.is_ours),
      tap_(std::move(tap.fd)),
      nothing_(std::move(nothing)),
      reader_(tap_.get(), options.super_frames),
      writer_(tap_.get(), TapFailure) {}

absl::StatusOr<std::unique_ptr<TapPort>> TapPort::Open(const Options& options) {
  absl::StatusOr<OpenedTap> tap = OpenTap(options.name, options.alias, options.finder);
  if (!tap.ok()) return tap.status();
  UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing.valid()) return TapError("open /dev/null for", options.name);
  auto port = std::unique_ptr<TapPort>(new TapPort(options, *std::move(tap), std::move(nothing)));
  absl::Status status = port->Configure();
  if (status.ok()) return port;
  if (port->is_new_) ioctl(port->tap_.get(), TUNSETPERSIST, 0);
  return status;
}

absl::Status TapPort::Remake() {
  absl::StatusOr<OpenedTap> tap = OpenTap(options_.name, options_.alias, options_.finder);
  if (!tap.ok()) return tap.status();
  is_new_ = tap->is_new;
  is_ours_ = tap->is_ours;
  if (dup3(tap->fd.get(), tap_.get(), O_CLOEXEC) < 0)
    return TapError("replace the descriptor of", name_);
  return Configure();
}

absl::Status TapPort::Configure() {
  int header_size = kVnetHeaderSize;
  if (ioctl(tap_.get(), TUNSETVNETHDRSZ, &header_size) != 0)
    return TapError("set the virtio_net_hdr size of", name_);
  absl::Status status = Offload(options_.super_frames);
  // The carrier stays off until control turns it on.
  if (status.ok()) status = SetLinkUp(false);
  if (status.ok()) status = SetMtu(options_.mtu);
  if (status.ok()) status = SetUp();
  if (status.ok() && ioctl(tap_.get(), TUNSETPERSIST, 1) != 0)
    return TapError("make persistent the netdev", name_);
  return status;
}

// Its MAC, the alias and flags.
absl::Status TapPort::SetUp() const {
  const absl::StatusOr<UniqueFd> netlink = NetlinkBesideNetdev();
  if (!netlink.ok()) return netlink.status();
  const absl::optional<std::string> name = NameAnywhere();
  if (is_new_ && name.has_value()) {
    // A kernel without IPv6 refuses this part.
    ChangeNetdev(netlink->get(), *name, {.no_ipv6_addresses = true});
    if (options_.alias.size() > kLongestAlias) {
      return absl::InvalidArgumentError(
          absl::StrCat("set the alias of ", name_, ": ", options_.alias, " has ",
                       options_.alias.size(), " bytes, and an alias has at most ", kLongestAlias,
                       "; use a shorter state directory (--statedir)"));
    }
    errno = ChangeNetdev(netlink->get(), *name, {.alias = options_.alias});
    if (errno != 0) return TapError("set the alias of", name_);
  }
  const absl::StatusOr<UniqueFd> socket = SocketBesideNetdev(AF_INET, SOCK_DGRAM);
  if (!socket.ok()) return socket.status();
  ifreq request{};
  request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
  mac_.ToWire(request.ifr_hwaddr.sa_data);
  absl::Status status = Control(socket->get(), SIOCSIFHWADDR, &request,
                                absl::StrCat("set MAC ", mac_.ToString(), " of"));
  if (!status.ok() || !options_.up) return status;
  status = Control(socket->get(), SIOCGIFFLAGS, &request, "read the flags of");
  request.ifr_flags |= IFF_UP;
  if (status.ok()) status = Control(socket->get(), SIOCSIFFLAGS, &request, "set up");
  return status;
}

absl::Status TapPort::Rename(const std::string& name, const std::string& alias) {
  const absl::optional<std::string> current = NameAnywhere();
  if (!current.has_value())
    return absl::NotFoundError(absl::StrCat("another program has deleted ", name_));
  const absl::StatusOr<UniqueFd> netlink = NetlinkBesideNetdev();
  if (!netlink.ok()) return netlink.status();
  NetdevChange change;
  if (is_ours_) change.alias = alias;
  if (*current != name) change.new_name = name;
  switch (errno = ChangeNetdev(netlink->get(), *current, change)) {
    case 0:
      options_.name = name_ = name;
      options_.alias = alias;
      return absl::OkStatus();
    case EEXIST:
      return absl::AlreadyExistsError(
          absl::StrCat("rename ", *current, ": there is an interface ", name, " already"));
    case EBUSY:
      return absl::FailedPreconditionError(
          absl::StrCat("rename ", *current,
                       ": this kernel renames no interface that is up; set it down first "
                       "(`ip link set ",
                       *current, " down`)"));
    default:
      return TapError("rename", *current);
  }
}

// A kernel before 6.2 refuses UDP super-frames, but not the rest.
absl::Status TapPort::Offload(bool super_frames) {
  unsigned offloads = TUN_F_CSUM;
  if (super_frames) {
    offloads |= TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    takes_udp_super_frames_ = ioctl(tap_.get(), TUNSETOFFLOAD, offloads | kOffloadUso) == 0;
    writer_.set_joins_udp(takes_udp_super_frames_);
  }
  if (takes_udp_super_frames_ || ioctl(tap_.get(), TUNSETOFFLOAD, offloads) == 0)
    return absl::OkStatus();
  return TapError(super_frames ? "offload checksums and segmentation of" : "offload checksums of",
                  name_);
}

// Opens a socket in the netdev's network namespace, for the ioctls that configure the netdev.
absl::StatusOr<UniqueFd> TapPort::SocketBesideNetdev(int family, int type) const {
  UniqueFd here(socket(family, type | SOCK_CLOEXEC, 0));
  if (!here.valid()) return TapError("open a socket to configure", name_);
  const UniqueFd own(ioctl(here.get(), SIOCGSKNS));
  const UniqueFd netdevs(ioctl(tap_.get(), TUNGETDEVNETNS));
  if (!own.valid() || !netdevs.valid()) return TapError("find the network namespace of", name_);
  if (SameFile(own.get(), netdevs.get())) return here;
  UniqueFd there;
  int error = 0;
  // In a temporary thread, so that no other thread ends up in that namespace.
  std::thread([&] {
    if (setns(netdevs.get(), CLONE_NEWNET) == 0)
      there.reset(socket(family, type | SOCK_CLOEXEC, 0));
    error = errno;
  }).join();
  if (there.valid()) return there;
  errno = error;
  return TapError("enter the network namespace of", name_);
}

absl::optional<std::string> TapPort::NameHere() const {
  const UniqueFd here(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const UniqueFd own(ioctl(here.get(), SIOCGSKNS));
  const UniqueFd netdevs(ioctl(tap_.get(), TUNGETDEVNETNS));
  ifreq current{};
  if (!SameFile(own.get(), netdevs.get()) || ioctl(tap_.get(), TUNGETIFF, &current) != 0)
    return absl::nullopt;
  return std::string(current.ifr_name);
}

absl::optional<std::string> TapPort::NameAnywhere() const {
  ifreq current{};
  if (ioctl(tap_.get(), TUNGETIFF, &current) != 0) return absl::nullopt;
  return std::string(current.ifr_name);
}

absl::StatusOr<InterfaceState> TapPort::QueryInterface() const {
  const absl::optional<std::string> name = NameAnywhere();
  if (!name.has_value())
    return absl::NotFoundError(absl::StrCat("another program has deleted ", name_));
  const absl::StatusOr<UniqueFd> netlink = NetlinkBesideNetdev();
  if (!netlink.ok()) return netlink.status();
  NetdevInfo info;
  errno = FindNetdev(netlink->get(), *name, &info);
  if (errno != 0) return TapError("read the state of", name_);
  const UniqueFd here(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const UniqueFd own(ioctl(here.get(), SIOCGSKNS));
  const UniqueFd netdevs(ioctl(tap_.get(), TUNGETDEVNETNS));
  return InterfaceState{absl::CHexEscape(info.name),
                        absl::CHexEscape(NetworkNamespaceName(own.get(), netdevs.get())), info.up,
                        info.carrier, info.mtu};
}

absl::StatusOr<UniqueFd> TapPort::NetlinkBesideNetdev() const {
  return SocketBesideNetdev(AF_NETLINK, SOCK_RAW);
}

// Runs an ioctl of `socket` on the netdev, by its current name.
absl::Status TapPort::Control(int socket, unsigned long command, ifreq* request,
                              absl::string_view what) const {
  ifreq current{};
  if (ioctl(tap_.get(), TUNGETIFF, &current) != 0) return TapError(what, name_);
  std::memcpy(request->ifr_name, current.ifr_name, IFNAMSIZ);
  if (ioctl(socket, command, request) != 0) return TapError(what, name_);
  return absl::OkStatus();
}

absl::Status TapPort::SetLinkUp(bool up) {
  int carrier = up;
  if (ioctl(tap_.get(), TUNSETCARRIER, &carrier) != 0) return TapError("set the carrier of", name_);
  return absl::OkStatus();
}

absl::Status TapPort::SetMtu(int mtu) {
  const absl::StatusOr<UniqueFd> socket = SocketBesideNetdev(AF_INET, SOCK_DGRAM);
  if (!socket.ok()) return socket.status();
  ifreq request{};
  request.ifr_mtu = mtu;
  const absl::Status status =
      Control(socket->get(), SIOCSIFMTU, &request, absl::StrCat("set MTU ", mtu, " of"));
  if (status.ok()) writer_.SetLargest(static_cast<uint32_t>(mtu) + kMtuOverhead);
  return status;
}

// Above its gso_max_size the kernel cuts super-frames itself. It compares their size without the
// tag that it inserts later.
absl::Status TapPort::LimitSuperFrames(uint32_t mtu) {
  if (!reader_.takes_super_frames()) return absl::OkStatus();
  const absl::StatusOr<UniqueFd> socket = NetlinkBesideNetdev();
  if (!socket.ok()) return socket.status();
  const absl::optional<std::string> name = NameAnywhere();
  if (!name.has_value()) return TapError("limit super-frames of", name_);
  const auto limit = static_cast<uint32_t>(PieceLayout(mtu).Largest() - kVlanTagSize + 1);
  errno = ChangeNetdev(socket->get(), *name, {.gso_max_size = limit});
  return errno == 0 ? absl::OkStatus()
                    : TapError(absl::StrCat("limit super-frames to ", limit, " bytes on"), name_);
}

// A TAP whose netdev was deleted signals an error to epoll for ever. Replacing the descriptor
// removes it from the epoll set; reads then find nothing, and writes fail.
void TapPort::StopReading() noexcept { dup3(nothing_.get(), tap_.get(), O_CLOEXEC); }

size_t TapPort::Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out,
                        PortReceiveCounts* counts) noexcept {
  int error;
  const size_t received = reader_.Receive(pool, {mtu, writer_.largest()}, out, counts, &error);
  if (ABSL_PREDICT_FALSE(error == EBADFD)) StopReading();
  return received;
}

}  // namespace eoib
