// FaultRule: the faults to simulate between two ports. An operator sets them, the subnet passes
// them to the receiving port, and its FaultInjector applies them.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_FAULT_RULE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_FAULT_RULE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "vswitch/base/address.h"

namespace eoib::softhca {

// The faults that a receiving port applies to datagrams of a source. All zero: none. A rule for a
// source goes before the rule for any source.
//
// Probabilities are in parts per million. Each datagram draws from a random sequence that restarts
// at `seed` whenever the port gets its rules, so the same traffic meets the same faults.
struct FaultRule {
  absl::optional<Gid> source;  // nullopt: every source without a rule of its own
  uint32_t loss_ppm = 0;
  uint32_t duplicate_ppm = 0;  // delivered twice
  // Held until the source's next datagram is delivered, or for kReorderPatience.
  uint32_t reorder_ppm = 0;
  absl::Duration delay;  // each datagram, in order; at most kMaxDelay
  uint64_t seed = 1;

  static constexpr absl::Duration kReorderPatience = absl::Milliseconds(10);
  static constexpr absl::Duration kMaxDelay = absl::Seconds(1);

  bool IsNone() const {
    return loss_ppm == 0 && duplicate_ppm == 0 && reorder_ppm == 0 && delay == absl::ZeroDuration();
  }
  friend bool operator==(const FaultRule&, const FaultRule&) = default;
};
// The most rules that a port gets.
inline constexpr size_t kMaxFaultRules = 128;
// kInvalidArgument if a probability or the delay is out of range.
absl::Status CheckFaultRule(const FaultRule& rule);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_FAULT_RULE_H_
