// Super-frames and other large frames through a TAP. tap_port_test.cc makes the namespaces.
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/fake_verbs.h"
#include "vswitch/port/frame_in_buffers_for_test.h"
#include "vswitch/port/piece_layout.h"
#include "vswitch/port/tap_port.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/super_frame_for_test.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr uint32_t kMtu = 2044;  // of the VES
const MacAddr kTapMac = MacAddr::FromUint64(0x02'00'00'00'00'0b);

// struct virtio_net_hdr.
struct VirtioNetHeader {
  uint8_t flags = 0, gso_type = 0;
  uint16_t header_length = 0, gso_size = 0, start = 0, offset = 0;
};

class TapPortLargeTest : public testing::Test {
 protected:
  void SetUp() override {
    port_ =
        TapPort::Open({.name = "tap0", .mac = kTapMac, .mtu = 2026, .super_frames = true}).value();
    ASSERT_TRUE(port_->SetLinkUp(true).ok());
    socket_.reset(socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, htons(ETH_P_ALL)));
    const int on = 1;
    ASSERT_EQ(setsockopt(socket_.get(), SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)), 0);
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(if_nametoindex("tap0"));
    ASSERT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_TRUE(AwaitKernel());
  }

  static Bytes Plain(size_t size) {
    Bytes frame(size);
    MacAddr::Broadcast().ToWire(&frame[0]);
    kTapMac.ToWire(&frame[6]);
    frame[12] = 0x88, frame[13] = 0xb6;
    for (size_t i = 14; i < size; ++i) frame[i] = static_cast<uint8_t>(i * 7);
    return frame;
  }
  // The kernel drops frames until it has noticed the carrier.
  bool AwaitKernel() {
    for (int tries = 0; tries < 1000; ++tries) {
      KernelSends({}, Plain(60));
      const std::vector<Frame> frames = Receive(1, 10);
      if (frames.empty()) continue;
      Free(frames);
      while (!(Free(Receive(1, 0)))) {
      }
      return true;
    }
    return false;
  }
  // After a run of small frames the port expects more of them (ScatterList).
  void ReceiveSmallFrames() {
    for (uint32_t i = 0; i < ScatterList::Spill::kNarrowAfter; ++i) {
      KernelSends({}, Plain(60));
      const std::vector<Frame> frames = Receive(1);
      ASSERT_EQ(frames.size(), 1u);
      Free(frames);
    }
  }
  void KernelSends(VirtioNetHeader header, Bytes frame) {
    iovec parts[] = {{&header, sizeof(header)}, {frame.data(), frame.size()}};
    ASSERT_EQ(writev(socket_.get(), parts, 2), static_cast<ssize_t>(sizeof(header) + frame.size()));
  }
  void KernelSends(const SuperFrameShape& shape, uint8_t gso_type, uint16_t size) {
    ChecksumRequest request;
    const Bytes frame = MakeSuperFrame(shape, &request);
    KernelSends({1, gso_type, static_cast<uint16_t>(HeaderSizeOf(shape)), size, request.start,
                 request.offset},
                frame);
  }
  // Up to `most` frames of the tests, or none after `milliseconds`.
  std::vector<Frame> Receive(size_t most, int milliseconds = 1000) {
    std::vector<Frame> frames;
    pollfd waiting{port_->receive_fd(), POLLIN, 0};
    while (frames.size() < most && poll(&waiting, 1, milliseconds) == 1) {
      Frame frame;
      if (port_->Receive(pool_.get(), kMtu, {&frame, 1}, &counts_) == 0) break;
      const bool ours = frame.data[12] == 0x88 || MacAddr::FromWire(frame.data + 6) ==
                                                      MacAddr::FromUint64(0x02'00'00'00'00'0a);
      ours ? frames.push_back(frame) : pool_->Free(frame.buffer);
    }
    return frames;
  }
  bool Free(const std::vector<Frame>& frames) {
    for (const Frame& frame : frames) pool_->Free(frame.buffer);
    return frames.empty();
  }
  Bytes BytesOf(const Frame& frame) {
    Bytes bytes;
    VisitPieces(*pool_, frame, [&bytes](absl::Span<uint8_t> piece) {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
    });
    return bytes;
  }
  // A frame of the switch, in pieces. The caller frees it.
  Frame InPieces(const Bytes& bytes, const ChecksumRequest& checksum, const Gso& gso) {
    return FrameInBuffers(pool_.get(), PieceLayout(kMtu).piece, bytes, checksum, gso);
  }
  std::pair<VirtioNetHeader, Bytes> KernelReceives() {
    for (int tries = 0; tries < 100; ++tries) {
      pollfd waiting{socket_.get(), POLLIN, 0};
      poll(&waiting, 1, 100);
      VirtioNetHeader header;
      Bytes frame(70000);
      iovec parts[] = {{&header, sizeof(header)}, {frame.data(), frame.size()}};
      sockaddr_ll from{};
      msghdr message{&from, sizeof(from), parts, 2, nullptr, 0, 0};
      const ssize_t size = recvmsg(socket_.get(), &message, 0);
      if (size < 0 || from.sll_pkttype == PACKET_OUTGOING) continue;
      frame.resize(static_cast<size_t>(size) - sizeof(header));
      return {header, frame};
    }
    return {};
  }

  FakeHca hca_;
  std::unique_ptr<BufferPool> pool_ = BufferPool::Create(&hca_, hca_.pd(), 80, kMtu).value();
  std::unique_ptr<TapPort> port_;
  UniqueFd socket_;
  PortReceiveCounts counts_;
};

