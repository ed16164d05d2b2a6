// ClaimUpdates: changes of many claims of an agent, told to the claim arbiter a few at a time.
//
// An agent may have 65,536 MACs, and one small message makes it come, go, or change all of them.
// The control thread has other work meanwhile, so it updates kSlice claims in each turn. An update
// compares what the agent has now with what the arbiter knows, so updates may be repeated and come
// in any order. The updates of all MACs of an agent begin at most once in kPause.
//
// Not thread-safe.
#ifndef EOIB_CONTROL_PROTOCOL_CLAIM_UPDATES_H_
#define EOIB_CONTROL_PROTOCOL_CLAIM_UPDATES_H_

#include <cstddef>
#include <list>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "control/protocol/agent_view.h"
#include "fdb/fdb_key.h"
#include "vswitch/base/agent_id.h"

namespace eoib {

class ClaimUpdates {
 public:
  static constexpr size_t kSlice = 128;
  static constexpr absl::Duration kPause = absl::Seconds(1);

  // Plans an update of each MAC in the agent's view.
  void AddAll(const AgentId& agent, absl::Time now);
  // Plans an update of MACs that the agent had.
  void AddFormer(const AgentId& agent, AgentView::Macs macs);
  absl::Time NextDeadline() const;
  // Calls `update` for the next kSlice MACs that are due. `view_of` returns the agent's view, or
  // null if there is no such agent.
  void Run(absl::Time now, absl::FunctionRef<const AgentView*(const AgentId&)> view_of,
           absl::FunctionRef<void(const AgentId&, FdbKey)> update);

 private:
  struct Plan {
    AgentId agent;
    bool of_view = false;  // of the agent's view, else of `former`
    FdbKey next;           // the first key that is not updated yet
    absl::Time begin = absl::InfinitePast();
    AgentView::Macs former;
  };
  using Plans = std::list<Plan>;

  Plans::iterator Due(absl::Time now);

  Plans plans_;  // in the order in which they were made
  // When the last plan of an agent's view began, if not kPause ago.
  absl::flat_hash_map<AgentId, absl::Time> begun_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_CLAIM_UPDATES_H_
