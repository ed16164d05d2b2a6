#include "gateway/election/hello.h"

#include <cstring>

#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ip/ip_headers.h"
#include "vswitch/wire/ip/ones_complement_sum.h"

namespace eoib::gateway {
namespace {

struct Udp {
  be16 source_port;
  be16 destination_port;
  be16 length;
  be16 checksum;
};
struct Message {
  be32 magic;
  uint8_t version = 0;
  uint8_t state = 0;
  uint8_t priority = 0;
  uint8_t reserved = 0;
  be16 pkey;
  be16 vlan;
  std::array<uint8_t, IpoibAddress::kSize> address{};
};
struct Packet {
  Ipv6Wire ip;
  Udp udp;
  Message message;
};
static_assert(sizeof(Packet) == 40 + 8 + 32);

constexpr uint32_t kMagic = 0x656f'6962;  // "eoib"
constexpr uint8_t kHelloVersion = 1;
constexpr uint8_t kHopLimit = 255;  // a router would have decremented it
constexpr size_t kUdpLength = sizeof(Udp) + sizeof(Message);

// The checksum of pseudo-header, UDP header and message (RFC 8200 §8.1).
uint16_t Checksum(const Packet& packet) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&packet);
  const uint32_t sum = OnesComplementSum(absl::MakeSpan(bytes + offsetof(Ipv6Wire, source), 32),
                                         kUdpLength + kProtocolUdp);
  return static_cast<uint16_t>(
      ~OnesComplementSum(absl::MakeSpan(bytes + sizeof(Ipv6Wire), kUdpLength), sum));
}

}  // namespace

std::vector<uint8_t> EncodeHello(const Election::Hello& hello, const Pair& pair) {
  Packet packet;
  const IpoibAddress& own = hello.from.address;
  packet.ip =
      MakeIpv6Header(kProtocolUdp, kHopLimit, Ipv6Addr::LinkLocal(ToInterfaceId(own.gid().guid())),
                     kHelloGroup, kUdpLength);
  packet.udp.source_port = packet.udp.destination_port = kHelloPort;
  packet.udp.length = kUdpLength;
  packet.message.magic = kMagic;
  packet.message.version = kHelloVersion;
  packet.message.state = static_cast<uint8_t>(hello.claim);
  packet.message.priority = hello.from.priority;
  packet.message.pkey = pair.ves.Full().value();
  packet.message.vlan = pair.vlan.value();
  own.ToWire(packet.message.address.data());
  const uint16_t checksum = Checksum(packet);
  // RFC 8200 §8.1: zero would mean no checksum.
  packet.udp.checksum = checksum == 0 ? 0xffff : checksum;
  const auto* bytes = reinterpret_cast<const uint8_t*>(&packet);
  return {bytes, bytes + sizeof(packet)};
}

bool IsHello(absl::Span<const uint8_t> packet) {
  if (packet.size() < sizeof(Ipv6Wire) || packet[0] >> 4 != 6) return false;
  return Ipv6Addr::FromWire(packet.data() + offsetof(Ipv6Wire, destination)) == kHelloGroup;
}

// A hello has one encoding. So decoding encodes the fields again and requires the same bytes.
absl::optional<Election::Hello> DecodeHello(absl::Span<const uint8_t> bytes, const Pair& pair) {
  if (bytes.size() != sizeof(Packet)) return absl::nullopt;
  Message message;
  std::memcpy(&message, bytes.data() + offsetof(Packet, message), sizeof(message));
  const Election::Rank from = {message.priority, IpoibAddress::FromWire(message.address.data())};
  const auto claim = static_cast<Election::Claim>(message.state);
  if (claim < Election::Claim::kCandidate || claim > Election::Claim::kNone) return absl::nullopt;
  const Election::Hello hello = {from, claim};
  if (absl::MakeConstSpan(EncodeHello(hello, pair)) != bytes) return absl::nullopt;
  return hello;
}

}  // namespace eoib::gateway
