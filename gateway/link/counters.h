// Counters of an IPoIB interface: datagrams in and out, and the reasons for dropping them. At any
// time, seen from the thread of the data path,
//
//     arrived   = received + sum of drops of received datagrams
//     requested = sent + sum of drops of packets to send + under_way
//
// where `under_way` counts packets that wait for a path or a group, or whose send has not
// completed. At rest it is 0.
#ifndef EOIB_GATEWAY_LINK_COUNTERS_H_
#define EOIB_GATEWAY_LINK_COUNTERS_H_

#include <cstddef>

#include "vswitch/base/counters.h"
#include "vswitch/base/daemon/answer.h"

namespace eoib::ipoib {

// X(enumerator, label, help). First the reasons to drop received datagrams; from kLinkDown on,
// those for packets to send.
#define EOIB_IPOIB_DROP_REASONS(X)                                                                 \
  X(kReceiveError, "receive_error", "receive completed with an error")                             \
  X(kNotIpoib, "not_ipoib",                                                                        \
    "datagram too short for an IPoIB header, or of a type that RFC 4391 does not have")            \
  X(kOwnMulticast, "own_multicast", "looped copy of a multicast this interface sent")              \
  X(kReceivedDown, "received_down", "received while the link was down")                            \
  X(kLinkDown, "link_down",                                                                        \
    "to send while the link is down: see what the broadcast group says in `show`")                 \
  X(kTooLarge, "too_large", "packet to send is longer than the link's MTU")                        \
  X(kNoBuffer, "no_buffer", "to send while all buffers are on their way")                          \
  X(kUnresolved, "unresolved",                                                                     \
    "no path to the peer came in time, or too many packets wait for one")                          \
  X(kNoGroup, "no_group",                                                                          \
    "to a multicast group that does not exist on the link: no host there listens")                 \
  X(kGroupUnresolved, "group_unresolved",                                                          \
    "the subnet did not say in time whether the multicast group exists, or too many packets wait " \
    "for that")                                                                                    \
  X(kTooManyGroups, "too_many_groups",                                                             \
    "to more new multicast groups than 200 a second, or than there is room for: a host scans by "  \
    "IPv6")                                                                                        \
  X(kSendQueueFull, "send_queue_full", "the QP's send queue is full")                              \
  X(kSendError, "send_error", "the HCA refused the send, or completed it with an error")

EOIB_LABELLED(DropReason, EOIB_IPOIB_DROP_REASONS)

// X(member, help)
#define EOIB_IPOIB_COUNTERS(X)                                                                   \
  X(arrived, "receives that completed")                                                          \
  X(received, "datagrams handed to the host or the gateway")                                     \
  X(received_bytes,                                                                              \
    "bytes of datagrams handed to the host or the gateway, IPoIB header not counted")            \
  X(received_groups, "datagrams handed over that came through a multicast group")                \
  X(received_without_grh, "datagrams handed over that had no global route header")               \
  X(unknown_sources, "datagrams handed over whose sender has not said yet which address it has") \
  X(requested, "packets to be sent")                                                             \
  X(sent, "datagrams whose send completed")                                                      \
  X(sent_bytes, "bytes of datagrams that were posted, IPoIB header not counted")                 \
  X(sent_groups, "datagrams posted to a multicast group")                                        \
  X(to_all_routers, "datagrams posted to all routers, because their own group does not exist")   \
  X(held, "packets that waited for a path or a group")

struct Counters {
  EOIB_COUNTERS(Counters, Counter, EOIB_IPOIB_COUNTERS)
  LabelledCounters<DropReason> drops;
};

// {"sent": 7, ...}. `under_way`: see above.
Json StatsJson(const Counters& counters, size_t under_way);

}  // namespace eoib::ipoib

#endif  // EOIB_GATEWAY_LINK_COUNTERS_H_
