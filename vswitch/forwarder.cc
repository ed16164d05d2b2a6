#include "vswitch/forwarder.h"

#include <algorithm>
#include <cstring>

#include "absl/base/optimization.h"
#include "vswitch/wire/checksum.h"
#include "vswitch/wire/eoib_header.h"

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

DropReason AdmitOneFromFabric(const Forwarder::Options& options, Packet* packet) {
  const Vid vid = packet->ethernet.vid;
  if (ABSL_PREDICT_FALSE(CarriesControlEtherType(packet->frame.bytes(), packet->ethernet))) {
    return IsControlMessage(packet->ethernet) ? DropReason::kControlUnknown : DropReason::kControlEthertype;
  }
  if (EndsAtLink(packet->ethernet.destination, options.group_fwd_mask)) return DropReason::kLinkLocalControl;
  if (!options.vlans.Contains(vid)) return DropReason::kVlanNotAllowed;
  packet->source = FdbKey(vid, packet->ethernet.source);
  packet->destination = FdbKey(vid, packet->ethernet.destination);
  packet->frame.checksum = AcceptChecksum(packet->frame.bytes(), packet->vouched);
  return DropReason::kNone;
}

// Brings a frame from a port into its fabric form: tag, minimum size, checksum.
DropReason CanonicaliseOne(Packet* packet) {
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

// True if a flood in `vid` leaves at one of the ports.
bool AnyCarries(const std::vector<LocalPort>& ports, Vid vid) {
  bool strip;
  return std::any_of(ports.begin(), ports.end(), [&](const LocalPort& port) { return port.vlan.Egress(vid, &strip); });
}

}  // namespace

Forwarder::Forwarder(const Options& options, const Dependencies& dependencies, const Uplink& uplink)
    : options_(options),
      pool_(dependencies.pool),
      fdb_(dependencies.fdb),
      directory_(dependencies.directory),
      injected_(dependencies.injected),
      learner_(fdb_, directory_, dependencies.punts, dependencies.clock, &counters_),
      fabric_({options.header_form, options.hold, options.flow_seed}, pool_, directory_, dependencies.punts, dependencies.clock,
              &counters_),
      batch_(pool_, &counters_) {
  Rebind(uplink);
}

void Forwarder::Rebind(const Uplink& uplink) {
  uplink_ = uplink;
  fabric_.SetEndpoint(uplink.endpoint);
}

uint32_t Forwarder::AddPort(Port* port, const VlanPolicy& vlan, MacAddr pinned) {
  const uint32_t index = static_cast<uint32_t>(ports_.size());
  LocalPort& local = ports_.emplace_back();
  local.port = port;
  local.vlan = vlan;
  local.vport = directory_->AddLocal(index);
  if (!pinned.IsZero()) learner_.Pin(pinned, local.vport, vlan);
  return index;
}

void Forwarder::CountIn(size_t frames, Counter* side) {
  counters_.frames_in.Add(frames);
  side->Add(frames);
}

bool Forwarder::PollPort(uint32_t index) {
  LocalPort& port = ports_[index];
  PortReceiveCounts counts;
  const size_t received = port.port->Receive(pool_, absl::MakeSpan(frames_), &counts);
  const size_t refused = counts.too_large + counts.bad_checksum_request + counts.runt;
  if (received + refused == 0) return false;
  CountIn(received + refused, &counters_.from_ports);
  counters_.drop(DropReason::kTooLarge).Add(counts.too_large);
  counters_.drop(DropReason::kBadChecksumRequest).Add(counts.bad_checksum_request);
  counters_.drop(DropReason::kRunt).Add(counts.runt);
  port.counters->received.Add(received + refused);
  batch_.Start(received);
  for (size_t i = 0; i < received; ++i) {
    port.counters->received_bytes.Add(frames_[i].length);
    batch_[i].frame = frames_[i];
  }
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
  CountNotInjected(injected_->TakeRefused(), DropReason::kInjectQueueFull);
  if (injected_->TakeRetryHeld()) {
    fabric_.RetryHeld();
    return true;
  }
  Injected message;
  if (!injected_->Pop(&message)) return false;
  const BufferId buffer = pool_->Allocate();
  if (buffer.IsNone()) {
    CountNotInjected(1, DropReason::kNoBuffer);
    return true;
  }
  CountIn(1, &counters_.from_ports);
  batch_.Start(1);
  batch_[0].frame = {buffer, pool_->Frame(buffer), message.length, {}};
  std::memcpy(batch_[0].frame.data, message.frame.data(), message.length);
  ForwardFromPort(message.port);
  return true;
}

