#include "vswitch/wire/ip/icmp_error.h"

#include <algorithm>
#include <cstring>

#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/ip/ip_headers.h"

namespace eoib {
namespace {

constexpr size_t kMaxIcmpv4Error = 576;   // RFC 1812 §4.3.2.3
constexpr size_t kMaxIcmpv6Error = 1280;  // RFC 4443 §2.4(c)
constexpr uint8_t kErrorTtl = 64;         // RFC 1700
// Precedence 6, RFC 1812 §4.3.2.5; type of service 0, RFC 1349 §5.1.
constexpr uint8_t kInternetworkControl = 0xc0;
constexpr uint8_t kUnreachable = 3, kHostUnreachable = 1, kFragmentationNeeded = 4;
constexpr uint8_t kUnreachable6 = 1, kAddressUnreachable = 3, kPacketTooBig = 2;
constexpr uint8_t kRedirect6 = 137;          // RFC 4861 §4.5
constexpr uint8_t kFirstInformation6 = 128;  // below are errors: RFC 4443 §2.1

// The start of the message in both versions: RFC 792 with RFC 1191 §4, and RFC 4443 §3.2, where the
// MTU has 32 bits.
struct ErrorWire {
  uint8_t type = 0;
  uint8_t code = 0;
  be16 checksum;
  be32 value;
};
static_assert(sizeof(ErrorWire) == 8);

// Also true for a message too short to have a type, to be safe.
bool IsError(const Ipv4Packet& packet) {
  constexpr uint8_t kErrors[] = {3, 4, 5, 11, 12};  // RFC 1122 §3.2.2
  if (packet.protocol != kProtocolIcmp) return false;
  return packet.payload.empty() ||
         std::count(std::begin(kErrors), std::end(kErrors), packet.payload[0]) != 0;
}

// A later fragment does not show its type. It cannot belong to an error: errors have at most 1,280
// bytes, so they are never fragmented.
bool IsError(const Ipv6Packet& packet) {
  if (!packet.reached_payload) return true;
  if (packet.protocol != kProtocolIcmpv6 || !packet.fragment.IsFirst()) return false;
  return packet.payload.empty() || packet.payload[0] < kFirstInformation6 ||
         packet.payload[0] == kRedirect6;
}

// RFC 1122 §3.2.2.
bool MayTell(const Ipv4Packet& packet, Ipv4Addr source) {
  if (IsError(packet) || !packet.fragment.IsFirst()) return false;
  if (packet.destination.IsMulticast() || packet.destination.IsBroadcast()) return false;
  return IpAddr(packet.source).CanBeHost() && IpAddr(source).CanBeHost();
}

// RFC 4443 §2.4(e), except (e.3), which depends on the error.
bool MayTell(const Ipv6Packet& packet, const Ipv6Addr& source) {
  return !IsError(packet) && IpAddr(packet.source).CanBeHost() && IpAddr(source).CanBeHost();
}

// Writes the error, with the start of the packet that caused it, behind the IP header of
// `header_size` bytes in *out.
absl::Span<const uint8_t> Finish(size_t header_size, const ErrorWire& error,
                                 absl::Span<const uint8_t> original, IcmpErrorBuffer* out) {
  WriteWire(error, out->data() + header_size);
  std::memcpy(out->data() + header_size + sizeof(error), original.data(), original.size());
  const auto bytes = absl::MakeSpan(*out).first(header_size + sizeof(error) + original.size());
  WriteChecksum(bytes);
  return bytes;
}

absl::Span<const uint8_t> Build(const Ipv4Packet& packet, Ipv4Addr source, const ErrorWire& error,
                                IcmpErrorBuffer* out) {
  constexpr size_t kHeaders = sizeof(Ipv4Wire) + sizeof(ErrorWire);
  const auto original =
      packet.bytes.first(std::min(packet.bytes.size(), kMaxIcmpv4Error - kHeaders));
  Ipv4Wire header =
      MakeIpv4Header(kProtocolIcmp, kErrorTtl, source, packet.source, kHeaders + original.size());
  header.tos = kInternetworkControl;
  header.fragment = kIpv4DontFragment;  // so it needs no id: RFC 6864 §4.1
  WriteWire(header, out->data());
  WriteIpv4Checksum({out->data(), sizeof(header)});
  return Finish(sizeof(header), error, original, out);
}

absl::Span<const uint8_t> Build(const Ipv6Packet& packet, const Ipv6Addr& source,
                                const ErrorWire& error, IcmpErrorBuffer* out) {
  constexpr size_t kHeaders = sizeof(Ipv6Wire) + sizeof(ErrorWire);
  const auto original =
      packet.bytes.first(std::min(packet.bytes.size(), kMaxIcmpv6Error - kHeaders));
  WriteWire(MakeIpv6Header(kProtocolIcmpv6, kErrorTtl, source, packet.source,
                           sizeof(error) + original.size()),
            out->data());
  return Finish(sizeof(Ipv6Wire), error, original, out);
}

ErrorWire Error(uint8_t type, uint8_t code, size_t value) {
  ErrorWire error;
  error.type = type;
  error.code = code;
  error.value = static_cast<uint32_t>(value);
  return error;
}

}  // namespace

absl::Span<const uint8_t> BuildFragmentationNeeded(const Ipv4Packet& packet, size_t mtu,
                                                   Ipv4Addr source, IcmpErrorBuffer* out) noexcept {
  if (mtu < kMinIpv4Mtu || packet.bytes.size() <= mtu || !MayTell(packet, source)) return {};
  return Build(packet, source, Error(kUnreachable, kFragmentationNeeded, mtu), out);
}

absl::Span<const uint8_t> BuildHostUnreachable(const Ipv4Packet& packet, Ipv4Addr source,
                                               IcmpErrorBuffer* out) noexcept {
  if (!MayTell(packet, source)) return {};
  return Build(packet, source, Error(kUnreachable, kHostUnreachable, 0), out);
}

absl::Span<const uint8_t> BuildPacketTooBig(const Ipv6Packet& packet, size_t mtu,
                                            const Ipv6Addr& source, IcmpErrorBuffer* out) noexcept {
  if (mtu < kMinIpv6Mtu || packet.bytes.size() <= mtu || !MayTell(packet, source)) return {};
  return Build(packet, source, Error(kPacketTooBig, 0, mtu), out);
}

absl::Span<const uint8_t> BuildAddressUnreachable(const Ipv6Packet& packet, const Ipv6Addr& source,
                                                  IcmpErrorBuffer* out) noexcept {
  // RFC 4443 §2.4(e.3)
  if (packet.destination.IsMulticast() || !MayTell(packet, source)) return {};
  return Build(packet, source, Error(kUnreachable6, kAddressUnreachable, 0), out);
}

}  // namespace eoib
