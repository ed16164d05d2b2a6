// Reassembler: joins the segments of large frames from the fabric. It copies nothing: a frame
// becomes the chain of the buffers that its segments came in. wire/wire_format.md ("Segments") has
// the rules.
//
// Memory is bounded, and no sender can take the places of all others: a source has at most
// kPerSource incomplete frames, all sources together have kPlaces and `max_buffers`. The oldest
// ones give way. A frame that was dropped keeps its place until its time is over, so that its other
// segments do not begin it again.
//
// Every frame counts once in frames_in, when it is complete or dropped.
#ifndef EOIB_VSWITCH_FORWARDER_REASSEMBLER_H_
#define EOIB_VSWITCH_FORWARDER_REASSEMBLER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "vswitch/base/address.h"
#include "vswitch/base/drop_reason.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/forwarder/forwarder_counters.h"
#include "vswitch/port/frame.h"
#include "vswitch/wire/eoib_header.h"
#include "vswitch/wire/segment_extension.h"

namespace eoib {

// For the worker that owns the forwarder.
class Reassembler {
 public:
  static constexpr absl::Duration kLifetime = absl::Milliseconds(50);
  static constexpr size_t kPerSource = 4;
  static constexpr size_t kPlaces = 256;

  struct Segment {
    PeerAddress source;
    EoibHeader header;
    SegmentExtension extension;
    Frame piece;  // one buffer, which the call takes over
  };

  // The pointers outlive the object.
  Reassembler(BufferPool* pool, ForwarderCounters* counters, size_t max_buffers);
  // Frees its buffers.
  ~Reassembler();
  Reassembler(const Reassembler&) = delete;
  Reassembler& operator=(const Reassembler&) = delete;

  // True if the segment completes a frame. *frame is then the frame, with the GSO that its
  // extension describes, not yet validated (AcceptSuperFrame).
  bool Add(const Segment& segment, absl::Time now, Frame* frame);
  // Drops the frames whose lifetime is over.
  void Expire(absl::Time now);
  // True if Expire has something to wait for.
  bool HasIncomplete() const { return used_ != 0; }
  size_t buffers() const { return buffers_; }

 private:
  // The sources of a set share its places. Abseil's hash is secret, so no sender can choose the
  // others of its set.
  static constexpr size_t kWays = 8;
  static constexpr size_t kSets = kPlaces / kWays;

  struct Place {
    bool used = false;
    bool dropped = false;
    PeerAddress source;
    uint16_t id = 0;
    EoibHeader header;  // of the first segment to arrive
    SegmentExtension extension;
    absl::Time deadline;
    uint32_t have = 0;   // a bit for each segment
    uint8_t count = 0;   // segments; 0: the last one has not arrived
    uint32_t bytes = 0;  // in all segments that have arrived
    std::array<Frame, kMaxSegments> pieces;
  };

  static bool IsPossible(const Segment& segment);
  static bool Belongs(const Segment& segment, const Place& place);
  static bool IsComplete(const Place& place);
  Place* Find(const Segment& segment, absl::Time now);
  Place* Begin(const Segment& segment, Place* set, absl::Time now);
  void Take(const Segment& segment, Place* place);
  Frame Join(Place* place);
  void Drop(Place* place);
  void DropOldest();
  void Leave(Place* place);
  void FreePieces(Place* place);

  BufferPool* const pool_;
  ForwarderCounters* const counters_;
  const size_t max_buffers_;
  const std::unique_ptr<std::array<Place, kPlaces>> places_;
  Place* recent_ = nullptr;  // segments of a frame follow each other
  size_t used_ = 0;
  size_t buffers_ = 0;
  absl::Time next_deadline_ = absl::InfiniteFuture();  // no frame expires before
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FORWARDER_REASSEMBLER_H_
