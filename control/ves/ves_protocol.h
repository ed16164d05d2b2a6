// VesProtocol: the vPort protocol in a VES. It connects the engine (protocol/vport_protocol.h) with
// the worker's queues, and brings its results into the FDB, the vPort directory and the log.
//
// For forwarding, another agent is one vPort of the directory. MACs that it announces are entries
// of the FDB behind that vPort.
//
// Threads: the control thread calls everything. The functions of ProtocolEvents run inside calls of
// the engine. They may look something up in the engine, and change nothing there.
//
// Invariants: an agent with a proven address has at most one vPort of the directory, and peers_ and
// by_vport_ agree on it. The FDB entries of a vPort are flushed before the directory removes it.
// LocalClaims alone decides which MACs of ours are claimed.
#ifndef EOIB_CONTROL_VES_VES_PROTOCOL_H_
#define EOIB_CONTROL_VES_VES_PROTOCOL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "control/protocol/agent_identity.h"
#include "control/protocol/protocol_events.h"
#include "control/protocol/vport_protocol.h"
#include "control/subnet/path_resolver.h"
#include "control/ves/local_claims.h"
#include "control/ves/missing_entries.h"
#include "control/ves/restored_entries.h"
#include "control/ves/ves_journal.h"
#include "control/vport/vport.h"
#include "fdb/fdb.h"
#include "fdb/vport_directory.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/daemon/log.h"
#include "vswitch/base/token_bucket.h"
#include "vswitch/forwarder/control_queues.h"
#include "vswitch/forwarder/flood_list.h"

namespace eoib {

// Advice to the operator if group messages do not arrive.
inline constexpr char kGroupAdvice[] =
    "if the fabric does not serve multicast, set flood = \"replicate\" for the VES on all hosts";

// Advice if two agents have one id.
inline constexpr char kCopyAdvice[] =
    "one of the two has a copy of the other's state directory (--statedir): stop that one, delete "
    "agent.json and vports.json there, and start it again";

// Advice if a configured MAC is also another agent's.
inline constexpr char kConflictAdvice[] =
    "give one of the two another MAC (mac or static_macs of the vPort); a copied disk needs its "
    "own machine-id, and no vports.json in the state directory";

class VesProtocol final : private ProtocolEvents {
 public:
  // The vPort of a peer that restarted without announcing itself is flushed if it stays silent for
  // this long.
  static constexpr absl::Duration kSilence = absl::Seconds(3);
  // Interval of the log lines on an agent with a copy of our id, which is shown until it was silent
  // for kCopyKept.
  static constexpr absl::Duration kCopyLogged = absl::Minutes(10);
  static constexpr absl::Duration kCopyKept = AgentTable::kForget;
  // Interval of the log lines on conflicts, after the first ones.
  static constexpr int kConflictsAtOnce = 10;
  static constexpr absl::Duration kConflictLogged = absl::Minutes(1);

  // They outlive the object.
  struct Dependencies {
    Fdb* fdb;
    VPortDirectory* directory;
    PathResolver* resolver;
    // Messages from our address `from` leave there; those to the group from PeerAddress().
    std::function<InjectQueue*(const PeerAddress& from)> injected_at;
    std::function<void()> retry_held;  // paths to peers changed
    VesJournal* journal;
    const Clock* clock;
    const VlanSet* vlans;  // the VES's: MACs in others are not in the FDB
    // Gets all agents and their VLANs; null: the VES floods through its group.
    FloodList* floods = nullptr;
    std::shared_ptr<uint32_t> last_version = nullptr;  // see OwnAgent
    // An agent at `peer` has our id. TakeIdentity follows.
    std::function<void(const PeerAddress& peer)> on_id_taken = [](const PeerAddress&) {};
  };
  // `host` is our name, for the operators of other hosts.
  VesProtocol(const AgentIdentity& identity, const std::string& host,
              const Dependencies& dependencies);

