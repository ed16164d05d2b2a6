// A forwarder that loses its queue pair, on an HCA that completes sends only when told to.
#include <memory>

#include "gtest/gtest.h"
#include "vswitch/base/clock.h"
#include "vswitch/fabric/fake_verbs.h"
#include "vswitch/forwarder/forwarder.h"
#include "vswitch/port/port_for_test.h"
#include "vswitch/wire/mgid.h"

namespace eoib {
namespace {

class ForwarderRebindTest : public testing::Test {
 protected:
  ForwarderRebindTest() {
    endpoint_ = MakeEndpoint();
    const Forwarder::Dependencies dependencies{pool_.get(), &fdb_,      &directory_, &punts_,
                                               &messages_,  &injected_, &clock_};
    const Forwarder::Options options{.flood_mgid = FloodMgid(PKey(0x8001))};
    forwarder_ = std::make_unique<Forwarder>(options, dependencies, Uplink());
    forwarder_->AddPort(&port_, {});
    forwarder_->SetMtu(4092);
    flood_ = handles_->Get({FloodMgid(PKey(0x8001)).gid(), 0xc001, Sl()}, {}).value();
    forwarder_->SetFloodHandle(flood_);
    endpoint_->Refill();
  }
  ~ForwarderRebindTest() override {
    forwarder_.reset();
    endpoint_.reset();
    EXPECT_EQ(pool_->count(BufferPool::State::kFree), pool_->size()) << "a buffer leaked";
    handles_.reset();  // checks that no send holds a handle
  }

  std::unique_ptr<UdEndpoint> MakeEndpoint() {
    return UdEndpoint::Create(&hca_, pd_, pool_.get(), handles_.get(),
                              {.receive_depth = 8, .send_depth = 8})
        .value();
  }
  Forwarder::Uplink Uplink() { return {endpoint_.get(), {Gid(), endpoint_->qpn()}, false}; }
  void Broadcast() {
    std::vector<uint8_t> frame(60, 0);
    MacAddr::Broadcast().ToWire(&frame[0]);
    MacAddr::FromUint64(0x02'00'00'00'00'0a).ToWire(&frame[6]);
    frame[12] = 0x88, frame[13] = 0xb6;
    port_.Inject(frame);
    forwarder_->PollPort(0);
  }
  uint64_t Dropped(DropReason reason) const { return forwarder_->counters().drop(reason); }

  FakeClock clock_;
  FakeHca hca_;
  ibv_pd* const pd_ = hca_.pd();
  std::unique_ptr<AddressHandles> handles_ = std::make_unique<AddressHandles>(&hca_, pd_);
  std::unique_ptr<BufferPool> pool_ = BufferPool::Create(&hca_, pd_, 256, 4092).value();
  Fdb fdb_{{}, &clock_};
  VPortDirectory directory_;
  PuntQueue punts_;
  ReceivedMessages messages_;
  InjectQueue injected_;
  TestPort port_{"p", MacAddr()};
  std::unique_ptr<UdEndpoint> endpoint_;
  std::unique_ptr<Forwarder> forwarder_;
  AhIndex flood_ = AhIndex::None();
};

TEST_F(ForwarderRebindTest, SendsThatNeverCompleteAreCountedAsDropped) {
  Broadcast();
  Broadcast();
  hca_.CompleteSend();
  std::unique_ptr<UdEndpoint> former = std::move(endpoint_);
  endpoint_ = MakeEndpoint();
  forwarder_->Rebind(Uplink());
  former.reset();
  EXPECT_EQ(forwarder_->counters().transmitted_fabric.value(), 1u) << "it had completed";
  EXPECT_EQ(Dropped(DropReason::kSendError), 1u);
  EXPECT_EQ(forwarder_->counters().UnderWay(), 0u);
  Broadcast();
  EXPECT_EQ(hca_.qp()->sends.size(), 1u) << "through the new one";
  hca_.CompleteSend();
  forwarder_->Housekeep();
  EXPECT_EQ(forwarder_->counters().UnderWay(), 0u);
}

TEST_F(ForwarderRebindTest, WithoutAnUplinkFramesForTheFabricAreDropped) {
  forwarder_->Rebind({});
  endpoint_.reset();
  Broadcast();
  forwarder_->PollFabric();
  forwarder_->Housekeep();
  EXPECT_EQ(Dropped(DropReason::kFabricDown), 1u);
  EXPECT_EQ(forwarder_->counters().UnderWay(), 0u);
}

TEST_F(ForwarderRebindTest, FramesThatWaitForAPathGoThroughTheNewQueuePair) {
  const PeerAddress peer{Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(2)), Qpn(0x77)};
  const VPortId vport = directory_.Intern(peer);
  ASSERT_TRUE(fdb_.AddStatic(FdbKey(Vid(0), MacAddr::FromUint64(0x02'00'00'00'00'0b)), vport).ok());
  std::vector<uint8_t> frame(60, 0);
  MacAddr::FromUint64(0x02'00'00'00'00'0b).ToWire(&frame[0]);
  MacAddr::FromUint64(0x02'00'00'00'00'0a).ToWire(&frame[6]);
  frame[12] = 0x88, frame[13] = 0xb6;
  port_.Inject(frame);
  forwarder_->PollPort(0);
  ASSERT_TRUE(forwarder_->HasWaitingFrames());
  std::unique_ptr<UdEndpoint> former = std::move(endpoint_);
  endpoint_ = MakeEndpoint();
  forwarder_->Rebind(Uplink());
  former.reset();
  EXPECT_TRUE(forwarder_->HasWaitingFrames());
  directory_.SetPath(vport, peer.gid, handles_->Get({peer.gid, 2, Sl()}, {}).value());
  injected_.RetryHeld();
  forwarder_->PollInjected();
  ASSERT_EQ(hca_.qp()->sends.size(), 1u);
  EXPECT_EQ(hca_.qp()->sends[0].remote_qpn, 0x77u);
  hca_.CompleteSend();
  forwarder_->Housekeep();
  EXPECT_EQ(forwarder_->counters().UnderWay(), 0u);
}

}  // namespace
}  // namespace eoib