struct Kind {
  const char* description;
  SuperFrameShape shape;
  uint8_t gso_type;
  Gso gso;
};

const Kind kKinds[] = {
    {"TCP over IPv4", {.payload = 60000}, 1, {GsoType::kTcp, 1400}},
    {"TCP over IPv4 with CWR",
     {.payload = 5000, .tcp_flags = 0x90},
     0x81,
     {GsoType::kTcpEcn, 1400}},
    {"TCP over IPv6",
     {.ipv6 = true, .tcp_options = 12, .payload = 30001},
     4,
     {GsoType::kTcp, 1400}},
    {"UDP over IPv4", {.udp = true, .payload = 20000}, 5, {GsoType::kUdp, 1000}},
    {"UDP over IPv6", {.ipv6 = true, .udp = true, .payload = 20001}, 5, {GsoType::kUdp, 1000}},
    {"two segments in one buffer", {.payload = 1500}, 1, {GsoType::kTcp, 800}},
};

TEST_F(TapPortLargeTest, ReceivesSuperFramesInPieces) {
  for (const bool after_small_frames : {false, true}) {
    for (const Kind& kind : kKinds) {
      SCOPED_TRACE(kind.description);
      if (!port_->TakesLarge(kind.gso)) continue;  // a kernel before 6.2
      if (after_small_frames) ReceiveSmallFrames();
      KernelSends(kind.shape, kind.gso_type, kind.gso.size);
      const std::vector<Frame> frames = Receive(1);
      ASSERT_EQ(frames.size(), 1u);
      ChecksumRequest request;
      EXPECT_EQ(BytesOf(frames[0]), MakeSuperFrame(kind.shape, &request));
      EXPECT_EQ(frames[0].checksum, request);
      EXPECT_EQ(frames[0].gso, kind.gso);
      const PieceLayout layout(kMtu);
      EXPECT_EQ(frames[0].buffers, layout.BuffersFor(frames[0].total()));
      EXPECT_EQ(frames[0].length, std::min(layout.first, frames[0].total()));
      size_t at = 0;
      VisitPieces(*pool_, frames[0], [&](absl::Span<uint8_t> piece) {
        EXPECT_TRUE(at == 0 || at + piece.size() == frames[0].total() ||
                    piece.size() == layout.piece);
        at += piece.size();
      });
      Free(frames);
    }
  }
  EXPECT_EQ(pool_->count(BufferPool::State::kFree), pool_->size());
}

// All in one call, so that the list changes between the two widths.
TEST_F(TapPortLargeTest, LargeFramesBehindSmallOnes) {
  ReceiveSmallFrames();
  const SuperFrameShape shape{.payload = 30000};
  ChecksumRequest request;
  const Bytes large = MakeSuperFrame(shape, &request);
  for (int i = 0; i < 2; ++i) {
    KernelSends({}, Plain(60));
    KernelSends(shape, 1, 1400);
  }
  std::vector<Frame> frames(64);
  frames.resize(port_->Receive(pool_.get(), kMtu, absl::MakeSpan(frames), &counts_));
  ASSERT_EQ(frames.size(), 4u);
  for (size_t i = 0; i < frames.size(); ++i)
    EXPECT_EQ(BytesOf(frames[i]), i % 2 == 0 ? Plain(60) : large);
  Free(frames);
  EXPECT_EQ(pool_->count(BufferPool::State::kFree), pool_->size());
}