  // A vPort of ours; the directory knows it as `id`.
  void AddVPort(const VPort& vport, VPortId id);
  void RemoveVPort(const VPort& vport, VPortId id);
  void RenameVPort(const VPort& vport);  // which has its new name
  // The queue pairs at which we receive, and the VES MTU. The first one sends messages and receives
  // those to the group. Without any, the flood group is not joined, so nothing can be sent.
  void SetAddresses(const std::vector<PeerAddress>& own, uint32_t mtu);
  // Only messages from these ports, and from our own, count from now on; nullopt: from all. Forgets
  // the agents elsewhere.
  void SetAgents(const absl::optional<std::vector<Gid>>& listed);
  // Whether messages from the port `gid` count.
  bool IsListed(const Gid& gid) const {
    return !listed_.has_value() || listed_->contains(gid) || own_gids_.contains(gid);
  }
  // Another id from now on; see VPortProtocol.
  void TakeIdentity(const AgentIdentity& identity);
  // Tells the others that we stop.
  void Leave();

  // From the worker. Whether a message from the port `gid` counts; counts it if not.
  bool Admits(const Gid& gid);
  // From the worker. The message came to our address `to`. The other kinds of punts have no effect.
  void OnMessage(const ControlMessage& message, const PeerAddress& to);
  void OnPunt(const Punt& punt);
  // Takes note of the peers that were heard and used. Run calls it regularly.
  void NoteTraffic();
  // The subnet says that the ports of `vport` are out of service.
  void NoteUnreachable(VPortId vport);
  // The subnet says that there is an agent at `peer`.
  bool Knows(const PeerAddress& peer) const { return engine_.AgentAt(peer) != nullptr; }
  void Ask(const PeerAddress& peer) { engine_.Discover(peer); }
  // Gives the FDB all MACs again that other agents hold. Call after an operator flushed or freed
  // entries.
  void Restore();
  // The MACs in `vlans` that an agent at `gid` has announced behind its vPort of that name.
  std::vector<FdbKey> MacsBehind(const Gid& gid, const std::string& vport,
                                 const VlanSet& vlans) const;
  // Claims a MAC for a vPort of ours, which stands in for another agent's from now on. Run sends
  // it.
  void TakeOver(FdbKey key, VPortId vport) { local_.TakeOver(key, vport); }
  // Flushes and releases the MACs in `vlans` behind a vPort of ours, because another agent's stands
  // in for it.
  void GiveUp(const VlanSet& vlans, VPortId vport);
  // To fill before the first Run.
  RestoredEntries* restored() { return &restored_; }
  // `announces`: whether others hear what this agent claims.
  void Run(bool announces);
  absl::Time NextDeadline() const;

  const VPortProtocol& engine() const { return engine_; }
  // The agent behind a vPort of the directory, or null.
  const RemoteAgent* AgentBehind(VPortId vport) const;
  // The vPort of the directory behind which an agent is, or None.
  VPortId VPortOf(const AgentId& agent) const;
  // An agent in the operator's words: "h2 (0a1b2c3d)"; its host: "h2", or "0a1b2c3d" before that is
  // known.
  static std::string NameOf(const RemoteAgent& agent);
  static std::string HostOf(const RemoteAgent& agent);
  // The agent that was last heard with our id: a copy of us. Nothing if none was heard for
  // kCopyKept.
  struct Copy {
    PeerAddress peer;
    absl::Time heard;
  };
  absl::optional<Copy> copy() const;
  // The number of ports in the list of SetAgents, and of messages from other ports since the start.
  absl::optional<size_t> listed() const {
    return listed_ ? absl::make_optional(listed_->size()) : absl::nullopt;
  }
  uint64_t unlisted_messages() const { return unlisted_messages_; }
  // A MAC that is configured at a vPort of ours, and that another agent claims, too.
  struct Conflict {
    FdbKey key;
    std::string vport;        // ours
    std::string agent, host;  // the other one's
    bool held = false;        // other agents send frames for the MAC to us
  };
  // At most `most` of them, sorted.
  std::vector<Conflict> Conflicts(size_t most) const;
  // The number of other agents that get our messages and, in their VLANs, our floods.
  size_t agents() const { return peers_.size(); }

