// The counters of a forwarder, and the conservation law that ties them.
//
//   frames_in     = from_ports + from_fabric + from_control
//   frames_in     = forwarded + sum of ingress drops                     one disposition a frame
//   egress_copies = transmitted + sum of egress drops + copies under way one disposition a copy
//
// A super-frame is one frame, and one copy where it leaves as it is, in however many datagrams.
// Where it is cut, each segment is a copy. Messages of this agent count as frames. Copies under way
// are held frames and sends without a completion; at rest there are none. The tests check all lines
// after every scenario.
#ifndef EOIB_VSWITCH_FORWARDER_FORWARDER_COUNTERS_H_
#define EOIB_VSWITCH_FORWARDER_FORWARDER_COUNTERS_H_

#include <cstdint>

#include "vswitch/base/counters.h"
#include "vswitch/base/drop_reason.h"

namespace eoib {

// X(member, help)
#define EOIB_FORWARDER_COUNTERS(X)                                                          \
  X(frames_in, "frames that entered, from ports and from the fabric")                       \
  X(from_ports, "frames that entered from local ports")                                     \
  X(from_fabric, "frames that entered from the fabric")                                     \
  X(from_control, "frames that entered from control: messages of this agent")               \
  X(forwarded, "frames that got at least one egress copy")                                  \
  X(known_unicast, "forwarded frames, to the one vPort that the FDB names")                 \
  X(flooded_unknown, "forwarded frames, flooded because the FDB does not know the address") \
  X(flooded_group, "forwarded frames, flooded because the address is a group's")            \
  X(messages_sent, "forwarded frames, messages of this agent")                              \
  X(egress_copies, "copies of forwarded frames towards ports and the fabric")               \
  X(transmitted, "copies that a port took or whose send completed")                         \
  X(transmitted_fabric, "copies whose send to the fabric completed")                        \
  X(segments_sent, "segments of large frames, sent to the fabric")                          \
  X(segments_received, "segments of large frames, from the fabric")                         \
  X(segmented, "large frames cut in software, for peers, groups and ports that take none")  \
  X(checksums_vouched, "frames sent to the fabric with an unfinished checksum")             \
  X(new_peers, "remote vPorts seen for the first time")                                     \
  X(unknown_senders, "frames not learned from because their sender got no vPort")           \
  X(punts_lost, "messages to control that found the queue full")

struct ForwarderCounters {
  EOIB_COUNTERS(ForwarderCounters, Counter, EOIB_FORWARDER_COUNTERS)
  LabelledCounters<DropReason, Counter> drops;

  Counter& drop(DropReason reason) { return drops[reason]; }
  uint64_t drop(DropReason reason) const { return drops[reason]; }
  uint64_t DropSum(DropSide side) const {
    return side == DropSide::kIngress ? drops.Sum(DropReason{}, kFirstEgressDrop)
                                      : drops.Sum(kFirstEgressDrop);
  }
  // A frame has come from the fabric; it is dropped at once.
  void CountReceived() {
    frames_in.Add();
    from_fabric.Add();
  }
  void CountRefused(DropReason reason) {
    CountReceived();
    drop(reason).Add();
  }
  // Adds those of another forwarder.
  void Add(const ForwarderCounters& other) {
    for (const Row& row : Rows()) this->*row.member += (other.*row.member).value();
    for (size_t i = 0; i < drops.kSize; ++i)
      drops.Add(static_cast<DropReason>(i), other.drop(static_cast<DropReason>(i)));
  }
  // Copies that have no disposition yet.
  uint64_t UnderWay() const {
    return egress_copies.value() - transmitted.value() - DropSum(DropSide::kEgress);
  }
};

// X(member, help). Of one local port, from the switch's point of view.
#define EOIB_VPORT_COUNTERS(X)                                                                 \
  X(received, "frames that the switch got from the vPort")                                     \
  X(received_bytes, "bytes of frames that the switch got from the vPort")                      \
  X(transmitted, "frames that the vPort's interface took")                                     \
  X(transmitted_bytes, "bytes of frames that the vPort's interface took")                      \
  X(dropped, "frames that the vPort's interface did not take")                                 \
  X(refused,                                                                                   \
    "frames from the vPort that the switch dropped at its entrance: of a VLAN that it lacks, " \
    "malformed, too large, ...")

struct PortCounters {
  EOIB_COUNTERS(PortCounters, Counter, EOIB_VPORT_COUNTERS)
  // Adds those of the vPort's port at another forwarder.
  void Add(const PortCounters& other) {
    for (const Row& row : Rows()) this->*row.member += (other.*row.member).value();
  }
};

// Totals of the frames that a worker has received from its ports and transmitted to them.
struct PortTraffic {
  uint64_t from_sockets = 0, to_sockets = 0;  // frames at ports with ServesSockets
  uint64_t bytes = 0;                         // at all ports, in both directions
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FORWARDER_FORWARDER_COUNTERS_H_
