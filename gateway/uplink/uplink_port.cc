#include "gateway/uplink/uplink_port.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/base/ethertype.h"
#include "vswitch/base/event_fd.h"
#include "vswitch/wire/ip/arp.h"
#include "vswitch/wire/ip/neighbor_discovery.h"
#include "vswitch/wire/super_frame.h"

namespace eoib::gateway {
namespace {

constexpr uint16_t kEtherTypeLldp = 0x88cc;
constexpr uint16_t kEtherTypeSlow = 0x8809;
constexpr int kStpGroup = 0, kSlowGroup = 2;
const MacAddr kPvstGroup = MacAddr::FromUint64(0x01'00'0c'cc'cc'cd);  // bridge PDUs for each VLAN

// Whether reflected frames to this address are dropped. Bridge PDUs are not: a bridge of the VES
// that hears its own knows of the loop by that.
bool IsStationGroup(MacAddr destination) {
  return destination.IsGroup() && LinkLocalGroup(destination) < 0 && destination != kPvstGroup;
}

// The size of the IP packet in a frame, behind all tags; of a super-frame, that of the largest
// packet that it is cut into.
size_t LargestPacket(const Frame& frame) {
  const size_t before = PayloadBehindTags(frame.bytes());
  if (frame.gso.type == GsoType::kNone) return frame.total() - before;
  const L4Location l4 = FindL4(frame.bytes(), frame.total());
  if (l4.kind == L4Checksum::kNone) return frame.total() - before;
  return l4.l4 + L4HeaderSize(frame.bytes(), l4) + frame.gso.size - before;
}

void RemoveTag(Frame* frame) {
  RemoveVlanTag(frame->data);
  frame->data += kVlanTagSize;
  frame->length -= kVlanTagSize;
  frame->checksum.start -= frame->checksum.needed ? kVlanTagSize : 0;
}

void InsertTag(Frame* frame, Vid vid) {
  InsertVlanTag(frame->data, vid, 0);
  frame->data -= kVlanTagSize;
  frame->length += kVlanTagSize;
  frame->checksum.start += frame->checksum.needed ? kVlanTagSize : 0;
}

}  // namespace

UplinkPort::UplinkPort(const UplinkConfig& config, std::unique_ptr<NetdevPort> netdev, MacAddr own,
                       const Clock* clock)
    : config_(config),
      netdev_(std::move(netdev)),
      clock_(clock),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(MakeEventFd()),
      answer_(config.icmp_sources, own, clock->Now()) {}

void UplinkPort::Change(const UplinkConfig& config) {
  config_ = config;
  answer_.SetSources(config.icmp_sources);
}

absl::StatusOr<std::unique_ptr<UplinkPort>> UplinkPort::Create(const UplinkConfig& config,
                                                               std::unique_ptr<NetdevPort> netdev,
                                                               MacAddr own, const Clock* clock) {
  auto port = std::unique_ptr<UplinkPort>(new UplinkPort(config, std::move(netdev), own, clock));
  if (absl::Status status = port->Watch(); !status.ok()) return status;
  return port;
}

absl::Status UplinkPort::Watch() {
  for (const int fd : {wake_.get(), netdev_->receive_fd()}) {
    epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) continue;
    return absl::ErrnoToStatus(errno, absl::StrCat("uplink ", config_.name, ": wait for frames"));
  }
  return absl::OkStatus();
}

bool UplinkPort::HasLease() {
  const bool has = absl::ToUnixNanos(clock_->Now()) < lease_.load(std::memory_order_acquire);
  if (ABSL_PREDICT_FALSE(!has)) counters_.lease_over.Add();
  return has;
}

// The worker will call Receive, which hands the pending frames over.
void UplinkPort::Wake() {
  woken_ = true;
  RingEventFd(wake_.get());
}

// The bytes of a frame in one piece, valid until the next call.
absl::Span<const uint8_t> UplinkPort::Whole(const BufferPool* pool, const Frame& frame) {
  if (pool == nullptr || frame.buffers == 1) return frame.bytes();
  whole_.clear();
  VisitPieces(*pool, frame, [this](absl::Span<const uint8_t> piece) {
    whole_.insert(whole_.end(), piece.begin(), piece.end());
  });
  return whole_;
}

// Reserved groups that the uplink's configuration names. group_fwd_mask of the VES decides on all
// others.
bool UplinkPort::PassesGroup(const EthernetInfo& ethernet) const {
  if (ABSL_PREDICT_TRUE(!ethernet.destination.IsGroup())) return true;
  const int group = LinkLocalGroup(ethernet.destination);
  if (ABSL_PREDICT_TRUE(group < 0 && ethernet.destination != kPvstGroup)) return true;
  if (ethernet.ethertype == kEtherTypeLldp) return config_.pass_lldp;
  if (ethernet.ethertype == kEtherTypeSlow || group == kSlowGroup) return config_.pass_slow;
  return group > kStpGroup || config_.pass_stp;
}

// ---- From the wire ------------------------------------------------------------------------------

size_t UplinkPort::Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out,
                           PortReceiveCounts* counts) noexcept {
  leased_ = HasLease();
  if (ABSL_PREDICT_FALSE(std::exchange(woken_, false))) ClearEventFd(wake_.get());
  size_t kept = HandPending(pool, out);
  const size_t received = netdev_->Receive(pool, mtu, out.subspan(kept), counts);
  const uint64_t errors = answer_.sent();
  for (size_t i = kept, end = kept + received; i < end; ++i) {
    Frame frame = out[i];
    if (AcceptFromWire(*pool, mtu, &frame, counts)) {
      out[kept++] = frame;
    } else {
      pool->Free(frame.buffer);
    }
  }
  if (ABSL_PREDICT_FALSE(answer_.sent() != errors)) {
    DropReason reason;
    netdev_->Flush(&reason);
  }
  if (!pending_.empty()) Wake();
  return kept;
}

