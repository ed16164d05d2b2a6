#include "gateway/election/election.h"

#include <map>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace eoib::gateway {
namespace {

using State = Election::State;
using Claim = Election::Claim;

Election::Rank RankOf(int number, uint8_t priority = 100) {
  return {priority,
          IpoibAddress(Qpn(0x100), Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(number)))};
}

// Gateways on a link that can lose and delay their hellos.
class SimulatedGateways {
 public:
  Election& Start(int number, uint8_t priority = 100) {
    Election& election = elections_[number];
    election.OnLinkUp(RankOf(number, priority), now_);
    return election;
  }
  Election& operator[](int number) { return elections_.at(number); }
  void Kill(int number) { elections_.erase(number); }
  // One of this number of hellos is lost at random.
  void Lose(double share) { lost_ = share; }
  void Part(int number, bool parted) { parted_[number] = parted; }

  void Pass(absl::Duration time) {
    for (const absl::Time end = now_ + time; now_ < end;) {
      now_ += absl::Milliseconds(10);
      std::vector<std::pair<int, Election::Hello>> said;
      for (auto& [number, election] : elections_) {
        if (const auto hello = election.Run(now_)) said.emplace_back(number, *hello);
        said_[number] += !said.empty() && said.back().first == number;
      }
      for (const auto& [from, hello] : said) Deliver(from, hello);
      most_active_ = std::max(most_active_, Active());
    }
  }
  int Active() const {
    int active = 0;
    for (const auto& [number, election] : elections_) active += election.active();
    return active;
  }
  int most_active() const { return most_active_; }
  // The number of hellos since the last call.
  int TakeSaid(int number) { return std::exchange(said_[number], 0); }
  std::mt19937 random{std::random_device()()};

 private:
  void Deliver(int from, const Election::Hello& hello) {
    for (auto& [number, election] : elections_) {
      if (parted_[number] != parted_[from] || std::generate_canonical<double, 32>(random) < lost_)
        continue;
      election.OnHello(hello, now_);
    }
  }

  absl::Time now_ = absl::UnixEpoch();
  std::map<int, Election> elections_;
  std::map<int, bool> parted_;
  std::map<int, int> said_;
  double lost_ = 0;
  int most_active_ = 0;
};

TEST(ElectionTest, OneAloneWorksAfterHavingListened) {
  SimulatedGateways gateways;
  Election& one = gateways.Start(1);
  EXPECT_EQ(one.state(), State::kListening);
  gateways.Pass(Election::kSilence);
  EXPECT_EQ(one.state(), State::kCandidate);
  gateways.Pass(Election::kClaim);
  EXPECT_EQ(one.state(), State::kActive);
  gateways.Pass(absl::Seconds(10));
  EXPECT_TRUE(one.active());
}

TEST(ElectionTest, ABetterGatewayThatComesLaterStandsBy) {
  SimulatedGateways gateways;
  gateways.Start(2);
  gateways.Pass(absl::Seconds(3));
  gateways.Start(1, 200);
  gateways.Pass(absl::Seconds(10));
  EXPECT_TRUE(gateways[2].active());
  EXPECT_EQ(gateways[1].state(), State::kStandby);
  EXPECT_EQ(gateways[1].other(), RankOf(2));
  EXPECT_EQ(gateways.most_active(), 1);
}

TEST(ElectionTest, TheBestOfManyThatStartAtOnceBecomesActive) {
  SimulatedGateways gateways;
  for (int i = 1; i <= 5; ++i) gateways.Start(i, i == 3 ? 101 : 100);
  gateways.Pass(absl::Seconds(5));
  EXPECT_TRUE(gateways[3].active()) << "has the highest priority";
  EXPECT_EQ(gateways.most_active(), 1);
  gateways.Kill(3);
  gateways.Pass(Election::kSilence + Election::kClaim + absl::Milliseconds(300));
  EXPECT_TRUE(gateways[1].active()) << "has the lowest GID";
  EXPECT_EQ(gateways.most_active(), 1);
}

// It takes the time of one hello. The two gateways heard each other until they were parted.
TEST(ElectionTest, TwoThatCouldNotHearEachOtherFindOutAtOnce) {
  SimulatedGateways gateways;
  gateways.Start(1);
  gateways.Start(2);
  gateways.Pass(absl::Seconds(3));
  gateways.Part(2, true);
  gateways.Pass(absl::Seconds(3));
  EXPECT_EQ(gateways.Active(), 2);
  gateways.Part(2, false);
  gateways.Pass(Election::kInterval);
  EXPECT_TRUE(gateways[1].active());
  EXPECT_EQ(gateways[2].state(), State::kStandby);
}

