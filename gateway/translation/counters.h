// Counters of the translation: reasons for dropping packets, and other events. One list makes the
// enumerators, the counters, the labels and the rows of the manual. The conservation laws, which
// tests check:
//
//     frames_in + packets_in = crossed + held + sum of drops at the input
//     waited = released + unanswered + packets that still wait
//
// The last three drop reasons are not at the input: they count held packets and packets that the
// gateway made.
#ifndef EOIB_GATEWAY_TRANSLATION_COUNTERS_H_
#define EOIB_GATEWAY_TRANSLATION_COUNTERS_H_

#include <cstdint>

#include "vswitch/base/counters.h"

namespace eoib::translation {

// X(enumerator, label, what happened and what an operator can do)
#define EOIB_TRANSLATION_DROPS(X)                                                                 \
  X(kMalformed, "malformed", "packet whose lengths, checksum or addresses no host would accept")  \
  X(kNotIp, "not_ip",                                                                             \
    "frame of another EtherType than IPv4, IPv6, ARP and RARP: IPoIB has no room for it")         \
  X(kControlEthertype, "control_ethertype",                                                       \
    "EtherType 0x88b5 or 0x8919, which are the switch's own")                                     \
  X(kBadChecksumRequest, "bad_checksum_request",                                                  \
    "frame that asks for a checksum outside of its packet")                                       \
  X(kLinkDown, "link_down", "the IPoIB link is down")                                             \
  X(kStandby, "standby",                                                                          \
    "this gateway was not active: before its election, or because another one does its work")     \
  X(kOtherGateway, "other_gateway", "from another gateway to the same link")                      \
  X(kLoop, "loop",                                                                                \
    "from an address of the gateway's own: a loop, or a host that pretends to be the gateway")    \
  X(kUnknownSource, "unknown_source",                                                             \
    "IPoIB packet without a global route header whose sender has not been heard yet")             \
  X(kUnknownStation, "unknown_station", "frame for a MAC address that no IPoIB host has")         \
  X(kForgedSender, "forged_sender",                                                               \
    "ARP or neighbour discovery of IPoIB in the name of another port than its sender's")          \
  X(kSameSide, "same_side", "IPoIB packet for a host of the IPoIB link itself")                   \
  X(kGroupMismatch, "group_mismatch",                                                             \
    "the link-layer address is a group's and the IP address is not of that group")                \
  X(kHelloGroup, "hello_group",                                                                   \
    "frame for the group of the IPoIB link that only gateways use, for hellos")                   \
  X(kLocalTarget, "local_target", "solicitation for a host that answers it on its own side")      \
  X(kSilentTarget, "silent_target", "solicitation for a host that did not answer the last ones")  \
  X(kThrottled, "throttled", "more solicitations than asks_per_second for unknown hosts")         \
  X(kUnknownAsker, "unknown_asker", "answer to a request of an unknown host")                     \
  X(kSend, "send",                                                                                \
    "Secure Neighbor Discovery: a changed message would fail its signature; use plain ND across " \
    "the gateway")                                                                                \
  X(kBadLinkOption, "bad_link_option",                                                            \
    "neighbour discovery with a link-layer address of another link's length, or a group's")       \
  X(kTooBig, "too_big",                                                                           \
    "larger than the other side's MTU, and must not be fragmented; the sender has been told if "  \
    "it may be")                                                                                  \
  X(kNoRoute, "no_route", "IPoIB packet for a host beyond the link, and no router is known")      \
  X(kHeldFull, "held_full", "too many packets wait for hosts that have not answered yet")         \
  X(kUnanswered, "unanswered", "held for a host that did not answer")                             \
  X(kOutputTooBig, "output_too_big", "what the gateway made is larger than the MTU")              \
  X(kOutputWithheld, "output_withheld",                                                           \
    "what the gateway made while it stood by, or while the IPoIB link was down")

// kNone: not dropped, the packet crossed. kHeld: the packet waits for an answer; it then crosses,
// or counts as kUnanswered.
EOIB_LABELLED(Drop, EOIB_TRANSLATION_DROPS, kNone = 255, kHeld = 254)

// X(enumerator, label, what happened)
#define EOIB_TRANSLATION_EVENTS(X)                                                                \
  X(kFramesIn, "frames_in", "frames from the VES")                                                \
  X(kPacketsIn, "packets_in", "packets from the IPoIB link")                                      \
  X(kCrossed, "crossed", "frames and packets that went to the other side")                        \
  X(kHeldPackets, "held", "frames and packets that waited for an answer")                         \
  X(kWaited, "waited", "the packets that were held, or the fragments that they had become")       \
  X(kReleased, "released", "packets that were held and then answered for")                        \
  X(kFramesOut, "frames_out", "frames to the VES, the gateway's own among them")                  \
  X(kPacketsOut, "packets_out", "packets to the IPoIB link, the gateway's own among them")        \
  X(kArp, "arp_translated", "ARP and RARP packets that crossed")                                  \
  X(kNd, "nd_translated", "messages of neighbour discovery that crossed")                         \
  X(kAsks, "asks", "solicitations of the gateway's own, on behalf of packets")                    \
  X(kSuppressed, "suppressed", "solicitations of the gateway's own that the limits withheld")     \
  X(kFragmented, "fragmented", "IPv4 packets that crossed as fragments")                          \
  X(kFragments, "fragments", "fragments that these packets became")                               \
  X(kTooBigSent, "too_big_sent", "ICMP 'fragmentation needed' and 'packet too big' sent")         \
  X(kTooBigLimited, "too_big_limited",                                                            \
    "ICMP 'fragmentation needed' and 'packet too big' not sent because of their rate limit")      \
  X(kDhcpBroadcast, "dhcp_broadcast",                                                             \
    "DHCP requests of Ethernet clients that got the broadcast flag")                              \
  X(kUnaskedDhcp, "unasked_dhcp",                                                                 \
    "DHCP replies that taught nothing: no client had asked, or client and server are Ethernet "   \
    "hosts")                                                                                      \
  X(kLearnedStations, "learned_stations", "IPoIB interfaces met for the first time")              \
  X(kMovedStations, "moved_stations", "IPoIB interfaces that came back with another QPN")         \
  X(kLearnedNeighbors, "learned_neighbors", "addresses of Ethernet hosts met for the first time") \
  X(kMovedNeighbors, "moved_neighbors", "addresses of Ethernet hosts that went to another MAC")   \
  X(kIgnoredClaims, "ignored_claims",                                                             \
    "claims of addresses beyond the link's prefixes, which taught nothing")                       \
  X(kAttributed, "attributed", "packets of unknown senders that were known by their IP address")  \
  X(kAnnounced, "announced", "addresses announced again")                                         \
  X(kListenLimited, "listen_limited",                                                             \
    "groups that were reported, and not listened to yet because of their rate limit")             \
  X(kQueries, "queries", "general queries of the gateway's own for IGMP and MLD")                 \
  X(kEvicted, "evicted", "entries that went for others because a table was full")

EOIB_LABELLED(Event, EOIB_TRANSLATION_EVENTS)

struct Counters {
  LabelledCounters<Drop> drops;
  LabelledCounters<Event> events;

  void Add(Drop drop) { drops.Add(drop); }
  void Add(Event event, uint64_t count = 1) { events.Add(event, count); }
  uint64_t operator[](Drop drop) const { return drops[drop]; }
  uint64_t operator[](Event event) const { return events[event]; }
  uint64_t InputDrops() const { return drops.Sum(Drop{}, Drop::kUnanswered); }
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_COUNTERS_H_
