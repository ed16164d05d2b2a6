// DropReason: every reason for which a frame, or a copy of one, is dropped.
//
// One list makes the enum, the counter, and the label in `eoibctl drops` and metrics. A reason
// belongs to one side of the conservation law (vswitch/README.md, "Conservation"):
//   kIngress  ends a frame:        frames in = forwarded + sum of ingress drops
//   kEgress   ends an egress copy: copies    = transmitted + sum of egress drops
#ifndef EOIB_VSWITCH_BASE_DROP_REASON_H_
#define EOIB_VSWITCH_BASE_DROP_REASON_H_

#include <cstdint>

#include "vswitch/base/counters.h"

namespace eoib {

enum class DropSide : uint8_t { kIngress, kEgress };

// X(enumerator, label, help). First the reasons of side kIngress; from kPortDown on, those of
// kEgress.
#define EOIB_DROP_REASONS(X)                                                                       \
  X(kNotEoib, "not_eoib", "datagram without an EoIB header: too short, or of another protocol")    \
  X(kBadVersion, "bad_version", "EoIB header of a version other than 0: update this agent")        \
  X(kHeaderReserved, "header_reserved",                                                            \
    "EoIB header with a reserved checksum status: update this agent")                              \
  X(kBadFcs, "bad_fcs",                                                                            \
    "frame with a wrong FCS: it was damaged before its sender put it into a datagram")             \
  X(kSegment, "segment", "malformed segment of a larger frame, or one that came through a group")  \
  X(kReassembly, "reassembly",                                                                     \
    "larger frame whose segments did not all arrive within 50 ms, disagree, or were too many at "  \
    "a time")                                                                                      \
  X(kNoGrh, "no_grh", "datagram without a global route header, so its sender is unknown")          \
  X(kReceiveError, "receive_error", "the HCA completed the receive with an error")                 \
  X(kRunt, "runt", "frame shorter than its Ethernet or 802.1Q header")                             \
  X(kTooLarge, "too_large",                                                                        \
    "frame larger than the VES MTU: lower the MTU of the interface that sends it")                 \
  X(kBadSource, "bad_source", "source MAC address is a group address or zero")                     \
  X(kPinnedMac, "pinned_mac",                                                                      \
    "source MAC address belongs to another interface of this host (pin_mac)")                      \
  X(kReservedVid, "reserved_vid", "802.1Q tag with the reserved VID 4095")                         \
  X(kVlanNotAllowed, "vlan_not_allowed",                                                           \
    "VLAN that the port or the VES is not configured to carry")                                    \
  X(kGroupMismatch, "group_mismatch",                                                              \
    "multicast through another group than the flood group of the VES")                             \
  X(kControlEthertype, "control_ethertype",                                                        \
    "EtherType 0x88b5 or 0x8919, which only the switch itself may send")                           \
  X(kControlMessage, "control_message", "message of another agent, handed to control; harmless")   \
  X(kControlQueueFull, "control_queue_full",                                                       \
    "message of another agent, lost because control was busy or the message is too long; the "     \
    "agent repeats it")                                                                            \
  X(kControlRate, "control_rate",                                                                  \
    "message of another agent, beyond the rate at which one port, or all unknown ones, may send: " \
    "find out what it sends")                                                                      \
  X(kLinkLocalControl, "link_local_control",                                                       \
    "to a reserved group 01:80:c2:00:00:0x that group_fwd_mask does not pass")                     \
  X(kBadChecksumRequest, "bad_checksum_request",                                                   \
    "checksum requested outside of the frame or within its headers, or wrong checksum of merged "  \
    "segments")                                                                                    \
  X(kOwnMulticast, "own_multicast",                                                                \
    "copy of a multicast from this agent, which the HCA loops back; harmless")                     \
  X(kInjectQueueFull, "inject_queue_full",                                                         \
    "announcement of an interface's MAC address, not sent because the worker's queue was full")    \
  X(kNoBuffer, "no_buffer",                                                                        \
    "announcement or message of this agent, or frame that its VLAN tag makes too long: no buffer " \
    "was free")                                                                                    \
  X(kStandby, "standby",                                                                           \
    "from the wire of an uplink, in a VLAN in which this gateway is not active; harmless")         \
  X(kSamePort, "same_port", "the destination is behind the port that the frame came from")         \
  X(kFabricToFabric, "fabric_to_fabric",                                                           \
    "frame from the fabric for a MAC address that is on the fabric, not behind this agent")        \
  X(kNoEgress, "no_egress",                                                                        \
    "frame to flood in a VLAN that no other port and no other agent carries")                      \
  X(kPortDown, "port_down", "the Ethernet interface is down")                                      \
  X(kPortFull, "port_full", "the Ethernet interface's queue is full: its reader is too slow")      \
  X(kPortError, "port_error", "the Ethernet interface refused the frame")                          \
  X(kPortTooLarge, "port_too_large", "frame larger than the Ethernet interface's MTU")             \
  X(kPortStandby, "port_standby",                                                                  \
    "to an uplink, in a VLAN in which this gateway is not active; harmless")                       \
  X(kPortFiltered, "port_filtered",                                                                \
    "to a reserved group that the uplink does not pass (stp, lldp, slow)")                         \
  X(kPortMacLimit, "port_mac_limit", "to an uplink, from more stations than its ves_macs allows")  \
  X(kIsolated, "isolated",                                                                         \
    "between two ports of this agent, which is a limited member of the partition")                 \
  X(kUnresolved, "unresolved",                                                                     \
    "the path to the peer was not resolved in time, or too many frames wait for it")               \
  X(kFabricDown, "fabric_down", "the InfiniBand port is down, or the VES's group is not joined")   \
  X(kNoFloodBuffer, "no_flood_buffer",                                                             \
    "copy of a flood for one of the agents, not sent because no buffer was free (flood = "         \
    "\"replicate\")")                                                                              \
  X(kSendQueueFull, "send_queue_full", "the QP's send queue is full")                              \
  X(kSendError, "send_error", "the HCA completed the send with an error")                          \
  X(kNotSegmentable, "not_segmentable",                                                            \
    "frame larger than the VES MTU, neither TCP nor a UDP super-frame, to a peer, group or "       \
    "interface that takes no segments")                                                            \
  X(kNoSegmentBuffer, "no_segment_buffer",                                                         \
    "segment of a super-frame, not made because no buffer was free")                               \
  X(kEgressVlan, "egress_vlan",                                                                    \
    "the port that the FDB names for the destination does not carry the VLAN")

// kNone: not dropped.
EOIB_LABELLED(DropReason, EOIB_DROP_REASONS, kNone = 255)

inline constexpr DropReason kFirstEgressDrop = DropReason::kPortDown;
constexpr DropSide SideOf(DropReason reason) {
  return reason < kFirstEgressDrop ? DropSide::kIngress : DropSide::kEgress;
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_DROP_REASON_H_
