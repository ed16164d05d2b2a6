// RestoredEntries: the entries of a former run (saved_fdb.h) that the other agents have not
// confirmed yet.
//
// The other agents may have changed while this one was away. So a restored entry counts as learned:
// what is announced or heard displaces it. In the first seconds, until they have told what they
// have, this agent does not claim its restored MACs. After that the MACs behind agents that were
// not heard are flushed.
#ifndef EOIB_CONTROL_VES_RESTORED_ENTRIES_H_
#define EOIB_CONTROL_VES_RESTORED_ENTRIES_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "fdb/fdb.h"
#include "fdb/fdb_key.h"
#include "fdb/vport.h"
#include "fdb/vport_directory.h"
#include "vswitch/base/address.h"
#include "vswitch/base/agent_id.h"
#include "vswitch/base/clock.h"

namespace eoib {

// Control thread. The constructor's arguments outlive it.
class RestoredEntries {
 public:
  // An agent answers a newcomer within a second (GroupAnnouncer::kAnswerWithin). A lost answer is
  // requested again a second later.
  static constexpr absl::Duration kSettle = absl::Seconds(3);

  RestoredEntries(Fdb* fdb, VPortDirectory* directory, const Clock* clock)
      : fdb_(fdb), directory_(directory), clock_(clock) {}

  // Entries were restored.
  void Begin() { waits_ = true; }
  // Behind `vport`, an agent's that was at `peer`.
  void AddAgent(const AgentId& agent, VPortId vport, const PeerAddress& peer) {
    agents_[agent] = {vport, peer};
  }
  // For a sticky vPort of ours. It neither ages nor moves, so it comes back when it is known that
  // no other agent has it.
  void AddSticky(FdbKey key, VPortId vport) { sticky_.emplace_back(key, vport); }
  // Our vPort is gone.
  void RemoveVPort(VPortId vport);

  // This agent can send and receive from now on.
  void OnAddress();
  // `agent` is heard at `peer`. Returns the vPort with its restored MACs, or None.
  VPortId Take(const AgentId& agent, const PeerAddress& peer);
  // Whether restored MACs may be claimed.
  bool IsSettled() const { return !waits_; }

  void Run();
  absl::Time NextDeadline() const { return waits_ ? settles_at_ : absl::InfiniteFuture(); }

 private:
  struct Agent {
    VPortId vport;
    PeerAddress peer;
  };

  Fdb* const fdb_;
  VPortDirectory* const directory_;
  const Clock* const clock_;
  bool waits_ = false;
  absl::Time settles_at_ = absl::InfiniteFuture();
  absl::flat_hash_map<AgentId, Agent> agents_;
  std::vector<std::pair<FdbKey, VPortId>> sticky_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_VES_RESTORED_ENTRIES_H_
