// SenderVerifier: decides which agent a message comes from, and whether it counts.
//
// A message counts if it comes from an address of the agent. A sender that is new there, because
// the agent is unknown, has started again or has replaced its queue pair, first has to return a
// random token. If an agent appears at another port, that is a challenge: all addresses are probed,
// and it is believed if the known ones stay silent and the new one answers. It is then a new agent,
// which has inherited nothing. A message that an agent leaves is believed if its addresses stay
// silent. README.md ("Who may speak for an agent") has the rules.
//
// Not thread-safe.
#ifndef EOIB_CONTROL_PROTOCOL_SENDER_VERIFIER_H_
#define EOIB_CONTROL_PROTOCOL_SENDER_VERIFIER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "control/protocol/address_prover.h"
#include "control/protocol/agent_table.h"
#include "control/protocol/agent_view.h"
#include "control/protocol/group_announcer.h"
#include "control/protocol/own_agent.h"
#include "control/protocol/protocol_counters.h"
#include "control/protocol/protocol_events.h"
#include "control/protocol/random_time.h"
#include "control/protocol/remote_agent.h"
#include "vswitch/base/address.h"
#include "vswitch/base/agent_id.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/token_bucket.h"
#include "vswitch/wire/vport_message.h"

namespace eoib {

class SenderVerifier {
 public:
  // An agent that claims to have moved to another port is believed once its old addresses were
  // silent for this long.
  static constexpr absl::Duration kChallenge = absl::Milliseconds(1500);
  // Interval of the probes to an agent that is challenged.
  static constexpr absl::Duration kChallengeProbe = absl::Milliseconds(500);
  // An agent that is said to leave is forgotten after this silence. It is probed at this interval
  // meanwhile.
  static constexpr absl::Duration kDeparture = absl::Milliseconds(300);
  static constexpr absl::Duration kDepartureProbe = absl::Milliseconds(100);
  // Least interval between two new ids of ours, and interval of the probes to an agent that has
  // ours.
  static constexpr absl::Duration kNewIdEvery = absl::Minutes(10);
  static constexpr absl::Duration kCopyProbe = absl::Seconds(1);
  // An agent that answered when it was challenged has its id for this long. A challenger of the
  // same incarnation is told.
  static constexpr absl::Duration kRefuted = absl::Seconds(10);
  // An incarnation at another port that is higher by more than this is not believed. Each start of
  // an agent adds one.
  static constexpr uint32_t kLargestJump = 1000;
  // Probes of listed addresses: of the agents at one port between two sweeps; of all agents in a
  // second, and in a burst.
  static constexpr int kMostAtPort = 3 * AgentView::kMaxAddresses;
  static constexpr double kVerifyRate = 100, kVerifyBurst = 200;

  // They outlive the object.
  struct Dependencies {
    const OwnAgent* own;
    AgentTable* agents;
    GroupAnnouncer* announcer;  // is told of newcomers
    const Clock* clock;
    ProtocolCounters* counters;
    ProtocolEvents* events;
    RandomBits random;
  };
  // `probe` sends a Probe with this token to an address.
  SenderVerifier(const Dependencies& dependencies, AddressProver::Probe probe)
      : use_(dependencies),
        probe_(std::move(probe)),
        prover_(use_.clock, use_.random, probe_),
        verify_budget_(kVerifyRate, kVerifyBurst, use_.clock->Now()) {}

  // The agent that sent `message` from `source`, or null if the message does not count (yet).
  RemoteAgent* SenderOf(const VPortMessage& message, const PeerAddress& source, bool by_group);
  // The messages that this sender sent before, if `message` was the proof without which they did
  // not count. Call it after SenderOf.
  std::vector<AddressProver::Kept> TakeEarlier() { return std::exchange(earlier_, {}); }
  // An Alive came from `source`, an address of `agent`: perhaps with the token of a Probe to a
  // listed address, or to an agent that is said to leave.
  void TakeToken(const VPortMessage& alive, const PeerAddress& source, RemoteAgent* agent);
  // A message says that `agent` leaves. It is probed, and forgotten later if it stays silent.
  void NoteLeave(RemoteAgent* agent);
  // Another message came from `agent`. If it is said to leave, it is given more time to answer:
  // perhaps it has returned.
  void NoteSpeaks(RemoteAgent* agent) const {
    if (agent->departure) agent->departure->deadline = use_.clock->Now() + kDeparture;
  }

  // The incarnation in which another agent has the id of this message, which does not count;
  // nothing if the sender may keep it.
  absl::optional<uint32_t> HeldBy(const VPortMessage& message, const PeerAddress& source) const;
  // `agent` says, in an answer to our Probe from `source`, that another agent has our id in this
  // incarnation.
  void NoteHeld(uint32_t incarnation, const PeerAddress& source);
  // We have a new id.
  void NoteNewId();

  // Probes the addresses of an agent that is challenged or said to leave, or ends that. Returns the
  // agent that has the id then: a new one, if a challenger was believed; null, if the agent has
  // left. The former agent is forgotten.
  RemoteAgent* RunDoubts(RemoteAgent* agent);
  // Whether an address that `agent` lists may be probed now: an agent may list those of others, so
  // probes are limited, for the port at which it speaks and in all.
  bool MayVerify(const RemoteAgent& agent);
  // Begins another interval of kMostAtPort. Call it each few seconds.
  void Sweep() { verified_.clear(); }

  // Sends the Probes to new senders that are due.
  void Run() { prover_.Run(); }
  absl::Time NextDeadline() const { return prover_.NextDeadline(); }

 private:
  // An agent with our id.
  struct Copy {
    PeerAddress peer;
    uint64_t token;  // of our Probe
    absl::Time until;
  };

  void NoteOwnId(const VPortMessage& message, const PeerAddress& source);
  bool YieldsTo(uint32_t incarnation, const PeerAddress& peer) const;
  absl::optional<bool> Prove(const VPortMessage& message, const PeerAddress& source, bool by_group);
  RemoteAgent* Meet(const VPortMessage& message, const PeerAddress& source, bool by_group);
  RemoteAgent* HearNewAddress(const VPortMessage& message, const PeerAddress& source, bool by_group,
                              RemoteAgent* agent);
  void Challenge(RemoteAgent* agent, const VPortMessage& message, const PeerAddress& source);
  RemoteAgent* RunChallenge(RemoteAgent* agent);
  RemoteAgent* RunDeparture(RemoteAgent* agent);
  void ProbeAddressesOf(const RemoteAgent& agent, uint64_t token);
  RemoteAgent* Replace(const RemoteAgent& former, const RemoteAgent::Challenge& challenge);

  const Dependencies use_;
  const AddressProver::Probe probe_;
  AddressProver prover_;
  std::vector<AddressProver::Kept> earlier_;
  absl::optional<Copy> copy_;  // that was probed
  absl::Time new_id_at_ = absl::InfinitePast();
  absl::flat_hash_map<Gid, int> verified_;  // probes of addresses that agents at this port listed
  TokenBucket verify_budget_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_SENDER_VERIFIER_H_
