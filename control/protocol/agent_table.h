// AgentTable: the other agents, by their ids and by their addresses, and when something of each is
// due.
//
// A change of an agent has consequences: addresses that it no longer has are free, an agent that
// cannot be reached claims no MAC, and our own agent is told. The table brings them about.
//
// Not thread-safe.
#ifndef EOIB_CONTROL_PROTOCOL_AGENT_TABLE_H_
#define EOIB_CONTROL_PROTOCOL_AGENT_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "control/protocol/claim_arbiter.h"
#include "control/protocol/claim_updates.h"
#include "control/protocol/protocol_events.h"
#include "control/protocol/remote_agent.h"
#include "fdb/fdb_key.h"
#include "vswitch/base/address.h"
#include "vswitch/base/agent_id.h"
#include "vswitch/base/clock.h"

namespace eoib {

class AgentTable {
 public:
  // An agent of which nothing was heard for this long is gone: at least three repetitions were
  // lost.
  static constexpr absl::Duration kForget = absl::Seconds(150);
  // Limits of what others can fill: agents, and the bytes of their states (RemoteAgent::bytes): a
  // million MACs.
  static constexpr size_t kMaxAgents = 4096;
  static constexpr size_t kMaxBytes = 192 << 20;
  // The same at one port (GID). A port can make up ids, and those of others are not to suffer. An
  // agent with the most MACs has room here for a second state that comes in parts.
  static constexpr size_t kMaxAtPort = 16;
  static constexpr size_t kMaxBytesAtPort = 40 << 20;

  // The pointers outlive the object.
  AgentTable(ClaimArbiter* claims, ProtocolEvents* events, const Clock* clock)
      : claims_(claims), events_(events), clock_(clock) {}

  const std::map<AgentId, std::unique_ptr<RemoteAgent>>& agents() const { return agents_; }
  // The agent with this id, or that has proven that it receives at this address; or null.
  RemoteAgent* Find(const AgentId& id) const;
  RemoteAgent* At(const PeerAddress& peer) const;
  bool IsFull() const { return agents_.size() >= kMaxAgents; }
  bool HasRoomFor(size_t bytes, const Gid& port) const;

  // Requires that there is no such agent, and that the table is not full.
  RemoteAgent* Add(const AgentId& id, uint32_t incarnation, absl::Time now);
  void Forget(const AgentId& id);
  // The agent has returned a token from `peer`, so it may be used. An agent that had this address
  // before has it no more, and is forgotten if it has proven no other. At a port with too many
  // agents the one that was silent longest is forgotten.
  void Confirm(const PeerAddress& peer, RemoteAgent* agent, absl::Time now);
  // The agent has returned a token from `peer`, which it has not listed, in place of its other
  // addresses at that port. Its MACs stay where they are.
  void ReplaceAddressesAt(const PeerAddress& peer, RemoteAgent* agent);
  // The agent has started again and returned a token from `peer`. Its MACs stay until its new state
  // is here, and are now behind that address.
  void Restart(RemoteAgent* agent, uint32_t incarnation, const PeerAddress& peer, absl::Time now);

  // Calls `change`, which may change the agent's addresses, their state, and what it announces; it
  // returns whether it did, and says what differs in the view. Returns the same. Claims of many
  // MACs are updated later (RunClaimUpdates).
  bool Change(RemoteAgent* agent, absl::FunctionRef<bool(RemoteAgent::ViewChange* change)> change);
  // The agent's claim of `key` may have changed. An agent that cannot be reached claims nothing, so
  // its MACs flood.
  void UpdateClaim(const AgentId& agent, FdbKey key);
  // Updates some of the claims that are left.
  void RunClaimUpdates();

  // Call it when something of the agent may be due earlier than before.
  void Schedule(RemoteAgent* agent);
  // Agents of which something is due.
  std::vector<AgentId> Due(absl::Time now) const;
  absl::Time NextDeadline() const {
    const absl::Time next = claim_updates_.NextDeadline();
    return due_.empty() ? next : std::min(next, due_.begin()->first);
  }

 private:
  void Occupy(const PeerAddress& peer, RemoteAgent* agent);
  void UpdateFormerClaims(const AgentId& agent, AgentView::Macs macs);
  void UpdateAllClaims(const RemoteAgent& agent);
  std::set<AgentId> AgentsAt(const Gid& port) const;
  void TakeFrom(RemoteAgent* agent, const PeerAddress& peer);
  void MakeRoomAt(const Gid& gid, const AgentId& keep);

  ClaimArbiter* const claims_;
  ProtocolEvents* const events_;
  const Clock* const clock_;
  std::map<AgentId, std::unique_ptr<RemoteAgent>> agents_;
  std::map<PeerAddress, AgentId> by_address_;  // addresses in use, those of a port side by side
  // When to run each agent of which something is due.
  std::set<std::pair<absl::Time, AgentId>> due_;
  size_t bytes_ = 0;  // of all agents
  ClaimUpdates claim_updates_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_AGENT_TABLE_H_