// Decides on a frame, and puts it into the VES's VLAN.
bool UplinkPort::AcceptFromWire(const BufferPool& pool, uint32_t ves_mtu, Frame* frame,
                                PortReceiveCounts* counts) {
  EthernetInfo ethernet;
  if (ABSL_PREDICT_FALSE(ParseEthernet(frame->bytes(), &ethernet) != DropReason::kNone))
    return true;  // the forwarder counts it
  if (ABSL_PREDICT_FALSE(ethernet.ethertype == kEtherTypeControl)) {
    counters_.hello_frames_seen.Add();
    return false;
  }
  if (ABSL_PREDICT_FALSE(!PassesGroup(ethernet))) {
    ++counts->link_local_control;
    return false;
  }
  if (LinkLocalGroup(ethernet.destination) < 0) heard_.store(true, std::memory_order_relaxed);
  const absl::optional<Vid> ves = config_.vlans.ToVes(ethernet.vid);
  if (!ves.has_value()) {
    ++counts->vlan_not_allowed;
    return false;
  }
  if (!MayForward(*ves)) {
    counters_.standby_from_wire.Add();
    ++counts->standby;
    return false;
  }
  if (IsStationGroup(ethernet.destination) &&
      reflections_.IsReflection(frame->bytes(), ethernet, *ves, clock_->Now())) {
    counters_.reflected.Add();
    return false;
  }
  const size_t limit =
      config_.mtu.has_value() ? static_cast<size_t>(*config_.mtu) : ves_mtu - kMtuOverhead;
  if (ABSL_PREDICT_FALSE(frame->total() > limit) && LargestPacket(*frame) > limit) {
    counters_.too_big_from_wire.Add();
    ++counts->too_large;
    AnswerWire(pool, *frame, limit);
    return false;
  }
  counters_.from_wire.Add();
  // Untagged frames are in the port's native VLAN, and the forwarder inserts that tag.
  if (!ethernet.tagged || ethernet.vid == *ves || ethernet.vid.IsUntagged()) return true;
  // A tag behind a tag that goes would put the frame into the inner VLAN.
  const bool hides_tag = ethernet.ethertype == kEtherTypeVlan;
  ves->IsUntagged() && !hides_tag ? RemoveTag(frame) : SetVlanId(frame->data, *ves);
  return true;
}

void UplinkPort::AnswerWire(const BufferPool& pool, const Frame& frame, size_t mtu) {
  std::vector<uint8_t> answer = answer_.For(Whole(&pool, frame), mtu, clock_->Now());
  if (answer.empty()) return;
  counters_.too_big_errors_sent.Add();
  netdev_->Transmit({BufferId::None(), answer.data(), static_cast<uint32_t>(answer.size())},
                    /*strip_tag=*/false);
}

// Frames of the uplink itself for the VES.
size_t UplinkPort::HandPending(BufferPool* pool, absl::Span<Frame> out) {
  size_t count = 0;
  for (; !pending_.empty() && count < out.size() / 2; pending_.pop_front()) {
    const std::vector<uint8_t>& bytes = pending_.front();
    if (bytes.size() > pool->frame_size()) continue;
    const BufferId buffer = pool->Allocate();
    if (buffer.IsNone()) break;
    out[count] = {buffer, pool->Frame(buffer), static_cast<uint32_t>(bytes.size())};
    std::memcpy(out[count++].data, bytes.data(), bytes.size());
  }
  return count;
}

// ---- To the wire --------------------------------------------------------------------------------

// Whether the frame of a station may leave, if their number is limited.
bool UplinkPort::ShowsMac(FdbKey source) {
  if (ABSL_PREDICT_TRUE(!config_.ves_macs.has_value())) return true;
  const absl::Time now = clock_->Now();
  const auto known = shown_.find(source);
  if (known != shown_.end()) {
    known->second = now;
    return true;
  }
  if (shown_.size() >= *config_.ves_macs) {
    absl::erase_if(shown_, [now](const auto& mac) { return mac.second + kForgetMac < now; });
  }
  if (shown_.size() >= *config_.ves_macs) return false;
  shown_.emplace(source, now);
  return true;
}

