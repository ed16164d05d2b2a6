// When a MAC moves too often, and where it is then held.
#include "fdb/move_damper.h"

#include <map>
#include <random>
#include <vector>

#include "fdb/fdb_key_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/seed_for_test.h"

namespace eoib {
namespace {

using ::testing::UnorderedElementsAre;
using Place = MoveDamper::Place;
using Verdict = MoveDamper::Verdict;

const Place kV{VPortId(1)}, kA1{VPortId(2)}, kA2{VPortId(3)}, kB{VPortId(4)};
const Place kPort{VPortId(5), /*local=*/true}, kOtherPort{VPortId(6), /*local=*/true};

class MoveDamperTest : public testing::Test {
 protected:
  // `key` starts at the first place and is then heard at the others in turn, one second apart.
  // Returns the last judgement.
  MoveDamper::Judgement Hear(FdbKey key, const std::vector<Place>& places) {
    MoveDamper::Judgement judged{};
    Place at = places[0];
    for (size_t i = 1; i < places.size(); ++i) {
      judged = damper_.OnMove(key, at, places[i], now_ += absl::Seconds(1));
      const bool goes_home = judged.verdict == Verdict::kHold || judged.verdict == Verdict::kFreeze;
      at = goes_home ? judged.home : places[i];
    }
    return judged;
  }
  void ExpectFrozen(const MoveDamper::Judgement& judged, Place home) {
    EXPECT_EQ(judged.verdict, Verdict::kFreeze);
    EXPECT_EQ(judged.home, home);
  }
  std::vector<VPortId> VPorts() const {
    std::vector<VPortId> vports;
    damper_.VisitVPorts(now_, [&vports](VPortId vport) { vports.push_back(vport); });
    return vports;
  }

