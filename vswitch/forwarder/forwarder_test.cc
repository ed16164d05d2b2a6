// Forwarding decisions: flooding, learning, VLANs, moves and agents that restart.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/fabric/softhca/soft_node_for_test.h"
#include "vswitch/forwarder/forwarder_test_fixture.h"

namespace eoib {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(ForwarderTest, FirstFrameFloodsAndTheReplyDoesNot) {
  Host* h1 = AddHost("h1");
  Host* h2 = AddHost("h2");
  Host* h3 = AddHost("h3");
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p2 = h2->AddPort("p2");
  TestPort* p3 = h3->AddPort("p3");

  p1->Inject(MakeFrame(kB, kA));
  Settle();
  EXPECT_THAT(Frames(p2), ElementsAre(MakeFrame(kB, kA)));
  EXPECT_THAT(Frames(p3), ElementsAre(MakeFrame(kB, kA)));
  EXPECT_EQ(h1->counters().flooded_unknown.value(), 1u);

  p2->Inject(MakeFrame(kA, kB));
  Settle();
  EXPECT_THAT(Frames(p1), ElementsAre(MakeFrame(kA, kB)));
  EXPECT_THAT(Frames(p3), IsEmpty());
  EXPECT_EQ(h2->counters().flooded_unknown.value(), 1u) << "to its ports, the frame that came";
  EXPECT_EQ(h2->counters().known_unicast.value(), 1u) << "to the fabric, the reply";
  EXPECT_EQ(h1->counters().known_unicast.value(), 1u);
}

TEST_F(ForwarderTest, PeersOfOneBatchAreToldApart) {
  Host* h1 = AddHost("h1");
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p2 = AddHost("h2")->AddPort("p2");
  TestPort* p3 = AddHost("h3")->AddPort("p3");
  p2->Inject(MakeFrame(kA, kB));
  p3->Inject(MakeFrame(kA, kC));
  for (size_t i = hosts_.size(); i-- > 0;) hosts_[i]->Turn();  // h1 runs last and finds both frames
  Settle();
  EXPECT_EQ(h1->fdb()->counters().learned, 2u);
  for (TestPort* port : {p1, p2, p3}) port->TakeTransmitted();
  p1->Inject(MakeFrame(kC, kA));
  p1->Inject(MakeFrame(kB, kA));
  Settle();
  EXPECT_THAT(Frames(p2), ElementsAre(MakeFrame(kB, kA)));
  EXPECT_THAT(Frames(p3), ElementsAre(MakeFrame(kC, kA)));
}

TEST_F(ForwarderTest, AReplyWaitsForItsPathInsteadOfFlooding) {
  Host* h1 = AddHost("h1");
  Host* h2 = AddHost("h2");
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p2 = h2->AddPort("p2");
  p1->Inject(MakeFrame(kB, kA));
  Settle(/*resolve=*/false);
  p2->Inject(MakeFrame(kA, kB));
  Settle(/*resolve=*/false);
  EXPECT_THAT(Frames(p1), IsEmpty());
  EXPECT_TRUE(h2->forwarder()->HasWaitingFrames());
  Settle();
  EXPECT_THAT(Frames(p1), ElementsAre(MakeFrame(kA, kB)));
  EXPECT_EQ(h2->counters().flooded_unknown.value(), 1u) << "the frame that came, and not the reply";
}

TEST_F(ForwarderTest, AFrameWhosePathIsReplacedBeforeItsPostTakesTheNewOne) {
  Host *h1 = AddHost("h1"), *h2 = AddHost("h2");
  TestPort *p1 = h1->AddPort("p1"), *p2 = h2->AddPort("p2");
  p1->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  Settle();
  OnceAfter probe(Stage::kTransmit, [&] { h2->ReplacePathTo(*h1); });
  h2->forwarder()->SetProbe(&probe);
  p2->Inject(MakeFrame(kA, kB));
  Settle();
  EXPECT_EQ(p1->TakeTransmitted().size(), 1u);
  EXPECT_EQ(h2->dropped(DropReason::kUnresolved), 0u);
  h2->forwarder()->SetProbe(nullptr);
}

TEST_F(ForwarderTest, HeldFramesAreBoundedAndExpire) {
  Host* h1 = AddHost("h1");
  Host* h2 = AddHost("h2");
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p2 = h2->AddPort("p2");
  p1->Inject(MakeFrame(kB, kA));
  Settle(/*resolve=*/false);
  for (size_t i = 0; i < HeldFrames::kPerKey + 3; ++i) p2->Inject(MakeFrame(kA, kB));
  Settle(/*resolve=*/false);
  EXPECT_EQ(h2->dropped(DropReason::kUnresolved), 3u);
  clock_.Advance(absl::Seconds(2));
  Settle(/*resolve=*/false);
  EXPECT_EQ(h2->dropped(DropReason::kUnresolved), HeldFrames::kPerKey + 3);
  EXPECT_FALSE(h2->forwarder()->HasWaitingFrames());
}

// One RetryHeld sends them all, although they are more than a batch.
TEST_F(ForwarderTest, AllHeldFramesWhosePathIsKnownGo) {
  Host* h1 = AddHost("h1");
  Host* h2 = AddHost("h2");
  TestPort* p1 = h1->AddPort("p1");
  constexpr size_t kPeers = HeldFrames::kCapacity / HeldFrames::kPerKey;
  std::vector<VPortId> peers;
  for (uint32_t i = 0; i < kPeers; ++i) {
    peers.push_back(h1->directory()->Intern({h2->address().gid, Qpn(0x1000 + i)}));
    const MacAddr mac = MacAddr::FromUint64(kB.ToUint64() + 0x100 * i);
    ASSERT_TRUE(h1->fdb()->AddStatic(FdbKey(Vid(0), mac), peers[i]).ok());
    for (size_t frame = 0; frame < HeldFrames::kPerKey; ++frame) p1->Inject(MakeFrame(mac, kA));
  }
  Settle(/*resolve=*/false);
  EXPECT_EQ(h1->counters().UnderWay(), HeldFrames::kCapacity);
  for (VPortId peer : peers) h1->SetPathTo(*h2, peer, /*tell=*/peer == peers.back());
  Settle(/*resolve=*/false);
  EXPECT_FALSE(h1->forwarder()->HasWaitingFrames());
  EXPECT_EQ(h1->counters().transmitted_fabric.value(), HeldFrames::kCapacity);
}

TEST_F(ForwarderTest, AnAgedOutAddressFloodsAgain) {
  Host* h1 = AddHost("h1");
  Host* h2 = AddHost("h2");
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p2 = h2->AddPort("p2");
  p2->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  Settle();
  p1->Inject(MakeFrame(kB, kA));
  Settle();
  EXPECT_EQ(h1->counters().flooded_unknown.value(), 0u);
  clock_.Advance(absl::Seconds(301));
  p1->Inject(MakeFrame(kB, kA));
  Settle();
  EXPECT_EQ(h1->counters().flooded_unknown.value(), 1u);
}

TEST_F(ForwarderTest, EachReceiverGetsAFloodExactlyOnceAndItsSenderNever) {
  Host* h1 = AddHost("h1");
  Host* h2 = AddHost("h2");
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p1b = h1->AddPort("p1b");
  TestPort* p2 = h2->AddPort("p2");
  TestPort* p2b = h2->AddPort("p2b");
  const Bytes frame = MakeFrame(MacAddr::Broadcast(), kA);
  p1->Inject(frame);
  Settle();
  EXPECT_THAT(Frames(p1), IsEmpty());
  for (TestPort* port : {p1b, p2, p2b})
    EXPECT_THAT(Frames(port), ElementsAre(frame)) << port->name();
  EXPECT_EQ(h1->dropped(DropReason::kOwnMulticast), 1u) << "the looped copy";
}

TEST_F(ForwarderTest, PartitionsDoNotMeet) {
  Host* h1 = AddHost("h1");
  Host* h2 = AddHost("h2");
  Host* other = AddHost("h3", {.pkey = PKey(0x8002)});
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p2 = h2->AddPort("p2");
  TestPort* p3 = other->AddPort("p3");
  p1->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  p3->Inject(MakeFrame(MacAddr::Broadcast(), kC));
  Settle();
  EXPECT_THAT(Frames(p2), SizeIs(1));
  EXPECT_THAT(Frames(p3), IsEmpty());
  EXPECT_THAT(Frames(p1), IsEmpty());
  EXPECT_EQ(other->counters().from_fabric.value(), 1u) << "its own looped copy and nothing else";
}

TEST_F(ForwarderTest, LimitedMembersAreIsolatedAlsoOnOneHost) {
  Host* full = AddHost("f1", {.pkey = PKey(0x8003)});
  Host* l1 = AddHost("l1", {.pkey = PKey(0x8003)});
  Host* l2 = AddHost("l2", {.pkey = PKey(0x8003)});
  TestPort* pf = full->AddPort("pf");
  TestPort* p1 = l1->AddPort("p1");
  TestPort* p1b = l1->AddPort("p1b");
  TestPort* p2 = l2->AddPort("p2");
  p1->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  p1b->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  Settle();
  EXPECT_THAT(Frames(pf), SizeIs(2));
  for (TestPort* port : {p1, p1b, p2}) EXPECT_THAT(Frames(port), IsEmpty()) << port->name();
  p1->Inject(MakeFrame(kB, kA));  // known, and on the same host
  Settle();
  EXPECT_THAT(Frames(p1b), IsEmpty());
  EXPECT_EQ(l1->dropped(DropReason::kIsolated), 1u);
  pf->Inject(MakeFrame(kA, kC));
  Settle();
  EXPECT_THAT(Frames(p1), ElementsAre(MakeFrame(kA, kC)));
}

struct VlanRow {
  const char* description;
  VlanPolicy in, out;
  Bytes sent;
  absl::optional<Bytes> expected;
};

TEST_F(ForwarderTest, VlansAtThePorts) {
  const VlanRow rows[] = {
      {"access to access of one VLAN", Access(10), Access(10), MakeFrame(kB, kA),
       MakeFrame(kB, kA)},
      {"access to access of another VLAN", Access(10), Access(20), MakeFrame(kB, kA),
       absl::nullopt},
      {"access to trunk: tagged", Access(10), Trunk({10, 20}), MakeFrame(kB, kA),
       MakeFrame(kB, kA, 10)},
      {"trunk to access: untagged, padded as on the wire", Trunk({10}), Access(10),
       MakeFrame(kB, kA, 10), MakeFrame(kB, kA)},
      {"trunk to trunk", Trunk({10, 20}), Trunk({10, 20}), MakeFrame(kB, kA, 20),
       MakeFrame(kB, kA, 20)},
      {"trunk to a trunk without the VLAN", Trunk({10, 20}), Trunk({10}), MakeFrame(kB, kA, 20),
       absl::nullopt},
      {"native VLAN to access", Trunk({10, 20}, 10), Access(10), MakeFrame(kB, kA),
       MakeFrame(kB, kA)},
      {"access to native VLAN", Access(10), Trunk({10, 20}, 10), MakeFrame(kB, kA),
       MakeFrame(kB, kA)},
      {"untagged VLAN", Access(0), Access(0), MakeFrame(kB, kA), MakeFrame(kB, kA)},
      {"priority tag gets the access VLAN", Access(10), Trunk({10}), MakeFrame(kB, kA, 0),
       MakeFrame(kB, kA, 10)},
      {"tag of another VLAN at an access port", Access(10), Trunk({10, 20}), MakeFrame(kB, kA, 20),
       absl::nullopt},
      {"VLAN outside of the VES's set", Trunk({10, 99}), Trunk({10, 99}), MakeFrame(kB, kA, 99),
       absl::nullopt},
  };
  VlanSet vlans;
  vlans.AddRange(Vid(0), Vid(20));
  int number = 0;
  for (const VlanRow& row : rows) {
    SCOPED_TRACE(row.description);
    const std::string suffix = std::to_string(++number);
    Host* h1 = AddHost("in" + suffix, {.vlans = vlans});
    Host* h2 = AddHost("out" + suffix, {.vlans = vlans});
    TestPort* in = h1->AddPort("in", row.in);
    TestPort* local = h1->AddPort("local", row.out);
    TestPort* out = h2->AddPort("out", row.out);
    in->Inject(row.sent);
    Settle();
    if (row.expected.has_value()) {
      EXPECT_THAT(Frames(out), ElementsAre(*row.expected));
      EXPECT_THAT(Frames(local), ElementsAre(*row.expected));
    } else {
      EXPECT_THAT(Frames(out), IsEmpty());
      EXPECT_THAT(Frames(local), IsEmpty());
    }
    for (auto& host : hosts_) host->ExpectConservation();
    hosts_.clear();
  }
}

TEST_F(ForwarderTest, AMacThatMovesIsFollowed) {
  Host* h1 = AddHost("h1");
  Host* h2 = AddHost("h2");
  Host* h3 = AddHost("h3");
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p2 = h2->AddPort("p2");
  TestPort* p3 = h3->AddPort("p3");
  p1->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  p2->Inject(MakeFrame(kA, kB));
  Settle();
  p3->Inject(MakeFrame(MacAddr::Broadcast(), kA));  // A is on host 3 now
  Settle();
  Frames(p1), Frames(p2), Frames(p3);
  p2->Inject(MakeFrame(kA, kB));
  p1->Inject(MakeFrame(kA, kC));  // its former host also sends the frame to host 3
  Settle();
  EXPECT_THAT(Frames(p3), SizeIs(2));
  EXPECT_THAT(Frames(p1), IsEmpty());
  EXPECT_EQ(h1->fdb()->counters().moved, 1u);
  EXPECT_EQ(h2->fdb()->counters().moved, 1u);
}

// A bridge with a spanning tree stands behind two ports. The forwarding port goes down and the
// other takes over, while the stations behind the bridge are silent.
TEST_F(ForwarderTest, APortThatGoesDownFlushesItsMacs) {
  Host* h1 = AddHost("h1");
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p1b = h1->AddPort("p1b");
  TestPort* p2 = AddHost("h2")->AddPort("p2");
  p1->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  p1b->Inject(MakeFrame(MacAddr::Broadcast(), kC));
  Settle();
  Frames(p1b);
  p1->SetTransmitResult(DropReason::kPortDown);
  p2->Inject(MakeFrame(kA, kB));
  Settle();
  EXPECT_EQ(h1->dropped(DropReason::kPortDown), 1u);
  p2->Inject(MakeFrame(kA, kB));
  Settle();
  EXPECT_THAT(Frames(p1b), ElementsAre(MakeFrame(kA, kB)));
  EXPECT_EQ(h1->fdb()->size(), 2u) << "B and C are still known";

  // Up again, and down again.
  p1->SetTransmitResult(DropReason::kNone);
  p1->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  Settle();
  Frames(p1b);
  p1->SetTransmitResult(DropReason::kPortDown);
  p2->Inject(MakeFrame(kA, kB));
  p2->Inject(MakeFrame(kA, kB));
  Settle();
  p2->Inject(MakeFrame(kA, kB));
  Settle();
  EXPECT_THAT(Frames(p1b), ElementsAre(MakeFrame(kA, kB)));
}

// The operator's entry stays, also while the port is down.
TEST_F(ForwarderTest, AStaticEntryOfAPortThatIsDownStays) {
  Host* h1 = AddHost("h1");
  TestPort* p1 = h1->AddPort("p1");
  h1->AddPort("p1b");
  TestPort* p2 = AddHost("h2")->AddPort("p2");
  ASSERT_TRUE(h1->fdb()->AddStatic(FdbKey(Vid(0), kA), h1->forwarder()->ports()[0].vport).ok());
  p1->Inject(MakeFrame(MacAddr::Broadcast(), kC));
  Settle();
  p1->SetTransmitResult(DropReason::kPortDown);
  for (int i = 0; i < 3; ++i) p2->Inject(MakeFrame(kA, kB));
  Settle();
  EXPECT_EQ(h1->dropped(DropReason::kPortDown), 3u);
  EXPECT_EQ(h1->fdb()->size(), 2u) << "A and B";
}

TEST_F(ForwarderTest, AnAgentThatRestartsIsReachedWithAllMacsBehindItOnceItsQueuePairIsAnnounced) {
  Host* h1 = AddHost("h1");
  TestPort* p1 = h1->AddPort("p1");
  Host* h2 = AddHost("h2");
  TestPort* p2 = h2->AddPort("p2");
  for (MacAddr mac : {kB, kC}) p2->Inject(MakeFrame(MacAddr::Broadcast(), mac));
  Settle();
  const VPortId agent = h1->Know(*h2);
  for (int restart = 0; restart < 2; ++restart) {
    h2 = RestartLastHost("h2");
    p2 = h2->AddPort("p2");
    const std::array<VPortAddress, 1> now = {{{.peer = h2->address()}}};
    ASSERT_TRUE(h1->directory()->Announce(agent, now, {}));
    p1->Inject(MakeFrame(kC, kA));  // to a MAC that has not spoken since
    Settle();
    EXPECT_THAT(Frames(p2), ElementsAre(MakeFrame(kC, kA)));
    p2->Inject(MakeFrame(MacAddr::Broadcast(), kB));
    Settle();
    EXPECT_EQ(h1->Behind(kB), agent);
  }
  EXPECT_EQ(h1->counters().flooded_unknown.value(), 0u);
  EXPECT_EQ(h1->fdb()->counters().moved, 0u);
  EXPECT_EQ(h1->counters().new_peers.value(), 1u);
}

TEST_F(ForwarderTest, APeerThatMovesToAnotherLidIsReported) {
  Host* h1 = AddHost("h1");
  Host* h2 = AddHost("h2");
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p2 = h2->AddPort("p2");
  p2->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  Settle();
  ASSERT_TRUE(subnet_.SetLid("h2", Lid(0x77)).ok());
  std::vector<Bytes> arrived;
  // The ports learn the new LID and make new rings asynchronously. Nothing sent to the former LID
  // arrives any more.
  EXPECT_TRUE(Eventually([&] {
    clock_.Advance(absl::Seconds(2));
    p2->Inject(MakeFrame(MacAddr::Broadcast(), kB));
    Settle();
    p1->Inject(MakeFrame(kB, kA));
    Settle();
    arrived = Frames(p2);
    return !arrived.empty();
  }));
  EXPECT_THAT(arrived, Each(MakeFrame(kB, kA))) << "along the new path";
}

struct HopRow {
  const char* description;
  VlanPolicy in, out;
  int outer;  // tag in front of a tag of VLAN 20
  absl::optional<int> arrives;
};

// No stack of tags gets a frame into a VLAN that its port does not carry.
TEST_F(ForwarderTest, NoVlanHopping) {
  const HopRow rows[] = {
      {"the access VLAN's own tag in front", Access(10), Trunk({10, 20}, 10), 10, absl::nullopt},
      {"a priority tag in front", Access(10), Trunk({10, 20}, 10), 0, absl::nullopt},
      {"from a trunk, to one whose native VLAN it is: the tag stays", Trunk({10}),
       Trunk({10, 20}, 10), 10, 10},
  };
  int number = 0;
  for (const HopRow& row : rows) {
    SCOPED_TRACE(row.description);
    const std::string suffix = std::to_string(++number);
    TestPort* in = AddHost("in" + suffix)->AddPort("in", row.in);
    TestPort* out = AddHost("out" + suffix)->AddPort("out", row.out);
    Bytes frame = MakeFrame(MacAddr::Broadcast(), kA, 20);
    const uint8_t outer[] = {0x81, 0, static_cast<uint8_t>(row.outer >> 8),
                             static_cast<uint8_t>(row.outer)};
    frame.insert(frame.begin() + kMacsSize, std::begin(outer), std::end(outer));
    in->Inject(frame);
    Settle();
    if (row.arrives.has_value()) {
      EXPECT_THAT(Frames(out), ElementsAre(frame));
    } else {
      EXPECT_THAT(Frames(out), IsEmpty());
    }
    for (auto& host : hosts_) host->ExpectConservation();
    hosts_.clear();
  }
}

TEST_F(ForwarderTest, AFullFdbStillDeliversAndKeepsWhatItHadFirst) {
  Host* h1 = AddHost("h1", {.fdb_limit = 4});
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p2 = AddHost("h2")->AddPort("p2");
  for (uint64_t i = 1; i <= 10; ++i)
    p1->Inject(MakeFrame(kB, MacAddr::FromUint64(0x020000000100 + i)));
  Settle();
  EXPECT_THAT(Frames(p2), SizeIs(10));
  EXPECT_EQ(h1->fdb()->size(), 4u);
  EXPECT_EQ(h1->fdb()->counters().evicted, 6u);
  std::vector<MacAddr> known;
  for (const Fdb::Entry& entry : h1->fdb()->Dump()) known.push_back(entry.key.mac());
  for (uint64_t i : {1, 2, 3, 10})
    EXPECT_THAT(known, Contains(MacAddr::FromUint64(0x020000000100 + i))) << "and the newest";
}

TEST_F(ForwarderTest, AStaticEntryIsNotDisplaced) {
  Host* h1 = AddHost("h1");
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p1b = h1->AddPort("p1b");
  TestPort* p2 = AddHost("h2")->AddPort("p2");
  ASSERT_TRUE(h1->fdb()->AddStatic(FdbKey(Vid(0), kA), h1->forwarder()->ports()[0].vport).ok());
  p2->Inject(MakeFrame(MacAddr::Broadcast(), kA));  // a claim from elsewhere
  Settle();
  Frames(p1);
  p1b->Inject(MakeFrame(kA, kB));
  Settle();
  EXPECT_THAT(Frames(p1), ElementsAre(MakeFrame(kA, kB)));
  EXPECT_THAT(Frames(p2), IsEmpty());
}

TEST_F(ForwarderTest, APinnedMacIsHeardFromItsOwnPortOnly) {
  Host* h1 = AddHost("h1");
  TestPort* p1 = h1->AddPort("p1", {}, /*pinned=*/kA);
  TestPort* p1b = h1->AddPort("p1b");
  TestPort* p2 = AddHost("h2")->AddPort("p2");
  TestPort* p3 = AddHost("h3")->AddPort("p3");
  p1->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  Settle();
  for (TestPort* port : {p1b, p2, p3}) EXPECT_THAT(Frames(port), SizeIs(1));
  // From the fabric, between frames of other sources.
  p2->Inject(MakeFrame(MacAddr::Broadcast(), kB, -1, 50));
  p2->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  p2->Inject(MakeFrame(MacAddr::Broadcast(), kB, -1, 51));
  Settle();
  EXPECT_EQ(h1->dropped(DropReason::kPinnedMac), 1u);
  EXPECT_THAT(Frames(p1), ElementsAre(MakeFrame(MacAddr::Broadcast(), kB, -1, 50),
                                      MakeFrame(MacAddr::Broadcast(), kB, -1, 51)));
  EXPECT_THAT(Frames(p3), SizeIs(3)) << "another agent does not know whose it is";
  // From another port.
  p1b->Inject(MakeFrame(kB, kA));
  Settle();
  EXPECT_EQ(h1->dropped(DropReason::kPinnedMac), 2u);
  EXPECT_THAT(Frames(p2), IsEmpty());
  // It stays in place, also after it has aged out.
  p1b->Inject(MakeFrame(kA, kC));
  Settle();
  EXPECT_THAT(Frames(p1), ElementsAre(MakeFrame(kA, kC)));
  clock_.Advance(absl::Seconds(301));
  h1->fdb()->Age();
  p2->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  Settle();
  EXPECT_EQ(h1->dropped(DropReason::kPinnedMac), 3u);
  p1->Inject(MakeFrame(kB, kA));
  Settle();
  EXPECT_THAT(Frames(p2), SizeIs(1));
}

TEST_F(ForwarderTest, AMacIsPinnedInTheVlansOfItsPort) {
  Host* h1 = AddHost("h1");
  h1->AddPort("p1", Trunk({10}, 10), /*pinned=*/kA);
  TestPort* p1b = h1->AddPort("p1b", Trunk({10, 20}));
  TestPort* p2 = AddHost("h2")->AddPort("p2", Trunk({10, 20}));
  for (int vid : {10, 20}) p2->Inject(MakeFrame(MacAddr::Broadcast(), kA, vid));
  Settle();
  EXPECT_EQ(h1->dropped(DropReason::kPinnedMac), 1u);
  EXPECT_THAT(Frames(p1b), ElementsAre(MakeFrame(MacAddr::Broadcast(), kA, 20)));
}

TEST_F(ForwarderTest, WithoutTheGroupFloodsAreCountedAndLocalPortsStillTalk) {
  Host* h1 = AddHost("h1");
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p1b = h1->AddPort("p1b");
  h1->forwarder()->SetFloodHandle(AhIndex::None());
  p1->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  Settle();
  EXPECT_THAT(Frames(p1b), SizeIs(1));
  EXPECT_EQ(h1->dropped(DropReason::kFabricDown), 1u);
}

}  // namespace
}  // namespace eoib
