#include "fdb/flow_spread.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "vswitch/base/check.h"

namespace eoib {
namespace {

struct Score {
  uint64_t score;
  uint64_t key;
  uint8_t share, member;
};

bool IsHigher(const Score& a, const Score& b) {
  return std::tie(a.score, a.key, a.share, a.member) > std::tie(b.score, b.key, b.share, b.member);
}

// The finaliser of splitmix64: each input bit changes half of the output bits.
uint64_t Mix(uint64_t value) {
  value = (value ^ value >> 30) * 0xbf58'476d'1ce4'e5b9;
  value = (value ^ value >> 27) * 0x94d0'49bb'1331'11eb;
  return value ^ value >> 31;
}

}  // namespace

FlowSpread::FlowSpread(absl::Span<const uint64_t> keys) : members_(keys.size()) {
  EOIB_CHECK(members_ >= 1 && members_ <= kMaxMembers);
  std::vector<Score> scores;
  for (size_t share = 0; share < kShares; ++share) {
    for (size_t member = 0; member < members_; ++member) {
      const uint64_t score = Mix(keys[member] + (share + 1) * 0x9e37'79b9'7f4a'7c15);
      scores.push_back(
          {score, keys[member], static_cast<uint8_t>(share), static_cast<uint8_t>(member)});
    }
  }
  std::sort(scores.begin(), scores.end(), IsHigher);

  // First places, by descending score, until each member has its part. The remainder goes to the
  // members that come first.
  std::array<size_t, kShares> listed{};
  std::array<size_t, kMaxMembers> homes{};
  size_t remainder = kShares % members_;
  for (const Score& score : scores) {
    size_t& has = homes[score.member];
    if (listed[score.share] != 0 || has > kShares / members_ ||
        (has == kShares / members_ && remainder == 0))
      continue;
    if (has++ == kShares / members_) --remainder;
    order_[score.share][listed[score.share]++] = score.member;
  }
  for (const Score& score : scores) {
    if (order_[score.share][0] != score.member)
      order_[score.share][listed[score.share]++] = score.member;
  }
}

int FlowSpread::Pick(size_t share, uint32_t usable) const {
  const auto first = order_[share].begin();
  const auto end = first + members_;
  const auto taker =
      std::find_if(first, end, [usable](uint8_t member) { return (usable >> member & 1) != 0; });
  return taker == end ? -1 : *taker;
}

}  // namespace eoib
