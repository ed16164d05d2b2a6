#include "vswitch/port/tcp_coalescer.h"

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

TcpCoalescer::TcpCoalescer() : staging_(new uint8_t[kStaging]) {}

bool TcpCoalescer::Parse(absl::Span<const uint8_t> frame, const ChecksumRequest& checksum, Layout* layout) noexcept {
  if (!checksum.needed || checksum.offset != kTcpChecksumOffset || frame.size() < kIp + kIpv4Size + kTcpSize) return false;
  const uint8_t* ip = frame.data() + kIp;
  switch (Read16(frame.data() + 2 * MacAddr::kSize)) {
    case kEtherTypeIpv4:
      if (ip[0] != 0x45 || ip[9] != kProtocolTcp || Read16(ip + 6) != kIpv4DontFragment) return false;
      if (OnesComplementSum({ip, kIpv4Size}) != kRightSum) return false;  // joining would hide a wrong header checksum
      layout->tcp = kIp + kIpv4Size;
      layout->end = kIp + Read16(ip + 2);
      break;
    case kEtherTypeIpv6:
      if (ip[0] >> 4 != 6 || ip[6] != kProtocolTcp) return false;
      layout->ipv6 = true;
      layout->tcp = kIp + kIpv6Size;
      layout->end = kIp + kIpv6Size + Read16(ip + 4);
      break;
    default:
      return false;
  }
  if (checksum.start != layout->tcp || layout->end > frame.size() || layout->tcp + kTcpSize > layout->end) return false;
  const uint8_t* tcp = frame.data() + layout->tcp;
  const size_t header = static_cast<size_t>(tcp[12] >> 4) * 4;
  layout->payload = layout->tcp + header;
  layout->push = (tcp[13] & kPush) != 0;
  return header >= kTcpSize && layout->payload < layout->end && (tcp[13] & ~kPush) == kAck;
}

bool TcpCoalescer::Add(absl::Span<const uint8_t> frame, const ChecksumRequest& checksum) noexcept {
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

void TcpCoalescer::Begin(absl::Span<const uint8_t> frame, const Layout& layout) noexcept {
  first_ = layout;
  // Copied with its padding, so that a run of one frame leaves as it came.
  std::memcpy(staging_.get(), frame.data(), frame.size());
  length_ = frame.size();
  segments_ = 1;
  next_sequence_ = Read32(frame.data() + layout.tcp + 4) + static_cast<uint32_t>(layout.payload_length());
  // Nothing can be appended after padding, and PSH ends a stretch of data.
  closed_ = layout.push || layout.end != frame.size();
}

bool TcpCoalescer::Continues(absl::Span<const uint8_t> frame, const Layout& layout) const noexcept {
  const uint8_t* const run = staging_.get();
  return !closed_ && layout.ipv6 == first_.ipv6 && layout.payload == first_.payload &&
         layout.payload_length() <= first_.payload_length() && length_ + layout.payload_length() <= kIp + kLargestPacket &&
         Read32(frame.data() + layout.tcp + 4) == next_sequence_ && Same(run, frame.data(), 0, kIp) &&
         SameIp(run + kIp, frame.data() + kIp, layout.ipv6) &&
         SameTcp(run + layout.tcp, frame.data() + layout.tcp, layout.payload - layout.tcp);
}

void TcpCoalescer::Append(absl::Span<const uint8_t> frame, const Layout& layout) noexcept {
  const size_t size = layout.payload_length();
  std::memcpy(staging_.get() + length_, frame.data() + layout.payload, size);
  length_ += size;
  ++segments_;
  next_sequence_ += static_cast<uint32_t>(size);
  // With GSO only the last segment may be shorter.
  closed_ = layout.push || size < first_.payload_length();
  if (layout.push) staging_[first_.tcp + 13] |= kPush;
}

// Writes the lengths and checksums of the joined packet. The TCP checksum gets the pseudo-header sum; the kernel finishes it.
void TcpCoalescer::CompleteHeaders() noexcept {
  uint8_t* const ip = staging_.get() + kIp;
  const size_t tcp_length = length_ - first_.tcp;
  if (first_.ipv6) {
    Write16(ip + 4, tcp_length);
  } else {
    Write16(ip + 2, length_ - kIp);
    WriteIpv4Checksum({ip, kIpv4Size});
  }
  const absl::Span<const uint8_t> addresses = first_.ipv6
                                                  ? absl::MakeConstSpan(ip + kIpv6AddressesOffset, kIpv6AddressesSize)
                                                  : absl::MakeConstSpan(ip + kIpv4AddressesOffset, kIpv4AddressesSize);
  Write16(staging_.get() + first_.tcp + kTcpChecksumOffset, PseudoHeaderSum(addresses, kProtocolTcp, tcp_length));
}

TcpCoalescer::Joined TcpCoalescer::Take() noexcept {
  Joined joined;
  joined.frame = absl::MakeConstSpan(staging_.get(), length_);
  joined.checksum = {true, static_cast<uint16_t>(first_.tcp), kTcpChecksumOffset};
  joined.header_length = static_cast<uint16_t>(first_.payload);
  joined.segment_length = static_cast<uint16_t>(first_.payload_length());
  joined.ipv6 = first_.ipv6;
  joined.segments = segments_;
  if (segments_ > 1) CompleteHeaders();
  segments_ = 0;
  return joined;
}

}  // namespace eoib
