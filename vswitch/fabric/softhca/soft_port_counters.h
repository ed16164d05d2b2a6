// The counters of a port of the software HCA. One list defines the members, their names, their part
// in conservation and their help texts.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_PORT_COUNTERS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_PORT_COUNTERS_H_

#include <cstdint>

#include "vswitch/base/counters.h"

namespace eoib::softhca {

// A counter's part in the law of conservation (README.md).
enum class Part {
  kNone,
  kGauge,          // no counter, but what there is now
  kMade,           // copies that a receiver makes
  kDelivered,      // copies that complete a receive
  kDroppedBefore,  // copies that a sender drops before writing them into a ring
  kDroppedBehind,  // copies that a receiver drops after taking them out of a ring
};

// X(member, help, its part if that is not kNone). The names are those of the InfiniBand port
// counters where there is one (IBA 1.4 §16.1.3.5).
#define EOIB_PORT_COUNTERS(X)                                                                    \
  X(xmit_packets, "datagrams sent; a multicast counts once")                                     \
  X(xmit_bytes, "bytes of payload of sent datagrams")                                            \
  X(xmit_multicast_packets, "datagrams sent to a group")                                         \
  X(xmit_copies,                                                                                 \
    "copies of posted datagrams: a multicast counts once for each member port, at least once")   \
  X(xmit_sent, "copies put into a ring")                                                         \
  X(xmit_discards, "copies not sent: no credit for the head-of-queue lifetime, link down",       \
    Part::kDroppedBefore)                                                                        \
  X(xmit_unreachable, "copies not sent: no port at that LID, or no ring to it",                  \
    Part::kDroppedBefore)                                                                        \
  X(xmit_no_group, "copies not sent: no port receives datagrams to that MLID",                   \
    Part::kDroppedBefore)                                                                        \
  X(xmit_pkey_errors, "datagrams not sent: the QP's P_Key index holds no valid P_Key",           \
    Part::kDroppedBefore)                                                                        \
  X(xmit_lost,                                                                                   \
    "copies sent, but not taken out of their ring: its receiver ended, or it closed the ring")   \
  X(rcv_taken, "copies taken out of a ring")                                                     \
  X(rcv_packets, "datagrams received, including each copy of a loopback")                        \
  X(rcv_bytes, "bytes of payload of received datagrams")                                         \
  X(rcv_multicast_packets, "datagrams received through a group")                                 \
  X(rcv_replicated,                                                                              \
    "copies of a received multicast for the second QP attached, and each after it", Part::kMade) \
  X(rcv_delivered, "receives completed", Part::kDelivered)                                       \
  X(rcv_no_receive, "not delivered: no receive posted, or no room in the completion queue",      \
    Part::kDroppedBehind)                                                                        \
  X(rcv_too_long, "not delivered: longer than the posted receive, or than the MTU",              \
    Part::kDroppedBehind)                                                                        \
  X(rcv_bad_memory, "not delivered: the posted receive is not in a region that may be written",  \
    Part::kDroppedBehind)                                                                        \
  X(rcv_pkey_violations, "not delivered: no matching P_Key, or one its source does not have",    \
    Part::kDroppedBehind)                                                                        \
  X(rcv_qkey_violations, "not delivered: wrong Q_Key", Part::kDroppedBehind)                     \
  X(rcv_no_qp, "not delivered: no such QP in a state to receive, or none attached to the group", \
    Part::kDroppedBehind)                                                                        \
  X(rcv_bad_address,                                                                             \
    "not delivered: source QPN outside of its port's range, DLID or DGID not this port's",       \
    Part::kDroppedBehind)                                                                        \
  X(rcv_link_down, "not delivered: the link is down", Part::kDroppedBehind)                      \
  X(rcv_ring_closed, "not received: left in a ring that was closed, by a port that has ended",   \
    Part::kDroppedBehind)                                                                        \
  X(rcv_simulated_losses, "not received: a simulated loss", Part::kDroppedBehind)                \
  X(rcv_simulated_duplicates, "copies of simulated duplicates", Part::kMade)                     \
  X(rcv_simulated_reorders, "received behind their successor: simulated reordering")             \
  X(rcv_simulated_delays, "received later: simulated delay")                                     \
  X(rcv_simulated_overflows, "not received: no room to delay them", Part::kDroppedBehind)        \
  X(corrupt_rings, "rings closed because the other end broke their rules")                       \
  X(capture_drops, "packets that a capture missed")                                              \
  X(ring_failures,                                                                               \
    "rings not made or not taken: no descriptor left (raise LimitNOFILE), or no memory")         \
  X(xmit_data, "sent words of four bytes, from the LRH to the ICRC")                             \
  X(rcv_data, "received words of four bytes, from the LRH to the ICRC")                          \
  X(ring_sent, "copies of xmit_sent in rings to other ports that the running subnet made")       \
  X(ring_taken, "copies of rcv_taken from such rings")                                           \
  X(ring_lost, "copies of xmit_lost in such rings")                                              \
  X(loopback_queued, "copies in the port's ring to itself now", Part::kGauge)

struct SoftPortCounters {
  EOIB_COUNTERS(SoftPortCounters, uint64_t, EOIB_PORT_COUNTERS, Part)
  // SubnetOfRing() of the rings that ring_sent, ring_taken and ring_lost count.
  uint64_t ring_subnet = 0;
  // 1 once the port has shut down properly: everything is counted.
  uint64_t ended = 0;

  // A ring was made by subnet `subnet`. A restarted subnet starts the three counters again, because
  // it does not know the counts of processes that ended before the restart.
  void OnRingOf(uint64_t subnet) {
    if (subnet == ring_subnet) return;
    ring_subnet = subnet;
    ring_sent = ring_taken = ring_lost = 0;
  }
  uint64_t Sum(Part part) const {
    uint64_t sum = 0;
    for (const Row& row : Rows()) sum += row.part == part ? this->*row.member : 0;
    return sum;
  }
  // Copies that the port has still to send.
  int64_t Sending() const {
    return static_cast<int64_t>(xmit_copies - xmit_sent - Sum(Part::kDroppedBefore));
  }
  // Copies that the port has taken or made, and neither delivered nor dropped yet.
  int64_t Receiving() const {
    return static_cast<int64_t>(rcv_taken + Sum(Part::kMade) - Sum(Part::kDelivered) -
                                Sum(Part::kDroppedBehind));
  }
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_PORT_COUNTERS_H_
