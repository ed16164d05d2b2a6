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
  // NOLINTBEGIN(google-explicit-constructor)
  CaptureOptions(std::string its_path) : path(std::move(its_path)) {}
  CaptureOptions(const char* its_path) : path(its_path) {}
  // NOLINTEND(google-explicit-constructor)

  std::string path;  // of a file that does not exist yet, or of a fifo with a reader
  CaptureFilter filter;
  // Bytes of each packet that are recorded, from the LRH on.
  size_t snap_length = ErfWriter::kMaxPacket;
  // Bytes of the file, at which the capture ends; 0: no limit.
  uint64_t limit = 0;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_CAPTURE_OPTIONS_H_
