#include "vswitch/wire/ip/udp.h"

#include <cstring>

#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/ip/ip_headers.h"

namespace eoib {
namespace {

constexpr size_t kMaxPacket = 0xffff;

// RFC 768.
struct UdpWire {
  be16 source_port;
  be16 destination_port;
  be16 length;
  be16 checksum;
};
static_assert(sizeof(Ipv4Wire) + sizeof(UdpWire) == kUdp4HeadersSize);

void WriteIpv4Header(const Udp4Headers& headers, size_t size, uint8_t* out) {
  Ipv4Wire wire;
  wire.version_ihl = 4 << 4 | sizeof(wire) / 4;
  wire.total_length = static_cast<uint16_t>(size);
  wire.id = headers.id;
  wire.ttl = headers.ttl;
  wire.protocol = kProtocolUdp;
  wire.source = headers.source.value();
  wire.destination = headers.destination.value();
  WriteWire(wire, out);
  WriteIpv4Checksum({out, sizeof(wire)});
}

}  // namespace

absl::optional<UdpDatagram> ParseUdp(const Ipv4Packet& packet) noexcept {
  if (packet.protocol != kProtocolUdp || !packet.fragment.IsWhole()) return absl::nullopt;
  // This also checks that it is long enough, and that its length field is right.
  if (VerifyChecksum(packet) == ChecksumVerdict::kWrong) return absl::nullopt;
  const auto wire = ReadWire<UdpWire>(packet.payload.data());
  return UdpDatagram{wire.source_port.value(), wire.destination_port.value(), packet.payload.subspan(sizeof(wire))};
}

absl::Span<const uint8_t> BuildUdp4(const Udp4Headers& headers, absl::Span<const uint8_t> payload,
                                    absl::Span<uint8_t> out) noexcept {
  const size_t size = kUdp4HeadersSize + payload.size();
  if (size > out.size() || size > kMaxPacket) return {};
  if (!payload.empty()) std::memmove(out.data() + kUdp4HeadersSize, payload.data(), payload.size());
  WriteIpv4Header(headers, size, out.data());
  UdpWire wire;
  wire.source_port = headers.source_port;
  wire.destination_port = headers.destination_port;
  wire.length = static_cast<uint16_t>(size - sizeof(Ipv4Wire));
  WriteWire(wire, &out[sizeof(Ipv4Wire)]);
  WriteChecksum(out.first(size));
  return out.first(size);
}

}  // namespace eoib
