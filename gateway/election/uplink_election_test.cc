#include "gateway/election/uplink_election.h"

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace eoib::gateway {
namespace {

constexpr Vid kVlan(10);
constexpr uint64_t kFirst = 1'000'000'000;  // sequence

// Gateways that hear each other at once, in steps of a millisecond.
class UplinkElectionTest : public testing::Test {
 protected:
  struct Gateway {
    std::unique_ptr<UplinkElection> election;
    Gid gid;
    bool runs = true;    // false: stopped (SIGSTOP) or dead
    bool heard = true;   // by the others
    bool in_ves = true;  // false: only on the wire
  };

  size_t Add(uint8_t priority = 100, VlanSet vlans = One()) {
    Gateway gateway;
    gateway.gid = *Gid::Parse("fe80::" + std::to_string(gateways_.size() + 1));
    gateway.election = std::make_unique<UplinkElection>(
        UplinkElection::Options{PKey(0x8001), "up0", priority, vlans, kFirst});
    gateway.election->Up(gateway.gid, /*alone=*/false, now_);
    gateways_.push_back(std::move(gateway));
    return gateways_.size() - 1;
  }
  static VlanSet One() {
    VlanSet set;
    set.Add(kVlan);
    return set;
  }
  void Deliver(size_t from, const std::vector<UplinkHello>& hellos) {
    for (size_t to = 0; to < gateways_.size() && gateways_[from].heard; ++to) {
      if (to == from || !gateways_[to].runs || !gateways_[to].heard) continue;
      for (const UplinkHello& hello : hellos) {
        if (gateways_[from].in_ves && gateways_[to].in_ves)
          gateways_[to].election->OnHello(hello, now_);
        gateways_[to].election->OnWireHello(hello, now_);
      }
    }
  }
  // A station of the wire sends a hello in the name of a gateway.
  UplinkHello Forged(size_t name, UplinkHello::Claim claim) const {
    UplinkHello hello;
    hello.from = gateways_[name].gid;
    hello.priority = 255;
    hello.sequence = UINT64_MAX;
    hello.runs = {{kVlan, kVlan, claim}};
    return hello;
  }
  void Forge(const UplinkHello& hello) {
    for (const Gateway& gateway : gateways_) gateway.election->OnWireHello(hello, now_);
  }
  void Pass(int milliseconds) {
    for (int i = 0; i < milliseconds; ++i) {
      now_ += absl::Milliseconds(1);
      for (size_t one = 0; one < gateways_.size(); ++one) {
        UplinkElection& election = *gateways_[one].election;
        if (gateways_[one].runs && now_ >= election.NextDeadline())
          Deliver(one, election.Run(now_));
      }
    }
  }
  // May it forward now?
  bool Forwards(size_t i, Vid vid = kVlan) {
    return gateways_[i].runs && gateways_[i].election->active(vid) &&
           now_ < gateways_[i].election->lease();
  }
  int Forwarding(Vid vid = kVlan) {
    int count = 0;
    for (size_t i = 0; i < gateways_.size(); ++i) count += Forwards(i, vid);
    return count;
  }
  // Milliseconds until gateway `i` forwards; at most `most`.
  int Until(size_t i, int most) {
    int passed = 0;
    for (; passed < most && !Forwards(i); ++passed) Pass(1);
    return passed;
  }

  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  std::vector<Gateway> gateways_;
};

TEST_F(UplinkElectionTest, OneThatIsAloneForwardsAtOnceAndForEver) {
  UplinkElection election({PKey(0x8001), "up0", 100, VlanSet::All(), 1});
  election.Up(*Gid::Parse("fe80::1"), /*alone=*/true, now_);
  EXPECT_EQ(election.In(UplinkElection::State::kActive), VlanSet::All());
  EXPECT_EQ(election.lease(), absl::InfiniteFuture());
  EXPECT_EQ(election.NextDeadline(), absl::InfiniteFuture());
  EXPECT_TRUE(election.Down(now_).empty());
  EXPECT_TRUE(election.In(UplinkElection::State::kActive).empty());
}

TEST_F(UplinkElectionTest, TheBetterOfTwoThatStartTogetherBecomesActive) {
  Add(100), Add(200);
  Pass(2000);
  EXPECT_FALSE(Forwards(0));
  EXPECT_TRUE(Forwards(1));
  EXPECT_EQ(gateways_[0].election->ActiveIn(kVlan), gateways_[1].gid);
}

TEST_F(UplinkElectionTest, ABetterOneThatComesLaterStandsBy) {
  Add(100);
  Pass(2000);
  Add(200);
  Pass(2000);
  EXPECT_TRUE(Forwards(0));
  EXPECT_FALSE(Forwards(1));
}

TEST_F(UplinkElectionTest, AnotherForwardsWithinASecondOfAKill) {
  Add(200), Add(100), Add(100);
  Pass(2000);
  ASSERT_TRUE(Forwards(0));
  for (int phase = 0; phase < 110; phase += 7) {
    gateways_[0].runs = true;
    Pass(3000 + phase);
    ASSERT_EQ(Forwarding(), 1);
    const size_t active = Forwards(0) ? 0 : Forwards(1) ? 1 : 2;
    gateways_[active].runs = false;
    int passed = 0;
    for (; Forwarding() == 0 && passed < 2000; ++passed) Pass(1);
    EXPECT_LE(passed, 700);
    EXPECT_EQ(Forwarding(), 1);
    gateways_[active].runs = true;
  }
}

TEST_F(UplinkElectionTest, TheSuccessorForwardsAMomentAfterAnOrderlyStop) {
  Add(200), Add(100), Add(150);
  Pass(2000);
  ASSERT_TRUE(Forwards(0));
  const std::vector<UplinkHello> released = gateways_[0].election->Down(now_);
  EXPECT_EQ(Forwarding(), 0);
  Deliver(0, released);
  EXPECT_LE(Until(2, 1000), 25) << "the better of the two";
  Pass(2000);
  EXPECT_EQ(Forwarding(), 1);
}

TEST_F(UplinkElectionTest, AStoppedGatewayDoesNotForwardWhenItGoesOn) {
  Add(200), Add(100);
  Pass(2000);
  ASSERT_TRUE(Forwards(0));
  gateways_[0].runs = false;
  Pass(500);
  gateways_[0].runs = true;
  EXPECT_FALSE(Forwards(0)) << "its lease is over, before it has heard or said anything";
  gateways_[0].runs = false;
  Pass(1000);
  EXPECT_TRUE(Forwards(1));
  gateways_[0].runs = true;
  for (int i = 0; i < 3000; ++i) {
    Pass(1);
    ASSERT_EQ(Forwarding(), 1) << i;
  }
  EXPECT_TRUE(Forwards(1));
}

TEST_F(UplinkElectionTest, AfterAPartitionTheWorseOneStopsWithinAHelloInterval) {
  Add(100), Add(200);
  Pass(2000);
  gateways_[0].heard = false;
  Pass(2000);
  ASSERT_EQ(Forwarding(), 2);
  gateways_[0].heard = true;
  Pass(101);
  EXPECT_TRUE(Forwards(1));
  EXPECT_EQ(Forwarding(), 1);
}

TEST_F(UplinkElectionTest, GatewaysOfOnePriorityShareTheVlans) {
  Add(100, VlanSet::All()), Add(100, VlanSet::All());
  Pass(2000);
  int of_first = 0;
  for (uint16_t vid = 0; vid <= Vid::kMax; ++vid) {
    ASSERT_EQ(Forwarding(Vid(vid)), 1) << vid;
    of_first += Forwards(0, Vid(vid));
  }
  EXPECT_GT(of_first, 1800);
  EXPECT_LT(of_first, 2300);
  gateways_[0].runs = false;
  Pass(1000);
  EXPECT_EQ(gateways_[1].election->In(UplinkElection::State::kActive), VlanSet::All());
}

TEST_F(UplinkElectionTest, OldHellosHaveNoEffect) {
  Add(200), Add(100);
  Pass(2000);
  UplinkHello old;
  old.from = gateways_[0].gid;
  old.priority = 200;
  old.sequence = gateways_[1].election->peers().at(old.from).sequence;
  old.runs = {{kVlan, kVlan, UplinkHello::Claim::kActive}};
  Deliver(0, gateways_[0].election->Down(now_));
  Pass(10);
  gateways_[1].election->OnHello(old, now_);
  EXPECT_LE(Until(1, 1000), 25) << "it came late, perhaps over the other side";
}

// In a partition, two gateways may be active that both hear a third one.
TEST_F(UplinkElectionTest, ASuccessorStandsByWhileAnotherGatewayIsActive) {
  Add(200), Add(100);
  Pass(2000);
  UplinkHello third;
  third.from = *Gid::Parse("fe80::3");
  third.sequence = kFirst;
  third.runs = {{kVlan, kVlan, UplinkHello::Claim::kActive}};
  gateways_[1].election->OnHello(third, now_);
  Deliver(0, gateways_[0].election->Down(now_));
  EXPECT_EQ(gateways_[1].election->StateOf(kVlan), UplinkElection::State::kStandby);
  EXPECT_EQ(gateways_[1].election->ActiveIn(kVlan), third.from);
}

TEST_F(UplinkElectionTest, ARestartedGatewayWhoseClockWasSetBackIsHeard) {
  Add(100);
  Add(200);
  Pass(2000);
  ASSERT_TRUE(Forwards(1));
  gateways_[1].election =
      std::make_unique<UplinkElection>(UplinkElection::Options{PKey(0x8001), "up0", 200, One(), 0});
  gateways_[1].election->Up(gateways_[1].gid, /*alone=*/false, now_);
  Pass(4000);
  EXPECT_TRUE(Forwards(0));
  EXPECT_EQ(Forwarding(), 1);
  EXPECT_LT(gateways_[0].election->peers().at(gateways_[1].gid).sequence, 100u);
}

// ---- A station of the wire sends hellos in the names of gateways

TEST_F(UplinkElectionTest, AForgedHelloOnTheWireHidesNoneOfTheVes) {
  Add(200), Add(100);
  Pass(2000);
  for (int i = 0; i < 60'000; ++i) {
    if (i % 500 == 0) Forge(Forged(i / 500 % 2, UplinkHello::Claim::kListening));
    Pass(1);
    ASSERT_EQ(Forwarding(), 1) << i;
  }
  EXPECT_TRUE(Forwards(0));
}

TEST_F(UplinkElectionTest, AForgedHelloOnTheWireHidesNoneThere) {
  Add(200), Add(100);
  Pass(2000);
  gateways_[1].in_ves = false;
  for (int i = 0; i < 60'000; ++i) {
    if (i % 50 == 0) Forge(Forged(i / 50 % 2, UplinkHello::Claim::kNone));
    Pass(1);
    ASSERT_EQ(Forwarding(), 1) << i;
  }
  EXPECT_TRUE(Forwards(0));
}

TEST_F(UplinkElectionTest, AReleaseOnTheWireMakesNoSuccessor) {
  Add(200), Add(100);
  Pass(2000);
  UplinkHello release = Forged(0, UplinkHello::Claim::kRelease);
  release.successor = gateways_[1].gid;
  Forge(release);
  for (int i = 0; i < 1000; ++i) {
    Pass(1);
    ASSERT_TRUE(Forwards(0)) << i;
    ASSERT_FALSE(Forwards(1)) << i;
  }
}

TEST_F(UplinkElectionTest, AHelloOnTheWireDoesNotChangeWhatIsKnownOfAPeer) {
  Add(200), Add(100);
  Pass(2000);
  const UplinkElection& election = *gateways_[1].election;
  UplinkHello forged = Forged(0, UplinkHello::Claim::kNone);
  forged.uplink = "another";
  Forge(forged);
  Pass(5);
  const UplinkElection::Peer& peer = election.peers().at(gateways_[0].gid);
  EXPECT_EQ(peer.uplink, "up0");
  EXPECT_EQ(peer.priority, 200);
  EXPECT_LT(peer.sequence, UINT64_MAX);
  EXPECT_EQ(peer.claims[kVlan.value()], UplinkHello::Claim::kActive);
  forged.from = *Gid::Parse("fe80::99");
  Forge(forged);
  Pass(5);
  EXPECT_EQ(election.peers().size(), 1u) << "it was never heard through the VES";
}

TEST_F(UplinkElectionTest, AStationOfTheWireCanMakeAGatewayStandByAndNoMore) {
  Add(200), Add(100);
  Pass(2000);
  for (int i = 0; i < 10'000; ++i) {
    if (i % 100 == 0) Forge(Forged(1, UplinkHello::Claim::kActive));
    Pass(1);
    ASSERT_LE(Forwarding(), 1) << i;
    ASSERT_FALSE(Forwards(0)) << i;
  }
  Pass(2000);
  EXPECT_EQ(Forwarding(), 1);
}

TEST_F(UplinkElectionTest, AForgedHelloDoesNotEndTheListeningEarly) {
  Add(100);
  UplinkHello forged = Forged(0, UplinkHello::Claim::kActive);
  forged.from = *Gid::Parse("fe80::2");
  Forge(forged);
  const absl::Duration listens = UplinkElection::kListen + UplinkElection::kClaim;
  EXPECT_GE(Until(0, 5000), absl::ToInt64Milliseconds(listens));
}

TEST_F(UplinkElectionTest, AFloodOnTheWireCausesFewHellos) {
  Add(200), Add(100);
  Pass(2000);
  UplinkElection& election = *gateways_[0].election;
  UplinkHello candidate = Forged(1, UplinkHello::Claim::kCandidate);
  candidate.priority = 1;
  int runs = 0, hellos = 0;
  for (int i = 0; i < 10'000; ++i) {  // a second
    now_ += absl::Microseconds(100);
    candidate.sequence = kFirst + 1'000'000 + static_cast<uint64_t>(i);
    election.OnWireHello(candidate, now_);
    if (now_ < election.NextDeadline()) continue;
    ++runs;
    hellos += static_cast<int>(election.Run(now_).size());
  }
  EXPECT_TRUE(Forwards(0));
  EXPECT_LE(hellos, absl::Seconds(1) / UplinkElection::kMinInterval + 1);
  EXPECT_LE(runs, 2 * (absl::Seconds(1) / UplinkElection::kMinInterval) + 2);
}

TEST_F(UplinkElectionTest, GatewaysThatHearEachOtherOnTheWireOnlyElectOne) {
  Add(200), Add(100);
  gateways_[0].in_ves = false;
  Pass(2000);
  ASSERT_TRUE(Forwards(0));
  ASSERT_EQ(Forwarding(), 1);
  gateways_[0].runs = false;
  EXPECT_LE(Until(1, 2000), 700);
}

// Each VLAN is a run of its own.
TEST_F(UplinkElectionTest, HellosOfManyRunsCanBeDecoded) {
  UplinkElection election({PKey(0x8001), "up0", 100, VlanSet::All(), 1});
  election.Up(*Gid::Parse("fe80::1"), /*alone=*/false, now_);
  for (absl::Time end = now_ + absl::Seconds(1); now_ < end; now_ += absl::Milliseconds(10))
    election.Run(now_);
  ASSERT_EQ(election.In(UplinkElection::State::kActive), VlanSet::All());
  UplinkHello other;
  other.from = *Gid::Parse("fe80::2");
  other.priority = 255;
  for (uint16_t vid = 0; vid <= Vid::kMax; vid += 2) {
    other.sequence = vid + 1u;
    other.runs = {{Vid(vid), Vid(vid), UplinkHello::Claim::kActive}};
    election.OnHello(other, now_);
  }
  std::vector<UplinkHello> hellos = election.Run(now_);
  for (UplinkHello& hello : election.Down(now_)) hellos.push_back(std::move(hello));
  EXPECT_GT(hellos.size(), 4095u / UplinkHello::kMaxRuns);
  for (const UplinkHello& hello : hellos)
    EXPECT_EQ(DecodeUplinkHello(EncodeUplinkHello(hello)), hello);
}

}  // namespace
}  // namespace eoib::gateway
