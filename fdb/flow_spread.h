// FlowSpread: assigns the flows of an aggregate to its members.
//
// Flows are hashed to 64 shares. Each share has an order of preference among the members and goes
// to the first one that is usable. The first places are dealt out evenly: the members' numbers of
// shares differ by at most one. A hash of share and member orders the rest (rendezvous hashing). So
// a lost member's shares are the only ones that move, and they spread over all other members; when
// it returns it gets them back. The result depends only on the members' keys, not on history.
#ifndef EOIB_FDB_FLOW_SPREAD_H_
#define EOIB_FDB_FLOW_SPREAD_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace eoib {

// Immutable.
class FlowSpread {
 public:
  static constexpr size_t kShares = 64;
  static constexpr size_t kMaxMembers = 8;

  // One key for each member, 1 to kMaxMembers. The order of the keys does not change which member
  // takes which share.
  explicit FlowSpread(absl::Span<const uint64_t> keys);

  // The member (an index into the keys) that takes `share` when the members in the bit mask
  // `usable` are up; -1 if none is.
  int Pick(size_t share, uint32_t usable) const;

 private:
  size_t members_;
  std::array<std::array<uint8_t, kMaxMembers>, kShares> order_;
};

}  // namespace eoib

#endif  // EOIB_FDB_FLOW_SPREAD_H_
