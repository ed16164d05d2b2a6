#include "vswitch/wire/checksum.h"

#include <algorithm>
#include <cstring>

#include "absl/base/config.h"
#include "vswitch/base/address.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/ip/crc32c.h"
#include "vswitch/wire/ip/ip_headers.h"
#include "vswitch/wire/ip/ipv6_extensions.h"
#include "vswitch/wire/ip/ones_complement_sum.h"
#include "vswitch/wire/sctp_checksum.h"

namespace eoib {
namespace {

constexpr size_t kTcpHeaderSize = 20;
constexpr uint16_t kTcpChecksumOffset = 16;
constexpr uint16_t kUdpChecksumOffset = 6;

// Describes the TCP or UDP header at `l4`, whose packet ends at `end` within the frame. Nothing if
// it does not fit, or its length field disagrees. `frame` has the start of the frame, at least up
// to `l4`.
inline __attribute__((always_inline)) L4Location LocateL4(absl::Span<const uint8_t> frame,
                                                          uint8_t protocol, size_t ip, size_t l4,
                                                          size_t end) {
  const size_t length = std::min(end, frame.size()) - l4;
  const bool tcp = protocol == kProtocolTcp && length >= kTcpHeaderSize;
  // With another UDP length the sum would cover other bytes than the IP packet's.
  const bool udp = protocol == kProtocolUdp && length >= kUdpHeaderSize &&
                   ReadWire<be16>(&frame[l4 + kUdpLengthOffset]).value() == end - l4;
  if (!tcp && !udp) return {};
  return {tcp ? L4Checksum::kTcpOk : L4Checksum::kUdpOk, static_cast<uint16_t>(ip),
          static_cast<uint16_t>(l4), static_cast<uint16_t>(end - l4)};
}

L4Location FindIpv4L4(absl::Span<const uint8_t> frame, size_t size, size_t ip) {
  if (frame.size() < ip + sizeof(Ipv4Wire)) return {};
  const auto header = ReadWire<Ipv4Wire>(&frame[ip]);
  const size_t header_length = size_t{4} * (header.version_ihl & 0xf);
  const size_t total_length = header.total_length.value();
  if (header.version_ihl >> 4 != 4 || header_length < sizeof(Ipv4Wire) ||
      total_length < header_length)
    return {};
  if (total_length > size - ip || ip + header_length > frame.size()) return {};
  if ((header.fragment.value() & kIpv4MoreFragmentsOrOffset) != 0) return {};
  return LocateL4(frame, header.protocol, ip, ip + header_length, ip + total_length);
}

L4Location FindIpv6L4(absl::Span<const uint8_t> frame, size_t size, size_t ip) {
  if (frame.size() < ip + sizeof(Ipv6Wire)) return {};
  const auto header = ReadWire<Ipv6Wire>(&frame[ip]);
  size_t l4 = ip + sizeof(Ipv6Wire);
  const size_t end = l4 + header.payload_length.value();
  if (header.version_class_flow.value() >> 28 != 6 || end > size) return {};

  uint8_t protocol = header.next_header;
  for (int extensions = 0; extensions <= kMaxIpv6Extensions; ++extensions) {
    if (!IsIpv6Extension(protocol)) return LocateL4(frame, protocol, ip, l4, end);
    const size_t length = Ipv6ExtensionSize(frame.subspan(l4, end - l4));
    if (length == 0 || !KeepsAddresses(protocol, frame.subspan(l4, length))) return {};
    protocol = frame[l4];
    l4 += length;
  }
  return {};
}

uint16_t ChecksumOffset(L4Checksum kind) {
  return kind == L4Checksum::kTcpOk ? kTcpChecksumOffset : kUdpChecksumOffset;
}

uint8_t ProtocolOf(L4Checksum kind) {
  return kind == L4Checksum::kTcpOk ? kProtocolTcp : kProtocolUdp;
}

absl::Span<const uint8_t> AddressesOf(absl::Span<const uint8_t> frame, const L4Location& where) {
  return frame[where.ip] >> 4 == 4
             ? frame.subspan(where.ip + kIpv4AddressesOffset, kIpv4AddressesSize)
             : frame.subspan(where.ip + kIpv6AddressesOffset, kIpv6AddressesSize);
}

}  // namespace

// Looks for the EtherType itself, because ParseEthernet costs more than the rest.
L4Location FindL4(absl::Span<const uint8_t> frame, size_t size) noexcept {
  size_t type_at = kMacsSize;
  if (frame.size() < kEthernetHeaderSize + kVlanTagSize) return {};
  uint16_t ethertype = ReadWire<be16>(&frame[type_at]).value();
  if (ethertype == kEtherTypeVlan) {
    const uint16_t vid = ReadWire<be16>(&frame[kEthernetHeaderSize]).value() & 0xfff;
    if (!Vid(vid).IsValid()) return {};
    type_at += kVlanTagSize;
    ethertype = ReadWire<be16>(&frame[type_at]).value();
  }
  if (ethertype == kEtherTypeIpv4) return FindIpv4L4(frame, size, type_at + sizeof(be16));
  if (ethertype == kEtherTypeIpv6) return FindIpv6L4(frame, size, type_at + sizeof(be16));
  return {};
}

bool NamesChecksumOf(const L4Location& where, const ChecksumRequest& request) noexcept {
  return where.kind != L4Checksum::kNone && request.start == where.l4 &&
         request.offset == ChecksumOffset(where.kind);
}

ChecksumRequest WritePseudoHeaderSum(absl::Span<uint8_t> head, const L4Location& where) noexcept {
  const ChecksumRequest request{true, where.l4, ChecksumOffset(where.kind)};
  const uint16_t sum =
      PseudoHeaderSum(AddressesOf(head, where), ProtocolOf(where.kind), where.l4_length);
  WriteWire(be16(sum), &head[size_t{request.start} + request.offset]);
  return request;
}

bool HasRightChecksum(absl::Span<const uint8_t> head, const L4Location& where,
                      uint16_t sum) noexcept {
  const bool may_have_none = where.kind == L4Checksum::kUdpOk && head[where.ip] >> 4 == 4;
  if (may_have_none && ReadWire<be16>(&head[size_t{where.l4} + kUdpChecksumOffset]).value() == 0)
    return true;
  const uint16_t pseudo =
      PseudoHeaderSum(AddressesOf(head, where), ProtocolOf(where.kind), where.l4_length);
  return OnesComplementSum({}, uint32_t{pseudo} + sum) == kRightSum;
}

bool PrepareChecksum(absl::Span<uint8_t> frame, const ChecksumRequest& request,
                     L4Checksum* vouched) noexcept {
  *vouched = L4Checksum::kNone;
  if (!request.needed) return true;
  const L4Location where = FindL4(frame);
  if (NamesChecksumOf(where, request)) {
    *vouched = where.kind;
    return true;
  }
  if (size_t{request.start} + request.offset + sizeof(be16) > frame.size()) return false;
  // The sender could choose a sum that overwrites a tag or an EtherType that was already checked.
  if (request.start < PayloadBehindTags(frame)) return false;
  const absl::optional<SctpPacket> sctp = FindSctp(frame, frame.size(), request);
  if (sctp.has_value() && !sctp->is_whole) return false;
  CompleteChecksum(frame, request);
  return true;
}

ChecksumRequest AcceptChecksum(absl::Span<uint8_t> frame, L4Checksum vouched) noexcept {
  if (vouched == L4Checksum::kNone) return {};
  const L4Location where = FindL4(frame);
  if (where.kind != vouched) return {};
  const ChecksumRequest request = WritePseudoHeaderSum(frame, where);
  // An interface sums to the end of the frame, so clear the padding.
  const size_t end = size_t{where.l4} + where.l4_length;
  if (end < frame.size()) std::memset(&frame[end], 0, frame.size() - end);
  return request;
}

void CompleteChecksum(absl::Span<uint8_t> frame, const ChecksumRequest& request) noexcept {
  const size_t field = size_t{request.start} + request.offset;
  if (!request.needed || field + sizeof(be16) > frame.size()) return;
  if (const absl::optional<SctpPacket> sctp = FindSctp(frame, frame.size(), request);
      sctp.has_value()) {
    if (!sctp->is_whole) return;
    WriteSctpChecksum(0, &frame[field]);
    return WriteSctpChecksum(Crc32c(frame.subspan(request.start, sctp->end - request.start)),
                             &frame[field]);
  }
  const L4Location where = FindL4(frame);
  const bool known_end = where.kind != L4Checksum::kNone && where.l4 == request.start;
  const size_t end = known_end ? size_t{where.l4} + where.l4_length : frame.size();
  const uint16_t sum = OnesComplementSum(frame.subspan(request.start, end - request.start));
  WriteWire(be16(ChecksumField(sum, request.offset)), &frame[field]);
}

uint16_t ChecksumField(uint16_t sum, uint16_t offset) noexcept {
  const auto inverted = static_cast<uint16_t>(~sum);
  return inverted == 0 && offset == kUdpChecksumOffset ? 0xffff : inverted;
}

}  // namespace eoib
