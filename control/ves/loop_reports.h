// LoopReports: what a VES tells an operator of loops, and of MACs that two interfaces have: lines
// of the log.
#ifndef EOIB_CONTROL_VES_LOOP_REPORTS_H_
#define EOIB_CONTROL_VES_LOOP_REPORTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "fdb/fdb.h"
#include "fdb/vport.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/daemon/log.h"
#include "vswitch/forwarder/control_queues.h"

namespace eoib {

// Control thread only. The constructor's pointers outlive it.
class LoopReports {
 public:
  // The place of a vPort, in the operator's words.
  using Behind = std::function<std::string(VPortId vport)>;

  LoopReports(const std::string& ves, const Fdb* fdb, const Clock* clock, Behind behind)
      : ves_(ves),
        fdb_(fdb),
        behind_(std::move(behind)),
        damped_log_(clock, /*burst=*/10, absl::Seconds(6)),
        loop_log_(clock, /*burst=*/1, absl::Minutes(1)) {}

  // A MAC moved too often (Punt::Kind::kFrozen, kFlapping).
  void OnDamped(const Punt& punt);
  // The MAC of another host's interface came from a vPort of this one.
  void OnForeign(const Punt& punt);
  // Call it once a second with the count of frames that came from elsewhere with the MAC of an
  // interface of this host as source.
  void OnImpostors(uint64_t dropped);

 private:
  std::string Consequence(const Punt& punt) const;

  const std::string ves_;
  const Fdb* const fdb_;
  const Behind behind_;
  LogLimiter damped_log_, loop_log_;
  uint64_t damped_logged_ = 0;  // the count of damped moves at the last log line
  uint64_t impostors_ = 0;      // frames dropped for it at the last look
};

}  // namespace eoib

#endif  // EOIB_CONTROL_VES_LOOP_REPORTS_H_
