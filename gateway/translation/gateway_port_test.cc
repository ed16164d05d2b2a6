// A gateway's port by itself: the test plays the switch and the control half of the link, on
// scripted verbs.
#include "gateway/translation/gateway_port.h"

#include <memory>
#include <vector>

#include "gateway/election/pair_for_test.h"
#include "gateway/translation/translator_test_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/fabric/fake_verbs.h"
#include "vswitch/port/packet_cutter.h"
#include "vswitch/port/port_for_test.h"
#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/super_frame_for_test.h"

namespace eoib::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::IsEmpty;
using translation::Bytes;
using translation::Udp4;

constexpr size_t kVesFrame = 200;

class GatewayPortTest : public testing::Test {
 protected:
  GatewayPortTest() {
    EXPECT_TRUE(channel_.Rebind(endpoint_.get(), own_).ok());
    const AhIndex broadcast =
        *handles_.Get({ToMgid(BroadcastGroup(kLink)).gid(), 0xc001, Sl(0)}, {});
    EXPECT_TRUE(events_->Push({.kind = ipoib::LinkEvent::Kind::kState,
                               .state = ipoib::LinkState{own_, kLink, 2044},
                               .ah = broadcast}));
    port_->SetVesUp(true);
    for (int i = 0; i < 200 && !Active(); ++i) {
      clock_.Advance(absl::Milliseconds(10));
      Take(0);
    }
    EXPECT_TRUE(Active());
  }
  ~GatewayPortTest() override {
    const PortCounters counters = Counters();
    EXPECT_EQ(frames_out_, counters.frames_handed + counters.frames_joined + counters.waiting +
                               counters.drops.Sum());
    EXPECT_TRUE(channel_.Rebind(nullptr, {}).ok());
  }

  bool Active() {
    bool active = false;
    port_->RunWithoutWorker([&](const GatewayPort::TaskContext& context) {
      active = context.hellos->election().active();
    });
    return active;
  }
  PortCounters Counters() {
    PortCounters counters;
    port_->RunWithoutWorker([&](const GatewayPort::TaskContext& context) {
      counters = context.port;
      frames_out_ = context.translator->counters()[translation::Event::kFramesOut];
    });
    return counters;
  }
  // A broadcast of an IPoIB host arrives, with that many bytes after its headers.
  void Arrive(size_t payload) {
    Bytes bytes(kGrhSize + kIpoibHeaderSize);
    const IpoibAddress from = translation::PeerAddr(1);
    from.gid().ToWire(&bytes[8]);
    ToMgid(BroadcastGroup(kLink)).gid().ToWire(&bytes[24]);
    EncodeIpoibHeader(IpoibType::kIpv4, &bytes[kGrhSize]);
    const Bytes packet = Udp4(translation::PeerIp(1), Ipv4Addr::Broadcast(), payload);
    bytes.insert(bytes.end(), packet.begin(), packet.end());
    hca_.Deliver(bytes, {.status = IBV_WC_SUCCESS,
                         .src_qp = from.qpn().value(),
                         .wc_flags = IBV_WC_GRH,
                         .slid = 5});
  }
  // The sizes of the frames that the switch receives, with room for `room` frames.
  std::vector<size_t> Take(size_t room) {
    std::vector<Frame> frames(room);
    PortReceiveCounts counts;
    frames.resize(port_->Receive(ves_pool_.get(), kVesFrame, absl::MakeSpan(frames), &counts));
    std::vector<size_t> sizes;
    for (const Frame& frame : frames) {
      sizes.push_back(frame.length);
      ves_pool_->Free(frame.buffer);
    }
    while (!hca_.qp()->sends.empty()) hca_.CompleteSend();
    return sizes;
  }

  uint64_t frames_out_ = 0;  // the translator's, when Counters read it
  FakeClock clock_;
  FakeHca hca_;
  AddressHandles handles_{&hca_, hca_.pd()};
  std::unique_ptr<BufferPool> pool_ = BufferPool::Create(&hca_, hca_.pd(), 4096, 2044).value();
  std::unique_ptr<BufferPool> ves_pool_ =
      BufferPool::Create(&hca_, hca_.pd(), 64, kVesFrame).value();
  std::unique_ptr<UdEndpoint> endpoint_ =
      UdEndpoint::Create(&hca_, hca_.pd(), pool_.get(), &handles_,
                         {.receive_depth = 256, .send_depth = 64})
          .value();
  const IpoibAddress own_ = translation::PeerAddr(0x48);
  VPortDirectory directory_;
  std::unique_ptr<ipoib::LinkRequestQueue> requests_ = std::make_unique<ipoib::LinkRequestQueue>();
  std::unique_ptr<ipoib::LinkEventQueue> events_ = std::make_unique<ipoib::LinkEventQueue>();
  ipoib::Channel channel_{{pool_.get(), &directory_, requests_.get(), events_.get(), &clock_}};
  // Without queries, which would be frames of the gateway's own.
  std::unique_ptr<GatewayPort> port_ =
      GatewayPort::Create({"gw0", {.pair = {PKey(0x8001), Vid(0)}}, {.query_groups = false}},
                          &channel_, &clock_)
          .value();
};

