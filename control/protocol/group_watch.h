// GroupWatch: whether the group messages of another agent reach us, and ours reach it.
//
// An agent repeats its version to the group at least every 45 s. So if nothing came through the
// group for kPatience, while the agent was heard otherwise, the fabric does not bring its group
// messages here. Whether it hears ours is what it says (in a Probe, an Alive or a Reply).
//
// Not thread-safe.
#ifndef EOIB_CONTROL_PROTOCOL_GROUP_WATCH_H_
#define EOIB_CONTROL_PROTOCOL_GROUP_WATCH_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace eoib {

class GroupWatch {
 public:
  // Between two group messages of an agent.
  static constexpr absl::Duration kLongestPause = absl::Seconds(45);
  // Two of them. One lost message is no reason to probe: of a thousand agents, some always lost
  // one.
  static constexpr absl::Duration kDoubt = absl::Seconds(90);
  static constexpr absl::Duration kPatience = absl::Seconds(135);  // three of them

  enum class Verdict : uint8_t { kOpen, kHeard, kMissing };

  // The agent is known since then, in its present incarnation.
  explicit GroupWatch(absl::Time since) : since_(since) {}

  Verdict theirs() const { return theirs_; }
  Verdict ours() const { return ours_; }
  bool IsMissing() const { return theirs_ == Verdict::kMissing || ours_ == Verdict::kMissing; }
  // Its last group message; nothing if none came.
  absl::optional<absl::Time> heard() const { return heard_; }

  // A group message of it came.
  void Hear(absl::Time now) {
    heard_ = now;
    theirs_ = Verdict::kHeard;
  }
  // It said how many milliseconds ago it heard a group message of ours, which we send since
  // `sending_since`.
  void Tell(uint32_t milliseconds, absl::Time sending_since, absl::Time now) {
    if (milliseconds < absl::ToInt64Milliseconds(kPatience)) {
      ours_ = Verdict::kHeard;
    } else if (now - std::max(since_, sending_since) >= kPatience) {
      ours_ = Verdict::kMissing;
    }
  }
  // Call it now and then. We receive group messages since `receiving_since`; the agent was last
  // heard at all at `alive`.
  void Judge(absl::Time alive, absl::Time receiving_since, absl::Time now) {
    if (Silence(receiving_since, now) >= kPatience && now - alive < kLongestPause)
      theirs_ = Verdict::kMissing;
  }
  // Whether to probe the agent: messages that are due did not come through the group, or ours did
  // not reach it.
  bool IsInDoubt(absl::Time receiving_since, absl::Time now) const {
    return Silence(receiving_since, now) >= kDoubt || ours_ == Verdict::kMissing;
  }

 private:
  absl::Duration Silence(absl::Time receiving_since, absl::Time now) const {
    return now - std::max({heard_.value_or(absl::InfinitePast()), since_, receiving_since});
  }

  absl::Time since_;
  absl::optional<absl::Time> heard_;
  Verdict theirs_ = Verdict::kOpen, ours_ = Verdict::kOpen;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_GROUP_WATCH_H_
