#include "vswitch/port/netdev_port.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/utsname.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/port/divide_super_frame.h"
#include "vswitch/port/merged_segments.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {
namespace {

// One that the kernel hands over beside the frame, and one of the forwarder.
constexpr uint32_t kTags = 2;
constexpr int kQueueBytes = 8 << 20;  // in the kernel, each way: some hundred super-frames

absl::Status Failed(absl::string_view what, const std::string& name) {
  return absl::InternalError(absl::StrCat(what, " ", name, ": ", strerror(errno)));
}

// The drop reason for a failed write to the packet socket.
DropReason PacketSocketFailure(int error) {
  switch (error) {
    case EAGAIN:
    case ENOBUFS:  // the queue of the netdev is full
      return DropReason::kPortFull;
    case ENETDOWN:
    case ENXIO:  // the netdev was deleted
      return DropReason::kPortDown;
    case EMSGSIZE:
      return DropReason::kPortTooLarge;
    default:
      return DropReason::kPortError;
  }
}

// A packet socket cannot be asked whether it knows UDP super-frames, as a TAP can: Linux 6.2 is the
// first that does.
bool KernelKnowsUdpSuperFrames() {
  utsname kernel;
  int major = 0, minor = 0;
  if (uname(&kernel) != 0 || std::sscanf(kernel.release, "%d.%d", &major, &minor) != 2)
    return false;
  return std::make_pair(major, minor) >= std::make_pair(6, 2);
}

absl::StatusOr<UniqueFd> OpenPacketSocket(const std::string& name) {
  // Without a protocol it receives nothing until it is bound.
  UniqueFd packets(socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (packets.valid()) return packets;
  const std::string what = absl::StrCat("open a packet socket for netdev ", name, ": ");
  if (errno == EPERM || errno == EACCES) {
    return absl::PermissionDeniedError(absl::StrCat(
        what, "the process has no CAP_NET_RAW; run it as root, or give it that capability"));
  }
  if (errno == EAFNOSUPPORT) {
    return absl::UnavailableError(
        absl::StrCat(what, strerror(errno), "; allow AF_PACKET in the unit of the service ",
                     "(RestrictAddressFamilies), or load the module af_packet"));
  }
  return absl::UnavailableError(absl::StrCat(what, strerror(errno)));
}

bool SetOption(int fd, int option, int value) {
  return setsockopt(fd, SOL_PACKET, option, &value, sizeof(value)) == 0;
}

// More than net.core.rmem_max and wmem_max allow if the process has CAP_NET_ADMIN.
void SetQueueSize(int fd, int force, int limited) {
  if (setsockopt(fd, SOL_SOCKET, force, &kQueueBytes, sizeof(kQueueBytes)) == 0) return;
  setsockopt(fd, SOL_SOCKET, limited, &kQueueBytes, sizeof(kQueueBytes));
}

// A filter that takes no frame.
bool TakeNothing(int fd) {
  sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog filter{1, &drop};
  return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) == 0;
}

bool SetPromiscuous(int fd, int index, bool on) {
  packet_mreq request{};
  request.mr_ifindex = index;
  request.mr_type = PACKET_MR_PROMISC;
  return setsockopt(fd, SOL_PACKET, on ? PACKET_ADD_MEMBERSHIP : PACKET_DROP_MEMBERSHIP, &request,
                    sizeof(request)) == 0;
}

// The index of the netdev that the socket is bound to. The kernel unbinds it from a netdev that
// goes, even if that returns with the same index, as from another network namespace.
int BoundIndex(int fd) {
  sockaddr_ll address{};
  socklen_t size = sizeof(address);
  return getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 ? address.sll_ifindex
                                                                            : 0;
}

bool IsAgentTap(const NetdevInfo& info) { return absl::StartsWith(info.alias, "eoib:"); }

// Writes a tag in front of the EtherType: moves the MACs at `frame` down by 4.
void InsertTag(uint8_t* frame, uint32_t tag) {
  std::memmove(frame - kVlanTagSize, frame, kMacsSize);
  WriteWire(be32(tag), frame - kVlanTagSize + kMacsSize);
}

}  // namespace

