// MissingEntries: gives the FDB the announced MACs again that it has lost, because it was full when
// they were announced, or evicted them since.
//
// An announcement comes once, so it walks through all announced MACs once in kEvery, in slices of
// less than a millisecond. It evicts nothing: a MAC for which there is no room waits for the next
// walk.
#ifndef EOIB_CONTROL_VES_MISSING_ENTRIES_H_
#define EOIB_CONTROL_VES_MISSING_ENTRIES_H_

#include <functional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "control/protocol/vport_protocol.h"
#include "fdb/fdb.h"
#include "fdb/fdb_key.h"
#include "fdb/vport.h"
#include "vswitch/base/agent_id.h"
#include "vswitch/base/clock.h"
#include "vswitch/forwarder/vlan_policy.h"

namespace eoib {

// Control thread only. The constructor's arguments outlive it.
class MissingEntries {
 public:
  static constexpr absl::Duration kEvery = absl::Minutes(1);
  static constexpr absl::Duration kPause = absl::Milliseconds(20);  // between slices

  // `vlans`: those of the VES. `vport_of` has the vPort behind which an agent is, or None.
  MissingEntries(const VPortProtocol* protocol, Fdb* fdb, const VlanSet* vlans, const Clock* clock,
                 std::function<VPortId(const AgentId& agent)> vport_of)
      : protocol_(protocol),
        fdb_(fdb),
        vlans_(vlans),
        clock_(clock),
        vport_of_(std::move(vport_of)),
        next_(clock->Now() + kEvery) {}

  // Does the slice that is due.
  void Run();
  absl::Time NextDeadline() const {
    return protocol_->agents().empty() ? absl::InfiniteFuture() : next_;
  }

 private:
  // Where the next slice begins: behind this MAC of the agent, or, without one, behind the agent.
  struct Position {
    AgentId agent;
    absl::optional<FdbKey> key;
  };

  size_t PutBack(const RemoteAgent& agent, const std::vector<FdbKey>& keys);

  const VPortProtocol* const protocol_;
  Fdb* const fdb_;
  const VlanSet* const vlans_;
  const Clock* const clock_;
  const std::function<VPortId(const AgentId& agent)> vport_of_;
  Position after_;
  absl::Time next_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_VES_MISSING_ENTRIES_H_
