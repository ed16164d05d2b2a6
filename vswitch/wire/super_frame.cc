#include "vswitch/wire/super_frame.h"

#include "vswitch/wire/ip/ip_headers.h"

namespace eoib {
namespace {

constexpr size_t kTcpDataOffset = 12;
constexpr size_t kSmallestTcpHeader = 20;
// As in Linux: TCP_MIN_GSO_SIZE and UDP_MAX_SEGMENTS.
constexpr uint32_t kSmallestTcpSegment = 8;
constexpr uint32_t kMostUdpSegments = 128;

}  // namespace

size_t L4HeaderSize(absl::Span<const uint8_t> head, const L4Location& l4) noexcept {
  return l4.kind == L4Checksum::kUdpOk ? kUdpHeaderSize
                                       : size_t{4} * (head[l4.l4 + kTcpDataOffset] >> 4);
}

absl::optional<SuperFrameHeaders> ParseSuperFrame(absl::Span<const uint8_t> head,
                                                  size_t size) noexcept {
  const L4Location l4 = FindL4(head, size);
  if (l4.kind == L4Checksum::kNone || size_t{l4.l4} + l4.l4_length != size) return absl::nullopt;
  const size_t header = L4HeaderSize(head, l4);
  if (l4.kind == L4Checksum::kTcpOk && header < kSmallestTcpHeader) return absl::nullopt;
  if (header > l4.l4_length || l4.l4 + header > head.size()) return absl::nullopt;
  return SuperFrameHeaders{l4, static_cast<uint16_t>(l4.l4 + header),
                           static_cast<uint32_t>(l4.l4_length - header)};
}

bool IsSuperFrame(const SuperFrameHeaders& headers, const Gso& gso) noexcept {
  if (gso.type == GsoType::kNone || gso.is_tcp() != (headers.l4.kind == L4Checksum::kTcpOk))
    return false;
  if (headers.payload_length <= gso.size) return false;
  return gso.is_tcp() ? gso.size >= kSmallestTcpSegment
                      : headers.payload_length <= kMostUdpSegments * gso.size;
}

}  // namespace eoib
