#include "vswitch/port/coalescer.h"

#include <cstring>

#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/ip/ip_headers.h"
#include "vswitch/wire/ip/ones_complement_sum.h"

namespace eoib {
namespace {

constexpr size_t kLargestPacket = 65535;  // limit of an IPv4 or IPv6 length field
constexpr size_t kStaging = kEthernetHeaderSize + kLargestPacket + 1;
constexpr size_t kIp = kEthernetHeaderSize;
constexpr size_t kIpv4Size = sizeof(Ipv4Wire);
constexpr size_t kIpv6Size = sizeof(Ipv6Wire);
constexpr size_t kTcpSize = 20;
constexpr uint8_t kAck = 0x10;
constexpr uint8_t kPush = 0x08;
constexpr uint16_t kTcpChecksumOffset = 16;
constexpr size_t kUdpSize = 8;
constexpr size_t kUdpLengthOffset = 4;
constexpr uint16_t kUdpChecksumOffset = 6;
constexpr size_t kMaxDatagrams = 64;  // UDP_MAX_SEGMENTS of Linux before 6.10

constexpr uint16_t ChecksumOffset(bool udp) { return udp ? kUdpChecksumOffset : kTcpChecksumOffset; }

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
  return Same(a, b, 0, 4) && Same(a, b, 8, 13) && ((a[13] ^ b[13]) & ~kPush) == 0 && Same(a, b, 14, 16) && Same(a, b, 18, size);
}

}  // namespace

Coalescer::Coalescer() : staging_(new uint8_t[kStaging]) {}

bool Coalescer::Parse(absl::Span<const uint8_t> frame, const ChecksumRequest& checksum, Layout* layout) const noexcept {
  if (!checksum.needed || frame.size() < kIp + kIpv4Size + kUdpSize) return false;
  layout->udp = joins_udp_ && checksum.offset == kUdpChecksumOffset;
  if (!layout->udp && checksum.offset != kTcpChecksumOffset) return false;
  if (!ParseIp(frame, layout->udp ? kProtocolUdp : kProtocolTcp, layout)) return false;
  if (checksum.start != layout->l4 || layout->end > frame.size()) return false;
  const uint8_t* const l4 = frame.data() + layout->l4;
  return layout->udp ? ParseUdp(l4, layout) : ParseTcp(l4, layout);
}

bool Coalescer::ParseIp(absl::Span<const uint8_t> frame, uint8_t protocol, Layout* layout) noexcept {
  const uint8_t* ip = frame.data() + kIp;
  switch (Read16(frame.data() + 2 * MacAddr::kSize)) {
    case kEtherTypeIpv4:
      if (ip[0] != 0x45 || ip[9] != protocol || Read16(ip + 6) != kIpv4DontFragment) return false;
      if (OnesComplementSum({ip, kIpv4Size}) != kRightSum) return false;  // joining would hide a wrong header checksum
      layout->l4 = kIp + kIpv4Size;
      layout->end = kIp + Read16(ip + 2);
      return true;
    case kEtherTypeIpv6:
      if (ip[0] >> 4 != 6 || ip[6] != protocol) return false;
      layout->ipv6 = true;
      layout->l4 = kIp + kIpv6Size;
      layout->end = kIp + kIpv6Size + Read16(ip + 4);
      return true;
    default:
      return false;
  }
}

bool Coalescer::ParseTcp(const uint8_t* tcp, Layout* layout) noexcept {
  if (layout->l4 + kTcpSize > layout->end) return false;
  const size_t header = static_cast<size_t>(tcp[12] >> 4) * 4;
  layout->payload = layout->l4 + header;
  layout->push = (tcp[13] & kPush) != 0;
  return header >= kTcpSize && layout->payload < layout->end && (tcp[13] & ~kPush) == kAck;
}

bool Coalescer::ParseUdp(const uint8_t* udp, Layout* layout) noexcept {
  layout->payload = layout->l4 + kUdpSize;
  return layout->payload < layout->end && Read16(udp + kUdpLengthOffset) == layout->end - layout->l4;
}

