// CaptureOptions: where a capture of an HCA port goes, and what it records.
#ifndef EOIB_VSWITCH_FABRIC_CAPTURE_OPTIONS_H_
#define EOIB_VSWITCH_FABRIC_CAPTURE_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "vswitch/fabric/capture_filter.h"
#include "vswitch/wire/ib/erf.h"

namespace eoib {

struct CaptureOptions {
  // Implicit: most captures have no other option.
  CaptureOptions(std::string its_path) : path(std::move(its_path)) {}
  CaptureOptions(const char* its_path) : path(its_path) {}

  std::string path;  // of a file that does not exist yet, or of a fifo with a reader
  CaptureFilter filter;
  size_t snap_length = ErfWriter::kMaxPacket;  // bytes of each packet that are recorded, from the LRH on
  uint64_t limit = 0;                          // bytes of the file, at which the capture ends; 0: no limit
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_CAPTURE_OPTIONS_H_
