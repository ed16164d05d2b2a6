// RefreshDepth: how much of its subnet state an agent refreshes after an event of its HCA port.
// Depths and events are those of ib_ipoib (drivers/infiniband/ulp/ipoib, __ipoib_ib_dev_flush).
#ifndef EOIB_CONTROL_SUBNET_REFRESH_DEPTH_H_
#define EOIB_CONTROL_SUBNET_REFRESH_DEPTH_H_

#include <infiniband/verbs.h>

#include <cstdint>

namespace eoib {

// Each depth includes the one before.
enum class RefreshDepth : uint8_t {
  kNone,
  // The subnet manager may have forgotten us. Join the groups, renew the subscriptions and query
  // the paths again. Everything in use stays in use; what the answers confirm continues without a
  // gap.
  kLight,
  // Our LID changed, or the link was down. Replace the group's address handle and attachment, reset
  // backoffs and failed answers, and announce the interfaces' MACs again.
  kNormal,
  // Our P_Key or GID changed, or a queue pair is lost. Look up P_Key index, membership and GID, and
  // replace the queue pairs of the VESes for which they changed.
  kHeavy,
};

const char* RefreshDepthName(RefreshDepth depth);
// For the log: "P_Key table change". The event must have a depth.
const char* EventName(ibv_event_type event);

// kNone for an event that does not concern the subnet, and for IBV_EVENT_DEVICE_FATAL, which leaves
// nothing to refresh.
RefreshDepth DepthOf(ibv_event_type event);

}  // namespace eoib

#endif  // EOIB_CONTROL_SUBNET_REFRESH_DEPTH_H_
