// TokenBucket: limits events to a rate, with bursts.
#ifndef EOIB_VSWITCH_BASE_TOKEN_BUCKET_H_
#define EOIB_VSWITCH_BASE_TOKEN_BUCKET_H_

#include <algorithm>

#include "absl/time/time.h"

namespace eoib {

class TokenBucket {
 public:
  // Full at first: `burst` events may happen at once. Requires burst >= 1 and per_second > 0.
  TokenBucket(double per_second, double burst, absl::Time now)
      : per_second_(per_second), burst_(burst), tokens_(burst), filled_(now) {}

  // `cost`: tokens, at most `burst`.
  bool Has(absl::Time now, double cost = 1) {
    Fill(now);
    return tokens_ >= cost;
  }
  // Takes a token, or `cost` tokens; false if there are too few.
  bool Take(absl::Time now, double cost = 1) {
    if (!Has(now, cost)) return false;
    tokens_ -= cost;
    return true;
  }
  // Returns when `cost` tokens will be available. Rounded up, so that a caller does not wake too
  // early.
  absl::Time NextToken(double cost = 1) const {
    if (tokens_ >= cost) return filled_;
    return filled_ + absl::Seconds((cost - tokens_) / per_second_) + absl::Microseconds(1);
  }

 private:
  void Fill(absl::Time now) {
    tokens_ = std::min(burst_,
                       tokens_ + per_second_ * std::max(0.0, absl::ToDoubleSeconds(now - filled_)));
    filled_ = now;
  }

  double per_second_;
  double burst_;
  double tokens_;
  absl::Time filled_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_TOKEN_BUCKET_H_
