// MessageAdmission: which messages of other agents the worker hands to control, so that one sender
// does not stop the others.
//
// Each port (GID) has a token bucket. A message costs a token, and one more for each kBytesOfToken
// bytes, because control works longer for a long message: at most some 50 us for a token. Unknown
// ports, which a sender with a raw queue pair can make up, pay kUnknownCost times as much, and
// share one more bucket. A sender may occupy as many places of the queue as it leaves free, so
// others always find some.
#ifndef EOIB_VSWITCH_FORWARDER_MESSAGE_ADMISSION_H_
#define EOIB_VSWITCH_FORWARDER_MESSAGE_ADMISSION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/base/drop_reason.h"
#include "vswitch/base/token_bucket.h"
#include "vswitch/forwarder/control_queues.h"

namespace eoib {

// For the worker that fills the queue. No allocation after the constructor.
class MessageAdmission {
 public:
  static constexpr size_t kBytesOfToken = 192;
  // Tokens a second, and in a burst. An agent sends at most 200 messages of 1,900 bytes a second,
  // for a large state.
  static constexpr int kRate = 2400, kBurst = 1536;
  static constexpr int kUnknownCost = 8;
  // Tokens a second, and in a burst, for all unknown ports: agents of a large VES that start
  // together are unknown at first.
  static constexpr int kUnknownRate = 2400, kUnknownBurst = 6144;
  // Buckets. A port without one takes that of a port whose bucket is full, so nothing is lost.
  static constexpr size_t kBuckets = 4096;

  explicit MessageAdmission(absl::Time now);

  // A message of `length` bytes came from `sender`; control has popped `popped` messages in all.
  // `is_known`: the sender's vPort has announced itself. Returns kNone if the caller is to push the
  // message, which then finds room. Else the reason to drop it.
  DropReason Admit(const Gid& sender, size_t length, bool is_known, size_t popped, absl::Time now);
  static constexpr int TokensFor(size_t length) {
    return 1 + static_cast<int>(length / kBytesOfToken);
  }

 private:
  struct Bucket {
    Gid gid;
    absl::Time full_at = absl::InfinitePast();  // when it has all tokens again
    uint16_t waiting = 0;                       // messages in the queue
    bool was_known = false;
  };
  // Buckets that a port may have.
  static constexpr size_t kWays = 16;
  // The time in which a bucket gets one.
  static constexpr absl::Duration kToken = absl::Nanoseconds(1'000'000'000 / kRate);

  absl::Span<Bucket> WaysOf(const Gid& gid);
  Bucket* BucketOf(const Gid& gid, absl::Time now);
  void Release(size_t popped);

  const uint64_t seed_;
  std::vector<Bucket> buckets_;
  TokenBucket unknown_;
  // Of the messages in the queue, as indices of buckets_.
  std::array<uint16_t, ReceivedMessages::capacity()> senders_{};
  size_t pushed_ = 0, released_ = 0;  // messages, in all
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FORWARDER_MESSAGE_ADMISSION_H_
