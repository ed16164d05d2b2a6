// IdlePolicy: decides what a worker that has run out of work does until there is more.
//
// - Polling spares a wake-up for each message of an exchange that goes to and fro. During a bulk
// transfer it would take time
//   from the programs that send and receive, so a worker polls only while little passes between two
//   idle moments.
// - A worker that may, pauses while many small frames pass at interfaces that programs use by
// sockets, as an adapter that
//   moderates its interrupts does: one wake-up for some dozens of frames leaves time to the program
//   that receives them. A program with a few requests under way never sees that, because only few
//   frames pass from an idle moment to the next.
// - Otherwise it sleeps.
#ifndef EOIB_VSWITCH_IDLE_POLICY_H_
#define EOIB_VSWITCH_IDLE_POLICY_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "vswitch/forwarder/forwarder_counters.h"

namespace eoib {

class IdlePolicy {
 public:
  enum class Choice { kSleep, kPoll, kPause };

  static constexpr absl::Duration kPauseTime = absl::Microseconds(100);
  // The mean number of bytes between idle moments up to which a worker polls.
  static constexpr uint64_t kLittle = 2048;
  // The mean number of frames in one direction between idle moments from which a worker pauses, and
  // below which it no longer does.
  static constexpr uint64_t kMany = 32, kFew = 8;
  static constexpr uint64_t kBehind = 1024;  // frames without an idle moment
  static constexpr uint64_t kSmall = 512;    // bytes of a frame, on average

  // `total` is what has passed before, in all.
  explicit IdlePolicy(bool may_pause, const PortTraffic& total = {})
      : may_pause_(may_pause), total_(total) {}

  // Call it whenever the work has run out. `total` is what has passed so far in all.
  Choice OnIdle(const PortTraffic& total) {
    const uint64_t frames = Frames(total);
    frames_ += frames - frames_ / kWeight;
    bytes_ += total.bytes - total_.bytes - bytes_ / kWeight;
    total_ = total;
    pauses_ =
        may_pause_ && frames_ >= (pauses_ ? kFew : kMany) * kWeight && bytes_ < kSmall * frames_;
    if (pauses_ && frames != 0) return Choice::kPause;
    return bytes_ < kLittle * kWeight ? Choice::kPoll : Choice::kSleep;
  }
  // Whether many small frames come.
  bool pauses() const { return pauses_; }
  // Whether a worker that may pause had many small frames since the last idle moment: it may wait
  // for programs rather than be at its limit.
  bool IsBehind(const PortTraffic& total) const {
    const uint64_t frames = Frames(total);
    return may_pause_ && frames >= kBehind && total.bytes - total_.bytes < kSmall * frames;
  }

 private:
  static constexpr uint64_t kWeight = 8;  // of the past: an exponential moving average

  // Since the last idle moment, in one direction.
  uint64_t Frames(const PortTraffic& total) const {
    return std::max(total.from_sockets - total_.from_sockets, total.to_sockets - total_.to_sockets);
  }

  bool may_pause_;
  PortTraffic total_;
  uint64_t frames_ = 0, bytes_ = 0;  // the means, times kWeight
  bool pauses_ = false;
};

// PollWindow: for how long a worker polls. In a virtual machine one processor takes 15 us to wake
// another, and each message of an exchange may need that three times, with the work between. So a
// worker polls for longer if it has just had work again soon. After a longer time without work it
// does not: other programs may wait for this processor meanwhile.
class PollWindow {
 public:
  static constexpr absl::Duration kShort = absl::Microseconds(50), kLong = absl::Microseconds(100);

  // Call it when the work has run out. Returns when to stop polling.
  absl::Time Begin(absl::Time now) {
    began_ = now;
    return now + length_;
  }
  // Call it when there is work again, or may be.
  void End(absl::Time now) { length_ = now - began_ <= kLong ? kLong : kShort; }

 private:
  absl::Time began_ = absl::InfinitePast();
  absl::Duration length_ = kShort;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_IDLE_POLICY_H_
