// FdbOptions, and the counters of an FDB.
#ifndef EOIB_FDB_FDB_OPTIONS_H_
#define EOIB_FDB_FDB_OPTIONS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "fdb/fdb_budget.h"
#include "fdb/move_damper.h"

namespace eoib {

struct FdbOptions {
  // Zero: learned entries never age. Above eight hours an entry may live one part in 28,800 longer.
  absl::Duration ageing = absl::Seconds(300);
  size_t limit = 65536;
  size_t vport_limit = ~size_t{0};  // of each vPort, unless its policy says otherwise
  MoveDamper::Options damping = {};
  FdbBudget* budget = nullptr;         // the host's; outlives the FDB
  MoveDamper::GidOf gid_of = nullptr;  // the claimant's GID, for the damper; called with the FDB's lock held
};

struct FdbVPortPolicy {
  absl::optional<size_t> limit;
  bool sticky = false;
};

// X(member, help)
#define EOIB_FDB_COUNTERS(X)                                                            \
  X(learned, "addresses learned")                                                       \
  X(moved, "addresses that moved to another vPort")                                     \
  X(aged, "addresses not heard for the ageing time")                                    \
  X(flushed, "addresses flushed")                                                       \
  X(evicted, "addresses that made room for others, at a limit")                         \
  X(learn_limited, "addresses not learned because of a limit")                          \
  X(announced, "addresses first known by an announcement")                              \
  X(overruled, "addresses heard elsewhere than static, manager's or local entries say") \
  X(sticky_refused, "addresses heard elsewhere than at the vPort that keeps them")      \
  X(frozen_refused, "addresses heard elsewhere than where they are frozen")             \
  X(froze, "addresses frozen because they moved too often")                             \
  X(flapping, "addresses that moved too often and were not frozen")                     \
  X(thawed, "frozen addresses that may move again")                                     \
  X(announce_refused, "announcements that a stronger entry or a better claim stood against")

struct FdbCounters {
#define EOIB_X(member, help) uint64_t member = 0;
  EOIB_FDB_COUNTERS(EOIB_X)
#undef EOIB_X
};

}  // namespace eoib

#endif  // EOIB_FDB_FDB_OPTIONS_H_