// More than one burst, with a super-frame in the middle, and a pool that runs short of buffers for
// bursts.
TEST_F(TapPortLargeTest, BurstsKeepTheOrderOfFrames) {
  ReceiveSmallFrames();
  const SuperFrameShape shape{.payload = 30000};
  ChecksumRequest request;
  const Bytes large = MakeSuperFrame(shape, &request);
  for (const bool short_of_buffers : {false, true}) {
    std::vector<BufferId> held;
    while (short_of_buffers && pool_->count(BufferPool::State::kFree) > 2 * kMaxSegments - 1)
      held.push_back(pool_->Allocate());
    for (size_t i = 0; i < 45; ++i)
      i == 20 ? KernelSends(shape, 1, 1400) : KernelSends({}, Plain(60 + i));
    std::vector<Bytes> received;
    while (received.size() < 45) {
      std::vector<Frame> frames(64);
      frames.resize(port_->Receive(pool_.get(), kMtu, absl::MakeSpan(frames), &counts_));
      ASSERT_FALSE(frames.empty()) << received.size() << " frames came";
      for (const Frame& frame : frames) received.push_back(BytesOf(frame));
      Free(frames);
    }
    for (size_t i = 0; i < received.size(); ++i)
      EXPECT_EQ(received[i], i == 20 ? large : Plain(60 + i)) << i;
    for (const BufferId buffer : held) pool_->Free(buffer);
  }
  EXPECT_EQ(pool_->count(BufferPool::State::kFree), pool_->size());
}

TEST_F(TapPortLargeTest, AFrameThatIsTooLargeIsRefusedBehindSmallOnes) {
  ReceiveSmallFrames();
  KernelSends({.payload = 65200 - 54}, 1, 1400);
  EXPECT_TRUE(Receive(1, 100).empty());
  EXPECT_EQ(counts_.too_large, 1u);
}

TEST_F(TapPortLargeTest, GivesSuperFramesToTheKernel) {
  for (const bool tagged : {false, true}) {
    for (const Kind& kind : kKinds) {
      SCOPED_TRACE(kind.description);
      if (!port_->TakesLarge(kind.gso)) continue;
      ChecksumRequest untagged_request, request;
      const Bytes untagged = MakeSuperFrame(kind.shape, &untagged_request);
      SuperFrameShape shape = kind.shape;
      if (tagged) shape.vid = 10;
      const Bytes bytes = MakeSuperFrame(shape, &request);
      const Frame frame = InPieces(bytes, request, kind.gso);
      ASSERT_EQ(port_->TransmitLarge(*pool_, frame, /*strip_tag=*/tagged), DropReason::kNone);
      EXPECT_EQ(BytesOf(frame), bytes) << "the frame is unchanged afterwards";
      const auto [header, got] = KernelReceives();
      EXPECT_EQ(got, untagged);
      EXPECT_EQ(header.gso_type, kind.gso_type);
      EXPECT_EQ(header.gso_size, kind.gso.size);
      EXPECT_EQ(header.flags, 1);
      EXPECT_EQ(header.start, untagged_request.start);
      pool_->Free(frame.buffer);
    }
  }
}

TEST_F(TapPortLargeTest, JoinsDatagramsForTheKernel) {
  if (!port_->TakesLarge({GsoType::kUdp, 1000})) return;  // a kernel before 6.2
  constexpr size_t kPayload = 64;
  ChecksumRequest request, large_request;
  const Bytes datagram = MakeSuperFrame({.udp = true, .payload = kPayload}, &request);
  Bytes large = MakeSuperFrame({.udp = true, .payload = 3 * kPayload}, &large_request);
  for (size_t i = 1; i < 3; ++i)
    std::copy(datagram.end() - kPayload, datagram.end(), large.end() - i * kPayload);
  for (int i = 0; i < 3; ++i) {
    const Frame frame = InPieces(datagram, request, {});
    EXPECT_EQ(port_->Transmit(frame, /*strip_tag=*/false), DropReason::kNone);
    pool_->Free(frame.buffer);
  }
  DropReason reason;
  EXPECT_EQ(port_->Flush(&reason), 0u);
  const auto [header, got] = KernelReceives();
  EXPECT_EQ(got, large);
  EXPECT_EQ(header.gso_type, 5);
  EXPECT_EQ(header.gso_size, kPayload);
  EXPECT_EQ(header.flags, 1);
}

