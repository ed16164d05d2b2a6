// AddressProver: senders that have not proven yet that they receive at the address from which they
// speak.
//
// A datagram's source can be forged, so a sender counts only after it has returned a random token
// of ours, in an Alive that answers our Probe. Its messages are kept meanwhile, and take effect
// with the proof. So a round trip is enough.
//
// Not thread-safe.
#ifndef EOIB_CONTROL_PROTOCOL_ADDRESS_PROVER_H_
#define EOIB_CONTROL_PROTOCOL_ADDRESS_PROVER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "control/protocol/random_time.h"
#include "vswitch/base/address.h"
#include "vswitch/base/agent_id.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/token_bucket.h"
#include "vswitch/wire/vport_message.h"

namespace eoib {

class AddressProver {
 public:
  // The pauses after each Probe. After the last pause the prover drops the sender, whose next
  // message starts again. While the network loses 5 % of all copies, six Probes are enough for all
  // but one of a million senders.
  static constexpr std::array<absl::Duration, 7> kPauses = {
      absl::Milliseconds(100), absl::Milliseconds(200), absl::Milliseconds(200),
      absl::Milliseconds(400), absl::Milliseconds(400), absl::Milliseconds(800),
      absl::Milliseconds(800)};
  // Senders in all and at one port (GID). The oldest one gives way.
  static constexpr size_t kMost = 4096;
  static constexpr size_t kMostAtPort = 16;
  // Messages that are kept of a sender, and in all. The state of a sender that sent more is
  // requested later.
  static constexpr size_t kMostKept = 2;
  static constexpr size_t kMostKeptInAll = 2048;
  // Probes a second, and in a burst. A thousand agents may start together.
  static constexpr double kRate = 2000, kBurst = 4000;
  // Agents that hear one group message do not all probe its sender at the same moment: beyond
  // kAtOnce agents, the first Probe is delayed by a random time below kSpread for each further one.
  static constexpr size_t kAtOnce = 64;
  static constexpr absl::Duration kSpread = absl::Microseconds(50);

  struct Kept {
    VPortMessage message;
    bool by_group = false;
  };
  // Sends a Probe with this token.
  using Probe = std::function<void(const PeerAddress& peer, uint64_t token)>;

  // `clock` outlives the object.
  AddressProver(const Clock* clock, RandomBits random, Probe probe)
      : clock_(clock),
        random_(std::move(random)),
        probe_(std::move(probe)),
        budget_(kRate, kBurst, clock->Now()) {}

  // A message came from an address from which its sender has returned no token. Returns true if
  // this message has the token; then *earlier gets the messages that came before, and the sender is
  // dropped here. Else the sender is probed. `agents`: the number of agents that may have heard the
  // message.
  bool Hear(const VPortMessage& message, const PeerAddress& source, bool by_group, size_t agents,
            std::vector<Kept>* earlier);

  // Sends the Probes that are due.
  void Run();
  absl::Time NextDeadline() const {
    return due_.empty() ? absl::InfiniteFuture() : due_.begin()->first;
  }

 private:
  using Key = std::pair<PeerAddress, AgentId>;  // those of a port side by side
  struct Sender {
    uint64_t token = 0;
    size_t probes = 0;  // sent
    absl::Time probe_at;
    uint64_t order = 0;  // of its first message
    std::vector<Kept> kept;
  };

  std::map<Key, Sender>::iterator Add(const Key& key, absl::Time probe_at);
  void Drop(std::map<Key, Sender>::iterator sender);
  void MakeRoomAt(const Gid& gid);
  void Schedule(const Key& key, Sender* sender, absl::Time probe_at);

  const Clock* const clock_;
  const RandomBits random_;
  const Probe probe_;
  std::map<Key, Sender> senders_;
  std::set<std::pair<absl::Time, Key>> due_;
  std::map<uint64_t, Key> by_order_;
  uint64_t next_order_ = 0;
  size_t kept_ = 0;  // messages of all senders
  TokenBucket budget_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_ADDRESS_PROVER_H_
