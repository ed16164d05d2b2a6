// SenderVerifier: decides which agent a message comes from, and whether it counts.
//
// A message counts if it comes from an address of the agent, or from a port (GID) where the agent has one in use. If an agent
// appears at another port, that is a challenge: all addresses are probed, and it is believed if the known ones stay silent and
// the new one answers. It is then a new agent, which has inherited nothing. README.md
// ("Who may speak for an agent") has the rules.
//
// Not thread-safe.
#ifndef EOIB_CONTROL_PROTOCOL_SENDER_VERIFIER_H_
#define EOIB_CONTROL_PROTOCOL_SENDER_VERIFIER_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
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
  // An agent that claims to have moved to another port is believed once its old addresses were silent for this long.
  static constexpr absl::Duration kChallenge = absl::Milliseconds(1500);
  // An agent that is challenged is probed so often meanwhile.
  static constexpr absl::Duration kChallengeProbe = absl::Milliseconds(500);
  // An incarnation at another port that is higher by more than this is not believed. Each start of an agent adds one.
  static constexpr uint32_t kLargestJump = 1000;
  // Probes of listed addresses: of the agents at one port between two sweeps; of all agents in a second, and in a burst.
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
  SenderVerifier(const Dependencies& dependencies, std::function<void(const PeerAddress& peer, uint64_t token)> probe)
      : use_(dependencies), probe_(std::move(probe)), verify_budget_(kVerifyRate, kVerifyBurst, use_.clock->Now()) {}

  // The agent that sent `message` from `source`, or null if the message does not count.
  RemoteAgent* SenderOf(const VPortMessage& message, const PeerAddress& source, bool by_group);
  // An agent left, by this message. Messages that it sent before, and that arrive later, do not count. It may return in the
  // same run, with a later version.
  void NoteDeparture(const VPortMessage& leave);

  // Probes the addresses of an agent that is challenged, or ends the challenge. Returns the agent that has the id then: a new
  // one, if the challenger was believed; the former one is forgotten.
  RemoteAgent* RunChallenge(RemoteAgent* agent);
  // Whether an address that `agent` lists may be probed now: an agent may list those of others, so probes are limited, for the
  // port at which it speaks and in all.
  bool MayVerify(const RemoteAgent& agent);
  // Forgets departures that are long past. Each call begins another interval of kMostAtPort. Call it each few seconds.
  void Sweep();

 private:
  struct Departed {
    uint32_t incarnation;
    uint32_t version;
    absl::Time until;
  };

  void NoteOwnId(const PeerAddress& source);
  RemoteAgent* Meet(const VPortMessage& message, const PeerAddress& source, bool by_group);
  bool IsStale(const VPortMessage& message) const;
  void Challenge(RemoteAgent* agent, const VPortMessage& message, const PeerAddress& source);
  RemoteAgent* Replace(const RemoteAgent& former, const RemoteAgent::Challenge& challenge);

  const Dependencies use_;
  const std::function<void(const PeerAddress& peer, uint64_t token)> probe_;
  absl::flat_hash_map<AgentId, Departed> departed_;
  absl::flat_hash_map<Gid, int> verified_;  // probes of addresses that agents at this port listed
  TokenBucket verify_budget_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_SENDER_VERIFIER_H_
