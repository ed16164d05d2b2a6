// The drop reasons of eoib-ipoib.
#ifndef EOIB_GATEWAY_HOST_DROP_REASON_H_
#define EOIB_GATEWAY_HOST_DROP_REASON_H_

#include "vswitch/base/counters.h"

namespace eoib::endpoint {

// X(enumerator, label, help). First the reasons to drop packets to the link; from kArpMalformed on,
// those to the TUN.
#define EOIB_ENDPOINT_DROP_REASONS(X)                                                            \
  X(kLinkDown, "link_down", "from the TUN while the IPoIB link is down")                         \
  X(kNotIp, "not_ip", "from the TUN, neither IPv4 nor IPv6, or with lengths that disagree")      \
  X(kTooLarge, "too_large", "from the TUN, larger than the link's MTU; its sender was told")     \
  X(kTentativeSource, "tentative_source",                                                        \
    "from the TUN, from an address that may be another interface's; see `show`")                 \
  X(kKernelDiscovery, "kernel_discovery",                                                        \
    "neighbour discovery from the TUN: this program speaks for this host")                       \
  X(kNoRoute, "no_route", "from the TUN, for a destination to which the kernel has no route")    \
  X(kHostDestination, "host_destination",                                                        \
    "from the TUN, for a group that does not leave its host")                                    \
  X(kDisplaced, "displaced", "waited for a neighbour's address, and gave way to a later packet") \
  X(kUnreachable, "unreachable",                                                                 \
    "no host on the link has the destination's or next hop's address; its sender was told")      \
  X(kArpMalformed, "arp_malformed", "ARP from the link that is cut or not of IPoIB")             \
  X(kRarp, "rarp", "RARP from the link: no RARP is spoken here")                                 \
  X(kIpMalformed, "ip_malformed",                                                                \
    "IP from the link with a wrong version, length or header checksum")                          \
  X(kNdMalformed, "nd_malformed",                                                                \
    "neighbour discovery from the link that no host is to act on (RFC 4861 §7.1)")               \
  X(kGroupUnicast, "group_unicast", "for one host's address, and sent to all (RFC 1122 §3.3.6)") \
  X(kTunDown, "tun_down", "for the TUN, which is down")                                          \
  X(kTunFull, "tun_full", "for the TUN, whose queue is full")                                    \
  X(kTunError, "tun_error", "for the TUN, which refused it")

// kNone: not dropped.
EOIB_LABELLED(EndpointDrop, EOIB_ENDPOINT_DROP_REASONS, kNone = 255)

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_DROP_REASON_H_
