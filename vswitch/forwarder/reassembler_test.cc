#include "vswitch/forwarder/reassembler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

#include "vswitch/base/clock.h"
#include "vswitch/base/seed_for_test.h"
#include "vswitch/fabric/fake_verbs.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kPiece = 500;

PeerAddress Source(uint32_t n) {
  return {Gid::FromPrefixAndGuid(uint64_t{0xfe80} << 48, Guid(n + 1)), Qpn(n + 2)};
}

// A segment as a test describes it.
struct Described {
  uint32_t source = 0;
  uint16_t id = 0;
  unsigned offset = 0;
  bool more = false;
  Bytes bytes;
  SegmentExtension extension;
  L4Checksum vouched = L4Checksum::kNone;
};

class ReassemblerTest : public testing::Test {
 protected:
  ~ReassemblerTest() override {
    reassembler_.reset();
    EXPECT_EQ(pool_->count(BufferPool::State::kFree), pool_->size()) << "a buffer leaked";
  }

  void Limit(size_t max_buffers) {
    reassembler_ = std::make_unique<Reassembler>(pool_.get(), &counters_, max_buffers);
  }

  // The frame of `size` bytes, which count up from `start`, in pieces of kPiece.
  static std::vector<Described> Frame(uint32_t source, uint16_t id, size_t size,
                                      uint8_t start = 0) {
    std::vector<Described> segments;
    for (size_t at = 0; at < size; at += kPiece) {
      Described segment{source, id, static_cast<unsigned>(segments.size()), at + kPiece < size};
      for (size_t i = at; i < std::min(size, at + kPiece); ++i)
        segment.bytes.push_back(static_cast<uint8_t>(start + i * 7));
      segment.extension = {static_cast<uint16_t>(size), kPiece, {}, 0};
      segments.push_back(segment);
    }
    return segments;
  }

  // Offers a segment. Returns the bytes of the frame that it completes, or nothing.
  Bytes Add(const Described& described) {
    const BufferId buffer = pool_->Allocate();
    EXPECT_FALSE(buffer.IsNone());
    Reassembler::Segment segment;
    segment.source = Source(described.source);
    segment.header.extension = true;
    segment.header.l4_checksum = described.vouched;
    segment.header.more_segments = described.more;
    segment.header.segment_offset = static_cast<uint8_t>(described.offset);
    segment.header.segment_id = described.id;
    segment.extension = described.extension;
    segment.piece = {buffer, pool_->Frame(buffer) + kSegmentExtensionSize,
                     static_cast<uint32_t>(described.bytes.size())};
    std::copy(described.bytes.begin(), described.bytes.end(), segment.piece.data);
    eoib::Frame frame;
    if (!reassembler_->Add(segment, clock_.Now(), &frame)) return {};
    Bytes bytes;
    size_t buffers = 0;
    VisitPieces(*pool_, frame, [&](absl::Span<uint8_t> piece) {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
      ++buffers;
    });
    EXPECT_EQ(bytes.size(), frame.total());
    EXPECT_EQ(buffers, frame.buffers);
    EXPECT_EQ(frame.gso, described.extension.gso);
    pool_->Free(frame.buffer);
    return bytes;
  }
  static Bytes Whole(const std::vector<Described>& segments) {
    Bytes bytes;
    for (const Described& segment : segments)
      bytes.insert(bytes.end(), segment.bytes.begin(), segment.bytes.end());
    return bytes;
  }
  void PassLifetime() {
    clock_.Advance(Reassembler::kLifetime);
    reassembler_->Expire(clock_.Now());
  }
  uint64_t dropped() const { return counters_.drop(DropReason::kReassembly); }
  uint64_t malformed() const { return counters_.drop(DropReason::kSegment); }
  void ExpectEachFrameCountedOnce(uint64_t complete) const {
    EXPECT_EQ(counters_.frames_in.value(), complete + dropped() + malformed());
    EXPECT_EQ(counters_.from_fabric.value(), counters_.frames_in.value());
  }

