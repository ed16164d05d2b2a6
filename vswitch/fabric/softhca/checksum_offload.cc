#include "vswitch/fabric/softhca/checksum_offload.h"

#include <cstring>

#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/ip/ip_headers.h"
#include "vswitch/wire/ip/ones_complement_sum.h"
#include "vswitch/wire/ipoib_header.h"

namespace eoib::softhca {

bool HasIpv4(absl::Span<const uint8_t> datagram) noexcept {
  return DecodeIpoibHeader(datagram) == IpoibType::kIpv4;
}

bool CopyAndVerify(absl::Span<const uint8_t> datagram, uint8_t* to) noexcept {
  std::memcpy(to, datagram.data(), kIpoibHeaderSize);
  const absl::Span<const uint8_t> copy(to + kIpoibHeaderSize, datagram.size() - kIpoibHeaderSize);
  const uint16_t sum = CopyAndSum(datagram.subspan(kIpoibHeaderSize), to + kIpoibHeaderSize);
  const absl::optional<Ipv4Packet> packet = ParseIpv4Packet(copy);
  return HasIpv4({to, kIpoibHeaderSize}) && packet.has_value() &&
         packet->bytes.size() == copy.size() &&
         VerifyChecksum(*packet, sum) == ChecksumVerdict::kRight;
}

// ParseIpv4Packet would refuse a header whose checksum is not there yet.
void WriteChecksums(absl::Span<uint8_t> datagram) noexcept {
  if (!HasIpv4(datagram)) return;
  const absl::Span<uint8_t> packet = datagram.subspan(kIpoibHeaderSize);
  if (packet.size() < sizeof(Ipv4Wire)) return;
  const size_t header_size = size_t{4} * (packet[0] & 0xf);
  if (packet[0] >> 4 != 4 || header_size < sizeof(Ipv4Wire) || header_size > packet.size()) return;
  WriteIpv4Checksum(packet.first(header_size));
  const uint8_t protocol = packet[offsetof(Ipv4Wire, protocol)];
  if (protocol == kProtocolTcp || protocol == kProtocolUdp) WriteChecksum(packet);
}

}  // namespace eoib::softhca
