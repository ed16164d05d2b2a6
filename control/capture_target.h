// CaptureTarget: frames beside the HCA port that a capture can have, such as the wire side of an uplink. Control thread.
#ifndef EOIB_CONTROL_CAPTURE_TARGET_H_
#define EOIB_CONTROL_CAPTURE_TARGET_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "vswitch/fabric/capture_options.h"
#include "vswitch/fabric/capture_report.h"

namespace eoib {

class CaptureTarget {
 public:
  virtual ~CaptureTarget() = default;
  // The operator selects it by `uplink=NAME`.
  virtual const std::string& capture_name() const = 0;
  // These are like Hca's.
  virtual absl::Status StartCapture(const CaptureOptions& options) = 0;
  virtual absl::optional<CaptureReport> Capture() const = 0;
  virtual absl::StatusOr<CaptureReport> StopCapture() = 0;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_CAPTURE_TARGET_H_
