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
#include "absl/strings/str_cat.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {
namespace {

// Values of a virtio_net_hdr.
constexpr size_t kVnetHeaderSize = 10;
constexpr uint8_t kNeedsChecksum = 1;
constexpr uint8_t kGsoNone = 0;
constexpr uint8_t kGsoTcpv4 = 1;
constexpr uint8_t kGsoTcpv6 = 4;

absl::Status Failed(absl::string_view what, absl::string_view name) {
  const int error = errno;
  return absl::InternalError(absl::StrCat(what, " ", name, ": ", strerror(error)));
}

ifreq RequestFor(const std::string& name) {
  ifreq request{};
  std::memcpy(request.ifr_name, name.data(), name.size());
  return request;
}

bool SameFile(int a, int b) {
  struct stat status_a, status_b;
  return fstat(a, &status_a) == 0 && fstat(b, &status_b) == 0 && status_a.st_dev == status_b.st_dev &&
         status_a.st_ino == status_b.st_ino;
}

// True if this namespace has a netdev of that name and MAC: a former process was killed and left it behind.
bool WasLeftBehind(const std::string& name, MacAddr mac) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = RequestFor(name);
  return socket.valid() && ioctl(socket.get(), SIOCGIFHWADDR, &request) == 0 &&
         MacAddr::FromWire(request.ifr_hwaddr.sa_data) == mac;
}

absl::StatusOr<UniqueFd> OpenTap(const std::string& name, MacAddr mac) {
  // The kernel would replace "%d" by a number.
  if (name.empty() || name.size() >= IFNAMSIZ || name.find_first_of("/:% \t\n") != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", name, "\" is not a netdev name; write 1 to ", IFNAMSIZ - 1, " bytes without space, '/', ':' or '%'"));
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
  return Failed("make TAP", name);
}

// The drop reason for a failed write to the TAP.
DropReason WriteFailure(int error) {
  switch (error) {
    case EAGAIN:
      return DropReason::kPortFull;
    case EIO:     // the netdev is down
    case EBADFD:  // the netdev was deleted
    case EBADF:   // the same, after StopIfDeleted
      return DropReason::kPortDown;
    case EMSGSIZE:
      return DropReason::kPortTooLarge;
    default:
      return DropReason::kPortError;
  }
}

}  // namespace

TapPort::TapPort(const Options& options, UniqueFd tap, UniqueFd nothing)
    : name_(options.name), mac_(options.mac), set_(options.set), tap_(std::move(tap)), nothing_(std::move(nothing)) {
  if (set_ != nullptr) set_->ports_.insert(this);
}

absl::StatusOr<std::unique_ptr<TapPort>> TapPort::Open(const Options& options) {
  absl::StatusOr<UniqueFd> tap = OpenTap(options.name, options.mac);
  if (!tap.ok()) return tap.status();
  UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing.valid()) return Failed("open /dev/null for", options.name);
  auto port = std::unique_ptr<TapPort>(new TapPort(options, *std::move(tap), std::move(nothing)));
  absl::Status status = port->Configure(options);
  if (!status.ok()) return status;
  return port;
}

absl::Status TapPort::Configure(const Options& options) {
  static_assert(sizeof(VnetHeader) == kVnetHeaderSize);
  int header_size = kVnetHeaderSize;
  if (ioctl(tap_.get(), TUNSETVNETHDRSZ, &header_size) != 0) return Failed("set the virtio_net_hdr size of", name_);
  if (ioctl(tap_.get(), TUNSETOFFLOAD, TUN_F_CSUM) != 0) return Failed("offload checksums of", name_);
  // The carrier stays off until control turns it on.
  absl::Status status = SetLinkUp(false);
  if (status.ok()) status = SetMtu(options.mtu);
  if (!status.ok()) return status;
  const absl::StatusOr<UniqueFd> socket = SocketBesideNetdev();
  if (!socket.ok()) return socket.status();
  ifreq request{};
  request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
  mac_.ToWire(request.ifr_hwaddr.sa_data);
  status = Control(socket->get(), SIOCSIFHWADDR, &request, absl::StrCat("set MAC ", mac_.ToString(), " of"));
  if (status.ok()) status = Control(socket->get(), SIOCGIFFLAGS, &request, "read the flags of");
  request.ifr_flags |= IFF_UP;
  if (status.ok()) status = Control(socket->get(), SIOCSIFFLAGS, &request, "set up");
  if (status.ok() && ioctl(tap_.get(), TUNSETPERSIST, 1) != 0) return Failed("make persistent the netdev", name_);
  return status;
}

