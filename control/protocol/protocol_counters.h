// ProtocolCounters: what the vPort protocol counts, for `stats`.
#ifndef EOIB_CONTROL_PROTOCOL_PROTOCOL_COUNTERS_H_
#define EOIB_CONTROL_PROTOCOL_PROTOCOL_COUNTERS_H_

#include <cstdint>

#include "vswitch/base/counters.h"

namespace eoib {

// X(member, help)
#define EOIB_PROTOCOL_COUNTERS(X)                                                        \
  X(group_messages, "messages sent to the group")                                        \
  X(unicast_messages, "messages sent to one agent")                                      \
  X(received, "messages received")                                                       \
  X(malformed, "messages that could not be decoded")                                     \
  X(wrong_sender, "messages whose sender is not the datagram's source")                  \
  X(duplicate_id, "messages of another agent with our id: copied state directory")       \
  X(stale, "messages of an earlier incarnation or version, or leaves of unknown agents") \
  X(challenges, "agents that appeared at another port")                                  \
  X(untrue_leaves, "leaves of agents that answered afterwards")                          \
  X(full_states, "full states received")                                                 \
  X(lost_addresses, "addresses that left probes unanswered")                             \
  X(refused_agents, "agents for which there was no room")                                \
  X(refused_states, "messages with state for which there was no room")                   \
  X(conflicts, "configured MACs that another agent claimed, too")

struct ProtocolCounters {
  EOIB_COUNTERS(ProtocolCounters, uint64_t, EOIB_PROTOCOL_COUNTERS)
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_PROTOCOL_COUNTERS_H_
