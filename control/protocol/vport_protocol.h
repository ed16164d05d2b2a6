// VPortProtocol: the vPort protocol of one VES. It announces our agent, and keeps a view of all
// others.
//
// An announcement goes to the group, which may lose it. So every message says which version of the
// sender's state is current, and an agent that misses a version requests the full state. README.md
// has the rules.
//
// It does no I/O: ProtocolEvents sends its messages and takes its results.
//
// Threads: the control thread calls everything. ProtocolEvents is called from inside of these
// calls, and must not call back.
//
// Invariants: what others can see of an agent is changed inside AgentTable::Change, which updates
// claims and tells the events. A change of what is due is followed by AgentTable::Schedule. A
// pointer to a RemoteAgent is void after a call that may forget agents (Confirm, Forget): keep the
// id instead. All that others can make us keep has a limit.
#ifndef EOIB_CONTROL_PROTOCOL_VPORT_PROTOCOL_H_
#define EOIB_CONTROL_PROTOCOL_VPORT_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "control/protocol/agent_table.h"
#include "control/protocol/claim_arbiter.h"
#include "control/protocol/group_announcer.h"
#include "control/protocol/own_agent.h"
#include "control/protocol/protocol_counters.h"
#include "control/protocol/protocol_events.h"
#include "control/protocol/random_time.h"
#include "control/protocol/remote_agent.h"
#include "control/protocol/sender_verifier.h"
#include "control/protocol/state_sender.h"
#include "fdb/fdb_key.h"
#include "vswitch/base/address.h"
#include "vswitch/base/agent_id.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/token_bucket.h"
#include "vswitch/wire/vport_message.h"

namespace eoib {

class VPortProtocol {
 public:
  static constexpr absl::Duration kSweep = absl::Seconds(5);
  // Interval of the probes to an agent with which frames go both ways: for its round trip, and
  // whether it hears our group. So is one whose group messages, or ours, seem not to arrive.
  static constexpr absl::Duration kCheckEvery = absl::Seconds(60);
  static constexpr absl::Duration kDoubtEvery = absl::Seconds(20);

  struct Options {
    AgentId id;
    uint32_t incarnation = 0;
    std::string host;
    AgentCapabilities capabilities;
    size_t largest_message = 2000;                     // bytes; from the VES MTU
    std::shared_ptr<uint32_t> last_version = nullptr;  // see OwnAgent
  };
  using Counters = ProtocolCounters;

  // The pointers outlive the object.
  VPortProtocol(const Options& options, ProtocolEvents* events, const Clock* clock,
                RandomBits random);
  VPortProtocol(const VPortProtocol&) = delete;
  VPortProtocol& operator=(const VPortProtocol&) = delete;

  // Our state. The first address is the one that messages are sent from, except answers to probes;
  // without addresses nothing is sent.
  void SetAddresses(const std::vector<AgentAddress>& addresses);
  void SetLargestMessage(size_t bytes) { own_.SetLargest(bytes); }
  void SetCapabilities(const AgentCapabilities& capabilities) { own_.SetHost(host_, capabilities); }
  void SetVPort(const AnnouncedVPort& vport) { own_.SetVPort(vport); }
  void RemoveVPort(uint16_t id);
  // See ClaimArbiter::Claim.
  bool Claim(FdbKey key, uint16_t vport, bool sticky = false, uint32_t least = 1);
  void ClaimConfigured(FdbKey key, uint16_t vport) { claims_.ClaimConfigured(key, vport); }
  void Release(FdbKey key) { claims_.Release(key); }
  // Takes a new id, which no other agent knows, and keeps addresses, vPorts and claims. The others
  // learn it within a round trip. See ProtocolEvents::OnIdTaken.
  void TakeIdentity(const AgentId& id, uint32_t incarnation);
  // Tells all that we leave.
  void Leave();

