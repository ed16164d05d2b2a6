// DhcpWriter: one message of DHCP (dhcp4.h) into bytes of the caller's, field by field.
//
//     DhcpWriter writer(IpoibDhcpRequest(transaction, Ipv4Addr()), bytes);
//     writer.Add(DhcpMessageType::kDiscover);
//     writer.Add(DhcpOption::kClientIdentifier, DhcpClientIdentifier(identity, DuidOf(guid)));
//     Send(writer.Finish());
#ifndef EOIB_VSWITCH_WIRE_DHCP4_WRITER_H_
#define EOIB_VSWITCH_WIRE_DHCP4_WRITER_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "vswitch/wire/dhcp4.h"
#include "vswitch/wire/ip_address.h"

namespace eoib {

// The fixed part of a client's message on IPoIB (RFC 4390 §2): no hardware address, and a reply by broadcast unless the client
// has the address `client` already, where it can be found by ARP (§2.2).
DhcpFields IpoibDhcpRequest(uint32_t transaction, Ipv4Addr client) noexcept;

class DhcpWriter {
 public:
  // Begins with the fixed part; names are empty. `out` must outlive the writer. 548 bytes are what every receiver takes (RFC
  // 2131 §2).
  DhcpWriter(const DhcpFields& fields, absl::Span<uint8_t> out) noexcept;

  // Each adds an option. A value above 255 bytes goes in parts (RFC 3396 §5). Not of kPad and kEnd.
  void Add(DhcpOption option, absl::Span<const uint8_t> value) noexcept;
  void Add(DhcpMessageType type) noexcept;
  void AddAddress(DhcpOption option, Ipv4Addr address) noexcept;
  void AddNumber16(DhcpOption option, uint16_t value) noexcept;
  void AddNumber32(DhcpOption option, uint32_t value) noexcept;

  // Ends the options and fills up to the 300 bytes of BOOTP, below which relays may drop it (RFC 1542 §2.1). The bytes written;
  // none if `out` was too short. Once.
  absl::Span<const uint8_t> Finish() noexcept;

 private:
  void AddPart(DhcpOption option, absl::Span<const uint8_t> value) noexcept;

  absl::Span<uint8_t> out_;
  size_t size_ = 0;
  bool fits_ = true;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_DHCP4_WRITER_H_