  absl::Time now_ = absl::FromUnixSeconds(1000);
  MoveDamper damper_{MoveDamper::Options()};
};

// An attacker that makes many MACs move must not make the damper forget another MAC's moves.
TEST_F(MoveDamperTest, ForgetsMacsWithFewestMoves) {
  const auto now = [this] { return now_ += absl::Milliseconds(1); };
  for (int i = 0; i < 2; ++i) damper_.OnMove(Key(7), kV, kA1, now());
  for (int i = 0; i < 2; ++i) {
    for (uint64_t other = 100; other < 30'000; ++other) damper_.OnMove(Key(other), kA2, kB, now());
    damper_.OnMove(Key(7), kV, kA1, now());
  }
  ExpectFrozen(damper_.OnMove(Key(7), kA2, kA1, now()), kV);
}

// ---- Home ---------------------------------------------------------------------------------------

// Two attackers choose which of them has the MAC when its station speaks, so the origin of the
// fifth move proves nothing.
TEST_F(MoveDamperTest, MacFreezesAtItsHome) {
  ExpectFrozen(Hear(Key(1), {kV, kA1, kA2, kA1, kA2, kV}), kV);
  EXPECT_EQ(damper_.frozen().at(Key(1)).at, kV.vport);
  EXPECT_EQ(damper_.frozen().at(Key(1)).claimant, kA2.vport)
      << "and not its station, which took it back";
  ExpectFrozen(Hear(Key(2), {kV, kA1, kA2, kA1, kA2, kA1}), kV);
  EXPECT_EQ(damper_.frozen().at(Key(2)).claimant, kA1.vport);
  ExpectFrozen(Hear(Key(3), {kPort, kA1, kA2, kA1, kA2, kPort}), kPort);
  ExpectFrozen(Hear(Key(4), {kPort, kA1, kA2, kA1, kA2, kA1}), kPort);
}

TEST_F(MoveDamperTest, HomeIsWhereMacStayedAWholeWindow) {
  Hear(Key(1), {kV, kA1, kB});
  now_ += absl::Seconds(178);
  // B had it for a second less than the window.
  ExpectFrozen(Hear(Key(1), {kB, kA1, kA2, kA1, kA2, kA1}), kV);
  Hear(Key(2), {kV, kB});
  now_ += absl::Seconds(179);
  ExpectFrozen(Hear(Key(2), {kB, kA1, kA2, kA1, kA2, kA1}), kB);
}

// A move that is only reported must not change the home.
TEST_F(MoveDamperTest, WarningKeepsTheHome) {
  EXPECT_EQ(Hear(Key(1), {kV, kA1, kA2, kA1, kA2, kPort}).verdict, Verdict::kWarn)
      << "a local station speaks";
  ExpectFrozen(Hear(Key(1), {kPort, kA1, kA2, kA1, kA2, kA1}), kV);
}

TEST_F(MoveDamperTest, StationIsNotFrozenAwayFromItsOwnPort) {
  // An attacker spoke first.
  EXPECT_EQ(Hear(Key(1), {kA1, kPort, kA1, kPort, kA1, kPort}).verdict, Verdict::kWarn);
  EXPECT_EQ(Hear(Key(2), {kA1, kA2, kPort, kA1, kPort, kA1}).verdict, Verdict::kWarn);
  // The station moved to another port of this host; that move does not count.
  Hear(Key(3), {kPort, kA1});
  ExpectFrozen(Hear(Key(3), {kA1, kOtherPort, kA1, kA2, kA1}), kOtherPort);
  Hear(Key(4), {kPort, kA1, kPort});
  ExpectFrozen(Hear(Key(4), {kOtherPort, kA1, kA2, kA1}), kOtherPort);
}

TEST_F(MoveDamperTest, VPortThatLeftIsNoHome) {
  Hear(Key(1), {kV, kA1, kA2, kA1});
  damper_.ForgetHome(kV.vport);
  EXPECT_EQ(Hear(Key(1), {kA1, kA2, kA1, kA2, kA1}).verdict, Verdict::kMove)
      << "the count starts again";
  ExpectFrozen(Hear(Key(1), {kA1, kA2}), kA1);
}

TEST_F(MoveDamperTest, VisitsHomesAndClaimants) {
  Hear(Key(1), {kV, kB});
  Hear(Key(2), {kV, kA1, kA2, kA1, kA2, kV});
  EXPECT_THAT(VPorts(), UnorderedElementsAre(kV.vport, kA2.vport));
  now_ += absl::Seconds(200);
  EXPECT_THAT(VPorts(), UnorderedElementsAre(kA2.vport));
  damper_.Thaw(Key(2));
  EXPECT_THAT(VPorts(), UnorderedElementsAre());
}

// An agent that restarts comes back with another queue pair at the same port.
TEST(MoveDamperPortTest, MovesInsideAPortAreNotCounted) {
  const auto gid_of = [](VPortId vport) {
    return Gid::FromPrefixAndGuid(0, Guid(vport == kV.vport ? 1 : 2));
  };
  MoveDamper damper({.moves = 2}, gid_of);
  const absl::Time now = absl::FromUnixSeconds(1000);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(damper.OnMove(Key(1), kA1, kA2, now).verdict, Verdict::kMove);
  EXPECT_EQ(damper.OnMove(Key(1), kA1, kV, now).verdict, Verdict::kMove);
  EXPECT_EQ(damper.OnMove(Key(1), kV, kA2, now).verdict, Verdict::kFreeze);
}

// ---- How many -----------------------------------------------------------------------------------

TEST(MoveDamperLimitsTest, FrozenMacsAreLimited) {
  MoveDamper damper({.moves = 2, .most_frozen = 3});
  const absl::Time now = absl::FromUnixSeconds(1000);
  for (uint64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(damper.OnMove(Key(i), kV, kA1, now).verdict, Verdict::kMove);
    for (int more = 0; more < (i < 3 ? 1 : 9); ++more) {
      const MoveDamper::Judgement judged = damper.OnMove(Key(i), kA1, kV, now);
      EXPECT_EQ(judged.verdict, i < 3 ? Verdict::kFreeze : Verdict::kHold)
          << "it has to stay at home all the same";
      EXPECT_EQ(judged.home, kV);
    }
  }
  EXPECT_EQ(damper.Due(now + absl::Seconds(179)).size(), 0u);
  EXPECT_EQ(damper.Due(now + absl::Seconds(180)).size(), 3u);
  damper.Thaw(Key(0));
  EXPECT_EQ(damper.OnMove(Key(4), kA1, kV, now).verdict, Verdict::kFreeze) << "there is room again";
}

TEST(MoveDamperLimitsTest, OneClaimantGidHoldsSixtyFourFreezes) {
  // A1 and A2 are queue pairs of one port.
  MoveDamper damper({.moves = 2}, [](VPortId vport) {
    return Gid::FromPrefixAndGuid(0, Guid(vport == kA2.vport ? kA1.vport.value() : vport.value()));
  });
  const absl::Time now = absl::FromUnixSeconds(1000);
  const auto steal = [&](uint64_t mac, Place thief) {
    damper.OnMove(Key(mac), kV, thief, now);
    return damper.OnMove(Key(mac), thief, kV, now).verdict;
  };
  for (uint64_t mac = 0; mac < 64; ++mac)
    EXPECT_EQ(steal(mac, mac % 2 == 0 ? kA1 : kA2), Verdict::kFreeze) << mac;
  for (Place thief : {kA1, kA2}) EXPECT_EQ(steal(100 + thief.vport.value(), thief), Verdict::kHold);
  EXPECT_EQ(steal(200, kB), Verdict::kFreeze) << "another's are its own";
  EXPECT_EQ(damper.frozen().size(), 65u);
  EXPECT_TRUE(damper.Thaw(Key(5)));
  EXPECT_FALSE(damper.Thaw(Key(5)));
  EXPECT_EQ(steal(300, kA1), Verdict::kFreeze);
  EXPECT_EQ(steal(301, kA1), Verdict::kHold);
}

// ---- A model ------------------------------------------------------------------------------------

// The rule of README.md, computed from the whole history of a MAC.
class DamperModel {
 public:
  explicit DamperModel(const MoveDamper::Options& options) : options_(options) {}

  MoveDamper::Judgement OnMove(Place at, Place claimant, absl::Time now) {
    if (moves_.empty() || now - moves_.back().at >= options_.window) moves_.clear(), home_ = at;
    for (Place place : {at, claimant}) {
      if (home_.local && place.local) home_ = place;
    }
    moves_.push_back({now, /*counts=*/true});
    int count = 0;
    for (const Made& move : moves_) count += move.counts && now - move.at < options_.window;
    if (count < options_.moves) return {Verdict::kMove, {}};
    if (!home_.local && (at.local || claimant.local)) {
      for (Made& move : moves_) move.counts = false;
      return {Verdict::kWarn, {}};
    }
    moves_.clear();
    return {Verdict::kFreeze, home_};
  }
  void ForgetHome(VPortId vport) {
    if (home_.vport == vport) moves_.clear();
  }

 private:
  struct Made {
    absl::Time at;
    bool counts;
  };
  const MoveDamper::Options options_;
  std::vector<Made> moves_;
  Place home_;
};

TEST(MoveDamperModelTest, RandomMoves) {
  const uint64_t seed = SeedForTest();
  SCOPED_TRACE(seed);
  std::mt19937 random(static_cast<uint32_t>(seed));
  const std::vector<Place> places = {kV, kA1, kA2, kB, kPort, kOtherPort};
  const MoveDamper::Options options;
  MoveDamper damper(options);
  constexpr uint64_t kMacs = 20;  // few enough that the damper forgets none
  std::map<uint64_t, DamperModel> models;
  std::map<uint64_t, Place> at;
  absl::Time now = absl::FromUnixSeconds(1000);
  std::map<Verdict, int> verdicts;
  for (int step = 0; step < 100'000; ++step) {
    now += absl::Seconds(random() % 1000 == 0 ? random() % 400 : random() % 4);
    const uint64_t mac = random() % kMacs;
    const Place to = places[random() % places.size()];
    DamperModel& model = models.try_emplace(mac, options).first->second;
    Place& from = at.try_emplace(mac, to).first->second;
    if (random() % 500 == 0) {
      const VPortId left = places[random() % places.size()].vport;
      damper.ForgetHome(left);
      for (auto& [other, its] : models) its.ForgetHome(left);
    }
    if (from == to) continue;
    if (from.local && to.local) {
      from = to;
      continue;
    }
    const MoveDamper::Judgement judged = damper.OnMove(Key(mac), from, to, now),
                                expected = model.OnMove(from, to, now);
    ASSERT_EQ(judged.verdict, expected.verdict) << step;
    ASSERT_EQ(judged.home, expected.home) << step;
    ++verdicts[judged.verdict];
    from = judged.verdict == Verdict::kFreeze ? judged.home : to;
    damper.Thaw(Key(mac));
  }
  for (Verdict verdict : {Verdict::kMove, Verdict::kWarn, Verdict::kFreeze})
    EXPECT_GT(verdicts[verdict], 100);
}

}  // namespace
}  // namespace eoib
