#include "vswitch/wire/ib/erf.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ib/capture_file.h"

namespace eoib {
namespace {

// The file and record headers of libpcap's savefile format, in the byte order of the writing host.
struct PcapFileHeader {
  uint32_t magic;
  uint16_t version_major = 2;
  uint16_t version_minor = 4;
  int32_t timezone = 0;
  uint32_t accuracy = 0;
  uint32_t snapshot_length;
  uint32_t link_type = kLinkTypeErf;
};
static_assert(sizeof(PcapFileHeader) == 24);

struct PcapRecordHeader {
  uint32_t seconds;
  uint32_t nanoseconds;
  uint32_t captured_length;
  uint32_t length;
};
static_assert(sizeof(PcapRecordHeader) == 16);

// Endace's Extensible Record Format. Its timestamp is little-endian, its other fields are
// big-endian.
struct ErfHeader {
  std::array<uint8_t, 8> timestamp{};  // little-endian: seconds 32 | fraction of a second 32
  uint8_t type = kErfTypeInfiniband;
  uint8_t flags = 0x04;  // records of varying length; the two lowest bits: capture interface
  be16 record_length;    // includes this header
  be16 loss_counter;
  be16 wire_length;
};
static_assert(sizeof(ErfHeader) == 16);
static_assert(sizeof(PcapRecordHeader) + sizeof(ErfHeader) == ErfWriter::kRecordOverhead);

// A provenance record: one section, for the capture interface, with one comment. A tag has a type,
// the length of its value, and the value padded to four bytes. The section's own tag has the length
// of all tags in it.
struct ErfTag {
  be16 type;
  be16 length;
};
struct ErfSection {
  ErfTag tag;
  be16 id;
  be16 length;
};
static_assert(sizeof(ErfTag) == 4 && sizeof(ErfSection) == 8);

constexpr uint16_t kTagComment = 1;
constexpr uint16_t kSectionInterface = 0xff03;

constexpr uint32_t kMagic = 0xa1b2'3c4d;  // of a file whose record headers have nanoseconds
constexpr uint8_t kMaxInterface = 3;

std::array<uint8_t, 8> ErfStamp(uint32_t seconds, uint32_t nanoseconds) {
  const uint64_t fraction = (uint64_t{nanoseconds} << 32) / 1'000'000'000;
  const uint64_t stamp = uint64_t{seconds} << 32 | fraction;
  std::array<uint8_t, 8> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(stamp >> (8 * i));
  return bytes;
}

absl::Span<const uint8_t> Bytes(const void* bytes, size_t length) {
  return {static_cast<const uint8_t*>(bytes), length};
}

bool FitsUint32Seconds(absl::Time timestamp) {
  return timestamp >= absl::UnixEpoch() && absl::ToUnixSeconds(timestamp) <= 0xffff'ffff;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ErfWriter>> ErfWriter::Open(const std::string& path,
                                                           uint8_t interface) {
  if (interface > kMaxInterface) {
    return absl::InvalidArgumentError(
        absl::StrCat("open capture ", path, ": interface ", interface, " is more than 3"));
  }
  const absl::StatusOr<int> fd = OpenCaptureFile(path);
  if (!fd.ok()) return fd.status();
  return Adopt(*fd, path, interface);
}

std::unique_ptr<ErfWriter> ErfWriter::Adopt(int fd, const std::string& path, uint8_t interface) {
  auto writer = std::unique_ptr<ErfWriter>(new ErfWriter(path, fd, interface));
  writer->AppendFileHeader();
  return writer;
}

ErfWriter::ErfWriter(std::string path, int fd, uint8_t interface)
    : path_(std::move(path)), interface_(interface), fd_(fd) {
  buffer_.reserve(kBufferSize + kMaxPacket);
}

ErfWriter::~ErfWriter() { Close().IgnoreError(); }

absl::Status ErfWriter::Write(absl::Time timestamp,
                              absl::Span<const absl::Span<const uint8_t>> pieces, size_t length) {
  const uint64_t before = bytes_;
  absl::Status status = AddRecord(timestamp, kErfTypeInfiniband, pieces, length);
  if (bytes_ != before) ++packets_;
  return status;
}

absl::Status ErfWriter::WriteComment(absl::Time timestamp, absl::string_view comment) {
  if (comment.size() > kMaxComment) {
    return absl::InvalidArgumentError(absl::StrCat(
        "write capture ", path_, ": comment of ", comment.size(), " bytes: at most ", kMaxComment));
  }
  static constexpr std::array<uint8_t, 3> kFill{};
  const size_t fill = (4 - comment.size() % 4) % 4;
  const size_t length = sizeof(ErfSection) + sizeof(ErfTag) + comment.size() + fill;
  const ErfSection section = {
      {be16(kSectionInterface), be16(4)}, be16(interface_), be16(static_cast<uint16_t>(length))};
  const ErfTag tag = {be16(kTagComment), be16(static_cast<uint16_t>(comment.size()))};
  const absl::Span<const uint8_t> pieces[] = {Bytes(&section, sizeof(section)),
                                              Bytes(&tag, sizeof(tag)),
                                              Bytes(comment.data(), comment.size()),
                                              {kFill.data(), fill}};
  return AddRecord(timestamp, kErfTypeMeta, pieces);
}

absl::Status ErfWriter::AddRecord(absl::Time timestamp, uint8_t type,
                                  absl::Span<const absl::Span<const uint8_t>> pieces,
                                  size_t length) {
  if (!status_.ok()) return status_;
  if (fd_ < 0)
    return absl::FailedPreconditionError(absl::StrCat("write capture ", path_, ": already closed"));
  size_t recorded = 0;
  for (absl::Span<const uint8_t> piece : pieces) recorded += piece.size();
  length = std::max(length, recorded);
  if (length > kMaxPacket) {
    return absl::InvalidArgumentError(absl::StrCat("write capture ", path_, ": packet of ", length,
                                                   " bytes: at most ", kMaxPacket,
                                                   " fit a record"));
  }
  if (!FitsUint32Seconds(timestamp)) {
    return absl::InvalidArgumentError(absl::StrCat("write capture ", path_, ": stamp ",
                                                   absl::FormatTime(timestamp),
                                                   " is not between 1970 and 2106"));
  }
  AppendRecordHeaders(timestamp, type, recorded, length);
  for (absl::Span<const uint8_t> piece : pieces) Append(piece.data(), piece.size());
  return buffer_.size() < kBufferSize ? absl::OkStatus() : Flush();
}

absl::Status ErfWriter::Flush() {
  if (!status_.ok()) return status_;
  status_ = WriteCaptureFile(fd_, path_, buffer_, may_wait_);
  if (!status_.ok()) return status_;
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status ErfWriter::Close() {
  if (fd_ < 0) return status_;
  absl::Status status = Flush();
  if (close(fd_) != 0 && status.ok())
    status = status_ = absl::ErrnoToStatus(errno, absl::StrCat("close capture ", path_));
  fd_ = -1;
  return status;
}

void ErfWriter::AppendFileHeader() {
  PcapFileHeader header;
  header.magic = kMagic;
  header.snapshot_length = sizeof(ErfHeader) + kMaxPacket;
  Append(&header, sizeof(header));
}

void ErfWriter::AppendRecordHeaders(absl::Time timestamp, uint8_t type, size_t recorded,
                                    size_t length) {
  const auto seconds = static_cast<uint32_t>(absl::ToUnixSeconds(timestamp));
  const absl::Duration rest = timestamp - absl::FromUnixSeconds(seconds);
  const auto nanoseconds = static_cast<uint32_t>(absl::ToInt64Nanoseconds(rest));
  const auto record_length = static_cast<uint32_t>(sizeof(ErfHeader) + recorded);
  const PcapRecordHeader pcap{seconds, nanoseconds, record_length,
                              static_cast<uint32_t>(sizeof(ErfHeader) + length)};
  ErfHeader erf;
  erf.timestamp = ErfStamp(seconds, nanoseconds);
  erf.type = type;
  erf.flags |= interface_;
  erf.record_length = static_cast<uint16_t>(record_length);
  erf.wire_length = static_cast<uint16_t>(length);
  Append(&pcap, sizeof(pcap));
  Append(&erf, sizeof(erf));
}

void ErfWriter::Append(const void* bytes, size_t length) {
  const auto* begin = static_cast<const uint8_t*>(bytes);
  buffer_.insert(buffer_.end(), begin, begin + length);
  bytes_ += length;
}

}  // namespace eoib
