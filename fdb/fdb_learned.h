// FdbLearned: what an FDB did with an address that was heard or announced.
#ifndef EOIB_FDB_FDB_LEARNED_H_
#define EOIB_FDB_FDB_LEARNED_H_

#include <cstdint>

#include "fdb/fdb_key.h"
#include "fdb/vport.h"

namespace eoib {

enum class FdbLearned : uint8_t {
  kNew,        // there was no entry
  kMoved,      // the entry was behind another vPort
  kKnown,      // the entry was right already, and was refreshed
  kOverruled,  // a stronger entry names another vPort and stays
  kPinned,     // it is sticky elsewhere, or it moves too often and was held at its home
  kLimit,      // a limit left no room
  kGroup,      // a group or zero address is not a valid source
};

enum class FdbDamped : uint8_t {
  kNo,
  kFlapping,  // it moves too often, but is not frozen
  kFrozen,    // it moves too often, and has just been frozen
};

struct FdbLearnResult {
  FdbLearned what;
  VPortId previous = VPortId::None();  // where the MAC was, for kMoved, kOverruled and kPinned; else none
  FdbDamped damped = FdbDamped::kNo;
};

// Whether there is room for a new entry. kHostSpent: the host's budget is used up, and another VES may have to evict.
enum class FdbRoom : uint8_t { kThere, kNone, kHostSpent };

// A group or zero address is never behind a vPort.
inline bool IsValidSource(MacAddr mac) { return !mac.IsGroup() && !mac.IsZero(); }

}  // namespace eoib

#endif  // EOIB_FDB_FDB_LEARNED_H_