// Counts frames that control wanted to inject as received and dropped, for the conservation law.
void Forwarder::CountNotInjected(uint64_t frames, DropReason reason) {
  if (frames == 0) return;
  CountIn(frames, &counters_.from_ports);
  counters_.drop(reason).Add(frames);
}

void Forwarder::Housekeep() {
  fabric_.Reap();
  Passed(Stage::kReap);
  fabric_.DropExpired();
}

// The two tables of contents.

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

void Forwarder::Decapsulate(size_t received) {
  batch_.Start(received);
  for (size_t i = 0; i < received; ++i) {
    batch_[i].frame.buffer = datagrams_[i].buffer;
    batch_[i].datagram = &datagrams_[i];
  }
  batch_.KeepIf([this](Packet* packet) { return DecapsulateOne(*packet->datagram, packet); });
  Passed(Stage::kDecapsulate);
}

DropReason Forwarder::DecapsulateOne(const Datagram& datagram, Packet* packet) const {
  if (!datagram.ok) return DropReason::kReceiveError;
  if (!datagram.has_grh) return DropReason::kNoGrh;
  // The HCA loops our own multicast back to us.
  if (datagram.source() == uplink_.own) return DropReason::kOwnMulticast;
  // The flood group is the only one that this version joins.
  if (datagram.dgid.IsMulticast() && datagram.dgid != options_.flood_mgid.gid()) return DropReason::kGroupMismatch;
  uint8_t* frame = pool_->Frame(datagram.buffer);
  EoibHeader header;
  const DropReason reason = DecodeEoibHeader({frame - kEoibHeaderSize, datagram.length}, &header);
  if (reason != DropReason::kNone) return reason;
  packet->frame.data = frame;
  packet->frame.length = datagram.length - kEoibHeaderSize;
  packet->vouched = header.l4_checksum;
  return ABSL_PREDICT_FALSE(header.fcs_present) ? StripFcs(&packet->frame) : DropReason::kNone;
}

void Forwarder::ParseHeaders() {
  batch_.KeepIf([](Packet* packet) {
    const DropReason reason = ParseEthernet(packet->frame.bytes(), &packet->ethernet);
    if (reason != DropReason::kNone) return reason;
    return packet->ethernet.source.IsGroup() || packet->ethernet.source.IsZero() ? DropReason::kBadSource : DropReason::kNone;
  });
  Passed(Stage::kParse);
}

void Forwarder::AdmitFromPort(const LocalPort& port) {
  batch_.KeepIf([this, &port](Packet* packet) { return AdmitOneFromPort(port, packet); });
  Passed(Stage::kAdmit);
}

DropReason Forwarder::AdmitOneFromPort(const LocalPort& port, Packet* packet) const {
  if (CarriesControlEtherType(packet->frame.bytes(), packet->ethernet)) return DropReason::kControlEthertype;
  if (EndsAtLink(packet->ethernet.destination, options_.group_fwd_mask)) return DropReason::kLinkLocalControl;
  Vid vid;
  if (!port.vlan.Classify(packet->ethernet, &vid) || !options_.vlans.Contains(vid)) return DropReason::kVlanNotAllowed;
  packet->source = FdbKey(vid, packet->ethernet.source);
  packet->destination = FdbKey(vid, packet->ethernet.destination);
  const size_t tag = !packet->ethernet.tagged && !vid.IsUntagged() ? kVlanTagSize : 0;
  return packet->frame.length + tag > mtu() ? DropReason::kTooLarge : DropReason::kNone;
}

void Forwarder::AdmitFromFabric() {
  batch_.KeepIf([this](Packet* packet) { return AdmitOneFromFabric(options_, packet); });
  Passed(Stage::kAdmit);
}

void Forwarder::Canonicalise() {
  batch_.KeepIf([](Packet* packet) { return CanonicaliseOne(packet); });
  Passed(Stage::kCanonicalise);
}

void Forwarder::LearnLocal(LocalPort* port) {
  // A later port-down then has something to flush (CountLost).
  port->has_stations = true;
  if (ABSL_PREDICT_FALSE(learner_.LearnLocal(port->vport, &batch_))) DropImpostors();
  Passed(Stage::kLearn);
}

