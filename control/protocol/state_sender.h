// StateSender: sends our state, or the changes that an agent missed, to the agents that request it.
//
// An agent that knows a version that is in our log gets the changes since then; else it gets the
// whole state, or the ranges that it lacks, in parts (state_parts.h). The messages are paced for
// each port and by the room in our send queue, and the ports take turns, so one that requests much
// takes no time from the others.
//
// Not thread-safe.
#ifndef EOIB_CONTROL_PROTOCOL_STATE_SENDER_H_
#define EOIB_CONTROL_PROTOCOL_STATE_SENDER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "control/protocol/own_agent.h"
#include "control/protocol/protocol_events.h"
#include "vswitch/base/address.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/token_bucket.h"
#include "vswitch/wire/vport_message.h"

namespace eoib {

class StateSender {
 public:
  // Messages a second to one port, and in a burst. A receiver admits more
  // (vswitch/forwarder/message_admission.h).
  static constexpr double kRate = 120, kBurst = 32;
  // Requests of one port that are being answered. The oldest gives way.
  static constexpr size_t kMostAtPort = 16;
  // Ports that are served at a time.
  static constexpr size_t kMostPorts = 4096;
  // This room in the send queue is left for other messages.
  static constexpr size_t kRoomLeft = 16;
  // When the send queue is full, look again after this time.
  static constexpr absl::Duration kPause = absl::Milliseconds(1);

  // Sends a message to one agent.
  using Send = std::function<void(const PeerAddress& peer, const VPortMessage& message)>;

  // The pointers outlive the object.
  StateSender(const OwnAgent* own, ProtocolEvents* events, const Clock* clock, Send send)
      : own_(own), events_(events), clock_(clock), send_(std::move(send)) {}

  // Answers a request for state from `asker`, instead of an earlier one from there. `group_heard`:
  // see VPortMessage.
  void Answer(const VPortMessage& request, const PeerAddress& asker, uint32_t group_heard);

  // Sends what is due.
  void Run();
  absl::Time NextDeadline() const;

 private:
  struct Transfer {
    PeerAddress asker;
    uint64_t token = 0;
    uint32_t group_heard = 0;
    // The asker's version: send the changes that follow it; none: send the ranges.
    absl::optional<uint32_t> known;
    std::vector<StateRange> ranges;  // still to send, the next one last
  };
  struct Port {
    TokenBucket budget;
    std::deque<Transfer> transfers;
    absl::Time idle_since;
  };

  bool SendNext(Transfer* transfer);
  bool SendChange(Transfer* transfer);
  bool SendPart(Transfer* transfer);
  bool Serve(Port* port);

  const OwnAgent* const own_;
  ProtocolEvents* const events_;
  const Clock* const clock_;
  const Send send_;
  std::map<Gid, Port> ports_;
  Gid next_;  // the port whose turn it is
  absl::Time pause_until_ = absl::InfinitePast();
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_STATE_SENDER_H_