 private:
  // How the directory knows another agent.
  struct Peer {
    VPortId vport = VPortId::None();
    uint32_t incarnation = 0;  // the one whose state is known; 0: none
    bool reachable = false;
    bool unheard = false;  // group messages do not pass between us
    VlanSet vlans;         // of its vPorts, for the flood list
    bool vlans_changed = true;
  };

  // ProtocolEvents.
  void SendToGroup(const std::vector<uint8_t>& payload) override {
    Send(VPortId::None(), PeerAddress(), payload);
  }
  void SendTo(const PeerAddress& peer, const PeerAddress& from,
              const std::vector<uint8_t>& payload) override;
  size_t Room() const override { return injected_at_(PeerAddress())->MessageRoom(); }
  void OnAgent(const RemoteAgent& agent) override;
  void OnAgentGone(const RemoteAgent& agent) override;
  void OnMac(FdbKey key, const MacClaim& claim) override;
  void OnMacFree(FdbKey key) override;
  void OnClaimLost(FdbKey key, const MacClaim& winner, bool duplicate) override;
  void OnConflict(FdbKey key, const MacClaim& rival) override;
  void OnConflictOver(FdbKey key) override;
  void OnCopiedId(const PeerAddress& peer) override;
  void OnIdTaken(const PeerAddress& peer) override { on_id_taken_(peer); }
  void OnQuestioned(FdbKey key) override { local_.OnContested(key); }
  void OnNotBehind(FdbKey key, const AgentId& agent) override;

  std::string NameOf(const AgentId& id) const;
  void Send(VPortId vport, const PeerAddress& from, const std::vector<uint8_t>& payload);
  VPortId VPortFor(const RemoteAgent& agent, const PeerAddress& address);
  bool Publish(const RemoteAgent& agent, VPortId vport);
  bool IsListed(const RemoteAgent& agent) const;
  void LogChange(const RemoteAgent& agent, const Peer& before);
  void LogGroup(const RemoteAgent& agent, Peer* peer);
  void RemovePeer(const AgentId& id);
  void OnHeardHere(const Punt& punt);
  void WatchMove(VPortId from, VPortId to);
  void FlushSilent();
  void DiscoverPeers();
  void DiscoverSoon(const PeerAddress& peer, absl::Duration delay);
  void PublishFloods();

  Fdb* const fdb_;
  VPortDirectory* const directory_;
  PathResolver* const resolver_;
  const std::function<InjectQueue*(const PeerAddress& from)> injected_at_;
  const std::function<void()> retry_held_;
  const std::function<void(const PeerAddress& peer)> on_id_taken_;
  const VlanSet* const vlans_;
  VesJournal* const journal_;
  const Clock* const clock_;
  AgentCapabilities capabilities_{.segments = VPortCapabilities::kMaxSegments};
  VPortProtocol engine_;
  LocalClaims local_;
  RestoredEntries restored_;
  MissingEntries missing_;
  std::map<AgentId, Peer> peers_;
  absl::flat_hash_map<VPortId, AgentId> by_vport_;
  // Peers that sent no message yet, and when to ask them.
  absl::flat_hash_map<PeerAddress, absl::Time> unknown_;
  // vPorts from which a MAC moved to another one at its port, and when.
  absl::flat_hash_map<VPortId, absl::Time> left_;
  // Ports whose messages count; nullopt: all.
  absl::optional<absl::flat_hash_set<Gid>> listed_;
  absl::flat_hash_set<Gid> own_gids_;
  uint64_t unlisted_messages_ = 0;
  FloodList* const floods_;
  bool floods_changed_ = false;
  TokenBucket publications_;
  absl::optional<Copy> copy_;
  LogLimiter copies_;
  LogLimiter conflicts_;
  absl::Time traffic_at_;  // when to look at the traffic again
  AgentId traffic_from_;   // of this agent and those after it
};

}  // namespace eoib

#endif  // EOIB_CONTROL_VES_VES_PROTOCOL_H_
