// What a port of the software HCA counts. One list makes the members, their names and their meaning.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_PORT_COUNTERS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_PORT_COUNTERS_H_

#include <cstdint>

namespace eoib::softhca {

// X(member, what it counts). Where the InfiniBand port counters have a name for it, that is the name (IBA 1.4 §16.1.3.5).
#define EOIB_PORT_COUNTERS(X)                                                                               \
  X(xmit_packets, "datagrams sent; a multicast counts once")                                                \
  X(xmit_bytes, "their payload")                                                                            \
  X(xmit_multicast_packets, "those of them to a group")                                                     \
  X(xmit_discards, "copies not sent: no credit for the head-of-queue lifetime, no such LID, link down")     \
  X(xmit_pkey_errors, "datagrams not sent: the QP's P_Key index holds no valid P_Key")                      \
  X(rcv_packets, "datagrams received, each copy of a loopback too")                                         \
  X(rcv_bytes, "their payload")                                                                             \
  X(rcv_multicast_packets, "those of them to a group")                                                      \
  X(rcv_delivered, "receives completed")                                                                    \
  X(rcv_no_receive, "not delivered: no receive posted, or no room in the completion queue")                 \
  X(rcv_too_long, "not delivered: longer than the posted receive, or than the MTU")                         \
  X(rcv_pkey_violations, "not delivered: no matching P_Key, or one its source does not have")               \
  X(rcv_qkey_violations, "not delivered: wrong Q_Key")                                                      \
  X(rcv_no_qp, "not delivered: no such QP in a state to receive, or none attached to the group")            \
  X(rcv_bad_address, "not delivered: source QPN outside of its port's range, DLID or DGID not this port's") \
  X(rcv_link_down, "not delivered: the link is down")                                                       \
  X(rcv_simulated_losses, "not received: a loss that was asked for")                                        \
  X(rcv_simulated_duplicates, "received twice, as was asked for")                                           \
  X(rcv_simulated_reorders, "received behind their successor, as was asked for")                            \
  X(rcv_simulated_delays, "received later, as was asked for")                                               \
  X(rcv_simulated_overflows, "not received: no room to keep them as long as was asked for")                 \
  X(corrupt_rings, "rings closed since the other side broke their rules")                                   \
  X(capture_drops, "packets that a capture missed")                                                         \
  X(ring_failures, "rings not made or not taken: no descriptor left (raise LimitNOFILE), or no memory")     \
  X(xmit_data, "what was sent, in words of four bytes from the LRH to the ICRC")                            \
  X(rcv_data, "what was received, likewise")

struct PortCounters {
#define EOIB_X(name, help) uint64_t name = 0;
  EOIB_PORT_COUNTERS(EOIB_X)
#undef EOIB_X
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_PORT_COUNTERS_H_