// A frame that the kernel has handed over.
struct NetdevPort::Arrival {
  VnetHeader header;
  uint32_t length = 0;  // without the tag
  bool truncated = false;
  uint32_t tag = 0;  // the outer tag, which is not in the frame: TPID and TCI; 0: none

  uint32_t tag_size() const { return tag != 0 ? kVlanTagSize : 0; }
};

NetdevPort::NetdevPort(const std::string& name, UniqueFd netlink, UniqueFd packets)
    : name_(name),
      takes_udp_super_frames_(KernelKnowsUdpSuperFrames()),
      netlink_(std::move(netlink)),
      socket_(std::move(packets)),
      writer_(socket_.get(), PacketSocketFailure, &long_frames_),
      whole_(new uint8_t[kVlanTagSize + kLargestFrame]) {
  writer_.set_joins_udp(takes_udp_super_frames_);
  writer_.SetUp(false);
}

absl::StatusOr<std::unique_ptr<NetdevPort>> NetdevPort::Open(const std::string& name) {
  absl::StatusOr<UniqueFd> packets = OpenPacketSocket(name);
  if (!packets.ok()) return packets.status();
  UniqueFd netlink(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!netlink.valid()) return Failed("open a netlink socket for netdev", name);
  auto port =
      std::unique_ptr<NetdevPort>(new NetdevPort(name, std::move(netlink), *std::move(packets)));
  if (absl::Status status = port->Configure(); !status.ok()) return status;
  NetdevInfo info;
  if (FindNetdev(port->netlink_.get(), name, &info) == 0) {
    if (absl::Status status = port->Refusal(info); !status.ok()) return status;
  }
  port->Check();
  return port;
}

absl::Status NetdevPort::Configure() {
  const int fd = socket_.get();
  SetQueueSize(fd, SO_RCVBUFFORCE, SO_RCVBUF);
  SetQueueSize(fd, SO_SNDBUFFORCE, SO_SNDBUF);
  if (!SetOption(fd, PACKET_VNET_HDR, 1))
    return Failed("offload checksums and segmentation of netdev", name_);
  if (!SetOption(fd, PACKET_AUXDATA, 1)) return Failed("ask for the VLAN tags of netdev", name_);
  if (!SetOption(fd, PACKET_IGNORE_OUTGOING, 1))
    return Failed("ignore frames that are sent on netdev", name_);
  return TakeNothing(fd) ? absl::OkStatus() : Failed("filter the frames of netdev", name_);
}

// The name of a TAP of an agent that is a port of this bridge or bond; empty: none.
std::string NetdevPort::AgentTapIn(const NetdevInfo& info) const {
  std::string tap;
  if (info.kind != "bridge" && info.kind != "bond" && info.kind != "team") return tap;
  VisitNetdevs(netlink_.get(), [&](const NetdevInfo& other) {
    if (other.master == info.index && IsAgentTap(other)) tap = absl::CHexEscape(other.name);
  });
  return tap;
}

// An error if the netdev cannot be a port.
absl::Status NetdevPort::Refusal(const NetdevInfo& info) const {
  const std::string what = absl::StrCat("use netdev ", name_, " as a port: ");
  if (!info.ethernet)
    return absl::FailedPreconditionError(absl::StrCat(what, "it is no Ethernet interface"));
  if (IsAgentTap(info)) {
    return absl::FailedPreconditionError(
        absl::StrCat(what, "it is the TAP of ", absl::CHexEscape(info.alias),
                     ", a vPort of an agent; connect what is behind it there"));
  }
  if (const std::string tap = AgentTapIn(info); !tap.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(what, "its port ", tap, " is the TAP of a vPort, so frames would loop; use ",
                     tap, " alone, or take it out (ip link set ", tap, " nomaster)"));
  }
  if (info.master == 0) return absl::OkStatus();
  char name[IF_NAMESIZE] = "?";
  if_indextoname(static_cast<unsigned>(info.master), name);
  const std::string master = absl::CHexEscape(name);
  return absl::FailedPreconditionError(
      absl::StrCat(what, "it is a port of ", master,
                   ", which would forward its frames, too; take it out (ip link set ", name_,
                   " nomaster), or use a TAP vPort and make that a port of ", master));
}

