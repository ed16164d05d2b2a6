#include "control/protocol/mac_claims.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "vswitch/base/seed_for_test.h"

namespace eoib {
namespace {

const FdbKey kKey(Vid(10), *MacAddr::Parse("02:00:5e:10:00:01"));

class MacClaimsTest : public testing::Test {
 protected:
  static AgentId Id(uint8_t number) {
    AgentId::Bytes bytes{};
    bytes[0] = number;
    return AgentId(bytes);
  }
  static AgentId BestOf(const std::vector<MacClaim>& claims) {
    MacClaims table;
    for (const MacClaim& claim : claims) table.Set(kKey, claim);
    return table.Best(kKey)->agent;
  }
};

TEST_F(MacClaimsTest, OrderOfClaims) {
  constexpr ClaimStage kEstablished = ClaimStage::kEstablished, kTentative = ClaimStage::kTentative,
                       kStandby = ClaimStage::kStandby;
  const struct {
    const char* description;
    MacClaim better, worse;
  } kRows[] = {
      {"the higher sequence number", {Id(2), 2}, {Id(1), 1}},
      {"the lower id on a tie", {Id(1), 1}, {Id(2), 1}},
      {"established before tentative on a tie",
       {Id(2), 1, false, kEstablished},
       {Id(1), 1, false, kTentative}},
      {"a higher tentative one moves the MAC",
       {Id(2), 2, false, kTentative},
       {Id(1), 1, false, kEstablished}},
      {"sticky of any stage", {Id(2), 1, true, kStandby}, {Id(1), 9, false, kEstablished}},
      {"sticky and established, of any sequence number",
       {Id(2), 1, true, kEstablished},
       {Id(1), 9, true, kTentative}},
      {"sticky and tentative before standby",
       {Id(2), 1, true, kTentative},
       {Id(1), 9, true, kStandby}},
      {"the lower id of two tentative ones",
       {Id(1), 1, true, kTentative},
       {Id(2), 9, true, kTentative}},
      {"the lower id of two on standby", {Id(1), 1, true, kStandby}, {Id(2), 9, true, kStandby}},
      {"the one that does not jump", {Id(2), 1}, {Id(1), 1002}},
      {"the highest number that is no jump", {Id(2), 1001}, {Id(1), 1}},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(BestOf({row.better, row.worse}), row.better.agent) << row.description;
    EXPECT_EQ(BestOf({row.worse, row.better}), row.better.agent)
        << row.description << ", in the other order";
  }
}

TEST_F(MacClaimsTest, OfTwoFixedClaimsTheEarlierOneHolds) {
  MacClaims claims;
  claims.Set(kKey, {Id(2), 1, true, ClaimStage::kTentative});
  claims.Set(kKey, {Id(3), 1, true});
  claims.Set(kKey, {Id(1), 0xffffffff, true});
  claims.Set(kKey, {Id(2), 1, true});
  EXPECT_EQ(claims.Best(kKey)->agent, Id(3));
  claims.Set(kKey, {Id(3), 7, true});
  EXPECT_EQ(claims.Best(kKey)->agent, Id(3)) << "it is still the earlier one";
  claims.Remove(kKey, Id(3));
  EXPECT_EQ(claims.Best(kKey)->agent, Id(1));
}

// A claim far above the holder's counts when those below it are gone.
TEST_F(MacClaimsTest, ADistantClaimCountsWhenTheOthersAreGone) {
  MacClaims claims;
  claims.Set(kKey, {Id(1), 3});
  claims.Set(kKey, {Id(2), 5000});
  claims.Set(kKey, {Id(3), 5001});
  EXPECT_EQ(claims.Best(kKey)->agent, Id(1));
  EXPECT_TRUE(claims.Remove(kKey, Id(1)));
  EXPECT_EQ(claims.Best(kKey)->agent, Id(3));
}

// With one fixed claim at most, agents that heard the same claims agree, in whatever order they
// heard them, and whatever claims were there before.
TEST_F(MacClaimsTest, TheOrderOfArrivalDoesNotMatter) {
  std::mt19937_64 random(SeedForTest());
  for (int round = 0; round < 2000; ++round) {
    std::vector<MacClaim> claims;
    bool has_fixed = false;
    for (uint8_t agent = 1; agent <= 6; ++agent) {
      MacClaim claim{Id(agent), static_cast<uint32_t>(random() % 2 * 1500 + random() % 3 * 700),
                     random() % 4 == 0, static_cast<ClaimStage>(random() % 3)};
      if (claim.IsFixed() && has_fixed) claim.stage = ClaimStage::kTentative;
      has_fixed |= claim.IsFixed();
      claims.push_back(claim);
    }
    const AgentId best = BestOf(claims);
    for (int i = 0; i < 5; ++i) {
      std::shuffle(claims.begin(), claims.end(), random);
      MacClaims table;
      for (const MacClaim& claim : claims) {
        if (random() % 2 == 0)
          table.Set(kKey, {claim.agent, static_cast<uint32_t>(random() % 4000)});
        if (random() % 4 == 0) table.Remove(kKey, claims.front().agent);
      }
      for (const MacClaim& claim : claims) table.Set(kKey, claim);
      ASSERT_EQ(table.Best(kKey)->agent, best) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace eoib
