// PartitionMember: what has a queue pair in a partition of an HCA port, as FabricPort sees it: a VES, an IPoIB interface.
//
// A queue pair is made for an index of the P_Key table and a GID. When one of them changes, or the queue pair is lost, the
// member is rebuilt in place, and what it knows of its peers stays. Without a P_Key it has no queue pair, and waits for the
// P_Key to come (back): a subnet manager may be slower to boot than this host.
//
// Control thread. Rebuild only while no worker runs.
#ifndef EOIB_CONTROL_PARTITION_MEMBER_H_
#define EOIB_CONTROL_PARTITION_MEMBER_H_

#include <infiniband/verbs.h>

#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "control/refresh_depth.h"
#include "fdb/address.h"
#include "vswitch/wire/notice.h"

namespace eoib {

class PartitionMember {
 public:
  virtual ~PartitionMember() = default;

  // Joins its groups.
  virtual void Start() = 0;
  // Leaves its groups; `done` is called when the SA knows or does not answer. No worker runs any more.
  virtual void Stop(std::function<void()> done) = 0;
  // Periodic work, at NextDeadline at the latest.
  virtual void Run() = 0;
  virtual absl::Time NextDeadline() const = 0;

  // What happened to the HCA port. Of a refresh this is the part that the worker need not stop for.
  virtual void Refresh(RefreshDepth depth) = 0;
  virtual void OnPortDown(absl::string_view why) = 0;
  // The subnet reports trap `trap` about `gid`.
  virtual void OnNotice(SmTrap trap, const Gid& gid) = 0;

  // If the event takes our queue pair away, NeedsRebuild says so from then on.
  virtual void NoteLoss(const ibv_async_event& event) = 0;
  // Whether the queue pair is lost, or is not the one for the P_Key table and GID that the port has now.
  virtual bool NeedsRebuild() const = 0;
  virtual bool has_queue_pair() const = 0;
  // Puts a queue pair in place that is, or takes it away if the port is not in the partition. An error leaves the member
  // without one, as well. Refresh(kHeavy) follows.
  virtual absl::Status Rebuild() = 0;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PARTITION_MEMBER_H_