  // A message came from `source` to `to`, an address of ours. A probe is answered from there, which
  // proves that the address is ours. `to` may be zero: the first one.
  void Receive(absl::Span<const uint8_t> payload, const PeerAddress& source, bool by_group,
               const PeerAddress& to = {});
  // Frames came from, or were sent to, an address of an agent since the last call.
  void NoteHeard(const PeerAddress& peer);
  void NoteSent(const PeerAddress& peer);
  // The subnet says that an address is out of service.
  void NoteUnreachable(const PeerAddress& peer);
  // Forgets an agent, as if it had been silent for long. Its next message is that of a new agent.
  void Forget(const AgentId& agent) { agents_.Forget(agent); }
  // Asks a peer that sent frames, but no message, for its state.
  void Discover(const PeerAddress& peer);
  // A frame with this source came from elsewhere than the agent that holds the MAC.
  void Contest(FdbKey key) { claims_.Contest(key); }
  // A frame for this MAC, which is not behind us, came from `source` as unicast.
  void TellNotBehind(FdbKey key, const PeerAddress& source);

  // Sends what is due. Call it after changes, and when NextDeadline has come.
  void Run();
  absl::Time NextDeadline() const;

  const OwnAgent& own() const { return own_; }
  const std::map<AgentId, std::unique_ptr<RemoteAgent>>& agents() const { return agents_.agents(); }
  const RemoteAgent* AgentAt(const PeerAddress& peer) const { return agents_.At(peer); }
  absl::optional<MacClaim> Holder(FdbKey key) const { return claims_.Holder(key); }
  const absl::btree_map<FdbKey, MacClaim>& conflicts() const { return claims_.conflicts(); }
  const Counters& counters() const { return counters_; }

 private:
  void Send(const PeerAddress& peer, const VPortMessage& message);
  void Ask(const AgentId& agent, FdbKey key);
  void Defend(const AgentId& agent, FdbKey key);
  void Poll(const std::vector<FdbKey>& keys);
  void RunRemote(RemoteAgent* agent);
  void Request(RemoteAgent* agent);
  void Probe(const PeerAddress& peer, RemoteAgent* agent);
  void CheckGroup(RemoteAgent* agent);
  void Sweep();

  void HandleStranger(const VPortMessage& message, const PeerAddress& source,
                      const PeerAddress& to);
  void TellHeld(const PeerAddress& peer, uint32_t incarnation);
  void NoteMessage(RemoteAgent* agent, const PeerAddress& source, bool by_group);
  void HandleHeld(const VPortMessage& message, const PeerAddress& source, RemoteAgent* agent);
  void Handle(const VPortMessage& message, const PeerAddress& source, bool by_group,
              const PeerAddress& to, RemoteAgent* agent);
  void AnswerProbe(const VPortMessage& probe, const PeerAddress& source, const PeerAddress& to,
                   const RemoteAgent* agent);
  void HandleRequest(const VPortMessage& message, const PeerAddress& source, bool by_group,
                     RemoteAgent* agent);
  void TakeChange(const VPortMessage& message, RemoteAgent* agent);
  void TakePart(const VPortMessage& message, RemoteAgent* agent);
  bool HasRoomFor(const VPortMessage& message, const RemoteAgent& agent);
  void NoteProgress(RemoteAgent* agent);
  void HandleReply(const VPortMessage& message, const PeerAddress& source, RemoteAgent* agent);
  void TakeVotes(const VPortMessage& reply, const Gid& port);
  void HandleAlive(const VPortMessage& message, const PeerAddress& source, RemoteAgent* agent);
  void NoteGroupHeard(const VPortMessage& message, RemoteAgent* agent);
  uint32_t GroupHeard(const RemoteAgent& agent) const;
  void PlanRequest(const VPortMessage& message, bool by_group, RemoteAgent* agent);

  const std::string host_;
  ProtocolEvents* const events_;
  const Clock* const clock_;
  const RandomBits random_;
  Counters counters_;
  OwnAgent own_;
  ClaimArbiter claims_;
  AgentTable agents_;
  GroupAnnouncer announcer_;
  SenderVerifier senders_;
  StateSender state_sender_;
  absl::flat_hash_map<uint64_t, absl::Time> probed_at_;  // by token
  absl::Time sweep_at_;                                  // when to look for silent agents
  absl::Time has_address_since_ = absl::InfiniteFuture();
  TokenBucket hint_budget_, stranger_budget_, held_budget_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_VPORT_PROTOCOL_H_
