// CutPart, StateAssembly: the state of an agent in parts, as its owner cuts them and a receiver
// puts them together.
//
// A state of 65,536 MACs takes some 600 messages, and goes on changing while they are sent. So each
// part is cut from the present state when its turn comes, covers a range of positions, and says the
// version that it was cut at. The assembled state has the version of the earliest part, with some
// later changes in it. A change sets or removes whole elements, so it may be applied twice: the
// receiver requests all changes since that version, and has the present state after them.
#ifndef EOIB_CONTROL_PROTOCOL_STATE_PARTS_H_
#define EOIB_CONTROL_PROTOCOL_STATE_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "control/protocol/agent_view.h"
#include "vswitch/wire/vport_message.h"

namespace eoib {

// Returns `header` with the state of `view` in a range that begins with `wanted` and ends with it,
// or where a message of `largest` bytes is full. Requires room for the agent's own position and for
// a vPort's longest TLV.
VPortMessage CutPart(const AgentView& view, StateRange wanted, VPortMessage header, size_t largest);

// Not thread-safe.
class StateAssembly {
 public:
  // A part that would leave more gaps than this is refused. Parts come nearly in order.
  static constexpr size_t kMaxGaps = 1024;

  // Takes a part. False if it brings nothing new, if it has an element outside its range or a
  // removal, or if it would leave too many gaps.
  bool Take(const VPortMessage& part);
  bool IsComplete() const { return Missing(1).empty(); }
  // The first `most` ranges that are missing.
  std::vector<StateRange> Missing(size_t most) const;
  // Whether no part was taken yet.
  bool empty() const { return covered_.empty(); }
  size_t bytes() const { return view_.bytes() + covered_.size() * 48; }

  // Returns the state, of the version of its earliest part, and is empty then.
  AgentView Release();

 private:
  AgentView view_;
  uint32_t version_ = 0;  // of the earliest part
  // Ranges: the first and the last position; they neither overlap nor adjoin.
  std::map<uint64_t, uint64_t> covered_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_STATE_PARTS_H_
