// Claims of configured MACs: who holds one that two agents have, and what the loser does. One
// scenario each.
#include <algorithm>
#include <utility>

#include "control/protocol/vport_protocol_test_fixture.h"

namespace eoib {
namespace {

class ConfiguredClaimsTest : public VPortProtocolTest {
 protected:
  // Adds hosts that do not run yet, in the order of their ids.
  void AddHosts(size_t count) {
    for (size_t i = 0; i < count; ++i) simulation_.AddHost();
    std::vector<AgentId> ids;
    for (const auto& host : simulation_.hosts()) ids.push_back(host.id);
    std::sort(ids.begin(), ids.end());
    for (size_t i = 0; i < count; ++i) simulation_.hosts()[i].id = ids[i];
  }
  void StartSorted(size_t count) {
    AddHosts(count);
    for (size_t i = 0; i < count; ++i) simulation_.Start(i);
    simulation_.Advance(absl::Seconds(2));
  }
  void StartWithMac(size_t host) {
    simulation_.Start(host);
    ClaimConfigured(host, Key(1));
  }
  ClaimStage StageAt(size_t host) { return engine(host).own().current().macs.at(Key(1)).stage; }
  // Where `at` sends frames for the MAC; zero: it floods them, or has the MAC itself.
  AgentId HolderAt(size_t at) {
    return events(at).macs.contains(Key(1)) ? events(at).macs[Key(1)].agent : AgentId();
  }
  // `host` announces the MAC with a claim that no honest agent would make.
  void Lie(size_t host, const AnnouncedMac& claim) {
    VPortMessage lie = MessageFrom(host, VPortMessage::Kind::kAnnounce);
    lie.base = lie.version++;
    lie.macs = {claim};
    for (size_t to = 0; to < simulation_.hosts().size(); ++to) {
      if (to != host) Inject(to, lie, this->host(host).address);
    }
  }
};

TEST_F(ConfiguredClaimsTest, ANewClaimIsTentativeForASecondAndUsedAtOnce) {
  StartSorted(2);
  ClaimConfigured(0, Key(1));
  LetAnnounce();
  EXPECT_EQ(StageAt(0), ClaimStage::kTentative);
  EXPECT_EQ(HolderAt(1), host(0).id);
  simulation_.Advance(ClaimArbiter::kTentative);
  EXPECT_EQ(StageAt(0), ClaimStage::kEstablished);
  LetAnnounce();
  EXPECT_TRUE(events(1).macs[Key(1)].IsFixed());
}

TEST_F(ConfiguredClaimsTest, ClaimsBeforeTheFirstAddressAreTentativeForASecondAfterIt) {
  AddHosts(2);
  simulation_.Start(0);
  simulation_.Start(1);
  engine(0).SetAddresses({});
  ClaimConfigured(0, Key(1));
  simulation_.Advance(absl::Seconds(5));
  EXPECT_EQ(StageAt(0), ClaimStage::kTentative);
  engine(0).SetAddresses({{host(0).address, true}});
  simulation_.Touch(0);
  simulation_.Advance(absl::Milliseconds(999));
  EXPECT_EQ(StageAt(0), ClaimStage::kTentative);
  simulation_.Advance(absl::Milliseconds(2));
  EXPECT_EQ(StageAt(0), ClaimStage::kEstablished);
}

// Whoever has the lower id, and whatever the claim says.
TEST_F(ConfiguredClaimsTest, AHolderThatIsReachableLosesTheMacToNoClaim) {
  StartSorted(4);
  ClaimConfigured(1, Key(1));
  simulation_.Advance(absl::Seconds(2));
  for (const size_t liar : {size_t{0}, size_t{3}}) {
    for (const uint32_t sequence : {2u, 5000u, 0xffffffffu}) {
      for (const bool sticky : {false, true}) {
        Lie(liar, {Key(1), 1, sequence, sticky});
        for (int i = 0; i < 120; ++i) {
          simulation_.Advance(absl::Milliseconds(i < 60 ? 10 : 1000));
          for (const size_t third : {size_t{0}, size_t{2}, size_t{3}}) {
            if (third == liar) continue;
            ASSERT_EQ(HolderAt(third), host(1).id) << liar << " " << sequence << " " << sticky;
          }
          ASSERT_EQ(HolderAt(1), AgentId()) << "its own frames stay here";
        }
      }
    }
  }
  EXPECT_EQ(StageAt(1), ClaimStage::kEstablished);
}

// Frames with the MAC as their source come from elsewhere, and questions to the holder are lost.
// Its claim ends if it cannot be reached, not before.
TEST_F(ConfiguredClaimsTest, AnEstablishedClaimDoesNotEndBecauseAQuestionIsLost) {
  StartSorted(2);
  ClaimConfigured(0, Key(1));
  simulation_.Advance(absl::Seconds(2));
  simulation_.network().loss = 1;
  engine(1).Contest(Key(1));
  simulation_.Touch(1);
  simulation_.Advance(absl::Milliseconds(900));
  simulation_.network().loss = 0;
  simulation_.Advance(absl::Seconds(5));
  EXPECT_EQ(HolderAt(1), host(0).id);
  simulation_.Crash(0);
  engine(1).Contest(Key(1));
  simulation_.Touch(1);
  simulation_.Advance(RemoteAgent::kLostAfter + absl::Milliseconds(1));
  EXPECT_EQ(HolderAt(1), AgentId());
}

// A clone with a copied state directory, or a mistyped MAC. Host 1 holds the MAC, 0 or 2 is the
// clone, 3 and 4 look on.
TEST_F(ConfiguredClaimsTest, ACloneThatStartsLaterNeverTakesTheMac) {
  AddHosts(5);
  for (size_t round = 0; round < 60; ++round) {
    simulation_.network() = {0.05, 0.02, absl::Microseconds(50), absl::Milliseconds(5)};
    for (const size_t host : {3, 4}) simulation_.Start(host);
    StartWithMac(1);
    const auto all_know = [&] {
      return events(3).macs[Key(1)].IsFixed() && events(4).macs[Key(1)].IsFixed();
    };
    ASSERT_TRUE(simulation_.AdvanceUntil(all_know, absl::Minutes(3)));
    simulation_.Advance(absl::Seconds(round % 3 + 1));
    const size_t clone = round % 2 == 0 ? 0 : 2;
    StartWithMac(clone);
    for (int i = 0; i < 2000; ++i) {
      simulation_.Advance(absl::Milliseconds(i < 1500 ? 2 : 200));
      for (const size_t third : {3, 4})
        ASSERT_EQ(HolderAt(third), host(1).id) << "round " << round << " step " << i;
      ASSERT_EQ(HolderAt(1), AgentId());
    }
    EXPECT_EQ(StageAt(1), ClaimStage::kEstablished) << "round " << round;
    EXPECT_EQ(StageAt(clone), ClaimStage::kStandby) << "round " << round;
    for (const size_t host : {size_t{1}, size_t{3}, size_t{4}, clone}) simulation_.Crash(host);
  }
}

TEST_F(ConfiguredClaimsTest, OfTwoAgentsThatStartTogetherTheLowerIdHolds) {
  AddHosts(4);
  StartWithMac(1);
  StartWithMac(0);
  simulation_.Start(2);
  simulation_.Start(3);
  simulation_.Advance(absl::Milliseconds(100));
  for (const size_t third : {2, 3}) EXPECT_EQ(HolderAt(third), host(0).id);
  simulation_.Advance(absl::Seconds(3));
  for (const size_t third : {2, 3}) EXPECT_EQ(HolderAt(third), host(0).id);
  EXPECT_EQ(StageAt(0), ClaimStage::kEstablished);
  EXPECT_EQ(StageAt(1), ClaimStage::kStandby);
}

// The newcomer does not hear the holder at first.
TEST_F(ConfiguredClaimsTest, ANewcomerThatHearsTheCloneFirstEndsWithTheHolder) {
  AddHosts(3);
  StartWithMac(1);
  simulation_.Advance(absl::Seconds(3));
  StartWithMac(0);
  simulation_.Advance(absl::Seconds(3));
  simulation_.hosts()[1].side = 1;
  simulation_.Start(2);
  simulation_.Advance(absl::Seconds(1));
  EXPECT_EQ(HolderAt(2), host(0).id) << "it is on standby, and no other claims the MAC";
  simulation_.hosts()[1].side = 0;
  simulation_.Advance(absl::Minutes(1));
  EXPECT_EQ(HolderAt(2), host(1).id);
}

TEST_F(ConfiguredClaimsTest, AHolderThatRestartsKeepsTheMac) {
  AddHosts(3);
  simulation_.Start(2);
  StartWithMac(1);
  simulation_.Advance(absl::Seconds(3));
  StartWithMac(0);
  simulation_.Advance(absl::Seconds(3));
  simulation_.Crash(1);
  StartWithMac(1);
  for (int i = 0; i < 3000; ++i) {
    simulation_.Advance(absl::Milliseconds(2));
    ASSERT_EQ(HolderAt(2), host(1).id) << i;
  }
  EXPECT_EQ(StageAt(1), ClaimStage::kEstablished);
}

TEST_F(ConfiguredClaimsTest, TheOneOnStandbyHoldsTheMacAsSoonAsTheHolderLeaves) {
  AddHosts(3);
  simulation_.Start(2);
  StartWithMac(0);
  simulation_.Advance(absl::Seconds(3));
  StartWithMac(1);
  simulation_.Advance(absl::Seconds(3));
  ASSERT_EQ(HolderAt(2), host(0).id);
  simulation_.Stop(0);
  simulation_.Advance(absl::Milliseconds(400));  // it stays silent
  EXPECT_EQ(HolderAt(2), host(1).id);
  simulation_.Advance(absl::Seconds(2));
  EXPECT_EQ(StageAt(1), ClaimStage::kEstablished);
  StartWithMac(0);
  simulation_.Advance(absl::Seconds(5));
  EXPECT_EQ(HolderAt(2), host(1).id) << "it was established when the other one returned";
}

TEST_F(ConfiguredClaimsTest, AConflictIsKnownAtBothEndsUntilItIsOver) {
  AddHosts(3);
  simulation_.Start(2);
  StartWithMac(0);
  simulation_.Advance(absl::Seconds(3));
  EXPECT_EQ(events(0).conflicts, 0);
  StartWithMac(1);
  simulation_.Advance(absl::Minutes(10));
  EXPECT_EQ(engine(0).conflicts().at(Key(1)).agent, host(1).id);
  EXPECT_EQ(engine(1).conflicts().at(Key(1)).agent, host(0).id);
  EXPECT_EQ(engine(0).counters().conflicts, 1u);
  EXPECT_EQ(engine(1).counters().conflicts, 1u);
  EXPECT_EQ(events(0).conflicts, 1);
  engine(1).Release(Key(1));
  simulation_.Touch(1);
  LetAnnounce();
  EXPECT_EQ(events(0).conflicts, 0);
  EXPECT_EQ(events(1).conflicts, 0);
  EXPECT_EQ(HolderAt(1), host(0).id);
}

// A station's MAC is configured elsewhere, later.
TEST_F(ConfiguredClaimsTest, AConfiguredMacDisplacesALearnedOne) {
  StartSorted(3);
  Claim(0, Key(1));
  LetAnnounce();
  ClaimConfigured(1, Key(1));
  LetAnnounce();
  EXPECT_EQ(HolderAt(2), host(1).id);
  EXPECT_EQ(HolderAt(0), host(1).id);
  EXPECT_EQ(HolderAt(1), AgentId());
  EXPECT_FALSE(engine(0).own().current().macs.contains(Key(1)));
}

// Two sides of a partition that never met.
class HealedPartitionTest : public ConfiguredClaimsTest {
 protected:
  // The first host of each side has the MAC. All ask the majority when the partition heals.
  void Heal(const std::vector<size_t>& first, const std::vector<size_t>& second) {
    AddHosts(first.size() + second.size());
    for (const size_t host : second) simulation_.hosts()[host].side = 1;
    for (const auto* side : {&first, &second}) {
      StartWithMac(side->front());
      for (const size_t host : *side) {
        if (host != side->front()) simulation_.Start(host);
      }
    }
    simulation_.Advance(absl::Seconds(5));
    for (const size_t host : second) simulation_.hosts()[host].side = 0;
    simulation_.Advance(absl::Minutes(3));
  }
  void ExpectHolder(size_t holder) {
    for (size_t at = 0; at < simulation_.hosts().size(); ++at) {
      const auto& macs = engine(at).own().current().macs;
      if (macs.contains(Key(1))) {
        EXPECT_EQ(StageAt(at), at == holder ? ClaimStage::kEstablished : ClaimStage::kStandby)
            << at;
      } else {
        EXPECT_EQ(HolderAt(at), host(holder).id) << at;
      }
    }
  }
};

TEST_F(HealedPartitionTest, TheLargerSideKeepsTheMac) {
  Heal({0, 2}, {1, 3, 4});
  ExpectHolder(1);
}

TEST_F(HealedPartitionTest, OfEqualSidesTheOneWithTheLowerIdKeepsIt) {
  Heal({1, 2}, {0, 3});
  ExpectHolder(0);
}

// The clone was cut off, took the MAC on its side, and yields when it hears the former holder
// again.
TEST_F(ConfiguredClaimsTest, AClaimYieldsToTheOneBehindWhichItStood) {
  AddHosts(3);
  simulation_.Start(2);
  StartWithMac(1);
  simulation_.Advance(absl::Seconds(3));
  StartWithMac(0);
  simulation_.Advance(absl::Seconds(3));
  simulation_.hosts()[0].side = 1;
  simulation_.Advance(AgentTable::kForget + absl::Minutes(1));
  EXPECT_EQ(StageAt(0), ClaimStage::kEstablished);
  simulation_.hosts()[0].side = 0;
  for (int i = 0; i < 200; ++i) {
    simulation_.Advance(absl::Seconds(1));
    ASSERT_EQ(HolderAt(2), host(1).id);
  }
  EXPECT_EQ(StageAt(0), ClaimStage::kStandby);
}

}  // namespace
}  // namespace eoib
