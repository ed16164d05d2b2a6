// FdbEvent: one change of an FDB, for readers of its event ring.
#ifndef EOIB_FDB_FDB_EVENT_H_
#define EOIB_FDB_FDB_EVENT_H_

#include <cstdint>

#include "fdb/event_ring.h"
#include "fdb/fdb_key.h"
#include "fdb/vport.h"

namespace eoib {

struct FdbEvent {
  enum class Kind : uint8_t {
    kLearned,    // at `to`
    kMoved,      // from `from` to `to`
    kAged,       // was at `from`
    kEvicted,    // was at `from`; made room for an entry at `to`
    kFlushed,    // `count` entries: of `from`, of the VLAN of `key`, or all; `scope` says which
    kFrozen,     // held at `from`, its home; it moved too often and was last heard from `to`
    kThawed,     // at `from`
    kFlapping,   // moved too often, last from `from` to `to`, but is not frozen
    kRefused,    // sticky or frozen at `from`, but heard from `to`
    kFixed,      // set to `to` by the operator or the manager
    kUnfixed,    // a fixed entry at `from` was removed
    kAnnounced,  // at `to`
  };
  enum class Scope : uint8_t { kEntry, kVPort, kVlan, kAll };

  uint64_t nanoseconds = 0;  // since the clock's epoch
  FdbKey key;
  VPortId from = VPortId::None(), to = VPortId::None();
  uint32_t count = 1;
  Kind kind = Kind::kLearned;
  Scope scope = Scope::kEntry;
  uint16_t unused = 0;
};

using FdbEvents = EventRing<FdbEvent>;

}  // namespace eoib

#endif  // EOIB_FDB_FDB_EVENT_H_
