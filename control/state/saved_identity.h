// Loads and renews the AgentIdentity of this host, which is kept in the state directory.
#ifndef EOIB_CONTROL_STATE_SAVED_IDENTITY_H_
#define EOIB_CONTROL_STATE_SAVED_IDENTITY_H_

#include <string>

#include "control/protocol/agent_identity.h"
#include "control/state/machine_binding.h"
#include "control/state/state_dir.h"
#include "vswitch/base/system_random.h"

namespace eoib {

// Returns the identity for this start. It is on disk (agent.json in the state directory) when this
// returns, so no later start can have the same; if it cannot be written, it is NewAgentIdentity.
// Call once for each start; the lock of `state` keeps other programs away.
//
// The id belongs to the machine with the id in `machine_id_path` (machine-id(5)). On another
// machine, which has a copy of the disk, a new id is made, as if the file is damaged or the
// incarnations are used up. A log line says why. The file has only a salted hash of the machine-id,
// because that is confidential.
AgentIdentity LoadAgentIdentity(const StateDir& state,
                                const std::string& machine_id_path = kMachineIdPath,
                                const StateDir::RandomSource& random = SystemRandom);

// A new id, because another agent has that of this one. It replaces the one on disk; if it cannot
// be written, a log line says so, and the next start has the former id.
AgentIdentity RenewAgentIdentity(const StateDir& state,
                                 const std::string& machine_id_path = "/etc/machine-id",
                                 const StateDir::RandomSource& random = SystemRandom);

// The identity of an agent that has no state directory: a new id at each start, so the other agents
// take it for another one.
AgentIdentity NewAgentIdentity(const StateDir::RandomSource& random = SystemRandom);

}  // namespace eoib

#endif  // EOIB_CONTROL_STATE_SAVED_IDENTITY_H_