TEST_F(TapPortLargeTest, JumboFrames) {
  ASSERT_TRUE(port_->SetMtu(9000).ok());
  const Bytes bytes = Plain(9014);
  KernelSends({}, bytes);
  const std::vector<Frame> frames = Receive(1);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(BytesOf(frames[0]), bytes);
  EXPECT_EQ(frames[0].buffers, 5);
  EXPECT_EQ(port_->TransmitLarge(*pool_, frames[0], false), DropReason::kNone);
  EXPECT_EQ(KernelReceives().second, bytes);
  ASSERT_TRUE(port_->SetMtu(8990).ok());
  EXPECT_EQ(port_->TransmitLarge(*pool_, frames[0], false), DropReason::kPortTooLarge);
  Free(frames);
}

TEST_F(TapPortLargeTest, TheMtuLimitsTheSegmentsOfASuperFrame) {
  ChecksumRequest request;
  const SuperFrameShape shape{.payload = 5000};
  const Bytes bytes = MakeSuperFrame(shape, &request);
  const size_t fits = 2026 + kMtuOverhead - HeaderSizeOf(shape);
  for (const bool too_large : {false, true}) {
    const Frame frame =
        InPieces(bytes, request, {GsoType::kTcp, static_cast<uint16_t>(fits + too_large)});
    EXPECT_EQ(port_->TransmitLarge(*pool_, frame, false),
              too_large ? DropReason::kPortTooLarge : DropReason::kNone);
    pool_->Free(frame.buffer);
  }
}

TEST_F(TapPortLargeTest, AFrameThatFitsADatagramIsInOneBuffer) {
  for (const bool after_small_frames : {false, true}) {
    // The interface has no larger ones without a tag.
    for (size_t size = kMtu - 20; size <= kMtu - 4; ++size) {
      if (after_small_frames) ReceiveSmallFrames();
      const Bytes bytes = Plain(size);
      KernelSends({}, bytes);
      const std::vector<Frame> frames = Receive(1);
      ASSERT_EQ(frames.size(), 1u);
      EXPECT_EQ(frames[0].buffers, 1);
      EXPECT_EQ(BytesOf(frames[0]), bytes);
      Free(frames);
    }
  }
  EXPECT_EQ(pool_->count(BufferPool::State::kFree), pool_->size());
}

TEST_F(TapPortLargeTest, TheKernelCutsWhatSegmentsCannotCarry) {
  const SuperFrameShape shape{.payload = 65200 - 54};
  ASSERT_GT(shape.payload + 54, PieceLayout(kMtu).Largest());
  KernelSends(shape, 1, 1400);
  EXPECT_TRUE(Receive(1, 100).empty());
  EXPECT_EQ(counts_.too_large, 1u) << "without the limit it arrives, and is refused";
  ASSERT_TRUE(port_->LimitSuperFrames(kMtu).ok());
  KernelSends(shape, 1, 1400);
  const size_t segments = (shape.payload + 1399) / 1400;
  const std::vector<Frame> frames = Receive(segments);
  ASSERT_EQ(frames.size(), segments);
  for (const Frame& frame : frames) EXPECT_FALSE(frame.IsLarge());
  Free(frames);
  const SuperFrameShape fits{.payload = PieceLayout(kMtu).Largest() - kVlanTagSize - 54};
  KernelSends(fits, 1, 1400);
  const std::vector<Frame> whole = Receive(1);
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].buffers, 32);
  Free(whole);
}

TEST_F(TapPortLargeTest, AFrameStaysInTheKernelUntilThereAreBuffers) {
  ReceiveSmallFrames();
  std::vector<BufferId> taken;
  while (pool_->count(BufferPool::State::kFree) > 31) taken.push_back(pool_->Allocate());
  KernelSends({.payload = 30000}, 1, 1400);
  EXPECT_TRUE(Receive(1, 10).empty());
  for (const BufferId id : taken) pool_->Free(id);
  const std::vector<Frame> frames = Receive(1);
  ASSERT_EQ(frames.size(), 1u);
  Free(frames);
  EXPECT_EQ(counts_.too_large, 0u);
}

}  // namespace
}  // namespace eoib
