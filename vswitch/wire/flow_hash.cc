#include "vswitch/wire/flow_hash.h"

#include <cstring>

#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/ip/ip_headers.h"
#include "vswitch/wire/ip/ipv6_extensions.h"

namespace eoib {
namespace {

// Source and destination, where TCP and UDP have them (RFC 9293 §3.1, RFC 768)
constexpr size_t kPortsSize = 4;

template <typename Integer>
Integer Load(const uint8_t* bytes) {
  Integer value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// Mixes 16 bytes with one multiplication: both halves of a product, with the secret in each factor.
uint64_t Absorb(uint64_t state, uint64_t first, uint64_t second) {
  const auto product = static_cast<unsigned __int128>(state ^ first) *
                       static_cast<unsigned __int128>((state + 0x9e37'79b9'7f4a'7c15) ^ second);
  return static_cast<uint64_t>(product >> 64) ^ static_cast<uint64_t>(product);
}

// The ports at the start of `l4`, in wire order; 0 if the protocol has none or the frame ends
// before.
uint32_t PortsOf(uint8_t protocol, absl::Span<const uint8_t> l4) {
  const bool has_ports = protocol == kProtocolTcp || protocol == kProtocolUdp;
  return has_ports && l4.size() >= kPortsSize ? Load<uint32_t>(l4.data()) : 0;
}

uint64_t AbsorbIpv4(uint64_t state, absl::Span<const uint8_t> packet) {
  if (packet.size() < sizeof(Ipv4Wire) || packet[0] >> 4 != 4) return state;
  const auto header = ReadWire<Ipv4Wire>(packet.data());
  const size_t header_size = size_t{4} * (header.version_ihl & 0xf);
  const bool fragment = (header.fragment.value() & kIpv4MoreFragmentsOrOffset) != 0;
  const bool reads_on =
      !fragment && header_size >= sizeof(Ipv4Wire) && header_size <= packet.size();
  const uint64_t ports = reads_on ? PortsOf(header.protocol, packet.subspan(header_size)) : 0;
  return Absorb(state, Load<uint64_t>(packet.data() + offsetof(Ipv4Wire, source)),
                ports << 8 | header.protocol);
}

// Skips extension headers in *rest. Returns the protocol of what follows, or of the first header
// that it does not read. That includes a fragment header: the fragments of a datagram may name
// different protocols behind it (RFC 8200 §4.5).
uint8_t SkipExtensions(uint8_t protocol, absl::Span<const uint8_t>* rest) {
  for (int i = 0; i < kMaxIpv6Extensions && IsIpv6Extension(protocol); ++i) {
    const size_t size = Ipv6ExtensionSize(*rest);
    if (size == 0) break;
    protocol = (*rest)[0];
    rest->remove_prefix(size);
  }
  return protocol;
}

uint64_t AbsorbIpv6(uint64_t state, absl::Span<const uint8_t> packet) {
  if (packet.size() < sizeof(Ipv6Wire) || packet[0] >> 4 != 6) return state;
  const uint8_t* const addresses = packet.data() + offsetof(Ipv6Wire, source);
  state = Absorb(state, Load<uint64_t>(addresses), Load<uint64_t>(addresses + 8));
  state = Absorb(state, Load<uint64_t>(addresses + 16), Load<uint64_t>(addresses + 24));
  absl::Span<const uint8_t> rest = packet.subspan(sizeof(Ipv6Wire));
  const uint8_t protocol = SkipExtensions(packet[offsetof(Ipv6Wire, next_header)], &rest);
  return Absorb(state, PortsOf(protocol, rest), protocol);
}

}  // namespace

uint32_t FlowHash(uint64_t seed, absl::Span<const uint8_t> frame) noexcept {
  EthernetInfo info;
  const DropReason reason = ParseEthernet(frame, &info);
  if (reason == DropReason::kRunt) return 0;
  uint64_t state = Absorb(seed, Load<uint64_t>(&frame[0]),
                          uint64_t{Load<uint32_t>(&frame[8])} << 16 | info.vid.value());
  const size_t payload = PayloadBehindTags(frame);
  if (payload < frame.size()) {
    const uint16_t ethertype = ReadWire<be16>(&frame[payload - sizeof(be16)]).value();
    const auto packet = frame.subspan(payload);
    if (ethertype == kEtherTypeIpv4) state = AbsorbIpv4(state, packet);
    if (ethertype == kEtherTypeIpv6) state = AbsorbIpv6(state, packet);
  }
  // A final round, for flows with consecutive numbers.
  return static_cast<uint32_t>(Absorb(state, 0, 0));
}

}  // namespace eoib
