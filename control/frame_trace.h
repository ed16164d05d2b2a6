// FrameTrace: what the switch would do with a frame from a vPort of this host, without sending it. It follows the stages of
// Forwarder::ForwardFromPort, learns nothing and changes no counter.
#ifndef EOIB_CONTROL_FRAME_TRACE_H_
#define EOIB_CONTROL_FRAME_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "control/daemon/answer.h"
#include "control/ves.h"
#include "control/vport.h"
#include "fdb/fdb_key.h"
#include "vswitch/base/drop_reason.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {

class FrameTrace {
 public:
  // Traces `frame`, from its destination MAC on.
  FrameTrace(const Ves& ves, const VPort& from, absl::Span<const uint8_t> frame);

  // {"ves", "vport", "steps": ["..."], "result": "port", "fabric", "flood" or "drop", "drop": the label of the reason}
  Json ToJson() const;
  static std::string ToText(const Json& trace);

 private:
  DropReason Admit(absl::Span<const uint8_t> frame);
  DropReason Classify(absl::Span<const uint8_t> frame);
  DropReason CheckSource();
  DropReason CheckSize(size_t length);
  DropReason Resolve();
  DropReason ResolveLocal(uint32_t port);
  DropReason ResolveRemote(VPortId peer);
  DropReason Flood();
  bool IsLimitedMember() const;
  std::vector<std::string> FloodTargets() const;

  const Ves& ves_;
  const VPort& from_;
  EthernetInfo ethernet_;
  Vid vid_;
  std::vector<std::string> steps_;
  const char* result_ = "drop";
  DropReason reason_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_FRAME_TRACE_H_
