// The wire form of the fixed part of a DHCP message, for dhcp4.cc and dhcp4_writer.cc.
#ifndef EOIB_VSWITCH_WIRE_IP_DHCP4_WIRE_H_
#define EOIB_VSWITCH_WIRE_IP_DHCP4_WIRE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ip/dhcp4.h"

namespace eoib {

inline constexpr size_t kDhcpServerNameSize = 64;
inline constexpr size_t kDhcpFileSize = 128;
inline constexpr uint32_t kDhcpMagicCookie = 0x63825363;  // RFC 2131 §3: start of the options

// RFC 2131 §2.
struct Dhcp4Wire {
  uint8_t operation = 0;
  uint8_t hardware_type = 0;
  uint8_t hardware_length = 0;
  uint8_t hops = 0;
  be32 transaction;
  be16 seconds;
  be16 flags;
  be32 client;
  be32 yours;
  be32 server;
  be32 relay;
  std::array<uint8_t, kDhcpHardwareAddressSize> hardware_address{};
  std::array<uint8_t, kDhcpServerNameSize> server_name{};
  std::array<uint8_t, kDhcpFileSize> file{};
};
static_assert(sizeof(Dhcp4Wire) == 236);

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IP_DHCP4_WIRE_H_
