// RemoteAgent: what we know of another agent of the VES, and which of its addresses may be used.
//
// An address is used only after a message with the agent's id and incarnation came from it. Liveness is checked on demand: an
// address to which we send, and from which nothing comes, is probed after 1.0, 1.5 and 2.0 s, and lost after 2.5 s.
//
// Not thread-safe.
#ifndef EOIB_CONTROL_PROTOCOL_REMOTE_AGENT_H_
#define EOIB_CONTROL_PROTOCOL_REMOTE_AGENT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "control/protocol/agent_view.h"
#include "control/protocol/group_watch.h"
#include "vswitch/base/address.h"
#include "vswitch/base/agent_id.h"
#include "vswitch/wire/vport_message.h"

namespace eoib {

class RemoteAgent {
 public:
  static constexpr std::array<absl::Duration, 3> kProbeAfter = {absl::Seconds(1), absl::Milliseconds(1500), absl::Seconds(2)};
  static constexpr absl::Duration kLostAfter = absl::Milliseconds(2500);
  // More are ignored: those that it lists, and those of an earlier list.
  static constexpr size_t kMaxAddresses = 2 * AgentView::kMaxAddresses;
  // Parts of a full state. The largest view has fewer.
  static constexpr size_t kMaxParts = 2048;
  // An address that the agent lists is asked so often, a second apart, whether it is the agent's.
  static constexpr int kVerifications = 3;

  struct Address {
    bool confirmed = false;  // it may be used
    bool lost = false;
    absl::Time heard = absl::InfinitePast();
    absl::Time waiting_since = absl::InfiniteFuture();  // we send, and have heard nothing since
    size_t probes = 0;                                  // sent since
    int verifications = 0;
    absl::Time verify_at = absl::InfinitePast();
  };

  // `now`: of its first message.
  RemoteAgent(const AgentId& id, uint32_t incarnation, absl::Time now) : group(now), id_(id), incarnation_(incarnation) {}

  const AgentId& id() const { return id_; }
  uint32_t incarnation() const { return incarnation_; }
  const AgentView& view() const { return view_; }
  const std::map<PeerAddress, Address>& addresses() const { return addresses_; }
  absl::Time heard() const { return heard_; }
  absl::optional<absl::Duration> round_trip() const { return round_trip_; }  // of the last probe

  // MACs, vPorts and ranges of VLANs that are kept for this agent, and parts of its full state.
  size_t size() const { return view_.size() + size_of_parts_; }

  // We sent to `peer`, and have heard nothing from it since.
  bool IsWaitingFor(const PeerAddress& peer) const {
    const auto address = addresses_.find(peer);
    return address != addresses_.end() && address->second.waiting_since != absl::InfiniteFuture();
  }

  // True if messages from `peer` are believed to be the agent's: the address is in use, or listed, or on a port (GID) where
  // one is in use, as after a restart.
  bool MaySpeakFrom(const PeerAddress& peer) const;
  // A message or frame came from `peer`. Returns whether the addresses in use or their state changed.
  bool Hear(const PeerAddress& peer, bool by_group, absl::Time now);
  // A frame was sent to `peer`.
  void NoteSent(const PeerAddress& peer, absl::Time now);
  // The agent speaks from `peer`, which it has not listed. Its other addresses at that port are in doubt: drops them.
  void ReplaceAddressesAt(const PeerAddress& peer);
  uint32_t newest_version() const { return newest_; }
  // The subnet says that `peer` is out of service.
  void MarkLost(const PeerAddress& peer) { addresses_.at(peer).lost = true; }
  // `peer` belongs to another agent now.
  bool TakeAddress(const PeerAddress& peer);
  // The agent returned with another incarnation at `peer`: that is its only address until it announces others. What else is
  // known of it holds until its new state is here.
  void Restart(uint32_t incarnation, const PeerAddress& peer, absl::Time now);

  // Takes a change that `message` announces if it follows the version that is known. Returns whether it did, with the keys of
  // MACs that differ.
  bool Apply(const VPortMessage& message, std::vector<FdbKey>* changed_macs);
  // Takes a part of the full state. Returns true once all parts are here, with the keys of MACs that differ.
  bool TakePart(const VPortMessage& message, std::vector<FdbKey>* changed_macs);
  // Whether there is a later version than the one that is known.
  bool IsBehind() const { return view_.version < newest_; }
  void NoteVersion(uint32_t version);
  void NoteRoundTrip(absl::Duration time) { round_trip_ = time; }

  // The addresses to probe now. Sets *changed if an address was lost. A listed address is probed if `may_verify` agrees, or a
  // second later.
  std::vector<PeerAddress> TakeProbes(absl::Time now, absl::FunctionRef<bool()> may_verify, bool* changed);
  // When a probe, a request or the end of a challenge is due.
  absl::Time NextDeadline() const;

  // Confirmed addresses; those that are not lost.
  std::vector<PeerAddress> InUse() const;
  bool IsReachable() const;
  // The address that was heard last.
  PeerAddress LastHeard() const;

  GroupWatch group;
  // When it may be probed again for its round trip and its group messages, rather than for its liveness.
  absl::Time check_at = absl::InfinitePast();
  // When it is to be run; kept by VPortProtocol.
  absl::Time scheduled = absl::InfiniteFuture();
  // Requests for the full state, a second apart and then twice as long each time.
  absl::Time request_at = absl::InfiniteFuture();
  int requests = 0;
  uint64_t request_token = 0;
  // A claim to be this agent, from a port where it was not known. Ends when something is heard from a known address.
  struct Challenge {
    uint32_t incarnation = 0, version = 0;
    PeerAddress peer;
    uint64_t token = 0;  // of the Probes to `peer`
    absl::Time deadline;
    absl::Time probe_at;    // the known addresses, and `peer`
    bool answered = false;  // by `peer`, with the token: it receives what is sent there
  };
  absl::optional<Challenge> challenge;

 private:
  void AdoptAddresses();
  void DropParts();

  const AgentId id_;
  uint32_t incarnation_;
  AgentView view_;
  uint32_t newest_ = 0;  // the highest version that was said
  std::map<PeerAddress, Address> addresses_;
  std::map<uint16_t, VPortMessage> parts_;  // of the full state, by index
  size_t size_of_parts_ = 0;
  absl::Time heard_ = absl::InfinitePast();
  absl::optional<absl::Duration> round_trip_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_REMOTE_AGENT_H_
