#include "vswitch/wire/pcap_writer.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "vswitch/wire/ib/capture_file.h"

namespace eoib {
namespace {

// libpcap's savefile format, in the byte order of the writing host.
constexpr uint32_t kFileHeader[] = {0xa1b2'3c4d,  // of a file whose record headers have nanoseconds
                                    4 << 16 | 2,  // version 2.4, the major one first
                                    0,           0, PcapWriter::kMaxFrame, 1};  // Ethernet

}  // namespace

absl::StatusOr<std::unique_ptr<PcapWriter>> PcapWriter::Open(const std::string& path) {
  const absl::StatusOr<int> fd = OpenCaptureFile(path);
  if (!fd.ok()) return fd.status();
  std::unique_ptr<PcapWriter> writer(new PcapWriter(path, *fd));
  writer->Append(kFileHeader, sizeof(kFileHeader));
  return writer;
}

PcapWriter::~PcapWriter() {
  Flush().IgnoreError();
  close(fd_);
}

absl::Status PcapWriter::Write(absl::Time timestamp, absl::Span<const uint8_t> frame, size_t length) {
  if (!status_.ok()) return status_;
  const int64_t nanos = absl::ToUnixNanos(timestamp);
  if (nanos < 0 || nanos / 1'000'000'000 > 0xffff'ffff) {
    return absl::InvalidArgumentError(
        absl::StrCat("write capture ", path_, ": stamp ", absl::FormatTime(timestamp), " is not between 1970 and 2106"));
  }
  const uint32_t header[] = {static_cast<uint32_t>(nanos / 1'000'000'000), static_cast<uint32_t>(nanos % 1'000'000'000),
                             static_cast<uint32_t>(frame.size()), static_cast<uint32_t>(length)};
  static_assert(sizeof(header) == kRecordOverhead);
  Append(header, sizeof(header));
  Append(frame.data(), frame.size());
  ++frames_;
  return buffer_.size() < kBufferSize ? absl::OkStatus() : Flush();
}

absl::Status PcapWriter::Flush() {
  if (status_.ok()) status_ = WriteCaptureFile(fd_, path_, buffer_, may_wait_);
  buffer_.clear();
  return status_;
}

void PcapWriter::Append(const void* bytes, size_t length) {
  const auto* begin = static_cast<const uint8_t*>(bytes);
  buffer_.insert(buffer_.end(), begin, begin + length);
  bytes_ += length;
}

}  // namespace eoib
