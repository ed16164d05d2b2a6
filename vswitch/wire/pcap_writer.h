// PcapWriter: writes captures of Ethernet frames, as pcap files of link type 1 with nanoseconds.
#ifndef EOIB_VSWITCH_WIRE_PCAP_WRITER_H_
#define EOIB_VSWITCH_WIRE_PCAP_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace eoib {

// For one thread at a time, but never a worker, because it writes to a file. Owns the file.
class PcapWriter {
 public:
  static constexpr size_t kMaxFrame = 262'144;   // tcpdump refuses more
  static constexpr size_t kRecordOverhead = 16;  // bytes of the file for each frame, beyond those of the frame

  // Creates `path` (capture_file.h) and buffers the file header.
  static absl::StatusOr<std::unique_ptr<PcapWriter>> Open(const std::string& path);
  // Flushes and closes. Errors are lost, so call Flush before.
  ~PcapWriter();
  PcapWriter(const PcapWriter&) = delete;
  PcapWriter& operator=(const PcapWriter&) = delete;

  // For a fifo that is full (WriteCaptureFile). By default it waits.
  void SetPatience(std::function<bool()> may_wait) { may_wait_ = std::move(may_wait); }

  // Adds a frame of `length` bytes, of which `frame` has the first ones, at most kMaxFrame. kInvalidArgument if the timestamp
  // is not between 1970 and 2106. After a failed write to the file every later call fails with the same error.
  absl::Status Write(absl::Time timestamp, absl::Span<const uint8_t> frame, size_t length);
  // Writes the buffer to the file.
  absl::Status Flush();

  uint64_t frames() const { return frames_; }
  // The file's size once flushed.
  uint64_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kBufferSize = 65'536;

  PcapWriter(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  void Append(const void* bytes, size_t length);

  const std::string path_;
  const int fd_;
  std::function<bool()> may_wait_ = [] { return true; };
  std::vector<uint8_t> buffer_;
  absl::Status status_;  // the first failed write to the file
  uint64_t frames_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_PCAP_WRITER_H_
