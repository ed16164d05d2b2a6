// Frames through a vhost port.
#include "vswitch/port/vhost/vhost_port.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/port/vhost/vhost_port_test_fixture.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/segmentation.h"

namespace eoib {
namespace {

using ::testing::ElementsAre;

TEST_F(VhostPortTest, FramesPassBothWays) {
  for (const uint64_t features :
       {uint64_t{0}, VhostFeature::kVersion1, VhostFeature::kMergeable, kLinux}) {
    Start(features);
    machine_->Send(Plain(60));
    machine_->Send(Plain(kMtu), {}, 100);
    EXPECT_TRUE(IsReady());
    EXPECT_THAT(Receive(), ElementsAre(Plain(60), Plain(kMtu)));
    EXPECT_FALSE(IsReady());
    machine_->Post(8, 2100);
    EXPECT_EQ(Transmit(Plain(60)), DropReason::kNone);
    EXPECT_EQ(Transmit(Plain(1500)), DropReason::kNone);
    const auto got = machine_->Take();
    ASSERT_EQ(got.size(), 2u);
    EXPECT_EQ(got[0].frame, Plain(60));
    EXPECT_EQ(got[1].frame, Plain(1500));
    EXPECT_EQ(got[0].header.flags, 0);
    backend_.device->Disconnect("");
  }
}

TEST_F(VhostPortTest, BecomesReadyAgainWithTheNextFrame) {
  Start(kLinux);
  EXPECT_THAT(Receive(), ElementsAre());
  for (uint8_t i = 0; i < 100; ++i) {
    EXPECT_FALSE(IsReady());
    machine_->Send(Plain(60, i));
    EXPECT_TRUE(IsReady());
    EXPECT_THAT(Receive(), ElementsAre(Plain(60, i)));
    ASSERT_TRUE(machine_->queue(1)->Take().has_value());
  }
}

TEST_F(VhostPortTest, StaysReadyWhileFramesWait) {
  Start(kLinux);
  for (uint8_t i = 0; i < 20; ++i) machine_->Send(Plain(60, i));
  Frame frames[8];
  for (const size_t expected : {8, 8, 4}) {
    EXPECT_TRUE(IsReady());
    ASSERT_EQ(port_->Receive(pool_.get(), kMtu, absl::MakeSpan(frames), &counts_), expected);
    for (size_t i = 0; i < expected; ++i) pool_->Free(frames[i].buffer);
  }
  EXPECT_FALSE(IsReady());
}

TEST_F(VhostPortTest, WaitsForBuffersOfThePool) {
  Start(kLinux);
  std::vector<BufferId> taken;
  while (pool_->count(BufferPool::State::kFree) > 1) taken.push_back(pool_->Allocate());
  machine_->Send(Plain(60));
  machine_->Send(Plain(61));
  EXPECT_THAT(Receive(), ElementsAre(Plain(60))) << "then the buffer is free again";
  for (const BufferId id : taken) pool_->Free(id);
  EXPECT_TRUE(IsReady());
  EXPECT_THAT(Receive(), ElementsAre(Plain(61)));
}

TEST_F(VhostPortTest, ChecksumRequestsPassBothWays) {
  Start(kLinux);
  ChecksumRequest request;
  const Bytes frame = MakeSuperFrame({.payload = 500}, &request);
  VnetHeader header;
  header.Request(request);
  machine_->Send(frame, header);
  const std::vector<Frame> frames = ReceiveFrames();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].checksum, request);
  pool_->Free(frames[0].buffer);
  machine_->Post(1, 2100);
  EXPECT_EQ(Transmit(frame, false, request), DropReason::kNone);
  EXPECT_EQ(machine_->Take().at(0).header.checksum(), request);
  header.checksum_start = 499;
  header.checksum_offset = 5000;
  machine_->Send(frame, header);
  EXPECT_THAT(Receive(), ElementsAre());
  EXPECT_EQ(counts_.bad_checksum_request, 1u);
}

// Even with a right one, and a flag that a driver must not set: virtio 1.1 §5.1.6.2.1.
TEST_F(VhostPortTest, RefusesSuperFramesWithoutAChecksumRequest) {
  Start(kLinux);
  for (const size_t payload : {5000u, 65495u}) {
    for (const uint8_t flags : {uint8_t{0}, VnetHeader::kDataValid}) {
      ChecksumRequest request;
      Bytes frame = MakeSuperFrame({.payload = payload}, &request);
      CompleteChecksum(absl::MakeSpan(frame), request);
      VnetHeader header;
      header.Describe({GsoType::kTcp, 1448}, /*ipv6=*/false, 54);
      header.flags = flags;
      machine_->Send(frame, header);
      EXPECT_THAT(Receive(), ElementsAre());
    }
  }
  EXPECT_EQ(counts_.bad_checksum_request, 4u);
}

