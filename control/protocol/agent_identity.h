// AgentIdentity: the name under which the agents of a VES know this one: a random id, and an
// incarnation that grows with each start. control/state/saved_identity.h keeps it.
#ifndef EOIB_CONTROL_PROTOCOL_AGENT_IDENTITY_H_
#define EOIB_CONTROL_PROTOCOL_AGENT_IDENTITY_H_

#include <cstdint>

#include "vswitch/base/agent_id.h"

namespace eoib {

struct AgentIdentity {
  AgentId id;
  uint32_t incarnation = 0;  // 1 at the first start
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_AGENT_IDENTITY_H_
