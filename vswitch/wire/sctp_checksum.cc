#include "vswitch/wire/sctp_checksum.h"

#include "vswitch/base/byte_order.h"
#include "vswitch/base/ethertype.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/ip/ip_headers.h"
#include "vswitch/wire/ip/ipv6_extensions.h"

namespace eoib {
namespace {

// What IP headers say of their payload.
struct IpPayload {
  uint8_t protocol = 0;
  bool is_fragment = false;
  size_t start = 0;
  size_t end = 0;
};

absl::optional<IpPayload> FindIpv4Payload(absl::Span<const uint8_t> head, size_t ip) {
  if (head.size() < ip + sizeof(Ipv4Wire)) return absl::nullopt;
  const auto header = ReadWire<Ipv4Wire>(&head[ip]);
  const size_t header_size = size_t{4} * (header.version_ihl & 0xf);
  if (header.version_ihl >> 4 != 4 || header_size < sizeof(Ipv4Wire)) return absl::nullopt;
  const bool is_fragment = (header.fragment.value() & kIpv4MoreFragmentsOrOffset) != 0;
  return IpPayload{header.protocol, is_fragment, ip + header_size,
                   ip + header.total_length.value()};
}

absl::optional<IpPayload> FindIpv6Payload(absl::Span<const uint8_t> head, size_t ip) {
  if (head.size() < ip + sizeof(Ipv6Wire)) return absl::nullopt;
  const auto header = ReadWire<Ipv6Wire>(&head[ip]);
  if (header.version_class_flow.value() >> 28 != 6) return absl::nullopt;
  IpPayload payload{header.next_header, false, ip + sizeof(Ipv6Wire),
                    ip + sizeof(Ipv6Wire) + header.payload_length.value()};
  for (int extensions = 0; extensions < kMaxIpv6Extensions; ++extensions) {
    const absl::Span<const uint8_t> rest = head.subspan(payload.start);
    size_t length = 0;
    if (IsIpv6Extension(payload.protocol)) {
      length = Ipv6ExtensionSize(rest);
    } else if (payload.protocol == kProtocolFragment && rest.size() >= sizeof(Ipv6FragmentWire)) {
      length = sizeof(Ipv6FragmentWire);
      payload.is_fragment = true;
    }
    if (length == 0) break;
    payload.protocol = rest[0];
    payload.start += length;
  }
  return payload;
}

}  // namespace

absl::optional<SctpPacket> FindSctp(absl::Span<const uint8_t> head, size_t size,
                                    const ChecksumRequest& request) noexcept {
  if (!request.needed || request.offset != kSctpChecksumOffset) return absl::nullopt;
  const size_t ip = PayloadBehindTags(head);
  if (ip < kEthernetHeaderSize) return absl::nullopt;
  const uint16_t ethertype = ReadWire<be16>(&head[ip - sizeof(be16)]).value();
  absl::optional<IpPayload> payload;
  if (ethertype == kEtherTypeIpv4) payload = FindIpv4Payload(head, ip);
  if (ethertype == kEtherTypeIpv6) payload = FindIpv6Payload(head, ip);
  if (!payload.has_value() || payload->protocol != kProtocolSctp || payload->start != request.start)
    return absl::nullopt;
  const size_t header_end = payload->start + kSctpHeaderSize;
  if (payload->is_fragment || header_end > head.size() || header_end > payload->end ||
      payload->end > size)
    return SctpPacket();
  return SctpPacket{true, payload->end};
}

void WriteSctpChecksum(uint32_t crc, uint8_t* field) noexcept {
  for (size_t i = 0; i < sizeof(crc); ++i) field[i] = static_cast<uint8_t>(crc >> (8 * i));
}

}  // namespace eoib