// Control advertises these addresses after a failover. They come in broadcasts, so a gateway that
// stands by hears them, too.
void UplinkPort::NoteAddress(const Frame& frame, const EthernetInfo& ethernet) {
  const FdbKey station(ethernet.vid, ethernet.source);
  const absl::Span<const uint8_t> payload = frame.bytes().subspan(ethernet.payload);
  if (ethernet.ethertype == kEtherTypeArp) {
    const absl::optional<EthernetArp> arp = ParseEthernetArp(payload);
    if (arp && arp->sender == ethernet.source && arp->sender_ip != Ipv4Addr())
      addresses_.Push({station, IpAddr(arp->sender_ip)});
    return;
  }
  NdMessage message;
  if (ParseNeighborDiscovery(payload, &message) != NdVerdict::kGood) return;
  const IpAddr ip(message.type == NdType::kNeighborAdvertisement ? message.target : message.source);
  if (ip.CanBeHost()) addresses_.Push({station, ip});
}

void UplinkPort::AnswerVes(const BufferPool* pool, const Frame& frame, size_t mtu) {
  if (pending_.size() == kMaxPending) return;
  std::vector<uint8_t> answer = answer_.For(Whole(pool, frame), mtu, clock_->Now());
  if (answer.empty()) return;
  counters_.too_big_errors_sent.Add();
  pending_.push_back(std::move(answer));
  Wake();
}

DropReason UplinkPort::CheckToWire(const BufferPool* pool, const Frame& frame,
                                   const EthernetInfo& ethernet) {
  if (ABSL_PREDICT_FALSE(!netdev_->up())) return DropReason::kPortDown;
  const bool tells =
      ethernet.ethertype == kEtherTypeArp ||
      (ethernet.ethertype == kEtherTypeIpv6 && frame.length > ethernet.payload + 40u &&
       frame.data[ethernet.payload + 6] == 58);  // ICMPv6
  if (ABSL_PREDICT_FALSE(tells)) NoteAddress(frame, ethernet);
  if (!MayForward(ethernet.vid)) {
    counters_.standby_to_wire.Add();
    return DropReason::kPortStandby;
  }
  if (ABSL_PREDICT_FALSE(!PassesGroup(ethernet))) return DropReason::kPortFiltered;
  if (ABSL_PREDICT_FALSE(!ShowsMac(FdbKey(ethernet.vid, ethernet.source))))
    return DropReason::kPortMacLimit;
  const uint32_t mtu = netdev_->mtu();
  if (ABSL_PREDICT_FALSE(frame.total() > mtu) && LargestPacket(frame) > mtu) {
    counters_.too_big_to_wire.Add();
    AnswerVes(pool, frame, mtu);
    return DropReason::kPortTooLarge;
  }
  return DropReason::kNone;
}

// Calls `send` with the frame in its VLAN of the wire. Other ports may get the same frame, so it is
// put back afterwards.
template <typename Send>
DropReason UplinkPort::ToWire(const BufferPool* pool, const Frame& frame, bool strip_tag,
                              Send send) {
  if (!transmitting_) leased_ = HasLease();
  EthernetInfo ethernet;
  if (ABSL_PREDICT_FALSE(ParseEthernet(frame.bytes(), &ethernet) != DropReason::kNone))
    return DropReason::kPortError;
  if (const DropReason reason = CheckToWire(pool, frame, ethernet); reason != DropReason::kNone)
    return reason;
  const absl::optional<Vid> mapped = config_.vlans.ToWire(ethernet.vid);
  if (ABSL_PREDICT_FALSE(!mapped.has_value())) return DropReason::kEgressVlan;
  const Vid wire = *mapped;
  DropReason reason;
  if (strip_tag || wire == ethernet.vid) {
    reason = send(frame, strip_tag);
  } else if (ethernet.tagged) {
    // 0 (a priority tag) if another tag follows: that is payload of the native VLAN.
    SetVlanId(frame.data, wire);
    reason = send(frame, false);
    SetVlanId(frame.data, ethernet.vid);
  } else {
    Frame tagged = frame;
    InsertTag(&tagged, wire);
    reason = send(tagged, false);
    RemoveVlanTag(tagged.data);
  }
  if (reason != DropReason::kNone) return reason;
  if (IsStationGroup(ethernet.destination))
    reflections_.Sent(frame.bytes(), ethernet, ethernet.vid, clock_->Now());
  counters_.to_wire.Add();
  transmitting_ = true;  // Flush will follow
  return reason;
}

DropReason UplinkPort::Transmit(const Frame& frame, bool strip_tag) noexcept {
  return ToWire(nullptr, frame, strip_tag,
                [this](const Frame& wire, bool strip) { return netdev_->Transmit(wire, strip); });
}

DropReason UplinkPort::TransmitLarge(const BufferPool& pool, const Frame& frame,
                                     bool strip_tag) noexcept {
  return ToWire(&pool, frame, strip_tag, [this, &pool](const Frame& wire, bool strip) {
    return netdev_->TransmitLarge(pool, wire, strip);
  });
}

size_t UplinkPort::Flush(DropReason* reason) noexcept {
  transmitting_ = false;
  return netdev_->Flush(reason);
}

}  // namespace eoib::gateway
