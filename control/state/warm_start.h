// Saves what a VES has learned, and restores it in the next run of the agent. saved_fdb.h has the
// file, restored_entries.h what happens until the other agents have told what they have.
#ifndef EOIB_CONTROL_STATE_WARM_START_H_
#define EOIB_CONTROL_STATE_WARM_START_H_

#include <cstddef>

#include "absl/time/time.h"
#include "control/state/saved_fdb.h"
#include "control/ves/ves.h"

namespace eoib {

// The learned, claimed and announced MACs of `ves`, at most `most`. Frozen ones are left out: it is
// not known where they are.
SavedVes CollectMacs(const Ves& ves, size_t most);

// Before the VES starts. Adds the MACs that have not aged out after `away`, are in a VLAN of the
// VES and of the vPort, and are not configured elsewhere. Returns their number.
size_t RestoreMacs(const SavedVes& saved, absl::Duration away, Ves* ves);

}  // namespace eoib

#endif  // EOIB_CONTROL_STATE_WARM_START_H_
