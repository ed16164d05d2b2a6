// GroupAnnouncer: when we speak to the group. It announces our changes, answers newcomers, and repeats our version.
//
// Changes that come together go together, and agents that see the same event do not all speak at the same moment. README.md has
// the rules.
//
// Not thread-safe.
#ifndef EOIB_CONTROL_PROTOCOL_GROUP_ANNOUNCER_H_
#define EOIB_CONTROL_PROTOCOL_GROUP_ANNOUNCER_H_

#include <functional>
#include <vector>

#include "absl/time/time.h"
#include "control/protocol/own_agent.h"
#include "control/protocol/protocol_counters.h"
#include "control/protocol/protocol_events.h"
#include "control/protocol/random_time.h"
#include "vswitch/base/address.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/token_bucket.h"
#include "vswitch/wire/vport_message.h"

namespace eoib {

class GroupAnnouncer {
 public:
  // Changes are announced within this time, together with those that follow meanwhile.
  // Addresses and claims that displace another agent's are announced at once, because traffic goes astray until then.
  static constexpr absl::Duration kAnnounceWithin = absl::Milliseconds(20);
  // Every agent repeats its version after this time, plus or minus half.
  static constexpr absl::Duration kRepeat = absl::Seconds(30);
  // Agents answer a newcomer within this time.
  static constexpr absl::Duration kAnswerWithin = absl::Seconds(1);

  // Sends a message to one agent.
  using Send = std::function<void(const PeerAddress& peer, const VPortMessage& message)>;

  // The pointers outlive the object.
  GroupAnnouncer(OwnAgent* own, ProtocolEvents* events, const Clock* clock, RandomBits random, Send send,
                 ProtocolCounters* counters);

  void Multicast(const VPortMessage& message);
  // The changes are announced without delay.
  void AnnounceAtOnce() { announce_at_ = clock_->Now(); }
  // An agent that may not know us was heard in the group.
  void NoteNewcomer(const PeerAddress& peer);

  // Sends what is due.
  void Run();
  absl::Time NextDeadline() const;

 private:
  void AnnounceChanges();
  void AnswerNewcomers();
  absl::Time AnswerAt() const;

  OwnAgent* const own_;
  ProtocolEvents* const events_;
  const Clock* const clock_;
  const RandomBits random_;
  const Send send_;
  ProtocolCounters* const counters_;
  std::vector<PeerAddress> newcomers_;  // since our last message to the group; at most two
  absl::Time announce_at_ = absl::InfiniteFuture();
  absl::Time answer_at_ = absl::InfiniteFuture();
  absl::Time repeat_at_ = absl::InfiniteFuture();
  TokenBucket budget_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_GROUP_ANNOUNCER_H_
