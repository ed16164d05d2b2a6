// ErfWriter: writes captures of whole InfiniBand packets that tcpdump and Wireshark can read.
//
// A capture is a pcap file of link type 197 (ERF), with each packet, from LRH to VCRC, in an ERF
// record of type 21 (InfiniBand). Link type 247 (InfiniBand) would be simpler, but tshark 4.0
// refuses it. A comment on the whole capture goes into a provenance record (type 27). See
// wire_format.md.
#ifndef EOIB_VSWITCH_WIRE_IB_ERF_H_
#define EOIB_VSWITCH_WIRE_IB_ERF_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace eoib {

inline constexpr uint32_t kLinkTypeErf = 197;
inline constexpr uint8_t kErfTypeInfiniband = 21;
inline constexpr uint8_t kErfTypeMeta = 27;

// For one thread at a time, but never a worker, because it writes to a file. Owns the file.
class ErfWriter {
 public:
  // Creates `path` (capture_file.h) and buffers the file header. Packets are marked with capture
  // interface `interface`, 0 to 3.
  static absl::StatusOr<std::unique_ptr<ErfWriter>> Open(const std::string& path,
                                                         uint8_t interface = 0);
  // The same for an open file, which the writer closes. `path` is its name in messages.
  static std::unique_ptr<ErfWriter> Adopt(int fd, const std::string& path, uint8_t interface = 0);
  // Flushes and closes. Errors are lost, so call Close to get them.
  ~ErfWriter();
  ErfWriter(const ErfWriter&) = delete;
  ErfWriter& operator=(const ErfWriter&) = delete;

  // For a fifo that is full: a write waits for its reader while `may_wait` is true, which it asks
  // ten times a second; then it fails. By default it waits.
  void SetPatience(std::function<bool()> may_wait) { may_wait_ = std::move(may_wait); }

  // Adds one packet, the concatenation of `pieces`. If the packet is longer than that, `length` is
  // its length. kInvalidArgument if it is longer than kMaxPacket or the timestamp is not between
  // 1970 and 2106. After a failed write to the file every later call fails with the same error,
  // because a truncated record ends a capture.
  absl::Status Write(absl::Time timestamp, absl::Span<const absl::Span<const uint8_t>> pieces,
                     size_t length = 0);
  // Adds a provenance record: a comment, of at most kMaxComment bytes, on the capture interface.
  // Errors are those of Write.
  absl::Status WriteComment(absl::Time timestamp, absl::string_view comment);
  // Writes the buffer to the file.
  absl::Status Flush();
  // Flushes and closes. Later calls fail.
  absl::Status Close();

  uint64_t packets() const { return packets_; }
  const std::string& path() const { return path_; }
  // The file's size once flushed.
  uint64_t bytes() const { return bytes_; }

  static constexpr size_t kMaxPacket = 16'384;
  static constexpr size_t kMaxComment = 1'024;
  // Bytes of the file for each packet, beyond those of the packet.
  static constexpr size_t kRecordOverhead = 32;

 private:
  static constexpr size_t kBufferSize = 65'536;

  ErfWriter(std::string path, int fd, uint8_t interface);
  absl::Status AddRecord(absl::Time timestamp, uint8_t type,
                         absl::Span<const absl::Span<const uint8_t>> pieces, size_t length = 0);
  void AppendFileHeader();
  void AppendRecordHeaders(absl::Time timestamp, uint8_t type, size_t recorded, size_t length);
  void Append(const void* bytes, size_t length);

  const std::string path_;
  const uint8_t interface_;
  int fd_;  // -1 once closed
  std::function<bool()> may_wait_ = [] { return true; };
  std::vector<uint8_t> buffer_;
  absl::Status status_;  // the first failed write to the file
  uint64_t packets_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IB_ERF_H_
