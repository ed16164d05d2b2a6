#include "vswitch/wire/ip/neighbor_discovery.h"

#include <array>

#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ip/ip_headers.h"
#include "vswitch/wire/ip/ipv6_extensions.h"
#include "vswitch/wire/ip/ones_complement_sum.h"

namespace eoib {
namespace {

constexpr size_t kNdOptionUnit = 8;  // of options (RFC 4861 §4.6)
constexpr uint8_t kHopLimit = 255;
constexpr uint16_t kFragmentOffsetMask = 0xfff8;

// The start of an ICMPv6 message (RFC 4443 §2.1).
struct Icmpv6Wire {
  uint8_t type = 0;
  uint8_t code = 0;
  be16 checksum;
};
static_assert(sizeof(Icmpv6Wire) == 4);

// Whole options with a link-layer address (RFC 4861 §4.6.1). On IPoIB two zero bytes precede the
// address (RFC 4391 §9.3).
struct EthernetOptionWire {
  uint8_t type = 0;
  uint8_t length = 0;
  std::array<uint8_t, MacAddr::kSize> address{};
};
static_assert(sizeof(EthernetOptionWire) == kEthernetLinkAddressOptionSize);
struct IpoibOptionWire {
  uint8_t type = 0;
  uint8_t length = 0;
  be16 padding;
  std::array<uint8_t, IpoibAddress::kSize> address{};
};
static_assert(sizeof(IpoibOptionWire) == kIpoibLinkAddressOptionSize);

// RFC 4861 §4.6.4.
struct MtuOptionWire {
  uint8_t type = 0;
  uint8_t length = 0;
  be16 reserved;
  be32 mtu;
};
static_assert(sizeof(MtuOptionWire) == kNdOptionUnit);

constexpr size_t kNdOptionHeaderSize = 2;  // type and length

size_t NdOptionSize(absl::Span<const uint8_t> rest) { return kNdOptionUnit * rest[1]; }

// Bytes before the options (RFC 4861 §4.1 to §4.5). 0: not a type of neighbour discovery.
size_t FixedSize(uint8_t type) {
  switch (static_cast<NdType>(type)) {
    case NdType::kRouterSolicitation:
      return 8;
    case NdType::kRouterAdvertisement:
      return 16;
    case NdType::kNeighborSolicitation:
    case NdType::kNeighborAdvertisement:
      return 24;
    case NdType::kRedirect:
      return 40;
  }
  return 0;
}

bool HasTarget(NdType type) {
  return type != NdType::kRouterSolicitation && type != NdType::kRouterAdvertisement;
}
constexpr size_t kFlagsOffset = 4;
constexpr size_t kTargetOffset = 8;

// Size of the extension header at the start of `rest`, or 0 if `protocol` is not an extension
// header whose content can be found.
size_t ExtensionSize(uint8_t protocol, absl::Span<const uint8_t> rest) {
  if (IsIpv6Extension(protocol)) return Ipv6ExtensionSize(rest);
  if (protocol != kProtocolFragment || rest.size() < sizeof(Ipv6FragmentWire)) return 0;
  const uint16_t field = ReadWire<Ipv6FragmentWire>(rest.data()).offset.value();
  return (field & kFragmentOffsetMask) == 0 ? sizeof(Ipv6FragmentWire) : 0;
}

bool IsNeighborDiscovery(uint8_t protocol, absl::Span<const uint8_t> message) {
  return protocol == kProtocolIcmpv6 && !message.empty() && FixedSize(message[0]) != 0;
}

// True if neighbour discovery follows extension headers, or if there are more of these than are
// read. `rest` may be longer than the IPv6 payload length, so that a wrong length cannot hide a
// message either.
bool HidesNeighborDiscovery(uint8_t protocol, absl::Span<const uint8_t> rest) {
  for (int i = 0; i <= kMaxIpv6Extensions; ++i) {
    const size_t size = ExtensionSize(protocol, rest);
    if (size == 0) return IsNeighborDiscovery(protocol, rest);
    protocol = rest[0];
    rest.remove_prefix(size);
  }
  return true;
}

// RFC 4443 §2.3. `packet` starts with the IPv6 header, behind which `message` follows.
bool HasRightChecksum(absl::Span<const uint8_t> packet, absl::Span<const uint8_t> message) {
  const auto addresses = packet.subspan(kIpv6AddressesOffset, kIpv6AddressesSize);
  return OnesComplementSum(message, PseudoHeaderSum(addresses, kProtocolIcmpv6, message.size())) ==
         kRightSum;
}

// Parses `bytes`, a message of a neighbour discovery type in `packet`.
NdVerdict ParseMessage(absl::Span<const uint8_t> packet, absl::Span<const uint8_t> bytes,
                       NdMessage* message) {
  const auto header = ReadWire<Ipv6Wire>(packet.data());
  const size_t fixed = FixedSize(bytes[0]);
  if (header.hop_limit != kHopLimit || bytes.size() < fixed ||
      ReadWire<Icmpv6Wire>(bytes.data()).code != 0) {
    return NdVerdict::kBad;
  }
  const absl::optional<NdOptions> options = NdOptions::Parse(bytes.subspan(fixed));
  if (!options.has_value() || !HasRightChecksum(packet, bytes)) return NdVerdict::kBad;
  message->type = static_cast<NdType>(bytes[0]);
  message->source = Ipv6Addr(header.source);
  message->destination = Ipv6Addr(header.destination);
  message->target =
      HasTarget(message->type) ? Ipv6Addr::FromWire(&bytes[kTargetOffset]) : Ipv6Addr();
  message->message = bytes;
  message->options = *options;
  return NdVerdict::kGood;
}

// The address in a link-layer address option of the size of `Wire`; nothing for another option.
template <typename Wire, typename LinkAddress>
absl::optional<LinkAddress> ReadLinkAddress(const NdOption& option) {
  if (!IsLinkAddress(option.type) || option.bytes.size() != sizeof(Wire)) return absl::nullopt;
  return LinkAddress::FromWire(ReadWire<Wire>(option.bytes.data()).address.data());
}

template <typename Wire, typename LinkAddress>
bool WriteLinkAddress(NdOptionType type, const LinkAddress& address, absl::Span<uint8_t> out) {
  if (!IsLinkAddress(type) || out.size() < sizeof(Wire)) return false;
  Wire wire;
  wire.type = static_cast<uint8_t>(type);
  wire.length = sizeof(Wire) / kNdOptionUnit;
  address.ToWire(wire.address.data());
  WriteWire(wire, out.data());
  return true;
}

}  // namespace

NdOption NdOptions::Iterator::operator*() const {
  return {static_cast<NdOptionType>(rest_[0]), rest_.first(NdOptionSize(rest_))};
}

NdOptions::Iterator& NdOptions::Iterator::operator++() {
  rest_.remove_prefix(NdOptionSize(rest_));
  return *this;
}

NdOption NdOptions::Find(NdOptionType type) const {
  for (const NdOption option : *this) {
    if (option.type == type) return option;
  }
  return {};
}

absl::optional<NdOptions> NdOptions::Parse(absl::Span<const uint8_t> bytes) noexcept {
  for (auto rest = bytes; !rest.empty(); rest.remove_prefix(NdOptionSize(rest))) {
    if (rest.size() < kNdOptionHeaderSize || NdOptionSize(rest) == 0 ||
        NdOptionSize(rest) > rest.size())
      return absl::nullopt;
  }
  return NdOptions(bytes);
}

NdVerdict ParseNeighborDiscovery(absl::Span<const uint8_t> packet, NdMessage* message) noexcept {
  if (packet.size() < sizeof(Ipv6Wire) || packet[0] >> 4 != 6) return NdVerdict::kOther;
  const auto header = ReadWire<Ipv6Wire>(packet.data());
  const auto rest = packet.subspan(sizeof(Ipv6Wire));
  const size_t length = header.payload_length.value();
  // Looks at all bytes, not only at the payload length: a wrong length must not hide a message.
  if (!IsNeighborDiscovery(header.next_header, rest)) {
    return HidesNeighborDiscovery(header.next_header, rest) ? NdVerdict::kBad : NdVerdict::kOther;
  }
  if (length == 0 || length > rest.size()) return NdVerdict::kBad;
  return ParseMessage(packet, rest.first(length), message);
}

absl::optional<MacAddr> EthernetLinkAddress(const NdOption& option) noexcept {
  return ReadLinkAddress<EthernetOptionWire, MacAddr>(option);
}

absl::optional<IpoibAddress> IpoibLinkAddress(const NdOption& option) noexcept {
  return ReadLinkAddress<IpoibOptionWire, IpoibAddress>(option);
}

absl::optional<uint32_t> LinkMtu(const NdOption& option) noexcept {
  if (option.type != NdOptionType::kMtu || option.bytes.size() != sizeof(MtuOptionWire))
    return absl::nullopt;
  return ReadWire<MtuOptionWire>(option.bytes.data()).mtu.value();
}

absl::Span<const uint8_t> Nonce(const NdOption& option) noexcept {
  return option.type == NdOptionType::kNonce ? option.bytes.subspan(kNdOptionHeaderSize)
                                             : absl::Span<const uint8_t>();
}

bool WriteLinkAddressOption(NdOptionType type, MacAddr address, absl::Span<uint8_t> out) noexcept {
  return WriteLinkAddress<EthernetOptionWire>(type, address, out);
}

bool WriteLinkAddressOption(NdOptionType type, const IpoibAddress& address,
                            absl::Span<uint8_t> out) noexcept {
  return WriteLinkAddress<IpoibOptionWire>(type, address, out);
}

void StartNeighborMessage(NdType type, uint8_t flags, const Ipv6Addr& source,
                          const Ipv6Addr& destination, const Ipv6Addr& target,
                          std::vector<uint8_t>* packet) {
  const Ipv6Wire header = MakeIpv6Header(kProtocolIcmpv6, kHopLimit, source, destination, 0);
  packet->assign(sizeof(header) + FixedSize(static_cast<uint8_t>(type)), 0);
  WriteWire(header, packet->data());
  uint8_t* const message = packet->data() + sizeof(header);
  message[0] = static_cast<uint8_t>(type);
  message[kFlagsOffset] = flags;
  target.ToWire(message + kTargetOffset);
}

void AppendLinkAddressOption(NdOptionType type, MacAddr address, std::vector<uint8_t>* packet) {
  packet->resize(packet->size() + kEthernetLinkAddressOptionSize);
  WriteLinkAddressOption(type, address,
                         absl::MakeSpan(*packet).last(kEthernetLinkAddressOptionSize));
}

void AppendLinkAddressOption(NdOptionType type, const IpoibAddress& address,
                             std::vector<uint8_t>* packet) {
  packet->resize(packet->size() + kIpoibLinkAddressOptionSize);
  WriteLinkAddressOption(type, address, absl::MakeSpan(*packet).last(kIpoibLinkAddressOptionSize));
}

void FinishNeighborMessage(std::vector<uint8_t>* packet) {
  const auto message = absl::MakeSpan(*packet).subspan(sizeof(Ipv6Wire));
  auto header = ReadWire<Ipv6Wire>(packet->data());
  header.payload_length = static_cast<uint16_t>(message.size());
  WriteWire(header, packet->data());
  auto start = ReadWire<Icmpv6Wire>(message.data());
  start.checksum = 0;
  WriteWire(start, message.data());
  const auto addresses =
      absl::MakeConstSpan(*packet).subspan(kIpv6AddressesOffset, kIpv6AddressesSize);
  start.checksum = static_cast<uint16_t>(
      ~OnesComplementSum(message, PseudoHeaderSum(addresses, kProtocolIcmpv6, message.size())));
  WriteWire(start, message.data());
}

}  // namespace eoib
