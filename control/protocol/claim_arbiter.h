// ClaimArbiter: decides claims of MACs, ours and those of other agents.
//
// A new claimant takes the highest sequence number + 1. A remote claim that is too far above the
// holder's to count (MacClaims) has the holder asked: its claim ends if it leaves questions
// unanswered for kPatience. After kLossesOfDuplicate lost claims within kWindow the later claimant
// stops claiming.
//
// A new claim is tentative if it is sticky or our agent is new, until no better one was heard for
// kTentative. A claim that is lost ends, but that of a configured MAC stays on standby.
//
// Threads: the control thread; VPortProtocol owns it. It calls the events from its own functions,
// and they must not call back.
//
// Invariants: a claim of ours is in claims_ and in OwnAgent with the same sequence and stage
// (SetOwn, Lose). A candidate is a claim of ours that is not established. A configured MAC is
// claimed until Release, at worst on standby.
#ifndef EOIB_CONTROL_PROTOCOL_CLAIM_ARBITER_H_
#define EOIB_CONTROL_PROTOCOL_CLAIM_ARBITER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "control/protocol/claim_poll.h"
#include "control/protocol/mac_claims.h"
#include "control/protocol/own_agent.h"
#include "control/protocol/protocol_counters.h"
#include "control/protocol/protocol_events.h"
#include "fdb/fdb_key.h"
#include "vswitch/base/clock.h"

namespace eoib {

class ClaimArbiter {
 public:
  // A claim is established after this time, if no better one was heard and our agent had an
  // address.
  static constexpr absl::Duration kTentative = absl::Seconds(1);
  // An agent says that it holds a MAC that we have claimed. Its state may still be on its way for
  // this time.
  static constexpr absl::Duration kStateWithin = absl::Seconds(5);
  static constexpr absl::Duration kLongestTentative = absl::Seconds(10);
  static constexpr absl::Duration kPatience = absl::Milliseconds(300);
  static constexpr absl::Duration kAskEvery = absl::Milliseconds(100);  // meanwhile
  // A holder whose claim ended because it was silent is asked again after this time, then after
  // twice as long, and so on: perhaps only the messages were lost, and it announces a claim once.
  static constexpr absl::Duration kAskAgain = absl::Seconds(5);
  static constexpr int kMostAskedAgain = 6;
  // Beyond, holders are not asked.
  static constexpr size_t kMaxQuestions = 256;
  static constexpr absl::Duration kWindow = absl::Seconds(180);
  static constexpr size_t kLossesOfDuplicate = 5;
  // Asks an agent whether it still has a MAC; the answer comes through OnAnswer.
  using Ask = std::function<void(const AgentId& agent, FdbKey key)>;

  // Its messages to other agents, and its knowledge of them.
  struct Agents {
    Ask ask;
    Ask defend;  // tells an agent that a MAC is ours
    // Asks many agents who holds the MACs; their votes come through OnVote.
    std::function<void(const std::vector<FdbKey>& keys)> poll;
    std::function<uint32_t(const AgentId& agent)> incarnation_of;
  };

  // The pointers outlive the object.
  ClaimArbiter(OwnAgent* own, ProtocolEvents* events, const Clock* clock, Agents agents,
               ProtocolCounters* counters)
      : own_(own),
        events_(events),
        clock_(clock),
        agents_(std::move(agents)),
        counters_(counters),
        poll_(&own->id(), clock) {}

  // We have an address again, after a time without. Others may have claimed our MACs meanwhile.
  void OnAddress();

