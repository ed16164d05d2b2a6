// Messages of DHCP for IPv4 and of BOOTP (RFC 2131, RFC 951), as they are in a UDP payload; on IPoIB as RFC 4390 has it.
//
// Read by who has an address leased, and by who sees others' pass. dhcp4_writer.h writes them.
#ifndef EOIB_VSWITCH_WIRE_DHCP4_H_
#define EOIB_VSWITCH_WIRE_DHCP4_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "fdb/address.h"
#include "vswitch/wire/ip_address.h"

namespace eoib {

inline constexpr uint16_t kDhcpServerPort = 67;  // RFC 2131 §4.1
inline constexpr uint16_t kDhcpClientPort = 68;

// ARP hardware types, as in `htype`.
inline constexpr uint8_t kDhcpEthernet = 1;
inline constexpr uint8_t kDhcpInfiniband = 32;  // RFC 4390 §2.1

enum class BootpOperation : uint8_t { kRequest = 1, kReply = 2 };

// RFC 2132 §9.6. There are more (RFC 4388, RFC 6926), which are none of a client's.
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

// RFC 2132 unless it says otherwise. There are more; they are found like these.
enum class DhcpOption : uint8_t {
  kPad = 0,
  kSubnetMask = 1,
  kRouters = 3,
  kDomainNameServers = 6,
  kHostName = 12,
  kDomainName = 15,
  kInterfaceMtu = 26,
  kBroadcastAddress = 28,
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
  kRelayAgentInformation = 82,  // RFC 3046
  kClasslessRoutes = 121,       // RFC 3442
  kEnd = 255,
};

inline constexpr size_t kDhcpHardwareAddressSize = 16;
inline constexpr uint16_t kDhcpBroadcastFlag = 0x8000;  // RFC 2131 §2: the reply is to be broadcast

// The fixed part but for the two names (RFC 2131 §2).
struct DhcpFields {
  BootpOperation operation = BootpOperation::kRequest;
  uint8_t hardware_type = 0;
  uint8_t hardware_length = 0;  // 0 on IPoIB, whose addresses do not fit (RFC 4390 §2.1); never above 16 in what was read
  uint8_t hops = 0;
  uint32_t transaction = 0;
  uint16_t seconds = 0;
  uint16_t flags = 0;
  Ipv4Addr client;                                                   // ciaddr: has it already
  Ipv4Addr yours;                                                    // yiaddr: gets it
  Ipv4Addr server;                                                   // siaddr: the next to ask when booting
  Ipv4Addr relay;                                                    // giaddr
  std::array<uint8_t, kDhcpHardwareAddressSize> hardware_address{};  // chaddr

  bool WantsBroadcast() const { return (flags & kDhcpBroadcastFlag) != 0; }

  friend bool operator==(const DhcpFields&, const DhcpFields&) = default;
};

// A message that was read. A view of its bytes, but for the fields.
class DhcpMessage {
 public:
  // `payload` is that of UDP. Nothing if it is shorter than the fixed part, its operation is neither of the two, its hardware
  // addresses are longer than their field, an option reaches beyond the field it is in, or the options for message type or
  // overload have a value that these cannot have. A message without RFC 2132's magic cookie is BOOTP's and has no options. A
  // missing end option is forgiven.
  static absl::optional<DhcpMessage> Parse(absl::Span<const uint8_t> payload) noexcept;

  const DhcpFields& fields() const { return fields_; }
  absl::optional<DhcpMessageType> type() const { return type_; }  // nothing: BOOTP

  // Calls `visit` for each option but pads and ends, as they follow each other in the options and, if an overload option says
  // that these have options too, in the fields for the file's and the server's name (RFC 2131 §4.1).
  void ForEachOption(absl::FunctionRef<void(DhcpOption option, absl::Span<const uint8_t> value)> visit) const noexcept;

  // An option's value. Parts of one that comes more than once are put together (RFC 3396 §7).
  absl::optional<std::vector<uint8_t>> FindOption(DhcpOption option) const;
  // The same, of the form that the option should have; nothing if it has another.
  std::vector<Ipv4Addr> FindAddresses(DhcpOption option) const;   // of all of a list; empty
  absl::optional<Ipv4Addr> FindAddress(DhcpOption option) const;  // the first of a list
  absl::optional<uint32_t> FindNumber(DhcpOption option) const;   // of 1, 2 or 4 bytes

 private:
  absl::Span<const uint8_t> OptionField(int index) const;  // options, file, server name: those that hold options

  DhcpFields fields_;
  absl::optional<DhcpMessageType> type_;
  absl::Span<const uint8_t> payload_;
  uint8_t overload_ = 0;
};

// Sets the broadcast flag of a BOOTREQUEST, so that whoever answers need not know the client's hardware address. True if it was
// not set: the UDP checksum is then to be updated. Of what is no request nothing changes.
bool SetBroadcastFlag(absl::Span<uint8_t> message) noexcept;
// The same in a whole IPv4 packet, whose UDP checksum is kept as right as it was. True if the packet was changed: it is an
// unfragmented one from a client (to kDhcpServerPort), is no relay's (giaddr is 0) and did not have the flag.
bool AskForBroadcast(absl::Span<uint8_t> packet) noexcept;

// RFC 4361 §6.1: type 255, an identity of the interface, one of its host.
std::vector<uint8_t> DhcpClientIdentifier(uint32_t interface_identity, absl::Span<const uint8_t> duid);
// A DUID of a port, made of what it keeps for ever: of type "link-layer address" (RFC 8415 §11.4), its hardware type that of an
// EUI-64 (27), because an IPoIB address changes with its queue pair.
std::vector<uint8_t> DuidOf(Guid guid);

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_DHCP4_H_
