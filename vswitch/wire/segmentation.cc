#include "vswitch/wire/segmentation.h"

#include <algorithm>

#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/ip/ip_headers.h"

namespace eoib {
namespace {

constexpr size_t kTcpSequence = 4;
constexpr size_t kTcpFlags = 13;
constexpr size_t kUdpLength = 4;
constexpr uint8_t kFin = 0x01;
constexpr uint8_t kPush = 0x08;
constexpr uint8_t kCwr = 0x80;

void Write16(uint8_t* at, size_t value) { WriteWire(be16(static_cast<uint16_t>(value)), at); }

// Lengths, identification and header checksum. `packet` has the IP header; the packet is `length`
// bytes long.
void WriteIp(absl::Span<uint8_t> packet, size_t length, size_t i) {
  if (packet[0] >> 4 == 6)
    return Write16(&packet[offsetof(Ipv6Wire, payload_length)], length - sizeof(Ipv6Wire));
  Write16(&packet[offsetof(Ipv4Wire, total_length)], length);
  uint8_t* const id = &packet[offsetof(Ipv4Wire, id)];
  Write16(id, ReadWire<be16>(id).value() + i);
  WriteIpv4Checksum(packet.first(size_t{4} * (packet[0] & 0xf)));
}

// FIN and PSH belong to the last segment's data, CWR to the first (RFC 3168 §6.1.2: once for each
// reduction).
void WriteTcp(uint8_t* tcp, size_t data_before, bool first, bool last) {
  WriteWire(be32(ReadWire<be32>(tcp + kTcpSequence).value() + static_cast<uint32_t>(data_before)),
            tcp + kTcpSequence);
  if (!last) tcp[kTcpFlags] &= static_cast<uint8_t>(~(kFin | kPush));
  if (!first) tcp[kTcpFlags] &= static_cast<uint8_t>(~kCwr);
}

}  // namespace

absl::optional<Segmentation> Segmentation::Of(absl::Span<const uint8_t> head, size_t size,
                                              const Gso& gso, size_t largest) noexcept {
  const auto headers = ParseSuperFrame(head, size);
  if (!headers || headers->payload_length == 0 || headers->payload >= largest) return absl::nullopt;
  const uint32_t fits = static_cast<uint32_t>(largest) - headers->payload;
  const uint32_t wanted = gso.type == GsoType::kNone ? headers->payload_length : gso.size;
  if (headers->l4.kind != L4Checksum::kTcpOk && wanted > fits) return absl::nullopt;
  return Segmentation(*headers, std::min(wanted, fits));
}

size_t Segmentation::payload_size(size_t i) const {
  return std::min<size_t>(segment_, headers_.payload_length - i * segment_);
}

ChecksumRequest Segmentation::WriteHeaders(size_t i, absl::Span<uint8_t> out) const noexcept {
  const size_t end = headers_.payload + payload_size(i);
  L4Location l4 = headers_.l4;
  l4.l4_length = static_cast<uint16_t>(end - l4.l4);
  WriteIp(out.subspan(l4.ip), end - l4.ip, i);
  if (l4.kind == L4Checksum::kTcpOk) {
    WriteTcp(&out[l4.l4], i * segment_, i == 0, i + 1 == count());
  } else {
    Write16(&out[l4.l4 + kUdpLength], l4.l4_length);
  }
  return WritePseudoHeaderSum(out, l4);
}

}  // namespace eoib
