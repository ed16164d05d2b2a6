// Floods without a multicast group: unicast copies to the agents of the flood list.
#include <algorithm>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/forwarder/forwarder_test_fixture.h"

namespace eoib {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ForwarderReplicateTest : public ForwarderTest {
 protected:
  Host* Add(const std::string& name, Host::Options options = {}) {
    options.replicate = true;
    return AddHost(name, options);
  }
  // Plays control: `host` knows `others`, all of whose vPorts are in `vlans`.
  static void Publish(Host* host, const std::vector<const Host*>& others,
                      std::initializer_list<uint16_t> vlans = {0}) {
    std::vector<FloodList::Entry> entries;
    for (const Host* other : others) entries.push_back({host->Know(*other), Vlans(vlans)});
    host->floods()->Publish(entries);
  }
  static VlanSet Vlans(std::initializer_list<uint16_t> vids) {
    VlanSet vlans;
    for (uint16_t vid : vids) vlans.Add(Vid(vid));
    return vlans;
  }
  // Three hosts that know each other, with a port each.
  void MakeThree() {
    h1_ = Add("h1");
    h2_ = Add("h2");
    h3_ = Add("h3");
    p1_ = h1_->AddPort("p1");
    p2_ = h2_->AddPort("p2");
    p3_ = h3_->AddPort("p3");
    Publish(h1_, {h2_, h3_});
    Publish(h2_, {h1_, h3_});
    Publish(h3_, {h1_, h2_});
  }

