// Peers with several addresses: where each flow goes while addresses are lost, return and restart.
// Two hosts of the test's subnet play the two ports of one peer.
#include <map>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/forwarder/forwarder_test_fixture.h"

namespace eoib {
namespace {

using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kFlows = 64;

class ForwarderAggregateTest : public ForwarderTest {
 protected:
  // h1 knows that B is behind the peer, without having heard from it.
  void MakePeer(bool resolve = true) {
    h1_ = AddHost("h1");
    p1_ = h1_->AddPort("p1");
    h2_ = AddHost("h2");
    p2_ = h2_->AddPort("p2");
    h3_ = AddHost("h3");
    p3_ = h3_->AddPort("p3");
    peer_ = h1_->AggregateOf({h2_, h3_}, resolve);
    ASSERT_TRUE(h1_->fdb()->AddStatic(FdbKey(Vid(0), kB), peer_).ok());
  }
  // Flow `i` is the frames from MAC `i` to B.
  static MacAddr MacOf(uint64_t i) { return MacAddr::FromUint64(0x02'00'00'00'01'00 + i); }
  void Send(uint64_t flow) { p1_->Inject(MakeFrame(kB, MacOf(flow))); }
  void SendAll() {
    for (uint64_t flow = 0; flow < kFlows; ++flow) Send(flow);
    Settle();
  }
  // The sources of the frames that arrived at a port since the last call, in order.
  static std::vector<MacAddr> SourcesAt(TestPort* port) {
    std::vector<MacAddr> sources;
    for (const Bytes& frame : Frames(port)) sources.push_back(MacAddr::FromWire(&frame[6]));
    return sources;
  }
  static std::set<MacAddr> SetAt(TestPort* port) {
    const std::vector<MacAddr> sources = SourcesAt(port);
    return {sources.begin(), sources.end()};
  }
  void SetLost(const Host& host, bool lost) {
    ASSERT_TRUE(h1_->directory()->SetLost(peer_, host.address(), lost));
  }

  Host *h1_, *h2_, *h3_;
  TestPort *p1_, *p2_, *p3_;
  VPortId peer_;
};

TEST_F(ForwarderAggregateTest, EachFlowStaysAtOneAddressAndBothAreUsed) {
  MakePeer();
  SendAll();
  const std::set<MacAddr> at_two = SetAt(p2_), at_three = SetAt(p3_);
  EXPECT_EQ(at_two.size() + at_three.size(), kFlows) << "each frame once";
  EXPECT_GT(at_two.size(), kFlows / 4);
  EXPECT_GT(at_three.size(), kFlows / 4);
  SendAll();
  EXPECT_EQ(SetAt(p2_), at_two);
  EXPECT_EQ(SetAt(p3_), at_three);
  EXPECT_EQ(h1_->counters().known_unicast.value(), 2 * kFlows);
}

TEST_F(ForwarderAggregateTest, ALostAddressMovesItsFlowsOnlyAndGetsThemBack) {
  MakePeer();
  SendAll();
  const std::set<MacAddr> at_two = SetAt(p2_), at_three = SetAt(p3_);
  SetLost(*h3_, true);
  SendAll();
  EXPECT_THAT(SourcesAt(p2_), SizeIs(kFlows)) << "nothing is lost with it, nothing waits";
  EXPECT_THAT(Frames(p3_), IsEmpty());
  SetLost(*h3_, false);
  SendAll();
  EXPECT_EQ(SetAt(p2_), at_two);
  EXPECT_EQ(SetAt(p3_), at_three);
}

TEST_F(ForwarderAggregateTest, WithoutAPathFramesWaitForTheFirstThereIs) {
  MakePeer(/*resolve=*/false);
  for (uint64_t flow = 0; flow < HeldFrames::kPerKey; ++flow) Send(flow);
  Settle();
  EXPECT_TRUE(h1_->forwarder()->HasWaitingFrames());
  h1_->SetPathTo(*h3_, peer_);
  Settle();
  EXPECT_FALSE(h1_->forwarder()->HasWaitingFrames());
  std::vector<MacAddr> sent;
  for (uint64_t flow = 0; flow < HeldFrames::kPerKey; ++flow) sent.push_back(MacOf(flow));
  EXPECT_THAT(SourcesAt(p3_), ElementsAreArray(sent)) << "in their order";
  h1_->SetPathTo(*h2_, peer_);
  SendAll();
  EXPECT_GT(SourcesAt(p2_).size(), kFlows / 4);
}

TEST_F(ForwarderAggregateTest, WithoutAnyAddressFramesAreUnresolved) {
  MakePeer();
  SetLost(*h2_, true);
  SetLost(*h3_, true);
  Send(1);
  Settle();
  EXPECT_TRUE(h1_->forwarder()->HasWaitingFrames());
  clock_.Advance(absl::Seconds(2));
  Settle();
  EXPECT_EQ(h1_->dropped(DropReason::kUnresolved), 1u);
}

// The frame's address is lost and its handle removed between its route lookup and its post.
TEST_F(ForwarderAggregateTest, AFrameWhoseAddressIsLostBeforeItsPostTakesAnother) {
  MakePeer();
  SendAll();
  const std::set<MacAddr> at_two = SetAt(p2_);
  Frames(p3_);
  OnceAfter probe(Stage::kTransmit, [this] {
    SetLost(*h2_, true);
    h1_->ForgetPathTo(*h2_);
  });
  h1_->forwarder()->SetProbe(&probe);
  p1_->Inject(MakeFrame(kB, *at_two.begin()));
  Settle();
  h1_->forwarder()->SetProbe(nullptr);
  EXPECT_THAT(SourcesAt(p3_), ElementsAreArray({*at_two.begin()}));
  EXPECT_EQ(h1_->dropped(DropReason::kUnresolved), 0u);
}

TEST_F(ForwarderAggregateTest, MacsHeardFromAnyOfItsAddressesDoNotMove) {
  MakePeer();
  for (int round = 0; round < 3; ++round) {
    p2_->Inject(MakeFrame(MacAddr::Broadcast(), kC));
    Settle();
    p3_->Inject(MakeFrame(MacAddr::Broadcast(), kC));
    Settle();
  }
  EXPECT_EQ(h1_->fdb()->counters().learned, 1u);
  EXPECT_EQ(h1_->fdb()->counters().moved, 0u);
  EXPECT_EQ(h1_->counters().new_peers.value(), 0u);
  EXPECT_EQ(h1_->Behind(kC), peer_);
}

// The peer is first heard as two data-only peers, and B is known behind one of them.
TEST_F(ForwarderAggregateTest, APeerKnownBeforeItsAnnouncementStaysReachableAndIsJoined) {
  h1_ = AddHost("h1");
  p1_ = h1_->AddPort("p1");
  h2_ = AddHost("h2");
  p2_ = h2_->AddPort("p2");
  h3_ = AddHost("h3");
  p3_ = h3_->AddPort("p3");
  p3_->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  Settle();
  peer_ = h1_->AggregateOf({h2_, h3_});
  Frames(p2_), Frames(p3_);
  SendAll();
  EXPECT_THAT(SourcesAt(p3_), SizeIs(kFlows)) << "where it was heard";
  p3_->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  Settle();
  Frames(p2_), Frames(p3_);
  h2_->fdb()->Flush();  // being two hosts, they know of each other
  SendAll();
  EXPECT_GT(SourcesAt(p2_).size(), kFlows / 4);
  EXPECT_GT(SourcesAt(p3_).size(), kFlows / 4);
  EXPECT_EQ(h1_->fdb()->counters().moved, 1u);
}

TEST_F(ForwarderAggregateTest, NothingFromTheFabricGoesBackToIt) {
  MakePeer();
  TestPort* p4 = AddHost("h4")->AddPort("p4");
  p4->Inject(MakeFrame(kB, kC));  // unknown there, so h1, which knows B, gets a copy
  Settle();
  EXPECT_EQ(h1_->dropped(DropReason::kFabricToFabric), 1u);
  EXPECT_THAT(Frames(p1_), IsEmpty());
}

TEST_F(ForwarderAggregateTest, AnAddressThatIsReplacedAtOneOfThePortsIsFollowed) {
  h1_ = AddHost("h1");
  p1_ = h1_->AddPort("p1");
  h2_ = AddHost("h2");
  p2_ = h2_->AddPort("p2");
  h3_ = AddHost("h3");
  p3_ = h3_->AddPort("p3");
  peer_ = h1_->AggregateOf({h2_, h3_});
  p3_->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  Settle();
  h3_ = RestartLastHost("h3");
  p3_ = h3_->AddPort("p3");
  ASSERT_EQ(h1_->AggregateOf({h2_, h3_}), peer_);
  p3_->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  Settle();
  EXPECT_EQ(h1_->fdb()->counters().moved, 0u);
  EXPECT_EQ(h1_->counters().new_peers.value(), 0u);
  Frames(p2_);
  h2_->fdb()->Flush();  // being two hosts, they know of each other
  SendAll();
  const size_t at_two = SourcesAt(p2_).size(), at_three = SourcesAt(p3_).size();
  EXPECT_EQ(at_two + at_three, kFlows);
  EXPECT_GT(at_three, kFlows / 4);
  EXPECT_EQ(h1_->directory()->Find(h3_->address()), peer_);
}

// ---- vPorts that are removed --------------------------------------------------------------------

TEST_F(ForwarderAggregateTest, AFrameWhoseVPortIsRemovedBeforeItsPostIsDropped) {
  MakePeer();
  OnceAfter probe(Stage::kResolve, [this] { h1_->directory()->Remove(peer_); });
  h1_->forwarder()->SetProbe(&probe);
  Send(1);
  Settle();
  h1_->forwarder()->SetProbe(nullptr);
  EXPECT_EQ(h1_->dropped(DropReason::kUnresolved), 1u);
  EXPECT_THAT(Frames(p1_), IsEmpty());
}

// A vPort may be reclaimed after a worker has found it for a peer and before it learns from it.
TEST_F(ForwarderAggregateTest, AMacLearnedBehindAVPortThatIsGoneFloodsAndComesBack) {
  h1_ = AddHost("h1");
  p1_ = h1_->AddPort("p1");
  h2_ = AddHost("h2");
  p2_ = h2_->AddPort("p2");
  p2_->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  Settle();
  const VPortId former = h1_->directory()->Find(h2_->address());
  h1_->directory()->Remove(former);  // the entry of B stays, as if it had just been learned
  Frames(p1_), Frames(p2_);
  p1_->Inject(MakeFrame(kB, kA));
  Settle();
  EXPECT_THAT(Frames(p2_), SizeIs(1));
  EXPECT_EQ(h1_->counters().flooded_unknown.value(), 1u);
  p2_->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  Settle();
  Frames(p2_);
  p1_->Inject(MakeFrame(kB, kA));
  Settle();
  EXPECT_THAT(Frames(p2_), SizeIs(1));
  EXPECT_EQ(h1_->counters().flooded_unknown.value(), 1u) << "known again";
  EXPECT_NE(h1_->directory()->Find(h2_->address()), former);
}

TEST_F(ForwarderAggregateTest, APeerThatSpeaksIsNotReclaimedEvenIfNothingIsLearnedFromIt) {
  h1_ = AddHost("h1", {.fdb_limit = 0});
  h1_->AddPort("p1");
  h2_ = AddHost("h2");
  p2_ = h2_->AddPort("p2");
  const auto never = [](VPortId) { return false; };
  for (int i = 0; i < 5; ++i) {
    p2_->Inject(MakeFrame(MacAddr::Broadcast(), kB));
    Settle();
    EXPECT_EQ(h1_->directory()->Reclaim(never), 0u);
  }
  EXPECT_EQ(h1_->counters().new_peers.value(), 1u);
  EXPECT_EQ(h1_->directory()->Reclaim(never), 1u) << "silent";
}

}  // namespace
}  // namespace eoib
