// ProtocolEvents: what VPortProtocol needs from its agent, and tells it.
#ifndef EOIB_CONTROL_PROTOCOL_PROTOCOL_EVENTS_H_
#define EOIB_CONTROL_PROTOCOL_PROTOCOL_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "control/protocol/mac_claims.h"
#include "fdb/fdb_key.h"
#include "vswitch/base/address.h"
#include "vswitch/base/agent_id.h"

namespace eoib {

class RemoteAgent;

// The calls come from within calls of VPortProtocol, and must not call it.
class ProtocolEvents {
 public:
  virtual ~ProtocolEvents() = default;

  // Sends a message (the payload of a frame of EtherType 0x88b5) to the VES's group, or from our
  // address `from` to one agent.
  virtual void SendToGroup(const std::vector<uint8_t>& payload) = 0;
  virtual void SendTo(const PeerAddress& peer, const PeerAddress& from,
                      const std::vector<uint8_t>& payload) = 0;
  // The number of messages that can be sent now. Further ones are lost.
  virtual size_t Room() const = 0;

  // The agent is new, or its addresses in use, their state, its capabilities, its name or its
  // vPorts changed.
  virtual void OnAgent(const RemoteAgent& agent) = 0;
  // The agent left, or was silent for too long. Its MACs were freed before.
  virtual void OnAgentGone(const RemoteAgent& agent) = 0;

  // Another agent holds the MAC from now on.
  virtual void OnMac(FdbKey key, const MacClaim& claim) = 0;
  // No other agent holds it any more.
  virtual void OnMacFree(FdbKey key) = 0;
  // Our claim was displaced. `duplicate`: five times within three minutes, so two stations seem to
  // have this MAC.
  virtual void OnClaimLost(FdbKey key, const MacClaim& winner, bool duplicate) = 0;
  // Another agent claims a MAC that is configured here, too; or no longer does. conflicts() of the
  // engine has the rest.
  virtual void OnConflict(FdbKey key, const MacClaim& rival) = 0;
  virtual void OnConflictOver(FdbKey key) = 0;
  // An agent at `peer`, another port than ours, has our id: the two have copies of one state
  // directory.
  virtual void OnCopiedId(const PeerAddress& peer) = 0;
  // An agent at `peer`, which has proven that it receives there, keeps our id, or holds that it is
  // another agent's. Call VPortProtocol::TakeIdentity soon.
  virtual void OnIdTaken(const PeerAddress& peer) = 0;
  // Another agent asks whether we still have a MAC that we claim, and that is not sticky: its
  // frames, or another claim, came from elsewhere. At most RemoteAgent::kQuestionRate times a
  // second for each agent.
  virtual void OnQuestioned(FdbKey key) = 0;
  // `agent` says that the MAC is not behind it.
  virtual void OnNotBehind(FdbKey key, const AgentId& agent) = 0;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_PROTOCOL_EVENTS_H_
