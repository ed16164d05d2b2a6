// FdbLearning: the policy for addresses that are heard: which entry they displace, and whether a
// MAC may move.
#ifndef EOIB_FDB_FDB_LEARNING_H_
#define EOIB_FDB_FDB_LEARNING_H_

#include <cstdint>

#include "fdb/fdb_entries.h"
#include "fdb/fdb_eviction.h"
#include "fdb/fdb_key.h"
#include "fdb/fdb_types.h"
#include "fdb/move_damper.h"
#include "fdb/vport.h"
#include "vswitch/base/token_bucket.h"

namespace eoib {

// For the FDB's writer, under its lock. The constructor's arguments outlive it.
class FdbLearning {
 public:
  FdbLearning(FdbEntries* entries, FdbEviction* eviction, absl::Time now);

  // Fdb::Learn.
  FdbLearnResult Learn(FdbKey key, VPortId vport, FdbOrigin origin);
  // Fdb::Restore. The entry was last heard at the tick `seen`.
  FdbLearnResult Restore(FdbKey key, VPortId vport, FdbOrigin origin, uint16_t seen);
  // Ends the freeze of `key`; false if it is not frozen.
  bool Thaw(FdbKey key);

 private:
  using Known = FdbEntries::Known;

  FdbLearnResult AddNew(FdbKey key, const Known& known, VPortId vport, const MacEntry& entry);
  FdbLearnResult LearnOver(FdbKey key, const Known& known, VPortId vport, FdbOrigin origin);
  FdbLearnResult Move(FdbKey key, const Known& known, VPortId vport, FdbOrigin origin);
  FdbLearnResult Refuse(FdbKey key, const Known& known, VPortId vport);
  bool HoldAtHome(FdbKey key, const Known& known, VPortId claimant,
                  const MoveDamper::Judgement& judged);
  void ReportHeld(FdbKey key, VPortId from, VPortId claimant, const MoveDamper::Judgement& judged);

  FdbEntries* const entries_;
  FdbEviction* const eviction_;
  TokenBucket refusal_events_;
};

}  // namespace eoib

#endif  // EOIB_FDB_FDB_LEARNING_H_
