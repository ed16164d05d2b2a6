// FrameTrace: tells the operator what the switch would do with a frame from a vPort of this host
// (Forwarder::Decide). The frame is not sent; nothing is learned, and no counter changes.
#ifndef EOIB_CONTROL_OPERATOR_FRAME_TRACE_H_
#define EOIB_CONTROL_OPERATOR_FRAME_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "control/ves/ves.h"
#include "control/vport/vport.h"
#include "vswitch/base/daemon/answer.h"
#include "vswitch/base/drop_reason.h"
#include "vswitch/forwarder/forwarder.h"

namespace eoib {

class FrameTrace {
 public:
  // Traces `frame`, from its destination MAC on.
  FrameTrace(const Ves& ves, const VPort& from, std::vector<uint8_t> frame);

  // {"ves", "vport", "steps": ["..."], "result": "port", "fabric", "flood" or "drop",
  // "drop": the label of the reason}
  Json ToJson() const;
  static std::string ToText(const Json& trace);

 private:
  void TellHeaders();
  void TellVlan();
  void TellSource();
  void TellDestination();
  DropReason TellEgress();
  DropReason TellPeer();
  void TellFlood();

  const Ves& ves_;
  const VPort& from_;
  std::vector<uint8_t> frame_;
  const Forwarder::Verdict verdict_;
  std::vector<std::string> steps_;
  const char* result_ = "drop";
  DropReason reason_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_OPERATOR_FRAME_TRACE_H_