const std::string& NetdevPort::Check() {
  tpacket_stats statistics{};
  socklen_t size = sizeof(statistics);
  if (getsockopt(socket_.get(), SOL_PACKET, PACKET_STATISTICS, &statistics, &size) == 0)
    overruns_ += statistics.tp_drops;
  NetdevInfo info;
  const int error = FindNetdev(netlink_.get(), name_, &info);
  const absl::Status refusal = error == 0 ? Refusal(info) : absl::OkStatus();
  if (error == 0 && refusal.ok()) {
    Take(info);
  } else {
    Leave();
    trouble_ = error == ENODEV ? absl::StrCat("there is no netdev ", name_,
                                              "; the vPort takes it when it is there")
               : error != 0    ? absl::StrCat("find netdev ", name_, ": ", strerror(error))
                               : std::string(refusal.message());
  }
  return trouble_;
}

void NetdevPort::Take(const NetdevInfo& info) {
  if (index_ != info.index || BoundIndex(socket_.get()) != info.index) {
    Leave();
    if (!Attach(info.index)) {
      trouble_ = absl::StrCat("take netdev ", name_, ": ", strerror(errno));
      return;
    }
  }
  mtu_.store(info.mtu, std::memory_order_relaxed);
  long_frames_.Attach(info.index, info.mtu);
  writer_.SetLargest(info.mtu + kMtuOverhead);
  trouble_ =
      !info.up ? absl::StrCat("netdev ", name_, " is down; set it up (ip link set ", name_, " up)")
      : !info.carrier ? absl::StrCat("netdev ", name_, " has no carrier; look at its other end")
                      : "";
  writer_.SetUp(trouble_.empty());
}

// Binds the socket to a netdev. The filter keeps frames out until the netdev is promiscuous.
bool NetdevPort::Attach(int index) {
  const int fd = socket_.get();
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = index;
  const int unused = 0;
  const bool attached = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
                        SetPromiscuous(fd, index, true) &&
                        setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused)) == 0;
  if (attached) index_ = index;
  return attached;
}

// The socket stays bound, because a socket that is bound to no netdev would receive from all. The
// calls fail if the netdev was deleted.
void NetdevPort::Leave() {
  writer_.SetUp(false);
  mtu_.store(0, std::memory_order_relaxed);
  if (index_ == 0) return;
  TakeNothing(socket_.get());
  SetPromiscuous(socket_.get(), index_, false);
  long_frames_.Leave();
  index_ = 0;
}

// Reads one frame. Returns an errno value, or 0.
int NetdevPort::Read(ScatterList* list, Arrival* arrival) const noexcept {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(tpacket_auxdata))> control;
  const absl::Span<iovec> parts = list->Parts(&arrival->header, sizeof(arrival->header));
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = recvmsg(socket_.get(), &message, 0);
  if (size < 0) return errno;
  arrival->truncated = (message.msg_flags & MSG_TRUNC) != 0;
  arrival->length = size < static_cast<ssize_t>(kVnetHeaderSize)
                        ? 0
                        : static_cast<uint32_t>(size - kVnetHeaderSize);
  const cmsghdr* const first = CMSG_FIRSTHDR(&message);
  if (first == nullptr || first->cmsg_type != PACKET_AUXDATA) return 0;
  tpacket_auxdata metadata;
  std::memcpy(&metadata, CMSG_DATA(first), sizeof(metadata));
  if ((metadata.tp_status & TP_STATUS_VLAN_VALID) == 0) return 0;
  const bool names_tpid = (metadata.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0;
  arrival->tag =
      uint32_t{names_tpid ? metadata.tp_vlan_tpid : kEtherTypeVlan} << 16 | metadata.tp_vlan_tci;
  return 0;
}

