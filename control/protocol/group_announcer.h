// GroupAnnouncer: when we speak to the group. It announces our changes, answers newcomers, and
// repeats our version.
//
// Changes that come together go together, and agents that see the same event do not all speak at
// the same moment. README.md has the rules.
//
// Not thread-safe.
#ifndef EOIB_CONTROL_PROTOCOL_GROUP_ANNOUNCER_H_
#define EOIB_CONTROL_PROTOCOL_GROUP_ANNOUNCER_H_

#include <array>
#include <cstddef>
#include <functional>
#include <vector>

#include "absl/container/flat_hash_map.h"
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
  // Addresses and claims that displace another agent's are announced at once, because traffic goes
  // astray until then.
  static constexpr absl::Duration kAnnounceWithin = absl::Milliseconds(20);
  // Limits for many changes: messages a second, messages in a burst, and places in the send queue
  // that are left to others.
  static constexpr double kBulkRate = 80, kBulkBurst = 32;
  static constexpr size_t kRoomLeft = 16;
  static constexpr absl::Duration kPause = absl::Milliseconds(1);  // when the send queue is full
  // A new version is repeated, as a header alone, this long after it was announced, and after each
  // repetition. So an agent that missed it notices soon: of a million with 5 % of all copies lost,
  // six miss four copies. Repetitions are a second apart at least, also while versions follow each
  // other.
  static constexpr std::array<absl::Duration, 5> kRepeatNew = {absl::Milliseconds(500),
                                                               absl::Seconds(1), absl::Seconds(1),
                                                               absl::Seconds(2), absl::Seconds(3)};
  // Every agent repeats its version after this time, plus or minus half.
  static constexpr absl::Duration kRepeat = absl::Seconds(30);
  // Agents answer a newcomer within this time.
  static constexpr absl::Duration kAnswerWithin = absl::Seconds(1);
  // Anybody can make up newcomers. So a port (GID) gets our whole state as the answer only once in
  // kAnswerAgain, and the group once in kGroupAnswerAgain, with kGroupAnswers in a burst. Other
  // newcomers are told our version, and request the state.
  static constexpr absl::Duration kAnswerAgain = absl::Minutes(1);
  static constexpr absl::Duration kGroupAnswerAgain = absl::Seconds(10);
  static constexpr int kGroupAnswers = 2;
  // Further newcomers wait for the repetition. Ports whose last answer is kept.
  static constexpr size_t kMaxNewcomers = 64;
  static constexpr size_t kMaxAnswered = 4096;

  // Sends a message to one agent.
  using Send = std::function<void(const PeerAddress& peer, const VPortMessage& message)>;

  // The pointers outlive the object.
  GroupAnnouncer(OwnAgent* own, ProtocolEvents* events, const Clock* clock, RandomBits random,
                 Send send, ProtocolCounters* counters);

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
  void Repeat();
  bool MayHaveState(const Gid& port);
  void AnswerNewcomers();
  absl::Time AnswerAt() const;

  OwnAgent* const own_;
  ProtocolEvents* const events_;
  const Clock* const clock_;
  const RandomBits random_;
  const Send send_;
  ProtocolCounters* const counters_;
  struct Newcomer {
    PeerAddress peer;
    bool may_have_state;
  };
  std::vector<Newcomer> newcomers_;                // since our last message to the group
  absl::flat_hash_map<Gid, absl::Time> answered_;  // when each port may have our state again
  absl::Time announce_at_ = absl::InfiniteFuture();
  absl::Time answer_at_ = absl::InfiniteFuture();
  absl::Time repeat_at_ = absl::InfiniteFuture();
  absl::Time repeated_at_ = absl::InfinitePast();
  size_t repetitions_ = kRepeatNew.size();  // of the present version
  bool is_announcing_ = false;              // some changes of an announcement are still to be sent
  absl::Time pause_until_ = absl::InfinitePast();
  TokenBucket budget_, bulk_, group_answers_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_GROUP_ANNOUNCER_H_
