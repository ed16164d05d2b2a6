// MacClaims: which agent has each MAC, by the claims of all agents.
//
// An established sticky claim holds, the earliest one if there are several: it yields to no claim
// that comes later. Else another sticky claim holds. Else the claim with the highest sequence
// number does (RFC 7432 §15), but claims far above the others do not count (kLargestJump). An
// established claim goes before a tentative one, and a tentative one before one on standby, if they
// are equal otherwise; then the lower agent id decides. So all agents with the same claims come to
// the same result, except that two established sticky claims are decided by ClaimPoll.
//
// Not thread-safe.
#ifndef EOIB_CONTROL_PROTOCOL_MAC_CLAIMS_H_
#define EOIB_CONTROL_PROTOCOL_MAC_CLAIMS_H_

#include <cstdint>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/types/optional.h"
#include "fdb/fdb_key.h"
#include "vswitch/base/agent_id.h"
#include "vswitch/wire/vport_message.h"

namespace eoib {

struct MacClaim {
  AgentId agent;
  uint32_t sequence = 0;
  bool sticky = false;
  ClaimStage stage = ClaimStage::kEstablished;

  // Whether the claim yields to none that comes later.
  bool IsFixed() const { return sticky && stage == ClaimStage::kEstablished; }
  // Returns whether the claim goes before `other`. Between two fixed claims the caller decides: the
  // earlier one holds.
  bool Beats(const MacClaim& other) const {
    if (sticky != other.sticky) return sticky;
    if (!sticky && sequence != other.sequence) return sequence > other.sequence;
    return stage != other.stage ? stage < other.stage : agent < other.agent;
  }
  friend bool operator==(const MacClaim&, const MacClaim&) = default;
};

class MacClaims {
 public:
  // In the order of their sequence numbers, a claim that is more than this above the one before
  // does not count, nor do those above it: a broken agent cannot take MACs for ever with a huge
  // number.
  static constexpr uint32_t kLargestJump = 1000;

  // The claim that holds, or nothing.
  absl::optional<MacClaim> Best(FdbKey key) const;
  // The claim of one agent, or nothing.
  absl::optional<MacClaim> Of(FdbKey key, const AgentId& agent) const;
  // The best claim of all agents but this one, or nothing.
  absl::optional<MacClaim> BestBut(FdbKey key, const AgentId& agent) const;
  // Sets or removes an agent's claim. Return whether another claim holds now, or the same one in
  // another form.
  bool Set(FdbKey key, const MacClaim& claim);
  bool Remove(FdbKey key, const AgentId& agent);

 private:
  // Few MACs have more than one claim at a time, so each has a short list. Fixed claims are in the
  // order in which they became fixed. A hash table would take milliseconds for the insertion that
  // makes it grow.
  absl::btree_map<FdbKey, std::vector<MacClaim>> claims_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_MAC_CLAIMS_H_
