// DhcpWriter: writes a DHCP message (dhcp4.h) into the caller's buffer, field by field.
//
//     DhcpWriter writer(IpoibDhcpRequest(transaction, Ipv4Addr()), bytes);
//     writer.Add(DhcpMessageType::kDiscover);
//     writer.Add(DhcpOption::kClientIdentifier, DhcpClientIdentifier(identity, DuidOf(guid)));
//     Send(writer.Finish());
#ifndef EOIB_VSWITCH_WIRE_IP_DHCP4_WRITER_H_
#define EOIB_VSWITCH_WIRE_IP_DHCP4_WRITER_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "vswitch/wire/ip/dhcp4.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib {

// The fixed part of a client's message on IPoIB (RFC 4390 §2): no hardware address. It asks for a
// reply by broadcast, unless the client already has the address `client`, where ARP finds it
// (§2.2).
DhcpFields IpoibDhcpRequest(uint32_t transaction, Ipv4Addr client) noexcept;

class DhcpWriter {
 public:
  // Starts with the fixed part, with empty names. `out` must outlive the writer. Every receiver
  // takes 548 bytes (RFC 2131 §2).
  DhcpWriter(const DhcpFields& fields, absl::Span<uint8_t> out) noexcept;

  // Each adds an option, except kPad and kEnd. A value above 255 bytes is split (RFC 3396 §5).
  void Add(DhcpOption option, absl::Span<const uint8_t> value) noexcept;
  void Add(DhcpMessageType type) noexcept;
  void AddAddress(DhcpOption option, Ipv4Addr address) noexcept;
  void AddNumber16(DhcpOption option, uint16_t value) noexcept;
  void AddNumber32(DhcpOption option, uint32_t value) noexcept;

  // Ends the options and pads to the 300 bytes of BOOTP, because relays may drop shorter messages
  // (RFC 1542 §2.1). Returns the bytes written; none if `out` was too short. Call it once.
  absl::Span<const uint8_t> Finish() noexcept;

 private:
  void AddPart(DhcpOption option, absl::Span<const uint8_t> value) noexcept;

  absl::Span<uint8_t> out_;
  size_t size_ = 0;
  bool fits_ = true;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IP_DHCP4_WRITER_H_