constexpr size_t kHeaders = 14 + 20 + 8;

// ---- Super-frames

class GatewayPortLargeTest : public GatewayPortTest {
 protected:
  static constexpr uint32_t kMtu = 2044;  // of the VES

  // The station at PeerMac(1) is known, and has a path.
  GatewayPortLargeTest() {
    Arrive(20);
    Take(64);
    const AhIndex ah = *handles_.Get({ToMgid(BroadcastGroup(kLink)).gid(), 0xc001, Sl(0)}, {});
    const IpoibAddress peer = translation::PeerAddr(1);
    EXPECT_TRUE(directory_.SetPath(directory_.Intern(peer.peer()), peer.gid(), ah));
  }
  // Transmits a super-frame to the station; the packets that were sent.
  std::vector<Bytes> Transmit(const SuperFrameShape& shape, const Gso& gso) {
    ChecksumRequest checksum;
    Bytes bytes = MakeSuperFrame(shape, &checksum);
    translation::PeerMac(1).ToWire(&bytes[0]);
    port_for_frames_.SetTakesLarge(true);
    port_for_frames_.Inject(bytes, checksum, gso);
    Frame frame;
    PortReceiveCounts counts;
    EXPECT_EQ(port_for_frames_.Receive(large_pool_.get(), kMtu, absl::MakeSpan(&frame, 1), &counts),
              1u);
    EXPECT_TRUE(port_->TakesLarge(gso));
    EXPECT_EQ(port_->TransmitLarge(*large_pool_, frame, false), DropReason::kNone);
    DropReason reason;
    EXPECT_EQ(port_->Flush(&reason), 0u);
    large_pool_->Free(frame.buffer);
    std::vector<Bytes> packets;
    for (const auto& send : hca_.qp()->sends) {
      const auto* const at = reinterpret_cast<const uint8_t*>(send.sge.addr);
      packets.emplace_back(at + kIpoibHeaderSize, at + send.sge.length);
    }
    while (!hca_.qp()->sends.empty()) hca_.CompleteSend();
    return packets;
  }
  uint64_t Count(translation::Event event) {
    uint64_t count = 0;
    port_->RunWithoutWorker([&](const GatewayPort::TaskContext& context) {
      count = context.translator->counters()[event];
    });
    return count;
  }
  // An Ethernet host claims the destination of MakeSuperFrame.
  void HearHost() {
    port_->RunWithoutWorker([&](const GatewayPort::TaskContext& context) {
      const EthernetArp arp{ArpOperation::kRequest, translation::HostMac(1), Ipv4Addr(0xc0000202),
                            MacAddr(), Ipv4Addr(0xc0000203)};
      Bytes frame = translation::Frame(MacAddr::Broadcast(), translation::HostMac(1), kEtherTypeArp,
                                       translation::ArpBytes(arp));
      context.translator->FromEthernet(absl::MakeSpan(frame), {});
    });
    while (!hca_.qp()->sends.empty()) hca_.CompleteSend();
  }
  // A TCP segment of the station arrives by unicast.
  void ArriveSegment(const Bytes& packet, unsigned flags = 0) {
    Bytes bytes(kGrhSize + kIpoibHeaderSize);
    const IpoibAddress from = translation::PeerAddr(1);
    from.gid().ToWire(&bytes[8]);
    own_.gid().ToWire(&bytes[24]);
    EncodeIpoibHeader(IpoibType::kIpv4, &bytes[kGrhSize]);
    bytes.insert(bytes.end(), packet.begin(), packet.end());
    hca_.Deliver(bytes, {.status = IBV_WC_SUCCESS,
                         .src_qp = from.qpn().value(),
                         .wc_flags = IBV_WC_GRH | flags,
                         .slid = 5});
  }
  // The frames that the switch receives from one batch, in its layout.
  std::vector<Frame> TakeLarge(std::vector<Bytes>* bytes) {
    std::vector<Frame> frames(64);
    PortReceiveCounts counts;
    frames.resize(port_->Receive(large_pool_.get(), kMtu, absl::MakeSpan(frames), &counts));
    for (const Frame& frame : frames) {
      Bytes& all = bytes->emplace_back();
      VisitPieces(*large_pool_, frame, [&](absl::Span<uint8_t> piece) {
        all.insert(all.end(), piece.begin(), piece.end());
      });
      large_pool_->Free(frame.buffer);
    }
    return frames;
  }

