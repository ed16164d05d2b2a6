#include "vswitch/wire/ip/udp.h"

#include <cstring>

#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/ip/ip_headers.h"

namespace eoib {
namespace {

// RFC 768.
struct UdpWire {
  be16 source_port;
  be16 destination_port;
  be16 length;
  be16 checksum;
};
static_assert(sizeof(Ipv4Wire) + sizeof(UdpWire) == kUdp4HeadersSize);

}  // namespace

absl::optional<UdpDatagram> ParseUdp(const Ipv4Packet& packet) noexcept {
  if (packet.protocol != kProtocolUdp || !packet.fragment.IsWhole()) return absl::nullopt;
  // This also checks that it is long enough, and that its length field is right.
  if (VerifyChecksum(packet) == ChecksumVerdict::kWrong) return absl::nullopt;
  const auto wire = ReadWire<UdpWire>(packet.payload.data());
  return UdpDatagram{wire.source_port.value(), wire.destination_port.value(),
                     packet.payload.subspan(sizeof(wire))};
}

absl::Span<const uint8_t> BuildUdp4(const Udp4Headers& headers, absl::Span<const uint8_t> payload,
                                    absl::Span<uint8_t> out) noexcept {
  const size_t size = kUdp4HeadersSize + payload.size();
  if (size > out.size() || size > kMaxIpPacket) return {};
  if (!payload.empty()) std::memmove(out.data() + kUdp4HeadersSize, payload.data(), payload.size());
  Ipv4Wire ip =
      MakeIpv4Header(kProtocolUdp, headers.ttl, headers.source, headers.destination, size);
  ip.id = headers.id;
  WriteWire(ip, out.data());
  WriteIpv4Checksum(out.first(sizeof(ip)));
  UdpWire wire;
  wire.source_port = headers.source_port;
  wire.destination_port = headers.destination_port;
  wire.length = static_cast<uint16_t>(size - sizeof(Ipv4Wire));
  WriteWire(wire, &out[sizeof(Ipv4Wire)]);
  WriteChecksum(out.first(size));
  return out.first(size);
}

}  // namespace eoib
