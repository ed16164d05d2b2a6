// AgentIdentity: by what the agents of a VES know this one: a random id, and an incarnation that grows with each start.
#ifndef EOIB_CONTROL_AGENT_IDENTITY_H_
#define EOIB_CONTROL_AGENT_IDENTITY_H_

#include <cstdint>
#include <string>

#include "control/state_dir.h"
#include "vswitch/base/agent_id.h"
#include "vswitch/base/system_random.h"

namespace eoib {

struct AgentIdentity {
  AgentId id;
  uint32_t incarnation = 0;  // 1 at the first start
};

// Returns the identity for this start. It is on disk (agent.json in the state directory) when this returns, so no later start
// can have the same; if it cannot be written, it is NewAgentIdentity. Call once for each start; the lock of `state` keeps other
// programs away.
//
// The id belongs to the machine with the id in `machine_id_path` (machine-id(5)). On another machine, which has a copy of the
// disk, a new id is made; likewise if the file is damaged or the incarnations are used up. A log line says why. The file has
// only a salted hash of the machine-id, because that is confidential.
AgentIdentity LoadAgentIdentity(const StateDir& state, const std::string& machine_id_path = "/etc/machine-id",
                                const StateDir::RandomSource& random = SystemRandom);

// The identity of an agent that has no state directory: a new id at each start, so the other agents take it for another one.
AgentIdentity NewAgentIdentity(const StateDir::RandomSource& random = SystemRandom);

}  // namespace eoib

#endif  // EOIB_CONTROL_AGENT_IDENTITY_H_
