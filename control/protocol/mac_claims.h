// MacClaims: which agent has each MAC, by the claims of all agents.
//
// Of several claims a sticky one holds, else the one with the highest sequence number; of equal ones that of the lower agent
// id (RFC 7432 §15).
//
// Not thread-safe.
#ifndef EOIB_CONTROL_PROTOCOL_MAC_CLAIMS_H_
#define EOIB_CONTROL_PROTOCOL_MAC_CLAIMS_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/optional.h"
#include "fdb/fdb_key.h"
#include "vswitch/base/agent_id.h"

namespace eoib {

struct MacClaim {
  AgentId agent;
  uint32_t sequence = 0;
  bool sticky = false;

  bool Beats(const MacClaim& other) const {
    if (sticky != other.sticky) return sticky;
    return sequence != other.sequence ? sequence > other.sequence : agent < other.agent;
  }
  friend bool operator==(const MacClaim&, const MacClaim&) = default;
};

class MacClaims {
 public:
  // The claim that holds, or nothing.
  absl::optional<MacClaim> Best(FdbKey key) const;
  // The claim of one agent, or nothing.
  absl::optional<MacClaim> Of(FdbKey key, const AgentId& agent) const;
  // The best claim of all agents but this one, or nothing.
  absl::optional<MacClaim> BestBut(FdbKey key, const AgentId& agent) const;
  // Sets or removes an agent's claim. Return whether another claim holds now, or the same one with another sequence number.
  bool Set(FdbKey key, const MacClaim& claim);
  bool Remove(FdbKey key, const AgentId& agent);

 private:
  // Few MACs have more than one claim at a time, so each has a short list, sorted by nothing.
  absl::flat_hash_map<FdbKey, std::vector<MacClaim>> claims_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_MAC_CLAIMS_H_
