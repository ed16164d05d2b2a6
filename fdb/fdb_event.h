// What happened to an FDB, for those who watch it.
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
    kEvicted,    // was at `from`; made room for an entry of `to`
    kFlushed,    // `count` entries; of `from`, or of the VLAN of `key`, or all: see `scope`
    kFrozen,     // held at `from`, its home; moved too often, and was heard from `to`
    kThawed,     // at `from`
    kFlapping,   // moved too often, the last time from `from` to `to`, and is not frozen
    kRefused,    // sticky or frozen at `from`; heard from `to`
    kFixed,      // by the operator or the manager, to `to`
    kUnfixed,    // no more; was at `from`
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
