// FlowSpread: which of an aggregate's members takes which share of the flows.
//
// Flows are hashed to 64 shares. Each share has an order of preference among the members and goes to the first that is usable.
// Who is at home in a share (comes first) is dealt out such that the members' shares differ by one at most. Behind it comes
// whoever scores higher by a hash of share and member (rendezvous hashing). So if a member is lost its shares alone move, to
// all the others; when it is back it has what it had; and all of that follows from the members' keys, not from what happened
// before.
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

  // `keys` tell the members apart, from 1 to kMaxMembers of them. A member's position among them does not matter.
  explicit FlowSpread(absl::Span<const uint64_t> keys);

  // The member (an index into the keys) that takes `share` if those in the bit mask `usable` can; -1 if there are none.
  int Pick(size_t share, uint32_t usable) const;

 private:
  size_t members_;
  std::array<std::array<uint8_t, kMaxMembers>, kShares> order_;
};

}  // namespace eoib

#endif  // EOIB_FDB_FLOW_SPREAD_H_
