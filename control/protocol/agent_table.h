// AgentTable: the other agents, by their ids and by their addresses, and when something of each is due.
//
// A change of an agent has consequences: addresses that it no longer has are free, an agent that cannot be reached claims no
// MAC, and our own agent is told. The table brings them about.
//
// Not thread-safe.
#ifndef EOIB_CONTROL_PROTOCOL_AGENT_TABLE_H_
#define EOIB_CONTROL_PROTOCOL_AGENT_TABLE_H_

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
#include "control/protocol/protocol_events.h"
#include "control/protocol/remote_agent.h"
#include "fdb/fdb_key.h"
#include "vswitch/base/address.h"
#include "vswitch/base/agent_id.h"

namespace eoib {

class AgentTable {
 public:
  // An agent of which nothing was heard for this long is gone: at least three repetitions were lost.
  static constexpr absl::Duration kForget = absl::Seconds(150);
  // Limits of what others can fill: agents, and MACs, vPorts and ranges of VLANs of all of them.
  static constexpr size_t kMaxAgents = 4096;
  static constexpr size_t kMaxSize = 1 << 20;
  // Agents at one port (GID). A port can make up ids, and those of others are not to suffer.
  static constexpr size_t kMaxAtPort = 16;

  // The pointers outlive the object.
  AgentTable(ClaimArbiter* claims, ProtocolEvents* events) : claims_(claims), events_(events) {}

  const std::map<AgentId, std::unique_ptr<RemoteAgent>>& agents() const { return agents_; }
  // The agent with this id, or that uses this address; or null.
  RemoteAgent* Find(const AgentId& id) const;
  RemoteAgent* At(const PeerAddress& peer) const;
  bool IsFull() const { return agents_.size() >= kMaxAgents; }
  bool HasRoomFor(size_t elements) const { return size_ + elements <= kMaxSize; }

  // Requires that there is no such agent, and that the table is not full.
  RemoteAgent* Add(const AgentId& id, uint32_t incarnation, absl::Time now);
  void Forget(const AgentId& id);
  // `peer` speaks for `agent`. An agent that had this address before has it no more, and is forgotten if it was heard at no
  // other. At a port with too many agents the one that was silent longest is forgotten.
  void Occupy(const PeerAddress& peer, RemoteAgent* agent);
  // The agent speaks from `peer`, which it has not listed, in place of its other addresses at that port. Its MACs stay where
  // they are.
  void ReplaceAddressesAt(const PeerAddress& peer, RemoteAgent* agent);
  // The agent has started again, at `peer`. Its MACs stay until its new state is here, and are now behind that address.
  void Restart(RemoteAgent* agent, uint32_t incarnation, const PeerAddress& peer, absl::Time now);

  // Calls `change`, which may change the agent's addresses, their state, and what it announces; it returns whether it did, and
  // adds the keys of MACs that differ. Returns the same.
  bool Change(RemoteAgent* agent, absl::FunctionRef<bool(std::vector<FdbKey>* keys)> change);
  // The agent's claims of `keys` may have changed. An agent that cannot be reached claims nothing, so its MACs flood.
  void UpdateClaims(const RemoteAgent& agent, const std::vector<FdbKey>& keys);

  // To call when something of the agent may be due earlier than before.
  void Schedule(RemoteAgent* agent);
  // Agents of which something is due.
  std::vector<AgentId> Due(absl::Time now) const;
  absl::Time NextDeadline() const { return due_.empty() ? absl::InfiniteFuture() : due_.begin()->first; }

 private:
  void UpdateAllClaims(const RemoteAgent& agent);
  void TakeFrom(RemoteAgent* agent, const PeerAddress& peer);
  void MakeRoomAt(const Gid& gid, const AgentId& keep);

  ClaimArbiter* const claims_;
  ProtocolEvents* const events_;
  std::map<AgentId, std::unique_ptr<RemoteAgent>> agents_;
  std::map<PeerAddress, AgentId> by_address_;     // addresses in use, those of a port side by side
  std::set<std::pair<absl::Time, AgentId>> due_;  // when to run each agent of which something is due
  size_t size_ = 0;                               // of all agents
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_AGENT_TABLE_H_
