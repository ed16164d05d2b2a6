// The files of captures: how they are made, and written if they are fifos.
#ifndef EOIB_VSWITCH_WIRE_IB_CAPTURE_FILE_H_
#define EOIB_VSWITCH_WIRE_IB_CAPTURE_FILE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace eoib {

// Creates `path`, and returns a descriptor that the caller closes. Only the owner may read the
// file, because a capture shows users' traffic. kAlreadyExists if anything has that name, even a
// symbolic link, which is not followed: the program writes as root, in directories where others may
// write. But if `path` is a fifo, opens it; kFailedPrecondition if no process reads it,
// kPermissionDenied if it belongs to another user than the process's, or its group or others may
// use it.
absl::StatusOr<int> OpenCaptureFile(const std::string& path);

// Writes all bytes. While a fifo is full it waits, and asks `may_wait` ten times a second; if that
// is false, it fails.
absl::Status WriteCaptureFile(int fd, const std::string& path, absl::Span<const uint8_t> bytes,
                              const std::function<bool()>& may_wait);

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IB_CAPTURE_FILE_H_
