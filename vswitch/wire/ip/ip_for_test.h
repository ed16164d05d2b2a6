// Builds IP packets for tests, with right lengths and IPv4 header checksums.
#ifndef EOIB_VSWITCH_WIRE_IP_IP_FOR_TEST_H_
#define EOIB_VSWITCH_WIRE_IP_IP_FOR_TEST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/base/hex_for_test.h"

namespace eoib {

inline constexpr size_t kIpv4Fragment = 6, kIpv4Ttl = 8, kIpv4Source = 12, kIpv4Destination = 16;
inline constexpr size_t kIpv6HopLimit = 7, kIpv6Source = 8, kIpv6Destination = 24;

// RFC 1071, sixteen bits at a time; independent of the code under test.
inline uint16_t PlainChecksum(absl::Span<const uint8_t> bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i) sum += i % 2 == 0 ? uint32_t{bytes[i]} << 8 : bytes[i];
  while (sum > 0xffff) sum = (sum >> 16) + (sum & 0xffff);
  return static_cast<uint16_t>(~sum);
}

// Repairs lengths and header checksum after a change of a packet.
inline void RepairIpv4(std::vector<uint8_t>* packet) {
  const size_t header = size_t{4} * ((*packet)[0] & 0xf);
  WriteWire(be16(static_cast<uint16_t>(packet->size())), &(*packet)[2]);
  WriteWire(be16(), &(*packet)[10]);
  WriteWire(be16(PlainChecksum(absl::MakeConstSpan(*packet).first(header))), &(*packet)[10]);
}
inline void RepairIpv6(std::vector<uint8_t>* packet) {
  WriteWire(be16(static_cast<uint16_t>(packet->size() - 40)), &(*packet)[4]);
}

// A packet from 192.0.2.1 to 192.0.2.2. The size of `options` is a multiple of 4 bytes.
inline std::vector<uint8_t> Ipv4Of(uint8_t protocol, absl::Span<const uint8_t> payload,
                                   absl::string_view options = "") {
  std::vector<uint8_t> packet = FromHex("45000000 12340000 40000000 c0000201 c0000202");
  const auto more = FromHex(options);
  packet[0] = static_cast<uint8_t>(0x45 + more.size() / 4);
  packet[9] = protocol;
  packet.insert(packet.end(), more.begin(), more.end());
  packet.insert(packet.end(), payload.begin(), payload.end());
  RepairIpv4(&packet);
  return packet;
}

// A packet from fe80::1 to fe80::2. `headers` are extension headers, the first of type `protocol`.
inline std::vector<uint8_t> Ipv6Of(uint8_t protocol, absl::Span<const uint8_t> payload,
                                   absl::string_view headers = "") {
  std::vector<uint8_t> packet =
      FromHex("6000000000000040 fe800000000000000000000000000001 fe800000000000000000000000000002");
  const auto more = FromHex(headers);
  packet[6] = protocol;
  packet.insert(packet.end(), more.begin(), more.end());
  packet.insert(packet.end(), payload.begin(), payload.end());
  RepairIpv6(&packet);
  return packet;
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IP_IP_FOR_TEST_H_