  std::unique_ptr<BufferPool> large_pool_ = BufferPool::Create(&hca_, hca_.pd(), 128, kMtu).value();
  TestPort port_for_frames_{"test", MacAddr()};
};

TEST_F(GatewayPortLargeTest, ASuperFrameLeavesAsPackets) {
  for (const bool ipv6 : {false, true}) {
    for (const bool udp : {false, true}) {
      for (const int vid : {-1, 7}) {
        SCOPED_TRACE(testing::Message() << "ipv6 " << ipv6 << " udp " << udp << " vid " << vid);
        const SuperFrameShape shape{.ipv6 = ipv6, .udp = udp, .vid = vid, .payload = 10'100};
        const uint64_t in = Count(translation::Event::kFramesIn),
                       crossed = Count(translation::Event::kCrossed);
        const uint64_t out = Count(translation::Event::kPacketsOut);
        const std::vector<Bytes> packets =
            Transmit(shape, {udp ? GsoType::kUdp : GsoType::kTcp, 1000});
        ASSERT_EQ(packets.size(), 11u);
        for (size_t i = 0; i < packets.size(); ++i) {
          Bytes expected =
              ExpectedSegment(shape, i, i * 1000, std::min<size_t>((i + 1) * 1000, shape.payload));
          expected.erase(expected.begin(), expected.begin() + (vid < 0 ? 14 : 18));
          EXPECT_TRUE(WriteChecksum(absl::MakeSpan(expected)));
          EXPECT_EQ(packets[i], expected) << i;
        }
        EXPECT_EQ(Count(translation::Event::kFramesIn), in + 1) << "what the switch counts";
        EXPECT_EQ(Count(translation::Event::kCrossed), crossed + 1);
        EXPECT_EQ(Count(translation::Event::kPacketsOut), out + 11);
      }
    }
  }
  EXPECT_EQ(Counters().super_frames_cut, 8u);
}

// The link's MTU is 2,044. The sender is told, once for all packets of the super-frame.
TEST_F(GatewayPortLargeTest, ASuperFrameOfTooLargePackets) {
  EXPECT_THAT(Transmit({.payload = 8000}, {GsoType::kTcp, 2100}), IsEmpty());
  EXPECT_THAT(Transmit({.payload = 20'000}, {GsoType::kTcp, 5000}), IsEmpty())
      << "more than a buffer of the link holds";
  EXPECT_EQ(Count(translation::Event::kTooBigSent), 2u);
}

TEST_F(GatewayPortLargeTest, SegmentsArriveAsASuperFrame) {
  ChecksumRequest checksum;
  Bytes super_frame = MakeSuperFrame({.payload = 10'000}, &checksum);
  HearHost();
  Frame whole{BufferId::None(), super_frame.data(), static_cast<uint32_t>(super_frame.size()),
              checksum};
  whole.gso = {GsoType::kTcp, 1000};
  std::vector<Bytes> packets;
  auto cutter = PacketCutter::Of(whole);
  while (const size_t size = cutter->NextSize()) {
    packets.emplace_back(size);
    cutter->Next(absl::MakeSpan(packets.back()));
  }
  for (const Bytes& packet : packets) ArriveSegment(packet);
  std::vector<Bytes> bytes;
  const std::vector<Frame> frames = TakeLarge(&bytes);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(Bytes(bytes[0].begin() + 14, bytes[0].end()),
            Bytes(super_frame.begin() + 14, super_frame.end()));
  EXPECT_EQ(frames[0].gso, (Gso{GsoType::kTcp, 1000}));
  EXPECT_EQ(frames[0].checksum, checksum);
  EXPECT_EQ(Counters().frames_joined, 9u);
  EXPECT_EQ(Count(translation::Event::kPacketsIn), 11u) << "with the first one of this test";

  // A wrong checksum crosses as it is, on its own.
  packets[4].back() ^= 1;
  for (const Bytes& packet : packets) ArriveSegment(packet);
  bytes.clear();
  ASSERT_EQ(TakeLarge(&bytes).size(), 3u);
  EXPECT_EQ(Bytes(bytes[1].begin() + 14, bytes[1].end()), packets[4]);

  // The port does not sum again what the HCA has verified.
  for (const Bytes& packet : packets) ArriveSegment(packet, IBV_WC_IP_CSUM_OK);
  bytes.clear();
  EXPECT_EQ(TakeLarge(&bytes).size(), 1u);
}

// Another sender with the same header is not the station, so its segment must not take the
// station's way.
TEST_F(GatewayPortLargeTest, ASegmentOfAnotherSenderDoesNotContinue) {
  ChecksumRequest checksum;
  Bytes super_frame = MakeSuperFrame({.payload = 2000}, &checksum);
  Frame whole{BufferId::None(), super_frame.data(), static_cast<uint32_t>(super_frame.size()),
              checksum};
  whole.gso = {GsoType::kTcp, 1000};
  auto cutter = PacketCutter::Of(whole);
  Bytes packet(cutter->NextSize());
  cutter->Next(absl::MakeSpan(packet));
  HearHost();
  ArriveSegment(packet);
  Bytes next(cutter->NextSize());
  cutter->Next(absl::MakeSpan(next));
  Bytes bytes(kGrhSize + kIpoibHeaderSize);
  translation::PeerAddr(2).gid().ToWire(&bytes[8]);
  own_.gid().ToWire(&bytes[24]);
  EncodeIpoibHeader(IpoibType::kIpv4, &bytes[kGrhSize]);
  bytes.insert(bytes.end(), next.begin(), next.end());
  hca_.Deliver(bytes, {.status = IBV_WC_SUCCESS,
                       .src_qp = translation::PeerAddr(2).qpn().value(),
                       .wc_flags = IBV_WC_GRH,
                       .slid = 6});
  std::vector<Bytes> taken;
  EXPECT_EQ(TakeLarge(&taken).size(), 2u);
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_NE(Bytes(taken[0].begin() + 6, taken[0].begin() + 12),
            Bytes(taken[1].begin() + 6, taken[1].begin() + 12));
}

// ---- Room in the switch

TEST_F(GatewayPortTest, AFrameThatTheSwitchHasNoRoomForWaits) {
  Arrive(20);
  Arrive(30);
  EXPECT_THAT(Take(0), IsEmpty());
  EXPECT_EQ(Counters().waiting, 2u);
  EXPECT_THAT(Take(64), ElementsAre(kHeaders + 20, kHeaders + 30));
  EXPECT_EQ(Counters().waiting, 0u);
  EXPECT_EQ(Counters().frames_handed, 2u);
}

// The VES's MTU may have shrunk since the frame was made.
TEST_F(GatewayPortTest, AFrameAboveTheBuffersOfTheSwitchHoldsUpNoOther) {
  Arrive(20);
  Arrive(kVesFrame);
  Arrive(30);
  EXPECT_THAT(Take(0), IsEmpty());
  EXPECT_THAT(Take(64), ElementsAre(kHeaders + 20, kHeaders + 30));
  EXPECT_EQ(Counters().drops[PortDrop::kFrameTooLong], 1u);
  Arrive(kVesFrame);
  EXPECT_THAT(Take(64), IsEmpty());
  Arrive(kVesFrame - kHeaders);
  EXPECT_THAT(Take(64), ElementsAre(kVesFrame));
  EXPECT_EQ(Counters().drops[PortDrop::kFrameTooLong], 2u);
  EXPECT_EQ(Counters().waiting, 0u);
}

TEST_F(GatewayPortTest, CountsFramesBeyondTheQueue) {
  for (size_t i = 0; i < GatewayPort::kMaxPending + 10; ++i) {
    Arrive(20);
    EXPECT_THAT(Take(0), IsEmpty());
  }
  EXPECT_EQ(Counters().waiting, GatewayPort::kMaxPending);
  EXPECT_EQ(Counters().drops[PortDrop::kQueueFull], 10u);
  while (Counters().waiting != 0) ASSERT_THAT(Take(64).size(), Gt(0u));
  EXPECT_EQ(Counters().frames_handed, GatewayPort::kMaxPending);
}

}  // namespace
}  // namespace eoib::gateway
