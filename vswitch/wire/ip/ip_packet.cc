#include "vswitch/wire/ip/ip_packet.h"

#include "vswitch/wire/ip/ip_headers.h"
#include "vswitch/wire/ip/ipv6_extensions.h"
#include "vswitch/wire/ip/ones_complement_sum.h"

namespace eoib {
namespace {

constexpr size_t kMaxDatagram = 0xffff;
constexpr uint16_t kIpv6MoreFragments = 1;
constexpr uint16_t kIpv6OffsetMask = 0xfff8;  // in bytes, unshifted
constexpr uint8_t kOptionRouterAlert = 5;     // RFC 2711 §2.1

// True if a fragment with `size` bytes of data is possible; `before` is the size of the headers
// that the datagram's length also counts.
bool IsPossible(const IpFragment& fragment, size_t size, size_t before) {
  if (fragment.more && size % kFragmentUnit != 0) return false;
  return before + fragment.offset + size <= kMaxDatagram;
}

IpFragment FragmentOf(const Ipv4Wire& header) {
  const uint16_t field = header.fragment.value();
  return {header.id.value(), kFragmentUnit * (field & kIpv4OffsetMask),
          (field & kIpv4MoreFragments) != 0};
}

void ReadIpv4Fields(const Ipv4Wire& header, Ipv4Packet* packet) {
  packet->source = Ipv4Addr(header.source.value());
  packet->destination = Ipv4Addr(header.destination.value());
  packet->ttl = header.ttl;
  packet->protocol = header.protocol;
  packet->dont_fragment = (header.fragment.value() & kIpv4DontFragment) != 0;
  packet->fragment = FragmentOf(header);
}

void ReadIpv6Fields(const Ipv6Wire& header, Ipv6Packet* packet) {
  packet->source = Ipv6Addr(header.source);
  packet->destination = Ipv6Addr(header.destination);
  packet->hop_limit = header.hop_limit;
  packet->protocol = header.next_header;
}

bool IsReadHere(uint8_t protocol) {
  return protocol == kProtocolFragment || IsIpv6Extension(protocol);
}

// These remove the header at the start of packet->payload. False if it is malformed.
bool TakeFragmentHeader(Ipv6Packet* packet) {
  if (packet->has_fragment_header || packet->payload.size() < sizeof(Ipv6FragmentWire))
    return false;
  const auto header = ReadWire<Ipv6FragmentWire>(packet->payload.data());
  const uint16_t field = header.offset.value();
  packet->fragment = {header.id.value(), size_t{field} & kIpv6OffsetMask,
                      (field & kIpv6MoreFragments) != 0};
  packet->has_fragment_header = true;
  packet->protocol = header.next_header;
  // RFC 8200 §4.5: the limit applies to the payload length of the reassembled datagram, without
  // fragment headers.
  const auto before =
      static_cast<size_t>(packet->payload.data() - packet->bytes.data()) - sizeof(Ipv6Wire);
  packet->payload.remove_prefix(sizeof(header));
  return IsPossible(packet->fragment, packet->payload.size(), before);
}

bool TakeExtension(Ipv6Packet* packet) {
  const size_t size = Ipv6ExtensionSize(packet->payload);
  if (size == 0) return false;
  const auto extension = packet->payload.first(size);
  if (packet->protocol == kProtocolHopByHop) {
    if (extension.data() != packet->bytes.data() + sizeof(Ipv6Wire)) return false;  // RFC 8200 §4.1
    packet->hop_by_hop = extension.subspan(2);
  }
  if (!KeepsAddresses(packet->protocol, extension)) packet->checksum_covers_addresses = false;
  packet->protocol = extension[0];
  packet->payload.remove_prefix(size);
  return true;
}

bool TakeHeader(Ipv6Packet* packet) {
  return packet->protocol == kProtocolFragment ? TakeFragmentHeader(packet) : TakeExtension(packet);
}

bool HasHeaderToTake(const Ipv6Packet& packet) {
  return packet.fragment.IsFirst() && IsReadHere(packet.protocol);
}

}  // namespace

absl::optional<Ipv4Packet> ParseIpv4Packet(absl::Span<const uint8_t> bytes) noexcept {
  if (bytes.size() < sizeof(Ipv4Wire) || bytes[0] >> 4 != 4) return absl::nullopt;
  const auto header = ReadWire<Ipv4Wire>(bytes.data());
  const size_t header_size = size_t{4} * (header.version_ihl & 0xf);
  const size_t size = header.total_length.value();
  if (header_size < sizeof(Ipv4Wire) || size < header_size || size > bytes.size())
    return absl::nullopt;
  if (OnesComplementSum(bytes.first(header_size)) != kRightSum) return absl::nullopt;
  Ipv4Packet packet;
  ReadIpv4Fields(header, &packet);
  packet.bytes = bytes.first(size);
  packet.options = packet.bytes.subspan(sizeof(header), header_size - sizeof(header));
  packet.payload = packet.bytes.subspan(header_size);
  if (!IsPossible(packet.fragment, packet.payload.size(), header_size)) return absl::nullopt;
  return packet;
}

absl::optional<Ipv6Packet> ParseIpv6Packet(absl::Span<const uint8_t> bytes) noexcept {
  if (bytes.size() < sizeof(Ipv6Wire) || bytes[0] >> 4 != 6) return absl::nullopt;
  const auto header = ReadWire<Ipv6Wire>(bytes.data());
  const size_t size = sizeof(header) + header.payload_length.value();
  if (size > bytes.size()) return absl::nullopt;
  Ipv6Packet packet;
  ReadIpv6Fields(header, &packet);
  packet.bytes = bytes.first(size);
  packet.payload = packet.bytes.subspan(sizeof(header));
  for (int i = 0; i < kMaxIpv6Extensions && HasHeaderToTake(packet); ++i) {
    if (!TakeHeader(&packet)) return absl::nullopt;
  }
  packet.reached_payload = !HasHeaderToTake(packet);
  return packet;
}

bool HasRouterAlert(const Ipv6Packet& packet, uint16_t value) noexcept {
  const auto option = FindIpv6Option(packet.hop_by_hop, kOptionRouterAlert);
  return option.size() == sizeof(be16) && ReadWire<be16>(option.data()).value() == value;
}

}  // namespace eoib
