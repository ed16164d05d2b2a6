#include "vswitch/fabric_sender.h"

#include <utility>

#include "absl/base/optimization.h"
#include "vswitch/wire/checksum.h"
#include "vswitch/wire/eoib_header.h"

namespace eoib {
namespace {

// The Ethernet frame in a send request.
absl::Span<const uint8_t> FrameOf(const SendRequest& request) {
  return {request.payload + kEoibHeaderSize, request.length - kEoibHeaderSize};
}

}  // namespace

FabricSender::~FabricSender() {
  held_.TakeIf([this](const HeldFrames::Held& held) {
    pool_->Free(held.request.buffer);
    return true;
  });
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
  return {.kind = Route::Kind::kRemote, .qpn = Qpn(Qpn::kMulticast), .ah = AhIndex(flood_ah_.load(std::memory_order_acquire))};
}

void FabricSender::SendFlood(const Packet& packet) {
  const Route flood = FloodRoute();
  if (flood.ah.IsNone()) return Discard(packet.frame.buffer, DropReason::kFabricDown);
  Queue(packet, VPortId::None(), flood);
}

void FabricSender::Queue(const Packet& packet, VPortId vport, const Route& route) {
  uint8_t* const payload = packet.frame.data - kEoibHeaderSize;
  L4Checksum vouched = packet.vouched;
  if (options_.header_form == HeaderForm::kAlternative && vouched != L4Checksum::kNone) {
    // The alternative header cannot vouch for a checksum. Local copies have been written already, so the frame may change.
    CompleteChecksum(packet.frame.bytes(), packet.frame.checksum);
    vouched = L4Checksum::kNone;
  }
  EncodeEoibHeader({options_.header_form, vouched, false}, payload);
  if (vouched != L4Checksum::kNone) counters_->checksums_vouched.Add();
  const SendRequest request{packet.frame.buffer, payload, packet.frame.length + static_cast<uint32_t>(kEoibHeaderSize),
                            route.ah, route.qpn};
  if (route.ah.IsNone()) return Hold(request, vport);
  requests_[count_] = request;
  vports_[count_++] = vport;
}

void FabricSender::Hold(const SendRequest& request, VPortId vport) {
  // One punt for each vPort is enough, not one per frame.
  if (!held_.Has(vport)) SendPunt({.kind = Punt::Kind::kUnresolved, .vport = vport}, punts_, counters_);
  if (!held_.Add({vport, request, clock_->Now() + options_.hold})) return Discard(request.buffer, DropReason::kUnresolved);
  pool_->Move(request.buffer, BufferPool::State::kHeld);
}

void FabricSender::Flush() {
  for (bool first = true; count_ != 0; first = false) {
    if (ABSL_PREDICT_TRUE(endpoint_ != nullptr)) {
      endpoint_->Send({requests_.data(), count_}, absl::MakeSpan(results_));
    } else {
      results_.fill(DropReason::kFabricDown);
    }
    const size_t posted = std::exchange(count_, 0);
    for (size_t i = 0; i < posted; ++i) {
      if (ABSL_PREDICT_TRUE(results_[i] == DropReason::kNone)) continue;
      const bool unresolved = results_[i] == DropReason::kUnresolved;
      if (first && unresolved && FollowsHandle(&requests_[i], vports_[i])) {
        requests_[count_] = requests_[i];
        vports_[count_++] = vports_[i];
        continue;
      }
      const bool left_group = unresolved && vports_[i].IsNone();
      Discard(requests_[i].buffer, left_group ? DropReason::kFabricDown : results_[i]);
    }
  }
}

// True if the route has another address handle than the failed request. Sets it in the request.
bool FabricSender::FollowsHandle(SendRequest* request, VPortId vport) const {
  const Route now = vport.IsNone() ? FloodRoute() : RouteTo(vport, FrameOf(*request));
  if (now.ah.IsNone() || now.ah == request->ah) return false;
  request->ah = now.ah;
  request->qpn = now.qpn;
  return true;
}

void FabricSender::RetryHeld() {
  for (bool full = true; full;) {
    held_.TakeIf([this](const HeldFrames::Held& held) { return count_ != requests_.size() && RetryOne(held); });
    full = count_ == requests_.size();
    Flush();
  }
}

bool FabricSender::RetryOne(const HeldFrames::Held& held) {
  const Route route = RouteTo(held.vport, FrameOf(held.request));
  if (route.ah.IsNone()) return false;
  pool_->Move(held.request.buffer, BufferPool::State::kBatch);
  requests_[count_] = held.request;
  requests_[count_].ah = route.ah;
  requests_[count_].qpn = route.qpn;
  vports_[count_++] = held.vport;
  return true;
}

void FabricSender::DropExpired() {
  if (ABSL_PREDICT_TRUE(held_.empty())) return;
  const absl::Time now = clock_->Now();
  held_.TakeIf([this, now](const HeldFrames::Held& held) {
    if (now < held.deadline) return false;
    pool_->Move(held.request.buffer, BufferPool::State::kBatch);
    Discard(held.request.buffer, DropReason::kUnresolved);
    return true;
  });
}

void FabricSender::Reap() {
  if (ABSL_PREDICT_FALSE(endpoint_ == nullptr)) return;
  size_t failed = 0;
  const size_t completed = endpoint_->ReapSends(&failed);
  counters_->transmitted.Add(completed - failed);
  counters_->transmitted_fabric.Add(completed - failed);
  counters_->drop(DropReason::kSendError).Add(failed);
  if (ABSL_PREDICT_FALSE(endpoint_->failed()) && !std::exchange(reported_failure_, true)) punts_->Notify();
}

void FabricSender::Discard(BufferId buffer, DropReason reason) {
  counters_->drop(reason).Add();
  pool_->Free(buffer);
}

}  // namespace eoib