size_t NetdevPort::Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out,
                           PortReceiveCounts* counts) noexcept {
  ScatterList list(pool, mtu, &spill_, kTags);
  size_t received = 0;
  size_t buffers = 0;
  // The next frame may have to be divided.
  const size_t parts = MostParts(kLargestFrame, list.layout());
  const size_t room = parts == 1 ? 0 : MostBuffers(kLargestFrame, list.layout());
  // Counts tries, so the loop is bounded even if every frame is refused.
  for (size_t tries = 0; tries < out.size() && buffers < out.size() && list.Refill(); ++tries) {
    if (received != 0 &&
        (out.size() - received < parts || pool->count(BufferPool::State::kFree) < room))
      break;
    Arrival arrival;
    const int error = Read(&list, &arrival);
    if (ABSL_PREDICT_FALSE(error == EINVAL)) {
      // A super-frame of a kind that has no virtio_net_hdr, such as a tunnel's.
      ++counts->too_large;
      continue;
    }
    // Nothing is there; or ENETDOWN, once after the netdev went down.
    if (error != 0) return received;
    const size_t frames = Accept(arrival, &list, pool, out.subspan(received), counts);
    for (size_t i = 0; i < frames; ++i) buffers += out[received + i].buffers;
    received += frames;
  }
  return received;
}

// Makes a frame of what was read, or several. Returns their number; 0 if it was refused.
size_t NetdevPort::Accept(const Arrival& arrival, ScatterList* list, BufferPool* pool,
                          absl::Span<Frame> out, PortReceiveCounts* counts) noexcept {
  const absl::optional<Gso> gso = arrival.header.gso();
  if (ABSL_PREDICT_FALSE(arrival.length < kEthernetHeaderSize)) {
    ++counts->runt;
    return 0;
  }
  if (ABSL_PREDICT_FALSE(!gso.has_value() || arrival.truncated ||
                         arrival.length + arrival.tag_size() > list->largest())) {
    const bool divisible = gso.has_value() && gso->type != GsoType::kNone && !arrival.truncated;
    if (divisible && arrival.length <= kLargestFrame)
      return Divide(arrival, *gso, *list, pool, out, counts);
    ++counts->too_large;
    return 0;
  }
  Frame& frame = out[0];
  frame = list->Take(arrival.length, *gso, arrival.tag_size());
  frame.checksum_is_good = arrival.header.has_verified();
  if (ABSL_PREDICT_FALSE(!arrival.header.ReadChecksum(frame.length, &frame.checksum))) {
    ++counts->bad_checksum_request;
    pool->Free(frame.buffer);
    return 0;
  }
  if (arrival.tag == 0) return 1;
  InsertTag(frame.data, arrival.tag);
  frame.data -= kVlanTagSize;
  frame.length += kVlanTagSize;
  frame.checksum.start += frame.checksum.needed ? kVlanTagSize : 0;
  return 1;
}

size_t NetdevPort::Divide(const Arrival& arrival, const Gso& gso, const ScatterList& list,
                          BufferPool* pool, absl::Span<Frame> out,
                          PortReceiveCounts* counts) noexcept {
  uint8_t* const start = whole_.get() + kVlanTagSize;
  list.Copy(arrival.length, start);
  if (arrival.tag != 0) InsertTag(start, arrival.tag);
  Frame frame{BufferId::None(), start - arrival.tag_size(), arrival.length + arrival.tag_size()};
  frame.gso = gso;
  frame.checksum_is_good = arrival.header.has_verified();
  if (!arrival.header.checksum().needed && !ReopenChecksum(PieceReader(frame.bytes()), &frame)) {
    ++counts->bad_checksum_request;
    return 0;
  }
  const size_t parts = DivideSuperFrame(frame.bytes(), gso, list.layout(), pool, out);
  counts->too_large += parts == 0;
  return parts;
}

}  // namespace eoib
