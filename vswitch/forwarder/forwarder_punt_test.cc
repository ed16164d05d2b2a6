// What the worker tells control: where MACs are heard, and who sends to the wrong host.
#include <functional>
#include <initializer_list>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/forwarder/forwarder_test_fixture.h"

namespace eoib {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using Kind = Punt::Kind;

const FdbKey kKeyB(Vid(0), kB);

// `h1_` is the host that reports. It knows h2 and h3 as two agents.
class ForwarderPuntTest : public ForwarderTest {
 protected:
  void MakeHosts(const Host::Options& options = {}) {
    h1_ = AddHost("h1", options);
    p1_ = h1_->AddPort("p1");
    p1b_ = h1_->AddPort("p1b");
    h2_ = AddHost("h2");
    p2_ = h2_->AddPort("p2");
    h3_ = AddHost("h3");
    p3_ = h3_->AddPort("p3");
    two_ = h1_->Know(*h2_);
    three_ = h1_->Know(*h3_);
  }
  void Say(TestPort* port, MacAddr mac) {
    port->Inject(MakeFrame(MacAddr::Broadcast(), mac));
    Settle();
  }
  static MacAddr Mac(uint64_t number) { return MacAddr::FromUint64(0x02'00'00'00'01'00 + number); }
  size_t Count(Kind kind) { return h1_->TakePunts(kind).size(); }
  void ExpectNone(std::initializer_list<Kind> kinds) {
    for (Kind kind : kinds) EXPECT_EQ(Count(kind), 0u) << static_cast<int>(kind);
  }
  // Expects one punt of the kind, of B.
  void ExpectOne(Kind kind, VPortId vport, VPortId previous) {
    const std::vector<Punt> punts = h1_->TakePunts(kind);
    ASSERT_THAT(punts, SizeIs(1));
    EXPECT_EQ(punts[0].key, kKeyB);
    EXPECT_EQ(punts[0].vport, vport);
    EXPECT_EQ(punts[0].previous, previous);
  }

  Host *h1_, *h2_, *h3_;
  TestPort *p1_, *p1b_, *p2_, *p3_;
  VPortId two_, three_;
};

// ---- Where MACs are heard -----------------------------------------------------------------------

TEST_F(ForwarderPuntTest, AMacThatIsLearnedAtAPortOfThisHostIsReportedOnce) {
  MakeHosts();
  Say(p1_, kB);
  ExpectOne(Kind::kLocalLearned, h1_->local_vport(0), VPortId::None());
  Say(p1_, kB);
  ExpectNone({Kind::kLocalLearned, Kind::kMoved, Kind::kLocalHeard, Kind::kContested});
}

TEST_F(ForwarderPuntTest, AMacThatMovesToAPortOfThisHostIsReportedAgain) {
  MakeHosts();
  Say(p2_, kB);
  ExpectNone({Kind::kLocalLearned});
  Say(p1_, kB);
  ExpectOne(Kind::kLocalLearned, h1_->local_vport(0), two_);
  ExpectOne(Kind::kMoved, h1_->local_vport(0), two_);
  Say(p1b_, kB);
  ExpectOne(Kind::kLocalLearned, h1_->local_vport(1), h1_->local_vport(0));
  ExpectOne(Kind::kMoved, h1_->local_vport(1), h1_->local_vport(0));
}

TEST_F(ForwarderPuntTest, AClaimedMacThatMovesInsideTheHostIsReportedAgain) {
  MakeHosts();
  h1_->fdb()->Claim(kKeyB, h1_->local_vport(0));
  Say(p1_, kB);
  ExpectNone({Kind::kLocalLearned, Kind::kLocalHeard});
  Say(p1b_, kB);
  ExpectOne(Kind::kLocalLearned, h1_->local_vport(1), h1_->local_vport(0));
}

TEST_F(ForwarderPuntTest, AMacThatIsLearnedFromAPeerIsNotReportedAndItsMovesAre) {
  MakeHosts();
  Say(p2_, kB);
  ExpectNone({Kind::kLocalLearned, Kind::kMoved, Kind::kLocalHeard, Kind::kContested});
  Say(p3_, kB);
  ExpectOne(Kind::kMoved, three_, two_);
  ExpectNone({Kind::kLocalLearned, Kind::kLocalHeard, Kind::kContested});
}

TEST_F(ForwarderPuntTest, AnAnnouncedMacThatIsHeardAtAPortOfThisHostIsReported) {
  MakeHosts();
  h1_->fdb()->Announce(kKeyB, two_);
  Say(p1_, kB);
  ExpectOne(Kind::kLocalHeard, h1_->local_vport(0), two_);
  ExpectNone({Kind::kLocalLearned, Kind::kMoved, Kind::kContested});
  EXPECT_EQ(h1_->Behind(kB), two_) << "control decides";
  EXPECT_THAT(Frames(p1b_), SizeIs(1)) << "its frames are delivered meanwhile";
  h1_->fdb()->Claim(kKeyB, h1_->local_vport(0));
  Say(p1_, kB);
  ExpectNone({Kind::kLocalHeard, Kind::kLocalLearned});
}

TEST_F(ForwarderPuntTest, AnAnnouncedMacThatIsHeardOftenIsReportedOnceInTenMilliseconds) {
  MakeHosts();
  h1_->fdb()->Announce(kKeyB, two_);
  for (int i = 0; i < 20; ++i) Say(p1_, kB);
  ExpectOne(Kind::kLocalHeard, h1_->local_vport(0), two_);
  Say(p1b_, kB);
  ExpectOne(Kind::kLocalHeard, h1_->local_vport(1), two_);
  clock_.Advance(absl::Milliseconds(10));
  Say(p1b_, kB);
  ExpectOne(Kind::kLocalHeard, h1_->local_vport(1), two_);
}

TEST_F(ForwarderPuntTest, AnAnnouncedMacThatIsHeardFromAnotherPeerIsReported) {
  MakeHosts();
  h1_->fdb()->Announce(kKeyB, two_);
  Say(p2_, kB);
  ExpectNone({Kind::kContested});
  Say(p3_, kB);
  ExpectOne(Kind::kContested, three_, two_);
  ExpectNone({Kind::kMoved, Kind::kLocalHeard, Kind::kLocalLearned});
  EXPECT_EQ(h1_->Behind(kB), two_);
  EXPECT_THAT(Frames(p1_), SizeIs(2)) << "its frames are delivered meanwhile";
}

TEST_F(ForwarderPuntTest, AMacThatThisHostClaimsAndThatIsHeardFromAPeerIsReported) {
  MakeHosts();
  h1_->fdb()->Claim(kKeyB, h1_->local_vport(0));
  Say(p1_, kB);
  ExpectNone({Kind::kContested});
  Say(p2_, kB);
  ExpectOne(Kind::kContested, two_, h1_->local_vport(0));
  ExpectNone({Kind::kMoved, Kind::kLocalHeard});
  EXPECT_EQ(h1_->Behind(kB), h1_->local_vport(0));
}

// The operator has decided; agents need not.
TEST_F(ForwarderPuntTest, AStaticMacThatIsHeardElsewhereIsNotReported) {
  MakeHosts();
  ASSERT_TRUE(h1_->fdb()->AddStatic(kKeyB, two_).ok());
  Say(p1_, kB);
  Say(p3_, kB);
  EXPECT_EQ(h1_->fdb()->counters().overruled, 2u);
  ExpectNone({Kind::kLocalHeard, Kind::kLocalLearned, Kind::kContested, Kind::kMoved});
}

TEST_F(ForwarderPuntTest, AnImpostorIsNotReported) {
  MakeHosts();
  h1_->AddPort("pinned", {}, /*pinned=*/kB);
  Say(p1_, kB);
  Say(p2_, kB);
  EXPECT_EQ(h1_->dropped(DropReason::kPinnedMac), 2u);
  ExpectNone({Kind::kLocalHeard, Kind::kLocalLearned, Kind::kContested, Kind::kMoved});
}

// ---- Who sends to the wrong host ----------------------------------------------------------------

// h1 gets unicast datagrams for B from h2, which believes that B is there.
class NotBehindTest : public ForwarderPuntTest {
 protected:
  void SetUp() override {
    MakeHosts();
    ASSERT_TRUE(h2_->fdb()->AddStatic(kKeyB, h2_->Know(*h1_)).ok());
  }
  void Send() {
    p2_->Inject(MakeFrame(kB, kA));
    Settle();
  }
  void ExpectReport() {
    const std::vector<Punt> punts = h1_->TakePunts(Kind::kNotBehind);
    ASSERT_THAT(punts, SizeIs(1));
    EXPECT_EQ(punts[0].key, kKeyB);
    EXPECT_EQ(punts[0].peer, h2_->address());
  }
};

TEST_F(NotBehindTest, UnicastForAnUnknownMacIsReportedAndFlooded) {
  Send();
  ExpectReport();
  EXPECT_THAT(Frames(p1_), SizeIs(1)) << "a silent station may have it";
  EXPECT_THAT(Frames(p3_), IsEmpty());
}

TEST_F(NotBehindTest, UnicastForAMacBehindAnotherAgentIsReportedAndDropped) {
  h1_->fdb()->Announce(kKeyB, three_);
  Send();
  ExpectReport();
  EXPECT_EQ(h1_->dropped(DropReason::kFabricToFabric), 1u);
  EXPECT_THAT(Frames(p1_), IsEmpty());
}

TEST_F(NotBehindTest, UnicastForAMacBehindAVPortThatIsGoneIsReported) {
  h1_->fdb()->Announce(kKeyB, three_);
  h1_->directory()->Remove(three_);
  Send();
  ExpectReport();
  EXPECT_THAT(Frames(p1_), SizeIs(1));
}

TEST_F(NotBehindTest, UnicastForAMacBehindThisHostIsNotReported) {
  Say(p1_, kB);
  Send();
  ExpectNone({Kind::kNotBehind});
}

TEST_F(NotBehindTest, AFloodIsNotReported) {
  p2_->Inject(MakeFrame(kC, kA));  // unknown at h2
  p2_->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  h1_->fdb()->Announce(FdbKey(Vid(0), Mac(1)), three_);
  p2_->Inject(MakeFrame(Mac(1), kA));  // unknown at h2, elsewhere for h1
  Settle();
  EXPECT_EQ(h1_->counters().from_fabric.value(), 3u);
  ExpectNone({Kind::kNotBehind});
}

TEST_F(NotBehindTest, AGroupAddressInAUnicastDatagramIsNotReported) {
  Bytes datagram = {0xc0, 0, 0, 0};
  const Bytes frame = MakeFrame(MacAddr::Broadcast(), kA);
  datagram.insert(datagram.end(), frame.begin(), frame.end());
  h2_->SendRawTo(*h1_, datagram);
  Settle();
  EXPECT_THAT(Frames(p1_), SizeIs(1));
  ExpectNone({Kind::kNotBehind});
}

TEST_F(NotBehindTest, AFrameFromAPortIsNotReported) {
  p1_->Inject(MakeFrame(kB, kA));
  h1_->fdb()->Announce(FdbKey(Vid(0), Mac(1)), three_);
  p1_->Inject(MakeFrame(Mac(1), kA));
  Settle();
  ExpectNone({Kind::kNotBehind});
}

// ---- Rate limits --------------------------------------------------------------------------------

TEST_F(NotBehindTest, ReportsOfUnicastAreRateLimited) {
  for (int second = 0; second < 2; ++second) {
    for (int i = 0; i < 300; ++i) Send();
    EXPECT_EQ(Count(Kind::kNotBehind), 100u);
    clock_.Advance(absl::Seconds(1));
  }
  EXPECT_EQ(h1_->counters().punts_lost.value(), 0u);
}

struct LimitRow {
  const char* description;
  Kind kind;
  size_t burst;  // available again after a second
  std::function<void(MacAddr)> cause;
};

// Control does not take any meanwhile: the bursts of all kinds fit the queue.
TEST_F(ForwarderPuntTest, EachKindIsRateLimitedByItself) {
  MakeHosts({.fdb_limit = 16384});
  const auto announce = [this](MacAddr mac) { h1_->fdb()->Announce(FdbKey(Vid(0), mac), two_); };
  const auto say = [this](TestPort* port, MacAddr mac) {
    port->Inject(MakeFrame(MacAddr::Broadcast(), mac));
    for (Host* host : {h2_, h3_, h1_}) host->Turn();
    for (TestPort* each : {p1_, p1b_, p2_, p3_}) each->TakeTransmitted();
  };
  const LimitRow rows[] = {
      {"learned here", Kind::kLocalLearned, 512, [&](MacAddr mac) { say(p1_, mac); }},
      {"announced, heard here", Kind::kLocalHeard, 256,
       [&](MacAddr mac) { announce(mac), say(p1_, mac); }},
      {"announced, heard from a peer", Kind::kContested, 100,
       [&](MacAddr mac) { announce(mac), say(p3_, mac); }},
      {"moved", Kind::kMoved, 10, [&](MacAddr mac) { say(p2_, mac), say(p3_, mac); }},
  };
  uint64_t next = 0;
  for (int second = 0; second < 2; ++second) {
    for (const LimitRow& row : rows) {
      for (size_t i = 0; i < row.burst + 50; ++i) row.cause(Mac(++next));
    }
    for (const LimitRow& row : rows) EXPECT_EQ(Count(row.kind), row.burst) << row.description;
    clock_.Advance(absl::Seconds(1));
  }
  EXPECT_EQ(h1_->counters().punts_lost.value(), 0u);
  Settle();
}

}  // namespace
}  // namespace eoib
