// Whole InfiniBand packets, the GRH of a receive buffer, and captures of packets.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ib/erf.h"
#include "vswitch/wire/ib/ib_headers.h"
#include "vswitch/wire/ib/ib_headers_for_test.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

void Require(bool condition) {
  if (!condition) std::abort();
}

Bytes Build(const UdPacket& packet, absl::Span<const uint8_t> payload) {
  const UdHeaders headers = MakeUdHeaders(packet);
  const UdTrailer trailer = MakeUdTrailer(headers, absl::MakeConstSpan(&payload, 1));
  Bytes bytes(kUdHeadersSize);
  WriteWire(headers, bytes.data());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  bytes.insert(bytes.end(), trailer.span().begin(), trailer.span().end());
  return bytes;
}

void CheckGrh(absl::Span<const uint8_t> bytes) {
  GrhInfo info;
  if (ParseGrh(bytes, &info) != DropReason::kNone) return;
  UdPacket packet;
  packet.sgid = info.sgid;
  packet.dgid = info.dgid;
  packet.traffic_class = info.traffic_class;
  packet.flow_label = info.flow_label;
  packet.hop_limit = info.hop_limit;
  Grh grh = MakeGrh(packet);
  grh.payload_length = info.payload_length;
  grh.next_header = bytes[6];  // ignored by the parser
  Require(std::memcmp(&grh, bytes.data(), sizeof(grh)) == 0);
}

// An accepted packet is exactly the one that we would have made.
void CheckPacket(absl::Span<const uint8_t> bytes) {
  UdView view;
  if (ParseUdPacket(bytes, &view) != DropReason::kNone) return;
  Require(absl::MakeConstSpan(Build(view.packet, view.payload)) == bytes);
}

// Repairs lengths and CRCs, which a fuzzer cannot guess.
void CheckRepaired(absl::Span<const uint8_t> bytes) {
  if (bytes.size() < kUdHeadersSize) return;
  const auto payload =
      bytes.subspan(kUdHeadersSize, std::min<size_t>(bytes.size() - kUdHeadersSize, 4096));
  const auto given = ReadWire<UdHeaders>(bytes.data());
  GrhInfo grh;
  grh.sgid = Gid(given.grh.sgid);
  grh.dgid = Gid(given.grh.dgid);
  grh.traffic_class = static_cast<uint8_t>(given.grh.version_class_flow.value() >> 20);
  grh.flow_label = given.grh.version_class_flow.value() & 0xf'ffff;
  grh.hop_limit = given.grh.hop_limit;
  const UdPacket packet = FieldsOf(given, grh, payload.size());
  const Bytes built = Build(packet, payload);
  Require(built.size() == UdPacketSize(payload.size()));
  UdView view;
  Require(ParseUdPacket(built, &view) == DropReason::kNone);
  Require(view.packet == packet && view.payload == payload);
}

// A file without a name.
struct MemoryFile {
  MemoryFile() : fd(memfd_create("fuzz", MFD_CLOEXEC)) { Require(fd >= 0); }
  ~MemoryFile() { close(fd); }
  Bytes Read() const {
    Bytes bytes(lseek(fd, 0, SEEK_END));
    Require(pread(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    return bytes;
  }

  std::unique_ptr<ErfWriter> Writer(uint8_t interface = 0) const {
    return ErfWriter::Adopt(fcntl(fd, F_DUPFD_CLOEXEC, 0), "fuzz", interface);
  }

  const int fd;
};

constexpr size_t kPcapFileHeader = 24, kPcapRecordHeader = 16, kErfHeader = 16;

// A capture file has the two packets written to it, with the lengths in their headers. The
// timestamp is from the input.
void CheckCapture(absl::Span<const uint8_t> bytes) {
  if (bytes.size() < sizeof(be64)) return;
  const absl::Time stamp =
      absl::UnixEpoch() +
      absl::Nanoseconds(static_cast<int64_t>(ReadWire<be64>(bytes.data()).value()));
  const MemoryFile file;
  const std::unique_ptr<ErfWriter> writer = file.Writer();
  const absl::Span<const uint8_t> halves[] = {bytes.first(bytes.size() / 2),
                                              bytes.subspan(bytes.size() / 2)};
  const bool fits = bytes.size() <= ErfWriter::kMaxPacket && stamp >= absl::UnixEpoch() &&
                    stamp < absl::FromUnixSeconds(1ll << 32);
  Require(writer->Write(stamp, halves).ok() == fits && writer->Write(stamp, halves).ok() == fits);
  Require(writer->packets() == (fits ? 2 : 0));
  Require(writer->Flush().ok() && writer->Close().ok() && !writer->Write(stamp, halves).ok());
  const Bytes written = file.Read();
  const size_t record = kPcapRecordHeader + kErfHeader + bytes.size();
  Require(written.size() == writer->bytes() &&
          written.size() == kPcapFileHeader + (fits ? 2 * record : 0));
  for (size_t at = kPcapFileHeader; at < written.size(); at += record) {
    const uint8_t* const erf = &written[at + kPcapRecordHeader];
    Require(ReadWire<be16>(erf + 10).value() == kErfHeader + bytes.size() &&
            ReadWire<be16>(erf + 14).value() == bytes.size());
    Require(std::equal(bytes.begin(), bytes.end(), erf + kErfHeader));
  }
}

// A comment is in its record completely, and the record is padded to 4 bytes.
void CheckComment(absl::Span<const uint8_t> bytes) {
  const absl::string_view comment(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const MemoryFile file;
  const std::unique_ptr<ErfWriter> writer = file.Writer(/*interface=*/1);
  if (!writer->WriteComment(absl::UnixEpoch(), comment).ok())
    return Require(bytes.size() > ErfWriter::kMaxComment);
  Require(writer->Close().ok());
  const Bytes written = file.Read();
  const size_t record = kPcapFileHeader + kPcapRecordHeader;
  Require(written.size() % 4 == 0 &&
          ReadWire<be16>(&written[record + 10]).value() == written.size() - record);
  Require(absl::StrContains(
      absl::string_view(reinterpret_cast<const char*>(written.data()), written.size()), comment));
}

}  // namespace
}  // namespace eoib

// The input: a packet from its LRH on.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = absl::MakeConstSpan(data, size);
  eoib::CheckGrh(bytes);
  if (size > sizeof(eoib::Lrh)) eoib::CheckGrh(bytes.subspan(sizeof(eoib::Lrh)));
  eoib::CheckPacket(bytes);
  eoib::CheckRepaired(bytes);
  eoib::CheckComment(bytes);
  eoib::CheckCapture(bytes);
  return 0;
}
