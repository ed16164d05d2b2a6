#include "vswitch/port/divide_super_frame.h"

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "vswitch/fabric/fake_verbs.h"
#include "vswitch/wire/segmentation.h"
#include "vswitch/wire/super_frame_for_test.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

class DivideSuperFrameTest : public testing::Test {
 protected:
  Bytes BytesOf(const Frame& frame) {
    Bytes bytes;
    VisitPieces(*pool_, frame, [&bytes](absl::Span<uint8_t> piece) {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
    });
    EXPECT_EQ(bytes.size(), frame.total());
    return bytes;
  }
  // Cuts the super-frame with the segmentation, whose segments are the measure.
  static std::vector<Bytes> Segments(const Bytes& whole, const Gso& gso) {
    std::vector<Bytes> segments;
    const auto plan = Segmentation::Of(whole, whole.size(), gso, 65535);
    EXPECT_TRUE(plan.has_value());
    for (size_t i = 0; i < plan->count(); ++i) {
      Bytes segment(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(plan->header_size()));
      plan->WriteHeaders(i, absl::MakeSpan(segment));
      const auto from = whole.begin() + static_cast<ptrdiff_t>(plan->payload_at(i));
      segment.insert(segment.end(), from, from + static_cast<ptrdiff_t>(plan->payload_size(i)));
      // Identification and header checksum.
      if (segment[12] == 8) segment[18] = segment[19] = segment[24] = segment[25] = 0;
      segments.push_back(segment);
    }
    return segments;
  }
  // Divides a super-frame, and checks that the parts stand for the same segments in the same order.
  std::vector<Frame> Divide(const SuperFrameShape& shape, const Gso& gso, uint32_t mtu) {
    ChecksumRequest request;
    const Bytes whole = MakeSuperFrame(shape, &request);
    const PieceLayout layout(mtu, 2);
    std::vector<Frame> parts(64);
    parts.resize(DivideSuperFrame(whole, gso, layout, pool_.get(), absl::MakeSpan(parts)));
    std::vector<Bytes> segments;
    for (const Frame& part : parts) {
      EXPECT_LE(part.total(), layout.Largest());
      EXPECT_LE(part.length, part.IsLarge() ? layout.first : layout.datagram);
      EXPECT_EQ(part.checksum, request);
      const Gso each = part.gso.type == GsoType::kNone ? Gso{gso.type, gso.size} : part.gso;
      const std::vector<Bytes> of_part = Segments(BytesOf(part), each);
      segments.insert(segments.end(), of_part.begin(), of_part.end());
    }
    if (!parts.empty()) {
      EXPECT_EQ(segments, Segments(whole, gso));
    }
    return parts;
  }
  void Free(const std::vector<Frame>& frames) {
    for (const Frame& frame : frames) pool_->Free(frame.buffer);
    EXPECT_EQ(pool_->count(BufferPool::State::kFree), pool_->size());
  }

  FakeHca hca_;
  std::unique_ptr<BufferPool> pool_ = BufferPool::Create(&hca_, hca_.pd(), 1024, 4092).value();
};

TEST_F(DivideSuperFrameTest, PartsStandForTheSameSegments) {
  struct {
    const char* description;
    SuperFrameShape shape;
    Gso gso;
    uint32_t mtu;
    size_t parts;
  } rows[] = {
      {"TCP of 45 segments, one too many for 32 datagrams",
       {.payload = 45 * 1448},
       {GsoType::kTcp, 1448},
       2044,
       2},
      {"the same with options and FIN",
       {.tcp_options = 12, .payload = 45 * 1448, .tcp_flags = 0x19},
       {GsoType::kTcp, 1448},
       2044,
       2},
      {"IPv6, tagged", {.ipv6 = true, .vid = 7, .payload = 65000}, {GsoType::kTcp, 1428}, 2044, 2},
      {"CWR stays in the first",
       {.payload = 65100, .tcp_flags = 0x90},
       {GsoType::kTcpEcn, 1448},
       2044,
       2},
      {"the largest packet of IPv4, with a large MTU",
       {.payload = 65495},
       {GsoType::kTcp, 4000},
       4092,
       2},
      {"a small MTU", {.payload = 65000}, {GsoType::kTcp, 1448}, 508, 5},
      {"UDP", {.udp = true, .payload = 45 * 1448}, {GsoType::kUdp, 1448}, 2044, 2},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.description);
    const std::vector<Frame> parts = Divide(row.shape, row.gso, row.mtu);
    EXPECT_EQ(parts.size(), row.parts);
    Free(parts);
  }
}