  // The MAC was heard behind our vPort, or is configured there (`sticky`). False if we stopped
  // claiming it, or the holder's claim cannot be exceeded. `least` is the lowest sequence number to
  // claim with.
  bool Claim(FdbKey key, uint16_t vport, bool sticky = false, uint32_t least = 1);
  // The MAC is configured at our vPort, and stays there whatever others claim.
  void ClaimConfigured(FdbKey key, uint16_t vport);
  // It is no longer there.
  void Release(FdbKey key);
  // Our id was `former` until now: our claims are those of the new one.
  void TakeNewId(const AgentId& former);
  // Another agent announced or withdrew a claim.
  void SetRemote(FdbKey key, const MacClaim& claim);
  void RemoveRemote(FdbKey key, const AgentId& agent);
  // A frame with this source came from another place than that of the agent that holds the MAC: ask
  // it, and free the MAC if it is silent.
  void Contest(FdbKey key);
  // `agent` said whether it has the MAC.
  void OnAnswer(FdbKey key, const AgentId& agent, bool has);
  // An agent said that it holds the MAC with an established sticky claim.
  void OnHeldElsewhere(FdbKey key);
  // An agent at `port` says whether another agent than we holds the MAC.
  void OnVote(FdbKey key, const Gid& port, bool against) { poll_.OnVote(key, port, against); }

  void Run();
  absl::Time NextDeadline() const;
  absl::optional<MacClaim> Holder(FdbKey key) const { return claims_.Best(key); }
  absl::optional<MacClaim> Of(FdbKey key, const AgentId& agent) const {
    return claims_.Of(key, agent);
  }
  // The configured MACs that another agent claims, too, with the best of these claims.
  const absl::btree_map<FdbKey, MacClaim>& conflicts() const { return conflicts_; }

 private:
  // One run of an agent; zero: none.
  struct AgentRun {
    AgentId agent;
    uint32_t incarnation = 0;
  };
  // A claim of ours that is not established.
  struct Candidate {
    absl::Time since;
    absl::Time due;  // when it is established; never while a better claim is known
  };
  // A question to the holder of a MAC. The MAC is freed if it is silent.
  struct Question {
    AgentId holder;
    absl::Time deadline;
    absl::Time ask_at;
  };
  // A MAC over which we quarrel with another agent.
  struct Dispute {
    bool we_came_later = false;
    absl::Time last = absl::InfinitePast();  // change of hands
    std::vector<absl::Time> losses;          // within kWindow
    absl::Time stopped_until = absl::InfinitePast();
  };

  // A MAC that was freed because its holder was silent.
  struct Unanswered {
    AgentId holder;
    int asked = 0;
    absl::Time ask_at;
  };

  bool IsOver(const Dispute& dispute) const;
  Dispute& DisputeOver(FdbKey key);
  void SetOwn(FdbKey key, const AgentView::Mac& mac);
  void SetStage(FdbKey key, ClaimStage stage);
  void Establish();
  void Review(FdbKey key);
  void NoteConflict(FdbKey key, const absl::optional<MacClaim>& rival);
  void YieldTo(FdbKey key, const MacClaim& rival);
  void RunPoll();
  void Inquire(FdbKey key, const AgentId& holder);
  void Decide(FdbKey key);
  void NoteUnanswered(FdbKey key);
  void AskAgain();
  void Drop(FdbKey key, const AgentId& agent);
  void Report(FdbKey key);
  void Lose(FdbKey key, const MacClaim& winner);
  bool HasStopped(FdbKey key) const;

  OwnAgent* const own_;
  ProtocolEvents* const events_;
  const Clock* const clock_;
  const Agents agents_;
  ProtocolCounters* const counters_;
  MacClaims claims_;
  absl::btree_map<FdbKey, Candidate> candidates_;
  absl::Time settled_at_ = absl::InfiniteFuture();    // when our agent is no longer new
  absl::Time establish_at_ = absl::InfiniteFuture();  // when to look at the candidates again
  // Our configured MACs, each with the run of an agent behind whose claim ours was on standby the
  // last time. Ours yields to that one when it returns, as after a partition.
  absl::btree_map<FdbKey, AgentRun> configured_;
  absl::btree_map<FdbKey, MacClaim> conflicts_;
  ClaimPoll poll_;
  absl::flat_hash_map<FdbKey, Question> questions_;
  absl::flat_hash_map<FdbKey, Unanswered> unanswered_;
  absl::flat_hash_map<FdbKey, Dispute> disputes_;
  absl::Time sweep_at_ = absl::InfinitePast();  // of disputes that are over
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_CLAIM_ARBITER_H_