bool Coalescer::Add(absl::Span<const uint8_t> frame, const ChecksumRequest& checksum) noexcept {
  Layout layout;
  if (!Parse(frame, checksum, &layout)) return false;
  if (segments_ == 0) {
    Begin(frame, layout);
    return true;
  }
  if (!Continues(frame, layout)) return false;
  Append(frame, layout);
  return true;
}

void Coalescer::Begin(absl::Span<const uint8_t> frame, const Layout& layout) noexcept {
  first_ = layout;
  // Copied with its padding, so that a run of one frame leaves as it came.
  std::memcpy(staging_.get(), frame.data(), frame.size());
  length_ = frame.size();
  segments_ = 1;
  if (!layout.udp) next_sequence_ = Read32(frame.data() + layout.l4 + 4) + static_cast<uint32_t>(layout.payload_length());
  // Nothing can be appended after padding, and PSH ends a stretch of data.
  closed_ = layout.push || layout.end != frame.size();
}

bool Coalescer::Continues(absl::Span<const uint8_t> frame, const Layout& layout) const noexcept {
  const uint8_t* const run = staging_.get();
  return !closed_ && layout.ipv6 == first_.ipv6 && layout.udp == first_.udp && layout.payload == first_.payload &&
         layout.payload_length() <= first_.payload_length() && length_ + layout.payload_length() <= kIp + kLargestPacket &&
         Same(run, frame.data(), 0, kIp) && SameIp(run + kIp, frame.data() + kIp, layout.ipv6) && SameL4(frame);
}

bool Coalescer::SameL4(absl::Span<const uint8_t> frame) const noexcept {
  const uint8_t* const run = staging_.get() + first_.l4;
  const uint8_t* const l4 = frame.data() + first_.l4;
  if (first_.udp) return segments_ < kMaxDatagrams && Same(run, l4, 0, kUdpLengthOffset);
  return Read32(l4 + 4) == next_sequence_ && SameTcp(run, l4, first_.payload - first_.l4);
}

void Coalescer::Append(absl::Span<const uint8_t> frame, const Layout& layout) noexcept {
  const size_t size = layout.payload_length();
  std::memcpy(staging_.get() + length_, frame.data() + layout.payload, size);
  length_ += size;
  ++segments_;
  next_sequence_ += static_cast<uint32_t>(size);
  // With GSO only the last segment may be shorter.
  closed_ = layout.push || size < first_.payload_length();
  if (layout.push) staging_[first_.l4 + 13] |= kPush;
}

// Writes the lengths and checksums of the joined packet. The TCP or UDP checksum gets the pseudo-header sum; the kernel
// finishes it.
void Coalescer::CompleteHeaders() noexcept {
  uint8_t* const ip = staging_.get() + kIp;
  uint8_t* const l4 = staging_.get() + first_.l4;
  const size_t l4_length = length_ - first_.l4;
  if (first_.ipv6) {
    Write16(ip + 4, l4_length);
  } else {
    Write16(ip + 2, length_ - kIp);
    WriteIpv4Checksum({ip, kIpv4Size});
  }
  const absl::Span<const uint8_t> addresses = first_.ipv6
                                                  ? absl::MakeConstSpan(ip + kIpv6AddressesOffset, kIpv6AddressesSize)
                                                  : absl::MakeConstSpan(ip + kIpv4AddressesOffset, kIpv4AddressesSize);
  if (first_.udp) Write16(l4 + kUdpLengthOffset, l4_length);
  Write16(l4 + ChecksumOffset(first_.udp), PseudoHeaderSum(addresses, first_.udp ? kProtocolUdp : kProtocolTcp, l4_length));
}

Coalescer::Joined Coalescer::Take() noexcept {
  Joined joined;
  joined.frame = absl::MakeConstSpan(staging_.get(), length_);
  joined.checksum = {true, static_cast<uint16_t>(first_.l4), ChecksumOffset(first_.udp)};
  joined.header_length = static_cast<uint16_t>(first_.payload);
  joined.segment_length = static_cast<uint16_t>(first_.payload_length());
  joined.ipv6 = first_.ipv6;
  joined.udp = first_.udp;
  joined.segments = segments_;
  if (segments_ > 1) CompleteHeaders();
  segments_ = 0;
  return joined;
}

}  // namespace eoib
