#include "gateway/translation/solicitation_limiter.h"

#include <algorithm>

namespace eoib::translation {
namespace {

constexpr size_t kMaxRequesters = 1024;
// The back-off ends early by so much: hosts retry after one second of their own clock, and queues
// shift that.
constexpr absl::Duration kSlack = absl::Milliseconds(100);

}  // namespace

SolicitationLimiter::SolicitationLimiter(const Options& options, absl::Time now)
    : options_(options),
      all_(options.asks_per_second, options.ask_burst, now),
      requesters_(kMaxRequesters),
      silent_(options.max_silent) {}

void SolicitationLimiter::Change(const Options& options, absl::Time now) {
  const bool same = options.asks_per_second == options_.asks_per_second;
  options_ = options;
  if (same) return;
  all_ = TokenBucket(options.asks_per_second, options.ask_burst, now);
  requesters_.Clear();
}

Drop SolicitationLimiter::MaySolicit(const IpAddr& target, MacAddr requester, Kind kind,
                                     absl::Time now) {
  const bool regardless = kind == Kind::kProbeOrRetry || kind == Kind::kOwn;
  if (!regardless && IsSilent(target, now)) return Drop::kSilentTarget;
  TokenBucket* const own = BucketOf(requester, now);
  // Both must have a token before either loses one.
  if (!own->Has(now) || !all_.Take(now)) return Drop::kThrottled;
  own->Take(now);
  NoteSolicited(target, kind, now);
  return Drop::kNone;
}

bool SolicitationLimiter::IsSilent(const IpAddr& target, absl::Time now) const {
  const auto* const silence = silent_.Find(target);
  return silence != nullptr && now < silence->value.until;
}

void SolicitationLimiter::Failed(const IpAddr& target, absl::Time now) {
  if (auto* const silence = silent_.Hear(target, now)) silence->value.failed = true;
}

bool SolicitationLimiter::HasFailed(const IpAddr& target, absl::Time now) {
  const auto* const silence = silent_.Find(target);
  if (silence == nullptr || !silence->value.failed) return false;
  silent_.Hear(target, now);  // still in use: Expire keeps it
  return true;
}

void SolicitationLimiter::Expire(absl::Time now) {
  while (const auto* const old = silent_.SilentSince(now - 2 * options_.silent_most))
    silent_.Erase(IpAddr(old->key));
  while (const auto* const old = requesters_.SilentSince(now - 2 * options_.silent_most))
    requesters_.Erase(MacAddr(old->key));
}

void SolicitationLimiter::CopyFrom(const SolicitationLimiter& other) {
  all_ = other.all_;
  requesters_.CopyFrom(other.requesters_);
  silent_.CopyFrom(other.silent_);
}

absl::Time SolicitationLimiter::NextExpiry() const {
  return std::min(silent_.oldest(), requesters_.oldest()) + 2 * options_.silent_most;
}

TokenBucket* SolicitationLimiter::BucketOf(MacAddr requester, absl::Time now) {
  const TokenBucket full(options_.asks_per_second_each, options_.ask_burst_each, now);
  return &requesters_.HearOrAdd(requester, now, full)->value;
}

void SolicitationLimiter::NoteSolicited(const IpAddr& target, Kind kind, absl::Time now) {
  auto* const silence = silent_.HearOrAdd(target, now);
  constexpr int kMostDoublings = 16;  // the shift below must not overflow
  const int doublings = std::min(silence->value.solicited++, kMostDoublings);
  const bool known = kind == Kind::kKnownTarget || kind == Kind::kOwn;
  const absl::Duration most = known ? options_.suspect_interval_most : options_.silent_most;
  silence->value.until = now + std::min(options_.silent_first * (1 << doublings), most) - kSlack;
}

}  // namespace eoib::translation
