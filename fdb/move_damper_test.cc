// Which moves are too many.
#include "fdb/move_damper.h"

#include "gtest/gtest.h"

namespace eoib {
namespace {

const VPortId kV1(1), kV2(2);
FdbKey Key(uint64_t mac) { return FdbKey(Vid(0), MacAddr::FromUint64(mac)); }

// Who makes many MACs move must not make another's moves forgotten.
TEST(MoveDamperTest, ForgetsThoseThatMovedLeast) {
  MoveDamper damper({.moves = 5});
  const absl::Time start = absl::FromUnixSeconds(1000);
  int64_t second = 0;
  const auto now = [&] { return start + absl::Milliseconds(++second); };
  for (int i = 0; i < 2; ++i) damper.OnMove(Key(7), kV1, kV2, now());
  for (int i = 0; i < 2; ++i) {
    for (uint64_t other = 100; other < 30'000; ++other) damper.OnMove(Key(other), kV1, kV2, now());
    damper.OnMove(Key(7), kV1, kV2, now());
  }
  EXPECT_EQ(damper.OnMove(Key(7), kV1, kV2, now()), MoveDamper::Verdict::kFreeze);
}

TEST(MoveDamperTest, FreezesNoMoreThanItRemembers) {
  MoveDamper damper({.moves = 2, .most_frozen = 3});
  const absl::Time now = absl::FromUnixSeconds(1000);
  for (uint64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(damper.OnMove(Key(i), kV1, kV2, now), MoveDamper::Verdict::kMove);
    EXPECT_EQ(damper.OnMove(Key(i), kV2, kV1, now), i < 3 ? MoveDamper::Verdict::kFreeze : MoveDamper::Verdict::kWarn);
  }
  EXPECT_EQ(damper.Due(now + absl::Seconds(179)).size(), 0u);
  EXPECT_EQ(damper.Due(now + absl::Seconds(180)).size(), 3u);
}

}  // namespace
}  // namespace eoib
