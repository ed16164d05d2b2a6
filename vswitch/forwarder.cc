#include "vswitch/forwarder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/base/optimization.h"
#include "vswitch/wire/flow_hash.h"

namespace eoib {
namespace {

// InsertVlanTag and the EoIB header need room in front of a frame.
static_assert(BufferPool::kFrameOffset >= BufferPool::kGrhOffset + kGrhSize + kEoibHeaderSize);
static_assert(BufferPool::kGrhOffset >= kVlanTagSize, "a tag moves the GRH's place down, and it must stay in the buffer");

void PadToMinimum(Frame* frame, bool tagged) {
  const uint32_t minimum = tagged ? kMinTaggedFrameSize : kMinFrameSize;
  if (frame->length >= minimum) return;
  std::memset(frame->data + frame->length, 0, minimum - frame->length);
  frame->length = minimum;
}

DropReason StripFcs(Frame* frame) {
  if (!EndsWithFcs(frame->bytes())) return DropReason::kBadFcs;
  frame->length -= kFcsSize;
  return DropReason::kNone;
}

// Reserved groups (IEEE 802.1Q-2018 Table 8-1) end at the bridge at the other end of a link. The whole switch is one bridge,
// so it does not forward them; but STP and LLDP pass by default, as on a plain wire.
bool EndsAtLink(MacAddr destination, uint16_t group_fwd_mask) {
  const int group = LinkLocalGroup(destination);
  return group >= 0 && (group_fwd_mask >> group & 1) == 0;
}

// A control message has no tag.
bool IsControlMessage(const EthernetInfo& ethernet) { return !ethernet.tagged && ethernet.ethertype == kEtherTypeControl; }

// The Ethernet frame in a send request.
absl::Span<const uint8_t> FrameOf(const SendRequest& request) {
  return {request.payload + kEoibHeaderSize, request.length - kEoibHeaderSize};
}

bool SamePath(const Datagram& a, const Datagram& b) { return a.source() == b.source() && a.slid == b.slid; }

}  // namespace

Forwarder::Forwarder(const Options& options, const Parts& parts, const Uplink& uplink)
    : options_(options),
      parts_(parts),
      uplink_(uplink),
      peers_(parts.fdb, parts.directory, parts.punts, parts.clock, &counters_),
      moves_told_(kMovesTold, kMovesTold, parts.clock->Now()),
      damped_told_(moves_told_) {}

Forwarder::~Forwarder() {
  held_.TakeIf([this](const HeldFrames::Held& held) {
    parts_.pool->Free(held.request.buffer);
    return true;
  });
}

void Forwarder::Rebind(const Uplink& uplink) {
  if (uplink_.endpoint != nullptr && uplink_.endpoint != uplink.endpoint) {
    Housekeep();
    // Their completions will never be polled, and each copy needs a disposition.
    counters_.drop(DropReason::kSendError).Add(uplink_.endpoint->sends_in_flight());
  }
  uplink_ = uplink;
  told_of_failure_ = false;
}

uint32_t Forwarder::AddPort(Port* port, const VlanPolicy& vlan, MacAddr pinned) {
  const uint32_t index = static_cast<uint32_t>(ports_.size());
  LocalPort local;
  local.port = port;
  local.vlan = vlan;
  local.vport = parts_.directory->AddLocal(index);
  ports_.push_back(std::move(local));
  if (!pinned.IsZero()) pinned_.emplace(pinned, index);
  return index;
}

// Keeps the packets for which `step` returns kNone. Counts and frees the others.
template <typename Step>
void Forwarder::KeepIf(Step step) {
  size_t kept = 0;
  for (size_t i = 0; i < batch_size_; ++i) {
    const DropReason reason = step(&batch_[i]);
    if (ABSL_PREDICT_FALSE(reason != DropReason::kNone)) {
      Discard(batch_[i].frame.buffer, reason);
      continue;
    }
    if (kept != i) batch_[kept] = batch_[i];
    ++kept;
  }
  batch_size_ = kept;
}

void Forwarder::Discard(BufferId buffer, DropReason reason) {
  counters_.drop(reason).Add();
  parts_.pool->Free(buffer);
}

void Forwarder::CountIn(size_t frames, Counter* side) {
  counters_.frames_in.Add(frames);
  side->Add(frames);
}

// ---- Entry points -----------------------------------------------------------------------------------------------------

bool Forwarder::PollPort(uint32_t index) {
  LocalPort& port = ports_[index];
  PortReceiveCounts counts;
  const size_t received = port.port->Receive(parts_.pool, absl::MakeSpan(frames_), &counts);
  const size_t refused = counts.too_large + counts.bad_checksum_request + counts.runt;
  if (received + refused == 0) return false;
  CountIn(received + refused, &counters_.from_ports);
  counters_.drop(DropReason::kTooLarge).Add(counts.too_large);
  counters_.drop(DropReason::kBadChecksumRequest).Add(counts.bad_checksum_request);
  counters_.drop(DropReason::kRunt).Add(counts.runt);
  port.counters->received.Add(received + refused);
  for (size_t i = 0; i < received; ++i) {
    port.counters->received_bytes.Add(frames_[i].length);
    batch_[i] = Packet();
    batch_[i].frame = frames_[i];
  }
  batch_size_ = received;
  Passed(Stage::kReceive);
  ForwardFromPort(index);
  return true;
}

bool Forwarder::PollFabric() {
  if (ABSL_PREDICT_FALSE(uplink_.endpoint == nullptr)) return false;
  const size_t received = uplink_.endpoint->Receive(absl::MakeSpan(datagrams_));
  if (received != 0) {
    CountIn(received, &counters_.from_fabric);
    Passed(Stage::kReceive);
    Decapsulate(received);
    ForwardFromFabric();
  }
  // Also without frames: this posts the first receives (Worker::Start), and retries after a shortage of buffers.
  uplink_.endpoint->Refill();
  Passed(Stage::kRefill);
  return received != 0;
}

bool Forwarder::PollInjected() {
  CountNotInjected(parts_.injected->TakeRefused(), DropReason::kInjectQueueFull);
  if (parts_.injected->TakeRetryHeld()) {
    RetryHeld();
    return true;
  }
  Injected message;
  if (!parts_.injected->Pop(&message)) return false;
  ForwardInjected(message);
  return true;
}

// Counts frames that control wanted to inject as received and dropped, for the conservation law.
void Forwarder::CountNotInjected(uint64_t frames, DropReason reason) {
  if (frames == 0) return;
  CountIn(frames, &counters_.from_ports);
  counters_.drop(reason).Add(frames);
}

// Sends the held frames whose path is known, in batches.
void Forwarder::RetryHeld() {
  for (bool full = true; full;) {
    held_.TakeIf([this](const HeldFrames::Held& held) { return send_count_ != kBatch && RetryOne(held); });
    full = send_count_ == kBatch;
    FlushToFabric();
  }
}

bool Forwarder::RetryOne(const HeldFrames::Held& held) {
  const Route route = RouteTo(held.vport, FrameOf(held.request));
  if (route.ah.IsNone()) return false;
  parts_.pool->Move(held.request.buffer, BufferPool::State::kBatch);
  sends_[send_count_] = held.request;
  sends_[send_count_].ah = route.ah;
  sends_[send_count_].qpn = route.qpn;
  send_vports_[send_count_++] = held.vport;
  return true;
}

void Forwarder::ForwardInjected(const Injected& message) {
  const BufferId buffer = parts_.pool->Allocate();
  if (buffer.IsNone()) return CountNotInjected(1, DropReason::kNoBuffer);
  CountIn(1, &counters_.from_ports);
  batch_[0] = Packet();
  batch_[0].frame = {buffer, parts_.pool->Frame(buffer), message.length, {}};
  std::memcpy(batch_[0].frame.data, message.frame.data(), message.length);
  batch_size_ = 1;
  ForwardFromPort(message.port);
}

void Forwarder::Housekeep() {
  if (ABSL_PREDICT_TRUE(uplink_.endpoint != nullptr)) {
    size_t failed = 0;
    const size_t completed = uplink_.endpoint->ReapSends(&failed);
    counters_.transmitted.Add(completed - failed);
    counters_.transmitted_fabric.Add(completed - failed);
    counters_.drop(DropReason::kSendError).Add(failed);
    if (ABSL_PREDICT_FALSE(uplink_.endpoint->failed()) && !std::exchange(told_of_failure_, true)) parts_.punts->Notify();
  }
  Passed(Stage::kReap);
  if (ABSL_PREDICT_TRUE(held_.empty())) return;
  const absl::Time now = parts_.clock->Now();
  held_.TakeIf([this, now](const HeldFrames::Held& held) {
    if (now < held.deadline) return false;
    parts_.pool->Move(held.request.buffer, BufferPool::State::kBatch);
    Discard(held.request.buffer, DropReason::kUnresolved);
    return true;
  });
}

// ---- The two tables of contents ---------------------------------------------------------------------------------------

void Forwarder::ForwardFromPort(uint32_t index) {
  LocalPort& port = ports_[index];
  ParseHeaders();
  AdmitFromPort(port);
  Canonicalise();     // tag, minimum size, checksum: from here on in fabric form
  LearnLocal(&port);  // before delivery, so a reply never floods
  Resolve(index);
  Transmit(index);
}

void Forwarder::ForwardFromFabric() {
  ParseHeaders();
  AdmitFromFabric();
  LearnRemote();
  Resolve(kFabric);
  Transmit(kFabric);
}

// ---- Stages -----------------------------------------------------------------------------------------------------------

void Forwarder::Decapsulate(size_t received) {
  for (size_t i = 0; i < received; ++i) {
    batch_[i] = Packet();
    batch_[i].frame.buffer = datagrams_[i].buffer;
    batch_[i].datagram = &datagrams_[i];
  }
  batch_size_ = received;
  KeepIf([this](Packet* packet) { return DecapsulateOne(*packet->datagram, packet); });
  Passed(Stage::kDecapsulate);
}

DropReason Forwarder::DecapsulateOne(const Datagram& datagram, Packet* packet) {
  if (!datagram.ok) return DropReason::kReceiveError;
  if (!datagram.has_grh) return DropReason::kNoGrh;
  // The HCA loops our own multicast back to us.
  if (datagram.source() == uplink_.own) return DropReason::kOwnMulticast;
  // The flood group is the only one that this version joins.
  if (datagram.dgid.IsMulticast() && datagram.dgid != options_.flood_mgid.gid()) return DropReason::kGroupMismatch;
  uint8_t* frame = parts_.pool->Frame(datagram.buffer);
  EoibHeader header;
  const DropReason reason = DecodeEoibHeader({frame - kEoibHeaderSize, datagram.length}, &header);
  if (reason != DropReason::kNone) return reason;
  packet->frame.data = frame;
  packet->frame.length = datagram.length - kEoibHeaderSize;
  packet->vouched = header.l4_checksum;
  return ABSL_PREDICT_FALSE(header.fcs_present) ? StripFcs(&packet->frame) : DropReason::kNone;
}

void Forwarder::ParseHeaders() {
  KeepIf([](Packet* packet) {
    const DropReason reason = ParseEthernet(packet->frame.bytes(), &packet->ethernet);
    if (reason != DropReason::kNone) return reason;
    return packet->ethernet.source.IsGroup() || packet->ethernet.source.IsZero() ? DropReason::kBadSource : DropReason::kNone;
  });
  Passed(Stage::kParse);
}

void Forwarder::AdmitFromPort(const LocalPort& port) {
  KeepIf([this, &port](Packet* packet) { return AdmitOneFromPort(port, packet); });
  Passed(Stage::kAdmit);
}

DropReason Forwarder::AdmitOneFromPort(const LocalPort& port, Packet* packet) const {
  if (CarriesControlEtherType(packet->frame.bytes())) return DropReason::kControlEthertype;
  if (EndsAtLink(packet->ethernet.destination, options_.group_fwd_mask)) return DropReason::kLinkLocalControl;
  Vid vid;
  if (!port.vlan.Classify(packet->ethernet, &vid) || !options_.vlans.Contains(vid)) return DropReason::kVlanNotAllowed;
  packet->source = FdbKey(vid, packet->ethernet.source);
  packet->destination = FdbKey(vid, packet->ethernet.destination);
  const size_t tag = !packet->ethernet.tagged && !vid.IsUntagged() ? kVlanTagSize : 0;
  return packet->frame.length + tag > mtu() ? DropReason::kTooLarge : DropReason::kNone;
}

void Forwarder::AdmitFromFabric() {
  KeepIf([this](Packet* packet) { return AdmitOneFromFabric(packet); });
  Passed(Stage::kAdmit);
}

DropReason Forwarder::AdmitOneFromFabric(Packet* packet) const {
  const Vid vid = packet->ethernet.vid;
  if (ABSL_PREDICT_FALSE(CarriesControlEtherType(packet->frame.bytes()))) {
    return IsControlMessage(packet->ethernet) ? DropReason::kControlUnknown : DropReason::kControlEthertype;
  }
  if (EndsAtLink(packet->ethernet.destination, options_.group_fwd_mask)) return DropReason::kLinkLocalControl;
  if (!options_.vlans.Contains(vid)) return DropReason::kVlanNotAllowed;
  packet->source = FdbKey(vid, packet->ethernet.source);
  packet->destination = FdbKey(vid, packet->ethernet.destination);
  packet->frame.checksum = AcceptChecksum(packet->frame.bytes(), packet->vouched);
  return DropReason::kNone;
}

void Forwarder::Canonicalise() {
  KeepIf([this](Packet* packet) { return CanonicaliseOne(packet); });
  Passed(Stage::kCanonicalise);
}

DropReason Forwarder::CanonicaliseOne(Packet* packet) {
  const Vid vid = packet->source.vid();
  if (vid != packet->ethernet.vid) {
    if (packet->ethernet.tagged) {
      SetVlanId(packet->frame.data, vid);  // priority-tagged: the tag stays, with the VLAN's VID
    } else {
      InsertVlanTag(packet->frame.data, vid, 0);
      packet->frame.data -= kVlanTagSize;
      packet->frame.length += kVlanTagSize;
      packet->frame.checksum.start += packet->frame.checksum.needed ? kVlanTagSize : 0;
      packet->ethernet.tagged = true;
    }
  }
  PadToMinimum(&packet->frame, packet->ethernet.tagged);
  if (!packet->frame.checksum.needed) return DropReason::kNone;
  if (!PrepareChecksum(packet->frame.bytes(), packet->frame.checksum, &packet->vouched)) return DropReason::kBadChecksumRequest;
  if (packet->vouched == L4Checksum::kNone) packet->frame.checksum = {};  // PrepareChecksum completed it in the frame
  return DropReason::kNone;
}

void Forwarder::LearnLocal(LocalPort* port) {
  // A later port-down then has something to flush (CountLost).
  port->has_stations = true;
  for (size_t i = 0; i < batch_size_; ++i) {
    keys_[i] = batch_[i].source;
    vports_[i] = batch_[i].from = port->vport;
  }
  LearnBatch(FdbOrigin::kLocalLearned);
  Passed(Stage::kLearn);
}

void Forwarder::LearnRemote() {
  for (size_t i = 0; i < batch_size_; ++i) {
    keys_[i] = batch_[i].source;
    const bool same = i > 0 && SamePath(*batch_[i].datagram, *batch_[i - 1].datagram);  // peers send in bursts
    vports_[i] = batch_[i].from = same ? vports_[i - 1] : peers_.VPortOf(*batch_[i].datagram, keys_[i]);
  }
  LearnBatch(FdbOrigin::kRemoteLearned);
  Passed(Stage::kLearn);
}

// keys_[i] was heard from vports_[i]. Refreshes known sources, and learns the others one by one. A pinned MAC is never learned
// elsewhere, so an impostor's frame is always among the others, and known sources do not pay for the check.
void Forwarder::LearnBatch(FdbOrigin origin) {
  const size_t stale = parts_.fdb->Refresh({keys_.data(), batch_size_}, {vports_.data(), batch_size_}, absl::MakeSpan(stale_));
  bool any_impostor = false;
  for (size_t i = 0; i < stale; ++i) {
    const size_t at = stale_[i];
    if (ABSL_PREDICT_FALSE(IsPinnedElsewhere(keys_[at], vports_[at]))) {
      any_impostor = batch_[at].is_impostor = true;
      continue;
    }
    if (vports_[at].IsNone()) {  // directory or port quota full: deliver its frames, let its MACs flood
      counters_.unknown_senders.Add();
      continue;
    }
    if (origin == FdbOrigin::kRemoteLearned) FollowRestart(at);
    LearnOne(keys_[at], vports_[at], origin);
  }
  if (ABSL_PREDICT_TRUE(!any_impostor)) return;
  KeepIf([](Packet* packet) { return packet->is_impostor ? DropReason::kPinnedMac : DropReason::kNone; });
}

bool Forwarder::IsPinnedElsewhere(FdbKey source, VPortId from) const {
  const auto pinned = pinned_.find(source.mac());
  if (ABSL_PREDICT_TRUE(pinned == pinned_.end())) return false;
  const LocalPort& port = ports_[pinned->second];
  bool strip;
  return port.vport != from && port.vlan.Egress(source.vid(), &strip);
}

// If the newcomer at `at` is a restarted agent, replaces its vPort in the rest of the batch by the agent's former one.
void Forwarder::FollowRestart(size_t at) {
  const VPortId newcomer = vports_[at];
  const VPortId vport = peers_.Follow(newcomer, keys_[at]);
  if (ABSL_PREDICT_TRUE(vport == newcomer)) return;
  std::replace(vports_.begin() + static_cast<ptrdiff_t>(at), vports_.begin() + static_cast<ptrdiff_t>(batch_size_), newcomer,
               vport);
}

void Forwarder::LearnOne(FdbKey key, VPortId vport, FdbOrigin origin) {
  const Fdb::LearnResult result = parts_.fdb->Learn(key, vport, origin);
  using Damped = Fdb::Damped;
  const bool moved = result.what == Fdb::Learned::kMoved;
  if (!moved && result.damped == Damped::kNo) return;
  if (origin == FdbOrigin::kRemoteLearned && peers_.AreOneAgents(vport, result.previous)) return parts_.fdb->ForgiveMove(key);
  const absl::Time now = parts_.clock->Now();
  const auto tell = [&](Punt::Kind kind, TokenBucket* told) {
    if (told->Take(now)) SendPunt({kind, vport, result.previous, {}, {}, {}, key}, parts_.punts, &counters_);
  };
  if (moved) tell(Punt::Kind::kMoved, &moves_told_);
  if (result.damped == Damped::kFrozen) tell(Punt::Kind::kFrozen, &damped_told_);
  if (result.damped == Damped::kFlapping) tell(Punt::Kind::kFlapping, &damped_told_);
}

void Forwarder::Resolve(uint32_t ingress) {
  for (size_t i = 0; i < batch_size_; ++i) keys_[i] = batch_[i].destination;
  parts_.fdb->Find({keys_.data(), batch_size_}, absl::MakeSpan(vports_));
  for (size_t i = 0; i < batch_size_; ++i) batch_[i].to = vports_[i];
  KeepIf([this, ingress](Packet* packet) { return ResolveOne(ingress, packet); });
  Passed(Stage::kResolve);
}

// Finds the egress of one frame and applies split horizon.
DropReason Forwarder::ResolveOne(uint32_t ingress, Packet* packet) const {
  const bool group = packet->ethernet.destination.IsGroup();
  if (group) packet->to = VPortId::None();
  if (packet->to.IsNone()) {
    return FloodReachesSomebody(ingress, packet->destination.vid()) ? DropReason::kNone : DropReason::kNoEgress;
  }
  const Route route = parts_.directory->Get(packet->to);
  switch (route.kind) {
    case Route::Kind::kLocal:
      return route.local_port == ingress ? DropReason::kSamePort : DropReason::kNone;
    case Route::Kind::kRemote:
    case Route::Kind::kAggregate:
      return ingress == kFabric ? DropReason::kFabricToFabric : DropReason::kNone;
    case Route::Kind::kNone:
      break;
  }
  packet->to = VPortId::None();  // the vPort was removed while the entry still names it: flood
  return FloodReachesSomebody(ingress, packet->destination.vid()) ? DropReason::kNone : DropReason::kNoEgress;
}

bool Forwarder::FloodReachesSomebody(uint32_t ingress, Vid vid) const {
  if (ingress != kFabric) return true;  // a flood from a port always goes to the fabric
  bool strip;
  return std::any_of(ports_.begin(), ports_.end(), [&](const LocalPort& port) { return port.vlan.Egress(vid, &strip); });
}

void Forwarder::Transmit(uint32_t ingress) {
  counters_.forwarded.Add(batch_size_);
  for (size_t i = 0; i < batch_size_; ++i) {
    Packet& packet = batch_[i];
    if (packet.to.IsNone()) {
      (packet.ethernet.destination.IsGroup() ? counters_.flooded_group : counters_.flooded_unknown).Add();
      TransmitFlood(ingress, &packet);
    } else {
      counters_.known_unicast.Add();
      TransmitKnown(&packet);
    }
  }
  Passed(Stage::kTransmit);
  for (LocalPort& port : ports_) FlushToPort(&port);
  FlushToFabric();
  Passed(Stage::kFlush);
}

// Local copies go first: the send to the fabric takes the buffer over.
void Forwarder::TransmitFlood(uint32_t ingress, Packet* packet) {
  const bool from_fabric = ingress == kFabric;
  for (uint32_t i = 0; i < ports_.size(); ++i) {
    bool strip;
    // Limited members of a partition must not reach each other, also on one host.
    if (i == ingress || (!from_fabric && uplink_.limited_member)) continue;
    if (!ports_[i].vlan.Egress(packet->destination.vid(), &strip)) continue;
    counters_.egress_copies.Add();
    TransmitToPort(&ports_[i], *packet, strip);
  }
  if (from_fabric) {
    parts_.pool->Free(packet->frame.buffer);
    return;
  }
  counters_.egress_copies.Add();
  const Route flood = FloodRoute();
  if (flood.ah.IsNone()) {
    Discard(packet->frame.buffer, DropReason::kFabricDown);
  } else {
    QueueToFabric(packet, VPortId::None(), flood.ah, flood.qpn);
  }
}

Route Forwarder::FloodRoute() const {
  return {.kind = Route::Kind::kRemote, .qpn = Qpn(Qpn::kMulticast), .ah = AhIndex(flood_ah_.load(std::memory_order_acquire))};
}

// For an aggregate, the route to the address that takes the frame's flow.
Route Forwarder::RouteTo(VPortId vport, absl::Span<const uint8_t> frame) const {
  return parts_.directory->Get(vport, [this, frame] { return FlowHash(options_.flow_seed, frame); });
}

void Forwarder::TransmitKnown(Packet* packet) {
  counters_.egress_copies.Add();
  const Route route = RouteTo(packet->to, packet->frame.bytes());
  if (route.kind == Route::Kind::kRemote) return QueueToFabric(packet, packet->to, route.ah, route.qpn);
  // The vPort was removed after Resolve.
  if (ABSL_PREDICT_FALSE(route.kind == Route::Kind::kNone)) return Discard(packet->frame.buffer, DropReason::kUnresolved);
  LocalPort& port = ports_[route.local_port];
  bool strip = false;
  if (packet->datagram == nullptr && uplink_.limited_member) {
    counters_.drop(DropReason::kIsolated).Add();
  } else if (!port.vlan.Egress(packet->destination.vid(), &strip)) {
    counters_.drop(DropReason::kEgressVlan).Add();
  } else {
    TransmitToPort(&port, *packet, strip);
  }
  parts_.pool->Free(packet->frame.buffer);
}

void Forwarder::TransmitToPort(LocalPort* port, const Packet& packet, bool strip) {
  strip &= packet.ethernet.tagged;
  // If another tag follows the native VLAN's tag, removing the first would put the frame into the inner tag's VLAN. So on a
  // trunk the tag stays; its meaning is the same. An access port knows one VLAN only, so there the inner tag is payload.
  if (packet.ethernet.ethertype == kEtherTypeVlan && port->vlan.mode == PortMode::kTrunk) strip = false;
  const DropReason reason = port->port->Transmit(packet.frame, strip);
  if (ABSL_PREDICT_TRUE(reason == DropReason::kNone)) {
    ++port->taken;
    port->taken_bytes += packet.frame.length;
  } else {
    CountLost(port, 1, reason);
  }
}

void Forwarder::FlushToPort(LocalPort* port) {
  if (port->taken == 0) return;
  DropReason reason;
  const size_t lost = port->port->Flush(&reason);
  if (ABSL_PREDICT_FALSE(lost != 0)) CountLost(port, lost, reason);
  counters_.transmitted.Add(port->taken - lost);
  port->counters->transmitted.Add(port->taken - lost);
  port->counters->transmitted_bytes.Add(port->taken_bytes);
  port->taken = port->taken_bytes = 0;
}

// Flushes the MACs learned on a port when it goes down, once: they may be reachable through another port, as behind a bridge
// with two links. Frames for them flood until they are heard again.
void Forwarder::CountLost(LocalPort* port, size_t frames, DropReason reason) {
  counters_.drop(reason).Add(frames);
  port->counters->dropped.Add(frames);
  if (reason != DropReason::kPortDown || !port->has_stations) return;
  parts_.fdb->FlushLearned(port->vport);
  port->has_stations = false;
}

void Forwarder::QueueToFabric(Packet* packet, VPortId vport, AhIndex ah, Qpn qpn) {
  uint8_t* payload = packet->frame.data - kEoibHeaderSize;
  if (options_.header_form == HeaderForm::kAlternative && packet->vouched != L4Checksum::kNone) {
    // The alternative header cannot vouch for a checksum. Local copies have been written already, so the frame may change.
    CompleteChecksum(packet->frame.bytes(), packet->frame.checksum);
    packet->vouched = L4Checksum::kNone;
  }
  EncodeEoibHeader({options_.header_form, packet->vouched, false}, payload);
  if (packet->vouched != L4Checksum::kNone) counters_.checksums_vouched.Add();
  const SendRequest request{packet->frame.buffer, payload, packet->frame.length + static_cast<uint32_t>(kEoibHeaderSize), ah,
                            qpn};
  if (ah.IsNone()) {
    Hold(request, vport);
    return;
  }
  sends_[send_count_] = request;
  send_vports_[send_count_++] = vport;
}

void Forwarder::Hold(const SendRequest& request, VPortId vport) {
  // One punt for each vPort is enough, not one per frame.
  if (!held_.Has(vport)) SendPunt({Punt::Kind::kUnresolved, vport, VPortId::None(), {}, {}, {}, {}}, parts_.punts, &counters_);
  if (!held_.Add({vport, request, parts_.clock->Now() + options_.hold})) {
    Discard(request.buffer, DropReason::kUnresolved);
    return;
  }
  parts_.pool->Move(request.buffer, BufferPool::State::kHeld);
}

// Control may have replaced an address handle after the frame's route was looked up. The send then fails as unresolved, while
// the directory already has the new handle (or another address of the aggregate). Such frames are sent once more.
void Forwarder::FlushToFabric() {
  for (bool first = true; send_count_ != 0; first = false) {
    if (ABSL_PREDICT_TRUE(uplink_.endpoint != nullptr)) {
      uplink_.endpoint->Send({sends_.data(), send_count_}, absl::MakeSpan(results_));
    } else {
      results_.fill(DropReason::kFabricDown);
    }
    const size_t count = std::exchange(send_count_, 0);
    for (size_t i = 0; i < count; ++i) {
      if (ABSL_PREDICT_TRUE(results_[i] == DropReason::kNone)) continue;
      if (first && results_[i] == DropReason::kUnresolved && FollowsHandle(&sends_[i], send_vports_[i])) {
        sends_[send_count_] = sends_[i];
        send_vports_[send_count_++] = send_vports_[i];
        continue;
      }
      const bool group_left = results_[i] == DropReason::kUnresolved && send_vports_[i].IsNone();
      Discard(sends_[i].buffer, group_left ? DropReason::kFabricDown : results_[i]);
    }
  }
}

bool Forwarder::FollowsHandle(SendRequest* request, VPortId vport) const {
  const Route now = vport.IsNone() ? FloodRoute() : RouteTo(vport, FrameOf(*request));
  if (now.ah.IsNone() || now.ah == request->ah) return false;
  request->ah = now.ah;
  request->qpn = now.qpn;
  return true;
}

}  // namespace eoib
