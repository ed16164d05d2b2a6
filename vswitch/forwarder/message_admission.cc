#include "vswitch/forwarder/message_admission.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "vswitch/base/system_random.h"

namespace eoib {

// The seed keeps a sender from making up ports that share the buckets of another one.
MessageAdmission::MessageAdmission(absl::Time now)
    : seed_(SystemRandom()), buckets_(kBuckets), unknown_(kUnknownRate, kUnknownBurst, now) {}

DropReason MessageAdmission::Admit(const Gid& sender, size_t length, bool is_known, size_t popped,
                                   absl::Time now) {
  Release(popped);
  Bucket* const bucket = BucketOf(sender, now);
  if (bucket == nullptr) return DropReason::kControlRate;
  const size_t room = senders_.size() - (pushed_ - released_);
  if (bucket->waiting >= room) return DropReason::kControlQueueFull;
  is_known |= bucket->gid == sender && bucket->was_known;
  const absl::Time full_at =
      std::max(bucket->full_at, now) + (is_known ? 1 : kUnknownCost) * TokensFor(length) * kToken;
  if (full_at - now > kBurst * kToken) return DropReason::kControlRate;
  if (!is_known && !unknown_.Take(now, TokensFor(length))) return DropReason::kControlRate;
  bucket->gid = sender;
  bucket->full_at = full_at;
  bucket->was_known = is_known;
  ++bucket->waiting;
  senders_[pushed_++ % senders_.size()] = static_cast<uint16_t>(bucket - buckets_.data());
  return DropReason::kNone;
}

void MessageAdmission::Release(size_t popped) {
  for (; released_ != popped; ++released_)
    --buckets_[senders_[released_ % senders_.size()]].waiting;
}

absl::Span<MessageAdmission::Bucket> MessageAdmission::WaysOf(const Gid& gid) {
  const size_t set = absl::HashOf(seed_, gid) % (kBuckets / kWays);
  return absl::MakeSpan(buckets_).subspan(set * kWays, kWays);
}

// The port's bucket, or one that is full: the one of an unknown port that is full the longest, else
// that of a known one. Null if all are in use.
MessageAdmission::Bucket* MessageAdmission::BucketOf(const Gid& gid, absl::Time now) {
  Bucket* best = nullptr;
  for (Bucket& bucket : WaysOf(gid)) {
    if (bucket.gid == gid) return &bucket;
    if (bucket.waiting != 0 || bucket.full_at > now) continue;
    if (best == nullptr ||
        std::pair(bucket.was_known, bucket.full_at) < std::pair(best->was_known, best->full_at))
      best = &bucket;
  }
  return best;
}

}  // namespace eoib
