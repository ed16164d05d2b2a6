// DropReason: every reason for which a frame, or a copy of one, is dropped.
//
// One list makes the enum, the counter, the label in `eoibctl drops` and metrics, and the manual's row. A reason belongs to
// one side of the conservation law (see vswitch/README.md):
//   kIngress  ends a frame:        frames in = forwarded + sum of ingress drops
//   kEgress   ends an egress copy: copies    = transmitted + sum of egress drops
#ifndef EOIB_VSWITCH_BASE_DROP_REASON_H_
#define EOIB_VSWITCH_BASE_DROP_REASON_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace eoib {

enum class DropSide : uint8_t { kIngress, kEgress };

// X(enumerator, label, side, what happened and what an operator can do)
#define EOIB_DROP_REASONS(X)                                                                                                  \
  X(kNotEoib, "not_eoib", kIngress, "datagram from the fabric too short for, or without, an EoIB header")                     \
  X(kBadVersion, "bad_version", kIngress, "EoIB header of a version this agent does not speak")                               \
  X(kHeaderReserved, "header_reserved", kIngress, "EoIB header with an extension or reserved field this agent cannot read")   \
  X(kBadFcs, "bad_fcs", kIngress, "frame from the fabric with a wrong FCS: it was damaged before its sender encapsulated it") \
  X(kSegment, "segment", kIngress, "segment of a larger frame; this VES does not reassemble")                                 \
  X(kNoGrh, "no_grh", kIngress, "datagram from the fabric without a global route header")                                     \
  X(kReceiveError, "receive_error", kIngress, "receive completed with an error")                                              \
  X(kRunt, "runt", kIngress, "frame shorter than its Ethernet or 802.1Q header")                                              \
  X(kTooLarge, "too_large", kIngress, "frame larger than the VES MTU; lower the interface's MTU")                             \
  X(kBadSource, "bad_source", kIngress, "source MAC address is a group address or zero")                                      \
  X(kPinnedMac, "pinned_mac", kIngress,                                                                                       \
    "source MAC address is that of an interface of this host, behind another vPort (pin_mac)")                                \
  X(kReservedVid, "reserved_vid", kIngress, "802.1Q tag with the reserved VID 4095")                                          \
  X(kVlanNotAllowed, "vlan_not_allowed", kIngress, "VLAN not in the port's mode or not in the VES's VLAN set")                \
  X(kGroupMismatch, "group_mismatch", kIngress, "multicast of another group than the one its VES and VLAN have")              \
  X(kControlEthertype, "control_ethertype", kIngress, "EtherType 0x88b5 or 0x8919, which only the switch itself speaks")      \
  X(kControlUnknown, "control_unknown", kIngress, "control message of a kind this agent does not know")                       \
  X(kLinkLocalControl, "link_local_control", kIngress, "to 01:80:c2:00:00:0x, which group_fwd_mask does not pass")            \
  X(kBadChecksumRequest, "bad_checksum_request", kIngress, "checksum offload request outside of the frame")                   \
  X(kOwnMulticast, "own_multicast", kIngress, "looped copy of a multicast this agent sent")                                   \
  X(kInjectQueueFull, "inject_queue_full", kIngress, "announcement of an interface's MAC that found the worker's queue full") \
  X(kNoBuffer, "no_buffer", kIngress, "announcement of an interface's MAC for which there was no free buffer")                \
  X(kSamePort, "same_port", kIngress, "destination is behind the port the frame came from")                                   \
  X(kFabricToFabric, "fabric_to_fabric", kIngress, "frame from the fabric for a MAC that is on the fabric")                   \
  X(kNoEgress, "no_egress", kIngress, "no port of this agent carries the frame's VLAN")                                       \
  X(kPortDown, "port_down", kEgress, "the Ethernet interface is down")                                                        \
  X(kPortFull, "port_full", kEgress, "the Ethernet interface's queue is full")                                                \
  X(kPortError, "port_error", kEgress, "the Ethernet interface refused the frame")                                            \
  X(kPortTooLarge, "port_too_large", kEgress, "frame larger than the port's MTU")                                             \
  X(kIsolated, "isolated", kEgress, "between limited members of the partition")                                               \
  X(kUnresolved, "unresolved", kEgress, "the path to the peer is not resolved and its queue of held frames is full")          \
  X(kFabricDown, "fabric_down", kEgress, "the InfiniBand port is down or the VES's group is not joined")                      \
  X(kSendQueueFull, "send_queue_full", kEgress, "the QP's send queue is full")                                                \
  X(kSendError, "send_error", kEgress, "the HCA completed the send with an error")                                            \
  X(kEgressVlan, "egress_vlan", kEgress, "the port behind which the destination was learned does not carry the VLAN")

enum class DropReason : uint8_t {
#define EOIB_X(name, label, side, help) name,
  EOIB_DROP_REASONS(EOIB_X)
#undef EOIB_X
      kCount,
  kNone = 255,  // not dropped
};

inline constexpr size_t kDropReasons = static_cast<size_t>(DropReason::kCount);

struct DropReasonInfo {
  const char* label;  // stable: scripts and dashboards use it
  DropSide side;
  const char* help;
};

inline constexpr std::array<DropReasonInfo, kDropReasons> kDropReasonInfo = {{
#define EOIB_X(name, label, side, help) {label, DropSide::side, help},
    EOIB_DROP_REASONS(EOIB_X)
#undef EOIB_X
}};

constexpr const DropReasonInfo& Info(DropReason reason) { return kDropReasonInfo[static_cast<size_t>(reason)]; }

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_DROP_REASON_H_
