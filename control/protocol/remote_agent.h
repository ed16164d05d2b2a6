// RemoteAgent: what we know of another agent of the VES, and which of its addresses may be used.
//
// An address is used only after an Alive with a random token of ours came from it: the agent
// receives there. Liveness is checked on demand: an address to which we send, and from which
// nothing comes, is probed after 1.0, 1.5 and 2.0 s, and lost after 2.5 s.
//
// Threads: the control thread. An AgentTable owns it. Change addresses in use and the view through
// the table only (Change, Confirm, Restart and others), which brings the consequences about.
//
// Invariants: an address in use has returned a token of ours. The view is that of one version, and
// a change that does not follow it is refused. While IsChanging, no other change is taken.
#ifndef EOIB_CONTROL_PROTOCOL_REMOTE_AGENT_H_
#define EOIB_CONTROL_PROTOCOL_REMOTE_AGENT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "control/protocol/agent_view.h"
#include "control/protocol/group_watch.h"
#include "control/protocol/state_parts.h"
#include "vswitch/base/address.h"
#include "vswitch/base/agent_id.h"
#include "vswitch/base/token_bucket.h"
#include "vswitch/wire/vport_message.h"

namespace eoib {

class RemoteAgent {
 public:
  static constexpr std::array<absl::Duration, 3> kProbeAfter = {
      absl::Seconds(1), absl::Milliseconds(1500), absl::Seconds(2)};
  static constexpr absl::Duration kLostAfter = absl::Milliseconds(2500);
  // More are ignored: those that it lists, and those of an earlier list.
  static constexpr size_t kMaxAddresses = 2 * AgentView::kMaxAddresses;
  // Number of Probes, a second apart, that ask whether an address that the agent lists is the
  // agent's.
  static constexpr int kVerifications = 3;

  // MACs a second, and in a burst.
  static constexpr double kQuestionRate = 10, kQuestionBurst = 64;

  struct Address {
    bool confirmed = false;  // it returned a token of ours, so it may be used
    bool lost = false;
    absl::Time heard = absl::InfinitePast();
    absl::Time waiting_since = absl::InfiniteFuture();  // we send, and have heard nothing since
    size_t probes = 0;                                  // sent since
    int verifications = 0;
    absl::Time verify_at = absl::InfinitePast();
    absl::optional<uint64_t> token;  // of the last Probe, while it is not confirmed
  };

  // `now`: of its first message.
  RemoteAgent(const AgentId& id, uint32_t incarnation, absl::Time now)
      : group(now),
        questions(kQuestionRate, kQuestionBurst, now),
        id_(id),
        incarnation_(incarnation) {}

  const AgentId& id() const { return id_; }
  uint32_t incarnation() const { return incarnation_; }
  const AgentView& view() const { return view_; }
  const std::map<PeerAddress, Address>& addresses() const { return addresses_; }
  absl::Time heard() const { return heard_; }
  absl::optional<absl::Duration> round_trip() const { return round_trip_; }  // of the last probe

  // Memory for this agent: its state, and parts of a newer one.
  size_t bytes() const { return view_.bytes() + assembly_.bytes(); }

  // We sent to `peer`, and have heard nothing from it since.
  bool IsWaitingFor(const PeerAddress& peer) const {
    const auto address = addresses_.find(peer);
    return address != addresses_.end() && address->second.waiting_since != absl::InfiniteFuture();
  }

  // True if messages from `peer` are believed to be the agent's: the address is in use, or listed,
  // or on a port (GID) where one is in use, as after a restart.
  bool MaySpeakFrom(const PeerAddress& peer) const;
  // A message or frame came from `peer`. Returns whether the state of an address in use changed. An
  // address that is only listed is asked for its token again, if the Probes to it were lost.
  bool Hear(const PeerAddress& peer, bool by_group, absl::Time now);
  // A Probe with this token was sent to `peer`.
  void NoteProbe(const PeerAddress& peer, uint64_t token);
  // Whether `token`, which came from `peer`, proves that the listed address is the agent's.
  bool IsProvenBy(const PeerAddress& peer, uint64_t token) const;
  // `peer` returned a token of ours, so it is used from now on. Returns whether it was not used
  // before.
  bool Confirm(const PeerAddress& peer, absl::Time now);
  // A frame was sent to `peer`.
  void NoteSent(const PeerAddress& peer, absl::Time now);
  // The agent returned a token from `peer`, which it has not listed. Drops its other addresses at
  // that port.
  void ReplaceAddressesAt(const PeerAddress& peer);
  // The subnet says that `peer` is out of service.
  void MarkLost(const PeerAddress& peer) { addresses_.at(peer).lost = true; }
  // `peer` belongs to another agent now.
  bool TakeAddress(const PeerAddress& peer);
  // The agent returned with another incarnation at `peer`: that is its only address until it
  // announces others. Its former state holds until the new one is here.
  void Restart(uint32_t incarnation, const PeerAddress& peer, absl::Time now);

