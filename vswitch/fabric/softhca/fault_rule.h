// A fault to simulate on the way from one port to another: what an operator asks for, the subnet tells and the fault injector
// does.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_FAULT_RULE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_FAULT_RULE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "fdb/address.h"

namespace eoib::softhca {

// What a receiving port does to datagrams on their way from a source, before it looks at them. All zero: nothing. A port has
// a rule for any source, and rules for sources by GID, which go before it.
//
// Probabilities in parts per million, decided for each datagram by a random sequence of its own that begins at `seed` whenever
// the rules are told: the same traffic meets the same fate.
struct FaultRule {
  absl::optional<Gid> source;  // nothing: every source that has no rule of its own
  uint32_t loss_ppm = 0;
  uint32_t duplicate_ppm = 0;  // delivered twice
  uint32_t reorder_ppm = 0;    // kept back until the source's next datagram has been delivered, or for kReorderPatience
  absl::Duration delay;        // each datagram, in order; at most kMaxDelay
  uint64_t seed = 1;

  static constexpr absl::Duration kReorderPatience = absl::Milliseconds(10);
  static constexpr absl::Duration kMaxDelay = absl::Seconds(1);

  bool IsNone() const { return loss_ppm == 0 && duplicate_ppm == 0 && reorder_ppm == 0 && delay == absl::ZeroDuration(); }
  friend bool operator==(const FaultRule&, const FaultRule&) = default;
};
// That a port is told at most.
inline constexpr size_t kMaxFaultRules = 128;
// kInvalidArgument if a probability or the delay is out of range.
absl::Status CheckFaultRule(const FaultRule& rule);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_FAULT_RULE_H_
