// RefreshDepth: how much of what an agent knows of its subnet is void after an event of its HCA port. Depths and their events
// are those of ib_ipoib (drivers/infiniband/ulp/ipoib, __ipoib_ib_dev_flush).
#ifndef EOIB_CONTROL_REFRESH_DEPTH_H_
#define EOIB_CONTROL_REFRESH_DEPTH_H_

#include <infiniband/verbs.h>

#include <cstdint>

namespace eoib {

// Each includes the one before.
enum class RefreshDepth : uint8_t {
  kNone,
  // The subnet manager may have forgotten us. Nothing that is in use is thrown away: groups are joined, subscriptions made and
  // paths asked for again, and what the answers confirm stays without a gap.
  kLight,
  // Our address changed, or the link was away. The group's address handle and attachment are made anew, backoffs and failed
  // answers forgotten, and interfaces announce their MACs again.
  kNormal,
  // Our identity changed, or a queue pair is lost. P_Key index, membership and GID are looked up, and the queue pairs of those
  // VESes for which they differ are made anew.
  kHeavy,
};

const char* RefreshDepthName(RefreshDepth depth);
// For a log: "P_Key change". Requires an event with a depth.
const char* EventName(ibv_event_type event);

// kNone for an event that has nothing to do with the subnet, and for IBV_EVENT_DEVICE_FATAL, after which there is nothing left
// to refresh.
RefreshDepth DepthOf(ibv_event_type event);

}  // namespace eoib

#endif  // EOIB_CONTROL_REFRESH_DEPTH_H_
