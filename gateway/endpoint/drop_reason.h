// The drop reasons of eoib-ipoib. One list makes the enum, the counters, the labels in `eoibctl drops` and the rows of the
// manual.
#ifndef EOIB_GATEWAY_ENDPOINT_DROP_REASON_H_
#define EOIB_GATEWAY_ENDPOINT_DROP_REASON_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace eoib::endpoint {

// X(enumerator, side, label, what happened and what an operator can do)
#define EOIB_ENDPOINT_DROP_REASONS(X)                                                                                    \
  X(kLinkDown, kToLink, "link_down", "from the TUN while the IPoIB link is down")                                        \
  X(kNotIp, kToLink, "not_ip", "from the TUN, neither IPv4 nor IPv6, or with lengths that disagree")                     \
  X(kTooLarge, kToLink, "too_large", "from the TUN, larger than the link's MTU; its sender was told")                    \
  X(kTentativeSource, kToLink, "tentative_source",                                                                       \
    "from the TUN, from an address that may be another interface's; see `show`")                                         \
  X(kKernelDiscovery, kToLink, "kernel_discovery",                                                                       \
    "neighbour discovery from the TUN: it is this program that speaks for this host")                                    \
  X(kNoRoute, kToLink, "no_route", "from the TUN, for a destination to which the kernel has no route")                   \
  X(kHostDestination, kToLink, "host_destination", "from the TUN, for a group that does not leave its host")             \
  X(kDisplaced, kToLink, "displaced", "waited for a neighbour's address, and gave way to a later packet")                \
  X(kUnreachable, kToLink, "unreachable",                                                                                \
    "nobody on the link has the destination's or next hop's address; its sender was told")                               \
  X(kArpMalformed, kToTun, "arp_malformed", "ARP from the link that is cut or not of IPoIB")                             \
  X(kRarp, kToTun, "rarp", "RARP from the link: no RARP is spoken here")                                                 \
  X(kIpMalformed, kToTun, "ip_malformed", "IP from the link with a wrong version, length or header checksum")            \
  X(kNdMalformed, kToTun, "nd_malformed", "neighbour discovery from the link that no host is to act on (RFC 4861 §7.1)") \
  X(kGroupUnicast, kToTun, "group_unicast", "for one host's address, and sent to all (RFC 1122 §3.3.6)")                 \
  X(kTunDown, kToTun, "tun_down", "for the TUN, which is down")                                                          \
  X(kTunFull, kToTun, "tun_full", "for the TUN, whose queue is full")                                                    \
  X(kTunError, kToTun, "tun_error", "for the TUN, which refused it")

enum class EndpointDrop : uint8_t {
#define EOIB_X(name, side, label, help) name,
  EOIB_ENDPOINT_DROP_REASONS(EOIB_X)
#undef EOIB_X
      kCount,
  kNone = 255,  // not dropped
};

inline constexpr size_t kEndpointDrops = static_cast<size_t>(EndpointDrop::kCount);

// The direction of the packet.
enum class EndpointSide : uint8_t { kToLink, kToTun };

struct EndpointDropInfo {
  EndpointSide side;
  const char* label;  // stable: scripts use it
  const char* help;
};

inline constexpr std::array<EndpointDropInfo, kEndpointDrops> kEndpointDropInfo = {{
#define EOIB_X(name, side, label, help) {EndpointSide::side, label, help},
    EOIB_ENDPOINT_DROP_REASONS(EOIB_X)
#undef EOIB_X
}};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_ENDPOINT_DROP_REASON_H_
