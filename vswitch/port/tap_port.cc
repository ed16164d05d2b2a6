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

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "vswitch/port/gso_limit.h"
#include "vswitch/port/open_tap.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {
namespace {

absl::Status Failed(absl::string_view what, absl::string_view name) {
  const int error = errno;
  return absl::InternalError(absl::StrCat(what, " ", name, ": ", strerror(error)));
}

bool SameFile(int a, int b) {
  struct stat status_a, status_b;
  return fstat(a, &status_a) == 0 && fstat(b, &status_b) == 0 && status_a.st_dev == status_b.st_dev &&
         status_a.st_ino == status_b.st_ino;
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

// Calls `transmit` with the frame without its tag: moves the MACs over the tag, and restores both afterwards, because the
// caller keeps the frame.
template <typename Transmit>
DropReason WithoutTag(const Frame& frame, Transmit transmit) {
  uint8_t tag[kVlanTagSize];
  std::memcpy(tag, frame.data + kMacsSize, kVlanTagSize);
  RemoveVlanTag(frame.data);
  Frame stripped = frame;
  stripped.data += kVlanTagSize;
  stripped.length -= kVlanTagSize;
  stripped.checksum.start -= frame.checksum.needed ? kVlanTagSize : 0;
  const DropReason reason = transmit(stripped);
  std::memmove(frame.data, frame.data + kVlanTagSize, kMacsSize);
  std::memcpy(frame.data + kMacsSize, tag, kVlanTagSize);
  return reason;
}

}  // namespace

TapPort::TapPort(const Options& options, UniqueFd tap, UniqueFd nothing)
    : name_(options.name),
      mac_(options.mac),
      set_(options.set),
      spill_(options.super_frames ? std::make_unique<ScatterList::Spill>() : nullptr),
      tap_(std::move(tap)),
      nothing_(std::move(nothing)) {
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
  int header_size = kVnetHeaderSize;
  if (ioctl(tap_.get(), TUNSETVNETHDRSZ, &header_size) != 0) return Failed("set the virtio_net_hdr size of", name_);
  absl::Status status = Offload(options.super_frames);
  // The carrier stays off until control turns it on.
  if (status.ok()) status = SetLinkUp(false);
  if (status.ok()) status = SetMtu(options.mtu);
  if (!status.ok()) return status;
  const absl::StatusOr<UniqueFd> socket = SocketBesideNetdev(AF_INET, SOCK_DGRAM);
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

// A kernel before 6.2 refuses UDP super-frames, but not the rest.
absl::Status TapPort::Offload(bool super_frames) {
  unsigned offloads = TUN_F_CSUM;
  if (super_frames) {
    offloads |= TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    takes_udp_super_frames_ = ioctl(tap_.get(), TUNSETOFFLOAD, offloads | kOffloadUso) == 0;
    coalescer_.set_joins_udp(takes_udp_super_frames_);
  }
  if (takes_udp_super_frames_ || ioctl(tap_.get(), TUNSETOFFLOAD, offloads) == 0) return absl::OkStatus();
  return Failed(super_frames ? "offload checksums and segmentation of" : "offload checksums of", name_);
}

// Without persistence, closing the TAP deletes the netdev. A killed process never gets here, so its successor finds the
// netdev.
TapPort::~TapPort() {
  if (set_ != nullptr) set_->ports_.erase(this);
  ioctl(tap_.get(), TUNSETPERSIST, 0);
}

// Opens a socket in the netdev's network namespace, for the ioctls that configure the netdev.
absl::StatusOr<UniqueFd> TapPort::SocketBesideNetdev(int family, int type) const {
  UniqueFd here(socket(family, type | SOCK_CLOEXEC, 0));
  if (!here.valid()) return Failed("open a socket to configure", name_);
  const UniqueFd own(ioctl(here.get(), SIOCGSKNS));
  const UniqueFd netdevs(ioctl(tap_.get(), TUNGETDEVNETNS));
  if (!own.valid() || !netdevs.valid()) return Failed("find the network namespace of", name_);
  if (SameFile(own.get(), netdevs.get())) return here;
  UniqueFd there;
  int error = 0;
  // In a temporary thread, so that no other thread ends up in that namespace.
  std::thread([&] {
    if (setns(netdevs.get(), CLONE_NEWNET) == 0) there.reset(socket(family, type | SOCK_CLOEXEC, 0));
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
  const absl::StatusOr<UniqueFd> socket = SocketBesideNetdev(AF_INET, SOCK_DGRAM);
  if (!socket.ok()) return socket.status();
  ifreq request{};
  request.ifr_mtu = mtu;
  const absl::Status status = Control(socket->get(), SIOCSIFMTU, &request, absl::StrCat("set MTU ", mtu, " of"));
  if (status.ok()) largest_.store(static_cast<uint32_t>(mtu) + kEthernetHeaderSize + kVlanTagSize, std::memory_order_relaxed);
  return status;
}

// Above its gso_max_size the kernel cuts super-frames itself. It compares their size without the tag that it inserts later.
absl::Status TapPort::LimitSuperFrames(uint32_t mtu) {
  if (spill_ == nullptr) return absl::OkStatus();
  const absl::StatusOr<UniqueFd> socket = SocketBesideNetdev(AF_NETLINK, SOCK_RAW);
  if (!socket.ok()) return socket.status();
  ifreq current{};
  if (ioctl(tap_.get(), TUNGETIFF, &current) != 0) return Failed("limit super-frames of", name_);
  const auto limit = static_cast<uint32_t>(PieceLayout(mtu).Largest() - kVlanTagSize + 1);
  errno = SetGsoMaxSize(socket->get(), current.ifr_name, limit);
  return errno == 0 ? absl::OkStatus() : Failed(absl::StrCat("limit super-frames to ", limit, " bytes on"), name_);
}

// A TAP whose netdev was deleted signals an error to epoll for ever. Replacing the descriptor removes it from the epoll set;
// reads then find nothing, and writes fail.
void TapPort::StopIfDeleted(int error) noexcept {
  if (error == EBADFD) dup3(nothing_.get(), tap_.get(), O_CLOEXEC);
}

// False if the request points outside the frame.
bool TapPort::ReadChecksumRequest(const VnetHeader& header, Frame* frame) noexcept {
  frame->checksum = header.checksum();
  return !frame->checksum.needed || static_cast<size_t>(header.checksum_start) + header.checksum_offset + 2 <= frame->length;
}

// An operator may give the interface a larger MTU than control did. Then it sends frames that the others' interfaces do not
// take.
bool TapPort::IsTooLarge(uint32_t length, const Gso& gso, uint32_t mtu) const noexcept {
  return gso.type == GsoType::kNone && length > mtu && length > largest_.load(std::memory_order_relaxed);
}

size_t TapPort::Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out, PortReceiveCounts* counts) noexcept {
  ScatterList list(pool, mtu, spill_.get());
  size_t received = 0;
  size_t buffers = 0;
  // Counts tries, so the loop is bounded even if every frame is refused.
  for (size_t tries = 0; tries < out.size() && buffers < out.size() && list.Refill(); ++tries) {
    VnetHeader header;
    const ssize_t size = list.Read(tap_.get(), &header, sizeof(header));
    if (ABSL_PREDICT_FALSE(size < static_cast<ssize_t>(kVnetHeaderSize))) {
      if (size < 0) StopIfDeleted(errno);
      return received;
    }
    const auto length = static_cast<uint32_t>(size - kVnetHeaderSize);
    const absl::optional<Gso> gso = header.gso();
    if (ABSL_PREDICT_FALSE(!gso.has_value() || length > list.largest() || IsTooLarge(length, *gso, mtu))) {
      ++counts->too_large;
      continue;
    }
    if (ABSL_PREDICT_FALSE(length < kEthernetHeaderSize)) {
      ++counts->runt;
      continue;
    }
    Frame& frame = out[received];
    frame = list.Take(length, *gso);
    if (ABSL_PREDICT_FALSE(!ReadChecksumRequest(header, &frame))) {
      ++counts->bad_checksum_request;
      pool->Free(frame.buffer);
      continue;
    }
    buffers += frame.buffers;
    ++received;
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
  return WithoutTag(frame, [this](const Frame& stripped) { return Transmit(stripped, /*strip_tag=*/false); });
}

DropReason TapPort::TransmitLarge(const BufferPool& pool, const Frame& frame, bool strip_tag) noexcept {
  if (!strip_tag) return WriteLarge(pool, frame);
  return WithoutTag(frame, [this, &pool](const Frame& stripped) { return WriteLarge(pool, stripped); });
}

// The frame is not copied: one writev gathers its buffers. The interface's MTU limits what the frame is cut into.
DropReason TapPort::WriteLarge(const BufferPool& pool, const Frame& frame) noexcept {
  WriteJoined();  // first, to keep the order of frames
  VnetHeader header = HeaderFor(frame);
  const size_t largest_segment = frame.gso.type == GsoType::kNone ? frame.total() : header.header_length + frame.gso.size;
  if (ABSL_PREDICT_FALSE(largest_segment > largest_.load(std::memory_order_relaxed))) return DropReason::kPortTooLarge;
  std::array<iovec, kMaxSegments + 1> parts;
  parts[0] = {&header, sizeof(header)};
  size_t count = 1;
  VisitPieces(pool, frame, [&](absl::Span<uint8_t> piece) { parts[count++] = {piece.data(), piece.size()}; });
  return WriteParts({parts.data(), count});
}

size_t TapPort::Flush(DropReason* reason) noexcept {
  WriteJoined();
  *reason = lost_reason_;
  return std::exchange(lost_, 0);
}

void TapPort::WriteJoined() noexcept {
  if (!coalescer_.pending()) return;
  const Coalescer::Joined joined = coalescer_.Take();
  VnetHeader header{};
  if (joined.segments > 1) {
    header.Describe({joined.udp ? GsoType::kUdp : GsoType::kTcp, joined.segment_length}, joined.ipv6, joined.header_length);
  }
  const DropReason reason = Write(joined.checksum, joined.frame, header);
  if (ABSL_PREDICT_TRUE(reason == DropReason::kNone)) return;
  lost_ += joined.segments;
  lost_reason_ = reason;
}

DropReason TapPort::Write(const ChecksumRequest& checksum, absl::Span<const uint8_t> frame, VnetHeader header) noexcept {
  header.Request(checksum);
  const iovec parts[] = {{&header, sizeof(header)}, {const_cast<uint8_t*>(frame.data()), frame.size()}};
  return WriteParts(parts);
}

DropReason TapPort::WriteParts(absl::Span<const iovec> parts) noexcept {
  if (ABSL_PREDICT_TRUE(writev(tap_.get(), parts.data(), static_cast<int>(parts.size())) >= 0)) return DropReason::kNone;
  return WriteFailure(errno);
}

// The header of a frame whose GSO was validated (ParseSuperFrame).
VnetHeader TapPort::HeaderFor(const Frame& frame) noexcept {
  VnetHeader header;
  header.Request(frame.checksum);
  if (frame.gso.type == GsoType::kNone) return header;
  const L4Location l4 = FindL4(frame.bytes(), frame.total());
  header.Describe(frame.gso, frame.data[l4.ip] >> 4 == 6, l4.l4 + L4HeaderSize(frame.bytes(), l4));
  return header;
}

}  // namespace eoib