  Host *h1_ = nullptr, *h2_ = nullptr, *h3_ = nullptr;
  TestPort *p1_ = nullptr, *p2_ = nullptr, *p3_ = nullptr;
};

TEST_F(ForwarderReplicateTest, AFloodReachesEachAgentOnceAndTheReplyDoesNotFlood) {
  MakeThree();
  p1_->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  Settle();
  EXPECT_THAT(Frames(p2_), ElementsAre(MakeFrame(MacAddr::Broadcast(), kA)));
  EXPECT_THAT(Frames(p3_), ElementsAre(MakeFrame(MacAddr::Broadcast(), kA)));
  EXPECT_EQ(h1_->counters().flooded_group.value(), 1u);
  EXPECT_EQ(h1_->counters().egress_copies.value(), 2u);
  EXPECT_EQ(h1_->counters().transmitted_fabric.value(), 2u);
  EXPECT_THAT(subnet_.Groups(), IsEmpty());

  p2_->Inject(MakeFrame(kA, kB));
  Settle();
  EXPECT_THAT(Frames(p1_), ElementsAre(MakeFrame(kA, kB)));
  EXPECT_THAT(Frames(p3_), IsEmpty());
  EXPECT_EQ(h2_->counters().transmitted_fabric.value(), 1u);
}

TEST_F(ForwarderReplicateTest, UnknownUnicastIsDeliveredToThePortsOfTheReceiverAndNoFurther) {
  MakeThree();
  TestPort* const beside = h2_->AddPort("p2b");
  p1_->Inject(MakeFrame(kB, kA));
  Settle();
  EXPECT_THAT(Frames(p2_), SizeIs(1));
  EXPECT_THAT(Frames(beside), SizeIs(1));
  EXPECT_THAT(Frames(p3_), SizeIs(1)) << "once: h2 sends nothing back to the fabric";
  EXPECT_EQ(h2_->counters().transmitted_fabric.value(), 0u);
  EXPECT_EQ(h3_->counters().from_fabric.value(), 1u);
}

TEST_F(ForwarderReplicateTest, NoSenderIsToldThatAMacIsNotHere) {
  MakeThree();
  p1_->Inject(MakeFrame(kB, kA));
  Settle();
  EXPECT_THAT(h2_->TakePunts(Punt::Kind::kNotBehind), IsEmpty());
  EXPECT_THAT(h3_->TakePunts(Punt::Kind::kNotBehind), IsEmpty());
}

TEST_F(ForwarderReplicateTest, AnAgentGetsFloodsOfItsVlansOnly) {
  h1_ = Add("h1");
  h2_ = Add("h2");
  h3_ = Add("h3");
  p1_ = h1_->AddPort("p1", Trunk({10, 20, 30}));
  p2_ = h2_->AddPort("p2", Access(10));
  p3_ = h3_->AddPort("p3", Trunk({10, 20}));
  h1_->floods()->Publish({{h1_->Know(*h2_), Vlans({10})}, {h1_->Know(*h3_), Vlans({10, 20})}});
  for (int vid : {10, 20, 30}) p1_->Inject(MakeFrame(MacAddr::Broadcast(), kA, vid));
  Settle();
  EXPECT_THAT(Frames(p2_), SizeIs(1));
  EXPECT_THAT(Frames(p3_), SizeIs(2));
  EXPECT_EQ(h2_->counters().from_fabric.value(), 1u);
  EXPECT_EQ(h3_->counters().from_fabric.value(), 2u);
  EXPECT_EQ(h1_->dropped(DropReason::kNoEgress), 1u) << "nothing else carries VLAN 30";
}

TEST_F(ForwarderReplicateTest, PortsOfOneHostReachEachOtherWithoutAnyAgent) {
  h1_ = Add("h1");
  p1_ = h1_->AddPort("p1");
  p2_ = h1_->AddPort("p2");
  p1_->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  Settle();
  EXPECT_THAT(Frames(p2_), SizeIs(1));
  EXPECT_EQ(h1_->counters().egress_copies.value(), 1u);
}

TEST_F(ForwarderReplicateTest, ALimitedMemberAloneHasNobodyToFloodTo) {
  h1_ = Add("l1", {.pkey = PKey(0x8003)});
  p1_ = h1_->AddPort("p1");
  p2_ = h1_->AddPort("p2");
  p1_->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  Settle();
  EXPECT_THAT(Frames(p2_), IsEmpty());
  EXPECT_EQ(h1_->dropped(DropReason::kNoEgress), 1u);
}

TEST_F(ForwarderReplicateTest, ACopyWaitsForItsPath) {
  MakeThree();
  const VPortId unresolved = h1_->AggregateOf({AddHost("h4")}, /*resolve=*/false);
  TestPort* const p4 = hosts_.back()->AddPort("p4");
  h1_->floods()->Publish(
      {{unresolved, Vlans({0})}, {h1_->directory()->Find(h2_->address()), Vlans({0})}});
  p1_->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  Settle();
  EXPECT_THAT(Frames(p2_), SizeIs(1));
  EXPECT_THAT(Frames(p4), IsEmpty());
  EXPECT_THAT(h1_->TakePunts(Punt::Kind::kUnresolved), SizeIs(1));
  h1_->SetPathTo(*hosts_.back(), unresolved);
  Settle();
  EXPECT_THAT(Frames(p4), SizeIs(1));
}

TEST_F(ForwarderReplicateTest, AnAgentThatWasRemovedFromTheDirectoryCostsItsCopyOnly) {
  MakeThree();
  h1_->directory()->Remove(h1_->directory()->Find(h3_->address()));
  p1_->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  Settle();
  EXPECT_THAT(Frames(p2_), SizeIs(1));
  EXPECT_EQ(h1_->dropped(DropReason::kUnresolved), 1u);
}

TEST_F(ForwarderReplicateTest, FloodsDoNotMakeTheAgentProbe) {
  MakeThree();
  p1_->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  Settle();
  EXPECT_FALSE(h1_->directory()->TakeTraffic(h1_->directory()->Find(h2_->address())).sent);
}

TEST_F(ForwarderReplicateTest, AMessageToTheGroupReachesAllAgentsInAllVlans) {
  MakeThree();
  h1_->floods()->Publish({{h1_->directory()->Find(h2_->address()), VlanSet::None()},
                          {h1_->directory()->Find(h3_->address()), Vlans({10})}});
  ASSERT_TRUE(h1_->SendMessage(VPortId::None(), {1, 2, 3}));
  Settle();
  for (Host* host : {h2_, h3_}) {
    const std::vector<ControlMessage> messages = host->TakeMessages();
    ASSERT_THAT(messages, SizeIs(1));
    EXPECT_EQ(messages[0].peer, h1_->address());
    EXPECT_FALSE(messages[0].by_group);
  }
  EXPECT_EQ(h1_->counters().messages_sent.value(), 1u);
  EXPECT_EQ(h1_->counters().egress_copies.value(), 2u);
}

TEST_F(ForwarderReplicateTest, AMessageToNobodyEndsWithoutACopy) {
  h1_ = Add("h1");
  ASSERT_TRUE(h1_->SendMessage(VPortId::None(), {1}));
  Settle();
  EXPECT_EQ(h1_->counters().egress_copies.value(), 0u);
}

// More copies than a batch, the send queue and the pool have room for.
TEST_F(ForwarderReplicateTest, ABurstToManyAgentsKeepsTheLaws) {
  h1_ = Add("h1", {.buffers = 600});
  p1_ = h1_->AddPort("p1");
  std::vector<TestPort*> ports;
  std::vector<const Host*> others;
  for (int i = 0; i < 20; ++i) {
    Host* const other = Add("o" + std::to_string(i));
    ports.push_back(other->AddPort("p"));
    others.push_back(other);
  }
  Publish(h1_, others);
  constexpr int kFrames = 40;
  for (int i = 0; i < kFrames; ++i)
    p1_->Inject(MakeFrame(MacAddr::Broadcast(), kA, -1, 46 + static_cast<size_t>(i)));
  Settle();
  const ForwarderCounters& counters = h1_->counters();
  EXPECT_EQ(counters.egress_copies.value(), 20u * kFrames);
  uint64_t delivered = 0;
  for (TestPort* port : ports) {
    const std::vector<Bytes> frames = Frames(port);
    EXPECT_THAT(frames, Contains(MakeFrame(MacAddr::Broadcast(), kA)));
    EXPECT_TRUE(std::is_sorted(frames.begin(), frames.end(), [](const Bytes& a, const Bytes& b) {
      return a.size() < b.size();
    })) << "in order";
    delivered += frames.size();
  }
  EXPECT_EQ(delivered, counters.transmitted_fabric.value());
  EXPECT_EQ(delivered + counters.DropSum(DropSide::kEgress), 20u * kFrames);
}

TEST_F(ForwarderReplicateTest, ACopyWithoutABufferIsCounted) {
  MakeThree();
  std::vector<BufferId> taken;
  p1_->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  OnceAfter probe(Stage::kResolve, [&] {
    for (BufferId id = h1_->pool()->Allocate(); !id.IsNone(); id = h1_->pool()->Allocate())
      taken.push_back(id);
  });
  h1_->forwarder()->SetProbe(&probe);
  h1_->Turn();
  EXPECT_EQ(h1_->dropped(DropReason::kNoFloodBuffer), 1u);
  for (const BufferId id : taken) h1_->pool()->Free(id);
  h1_->forwarder()->SetProbe(nullptr);
  Settle();
  EXPECT_EQ(Frames(p2_).size() + Frames(p3_).size(), 1u)
      << "the last copy has the frame's own buffer";
}

TEST_F(ForwarderReplicateTest, WithoutAQueuePairCopiesAreDropped) {
  MakeThree();
  h1_->forwarder()->Rebind({});
  p1_->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  h1_->forwarder()->PollPort(0);
  EXPECT_EQ(h1_->dropped(DropReason::kFabricDown), 2u);
}

}  // namespace
}  // namespace eoib
