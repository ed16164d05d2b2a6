#include "gateway/translation/solicitation_limiter.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "gateway/translation/addresses_for_test.h"
#include "gateway/translation/pending_requests.h"
#include "vswitch/base/seed_for_test.h"

namespace eoib::translation {
namespace {

using Kind = SolicitationLimiter::Kind;

class SolicitationLimiterTest : public testing::Test {
 protected:
  Drop Ask(uint32_t target, uint64_t requester = 1, Kind kind = Kind::kUnknownTarget) {
    return asks_.MaySolicit(Ip(target), Mac(requester), kind, now_);
  }
  absl::Time now_ = absl::UnixEpoch();
  SolicitationLimiter asks_{Options(), now_};
};

TEST_F(SolicitationLimiterTest, SilentTargetsAreLeftAloneForLonger) {
  for (const int pause : {1, 2, 4, 8, 16, 30, 30}) {
    EXPECT_EQ(Ask(1), Drop::kNone) << pause;
    now_ += absl::Seconds(pause) - absl::Milliseconds(200);
    EXPECT_EQ(Ask(1), Drop::kSilentTarget) << pause;
    EXPECT_EQ(Ask(1, 2), Drop::kSilentTarget) << "for any requester";
    now_ += absl::Milliseconds(200);
  }
  EXPECT_EQ(Ask(2), Drop::kNone) << "the back-off is for one target";
}

TEST_F(SolicitationLimiterTest, AnotherRateCountsAtOnceAndBackOffsGoOn) {
  EXPECT_EQ(Ask(1), Drop::kNone);
  Options options;
  options.asks_per_second = options.ask_burst = 1;
  asks_.Change(options, now_);
  EXPECT_EQ(Ask(1), Drop::kSilentTarget);
  EXPECT_EQ(Ask(2), Drop::kNone);
  EXPECT_EQ(Ask(3), Drop::kThrottled);
}

TEST_F(SolicitationLimiterTest, KnownTargetsAreNotLeftAloneForLong) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Ask(1, 1, Kind::kKnownTarget), Drop::kNone) << i;
    now_ += Options().suspect_interval_most;
  }
}

TEST_F(SolicitationLimiterTest, LooksForDuplicatesAreNoNuisance) {
  EXPECT_EQ(Ask(1), Drop::kNone);
  EXPECT_EQ(Ask(1, 1, Kind::kProbeOrRetry), Drop::kNone);
  EXPECT_EQ(Ask(1), Drop::kSilentTarget);
}

TEST_F(SolicitationLimiterTest, AnAnswerEndsIt) {
  EXPECT_EQ(Ask(1), Drop::kNone);
  asks_.Failed(Ip(1), now_);
  EXPECT_TRUE(asks_.HasFailed(Ip(1), now_));
  asks_.Heard(Ip(1));
  EXPECT_FALSE(asks_.HasFailed(Ip(1), now_));
  EXPECT_FALSE(asks_.IsSilent(Ip(1), now_));
  EXPECT_EQ(Ask(1), Drop::kNone);
}

TEST_F(SolicitationLimiterTest, OneRequesterLeavesAShareToOthers) {
  uint32_t target = 0;
  size_t allowed = 0;
  for (int i = 0; i < 1000; ++i) allowed += Ask(++target, 1) == Drop::kNone;
  EXPECT_EQ(allowed, 40u);
  EXPECT_EQ(Ask(++target, 1, Kind::kProbeOrRetry), Drop::kThrottled)
      << "also of who says that he looks for duplicates";
  EXPECT_EQ(Ask(++target, 2), Drop::kNone);
  for (uint64_t requester = 3; requester < 500; ++requester)
    allowed += Ask(++target, requester) == Drop::kNone;
  EXPECT_EQ(allowed, 99u) << "all together";
  now_ += absl::Seconds(1);
  for (uint64_t requester = 3; requester < 500; ++requester)
    allowed += Ask(++target, requester) == Drop::kNone;
  EXPECT_EQ(allowed, 199u);
}

TEST_F(SolicitationLimiterTest, ForgetsInTime) {
  Ask(1);
  now_ = asks_.NextExpiry();
  asks_.Expire(now_);
  EXPECT_EQ(asks_.silent(), 0u);
  EXPECT_EQ(asks_.NextExpiry(), absl::InfiniteFuture());
}

// Never two solicitations for a target within its back-off, never more than the rate.
TEST_F(SolicitationLimiterTest, Model) {
  std::mt19937_64 random(SeedForTest());
  struct Silence {
    int asked = 0;
    absl::Time until;
    absl::Time last;
  };
  std::map<uint32_t, Silence> model;
  size_t allowed = 0;
  const absl::Time start = now_;
  for (int step = 0; step < 30000; ++step) {
    now_ += absl::Milliseconds(random() % 20);
    asks_.Expire(now_);
    std::erase_if(
        model, [this](const auto& entry) { return entry.second.last <= now_ - absl::Seconds(60); });
    const auto target = static_cast<uint32_t>(random() % 500);
    if (random() % 20 == 0) {
      asks_.Heard(Ip(target));
      model.erase(target);
      continue;
    }
    const bool silent = model.contains(target) && now_ < model[target].until;
    const Drop drop = Ask(target, random() % 8);
    ASSERT_EQ(drop == Drop::kSilentTarget, silent);
    if (drop != Drop::kNone) continue;
    ++allowed;
    Silence& silence = model[target];
    silence.last = now_;
    silence.until = now_ +
                    std::min(absl::Seconds(1 << std::min(silence.asked++, 10)), absl::Seconds(30)) -
                    absl::Milliseconds(100);
  }
  EXPECT_LE(allowed, 101 + 100 * absl::ToDoubleSeconds(now_ - start));
  EXPECT_GT(allowed, 1000u);
}

TEST(PendingRequestsTest, Model) {
  std::mt19937_64 random(SeedForTest());
  Options options;
  options.max_pending_requests = 16;
  PendingRequests pending(options);
  std::map<uint32_t, std::pair<std::vector<MacAddr>, absl::Time>> model;
  absl::Time now = absl::UnixEpoch();
  for (int step = 0; step < 10000; ++step) {
    now += absl::Milliseconds(random() % 1000);
    const auto target = static_cast<uint32_t>(random() % 24);
    const MacAddr requester = Mac(random() % 6);
    pending.Expire(now);
    std::erase_if(
        model, [&](const auto& entry) { return entry.second.second <= now - options.pending_age; });
    if (random() % 2 == 0) {
      if (!model.contains(target) && model.size() == options.max_pending_requests) {
        model.erase(std::min_element(model.begin(), model.end(), [](const auto& a, const auto& b) {
          return a.second.second < b.second.second;
        }));
      }
      pending.Add(Ip(target), requester, now);
      auto& [requesters, last] = model[target];
      last = now;
      if (std::find(requesters.begin(), requesters.end(), requester) == requesters.end())
        requesters.push_back(requester);
      if (requesters.size() > PendingRequests::kMaxRequesters) requesters.erase(requesters.begin());
    }
    const auto requesters = pending.Requesters(Ip(target), now);
    std::vector<MacAddr> sorted(requesters.begin(), requesters.end()),
        expected = model.contains(target) ? model[target].first : std::vector<MacAddr>();
    std::sort(sorted.begin(), sorted.end());
    std::sort(expected.begin(), expected.end());
    ASSERT_EQ(sorted, expected);
    ASSERT_EQ(pending.size(), model.size());
  }
}

}  // namespace
}  // namespace eoib::translation
