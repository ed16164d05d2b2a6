// The parsers and edits of the data path, for frames from the fabric and from a virtual machine.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "vswitch/wire/checksum.h"
#include "vswitch/wire/eoib_header.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/flow_hash.h"
#include "vswitch/wire/ip/crc32c.h"
#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/ip/ip_packet.h"
#include "vswitch/wire/ip/ones_complement_sum.h"
#include "vswitch/wire/sctp_checksum.h"
#include "vswitch/wire/segment_extension.h"
#include "vswitch/wire/segmentation.h"
#include "vswitch/wire/super_frame.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

void Require(bool condition) {
  if (!condition) std::abort();
}

void CheckEoibHeader(absl::Span<const uint8_t> datagram) {
  EoibHeader header;
  if (DecodeEoibHeader(datagram, &header) != DropReason::kNone) return;
  uint8_t encoded[kEoibHeaderSize];
  EncodeEoibHeader(header, encoded);
  const size_t meaningful = header.form == HeaderForm::kEoib ? 4 : 2;
  Require(std::memcmp(encoded, datagram.data(), meaningful) == 0);
}

void CheckEthernet(absl::Span<const uint8_t> frame) {
  EthernetInfo info;
  const DropReason reason = ParseEthernet(frame, &info);
  const bool control = CarriesControlEtherType(frame);
  if (reason != DropReason::kNone) return;
  Require(info.payload == kEthernetHeaderSize + (info.tagged ? kVlanTagSize : 0) &&
          info.payload <= frame.size());
  Require(info.vid.IsValid() && (info.tagged || info.vid.IsUntagged()));
  if (info.ethertype == kEtherTypeControl || info.ethertype == kEtherTypeAlternative)
    Require(control);
  const uint64_t destination = MacAddr::FromWire(frame.data()).ToUint64();
  const int group = LinkLocalGroup(MacAddr::FromUint64(destination));
  Require(group ==
          (destination >> 4 == 0x0180'c200'000 ? static_cast<int>(destination & 0xf) : -1));
}

// The CRC-32 of IEEE 802.3-2018 §3.2.9, bit by bit.
void CheckFcs(absl::Span<const uint8_t> frame) {
  uint32_t crc = 0xffff'ffff;
  for (uint8_t byte : frame) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb8'8320 : 0);
  }
  Bytes with_fcs(frame.begin(), frame.end());
  for (int shift = 0; shift < 32; shift += 8)
    with_fcs.push_back(static_cast<uint8_t>(~crc >> shift));
  Require(EndsWithFcs(with_fcs));
  with_fcs.back() ^= 1;
  Require(!EndsWithFcs(with_fcs));
}

// Inserting and removing a tag restores the frame, and a tag does not hide the frame's content.
void CheckTags(absl::Span<const uint8_t> frame) {
  if (frame.size() < kEthernetHeaderSize) return;
  Bytes buffer(kVlanTagSize);
  buffer.insert(buffer.end(), frame.begin(), frame.end());
  const bool control = CarriesControlEtherType(frame);
  InsertVlanTag(&buffer[kVlanTagSize], Vid(frame[0]), frame[1] & 7);
  EthernetInfo info;
  Require(ParseEthernet(buffer, &info) == DropReason::kNone);
  Require(info.tagged && info.vid == Vid(frame[0]) && info.priority == (frame[1] & 7));
  Require(CarriesControlEtherType(buffer) || !control);
  SetVlanId(buffer.data(), Vid(4094));
  Require(ParseEthernet(buffer, &info) == DropReason::kNone && info.vid == Vid(4094) &&
          info.priority == (frame[1] & 7));
  RemoveVlanTag(buffer.data());
  Require(frame == absl::MakeConstSpan(buffer).subspan(kVlanTagSize));
}

// RFC 1071 §1: the sum over pseudo-header and segment, its checksum included, is minus zero.
void RequireRightSum(absl::Span<const uint8_t> frame, const L4Location& l4) {
  const bool ipv4 = frame[l4.ip] >> 4 == 4;
  const uint32_t protocol = l4.kind == L4Checksum::kTcpOk ? 6 : 17;
  const auto addresses = ipv4 ? frame.subspan(l4.ip + 12u, 8) : frame.subspan(l4.ip + 8u, 32);
  const uint16_t pseudo = OnesComplementSum(addresses, protocol + l4.l4_length);
  Require(OnesComplementSum(frame.subspan(l4.l4, l4.l4_length), pseudo) == 0xffff);
}

