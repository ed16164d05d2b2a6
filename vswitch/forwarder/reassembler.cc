#include "vswitch/forwarder/reassembler.h"

#include <algorithm>

#include "absl/base/optimization.h"
#include "absl/hash/hash.h"

namespace eoib {
namespace {

// The first segment of several has all headers that the switch reads.
constexpr uint32_t kSmallestFirst = 128;

}  // namespace

Reassembler::Reassembler(BufferPool* pool, ForwarderCounters* counters, size_t max_buffers)
    : pool_(pool),
      counters_(counters),
      max_buffers_(max_buffers),
      places_(std::make_unique<std::array<Place, kPlaces>>()) {}

Reassembler::~Reassembler() {
  for (Place& place : *places_) FreePieces(&place);
}

bool Reassembler::Add(const Segment& segment, absl::Time now, Frame* frame) {
  counters_->segments_received.Add();
  if (ABSL_PREDICT_FALSE(!IsPossible(segment))) {
    counters_->CountRefused(DropReason::kSegment);
    pool_->Free(segment.piece.buffer);
    return false;
  }
  if (segment.header.segment_offset == 0 && !segment.header.more_segments) {
    *frame = segment.piece;
    frame->gso = segment.extension.gso;
    counters_->CountReceived();
    return true;
  }
  Place* const place = Find(segment, now);
  if (ABSL_PREDICT_FALSE(buffers_ == max_buffers_)) DropOldest();  // perhaps this one
  if (ABSL_PREDICT_FALSE(place->dropped || !Belongs(segment, *place))) {
    pool_->Free(segment.piece.buffer);
    Drop(place);
    return false;
  }
  Take(segment, place);
  if (!IsComplete(*place)) return false;
  if (ABSL_PREDICT_FALSE(place->bytes != place->extension.total)) {
    Drop(place);
    return false;
  }
  *frame = Join(place);
  return true;
}

// The checks that need no other segment.
bool Reassembler::IsPossible(const Segment& segment) {
  const uint32_t length = segment.piece.length;
  const SegmentExtension& extension = segment.extension;
  const bool first = segment.header.segment_offset == 0;
  const bool last = !segment.header.more_segments;
  if (length == 0 || length > extension.piece || length > extension.total) return false;
  if (first && last) return length == extension.total;
  if (first) return length >= kSmallestFirst;
  if (last) return true;
  return length == extension.piece && segment.header.segment_offset < kMaxSegments - 1;
}

// The checks against the segments that came before.
bool Reassembler::Belongs(const Segment& segment, const Place& place) {
  const unsigned offset = segment.header.segment_offset;
  const bool last = !segment.header.more_segments;
  if (segment.extension != place.extension ||
      segment.header.l4_checksum != place.header.l4_checksum)
    return false;
  if ((place.have >> offset & 1) != 0) return false;
  if (last) return place.count == 0 && place.have >> offset == 0;
  return place.count == 0 || offset < place.count;
}

bool Reassembler::IsComplete(const Place& place) {
  return place.count != 0 && place.have == static_cast<uint32_t>((uint64_t{1} << place.count) - 1);
}

// The place of the segment's frame. Begins the frame if it has none.
Reassembler::Place* Reassembler::Find(const Segment& segment, absl::Time now) {
  const auto is_its = [&segment](const Place& place) {
    return place.used && place.id == segment.header.segment_id && place.source == segment.source;
  };
  if (ABSL_PREDICT_TRUE(recent_ != nullptr && is_its(*recent_) && now < recent_->deadline))
    return recent_;
  Expire(now);
  Place* const set = &(*places_)[absl::Hash<PeerAddress>()(segment.source) % kSets * kWays];
  Place* const found = std::find_if(set, set + kWays, is_its);
  recent_ = found != set + kWays ? found : Begin(segment, set, now);
  return recent_;
}

// Takes a free place of the set. If there is none, or the source has as many as it may, the oldest
// one gives way.
Reassembler::Place* Reassembler::Begin(const Segment& segment, Place* set, absl::Time now) {
  Place* free = nullptr;
  Place* oldest = nullptr;
  Place* oldest_of_source = nullptr;
  size_t of_source = 0;
  for (Place* place = set; place != set + kWays; ++place) {
    if (!place->used) {
      free = place;
      continue;
    }
    if (oldest == nullptr || place->deadline < oldest->deadline) oldest = place;
    if (place->source != segment.source) continue;
    ++of_source;
    if (oldest_of_source == nullptr || place->deadline < oldest_of_source->deadline)
      oldest_of_source = place;
  }
  Place* const place = of_source == kPerSource ? oldest_of_source : free != nullptr ? free : oldest;
  if (place->used) Leave(place);
  place->used = true;
  place->dropped = false;
  place->source = segment.source;
  place->id = segment.header.segment_id;
  place->header = segment.header;
  place->extension = segment.extension;
  place->deadline = now + kLifetime;
  place->have = 0;
  place->count = 0;
  place->bytes = 0;
  ++used_;
  next_deadline_ = std::min(next_deadline_, place->deadline);
  return place;
}

void Reassembler::Take(const Segment& segment, Place* place) {
  pool_->Move(segment.piece.buffer, BufferPool::State::kHeld);
  ++buffers_;
  const uint8_t offset = segment.header.segment_offset;
  place->have |= uint32_t{1} << offset;
  place->bytes += segment.piece.length;
  place->pieces[offset] = segment.piece;
  if (!segment.header.more_segments) place->count = static_cast<uint8_t>(offset + 1);
}

// Makes the chain, and ends the frame's stay.
Frame Reassembler::Join(Place* place) {
  Frame frame = place->pieces[0];
  frame.rest = place->bytes - frame.length;
  frame.buffers = place->count;
  frame.gso = place->extension.gso;
  for (size_t i = 1; i < place->count; ++i) {
    pool_->Append(place->pieces[i - 1].buffer, place->pieces[i].buffer, place->pieces[i].data,
                  place->pieces[i].length);
  }
  pool_->MoveChain(frame.buffer, BufferPool::State::kBatch);
  buffers_ -= place->count;
  place->used = false;
  --used_;
  counters_->CountReceived();
  return frame;
}

// Counts the frame as dropped. Its place stays, for its other segments.
void Reassembler::Drop(Place* place) {
  if (place->dropped) return;
  place->dropped = true;
  counters_->CountRefused(DropReason::kReassembly);
  FreePieces(place);
}

// The first frame to expire, except for dropped ones, which have no buffers.
void Reassembler::DropOldest() {
  Place* oldest = nullptr;
  for (Place& place : *places_) {
    if (place.have != 0 && place.used && !place.dropped &&
        (oldest == nullptr || place.deadline < oldest->deadline))
      oldest = &place;
  }
  Drop(oldest);
}

void Reassembler::Leave(Place* place) {
  Drop(place);
  place->used = false;
  --used_;
}

void Reassembler::FreePieces(Place* place) {
  for (size_t i = 0; i < kMaxSegments; ++i) {
    if ((place->have >> i & 1) == 0 || !place->used) continue;
    pool_->Free(place->pieces[i].buffer);
    --buffers_;
  }
  place->have = 0;
}

void Reassembler::Expire(absl::Time now) {
  if (ABSL_PREDICT_TRUE(now < next_deadline_)) return;
  next_deadline_ = absl::InfiniteFuture();
  for (Place& place : *places_) {
    if (place.used && place.deadline <= now) Leave(&place);
    if (place.used) next_deadline_ = std::min(next_deadline_, place.deadline);
  }
}

}  // namespace eoib
