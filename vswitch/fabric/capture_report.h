// CaptureReport: the state of a capture of an HCA port.
#ifndef EOIB_VSWITCH_FABRIC_CAPTURE_REPORT_H_
#define EOIB_VSWITCH_FABRIC_CAPTURE_REPORT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace eoib {

struct CaptureReport {
  std::string path;
  uint64_t packets = 0;  // written
  uint64_t missed = 0;   // not written: no buffer space, or the file has failed
  absl::Status status;   // the error that ended it before it was stopped
  bool full = false;     // it ended at its limit
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_CAPTURE_REPORT_H_