  FakeClock clock_;
  FakeHca hca_;
  std::unique_ptr<BufferPool> pool_ =
      BufferPool::Create(&hca_, hca_.pd(), 4096, kPiece + 64).value();
  ForwarderCounters counters_;
  std::unique_ptr<Reassembler> reassembler_ =
      std::make_unique<Reassembler>(pool_.get(), &counters_, 2048);
};

TEST_F(ReassemblerTest, JoinsSegmentsInAnyOrder) {
  std::vector<Described> segments = Frame(1, 7, 2100);
  const Bytes whole = Whole(segments);
  ASSERT_EQ(segments.size(), 5u);
  std::vector<size_t> order = {0, 1, 2, 3, 4};
  do {
    for (size_t i = 0; i < 4; ++i) ASSERT_TRUE(Add(segments[order[i]]).empty());
    ASSERT_EQ(Add(segments[order[4]]), whole);
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_FALSE(reassembler_->HasIncomplete());
  EXPECT_EQ(reassembler_->buffers(), 0u);
  EXPECT_EQ(counters_.segments_received.value(), 120u * 5);
  ExpectEachFrameCountedOnce(120);
}

TEST_F(ReassemblerTest, AFrameOfOneSegmentNeedsNoPlace) {
  Described only = Frame(1, 0, 300)[0];
  only.extension.gso = {GsoType::kTcp, 100};
  EXPECT_EQ(Add(only), only.bytes);
  EXPECT_FALSE(reassembler_->HasIncomplete());
  ExpectEachFrameCountedOnce(1);
}

TEST_F(ReassemblerTest, TheFirstSegmentMayBeShorter) {
  std::vector<Described> segments = Frame(1, 7, 1400);
  segments[0].bytes.resize(kPiece - 4);
  for (Described& segment : segments) segment.extension.total = 1396;
  EXPECT_TRUE(Add(segments[0]).empty());
  EXPECT_TRUE(Add(segments[1]).empty());
  EXPECT_EQ(Add(segments[2]), Whole(segments));
}

TEST_F(ReassemblerTest, ALostSegmentCostsItsFrameAndNoOther) {
  const std::vector<Described> lossy = Frame(1, 7, 2000), next = Frame(1, 8, 2000);
  for (size_t i : {0, 1, 3}) EXPECT_TRUE(Add(lossy[i]).empty());
  for (size_t i : {0, 1, 2}) EXPECT_TRUE(Add(next[i]).empty());
  EXPECT_EQ(Add(next[3]), Whole(next));
  EXPECT_EQ(reassembler_->buffers(), 3u);
  clock_.Advance(Reassembler::kLifetime - absl::Nanoseconds(1));
  reassembler_->Expire(clock_.Now());
  EXPECT_TRUE(reassembler_->HasIncomplete());
  clock_.Advance(absl::Nanoseconds(1));
  reassembler_->Expire(clock_.Now());
  EXPECT_FALSE(reassembler_->HasIncomplete());
  EXPECT_EQ(reassembler_->buffers(), 0u);
  EXPECT_EQ(dropped(), 1u);
  ExpectEachFrameCountedOnce(1);
}

TEST_F(ReassemblerTest, AnIdIsNewAfterTheLifetime) {
  const std::vector<Described> before = Frame(1, 7, 1000, 1), after = Frame(1, 7, 1000, 2);
  EXPECT_TRUE(Add(before[0]).empty());
  clock_.Advance(Reassembler::kLifetime);
  EXPECT_TRUE(Add(after[1]).empty());
  EXPECT_EQ(Add(after[0]), Whole(after));
  EXPECT_EQ(dropped(), 1u);
}

TEST_F(ReassemblerTest, SourcesDoNotMix) {
  const std::vector<Described> a = Frame(1, 7, 1000, 1), b = Frame(2, 7, 1000, 2);
  EXPECT_TRUE(Add(a[0]).empty());
  EXPECT_TRUE(Add(b[1]).empty());
  EXPECT_EQ(Add(a[1]), Whole(a));
  EXPECT_EQ(Add(b[0]), Whole(b));
}

TEST_F(ReassemblerTest, SegmentsThatDisagreeDropTheFrameOnce) {
  const auto rows = [] {
    const std::vector<Described> good = Frame(1, 7, 2000);
    std::vector<std::pair<const char*, std::vector<Described>>> made;
    const auto add = [&](const char* description, auto change) {
      made.push_back({description, good});
      change(&made.back().second);
    };
    add("another total", [](auto* s) { (*s)[2].extension.total = 1999; });
    add("another piece length", [](auto* s) { (*s)[3].extension.piece = 501; });
    add("another GSO", [](auto* s) { (*s)[2].extension.gso = {GsoType::kTcp, 100}; });
    add("another checksum start", [](auto* s) { (*s)[2].extension.checksum_start = 34; });
    add("another checksum status", [](auto* s) { (*s)[2].vouched = L4Checksum::kTcpOk; });
    add("a duplicate", [](auto* s) { s->insert(s->begin() + 1, (*s)[0]); });
    add("two last ones", [](auto* s) { (*s)[2].more = false; });
    add("a segment behind the last one", [](auto* s) {
      std::swap((*s)[2], (*s)[3]), (*s)[2].offset = 2, (*s)[3].offset = 3, (*s)[3].more = true;
    });
    add("fewer bytes than the total", [](auto* s) { (*s)[3].bytes.resize(499); });
    return made;
  }();
  for (const auto& [description, segments] : rows) {
    SCOPED_TRACE(description);
    const uint64_t before = dropped();
    for (const Described& segment : segments) EXPECT_TRUE(Add(segment).empty());
    EXPECT_EQ(dropped(), before + 1) << "the other segments must not begin it again";
    EXPECT_EQ(reassembler_->buffers(), 0u);
    PassLifetime();
    EXPECT_EQ(dropped(), before + 1);
  }
  EXPECT_EQ(malformed(), 0u);
  ExpectEachFrameCountedOnce(0);
}

TEST_F(ReassemblerTest, AMalformedSegmentDoesNotTouchAFrame) {
  const std::vector<Described> good = Frame(1, 7, 1600);
  const auto changed = [&good](size_t i, auto change) {
    Described segment = good[i];
    change(&segment);
    return segment;
  };
  const std::pair<const char*, Described> rows[] = {
      {"no bytes", changed(1, [](Described* s) { s->bytes.clear(); })},
      {"a short one in the middle", changed(1, [](Described* s) { s->bytes.pop_back(); })},
      {"a long one in the middle", changed(1, [](Described* s) { s->bytes.push_back(0); })},
      {"a first one without the headers", changed(0, [](Described* s) { s->bytes.resize(127); })},
      {"a last one longer than a piece", changed(3, [](Described* s) { s->bytes.resize(501); })},
      {"one more than 32", changed(1, [](Described* s) { s->offset = 31; })},
      {"an only one of part of the frame", changed(0, [](Described* s) { s->more = false; })},
  };
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(Add(good[i]).empty());
  for (const auto& [description, segment] : rows) {
    SCOPED_TRACE(description);
    const uint64_t before = malformed();
    EXPECT_TRUE(Add(segment).empty());
    EXPECT_EQ(malformed(), before + 1);
  }
  EXPECT_EQ(Add(good[3]), Whole(good));
}

TEST_F(ReassemblerTest, ASourceHasFewIncompleteFramesAndTheOldestGivesWay) {
  std::vector<std::vector<Described>> frames;
  for (uint16_t id = 0; id <= Reassembler::kPerSource; ++id) {
    frames.push_back(Frame(1, id, 1000, static_cast<uint8_t>(id)));
    EXPECT_TRUE(Add(frames.back()[0]).empty());
    clock_.Advance(absl::Milliseconds(1));
  }
  EXPECT_EQ(dropped(), 1u);
  for (uint16_t id = 1; id <= Reassembler::kPerSource; ++id)
    EXPECT_EQ(Add(frames[id][1]), Whole(frames[id]));
}

TEST_F(ReassemblerTest, MemoryIsBoundedAndTheOldestFrameGivesWay) {
  Limit(10);
  for (uint32_t source = 0; source < 1000; ++source) {
    EXPECT_TRUE(Add(Frame(source, 0, 1000)[0]).empty());
    EXPECT_LE(reassembler_->buffers(), 10u);
    clock_.Advance(absl::Microseconds(1));
  }
  const std::vector<Described> last = Frame(999, 0, 1000);
  EXPECT_EQ(Add(last[1]), Whole(last)) << "the newest stays";
}

TEST_F(ReassemblerTest, ALimitSmallerThanAFrameIsNoTrouble) {
  Limit(2);
  for (const Described& segment : Frame(1, 7, 2500)) EXPECT_TRUE(Add(segment).empty());
  EXPECT_LE(reassembler_->buffers(), 2u);
  EXPECT_EQ(dropped(), 1u);
}

TEST_F(ReassemblerTest, ManySourcesAtATime) {
  constexpr uint32_t kSources = 60;
  size_t complete = 0;
  std::vector<std::vector<Described>> frames;
  for (uint32_t source = 0; source < kSources; ++source)
    frames.push_back(Frame(source, 5, 4000, static_cast<uint8_t>(source)));
  for (size_t i = 0; i < frames[0].size(); ++i) {
    for (const auto& frame : frames) complete += Add(frame[i]) == Whole(frame);
  }
  EXPECT_GE(complete, kSources * 3 / 4) << "sets of places are not equally full";
  PassLifetime();
  ExpectEachFrameCountedOnce(complete);
}

// Loss, duplication, reordering, wrap of ids, nonsense and time, against a model that keeps every
// segment.
TEST_F(ReassemblerTest, ARandomFabricNeverYieldsAnotherFrame) {
  std::mt19937 random(SeedForTest());
  const auto below = [&random](size_t n) { return static_cast<size_t>(random() % n); };
  Limit(64);
  std::map<uint32_t, uint16_t> ids;
  std::map<std::tuple<uint32_t, uint16_t>, Bytes> sent;  // the present frame of an id
  std::vector<Described> under_way;
  size_t complete = 0, undamaged = 0;
  for (int round = 0; round < 20000; ++round) {
    const uint32_t source = static_cast<uint32_t>(below(3));
    if (ids.find(source) == ids.end()) ids[source] = 65530;
    const uint16_t id = ids[source]++;
    std::vector<Described> frame =
        Frame(source, id, 150 + below(6000), static_cast<uint8_t>(round));
    sent[{source, id}] = Whole(frame);
    if (below(4) != 0) {
      ++undamaged;
    } else {
      Described& victim = frame[below(frame.size())];
      switch (below(6)) {
        case 0:
          victim.bytes.clear();
          break;
        case 1:
          victim.offset = static_cast<unsigned>(below(32));
          break;
        case 2:
          victim.more = !victim.more;
          break;
        case 3:
          victim.extension.total = static_cast<uint16_t>(random());
          break;
        case 4:
          frame.push_back(victim);
          break;
        default:
          frame.erase(frame.begin() + static_cast<ptrdiff_t>(below(frame.size())));
      }
    }
    if (below(3) == 0) std::shuffle(frame.begin(), frame.end(), random);
    under_way.insert(under_way.end(), frame.begin(), frame.end());
    while (under_way.size() > below(24)) {
      const size_t next = std::min(below(3), under_way.size() - 1);
      const Described segment = under_way[next];
      under_way.erase(under_way.begin() + static_cast<ptrdiff_t>(next));
      const Bytes got = Add(segment);
      ASSERT_LE(reassembler_->buffers(), 64u);
      if (got.empty()) continue;
      ++complete;
      ASSERT_EQ(got, (sent[{segment.source, segment.id}]));
    }
    if (below(50) == 0) PassLifetime();
    clock_.Advance(absl::Microseconds(static_cast<int64_t>(below(500))));
  }
  EXPECT_GT(complete, undamaged * 9 / 10);
  PassLifetime();
  EXPECT_FALSE(reassembler_->HasIncomplete());
  ExpectEachFrameCountedOnce(complete);
}

}  // namespace
}  // namespace eoib