  // The difference that a change makes in the view: these MACs; if the whole state was replaced,
  // the former MACs.
  struct ViewChange {
    std::vector<FdbKey> macs;
    bool replaces = false;
    AgentView::Macs former;
  };
  // Takes a change that `message` announces if it follows the version that is known. Returns
  // whether it did. A change of many MACs is not complete at once: while IsChanging, call
  // ContinueChange, and no other change is taken.
  bool Apply(const VPortMessage& message, ViewChange* change);
  bool IsChanging() const { return view_.IsRemoving(); }
  void ContinueChange(ViewChange* change) { view_.RemoveSome(&change->macs); }
  // Takes a part of the state. With the last missing part the state replaces the one that was known
  // (*change).
  enum class Taken : uint8_t { kNothing, kPart, kState };
  Taken TakePart(const VPortMessage& message, ViewChange* change);
  // Makes a Request ask for all that follows our version, or for the ranges that are missing of a
  // state that comes in parts.
  void FillRequest(VPortMessage* request) const;
  bool IsAssembling() const { return !assembly_.empty(); }
  // Removes all MACs from the view, and returns them. For an agent that is forgotten.
  AgentView::Macs TakeMacs() { return view_.TakeMacs(); }
  // Whether there is a later version than the one that is known.
  bool IsBehind() const { return view_.version < newest_; }
  void NoteVersion(uint32_t version);
  void NoteRoundTrip(absl::Duration time) { round_trip_ = time; }

  // The addresses to probe now. Sets *changed if an address was lost. A listed address is probed if
  // `may_verify` agrees, or a second later.
  std::vector<PeerAddress> TakeProbes(absl::Time now, absl::FunctionRef<bool()> may_verify,
                                      bool* changed);
  // When a probe, a request or the end of a challenge is due.
  absl::Time NextDeadline() const;

  // Confirmed addresses; those that are not lost.
  std::vector<PeerAddress> InUse() const;
  bool IsReachable() const;
  // The address that was heard last.
  PeerAddress LastHeard() const;

  GroupWatch group;
  // Its questions about MACs of ours that have the stations' silence checked. Others are only
  // answered.
  TokenBucket questions;
  // When it may be probed again for its round trip and its group messages, rather than for its
  // liveness.
  absl::Time check_at = absl::InfinitePast();
  // When it is to be run; kept by AgentTable::Schedule.
  absl::Time scheduled = absl::InfiniteFuture();
  // When the state is requested, and the number of requests since the last progress.
  absl::Time request_at = absl::InfiniteFuture();
  size_t requests = 0;
  uint64_t request_token = 0;
  bool awaits_announcement = false;  // `request_at` leaves time for its answer to a newcomer
  // A claim to be this agent, from a port where it was not known. Ends when something is heard from
  // a known address.
  struct Challenge {
    uint32_t incarnation = 0, version = 0;
    PeerAddress peer;
    uint64_t token = 0;  // of the Probes to `peer`
    absl::Time deadline;
    absl::Time probe_at;    // the known addresses, and `peer`
    bool answered = false;  // by `peer`, with the token: it receives what is sent there
  };
  absl::optional<Challenge> challenge;
  // When the agent was last heard while it was challenged.
  absl::Time refuted() const { return refuted_; }

  // A message says that the agent leaves. It is believed if all addresses in use leave our Probes
  // unanswered.
  struct Departure {
    uint64_t token = 0;  // of the Probes
    absl::Time deadline;
    absl::Time probe_at;
  };
  absl::optional<Departure> departure;

 private:
  void ReplaceView(AgentView view, ViewChange* change);
  void AdoptAddresses();

  const AgentId id_;
  uint32_t incarnation_;
  AgentView view_;
  uint32_t newest_ = 0;  // the highest version that was said
  std::map<PeerAddress, Address> addresses_;
  StateAssembly assembly_;
  absl::Time heard_ = absl::InfinitePast(), refuted_ = absl::InfinitePast();
  absl::optional<absl::Duration> round_trip_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_REMOTE_AGENT_H_
