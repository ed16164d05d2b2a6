#include "vswitch/port/coalescer.h"

#include <cstring>

#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {
namespace {

constexpr size_t kLargestPacket = 65535;  // limit of an IPv4 or IPv6 length field
constexpr size_t kStaging = kEthernetHeaderSize + kLargestPacket + 1;
constexpr size_t kIp = kEthernetHeaderSize;

}  // namespace

Coalescer::Coalescer() : staging_(new uint8_t[kStaging]) {}

absl::optional<SegmentRun::Segment> Coalescer::Parse(
    absl::Span<const uint8_t> frame, const ChecksumRequest& checksum) const noexcept {
  if (!checksum.needed || frame.size() < kIp) return absl::nullopt;
  const uint16_t ethertype = ReadWire<be16>(frame.data() + kMacsSize).value();
  const auto segment = SegmentRun::Parse(frame.subspan(kIp));
  if (!segment.has_value() || ethertype != (segment->ipv6 ? kEtherTypeIpv6 : kEtherTypeIpv4))
    return absl::nullopt;
  if (segment->udp && !joins_udp_) return absl::nullopt;
  // The interface finishes the checksum, so it may be joined without a look at its value.
  if (checksum.start != kIp + segment->l4 || checksum.offset != segment->checksum_offset())
    return absl::nullopt;
  return segment;
}

bool Coalescer::Add(absl::Span<const uint8_t> frame, const ChecksumRequest& checksum) noexcept {
  const auto segment = Parse(frame, checksum);
  if (!segment.has_value()) return false;
  const absl::Span<const uint8_t> packet = frame.subspan(kIp);
  if (!pending()) {
    run_.Begin(packet, *segment);
    // Copied with its padding, so that a run of one frame leaves as it came. Nothing can be
    // appended after padding.
    std::memcpy(staging_.get(), frame.data(), frame.size());
    length_ = frame.size();
    if (segment->end != packet.size()) run_.Close();
    return true;
  }
  if (std::memcmp(staging_.get(), frame.data(), kIp) != 0 || !run_.IsContinuedBy(packet, *segment))
    return false;
  run_.Continue(packet, *segment);
  std::memcpy(staging_.get() + length_, packet.data() + segment->payload,
              segment->payload_length());
  length_ += segment->payload_length();
  return true;
}

Coalescer::Joined Coalescer::Take() noexcept {
  const SegmentRun::Segment& first = run_.first();
  Joined joined;
  joined.frame = absl::MakeConstSpan(staging_.get(), length_);
  joined.checksum = {true, static_cast<uint16_t>(kIp + first.l4), first.checksum_offset()};
  joined.header_length = static_cast<uint16_t>(kIp + first.payload);
  joined.segment_length = first.payload_length();
  joined.ipv6 = first.ipv6;
  joined.udp = first.udp;
  joined.segments = run_.count();
  if (run_.count() > 1) {
    const absl::Span<const uint8_t> headers = run_.Headers();
    std::memcpy(staging_.get() + kIp, headers.data(), headers.size());
  }
  run_.Clear();
  return joined;
}

}  // namespace eoib
