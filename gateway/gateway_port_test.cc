// A gateway's port by itself: the test plays the switch and the control half of the link, on scripted verbs.
#include "gateway/gateway_port.h"

#include <memory>
#include <vector>

#include "gateway/translation/translator_test_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/fabric/fake_verbs.h"

namespace eoib::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::IsEmpty;
using translation::Bytes;
using translation::Udp4;

constexpr IpoibLink kLink = {PKey(0x8002)};
constexpr size_t kVesFrame = 200;

class GatewayPortTest : public testing::Test {
 protected:
  GatewayPortTest() {
    EXPECT_TRUE(channel_.Rebind(endpoint_.get(), own_).ok());
    const AhIndex broadcast = *handles_.Get({ToMgid(BroadcastGroup(kLink)).gid(), 0xc001, Sl(0)}, {});
    EXPECT_TRUE(
        events_->Push({.kind = ipoib::LinkEvent::Kind::kState, .state = ipoib::LinkState{own_, kLink, 2044}, .ah = broadcast}));
    port_->SetVesUp(true);
    for (int i = 0; i < 200 && !Active(); ++i) {
      clock_.Advance(absl::Milliseconds(10));
      Take(0);
    }
    EXPECT_TRUE(Active());
  }
  ~GatewayPortTest() override {
    const PortCounters counters = Counters();
    EXPECT_EQ(frames_out_, counters.handed + counters.waiting + counters.drops.Sum());
    EXPECT_TRUE(channel_.Rebind(nullptr, {}).ok());
  }

  bool Active() {
    bool active = false;
    port_->RunWithoutWorker([&](const GatewayPort::TaskContext& context) { active = context.hellos->election().active(); });
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
    hca_.Deliver(bytes, {.status = IBV_WC_SUCCESS, .src_qp = from.qpn().value(), .wc_flags = IBV_WC_GRH, .slid = 5});
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
  std::unique_ptr<BufferPool> ves_pool_ = BufferPool::Create(&hca_, hca_.pd(), 64, kVesFrame).value();
  std::unique_ptr<UdEndpoint> endpoint_ =
      UdEndpoint::Create(&hca_, hca_.pd(), pool_.get(), &handles_, {.receive_depth = 256, .send_depth = 64}).value();
  const IpoibAddress own_ = translation::PeerAddr(0x48);
  VPortDirectory directory_;
  std::unique_ptr<ipoib::LinkRequestQueue> requests_ = std::make_unique<ipoib::LinkRequestQueue>();
  std::unique_ptr<ipoib::LinkEventQueue> events_ = std::make_unique<ipoib::LinkEventQueue>();
  ipoib::Channel channel_{{pool_.get(), &directory_, requests_.get(), events_.get(), &clock_}};
  // Without queries, which would be frames of the gateway's own.
  std::unique_ptr<GatewayPort> port_ =
      GatewayPort::Create({"gw0", {.pair = {PKey(0x8001), Vid(0)}}, {.query_groups = false}}, &channel_, &clock_).value();
};

constexpr size_t kHeaders = 14 + 20 + 8;

TEST_F(GatewayPortTest, AFrameThatTheSwitchHasNoRoomForWaits) {
  Arrive(20);
  Arrive(30);
  EXPECT_THAT(Take(0), IsEmpty());
  EXPECT_EQ(Counters().waiting, 2u);
  EXPECT_THAT(Take(64), ElementsAre(kHeaders + 20, kHeaders + 30));
  EXPECT_EQ(Counters().waiting, 0u);
  EXPECT_EQ(Counters().handed, 2u);
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
  EXPECT_EQ(Counters().handed, GatewayPort::kMaxPending);
}

}  // namespace
}  // namespace eoib::gateway
