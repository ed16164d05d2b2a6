#include "vswitch/forwarder/frame_cutter.h"

#include <cstring>

#include "absl/base/optimization.h"
#include "absl/types/optional.h"
#include "vswitch/forwarder/frame_steps.h"

namespace eoib {

void FrameCutter::Cut(const Packet& packet, uint32_t largest,
                      absl::FunctionRef<void(const Packet& segment)> take) {
  absl::optional<Segmentation> plan;
  // Segments get an unfinished checksum, which must not hide a wrong one.
  if (packet.vouched != L4Checksum::kNone) {
    plan = Segmentation::Of(packet.frame.bytes(), packet.frame.total(), packet.frame.gso, largest);
  }
  if (!plan.has_value()) {
    counters_->egress_copies.Add();
    counters_->drop(DropReason::kNotSegmentable).Add();
    return;
  }
  counters_->segmented.Add();
  const size_t count = plan->count();
  PieceReader payload(pool_, packet.frame);
  payload.Skip(plan->header_size());
  Packet segment = packet;
  for (size_t i = 0; i < count; ++i) {
    if (ABSL_PREDICT_FALSE(!CutOne(packet, *plan, i, &payload, &segment))) {
      counters_->egress_copies.Add(count - i);
      return counters_->drop(DropReason::kNoSegmentBuffer).Add(count - i);
    }
    take(segment);
  }
}

// Makes segment `i`. False if there is no buffer.
bool FrameCutter::CutOne(const Packet& packet, const Segmentation& plan, size_t i,
                         PieceReader* payload, Packet* segment) {
  const BufferId buffer = pool_->Allocate();
  if (buffer.IsNone()) return false;
  uint8_t* const data = pool_->Frame(buffer);
  const size_t headers = plan.header_size();
  std::memcpy(data, packet.frame.data, headers);
  payload->Copy(plan.payload_size(i), data + headers);
  segment->frame = {buffer, data, static_cast<uint32_t>(headers + plan.payload_size(i))};
  segment->frame.checksum = plan.WriteHeaders(i, {data, headers});
  PadToMinimum(&segment->frame, packet.ethernet.tagged);
  return true;
}

}  // namespace eoib