void Forwarder::LearnRemote() {
  if (ABSL_PREDICT_FALSE(learner_.LearnRemote(&batch_))) DropImpostors();
  Passed(Stage::kLearn);
}

void Forwarder::DropImpostors() {
  batch_.KeepIf([](const Packet* packet) { return packet->is_impostor ? DropReason::kPinnedMac : DropReason::kNone; });
}

void Forwarder::Resolve(uint32_t ingress) {
  for (size_t i = 0; i < batch_.size(); ++i) keys_[i] = batch_[i].destination;
  fdb_->Find({keys_.data(), batch_.size()}, absl::MakeSpan(vports_));
  for (size_t i = 0; i < batch_.size(); ++i) batch_[i].to = vports_[i];
  batch_.KeepIf([this, ingress](Packet* packet) { return ResolveOne(ingress, packet); });
  Passed(Stage::kResolve);
}

// Finds the egress of one frame and applies split horizon.
DropReason Forwarder::ResolveOne(uint32_t ingress, Packet* packet) const {
  if (packet->ethernet.destination.IsGroup() || packet->to.IsNone()) return ResolveFlood(ingress, packet);
  const Route route = directory_->Get(packet->to);
  switch (route.kind) {
    case Route::Kind::kLocal:
      return route.local_port == ingress ? DropReason::kSamePort : DropReason::kNone;
    case Route::Kind::kRemote:
    case Route::Kind::kAggregate:
      return ingress == kFabric ? DropReason::kFabricToFabric : DropReason::kNone;
    case Route::Kind::kNone:
      break;
  }
  return ResolveFlood(ingress, packet);  // the vPort was removed while the entry still names it
}

DropReason Forwarder::ResolveFlood(uint32_t ingress, Packet* packet) const {
  packet->to = VPortId::None();
  // A flood from a port always goes to the fabric.
  return ingress != kFabric || AnyCarries(ports_, packet->destination.vid()) ? DropReason::kNone : DropReason::kNoEgress;
}

void Forwarder::Transmit(uint32_t ingress) {
  counters_.forwarded.Add(batch_.size());
  for (const Packet& packet : batch_) {
    if (packet.to.IsNone()) {
      (packet.ethernet.destination.IsGroup() ? counters_.flooded_group : counters_.flooded_unknown).Add();
      TransmitFlood(ingress, packet);
    } else {
      counters_.known_unicast.Add();
      TransmitKnown(packet);
    }
  }
  Passed(Stage::kTransmit);
  for (LocalPort& port : ports_) FlushToPort(&port);
  fabric_.Flush();
  Passed(Stage::kFlush);
}

// Local copies go first: the send to the fabric takes the buffer over.
void Forwarder::TransmitFlood(uint32_t ingress, const Packet& packet) {
  const bool from_fabric = ingress == kFabric;
  // Limited members of a partition must not reach each other, also on one host.
  const bool isolated = !from_fabric && uplink_.limited_member;
  for (uint32_t i = 0; i < ports_.size() && !isolated; ++i) {
    bool strip;
    if (i == ingress || !ports_[i].vlan.Egress(packet.destination.vid(), &strip)) continue;
    counters_.egress_copies.Add();
    TransmitToPort(&ports_[i], packet, strip);
  }
  if (from_fabric) return pool_->Free(packet.frame.buffer);
  counters_.egress_copies.Add();
  fabric_.SendFlood(packet);
}

void Forwarder::TransmitKnown(const Packet& packet) {
  counters_.egress_copies.Add();
  const Route route = fabric_.RouteTo(packet.to, packet.frame.bytes());
  if (route.kind == Route::Kind::kRemote) return fabric_.Send(packet, route);
  bool strip = false;
  if (ABSL_PREDICT_FALSE(route.kind == Route::Kind::kNone)) {
    counters_.drop(DropReason::kUnresolved).Add();  // the vPort was removed after Resolve
  } else if (packet.datagram == nullptr && uplink_.limited_member) {
    counters_.drop(DropReason::kIsolated).Add();
  } else if (!ports_[route.local_port].vlan.Egress(packet.destination.vid(), &strip)) {
    counters_.drop(DropReason::kEgressVlan).Add();
  } else {
    TransmitToPort(&ports_[route.local_port], packet, strip);
  }
  pool_->Free(packet.frame.buffer);
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
  fdb_->FlushLearned(port->vport);
  port->has_stations = false;
}

}  // namespace eoib