TEST_F(DivideSuperFrameTest, MakesAtMostSoManyParts) {
  for (const uint32_t mtu : {252u, 508u, 1020u, 2044u}) {
    const PieceLayout layout(mtu, 2);
    ChecksumRequest request;
    const Bytes whole = MakeSuperFrame({.payload = 65483}, &request);
    std::vector<Frame> parts(MostParts(whole.size(), layout));
    for (size_t size = 100; size < 65483; size = size * 9 / 8) {
      const size_t before = pool_->count(BufferPool::State::kFree);
      const size_t count = DivideSuperFrame(whole, {GsoType::kTcp, static_cast<uint16_t>(size)},
                                            layout, pool_.get(), absl::MakeSpan(parts));
      EXPECT_GE(count, 2u) << "all parts have room, at MTU " << mtu << " in segments of " << size;
      EXPECT_LE(before - pool_->count(BufferPool::State::kFree), MostBuffers(whole.size(), layout));
      for (size_t i = 0; i < count; ++i) pool_->Free(parts[i].buffer);
    }
  }
}

TEST_F(DivideSuperFrameTest, LastPartMayBeOneSegmentInOneDatagram) {
  const std::vector<Frame> parts = Divide({.payload = 45 * 1448}, {GsoType::kTcp, 1448}, 2044);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].gso, (Gso{GsoType::kTcp, 1448}));
  EXPECT_EQ(parts[1].gso, Gso());
  EXPECT_EQ(parts[1].buffers, 1);
  EXPECT_FALSE(parts[1].IsLarge());
  Free(parts);
}

TEST_F(DivideSuperFrameTest, CongestionWindowReducedIsInTheFirstPartOnly) {
  const std::vector<Frame> parts =
      Divide({.payload = 65000, .tcp_flags = 0x90}, {GsoType::kTcpEcn, 1000}, 1020);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].gso.type, GsoType::kTcpEcn);
  EXPECT_EQ(parts[1].gso.type, GsoType::kTcp);
  EXPECT_EQ(parts[0].data[47] & 0x80, 0x80);
  EXPECT_EQ(parts[1].data[47] & 0x80, 0);
  Free(parts);
}

TEST_F(DivideSuperFrameTest, RefusalTakesNoBuffer) {
  ChecksumRequest request;
  const Bytes whole = MakeSuperFrame({.payload = 65000}, &request);
  const PieceLayout layout(2044);
  Frame parts[8];
  const auto divide = [&](const Bytes& bytes, const Gso& gso, size_t room) {
    return DivideSuperFrame(bytes, gso, layout, pool_.get(), absl::MakeSpan(parts).first(room));
  };
  EXPECT_EQ(divide(whole, {GsoType::kTcp, 1448}, 1), 0u) << "no room for the second part";
  EXPECT_EQ(divide(whole, {GsoType::kUdp, 1448}, 8), 0u) << "the frame is TCP";
  EXPECT_EQ(divide(whole, {GsoType::kTcp, 0}, 8), 0u) << "segments without payload";
  EXPECT_EQ(divide(Bytes(65000), {GsoType::kTcp, 1448}, 8), 0u) << "no IP packet";
  std::vector<BufferId> taken;
  while (pool_->count(BufferPool::State::kFree) > 20) taken.push_back(pool_->Allocate());
  EXPECT_EQ(divide(whole, {GsoType::kTcp, 1448}, 8), 0u) << "too few buffers";
  EXPECT_EQ(pool_->count(BufferPool::State::kFree), 20u);
  for (const BufferId buffer : taken) pool_->Free(buffer);
  EXPECT_EQ(divide(whole, {GsoType::kTcp, 1448}, 8), 2u);
  Free({parts[0], parts[1]});
}

}  // namespace
}  // namespace eoib
