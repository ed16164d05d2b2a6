// StageProbe: tells a benchmark when a batch has passed each stage of a forwarder.
//
// Without a probe, as outside of benchmarks and tests, the cost is one branch per stage and batch.
#ifndef EOIB_VSWITCH_FORWARDER_STAGE_PROBE_H_
#define EOIB_VSWITCH_FORWARDER_STAGE_PROBE_H_

#include <cstddef>
#include <cstdint>

namespace eoib {

// In the order of a batch's path. No batch passes all of them. forwarder.h says what they do.
enum class Stage : uint8_t {
  kReceive,      // out of the port or the queue pair, into buffers
  kDecapsulate,  // from the fabric
  kParse,
  kAdmit,
  kCanonicalise,  // from a port
  kLearn,
  kResolve,
  kTransmit,  // to each frame's port, or into the send list
  kFlush,     // held-back frames to the port; the send list to the queue pair
  kRefill,    // from the fabric
  kReap,
};
inline constexpr size_t kStages = static_cast<size_t>(Stage::kReap) + 1;

class StageProbe {
 public:
  virtual ~StageProbe() = default;
  // Called by the forwarder's worker, once per stage and batch.
  virtual void Passed(Stage stage) noexcept = 0;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FORWARDER_STAGE_PROBE_H_
