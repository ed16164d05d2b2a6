// FabricPortClient: a user of an HCA port with a queue pair in one partition: a VES or an IPoIB
// link. FabricPort drives it.
//
// A queue pair is bound to an index in the P_Key table and to a GID. When one of them changes, or
// the queue pair is lost, FabricPort rebuilds the client in place. A client whose P_Key is not in
// the table has no queue pair and waits.
//
// Control thread. Rebuild only while no worker runs.
#ifndef EOIB_CONTROL_SUBNET_FABRIC_PORT_CLIENT_H_
#define EOIB_CONTROL_SUBNET_FABRIC_PORT_CLIENT_H_

#include <infiniband/verbs.h>

#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "control/subnet/refresh_depth.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ib/notice.h"

namespace eoib {

class FabricPortClient {
 public:
  virtual ~FabricPortClient() = default;

  // Joins its groups.
  virtual void Start() = 0;
  // Leaves its groups. Calls `done` when the SA has answered or given up. The worker has stopped
  // before.
  virtual void Stop(std::function<void()> done) = 0;
  // Periodic work; call it when NextDeadline has come.
  virtual void Run() = 0;
  virtual absl::Time NextDeadline() const = 0;

  // An event of the HCA port. Refresh runs beside the worker; Rebuild is the part for which the
  // worker pauses.
  virtual void Refresh(RefreshDepth depth) = 0;
  virtual void OnPortDown(absl::string_view why) = 0;
  // The subnet sent trap `trap` about `gid`.
  virtual void OnNotice(SmTrap trap, const Gid& gid) = 0;

  // If the event says that our queue pair is lost, NeedsRebuild is true from then on.
  virtual void NoteLoss(const ibv_async_event& event) = 0;
  // Whether the queue pair is lost, or does not match the port's present P_Key table and GID.
  virtual bool NeedsRebuild() const = 0;
  virtual bool has_queue_pair() const = 0;
  // Makes a queue pair that matches. If the port is not in the partition, or after an error, the
  // client has none. Refresh(kHeavy) follows.
  virtual absl::Status Rebuild() = 0;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_SUBNET_FABRIC_PORT_CLIENT_H_
