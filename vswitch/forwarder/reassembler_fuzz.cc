// The reassembly of segments from hostile peers, against a record of everything that they sent.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "vswitch/base/byte_order.h"
#include "vswitch/base/clock.h"
#include "vswitch/fabric/fake_verbs.h"
#include "vswitch/forwarder/reassembler.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kMaxBuffers = 24;
constexpr size_t kLargestPiece = 600;

void Require(bool condition) {
  if (!condition) std::abort();
}

// One segment of the input, 12 bytes: what is different about it is near enough to what others say
// that frames complete.
struct Step {
  uint8_t source, id, offset_and_more, wait;  // wait: in units of 200 us
  be16 length;
  be16 total, piece;
  uint8_t gso_size, type;
};
static_assert(sizeof(Step) == 12);

class Run {
 public:
  void Take(const Step& step) {
    clock_.Advance(absl::Microseconds(200) * step.wait);
    Reassembler::Segment segment;
    segment.source = {Gid::FromPrefixAndGuid(uint64_t{0xfe80} << 48, Guid(1)),
                      Qpn(step.source % 4u + 2)};
    segment.header.extension = true;
    segment.header.more_segments = (step.offset_and_more & 0x80) != 0;
    segment.header.segment_offset = step.offset_and_more & 0x1f;
    segment.header.segment_id = step.id;
    segment.extension = {
        step.total.value(), step.piece.value(), {GsoType(step.type & 1), step.gso_size}, 0};
    const BufferId buffer = pool_->Allocate();
    Require(!buffer.IsNone());
    segment.piece = {buffer, pool_->Frame(buffer),
                     std::min<uint32_t>(step.length.value(), kLargestPiece)};
    // Each segment has bytes of its own.
    ++number_;
    for (uint32_t i = 0; i < segment.piece.length; ++i)
      segment.piece.data[i] = static_cast<uint8_t>(number_ * 31 + i);
    sent_[{step.source % 4u, step.id, segment.header.segment_offset}].emplace_back(
        segment.piece.data, segment.piece.data + segment.piece.length);
    Frame frame;
    if (!reassembler_.Add(segment, clock_.Now(), &frame)) return;
    ++complete_;
    CheckFrame(segment, frame);
    pool_->Free(frame.buffer);
  }

  void End() {
    clock_.Advance(Reassembler::kLifetime);
    reassembler_.Expire(clock_.Now());
    Require(!reassembler_.HasIncomplete() && reassembler_.buffers() == 0);
    Require(pool_->count(BufferPool::State::kFree) == pool_->size());
    Require(counters_.frames_in.value() == complete_ + counters_.DropSum(DropSide::kIngress));
  }

 private:
  // The frame has the length that was said, and each of its pieces is a segment of that number that
  // was sent.
  void CheckFrame(const Reassembler::Segment& segment, const Frame& frame) {
    Require(frame.total() == segment.extension.total && frame.gso == segment.extension.gso);
    size_t offset = 0;
    VisitPieces(*pool_, frame, [&](absl::Span<uint8_t> piece) {
      const auto& sent = sent_[{segment.source.qpn.value() - 2, segment.header.segment_id,
                                static_cast<uint8_t>(offset++)}];
      Require(std::any_of(sent.begin(), sent.end(),
                          [&](const Bytes& bytes) { return absl::MakeConstSpan(bytes) == piece; }));
      Require(piece.size() == segment.extension.piece || offset == 1 || offset == frame.buffers);
    });
    Require(offset == frame.buffers);
    Require(reassembler_.buffers() <= kMaxBuffers);
  }

  FakeClock clock_;
  FakeHca hca_;
  std::unique_ptr<BufferPool> pool_ =
      BufferPool::Create(&hca_, hca_.pd(), kMaxBuffers + 2, kLargestPiece).value();
  ForwarderCounters counters_;
  Reassembler reassembler_{pool_.get(), &counters_, kMaxBuffers};
  std::map<std::tuple<uint32_t, uint8_t, uint8_t>, std::vector<Bytes>> sent_;
  uint64_t number_ = 0;
  uint64_t complete_ = 0;
};

}  // namespace
}  // namespace eoib

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace eoib;  // NOLINT: the entry point has no namespace
  Run run;
  for (; size >= sizeof(Step); data += sizeof(Step), size -= sizeof(Step))
    run.Take(ReadWire<Step>(data));
  run.End();
  return 0;
}
