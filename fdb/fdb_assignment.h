// FdbAssignment: the policy for addresses that are assigned to a vPort: by an announcement, or by
// the operator (static).
#ifndef EOIB_FDB_FDB_ASSIGNMENT_H_
#define EOIB_FDB_FDB_ASSIGNMENT_H_

#include "absl/status/status.h"
#include "fdb/fdb_entries.h"
#include "fdb/fdb_eviction.h"
#include "fdb/fdb_key.h"
#include "fdb/fdb_types.h"
#include "fdb/vport.h"

namespace eoib {

// For the FDB's writer, under its lock. The functions are those of Fdb. The constructor's arguments
// outlive it.
class FdbAssignment {
 public:
  FdbAssignment(FdbEntries* entries, FdbEviction* eviction)
      : entries_(entries), eviction_(eviction) {}

  FdbLearnResult Assign(FdbKey key, VPortId vport, FdbOrigin origin);
  bool Withdraw(FdbKey key);
  absl::Status AddStatic(FdbKey key, VPortId vport);
  absl::Status RemoveStatic(FdbKey key);

 private:
  FdbLearnResult AssignOver(FdbKey key, const FdbEntries::Known& known, VPortId vport,
                            FdbOrigin origin);

  FdbEntries* const entries_;
  FdbEviction* const eviction_;
};

}  // namespace eoib

#endif  // EOIB_FDB_FDB_ASSIGNMENT_H_
