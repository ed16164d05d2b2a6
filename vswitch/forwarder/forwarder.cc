#include "vswitch/forwarder/forwarder.h"

#include <algorithm>
#include <utility>

#include "absl/base/optimization.h"
#include "vswitch/forwarder/frame_steps.h"
#include "vswitch/wire/eoib_header.h"
#include "vswitch/wire/segment_extension.h"

namespace eoib {
namespace {

LocalPort NoPort() {
  LocalPort none;
  none.vlan = {.mode = PortMode::kTrunk, .trunk_vlans = VlanSet::None()};
  return none;
}

}  // namespace

Forwarder::Forwarder(const Options& options, const Dependencies& dependencies, const Uplink& uplink)
    : options_(options),
      pool_(dependencies.pool),
      fdb_(dependencies.fdb),
      directory_(dependencies.directory),
      clock_(dependencies.clock),
      learner_(fdb_, directory_, dependencies.punts, dependencies.clock, &counters_),
      fabric_({options.header_form, options.hold, options.flow_seed, options.floods}, pool_,
              directory_, dependencies.punts, dependencies.clock, &counters_),
      reassembler_(pool_, &counters_, options.reassembly_buffers),
      cutter_(pool_, &counters_),
      control_(pool_, directory_, dependencies.punts, dependencies.messages, dependencies.injected,
               dependencies.clock, &counters_, options.message_source),
      batch_(pool_, &counters_) {
  Rebind(uplink);
}

void Forwarder::Rebind(const Uplink& uplink) {
  uplink_ = uplink;
  fabric_.SetEndpoint(uplink.endpoint);
}

uint32_t Forwarder::AddPort(Port* port, const VlanPolicy& vlan, MacAddr pinned) {
  const auto unused = std::find_if(ports_.begin(), ports_.end(),
                                   [](const LocalPort& local) { return local.port == nullptr; });
  const auto index = static_cast<uint32_t>(unused - ports_.begin());
  LocalPort& local = unused == ports_.end() ? ports_.emplace_back() : *unused;
  local.port = port;
  local.vlan = vlan;
  local.vport = directory_->AddLocal(index);
  if (!pinned.IsZero()) learner_.Pin(pinned, local.vport, vlan);
  return index;
}

void Forwarder::AddFurtherPort(uint32_t index, const LocalPort& first, Port* port, MacAddr pinned) {
  while (ports_.size() <= index) ports_.push_back(NoPort());
  LocalPort& local = ports_[index];
  local.port = port;
  local.vlan = first.vlan;
  local.vport = first.vport;
  local.has_stations = first.has_stations;
  local.is_further = true;
  if (!pinned.IsZero()) learner_.Pin(pinned, local.vport, local.vlan);
}

void Forwarder::RemovePort(uint32_t index) {
  control_.DropFrames();  // they may be for it; control repeats its announcements
  LocalPort& local = ports_[index];
  learner_.Unpin(local.vport);
  if (!local.is_further) {
    fdb_->RemoveVPort(local.vport);
    directory_->Remove(local.vport);
  }
  local = NoPort();
}

void Forwarder::SetAdmission(const VlanSet& vlans, uint16_t group_fwd_mask) {
  options_.vlans = vlans;
  options_.group_fwd_mask = group_fwd_mask;
}

void Forwarder::CountIn(size_t frames, Counter* side) {
  counters_.frames_in.Add(frames);
  side->Add(frames);
}

bool Forwarder::PollPort(uint32_t index) {
  LocalPort& port = ports_[index];
  PortReceiveCounts counts;
  const size_t received = port.port->Receive(pool_, mtu(), absl::MakeSpan(frames_), &counts);
  const size_t refused = CountRefused(counts);
  if (received + refused == 0) return false;
  CountIn(received + refused, &counters_.from_ports);
  port.counters->received.Add(received + refused);
  if (ABSL_PREDICT_FALSE(refused != 0)) port.counters->refused.Add(refused);
  batch_.Start(received);
  uint64_t bytes = 0;
  for (size_t i = 0; i < received; ++i) {
    bytes += frames_[i].total();
    batch_[i].frame = frames_[i];
  }
  port.counters->received_bytes.Add(bytes);
  traffic_.bytes += bytes;
  if (port.port->ServesSockets()) traffic_.from_sockets += received;
  Passed(Stage::kReceive);
  ForwardFromPort(index);
  return true;
}

// The frames that a port refused. Returns their number.
size_t Forwarder::CountRefused(const PortReceiveCounts& counts) {
  size_t sum = 0;
  for (const auto& [reason, count] :
       {std::make_pair(DropReason::kTooLarge, counts.too_large),
        {DropReason::kBadChecksumRequest, counts.bad_checksum_request},
        {DropReason::kRunt, counts.runt},
        {DropReason::kLinkLocalControl, counts.link_local_control},
        {DropReason::kVlanNotAllowed, counts.vlan_not_allowed},
        {DropReason::kStandby, counts.standby}}) {
    if (ABSL_PREDICT_TRUE(count == 0)) continue;
    counters_.drop(reason).Add(count);
    sum += count;
  }
  return sum;
}

bool Forwarder::PollFabric(size_t most) {
  if (ABSL_PREDICT_FALSE(uplink_.endpoint == nullptr)) return false;
  const size_t received =
      uplink_.endpoint->Receive(absl::MakeSpan(datagrams_).first(std::min(most, kBatch)));
  if (received != 0) {
    Passed(Stage::kReceive);
    Decapsulate(received);
    if (segments_in_batch_ != 0) Reassemble();
    ForwardFromFabric();
  }
  // Also without frames: this posts the first receives (Worker::Start), and retries after a
  // shortage of buffers.
  uplink_.endpoint->Refill();
  Passed(Stage::kRefill);
  return received != 0;
}

bool Forwarder::PollInjected() {
  control_.CountRefused();
  if (control_.TakeRetryHeld()) {
    fabric_.RetryHeld();
    return true;
  }
  if (PollMessages()) return true;
  Packet packet;
  uint32_t port;
  if (!control_.TakeFrame(&packet, &port)) return false;
  if (packet.frame.buffer.IsNone()) return true;
  batch_.Start(1);
  batch_[0] = packet;
  ForwardFromPort(port);
  return true;
}

bool Forwarder::PollMessages() {
  Packet packet;
  if (!control_.TakeMessage(mtu(), &packet)) return false;
  SendMessage(packet);
  return true;
}

// Messages pass no stages: they have no source to learn, and their destination is known.
void Forwarder::SendMessage(Packet packet) {
  if (packet.frame.buffer.IsNone()) return;
  PadToMinimum(&packet.frame, /*tagged=*/false);
  counters_.forwarded.Add();
  counters_.messages_sent.Add();
  fabric_.SendMessage(packet);
  fabric_.Flush();
}

void Forwarder::Housekeep() {
  fabric_.Reap();
  Passed(Stage::kReap);
  fabric_.DropExpired();
  if (ABSL_PREDICT_FALSE(reassembler_.HasIncomplete())) reassembler_.Expire(clock_->Now());
}

// The two tables of contents.

void Forwarder::ForwardFromPort(uint32_t index) {
  LocalPort& port = ports_[index];
  const size_t received = batch_.size();
  ParseHeaders();
  AdmitFromPort(port);
  if (ABSL_PREDICT_FALSE(batch_.size() != received))
    port.counters->refused.Add(received - batch_.size());
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
  segments_in_batch_ = 0;
  batch_.KeepIf([this](Packet* packet) { return DecapsulateOne(*packet->datagram, packet); });
  CountIn(received - segments_in_batch_, &counters_.from_fabric);
  Passed(Stage::kDecapsulate);
}

bool Forwarder::IsOwn(const PeerAddress& source) const {
  if (source.gid != uplink_.own.gid) return false;
  return source.qpn == uplink_.own.qpn ||
         std::find(other_queues_.begin(), other_queues_.end(), source.qpn) != other_queues_.end();
}

DropReason Forwarder::DecapsulateOne(const Datagram& datagram, Packet* packet) {
  if (!datagram.ok) return DropReason::kReceiveError;
  if (!datagram.has_grh) return DropReason::kNoGrh;
  if (ABSL_PREDICT_FALSE(datagram.dgid.IsMulticast())) {
    // The HCA loops our own multicast back to us.
    if (IsOwn(datagram.source())) return DropReason::kOwnMulticast;
    // The flood group is the only one that this version joins.
    if (datagram.dgid != options_.flood_mgid.gid()) return DropReason::kGroupMismatch;
  }
  uint8_t* frame = pool_->Frame(datagram.buffer);
  EoibHeader header;
  const DropReason reason = DecodeEoibHeader({frame - kEoibHeaderSize, datagram.length}, &header);
  if (reason != DropReason::kNone) return reason;
  packet->frame.data = frame;
  packet->frame.length = datagram.length - kEoibHeaderSize;
  packet->vouched = header.l4_checksum;
  if (header.extension) {
    if (datagram.dgid.IsMulticast()) return DropReason::kSegment;
    packet->is_segment = true;
    ++segments_in_batch_;
    return DropReason::kNone;
  }
  return ABSL_PREDICT_FALSE(header.fcs_present) ? StripFcs(&packet->frame) : DropReason::kNone;
}

// Replaces the segments by the frames that they complete. The reassembler counts these, and those
// that end here.
void Forwarder::Reassemble() {
  const absl::Time now = clock_->Now();
  batch_.TakeUnless(
      [this, now](Packet* packet) { return !packet->is_segment || ReassembleOne(now, packet); });
}

bool Forwarder::ReassembleOne(absl::Time now, Packet* packet) {
  Reassembler::Segment segment{packet->datagram->source(), {}, {}, packet->frame};
  DecodeEoibHeader({packet->frame.data - kEoibHeaderSize, kEoibHeaderSize}, &segment.header);
  if (!DecodeSegmentExtension(packet->frame.bytes(), &segment.extension)) {
    counters_.CountRefused(DropReason::kSegment);
    pool_->Free(packet->frame.buffer);
    return false;
  }
  segment.piece.data += kSegmentExtensionSize;
  segment.piece.length -= kSegmentExtensionSize;
  if (!reassembler_.Add(segment, now, &packet->frame)) return false;
  Frame& frame = packet->frame;
  if (AcceptSuperFrame(frame.bytes(), segment.extension, packet->vouched, &frame.checksum))
    return true;
  counters_.drop(DropReason::kSegment).Add();
  pool_->Free(frame.buffer);
  return false;
}

void Forwarder::ParseHeaders() {
  batch_.KeepIf([](Packet* packet) { return ParseOne(packet->frame.bytes(), &packet->ethernet); });
  Passed(Stage::kParse);
}

void Forwarder::AdmitFromPort(const LocalPort& port) {
  batch_.KeepIf([this, &port](Packet* packet) { return AdmitOneFromPort(port, packet); });
  Passed(Stage::kAdmit);
}

DropReason Forwarder::AdmitOneFromPort(const LocalPort& port, Packet* packet) const {
  Vid vid;
  const DropReason reason = ClassifyFromPort(port.vlan, {options_.vlans, options_.group_fwd_mask},
                                             packet->frame.bytes(), packet->ethernet, &vid);
  if (ABSL_PREDICT_FALSE(reason != DropReason::kNone)) return reason;
  packet->source = FdbKey(vid, packet->ethernet.source);
  packet->destination = FdbKey(vid, packet->ethernet.destination);
  fdb_->Prefetch(packet->source);
  return Fits(packet->frame, TagToInsert(packet->ethernet, vid), mtu()) ? DropReason::kNone
                                                                        : DropReason::kTooLarge;
}

void Forwarder::AdmitFromFabric() {
  batch_.KeepIf([this](Packet* packet) {
    const DropReason reason = AdmitOneFromFabric({options_.vlans, options_.group_fwd_mask}, packet);
    if (ABSL_PREDICT_TRUE(reason != DropReason::kControlMessage)) return reason;
    // This makes the sender's vPort, so control has a path for the answer.
    return control_.HandOver(*packet, learner_.SenderOf(*packet->datagram));
  });
  Passed(Stage::kAdmit);
}

void Forwarder::Canonicalise() {
  batch_.KeepIf([this, mtu = mtu()](Packet* packet) {
    fdb_->Prefetch(packet->destination);
    return CanonicaliseOne(pool_, mtu, packet);
  });
  Passed(Stage::kCanonicalise);
}

void Forwarder::LearnLocal(LocalPort* port) {
  // A later port-down then has something to flush (CountLost). Writes only what is new: the line is
  // shared by all queues.
  std::atomic<bool>& has_stations = *port->has_stations;
  if (ABSL_PREDICT_FALSE(!has_stations.load(std::memory_order_relaxed)))
    has_stations.store(true, std::memory_order_relaxed);
  if (ABSL_PREDICT_FALSE(learner_.LearnLocal(port->vport, &batch_))) DropImpostors();
  Passed(Stage::kLearn);
}

void Forwarder::LearnRemote() {
  if (ABSL_PREDICT_FALSE(learner_.LearnRemote(&batch_))) DropImpostors();
  Passed(Stage::kLearn);
}

void Forwarder::DropImpostors() {
  batch_.KeepIf([](const Packet* packet) {
    return packet->is_impostor ? DropReason::kPinnedMac : DropReason::kNone;
  });
}

void Forwarder::Resolve(uint32_t ingress) {
  for (size_t i = 0; i < batch_.size(); ++i) keys_[i] = batch_[i].destination;
  fdb_->Find({keys_.data(), batch_.size()}, absl::MakeSpan(vports_));
  for (size_t i = 0; i < batch_.size(); ++i) batch_[i].to = vports_[i];
  batch_.KeepIf([this, ingress](Packet* packet) {
    const DropReason reason = ResolveOne(ingress, packet);
    const bool floods = packet->to.IsNone();
    // It was sent to this agent. A unicast copy of a flood looks the same, so without a group no
    // sender is told.
    const bool is_misled =
        floods ? !packet->ethernet.destination.IsGroup() : reason == DropReason::kFabricToFabric;
    if (ingress == kFabric && is_misled && options_.floods == nullptr)
      control_.ReportNotBehind(*packet);
    if (!floods || FloodLeaves(ingress, packet->destination.vid())) return reason;
    return DropReason::kNoEgress;
  });
  Passed(Stage::kResolve);
}

// Finds the egress of one frame and applies split horizon. `packet->to` comes from the FDB.
DropReason Forwarder::ResolveOne(uint32_t ingress, Packet* packet) const {
  const Route route =
      packet->ethernet.destination.IsGroup() ? Route{} : directory_->Get(packet->to);
  if (route.kind == Route::Kind::kLocal)
    return route.local_port == ingress ? DropReason::kSamePort : DropReason::kNone;
  if (route.kind == Route::Kind::kNone) {
    // A group, unknown, or the vPort was removed while the entry still names it.
    packet->to = VPortId::None();
    return DropReason::kNone;
  }
  return ingress == kFabric ? DropReason::kFabricToFabric : DropReason::kNone;
}

bool Forwarder::FloodLeaves(uint32_t ingress, Vid vid) const {
  if (ingress != kFabric && fabric_.Floods(vid)) return true;
  bool strip;
  for (uint32_t i = 0; i < ports_.size(); ++i) {
    if (FloodLeavesAt(ingress, i, vid, &strip)) return true;
  }
  return false;
}

// Limited members of a partition must not reach each other, also on one host.
bool Forwarder::FloodLeavesAt(uint32_t ingress, uint32_t index, Vid vid, bool* strip) const {
  const bool isolated = ingress != kFabric && uplink_.limited_member;
  return !isolated && index != ingress && ports_[index].vlan.Egress(vid, strip);
}

// Whether a frame for a MAC behind this port may leave there.
DropReason Forwarder::LeaveAt(uint32_t index, const Packet& packet, bool* strip) const {
  if (packet.datagram == nullptr && uplink_.limited_member) return DropReason::kIsolated;
  return ports_[index].vlan.Egress(packet.destination.vid(), strip) ? DropReason::kNone
                                                                    : DropReason::kEgressVlan;
}

void Forwarder::Transmit(uint32_t ingress) {
  counters_.forwarded.Add(batch_.size());
  size_t known = 0;
  for (const Packet& packet : batch_) {
    if (ABSL_PREDICT_FALSE(packet.to.IsNone())) {
      (packet.ethernet.destination.IsGroup() ? counters_.flooded_group : counters_.flooded_unknown)
          .Add();
      TransmitFlood(ingress, packet);
    } else {
      ++known;
      TransmitKnown(packet);
    }
  }
  counters_.known_unicast.Add(known);
  Passed(Stage::kTransmit);
  for (LocalPort& port : ports_) FlushToPort(&port);
  fabric_.Flush();
  Passed(Stage::kFlush);
}

// Local copies go first: the send to the fabric takes the buffer over.
void Forwarder::TransmitFlood(uint32_t ingress, const Packet& packet) {
  const Vid vid = packet.destination.vid();
  for (uint32_t i = 0; i < ports_.size(); ++i) {
    bool strip;
    if (FloodLeavesAt(ingress, i, vid, &strip)) CopyToPort(&ports_[i], packet, strip);
  }
  if (ingress == kFabric) return pool_->Free(packet.frame.buffer);
  // Floods take no segments.
  if (packet.frame.IsLarge()) {
    cutter_.Cut(packet, mtu(), [this](const Packet& segment) { fabric_.SendFlood(segment); });
    return pool_->Free(packet.frame.buffer);
  }
  fabric_.SendFlood(packet);
}

void Forwarder::TransmitKnown(const Packet& packet) {
  const Route route = fabric_.RouteTo(packet.to, packet.frame.bytes());
  if (route.kind == Route::Kind::kRemote) return TransmitToFabric(packet, route);
  bool strip = false;
  DropReason reason = DropReason::kUnresolved;  // the vPort was removed after Resolve
  if (ABSL_PREDICT_TRUE(route.kind == Route::Kind::kLocal))
    reason = LeaveAt(route.local_port, packet, &strip);
  if (ABSL_PREDICT_TRUE(reason == DropReason::kNone)) {
    CopyToPort(&ports_[route.local_port], packet, strip);
  } else {
    counters_.egress_copies.Add();
    counters_.drop(reason).Add();
  }
  pool_->Free(packet.frame.buffer);
}

void Forwarder::TransmitToFabric(const Packet& packet, const Route& route) {
  if (ABSL_PREDICT_TRUE(!packet.frame.IsLarge() || fabric_.TakesLarge(route))) {
    counters_.egress_copies.Add();
    return fabric_.Send(packet, route);
  }
  cutter_.Cut(packet, mtu(), [this, &route](const Packet& segment) {
    counters_.egress_copies.Add();
    fabric_.Send(segment, route);
  });
  pool_->Free(packet.frame.buffer);
}

void Forwarder::CopyToPort(LocalPort* port, const Packet& packet, bool strip) {
  if (ABSL_PREDICT_TRUE(!packet.frame.IsLarge() || port->port->TakesLarge(packet.frame.gso))) {
    counters_.egress_copies.Add();
    return TransmitToPort(port, packet, strip);
  }
  cutter_.Cut(packet, mtu(), [this, port, strip](const Packet& segment) {
    counters_.egress_copies.Add();
    TransmitToPort(port, segment, strip);
    pool_->Free(segment.frame.buffer);
  });
}

void Forwarder::TransmitToPort(LocalPort* port, const Packet& packet, bool strip) {
  strip &= packet.ethernet.tagged;
  // If another tag follows the native VLAN's tag, removing the first would put the frame into the
  // inner tag's VLAN. So on a trunk the tag stays; its meaning is the same. An access port knows
  // one VLAN only, so there the inner tag is payload.
  if (packet.ethernet.ethertype == kEtherTypeVlan && port->vlan.mode == PortMode::kTrunk)
    strip = false;
  const DropReason reason = ABSL_PREDICT_FALSE(packet.frame.IsLarge())
                                ? port->port->TransmitLarge(*pool_, packet.frame, strip)
                                : port->port->Transmit(packet.frame, strip);
  if (ABSL_PREDICT_TRUE(reason == DropReason::kNone)) {
    ++port->taken;
    port->taken_bytes += packet.frame.total();
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
  traffic_.bytes += port->taken_bytes;
  if (port->port->ServesSockets()) traffic_.to_sockets += port->taken;
  port->taken = port->taken_bytes = 0;
}

Forwarder::Verdict Forwarder::Decide(uint32_t index, absl::Span<uint8_t> frame) const {
  Verdict verdict;
  Frame& whole = verdict.packet.frame;
  whole.data = frame.data();
  whole.length = static_cast<uint32_t>(std::min<size_t>(frame.size(), mtu()));
  whole.rest = static_cast<uint32_t>(frame.size() - whole.length);
  whole.buffers = whole.rest == 0 ? 1 : 2;
  verdict.reason = DecideOne(index, &verdict);
  return verdict;
}

DropReason Forwarder::DecideOne(uint32_t index, Verdict* verdict) const {
  Packet& packet = verdict->packet;
  DropReason reason = ParseOne(packet.frame.bytes(), &packet.ethernet);
  if (reason != DropReason::kNone) return reason;
  verdict->stage = Stage::kAdmit;
  reason = AdmitOneFromPort(ports_[index], &packet);
  if (reason != DropReason::kNone) return reason;
  verdict->stage = Stage::kLearn;
  if (learner_.IsPinnedElsewhere(packet.source, ports_[index].vport)) return DropReason::kPinnedMac;
  verdict->stage = Stage::kResolve;
  fdb_->Find({&packet.destination, 1}, {&packet.to, 1});
  reason = ResolveOne(index, &packet);
  if (reason != DropReason::kNone) return reason;
  verdict->stage = Stage::kTransmit;
  return DecideEgress(index, verdict);
}

DropReason Forwarder::DecideEgress(uint32_t index, Verdict* verdict) const {
  const Packet& packet = verdict->packet;
  bool strip;
  if (!packet.to.IsNone()) {
    const Route route = directory_->Get(packet.to);
    if (route.kind == Route::Kind::kRemote)
      return uplink_.endpoint == nullptr ? DropReason::kFabricDown : DropReason::kNone;
    if (route.kind == Route::Kind::kNone) return DropReason::kUnresolved;
    const DropReason reason = LeaveAt(route.local_port, packet, &strip);
    if (reason == DropReason::kNone) verdict->ports.push_back(route.local_port);
    return reason;
  }
  const Vid vid = packet.destination.vid();
  for (uint32_t i = 0; i < ports_.size(); ++i) {
    if (FloodLeavesAt(index, i, vid, &strip)) verdict->ports.push_back(i);
  }
  verdict->to_group = fabric_.CanFloodToGroup();
  verdict->agents = fabric_.AgentsInFloods(vid);
  if (verdict->to_group || !verdict->agents.empty() || !verdict->ports.empty())
    return DropReason::kNone;
  return options_.floods == nullptr ? DropReason::kFabricDown : DropReason::kNoEgress;
}

// Flushes the MACs learned on a port when it goes down, once: they may be reachable through another
// port, as behind a bridge with two links. Frames for them flood until they are heard again.
void Forwarder::CountLost(LocalPort* port, size_t frames, DropReason reason) {
  counters_.drop(reason).Add(frames);
  port->counters->dropped.Add(frames);
  if (reason != DropReason::kPortDown || !port->has_stations->load(std::memory_order_relaxed))
    return;
  if (!port->has_stations->exchange(false, std::memory_order_relaxed)) return;
  fdb_->FlushLearned(port->vport);
  control_.ReportPortDown(port->vport);
}

}  // namespace eoib
