#include "gateway/translation/liveness.h"

#include <gtest/gtest.h>

#include "gateway/translation/addresses_for_test.h"
#include "gateway/translation/announcements.h"

namespace eoib::translation {
namespace {

class LivenessTest : public testing::Test {
 protected:
  struct Asked {
    absl::Duration at;
    bool direct;
    friend bool operator==(const Asked&, const Asked&) = default;
  };
  // The solicitations within `by`, while packets flow or not.
  std::vector<Asked> Run(absl::Duration by, bool flows) {
    std::vector<Asked> asked;
    const absl::Time start = now_;
    for (; now_ - start < by; now_ += absl::Milliseconds(50)) {
      if (flows) liveness_.Suspect({Ip(1), Ip(2), MacAddr(), false}, now_);
      liveness_.Tick(
          now_, [this](const IpAddr&) { return alive_; },
          [&](const Solicitation& solicitation) {
            asked.push_back({now_ - start, solicitation.unicast});
          });
    }
    return asked;
  }
  absl::Time now_ = absl::UnixEpoch();
  bool alive_ = false;
  Liveness liveness_{Options()};
};

TEST_F(LivenessTest, SolicitsByUnicastFirstThenByMulticast) {
  const auto asked = Run(absl::Seconds(10), true);
  ASSERT_GE(asked.size(), 6u);
  EXPECT_EQ(asked[0], (Asked{absl::ZeroDuration(), true}));
  for (size_t i = 1; i < asked.size(); ++i) {
    EXPECT_FALSE(asked[i].direct);
    EXPECT_LE(asked[i].at - asked[i - 1].at, absl::Milliseconds(2500))
        << "so a host that comes back is found in three seconds";
    EXPECT_GE(asked[i].at - asked[i - 1].at, absl::Milliseconds(700));
  }
  EXPECT_GE(Run(absl::Minutes(5), true).size(), 100u) << "for as long as packets flow";
}

TEST_F(LivenessTest, EndsWithTheFlow) {
  Run(absl::Seconds(1), true);
  const auto asked = Run(absl::Minutes(1), false);
  ASSERT_FALSE(asked.empty());
  EXPECT_LE(asked.back().at, absl::Seconds(10));
  EXPECT_EQ(liveness_.size(), 0u);
  EXPECT_EQ(liveness_.NextDeadline(), absl::InfiniteFuture());
}

TEST_F(LivenessTest, EndsWithASignOfLife) {
  Run(absl::Seconds(1), true);
  alive_ = true;
  EXPECT_TRUE(Run(absl::Seconds(10), false).empty());
  EXPECT_EQ(liveness_.size(), 0u);
}

TEST(AnnouncementsTest, RecentFirstAndPaced) {
  Options options;
  options.announcements_per_second = 10;
  options.announcement_burst = 5;
  absl::Time now = absl::UnixEpoch();
  Announcements announcements(options, now);
  std::vector<Announcement> all;
  for (uint32_t n = 0; n < 100; ++n)
    all.push_back({Ip(n), n % 2 == 0, now + absl::Seconds(n * 37 % 100)});
  announcements.Start(all);
  std::vector<Announcement> said;
  const absl::Time start = now;
  while (announcements.NextDeadline() != absl::InfiniteFuture()) {
    now = std::max(now, announcements.NextDeadline());
    announcements.Tick(now,
                       [&](const Announcement& announcement) { said.push_back(announcement); });
    ASSERT_LE(said.size(), 5.01 + 10 * absl::ToDoubleSeconds(now - start));
  }
  ASSERT_EQ(said.size(), 100u);
  for (size_t i = 1; i < said.size(); ++i) EXPECT_LE(said[i].heard, said[i - 1].heard);
  EXPECT_NEAR(absl::ToDoubleSeconds(now - start), 9.5, 0.1);
  announcements.Start(all);
  announcements.Stop();
  EXPECT_EQ(announcements.left(), 0u);
}

}  // namespace
}  // namespace eoib::translation