TEST(ElectionTest, TwoThatNeverHeardEachOtherFindOutWithTheFirstHello) {
  SimulatedGateways gateways;
  gateways.Part(2, true);
  gateways.Start(1);
  gateways.Start(2);
  gateways.Pass(absl::Seconds(3));
  EXPECT_EQ(gateways.Active(), 2);
  gateways.Part(2, false);
  gateways.Pass(Election::kSlowInterval);
  EXPECT_TRUE(gateways[1].active());
  EXPECT_EQ(gateways[2].state(), State::kStandby);
}

TEST(ElectionTest, OneAloneSaysHelloOnceASecond) {
  SimulatedGateways gateways;
  gateways.Start(1);
  gateways.Pass(absl::Seconds(3));
  gateways.TakeSaid(1);
  gateways.Pass(absl::Seconds(10));
  EXPECT_EQ(gateways.TakeSaid(1), 10);
  // Once another gateway is heard, it says hello at once and five times a second, until that has
  // been silent for 10 s.
  gateways.Start(2);
  gateways.Pass(absl::Milliseconds(20));
  EXPECT_EQ(gateways.TakeSaid(1), 1);
  EXPECT_EQ(gateways[2].state(), State::kStandby);
  gateways.TakeSaid(2);
  gateways.Pass(absl::Seconds(20));
  EXPECT_EQ(gateways.TakeSaid(1), 100);
  EXPECT_EQ(gateways.TakeSaid(2), 20) << "one that stands by says that it is there";
  EXPECT_EQ(gateways[2].state(), State::kStandby);
  gateways.Kill(2);
  gateways.Pass(Election::kCompany);
  gateways.TakeSaid(1);
  gateways.Pass(absl::Seconds(10));
  EXPECT_EQ(gateways.TakeSaid(1), 10);
}

// At whatever time between two hellos of the lonely gateway it starts.
TEST(ElectionTest, OneThatStartsFindsTheOneThatIsAlone) {
  for (int offset = 0; offset < 1000; offset += 10) {
    SCOPED_TRACE(absl::StrCat("after ", offset, " ms"));
    SimulatedGateways gateways;
    gateways.Start(2);
    gateways.Pass(absl::Seconds(3) + absl::Milliseconds(offset));
    gateways.Start(1, 200);
    gateways.Pass(Election::kSilence);
    EXPECT_EQ(gateways[1].state(), State::kStandby);
    EXPECT_EQ(gateways[1].other(), RankOf(2));
    EXPECT_EQ(gateways.most_active(), 1);
  }
}

// The better gateway does not become a candidate: it stands by because it hears an active one.
TEST(ElectionTest, AHelloWithoutAClaimChangesNoState) {
  Election election;
  election.OnLinkUp(RankOf(2), absl::UnixEpoch());
  absl::Time now = absl::UnixEpoch();
  for (; !election.active(); now += absl::Milliseconds(10)) {
    election.Run(now);
    election.OnHello({RankOf(1), Claim::kNone}, now);
    ASSERT_LT(now, absl::UnixEpoch() + absl::Seconds(2));
  }
  EXPECT_LE(now,
            absl::UnixEpoch() + Election::kSilence + Election::kClaim + absl::Milliseconds(20));
}

TEST(ElectionTest, WithoutALinkThereIsNothingToDo) {
  SimulatedGateways gateways;
  gateways.Start(1);
  gateways.Pass(absl::Seconds(3));
  gateways[1].OnLinkDown();
  EXPECT_EQ(gateways[1].state(), State::kDown);
  gateways[1].OnHello({RankOf(2), Claim::kActive}, absl::UnixEpoch());
  EXPECT_EQ(gateways[1].NextDeadline(), absl::InfiniteFuture());
  gateways.Start(1);
  EXPECT_EQ(gateways[1].state(), State::kListening) << "others may work by now";
}

// Gateways come and go at random, and a fifth of the hellos is lost; at rest exactly one is active.
TEST(ElectionTest, ExactlyOneIsActiveAfterRandomEvents) {
  SimulatedGateways gateways;
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  gateways.random.seed(seed);
  for (int round = 0; round < 50; ++round) {
    gateways.Lose(0.2);
    for (int i = 1; i <= 4; ++i) {
      if (gateways.random() % 2 == 0)
        gateways.Start(i, static_cast<uint8_t>(gateways.random() % 3));
    }
    gateways.Start(5);
    gateways.Part(static_cast<int>(gateways.random() % 5), true);
    gateways.Pass(absl::Milliseconds(gateways.random() % 5000));
    for (int i = 0; i <= 5; ++i) gateways.Part(i, false);
    gateways.Lose(0);
    gateways.Pass(absl::Seconds(5));
    ASSERT_EQ(gateways.Active(), 1) << "round " << round;
    gateways.Kill(static_cast<int>(1 + gateways.random() % 4));
  }
}

}  // namespace
}  // namespace eoib::gateway