TEST_F(VhostPortTest, FinishesChecksumsForGuestsThatDoNot) {
  Start(VhostFeature::kVersion1);
  machine_->Post(2, 2100);
  ChecksumRequest request;
  Bytes frame = MakeSuperFrame({.vid = 10, .payload = 500}, &request);
  EXPECT_EQ(Transmit(frame, true, request), DropReason::kNone);
  CompleteChecksum(absl::MakeSpan(frame), request);
  frame.erase(frame.begin() + 12, frame.begin() + 16);
  const auto got = machine_->Take();
  EXPECT_EQ(got.at(0).frame, frame);
  EXPECT_EQ(got.at(0).header.flags, 0);
}

TEST_F(VhostPortTest, SuperFramesPassBothWays) {
  Start(kLinux);
  for (const bool ipv6 : {false, true}) {
    const SuperFrameShape shape{.ipv6 = ipv6, .payload = 60000};
    machine_->Send(shape, 1448);
    const std::vector<Frame> frames = ReceiveFrames();
    ASSERT_EQ(frames.size(), 1u);
    ChecksumRequest request;
    const Bytes bytes = MakeSuperFrame(shape, &request);
    EXPECT_EQ(BytesOf(frames[0]), bytes);
    EXPECT_EQ(frames[0].gso, (Gso{GsoType::kTcp, 1448}));
    EXPECT_EQ(frames[0].buffers, PieceLayout(kMtu).BuffersFor(bytes.size()));
    pool_->Free(frames[0].buffer);
    machine_->Post(45, 1536);
    ASSERT_TRUE(port_->TakesLarge({GsoType::kTcp, 1448}));
    EXPECT_EQ(Transmit(bytes, false, request, {GsoType::kTcp, 1448}), DropReason::kNone);
    const auto got = machine_->Take();
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].frame, bytes);
    EXPECT_EQ(got[0].chains, (bytes.size() + 12 + 1535) / 1536);
    EXPECT_EQ(got[0].header.gso_type, ipv6 ? VnetHeader::kGsoTcpv6 : VnetHeader::kGsoTcpv4);
    EXPECT_EQ(got[0].header.gso_size, 1448);
    EXPECT_EQ(got[0].header.header_length, HeaderSizeOf(shape));
    // Fills up what is left, so that the next turn begins afresh.
    while (machine_->queue(0)->outstanding() != 0) {
      ASSERT_EQ(Transmit(Plain(60)), DropReason::kNone);
      machine_->Take();
    }
  }
}

TEST_F(VhostPortTest, DividesWhatIsTooLargeForSegments) {
  Start(kLinux);
  machine_->Send({.payload = 65483}, 1448);
  const std::vector<Bytes> parts = Receive();
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].size() + parts[1].size() - 54, 54u + 65483);
}

// A batch with too little room for all parts leaves the frame to the next one.
TEST_F(VhostPortTest, DividesWhatComesLateInABatch) {
  Start(kLinux);
  for (int i = 0; i < 3; ++i) machine_->Send(Plain(60));
  machine_->Send({.payload = 65483}, 1448);
  Frame frames[4];
  for (const size_t expected : {3, 2, 0}) {
    EXPECT_TRUE(IsReady());
    ASSERT_EQ(port_->Receive(pool_.get(), kMtu, absl::MakeSpan(frames), &counts_), expected);
    for (size_t i = 0; i < expected; ++i) pool_->Free(frames[i].buffer);
  }
  EXPECT_EQ(counts_.too_large, 0u);
}

TEST_F(VhostPortTest, ATagIsLeftOut) {
  Start(kLinux);
  machine_->Post(64, 1536);
  ChecksumRequest request;
  const SuperFrameShape shape{.vid = 10, .payload = 30000};
  Bytes bytes = MakeSuperFrame(shape, &request);
  EXPECT_EQ(Transmit(bytes, true, request, {GsoType::kTcp, 1448}), DropReason::kNone);
  bytes.erase(bytes.begin() + 12, bytes.begin() + 16);
  const auto got = machine_->Take();
  EXPECT_EQ(got.at(0).frame, bytes);
  EXPECT_EQ(got.at(0).header.checksum_start, request.start - 4);
  EXPECT_EQ(got.at(0).header.header_length, HeaderSizeOf(shape) - 4);
}

