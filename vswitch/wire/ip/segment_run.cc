#include "vswitch/wire/ip/segment_run.h"

#include <cstring>

#include "vswitch/base/byte_order.h"
#include "vswitch/base/check.h"
#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/ip/ip_headers.h"
#include "vswitch/wire/ip/ones_complement_sum.h"

namespace eoib {
namespace {

constexpr size_t kLargestPacket = 65535;  // limit of an IPv4 or IPv6 length field
constexpr size_t kIpv4Size = sizeof(Ipv4Wire);
constexpr size_t kIpv6Size = sizeof(Ipv6Wire);
constexpr size_t kTcpSize = 20;
constexpr size_t kTcpFlags = 13;
constexpr uint8_t kAck = 0x10;
constexpr uint8_t kPush = 0x08;
constexpr size_t kMaxDatagrams = 64;  // UDP_MAX_SEGMENTS of Linux before 6.10

uint16_t Read16(const uint8_t* at) { return ReadWire<be16>(at).value(); }
uint32_t Read32(const uint8_t* at) { return ReadWire<be32>(at).value(); }
void Write16(uint8_t* at, size_t value) { WriteWire(be16(static_cast<uint16_t>(value)), at); }

bool Same(const uint8_t* a, const uint8_t* b, size_t from, size_t to) {
  return std::memcmp(a + from, b + from, to - from) == 0;
}

// Compares IP headers, except for lengths, IPv4 identification and IPv4 header checksum.
bool SameIp(const uint8_t* a, const uint8_t* b, bool ipv6) {
  if (ipv6) return Same(a, b, 0, 4) && Same(a, b, 6, kIpv6Size);
  return Same(a, b, 0, 2) && Same(a, b, 6, 10) && Same(a, b, 12, kIpv4Size);
}

// Compares TCP headers, except for sequence number, PSH and checksum.
bool SameTcp(const uint8_t* a, const uint8_t* b, size_t size) {
  return Same(a, b, 0, 4) && Same(a, b, 8, kTcpFlags) &&
         ((a[kTcpFlags] ^ b[kTcpFlags]) & ~kPush) == 0 && Same(a, b, 14, 16) &&
         Same(a, b, 18, size);
}

uint16_t PseudoSum(const uint8_t* ip, bool ipv6, bool udp, size_t l4_length) {
  const auto addresses = ipv6 ? absl::MakeConstSpan(ip + kIpv6AddressesOffset, kIpv6AddressesSize)
                              : absl::MakeConstSpan(ip + kIpv4AddressesOffset, kIpv4AddressesSize);
  return PseudoHeaderSum(addresses, udp ? kProtocolUdp : kProtocolTcp, l4_length);
}

// Sets the layout's protocol, l4 and end.
bool ParseIp(absl::Span<const uint8_t> packet, SegmentRun::Segment* segment) {
  if (packet.size() < kIpv4Size + kUdpHeaderSize) return false;
  const uint8_t* const ip = packet.data();
  segment->ipv6 = ip[0] >> 4 == 6;
  size_t end;
  if (segment->ipv6) {
    end = kIpv6Size + Read16(ip + 4);
    segment->l4 = kIpv6Size;
  } else {
    if (ip[0] != 0x45 || Read16(ip + 6) != kIpv4DontFragment) return false;
    end = Read16(ip + 2);
    segment->l4 = kIpv4Size;
  }
  if (end > packet.size() || end > kLargestPacket || end < segment->l4 + kUdpHeaderSize)
    return false;
  segment->end = static_cast<uint16_t>(end);
  const uint8_t protocol = segment->ipv6 ? ip[6] : ip[9];
  segment->udp = protocol == kProtocolUdp;
  if (!segment->udp && protocol != kProtocolTcp) return false;
  // Joining would hide a wrong header checksum.
  return segment->ipv6 || OnesComplementSum({ip, kIpv4Size}) == kRightSum;
}

bool ParseTcp(const uint8_t* tcp, SegmentRun::Segment* segment) {
  if (segment->l4 + kTcpSize > segment->end) return false;
  const size_t header = static_cast<size_t>(tcp[12] >> 4) * 4;
  segment->payload = static_cast<uint16_t>(segment->l4 + header);
  segment->push = (tcp[kTcpFlags] & kPush) != 0;
  return header >= kTcpSize && segment->payload < segment->end && (tcp[kTcpFlags] & ~kPush) == kAck;
}

bool ParseUdp(const uint8_t* udp, SegmentRun::Segment* segment) {
  segment->payload = static_cast<uint16_t>(segment->l4 + kUdpHeaderSize);
  return segment->payload < segment->end &&
         Read16(udp + kUdpLengthOffset) == segment->end - segment->l4;
}

}  // namespace

absl::optional<SegmentRun::Segment> SegmentRun::Parse(absl::Span<const uint8_t> packet) noexcept {
  Segment segment;
  if (!ParseIp(packet, &segment)) return absl::nullopt;
  const uint8_t* const l4 = packet.data() + segment.l4;
  if (!(segment.udp ? ParseUdp(l4, &segment) : ParseTcp(l4, &segment))) return absl::nullopt;
  return segment;
}

bool SegmentRun::HasRightChecksum(absl::Span<const uint8_t> packet,
                                  const Segment& segment) noexcept {
  const absl::Span<const uint8_t> l4 = packet.subspan(segment.l4, segment.end - segment.l4);
  if (segment.udp && Read16(&l4[segment.checksum_offset()]) == 0) return false;
  return OnesComplementSum(l4, PseudoSum(packet.data(), segment.ipv6, segment.udp, l4.size())) ==
         kRightSum;
}

void SegmentRun::Begin(absl::Span<const uint8_t> packet, const Segment& segment) noexcept {
  first_ = segment;
  std::memcpy(headers_.data(), packet.data(), segment.payload);
  size_ = segment.end;
  count_ = 1;
  if (!segment.udp)
    next_sequence_ = Read32(packet.data() + segment.l4 + 4) + segment.payload_length();
  closed_ = segment.push;
}

bool SegmentRun::IsContinuedBy(absl::Span<const uint8_t> packet,
                               const Segment& segment) const noexcept {
  if (count_ == 0 || closed_ || segment.ipv6 != first_.ipv6 || segment.udp != first_.udp ||
      segment.payload != first_.payload) {
    return false;
  }
  const size_t length = segment.payload_length();
  if (length > first_.payload_length() || size_ + length > kLargestPacket) return false;
  return SameIp(headers_.data(), packet.data(), segment.ipv6) &&
         HasSameL4(packet.data() + segment.l4);
}

void SegmentRun::Continue(absl::Span<const uint8_t> packet, const Segment& segment) noexcept {
  EOIB_DCHECK(IsContinuedBy(packet, segment));
  const size_t length = segment.payload_length();
  size_ += length;
  ++count_;
  next_sequence_ += static_cast<uint32_t>(length);
  // With GSO only the last segment may be shorter.
  closed_ = segment.push || length < first_.payload_length();
  if (segment.push) headers_[first_.l4 + kTcpFlags] |= kPush;
}

bool SegmentRun::HasSameL4(const uint8_t* l4) const noexcept {
  const uint8_t* const first = headers_.data() + first_.l4;
  if (first_.udp) return count_ < kMaxDatagrams && Same(first, l4, 0, kUdpLengthOffset);
  return Read32(l4 + 4) == next_sequence_ && SameTcp(first, l4, first_.payload - first_.l4);
}

absl::Span<const uint8_t> SegmentRun::Headers() noexcept {
  uint8_t* const ip = headers_.data();
  uint8_t* const l4 = ip + first_.l4;
  const size_t l4_length = size_ - first_.l4;
  if (first_.ipv6) {
    Write16(ip + 4, l4_length);
  } else {
    Write16(ip + 2, size_);
    WriteIpv4Checksum({ip, kIpv4Size});
  }
  if (first_.udp) Write16(l4 + kUdpLengthOffset, l4_length);
  Write16(l4 + first_.checksum_offset(), PseudoSum(ip, first_.ipv6, first_.udp, l4_length));
  return {headers_.data(), first_.payload};
}

}  // namespace eoib