// Without persistence, closing the TAP deletes the netdev. A killed process never gets here, so its successor finds the
// netdev.
TapPort::~TapPort() {
  if (set_ != nullptr) set_->ports_.erase(this);
  ioctl(tap_.get(), TUNSETPERSIST, 0);
}

// Opens a socket in the netdev's network namespace, for the ioctls that configure the netdev.
absl::StatusOr<UniqueFd> TapPort::SocketBesideNetdev() const {
  UniqueFd here(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!here.valid()) return Failed("open a socket to configure", name_);
  const UniqueFd own(ioctl(here.get(), SIOCGSKNS));
  const UniqueFd netdevs(ioctl(tap_.get(), TUNGETDEVNETNS));
  if (!own.valid() || !netdevs.valid()) return Failed("find the network namespace of", name_);
  if (SameFile(own.get(), netdevs.get())) return here;
  UniqueFd there;
  int error = 0;
  // In a temporary thread, so that no other thread ends up in that namespace.
  std::thread([&] {
    if (setns(netdevs.get(), CLONE_NEWNET) == 0) there.reset(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    error = errno;
  }).join();
  if (there.valid()) return there;
  errno = error;
  return Failed("enter the network namespace of", name_);
}

absl::optional<std::string> TapPort::NameHere() const {
  const UniqueFd here(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const UniqueFd own(ioctl(here.get(), SIOCGSKNS));
  const UniqueFd netdevs(ioctl(tap_.get(), TUNGETDEVNETNS));
  ifreq current{};
  if (!SameFile(own.get(), netdevs.get()) || ioctl(tap_.get(), TUNGETIFF, &current) != 0) return absl::nullopt;
  return std::string(current.ifr_name);
}

// Runs an ioctl of `socket` on the netdev, by its current name.
absl::Status TapPort::Control(int socket, unsigned long command, ifreq* request, absl::string_view what) const {
  ifreq current{};
  if (ioctl(tap_.get(), TUNGETIFF, &current) != 0) return Failed(what, name_);
  std::memcpy(request->ifr_name, current.ifr_name, IFNAMSIZ);
  if (ioctl(socket, command, request) != 0) return Failed(what, name_);
  return absl::OkStatus();
}

absl::Status TapPort::SetLinkUp(bool up) {
  int carrier = up;
  if (ioctl(tap_.get(), TUNSETCARRIER, &carrier) != 0) return Failed("set the carrier of", name_);
  return absl::OkStatus();
}

absl::Status TapPort::SetMtu(int mtu) {
  const absl::StatusOr<UniqueFd> socket = SocketBesideNetdev();
  if (!socket.ok()) return socket.status();
  ifreq request{};
  request.ifr_mtu = mtu;
  const absl::Status status = Control(socket->get(), SIOCSIFMTU, &request, absl::StrCat("set MTU ", mtu, " of"));
  if (status.ok()) largest_.store(static_cast<uint32_t>(mtu) + kEthernetHeaderSize + kVlanTagSize, std::memory_order_relaxed);
  return status;
}

// A TAP whose netdev was deleted signals an error to epoll for ever. Replacing the descriptor removes it from the epoll set;
// reads then find nothing, and writes fail.
void TapPort::StopIfDeleted(int error) noexcept {
  if (error == EBADFD) dup3(nothing_.get(), tap_.get(), O_CLOEXEC);
}

// False if the request points outside the frame.
bool TapPort::ReadChecksumRequest(const VnetHeader& header, Frame* frame) noexcept {
  if ((header.flags & kNeedsChecksum) == 0) return true;
  frame->checksum = {true, header.checksum_start, header.checksum_offset};
  return static_cast<size_t>(header.checksum_start) + header.checksum_offset + 2 <= frame->length;
}

size_t TapPort::Receive(BufferPool* pool, absl::Span<Frame> out, PortReceiveCounts* counts) noexcept {
  size_t received = 0;
  // Counts tries, so the loop is bounded even if every frame is refused.
  for (size_t tries = 0; tries < out.size(); ++tries) {
    const BufferId buffer = pool->Allocate();
    if (ABSL_PREDICT_FALSE(buffer.IsNone())) return received;
    VnetHeader header;
    uint8_t* const data = pool->Frame(buffer);
    iovec parts[] = {{&header, sizeof(header)}, {data, pool->frame_capacity()}};
    const ssize_t size = readv(tap_.get(), parts, 2);
    Frame frame{buffer, data, 0, {}};
    if (ABSL_PREDICT_FALSE(size < static_cast<ssize_t>(kVnetHeaderSize))) {
      if (size < 0) StopIfDeleted(errno);
      pool->Free(buffer);
      return received;
    }
    frame.length = static_cast<uint32_t>(size - kVnetHeaderSize);
    if (ABSL_PREDICT_FALSE(frame.length > pool->frame_size() || header.gso_type != kGsoNone)) {
      ++counts->too_large;
    } else if (ABSL_PREDICT_FALSE(frame.length < kEthernetHeaderSize)) {
      ++counts->runt;
    } else if (ABSL_PREDICT_FALSE(!ReadChecksumRequest(header, &frame))) {
      ++counts->bad_checksum_request;
    } else {
      out[received++] = frame;
      continue;
    }
    pool->Free(buffer);
  }
  return received;
}

DropReason TapPort::Transmit(const Frame& frame, bool strip_tag) noexcept {
  if (ABSL_PREDICT_FALSE(frame.length > largest_.load(std::memory_order_relaxed))) return DropReason::kPortTooLarge;
  if (!strip_tag) {
    if (coalescer_.Add({frame.data, frame.length}, frame.checksum)) return DropReason::kNone;
    WriteJoined();  // first, to keep the order of frames
    if (coalescer_.Add({frame.data, frame.length}, frame.checksum)) return DropReason::kNone;
    return Write(frame.checksum, {frame.data, frame.length}, {});
  }
  return TransmitStripped(frame);
}

// Transmits without the tag: moves the MACs over the tag, and restores both afterwards, because the caller keeps the frame.
DropReason TapPort::TransmitStripped(const Frame& frame) noexcept {
  uint8_t tag[kVlanTagSize];
  std::memcpy(tag, frame.data + kMacsSize, kVlanTagSize);
  RemoveVlanTag(frame.data);
  Frame stripped = frame;
  stripped.data += kVlanTagSize;
  stripped.length -= kVlanTagSize;
  stripped.checksum.start -= frame.checksum.needed ? kVlanTagSize : 0;
  const DropReason reason = Transmit(stripped, /*strip_tag=*/false);
  std::memmove(frame.data, frame.data + kVlanTagSize, kMacsSize);
  std::memcpy(frame.data + kMacsSize, tag, kVlanTagSize);
  return reason;
}

size_t TapPort::Flush(DropReason* reason) noexcept {
  WriteJoined();
  *reason = lost_reason_;
  return std::exchange(lost_, 0);
}

void TapPort::WriteJoined() noexcept {
  if (!coalescer_.pending()) return;
  const TcpCoalescer::Joined joined = coalescer_.Take();
  VnetHeader header{};
  if (joined.segments > 1) {
    header.gso_type = joined.ipv6 ? kGsoTcpv6 : kGsoTcpv4;
    header.gso_size = joined.segment_length;
    header.header_length = joined.header_length;
  }
  const DropReason reason = Write(joined.checksum, joined.frame, header);
  if (ABSL_PREDICT_TRUE(reason == DropReason::kNone)) return;
  lost_ += joined.segments;
  lost_reason_ = reason;
}

DropReason TapPort::Write(const ChecksumRequest& checksum, absl::Span<const uint8_t> frame, VnetHeader header) noexcept {
  if (checksum.needed) {
    header.flags = kNeedsChecksum;
    header.checksum_start = checksum.start;
    header.checksum_offset = checksum.offset;
  }
  const iovec parts[] = {{&header, sizeof(header)}, {const_cast<uint8_t*>(frame.data()), frame.size()}};
  if (ABSL_PREDICT_TRUE(writev(tap_.get(), parts, 2) >= 0)) return DropReason::kNone;
  return WriteFailure(errno);
}

}  // namespace eoib
