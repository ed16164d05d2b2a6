// The options, results and counters of an FDB.
#ifndef EOIB_FDB_FDB_TYPES_H_
#define EOIB_FDB_FDB_TYPES_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "fdb/move_damper.h"
#include "fdb/vport.h"
#include "vswitch/base/address.h"
#include "vswitch/base/counters.h"

namespace eoib {

struct FdbOptions {
  // Zero: learned entries never age. Above eight hours an entry may live one part in 28,800 longer.
  absl::Duration ageing = absl::Seconds(300);
  size_t limit = 65536;
  size_t vport_limit = ~size_t{0};  // of each vPort, unless its policy says otherwise
  MoveDamper::Options damping = {};
  // The claimant's GID, for the damper; called with the FDB's lock held.
  MoveDamper::GidOf gid_of = nullptr;
};

struct FdbVPortPolicy {
  absl::optional<size_t> limit;
  bool sticky = false;
};

// The counters. X(member, help)
#define EOIB_FDB_COUNTERS(X)                                                       \
  X(learned, "addresses learned")                                                  \
  X(moved, "addresses that moved to another vPort")                                \
  X(aged, "addresses not heard for the ageing time")                               \
  X(flushed, "addresses flushed")                                                  \
  X(evicted, "addresses that made room for others, at a limit")                    \
  X(learn_limited, "addresses not learned because of a limit")                     \
  X(announced, "addresses first known by an announcement")                         \
  X(overruled, "addresses heard elsewhere than static or local entries say")       \
  X(sticky_refused, "addresses heard elsewhere than at the vPort that keeps them") \
  X(frozen_refused, "addresses heard elsewhere than where they are frozen")        \
  X(froze, "addresses frozen because they moved too often")                        \
  X(flapping, "addresses that moved too often and were not frozen")                \
  X(thawed, "frozen addresses that may move again")                                \
  X(announce_refused, "announcements that a stronger entry or a better claim stood against")

struct FdbCounters {
  EOIB_COUNTERS(FdbCounters, uint64_t, EOIB_FDB_COUNTERS)
};

// The FDB's reaction to an address that was heard or announced.
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
  // Where the MAC was, for kMoved, kOverruled and kPinned; else none.
  VPortId previous = VPortId::None();
  FdbDamped damped = FdbDamped::kNo;
  bool is_static = false;  // for kOverruled: the stronger entry is a static one
};

// A group or zero address is never behind a vPort.
inline bool IsValidSource(MacAddr mac) { return !mac.IsGroup() && !mac.IsZero(); }

}  // namespace eoib

#endif  // EOIB_FDB_FDB_TYPES_H_
