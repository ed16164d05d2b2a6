#include "fdb/flow_spread.h"

#include <algorithm>
#include <array>
#include <vector>

#include "gtest/gtest.h"

namespace eoib {
namespace {

constexpr uint64_t kFirstKey = 0x5eed'0000;  // keys from one vendor differ in few bits

std::vector<uint64_t> Keys(size_t members) {
  std::vector<uint64_t> keys;
  for (size_t i = 0; i < members; ++i) keys.push_back(kFirstKey + i);
  return keys;
}

std::array<int, FlowSpread::kShares> Takers(const FlowSpread& spread, uint32_t usable) {
  std::array<int, FlowSpread::kShares> takers;
  for (size_t share = 0; share < FlowSpread::kShares; ++share)
    takers[share] = spread.Pick(share, usable);
  return takers;
}

std::vector<size_t> CountsOf(const std::array<int, FlowSpread::kShares>& takers, size_t members) {
  std::vector<size_t> counts;
  for (size_t i = 0; i < members; ++i)
    counts.push_back(std::count(takers.begin(), takers.end(), static_cast<int>(i)));
  return counts;
}

TEST(FlowSpreadTest, SharesDifferByOneAtMost) {
  for (size_t members = 1; members <= FlowSpread::kMaxMembers; ++members) {
    const std::vector<size_t> counts = CountsOf(Takers(FlowSpread(Keys(members)), ~0u), members);
    const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
    EXPECT_LE(*most - *least, 1u) << members;
  }
}

// Tests every set of usable members, and each member that it may lose: all ways to fail and to
// return.
TEST(FlowSpreadTest, LossMovesOnlyLostSharesAndReturnRestoresThem) {
  for (size_t members = 2; members <= FlowSpread::kMaxMembers; ++members) {
    const FlowSpread spread(Keys(members));
    for (uint32_t usable = 1; usable < 1u << members; ++usable) {
      const auto before = Takers(spread, usable);
      for (size_t lost = 0; lost < members; ++lost) {
        if ((usable >> lost & 1) == 0) continue;
        const auto after = Takers(spread, usable & ~(1u << lost));
        for (size_t share = 0; share < FlowSpread::kShares; ++share) {
          ASSERT_NE(after[share], static_cast<int>(lost));
          if (before[share] != static_cast<int>(lost)) {
            ASSERT_EQ(after[share], before[share]);
          }
        }
      }
    }
  }
}

// If all went to one other member, that one would have twice its load.
TEST(FlowSpreadTest, LostSharesSpreadOverAllOthers) {
  for (size_t members = 3; members <= FlowSpread::kMaxMembers; ++members) {
    const FlowSpread spread(Keys(members));
    const size_t fair = FlowSpread::kShares / (members - 1);
    for (size_t lost = 0; lost < members; ++lost) {
      const std::vector<size_t> counts = CountsOf(Takers(spread, ~0u & ~(1u << lost)), members);
      for (size_t member = 0; member < members; ++member) {
        if (member != lost) {
          EXPECT_LE(counts[member], fair + fair / 2) << members << " members";
        }
      }
    }
  }
}

TEST(FlowSpreadTest, NoUsableMemberTakesNoShare) {
  const FlowSpread spread(Keys(3));
  for (int taker : Takers(spread, 0)) EXPECT_EQ(taker, -1);
}

TEST(FlowSpreadTest, MemberOrderDoesNotMatter) {
  const FlowSpread forwards(std::vector<uint64_t>{1, 2, 3});
  const FlowSpread backwards(std::vector<uint64_t>{3, 2, 1});
  for (uint32_t usable : {7u, 5u, 2u}) {
    for (size_t share = 0; share < FlowSpread::kShares; ++share) {
      // 5, 7 and 2 read the same both ways.
      EXPECT_EQ(forwards.Pick(share, usable), 2 - backwards.Pick(share, usable));
    }
  }
}

TEST(FlowSpreadTest, JoiningMemberMovesFewOtherShares) {
  for (size_t members = 1; members < FlowSpread::kMaxMembers; ++members) {
    const auto before = Takers(FlowSpread(Keys(members)), ~0u);
    const auto after = Takers(FlowSpread(Keys(members + 1)), ~0u);
    size_t elsewhere = 0;
    for (size_t share = 0; share < FlowSpread::kShares; ++share) {
      elsewhere += after[share] != before[share] && after[share] != static_cast<int>(members);
    }
    EXPECT_LE(elsewhere, FlowSpread::kShares / 4) << members;
  }
}

}  // namespace
}  // namespace eoib
