// The costs of a hostile member's messages for the control thread of another agent.
//
// A member with a true port announces the largest state that it may, then sends one kind of message
// at the highest rate that the worker admits, and answers Probes. The agent is a VesProtocol with
// its FDB and directory; the clock is a fake one. After each message the protocol runs while work
// is due, as the event loop lets it. Costs are processor time of the calling thread.
#ifndef EOIB_CONTROL_VES_MESSAGE_COSTS_FOR_TEST_H_
#define EOIB_CONTROL_VES_MESSAGE_COSTS_FOR_TEST_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "control/protocol/agent_view.h"

namespace eoib {

class CostMeter;

// A kind of message, and how a member sends it.
struct CostlyKind {
  const char* name;  // "withdraw_vport"
  void (*send)(CostMeter* meter);
  bool replicates = false;       // the VES floods without a group
  bool agent_has_macs = false;   // from the start
  bool member_has_macs = false;  // the member has announced all MACs before
  // By the tokens of its messages; else the agent itself limits the work in time.
  bool is_paid = true;
};

struct MessageCost {
  size_t messages = 0;
  int64_t tokens = 0;    // that the worker takes for them (MessageAdmission)
  absl::Duration total;  // of all messages, and of the work that follows them
  // The longest slice. A slice handles a received message, or runs the work that is due once.
  absl::Duration largest;
  size_t slices = 0;
  absl::Duration mean() const {
    return messages == 0 ? absl::ZeroDuration() : total / static_cast<int64_t>(messages);
  }
  absl::Duration of_token() const { return tokens == 0 ? absl::ZeroDuration() : total / tokens; }
};

// All kinds. The first one is a Probe, the cheapest.
absl::Span<const CostlyKind> CostlyKinds();

// `macs`: how many MACs the state has; the largest one by default.
MessageCost Measure(const CostlyKind& kind, size_t macs = AgentView::kMaxMacs);

}  // namespace eoib

#endif  // EOIB_CONTROL_VES_MESSAGE_COSTS_FOR_TEST_H_
