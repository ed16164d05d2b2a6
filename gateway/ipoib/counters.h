// What an IPoIB interface counts: datagrams in and out, and every way in which one can end without being delivered.
#ifndef EOIB_GATEWAY_IPOIB_COUNTERS_H_
#define EOIB_GATEWAY_IPOIB_COUNTERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "vswitch/forwarder_counters.h"

namespace eoib::ipoib {

// X(enumerator, label, what happened and what an operator can do)
#define EOIB_IPOIB_DROP_REASONS(X)                                                                              \
  X(kReceiveError, "receive_error", "receive completed with an error")                                          \
  X(kNotIpoib, "not_ipoib", "datagram too short for an IPoIB header, or of a type that RFC 4391 does not have") \
  X(kOwnMulticast, "own_multicast", "looped copy of a multicast this interface sent")                           \
  X(kLinkDown, "link_down", "to send while the link is down: see what the broadcast group says in `show`")      \
  X(kTooLarge, "too_large", "packet to send is longer than the link's MTU")                                     \
  X(kNoBuffer, "no_buffer", "to send while all buffers are on their way")                                       \
  X(kUnresolved, "unresolved", "no path to the peer came in time, or too many packets wait for one")            \
  X(kNoGroup, "no_group", "to a multicast group that does not exist on the link: nobody there listens")         \
  X(kGroupUnresolved, "group_unresolved",                                                                       \
    "the subnet did not say in time whether the multicast group exists, or too many packets wait for that")     \
  X(kTooManyGroups, "too_many_groups",                                                                          \
    "to more new multicast groups than 200 a second, or than there is room for: somebody scans by IPv6")        \
  X(kSendQueueFull, "send_queue_full", "the QP's send queue is full")                                           \
  X(kSendError, "send_error", "the HCA refused the send, or completed it with an error")

enum class DropReason : uint8_t {
#define EOIB_X(name, label, help) name,
  EOIB_IPOIB_DROP_REASONS(EOIB_X)
#undef EOIB_X
      kCount,
};

// X(member, help)
#define EOIB_IPOIB_COUNTERS(X)                                                             \
  X(received, "datagrams received, without own multicast")                                 \
  X(received_bytes, "bytes of these, IPoIB header not counted")                            \
  X(received_groups, "of these, through a multicast group")                                \
  X(received_without_grh, "of these, without a global route header")                       \
  X(unknown_sources, "of these, from a sender that has not said yet which address it has") \
  X(sent, "datagrams whose send completed")                                                \
  X(sent_bytes, "bytes of datagrams that were posted, IPoIB header not counted")           \
  X(sent_groups, "datagrams posted to a multicast group")                                  \
  X(to_all_routers, "of these, to all routers, because their own group does not exist")    \
  X(held, "packets that waited for a path or a group")

struct Counters {
#define EOIB_X(member, help) Counter member;
  EOIB_IPOIB_COUNTERS(EOIB_X)
#undef EOIB_X
  std::array<Counter, static_cast<size_t>(DropReason::kCount)> drops;

  Counter& drop(DropReason reason) { return drops[static_cast<size_t>(reason)]; }
  uint64_t drop(DropReason reason) const { return drops[static_cast<size_t>(reason)].value(); }
};

// Text for the operator: a line for each counter; and one for each reason that occurred.
std::string StatsText(const Counters& counters);
std::string DropsText(const Counters& counters);

}  // namespace eoib::ipoib

#endif  // EOIB_GATEWAY_IPOIB_COUNTERS_H_
