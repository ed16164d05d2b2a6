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

#include <array>
#include <atomic>
#include <cstdint>

#include "vswitch/base/drop_reason.h"

namespace eoib {

// A counter with one writer. Any thread may read.
class Counter {
 public:
  Counter() = default;
  Counter(const Counter& other) : value_(other.value()) {}  // as it is at this moment
  Counter& operator=(const Counter&) = delete;
  void Add(uint64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

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
#define EOIB_X(member, help) Counter member;
  EOIB_FORWARDER_COUNTERS(EOIB_X)
#undef EOIB_X
  std::array<Counter, kDropReasons> drops;

  Counter& drop(DropReason reason) { return drops[static_cast<size_t>(reason)]; }
  uint64_t drop(DropReason reason) const { return drops[static_cast<size_t>(reason)].value(); }
  uint64_t DropSum(DropSide side) const {
    uint64_t sum = 0;
    for (size_t i = 0; i < kDropReasons; ++i)
      sum += kDropReasonInfo[i].side == side ? drops[i].value() : 0;
    return sum;
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
#define EOIB_X(member, help) member.Add(other.member.value());
    EOIB_FORWARDER_COUNTERS(EOIB_X)
#undef EOIB_X
    for (size_t i = 0; i < kDropReasons; ++i) drops[i].Add(other.drops[i].value());
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
#define EOIB_X(member, help) Counter member;
  EOIB_VPORT_COUNTERS(EOIB_X)
#undef EOIB_X
  // Adds those of the vPort's port at another forwarder.
  void Add(const PortCounters& other) {
#define EOIB_X(member, help) member.Add(other.member.value());
    EOIB_VPORT_COUNTERS(EOIB_X)
#undef EOIB_X
  }
};

// Totals of the frames that a worker has received from its ports and transmitted to them.
struct PortTraffic {
  uint64_t from_sockets = 0, to_sockets = 0;  // frames at ports with ServesSockets
  uint64_t bytes = 0;                         // at all ports, in both directions
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FORWARDER_FORWARDER_COUNTERS_H_