void CheckAccept(absl::Span<const uint8_t> frame, L4Checksum vouched) {
  Bytes copy(frame.begin(), frame.end());
  const L4Location l4 = FindL4(copy);
  if (l4.kind != L4Checksum::kNone)
    Require(l4.ip < l4.l4 && size_t{l4.l4} + l4.l4_length <= frame.size());
  const ChecksumRequest request = AcceptChecksum(absl::MakeSpan(copy), vouched);
  Require(request.needed == (vouched != L4Checksum::kNone && l4.kind == vouched));
  if (!request.needed) {
    Require(absl::MakeConstSpan(copy) == frame);
    return;
  }
  CompleteChecksum(absl::MakeSpan(copy), request);
  RequireRightSum(copy, l4);
}

// The field has the CRC32c of the packet, without itself.
void CheckSctp(Bytes frame, size_t field, size_t start, size_t end) {
  Require(field + 4 <= end && end <= frame.size());
  const Bytes finished(frame.begin() + static_cast<ptrdiff_t>(field),
                       frame.begin() + static_cast<ptrdiff_t>(field) + 4);
  WriteSctpChecksum(0, &frame[field]);
  WriteSctpChecksum(Crc32c(absl::MakeConstSpan(frame).subspan(start, end - start)), &frame[field]);
  Require(
      std::equal(finished.begin(), finished.end(), frame.begin() + static_cast<ptrdiff_t>(field)));
}

// Agrees with the check of whole packets on the checksum of merged segments.
void CheckMerged(absl::Span<const uint8_t> frame) {
  const auto headers = ParseSuperFrame(frame, frame.size());
  if (!headers.has_value()) return;
  const absl::Span<const uint8_t> ip = frame.subspan(headers->l4.ip);
  ChecksumVerdict verdict = ChecksumVerdict::kUnknown;
  if (const auto ipv4 = ParseIpv4Packet(ip); ipv4.has_value()) verdict = VerifyChecksum(*ipv4);
  if (const auto ipv6 = ParseIpv6Packet(ip); ipv6.has_value()) verdict = VerifyChecksum(*ipv6);
  if (verdict == ChecksumVerdict::kUnknown) return;
  const uint16_t sum = OnesComplementSum(frame.subspan(headers->l4.l4, headers->l4.l4_length));
  Require(HasRightChecksum(frame, headers->l4, sum) == (verdict == ChecksumVerdict::kRight));
}

void CheckPrepare(absl::Span<const uint8_t> frame, const ChecksumRequest& request) {
  Bytes copy(frame.begin(), frame.end());
  L4Checksum vouched;
  const bool accepted = PrepareChecksum(absl::MakeSpan(copy), request, &vouched);
  const size_t headers = PayloadBehindTags(frame), field = size_t{request.start} + request.offset;
  const absl::optional<SctpPacket> sctp =
      FindSctp(Bytes(frame.begin(), frame.end()), frame.size(), request);
  Require(accepted == (request.start >= headers && field + 2 <= frame.size() &&
                       (!sctp.has_value() || sctp->is_whole)));
  if (accepted && sctp.has_value()) CheckSctp(copy, field, request.start, sctp->end);
  // No sender's request changes the headers that were checked before.
  Require(absl::MakeConstSpan(copy).first(headers) == frame.first(headers));
  if (!accepted || vouched != L4Checksum::kNone) Require(absl::MakeConstSpan(copy) == frame);
  // A receiver finds the header that a sender vouches for.
  if (vouched != L4Checksum::kNone)
    Require(AcceptChecksum(absl::MakeSpan(copy), vouched) == request);
}

void CheckOnesComplementSum(absl::Span<const uint8_t> bytes) {
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i) sum += i % 2 == 0 ? uint32_t{bytes[i]} << 8 : bytes[i];
  while (sum > 0xffff) sum = (sum >> 16) + (sum & 0xffff);
  Require(OnesComplementSum(bytes) == sum);
}

