// ClaimArbiter: decides claims of MACs, ours and those of other agents.
//
// A new claimant takes the highest sequence number + 1. A remote claim that jumps further than kLargestJump counts only after
// the agent that holds the MAC left questions unanswered for kPatience, so that a broken agent cannot take MACs for ever with
// a huge number. After kLossesOfDuplicate lost claims within kWindow the later claimant stops claiming.
//
// Not thread-safe.
#ifndef EOIB_CONTROL_PROTOCOL_CLAIM_ARBITER_H_
#define EOIB_CONTROL_PROTOCOL_CLAIM_ARBITER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "control/protocol/mac_claims.h"
#include "control/protocol/own_agent.h"
#include "control/protocol/protocol_events.h"
#include "fdb/fdb_key.h"
#include "vswitch/base/clock.h"

namespace eoib {

class ClaimArbiter {
 public:
  static constexpr uint32_t kLargestJump = 1000;
  static constexpr absl::Duration kPatience = absl::Milliseconds(300);
  static constexpr absl::Duration kAskEvery = absl::Milliseconds(100);  // meanwhile
  // A holder whose claim ended because it was silent is asked again after this time, then after twice as long, and so on:
  // perhaps only the messages were lost, and it announces a claim once.
  static constexpr absl::Duration kAskAgain = absl::Seconds(5);
  static constexpr int kMostAskedAgain = 6;
  // Beyond, claims that jump do not count, and no MAC is freed because of its frames.
  static constexpr size_t kMaxQuestions = 256;
  static constexpr absl::Duration kWindow = absl::Seconds(180);
  static constexpr size_t kLossesOfDuplicate = 5;
  // Asks an agent whether it still has a MAC; the answer comes through OnAnswer.
  using Ask = std::function<void(const AgentId& agent, FdbKey key)>;

  // The pointers outlive the object.
  ClaimArbiter(OwnAgent* own, ProtocolEvents* events, const Clock* clock, Ask ask)
      : own_(own), events_(events), clock_(clock), ask_(std::move(ask)) {}

  // The MAC was heard behind our vPort, or is configured there (`sticky`). False if we stopped claiming it, or the holder's
  // claim cannot be exceeded. `least` is the lowest sequence number to claim with.
  bool Claim(FdbKey key, uint16_t vport, bool sticky = false, uint32_t least = 1);
  // It is no longer there.
  void Release(FdbKey key);
  // Another agent announced or withdrew a claim.
  void SetRemote(FdbKey key, const MacClaim& claim);
  void RemoveRemote(FdbKey key, const AgentId& agent);
  // A frame with this source came from another place than that of the agent that holds the MAC: ask it, and free the MAC if it
  // is silent.
  void Contest(FdbKey key);
  // `agent` said whether it has the MAC.
  void OnAnswer(FdbKey key, const AgentId& agent, bool has);

  void Run();
  absl::Time NextDeadline() const;
  absl::optional<MacClaim> Holder(FdbKey key) const { return claims_.Best(key); }
  absl::optional<MacClaim> Of(FdbKey key, const AgentId& agent) const { return claims_.Of(key, agent); }

 private:
  // A question to the holder of a MAC.
  struct Question {
    AgentId holder;
    absl::optional<MacClaim> challenger;  // whose claim counts if the holder is silent; none: the MAC is freed
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
  void Inquire(FdbKey key, const AgentId& holder, const absl::optional<MacClaim>& challenger);
  void Decide(FdbKey key);
  void NoteUnanswered(FdbKey key);
  void AskAgain();
  void Accept(FdbKey key, const MacClaim& claim);
  void Report(FdbKey key);
  void Lose(FdbKey key, const MacClaim& winner);
  bool HasStopped(FdbKey key) const;

  OwnAgent* const own_;
  ProtocolEvents* const events_;
  const Clock* const clock_;
  const Ask ask_;
  MacClaims claims_;
  absl::flat_hash_map<FdbKey, Question> questions_;
  absl::flat_hash_map<FdbKey, Unanswered> unanswered_;
  absl::flat_hash_map<FdbKey, Dispute> disputes_;
  absl::Time sweep_at_ = absl::InfinitePast();  // of disputes that are over
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_CLAIM_ARBITER_H_
