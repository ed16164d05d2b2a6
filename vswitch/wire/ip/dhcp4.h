// DHCP for IPv4 and BOOTP messages (RFC 2131, RFC 951) in a UDP payload, also on IPoIB (RFC 4390).
// This file reads them; dhcp4_writer.h writes them.
//
// For the DHCP client of the IPoIB host, and for the gateway, which adapts the messages of others.
#ifndef EOIB_VSWITCH_WIRE_IP_DHCP4_H_
#define EOIB_VSWITCH_WIRE_IP_DHCP4_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib {

inline constexpr uint16_t kDhcpServerPort = 67;  // RFC 2131 §4.1
inline constexpr uint16_t kDhcpClientPort = 68;

// ARP hardware types, as in `htype`.
inline constexpr uint8_t kDhcpEthernet = 1;
inline constexpr uint8_t kDhcpInfiniband = 32;  // RFC 4390 §2.1

enum class BootpOperation : uint8_t { kRequest = 1, kReply = 2 };

// RFC 2132 §9.6. RFC 4388 and RFC 6926 have more, which clients do not use.
enum class DhcpMessageType : uint8_t {
  kDiscover = 1,
  kOffer = 2,
  kRequest = 3,
  kDecline = 4,
  kAck = 5,
  kNak = 6,
  kRelease = 7,
  kInform = 8,
};

// RFC 2132 unless noted. The list is not complete; other codes are found in the same way.
enum class DhcpOption : uint8_t {
  kPad = 0,
  kSubnetMask = 1,
  kRouters = 3,
  kDomainNameServers = 6,
  kHostName = 12,
  kDomainName = 15,
  kRequestedAddress = 50,
  kLeaseTime = 51,
  kOverload = 52,
  kMessageType = 53,
  kServerIdentifier = 54,
  kParameterRequestList = 55,
  kMessage = 56,
  kMaximumMessageSize = 57,
  kRenewalTime = 58,
  kRebindingTime = 59,
  kVendorClass = 60,
  kClientIdentifier = 61,
  kEnd = 255,
};

inline constexpr size_t kDhcpHardwareAddressSize = 16;
// RFC 2131 §2: asks for a reply by broadcast.
inline constexpr uint16_t kDhcpBroadcastFlag = 0x8000;

// The fixed part of a message, without the two names (RFC 2131 §2).
struct DhcpFields {
  BootpOperation operation = BootpOperation::kRequest;
  uint8_t hardware_type = 0;
  // 0 on IPoIB, whose addresses do not fit (RFC 4390 §2.1); at most 16 in a parsed message.
  uint8_t hardware_length = 0;
  uint8_t hops = 0;
  uint32_t transaction = 0;
  uint16_t seconds = 0;
  uint16_t flags = 0;
  // Ciaddr: the client's current address.
  Ipv4Addr client;
  // Yiaddr: the address for the client.
  Ipv4Addr yours;
  // Siaddr: the next server for booting.
  Ipv4Addr server;
  Ipv4Addr relay;                                                    // giaddr
  std::array<uint8_t, kDhcpHardwareAddressSize> hardware_address{};  // chaddr

  friend bool operator==(const DhcpFields&, const DhcpFields&) = default;
};

// A parsed message. All but the fields is a view of its bytes.
class DhcpMessage {
 public:
  // Parses a UDP payload. Nothing if it is shorter than the fixed part, the operation is neither of
  // the two, the hardware length exceeds its field, an option reaches beyond its field, or the
  // option for message type or overload has an invalid value. A message without RFC 2132's magic
  // cookie is BOOTP and has no options. A missing end option is accepted.
  static absl::optional<DhcpMessage> Parse(absl::Span<const uint8_t> payload) noexcept;

  const DhcpFields& fields() const { return fields_; }
  absl::optional<DhcpMessageType> type() const { return type_; }  // nothing: BOOTP

  // Calls `visit` for each option except pads and ends, in order: those of the options field, then,
  // if the overload option says so, those of the file and server name fields (RFC 2131 §4.1).
  void ForEachOption(absl::FunctionRef<void(DhcpOption option, absl::Span<const uint8_t> value)>
                         visit) const noexcept;

  // An option's value. Concatenates the parts of an option that occurs more than once (RFC 3396
  // §7).
  absl::optional<std::vector<uint8_t>> FindOption(DhcpOption option) const;
  // The same, in the form that the option should have; nothing if it has another.
  std::vector<Ipv4Addr> FindAddresses(DhcpOption option) const;   // all of a list; or empty
  absl::optional<Ipv4Addr> FindAddress(DhcpOption option) const;  // the first of a list
  absl::optional<uint32_t> FindNumber(DhcpOption option) const;   // a number of 1, 2 or 4 bytes

 private:
  // Options, file, server name; empty if it holds no options.
  absl::Span<const uint8_t> OptionField(int index) const;

  DhcpFields fields_;
  absl::optional<DhcpMessageType> type_;
  absl::Span<const uint8_t> payload_;
  uint8_t overload_ = 0;
};

// Sets the broadcast flag in a whole IPv4 packet, so that the server need not know the client's
// hardware address, and updates the UDP checksum (a wrong one stays wrong). True if the packet
// changed: it is an unfragmented one from a client (to kDhcpServerPort), not from a relay (giaddr
// is 0), for a client without an address (ciaddr is 0), and the flag was clear.
bool AskForBroadcast(absl::Span<uint8_t> packet) noexcept;

// RFC 4361 §6.1: type 255, an identifier of the interface (IAID), and the DUID of the host.
std::vector<uint8_t> DhcpClientIdentifier(uint32_t interface_identity,
                                          absl::Span<const uint8_t> duid);
// The DUID of a port, made from its permanent GUID: type "link-layer address" (RFC 8415 §11.4) with
// hardware type EUI-64 (27). An IPoIB address would not do, because it changes with its queue pair.
std::vector<uint8_t> DuidOf(Guid guid);

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IP_DHCP4_H_
