// ClaimPoll: asks the other agents which of two established sticky claims holds, ours or another
// agent's.
//
// Both were made in good faith, on the two sides of a partition, or one of them is a lie. All
// members keep the claim that they heard first, so the votes of their ports (GIDs) tell. A port
// votes once, whatever number of agents it makes up. We lose if most ports that answered are
// against us, or half of them if the rival has the lower id. As long as no third port answers,
// nothing is decided.
//
// Not thread-safe.
#ifndef EOIB_CONTROL_PROTOCOL_CLAIM_POLL_H_
#define EOIB_CONTROL_PROTOCOL_CLAIM_POLL_H_

#include <cstddef>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "fdb/fdb_key.h"
#include "vswitch/base/address.h"
#include "vswitch/base/agent_id.h"
#include "vswitch/base/clock.h"

namespace eoib {

class ClaimPoll {
 public:
  // Answers are awaited for this time, and the next poll begins after kPollEvery.
  static constexpr absl::Duration kPatience = absl::Seconds(1);
  static constexpr absl::Duration kPollEvery = absl::Seconds(10);
  // MACs of a poll. Further ones wait for the next.
  static constexpr size_t kMaxMacs = 128;

  ClaimPoll(const AgentId* own, const Clock* clock) : own_(own), clock_(clock) {}

  // `rival` claims a MAC of ours; or no longer.
  void Add(FdbKey key, const AgentId& rival);
  void Remove(FdbKey key) { disputes_.erase(key); }
  // An agent at `port` says whether another agent than we holds the MAC.
  void OnVote(FdbKey key, const Gid& port, bool against);

  // The MACs to ask for now, in the order of their last polls.
  std::vector<FdbKey> TakeQuestions();
  // The MACs whose poll has ended, and which we have lost.
  std::vector<FdbKey> TakeLost();
  absl::Time NextDeadline() const { return disputes_.empty() ? absl::InfiniteFuture() : next_; }

 private:
  struct Dispute {
    AgentId rival;
    bool asked = false;
    absl::flat_hash_map<Gid, bool> votes;  // of each port: against us
  };

  bool IsLost(const Dispute& dispute) const;

  const AgentId* const own_;
  const Clock* const clock_;
  std::map<FdbKey, Dispute> disputes_;
  FdbKey after_;         // the last MAC that was asked for
  bool asking_ = false;  // a poll runs until next_; else the next one begins then
  absl::Time next_ = absl::InfinitePast();
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_CLAIM_POLL_H_