TEST_F(VhostPortTest, TakesSuperFramesAsTheGuestDoes) {
  constexpr Gso kTcp{GsoType::kTcp, 1448}, kEcn{GsoType::kTcpEcn, 1448}, kUdp{GsoType::kUdp, 1448};
  Start(kLinux | VhostFeature::kGuestEcn);
  EXPECT_TRUE(port_->TakesLarge(kTcp) && port_->TakesLarge(kEcn) && !port_->TakesLarge(kUdp));
  backend_.device->Disconnect("");
  for (const uint64_t missing :
       {VhostFeature::kGuestTso4, VhostFeature::kGuestTso6, VhostFeature::kGuestChecksum}) {
    Start(kLinux & ~missing);
    EXPECT_FALSE(port_->TakesLarge(kTcp));
    backend_.device->Disconnect("");
  }
  Start(kLinux);
  EXPECT_FALSE(port_->TakesLarge(kEcn));
}

TEST_F(VhostPortTest, NoRoomAtTheGuest) {
  Start(kLinux);
  EXPECT_EQ(Transmit(Plain(60)), DropReason::kPortFull);
  machine_->Post(1, 100);
  EXPECT_EQ(Transmit(Plain(200)), DropReason::kPortFull);
  EXPECT_EQ(Transmit(Plain(80)), DropReason::kNone) << "the buffer was given back";
  EXPECT_EQ(Transmit(Plain(2045)), DropReason::kPortTooLarge);
  backend_.device->Disconnect("");
  Start(VhostFeature::kVersion1);
  machine_->Post(1, 100);
  EXPECT_EQ(Transmit(Plain(200)), DropReason::kPortTooLarge) << "no mergeable buffers";
}

TEST_F(VhostPortTest, PacketsOfTheFullMtuPassBehindTwoTagsBothWays) {
  Start(kLinux);
  port_->SetMtu(1500);
  machine_->Post(2, 2100);
  EXPECT_EQ(Transmit(Plain(1522)), DropReason::kNone);
  EXPECT_EQ(machine_->Take().at(0).frame, Plain(1522));
  EXPECT_EQ(Transmit(Plain(1523)), DropReason::kPortTooLarge);
  machine_->Send(Plain(1522));
  EXPECT_THAT(Receive(), ElementsAre(Plain(1522)));
}

TEST_F(VhostPortTest, InterruptsOnceForABatch) {
  Start(kLinux);
  machine_->Post(8, 2100);
  machine_->queue(0)->WantInterrupt(true);
  const Frame frame = InBuffers(Plain(60));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(port_->Transmit(frame, false), DropReason::kNone);
  EXPECT_FALSE(machine_->WasInterrupted());
  EXPECT_TRUE(machine_->Take().empty());
  DropReason reason;
  port_->Flush(&reason);
  EXPECT_TRUE(machine_->WasInterrupted());
  EXPECT_EQ(machine_->Take().size(), 4u);
  EXPECT_EQ(Transmit(Plain(60)), DropReason::kNone);
  EXPECT_FALSE(machine_->WasInterrupted()) << "the guest asks for none";
  pool_->Free(frame.buffer);
}

TEST_F(VhostPortTest, UsesAllQueues) {
  Start(kLinux, 4);
  for (size_t pair = 0; pair < 4; ++pair) {
    machine_->Post(16, 2100, pair);
    machine_->Send(Plain(60, static_cast<uint8_t>(pair)), {}, 3000, pair);
  }
  EXPECT_THAT(Receive(), testing::UnorderedElementsAre(Plain(60, 0), Plain(60, 1), Plain(60, 2),
                                                       Plain(60, 3)));
  for (uint8_t flow = 0; flow < 16; ++flow) {
    Bytes frame = Plain(60);
    frame[11] = flow;  // the source
    for (int i = 0; i < 2; ++i) EXPECT_EQ(Transmit(frame), DropReason::kNone);
  }
  size_t used = 0, all = 0;
  for (size_t pair = 0; pair < 4; ++pair) {
    const size_t frames = machine_->Take(pair).size();
    EXPECT_EQ(frames % 2, 0u) << "a flow stays in its queue";
    used += frames != 0;
    all += frames;
  }
  EXPECT_EQ(all, 32u);
  EXPECT_GT(used, 1u);
}

TEST_F(VhostPortTest, RefusesWhatIsNoFrame) {
  Start(kLinux);
  machine_->Send(Bytes(13, 2));
  VnetHeader header;
  header.gso_type = 3;  // UDP fragmentation, which was not negotiated
  machine_->Send(Plain(60), header);
  machine_->Send(Bytes(3000, 2));
  machine_->Send(Plain(60));
  EXPECT_THAT(Receive(), ElementsAre(Plain(60)));
  EXPECT_EQ(counts_.runt, 1u);
  EXPECT_EQ(counts_.too_large, 2u);
}

}  // namespace
}  // namespace eoib
