#include "vswitch/forwarder/fabric_sender.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/base/optimization.h"
#include "vswitch/wire/checksum.h"
#include "vswitch/wire/eoib_header.h"
#include "vswitch/wire/segment_extension.h"

namespace eoib {
namespace {

// The Ethernet frame in the first send request of a train, or its start.
absl::Span<const uint8_t> FrameOf(const SendRequest& request) {
  EoibHeader header;
  DecodeEoibHeader({request.payload, request.length}, &header);
  const size_t size = header.extension ? kSegmentHeaderSize : kEoibHeaderSize;
  return {request.payload + size, request.length - size};
}

}  // namespace

FabricSender::~FabricSender() {
  held_.DropExpired(absl::InfiniteFuture(), [this](BufferId buffer) { pool_->Free(buffer); });
}

void FabricSender::SetEndpoint(UdEndpoint* endpoint) {
  if (endpoint_ != nullptr && endpoint_ != endpoint) {
    Reap();
    // Their completions will never be polled, and each copy needs a disposition.
    counters_->drop(DropReason::kSendError).Add(endpoint_->sends_in_flight());
  }
  endpoint_ = endpoint;
  reported_failure_ = false;
}

Route FabricSender::FloodRoute() const {
  return {.kind = Route::Kind::kRemote,
          .qpn = Qpn(Qpn::kMulticast),
          .ah = AhIndex(flood_ah_.load(std::memory_order_acquire))};
}

bool FabricSender::Floods(Vid vid) const {
  if (options_.floods == nullptr) return true;
  const absl::Span<const FloodList::Entry> agents = options_.floods->Entries();
  return std::any_of(agents.begin(), agents.end(),
                     [vid](const auto& agent) { return agent.vlans.Contains(vid); });
}

std::vector<VPortId> FabricSender::AgentsInFloods(Vid vid) const {
  std::vector<VPortId> agents;
  if (options_.floods == nullptr) return agents;
  for (const FloodList::Entry& agent : options_.floods->Published()) {
    if (agent.vlans.Contains(vid)) agents.push_back(agent.vport);
  }
  return agents;
}

// Without NoteSent, as to a group: floods must not make all agents probe each other.
void FabricSender::SendFlood(const Packet& packet) {
  if (ABSL_PREDICT_TRUE(options_.floods == nullptr)) return SendToGroup(packet);
  const Vid vid = packet.destination.vid();
  Replicate(
      packet, [vid](const FloodList::Entry& agent) { return agent.vlans.Contains(vid); },
      &FabricSender::SendFloodTo);
}

// Sends a copy to each wanted agent of the flood list. The last one takes the packet's own buffer.
template <typename Wanted>
void FabricSender::Replicate(const Packet& packet, Wanted wanted,
                             void (FabricSender::*send)(const Packet&)) {
  Packet last = packet;
  last.to = VPortId::None();
  for (const FloodList::Entry& agent : options_.floods->Entries()) {
    if (!wanted(agent)) continue;
    const VPortId before = std::exchange(last.to, agent.vport);
    if (before.IsNone()) continue;
    counters_->egress_copies.Add();
    Packet copy;
    if (!Copy(packet, &copy)) continue;
    copy.to = before;
    (this->*send)(copy);
  }
  if (last.to.IsNone()) return pool_->Free(last.frame.buffer);
  counters_->egress_copies.Add();
  (this->*send)(last);
}

// Copies the packet into a buffer of its own. Without a free one counts the copy as dropped and
// returns false.
bool FabricSender::Copy(const Packet& packet, Packet* copy) {
  BufferId buffer = pool_->Allocate();
  if (ABSL_PREDICT_FALSE(buffer.IsNone())) {
    Flush();
    Reap();  // a completion may free one
    buffer = pool_->Allocate();
  }
  if (buffer.IsNone()) {
    counters_->drop(DropReason::kNoFloodBuffer).Add();
    return false;
  }
  *copy = packet;
  copy->frame.buffer = buffer;
  copy->frame.data = pool_->Frame(buffer) + (packet.frame.data - pool_->Frame(packet.frame.buffer));
  std::memcpy(copy->frame.data, packet.frame.data, packet.frame.length);
  return true;
}

void FabricSender::SendFloodTo(const Packet& packet) {
  const Route route = RouteTo(packet.to, packet.frame.bytes());
  if (route.kind != Route::Kind::kRemote)
    return Discard(packet.frame.buffer, DropReason::kUnresolved);
  Queue(packet, packet.to, route);
}

void FabricSender::SendToGroup(const Packet& packet) {
  counters_->egress_copies.Add();
  const Route flood = FloodRoute();
  if (flood.ah.IsNone()) return Discard(packet.frame.buffer, DropReason::kFabricDown);
  Queue(packet, VPortId::None(), flood);
}

// Without NoteSent: the question whether a peer is alive must not count as traffic for it. A
// message does not wait for a path, because its protocol repeats it.
void FabricSender::SendMessage(const Packet& packet) {
  if (packet.to.IsNone() && options_.floods == nullptr) return SendToGroup(packet);
  if (packet.to.IsNone()) {
    return Replicate(
        packet, [](const FloodList::Entry&) { return true; }, &FabricSender::SendMessageTo);
  }
  counters_->egress_copies.Add();
  SendMessageTo(packet);
}

void FabricSender::SendMessageTo(const Packet& packet) {
  const Route route = RouteTo(packet.to, packet.frame.bytes());
  if (route.kind != Route::Kind::kRemote || route.ah.IsNone())
    return Discard(packet.frame.buffer, DropReason::kUnresolved);
  Queue(packet, packet.to, route);
}

void FabricSender::Queue(const Packet& packet, VPortId vport, const Route& route) {
  if (ABSL_PREDICT_FALSE(count_ == requests_.size())) MakeRoom();
  SendRequest& request = requests_[count_];
  if (ABSL_PREDICT_FALSE(packet.frame.IsLarge())) {
    request = WriteSegmentHeaders(packet);
  } else {
    WriteHeader(packet, &request);
  }
  if (ABSL_PREDICT_FALSE(route.ah.IsNone())) return Hold(request, vport);
  request.ah = route.ah;
  request.qpn = route.qpn;
  if (ABSL_PREDICT_FALSE(request.train != 1)) return Append(request, vport);
  vports_[count_++] = vport;
}

void FabricSender::WriteHeader(const Packet& packet, SendRequest* request) {
  uint8_t* const payload = packet.frame.data - kEoibHeaderSize;
  L4Checksum vouched = packet.vouched;
  if (ABSL_PREDICT_FALSE(options_.header_form == HeaderForm::kAlternative) &&
      vouched != L4Checksum::kNone) {
    // The alternative header cannot vouch for a checksum. Local copies have been written already,
    // so the frame may change.
    CompleteChecksum(packet.frame.bytes(), packet.frame.checksum);
    vouched = L4Checksum::kNone;
  }
  EncodeEoibHeader({.form = options_.header_form, .l4_checksum = vouched}, payload);
  if (vouched != L4Checksum::kNone) counters_->checksums_vouched.Add();
  request->buffer = packet.frame.buffer;
  request->payload = payload;
  request->length = packet.frame.length + static_cast<uint32_t>(kEoibHeaderSize);
  request->train = 1;
}

// Writes a header in front of each buffer of the chain.
SendRequest FabricSender::WriteSegmentHeaders(const Packet& packet) {
  const Frame& frame = packet.frame;
  const BufferId second = pool_->Next(frame.buffer);
  const uint32_t second_length =
      second.IsNone() ? 0 : static_cast<uint32_t>(pool_->Bytes(second).size());
  SegmentExtension extension;
  extension.total = static_cast<uint16_t>(frame.total());
  extension.piece = static_cast<uint16_t>(std::max(frame.length, second_length));
  extension.gso = frame.gso;
  extension.checksum_start = packet.vouched != L4Checksum::kNone ? frame.checksum.start : 0;
  EoibHeader header;
  header.l4_checksum = packet.vouched;
  header.extension = true;
  header.segment_id = frame.buffers > 1 ? next_segment_id_++ : 0;
  VisitPieces(*pool_, frame, [&](absl::Span<uint8_t> piece) {
    header.more_segments = header.segment_offset + 1 < frame.buffers;
    EncodeEoibHeader(header, piece.data() - kSegmentHeaderSize);
    EncodeSegmentExtension(extension, piece.data() - kSegmentExtensionSize);
    ++header.segment_offset;
  });
  counters_->segments_sent.Add(frame.buffers);
  if (packet.vouched != L4Checksum::kNone) counters_->checksums_vouched.Add();
  return {frame.buffer,
          frame.data - kSegmentHeaderSize,
          frame.length + static_cast<uint32_t>(kSegmentHeaderSize),
          AhIndex::None(),
          Qpn(),
          frame.buffers};
}

// Copies of floods are more than the frames of a batch.
void FabricSender::MakeRoom() {
  Flush();
  Reap();
}

// Adds a train, whose buffers form a chain, to the batch, and ends the chain.
void FabricSender::Append(SendRequest request, VPortId vport) {
  if (ABSL_PREDICT_FALSE(count_ + request.train > requests_.size())) MakeRoom();
  for (;;) {
    requests_[count_] = request;
    vports_[count_++] = vport;
    request.buffer = pool_->Detach(request.buffer);
    if (ABSL_PREDICT_TRUE(request.buffer.IsNone())) return;
    const absl::Span<uint8_t> piece = pool_->Bytes(request.buffer);
    request.payload = piece.data() - kSegmentHeaderSize;
    request.length = static_cast<uint32_t>(piece.size() + kSegmentHeaderSize);
    --request.train;
  }
}

void FabricSender::Hold(const SendRequest& request, VPortId vport) {
  // One punt for each vPort is enough, not one per frame.
  if (!held_.Has(vport))
    SendPunt({.kind = Punt::Kind::kUnresolved, .vport = vport}, punts_, counters_);
  if (!held_.Add({vport, request, clock_->Now() + options_.hold}))
    return Discard(request.buffer, DropReason::kUnresolved);
  pool_->MoveChain(request.buffer, BufferPool::State::kHeld);
}

void FabricSender::Flush() {
  for (bool first = true; count_ != 0; first = false) {
    size_t posted = 0;
    if (ABSL_PREDICT_TRUE(endpoint_ != nullptr)) {
      posted = endpoint_->Send({requests_.data(), count_}, absl::MakeSpan(results_));
    } else {
      results_.fill(DropReason::kFabricDown);
    }
    const size_t tried = std::exchange(count_, 0);
    if (ABSL_PREDICT_TRUE(posted == tried)) return;
    for (size_t i = 0, end; i < tried; i = end) {
      end = i + requests_[i].train;
      if (ABSL_PREDICT_TRUE(results_[end - 1] == DropReason::kNone)) continue;
      if (first && results_[i] == DropReason::kUnresolved && FollowsHandle(i, end)) continue;
      DiscardUnposted(i, end);
    }
  }
}

// If the route of a train has another address handle than the failed requests, adds it to the next
// batch, with that handle.
bool FabricSender::FollowsHandle(size_t first, size_t end) {
  const VPortId vport = vports_[first];
  const Route now = vport.IsNone() ? FloodRoute() : RouteTo(vport, FrameOf(requests_[first]));
  if (now.ah.IsNone() || now.ah == requests_[first].ah) return false;
  for (size_t i = first; i < end; ++i) {
    requests_[count_] = requests_[i];
    requests_[count_].ah = now.ah;
    requests_[count_].qpn = now.qpn;
    vports_[count_++] = vport;
  }
  return true;
}

// Frees the buffers of a train that were not posted, and counts the frame.
void FabricSender::DiscardUnposted(size_t first, size_t end) {
  const DropReason reason = results_[end - 1];
  const bool left_group = reason == DropReason::kUnresolved && vports_[first].IsNone();
  for (size_t i = first; i + 1 < end; ++i) {
    if (results_[i] != DropReason::kNone) pool_->Free(requests_[i].buffer);
  }
  Discard(requests_[end - 1].buffer, left_group ? DropReason::kFabricDown : reason);
}

void FabricSender::RetryHeld() {
  for (bool full = true; full;) {
    full = false;
    held_.TakeIf([this, &full](const HeldFrames::Frame& held) {
      full |= count_ + held.request.train > requests_.size();
      return !full && RetryOne(held);
    });
    Flush();
  }
}

bool FabricSender::RetryOne(const HeldFrames::Frame& held) {
  const Route route = RouteTo(held.key, FrameOf(held.request));
  if (route.ah.IsNone()) return false;
  pool_->MoveChain(held.request.buffer, BufferPool::State::kBatch);
  SendRequest request = held.request;
  request.ah = route.ah;
  request.qpn = route.qpn;
  Append(request, held.key);
  return true;
}

void FabricSender::DropExpired() {
  if (ABSL_PREDICT_TRUE(held_.empty())) return;
  held_.DropExpired(clock_->Now(),
                    [this](BufferId buffer) { Discard(buffer, DropReason::kUnresolved); });
}

void FabricSender::Reap() {
  if (ABSL_PREDICT_FALSE(endpoint_ == nullptr)) return;
  size_t failed = 0;
  const size_t completed = endpoint_->ReapSends(&failed);
  counters_->transmitted.Add(completed - failed);
  counters_->transmitted_fabric.Add(completed - failed);
  counters_->drop(DropReason::kSendError).Add(failed);
  if (ABSL_PREDICT_FALSE(endpoint_->failed()) && !std::exchange(reported_failure_, true))
    punts_->Notify();
}

void FabricSender::Discard(BufferId buffer, DropReason reason) {
  counters_->drop(reason).Add();
  pool_->Free(buffer);
}

}  // namespace eoib
