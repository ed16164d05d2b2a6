#include "gateway/translation/frame_joiner.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/fabric/fake_verbs.h"
#include "vswitch/port/packet_cutter.h"
#include "vswitch/wire/super_frame_for_test.h"

namespace eoib::gateway {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using Bytes = std::vector<uint8_t>;

constexpr uint32_t kVesMtu = 2044;
constexpr size_t kBuffers = 128;

class FrameJoinerTest : public testing::Test {
 protected:
  // The IP packets of a super-frame, and its Ethernet header.
  struct Packets {
    Bytes super_frame;
    ChecksumRequest checksum;
    Bytes header;
    std::vector<Bytes> packets;
  };
  static Packets Cut(const SuperFrameShape& shape, uint16_t gso_size) {
    Packets cut;
    cut.super_frame = MakeSuperFrame(shape, &cut.checksum);
    cut.header.assign(cut.super_frame.begin(), cut.super_frame.begin() + 14);
    Frame frame{BufferId::None(), cut.super_frame.data(),
                static_cast<uint32_t>(cut.super_frame.size()), cut.checksum};
    frame.gso = {shape.udp ? GsoType::kUdp : GsoType::kTcp, gso_size};
    auto cutter = PacketCutter::Of(frame);
    while (const size_t size = cutter->NextSize()) {
      cut.packets.emplace_back(size);
      cutter->Next(absl::MakeSpan(cut.packets.back()));
    }
    return cut;
  }
  // Hands a packet over as the port does.
  void Give(const Bytes& header, const Bytes& packet) {
    if (joiner_.Append(header, packet, &left_)) return;
    ASSERT_LT(count_, frames_.size());
    Frame* const frame = &frames_[count_++];
    const BufferId buffer = pool_->Allocate();
    ASSERT_FALSE(buffer.IsNone());
    *frame = {
        buffer, pool_->Frame(buffer), static_cast<uint32_t>(header.size() + packet.size()), {}};
    --left_;
    std::copy(header.begin(), header.end(), frame->data);
    std::copy(packet.begin(), packet.end(), frame->data + header.size());
    joiner_.Begin(frame);
  }
  void Give(const Packets& cut) {
    for (const Bytes& packet : cut.packets) Give(cut.header, packet);
  }
  void Start() { joiner_.Start(pool_.get(), kVesMtu); }
  void End() { joiner_.End(); }
  // The frames of the batch. Expects the layout of a large frame.
  std::vector<Bytes> Take() {
    joiner_.End();
    std::vector<Bytes> taken;
    const PieceLayout layout(kVesMtu);
    for (size_t i = 0; i < count_; ++i) {
      Bytes bytes;
      size_t pieces = 0;
      VisitPieces(*pool_, frames_[i], [&](absl::Span<uint8_t> piece) {
        bytes.insert(bytes.end(), piece.begin(), piece.end());
        ++pieces;
        if (pieces < frames_[i].buffers) {
          EXPECT_EQ(piece.size(), pieces == 1 ? layout.first : layout.piece);
        }
      });
      EXPECT_EQ(pieces, frames_[i].buffers);
      EXPECT_EQ(bytes.size(), frames_[i].total());
      taken.push_back(bytes);
    }
    return taken;
  }
  void TearDown() override {
    for (size_t i = 0; i < count_; ++i) pool_->Free(frames_[i].buffer);
    EXPECT_EQ(pool_->count(BufferPool::State::kFree), pool_->size());
  }