// A frame's flow does not depend on its priority, or on the presence of a priority tag.
void CheckFlowHash(absl::Span<const uint8_t> frame) {
  constexpr uint64_t kSeed = 0x5eed;
  const uint32_t hash = FlowHash(kSeed, Bytes(frame.begin(), frame.end()));  // a copy of exact size
  EthernetInfo info;
  if (ParseEthernet(frame, &info) != DropReason::kNone) return;
  Bytes buffer(kVlanTagSize);
  buffer.insert(buffer.end(), frame.begin(), frame.end());
  if (info.tagged) {
    buffer[kVlanTagSize + kMacsSize + 2] ^= 0xe0;  // the priority
    Require(FlowHash(kSeed, absl::MakeConstSpan(buffer).subspan(kVlanTagSize)) == hash);
  } else if (PayloadBehindTags(frame) == kEthernetHeaderSize) {
    InsertVlanTag(&buffer[kVlanTagSize], Vid(0), 5);
    Require(FlowHash(kSeed, buffer) == hash);
  }
}

void CheckSegmentExtension(absl::Span<const uint8_t> datagram) {
  SegmentExtension extension;
  if (datagram.size() < kEoibHeaderSize ||
      !DecodeSegmentExtension(datagram.subspan(kEoibHeaderSize), &extension))
    return;
  uint8_t encoded[kSegmentExtensionSize];
  EncodeSegmentExtension(extension, encoded);
  Require(std::memcmp(encoded, &datagram[kEoibHeaderSize], sizeof(encoded)) == 0);
  const auto head = datagram.subspan(kSegmentHeaderSize);
  for (const L4Checksum vouched : {L4Checksum::kNone, L4Checksum::kTcpOk, L4Checksum::kUdpOk}) {
    Bytes copy(head.begin(), head.end());
    ChecksumRequest request;
    const bool accepted = AcceptSuperFrame(absl::MakeSpan(copy), extension, vouched, &request);
    if (accepted && vouched != L4Checksum::kNone) {
      Require(request.needed && request.start == extension.checksum_start);
      Require(size_t{request.start} + request.offset + 2 <= head.size());
    } else {
      Require(!request.needed && absl::MakeConstSpan(copy) == head);
    }
  }
}

// Every segment is a frame of its own with the right sum, and together they have the whole payload.
void CheckSegmentation(absl::Span<const uint8_t> frame, const Gso& gso) {
  constexpr size_t kLargest = 2044;
  const auto headers = ParseSuperFrame(frame, frame.size());
  if (!headers || !IsSuperFrame(*headers, gso)) return;
  const auto plan = Segmentation::Of(frame, frame.size(), gso, kLargest);
  if (!plan) return;
  size_t next = plan->header_size();
  for (size_t i = 0; i < plan->count(); ++i) {
    Require(plan->payload_at(i) == next && plan->payload_size(i) != 0);
    next += plan->payload_size(i);
    Bytes segment(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(plan->header_size()));
    const auto payload = frame.subspan(plan->payload_at(i), plan->payload_size(i));
    segment.insert(segment.end(), payload.begin(), payload.end());
    const ChecksumRequest request =
        plan->WriteHeaders(i, absl::MakeSpan(segment).first(plan->header_size()));
    Require(segment.size() <= kLargest);
    const L4Location l4 = FindL4(segment);
    Require(NamesChecksumOf(l4, request) && size_t{l4.l4} + l4.l4_length == segment.size());
    CompleteChecksum(absl::MakeSpan(segment), request);
    RequireRightSum(segment, l4);
  }
  Require(next == frame.size());
}

}  // namespace
}  // namespace eoib

// The input: csum_start and csum_offset of a sender's request, two bytes each, then a datagram:
// encapsulation header and frame.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace eoib;  // NOLINT: the entry point has no namespace
  if (size < 4) return 0;
  const ChecksumRequest request{true, ReadWire<be16>(data).value(),
                                ReadWire<be16>(data + 2).value()};
  const auto datagram = absl::MakeConstSpan(data + 4, size - 4);
  CheckEoibHeader(datagram);
  if (datagram.size() < kEoibHeaderSize) return 0;
  const auto frame = datagram.subspan(kEoibHeaderSize);
  CheckEthernet(frame);
  CheckFcs(frame);
  CheckTags(frame);
  CheckAccept(frame, L4Checksum::kTcpOk);
  CheckAccept(frame, L4Checksum::kUdpOk);
  CheckAccept(frame, L4Checksum::kNone);
  CheckPrepare(frame, request);
  CheckMerged(frame);
  CheckOnesComplementSum(frame);
  CheckFlowHash(frame);
  CheckSegmentExtension(datagram);
  for (const GsoType type : {GsoType::kTcp, GsoType::kUdp})
    CheckSegmentation(frame, {type, request.start});
  return 0;
}