  FakeHca hca_;
  std::unique_ptr<BufferPool> pool_ =
      BufferPool::Create(&hca_, hca_.pd(), kBuffers, kVesMtu).value();
  std::array<Frame, 64> frames_;
  size_t count_ = 0;
  size_t left_ = 64;
  FrameJoiner joiner_;
};

// What was cut is joined to the same super-frame, whatever the pieces.
TEST_F(FrameJoinerTest, ACutSuperFrameIsWhole) {
  for (const bool ipv6 : {false, true}) {
    for (const bool udp : {false, true}) {
      // The last ones fill a datagram up to the space that the extension and a tag need.
      for (const uint16_t size :
           {8, 100, 1000, 1448, 1970, 1972, 1974, 1976, 1978, 1980, 1982, 1984, 1986}) {
        for (const size_t payload :
             {size_t{2} * size, size_t{3} * size - 1, size_t{20} * size + 1}) {
          SCOPED_TRACE(
              absl::StrCat("ipv6 ", ipv6, " udp ", udp, " size ", size, " payload ", payload));
          const Packets cut = Cut({.ipv6 = ipv6, .udp = udp, .payload = payload}, size);
          if (cut.packets[0].size() + 14 > kVesMtu) continue;
          Start();
          Give(cut);
          const std::vector<Bytes> frames = Take();
          ASSERT_THAT(frames, SizeIs(1));
          EXPECT_EQ(frames[0], cut.super_frame);
          EXPECT_EQ(frames_[0].checksum, cut.checksum);
          EXPECT_EQ(frames_[0].gso, (Gso{udp ? GsoType::kUdp : GsoType::kTcp, size}));
          EXPECT_EQ(left_, 64u - frames_[0].buffers);
          pool_->Free(frames_[0].buffer);
          count_ = 0;
          left_ = 64;
        }
      }
    }
  }
}

TEST_F(FrameJoinerTest, AWrongChecksumIsNotRepaired) {
  Packets cut = Cut({.payload = 4000}, 1000);
  cut.packets[1].back() ^= 1;
  Start();
  Give(cut);
  const std::vector<Bytes> frames = Take();
  ASSERT_THAT(frames, SizeIs(3));
  EXPECT_EQ(Bytes(frames[1].begin() + 14, frames[1].end()), cut.packets[1]);
  EXPECT_EQ(frames_[1].checksum, ChecksumRequest());
  EXPECT_EQ(frames_[1].gso, Gso());
  EXPECT_EQ(frames_[0].gso, Gso()) << "it is alone";
  EXPECT_EQ(frames_[2].gso, (Gso{GsoType::kTcp, 1000}));
}

// The next segment is summed, unless the HCA has done so.
TEST_F(FrameJoinerTest, ASegmentContinuesIfItsChecksumIsRightOrKnownToBe) {
  const Packets cut = Cut({.payload = 4000}, 1000);
  Bytes wrong = cut.packets[2];
  wrong.back() ^= 1;
  Start();
  Give(cut.header, cut.packets[0]);
  EXPECT_TRUE(joiner_.Continue(cut.packets[1], /*checksums_ok=*/false, &left_));
  EXPECT_FALSE(joiner_.Continue(wrong, /*checksums_ok=*/false, &left_));
  EXPECT_TRUE(joiner_.Continue(wrong, /*checksums_ok=*/true, &left_)) << "it need not be read";
  EXPECT_FALSE(joiner_.Continue(cut.packets[1], /*checksums_ok=*/true, &left_))
      << "it does not continue";
  EXPECT_TRUE(joiner_.Continue(cut.packets[3], /*checksums_ok=*/true, &left_));
  EXPECT_THAT(Take(), SizeIs(1));
}

TEST_F(FrameJoinerTest, ASingleSegmentLeavesAsItCame) {
  const Packets cut = Cut({.payload = 2000}, 1986);
  Start();
  Give(cut.header, cut.packets[0]);
  const std::vector<Bytes> frames = Take();
  ASSERT_THAT(frames, SizeIs(1));
  EXPECT_EQ(Bytes(frames[0].begin() + 14, frames[0].end()), cut.packets[0]);
  EXPECT_EQ(frames_[0].checksum, ChecksumRequest());
  EXPECT_FALSE(frames_[0].IsLarge());
}

TEST_F(FrameJoinerTest, OtherAddressesAndOtherPacketsEndTheRun) {
  const Packets cut = Cut({.payload = 4000}, 1000);
  Bytes other = cut.header;
  other[5] ^= 1;
  Start();
  Give(cut.header, cut.packets[0]);
  Give(other, cut.packets[1]);
  Give(cut.header, cut.packets[2]);
  Give(cut.header, Bytes(40, 0x60));
  Give(cut.header, cut.packets[3]);
  EXPECT_THAT(Take(), SizeIs(5));
}

// The switch refuses super-frames of TCP segments below 8 bytes.
TEST_F(FrameJoinerTest, TinySegmentsAreNotJoined) {
  Start();
  Give(Cut({.payload = 40}, 8));
  ASSERT_THAT(Take(), SizeIs(1));
  const Packets cut = Cut({.payload = 16}, 8);
  Bytes tiny = cut.packets[0];
  tiny.pop_back();
  tiny[3] -= 1;
  EXPECT_TRUE(WriteChecksum(absl::MakeSpan(tiny)) || true);
  WriteIpv4Checksum(absl::MakeSpan(tiny).first(20));
  EXPECT_TRUE(WriteChecksum(absl::MakeSpan(tiny)));
  Bytes next = tiny;
  next[27] = static_cast<uint8_t>(next[27] + 7);  // the sequence number
  EXPECT_TRUE(WriteChecksum(absl::MakeSpan(next)));
  Give(cut.header, tiny);
  Give(cut.header, next);
  EXPECT_THAT(Take(), SizeIs(3));
}

// The forwarder limits the buffers of a batch, those of a frame, and may insert a tag.
TEST_F(FrameJoinerTest, LimitsOfAFrame) {
  Start();
  const Packets large = Cut({.payload = 65'400}, 1900);
  Give(large);
  const std::vector<Bytes> frames = Take();
  EXPECT_EQ(left_ + frames_[0].buffers + frames_[1].buffers, 64u);
  EXPECT_LE(frames_[0].buffers, 32);
  EXPECT_THAT(frames, SizeIs(2));
}

TEST_F(FrameJoinerTest, WithoutBuffersThePacketsStayApart) {
  Start();
  const Packets cut = Cut({.payload = 6000}, 1900);
  left_ = 1;
  Give(cut.header, cut.packets[0]);
  EXPECT_FALSE(joiner_.Append(cut.header, cut.packets[1], &left_)) << "none left for the batch";
  left_ = 10;
  std::vector<BufferId> taken;
  for (BufferId id; !(id = pool_->Allocate()).IsNone();) taken.push_back(id);
  EXPECT_FALSE(joiner_.Append(cut.header, cut.packets[1], &left_)) << "none in the pool";
  for (const BufferId id : taken) pool_->Free(id);
  EXPECT_EQ(left_, 10u);
  EXPECT_THAT(Take(), SizeIs(1));
}

}  // namespace
}  // namespace eoib::gateway
