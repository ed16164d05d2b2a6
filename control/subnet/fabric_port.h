// FabricPort: one HCA port, and what its clients (VESes, IPoIB links) share: a protection domain,
// address handles, the SA client, subscriptions. It receives the events of the port and the subnet,
// and tells the clients how deeply to refresh (refresh_depth.h).
//
// Threads: the control thread, which runs the EventLoop. Workers are outside; FabricPort pauses
// them through a WorkerControl while it replaces queue pairs.
//
// Ownership: FabricPort owns the HCA and all Resources but the clock; the clients are their
// makers', who remove them before they are destroyed. A client must not add or remove clients
// inside of a call that it gets. FabricPort rebuilds a client only while the workers are paused.
#ifndef EOIB_CONTROL_SUBNET_FABRIC_PORT_H_
#define EOIB_CONTROL_SUBNET_FABRIC_PORT_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/subnet/fabric_port_client.h"
#include "control/subnet/refresh_depth.h"
#include "control/subnet/subscriptions.h"
#include "vswitch/base/daemon/event_loop.h"
#include "vswitch/fabric/address_handles.h"
#include "vswitch/fabric/handle_maker.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/fabric/sa_client.h"

namespace eoib {

class FabricPort {
 public:
  // FabricPort owns all but the clock.
  struct Resources {
    Hca* hca = nullptr;
    ibv_pd* pd = nullptr;
    AddressHandles* handles = nullptr;
    SaClient* sa = nullptr;        // null on an Ethernet link layer
    HandleMaker* maker = nullptr;  // null on InfiniBand
    const Clock* clock = nullptr;
  };
  // Pauses the data path. The default is for programs whose data path runs on the control thread.
  struct WorkerControl {
    std::function<void()> pause = [] {};
    // Called while paused: `client` has a new queue pair, or none.
    std::function<absl::Status(FabricPortClient* client)> rebuilt = [](FabricPortClient*) {
      return absl::OkStatus();
    };
    std::function<void()> resume = [] {};
  };

  // `loop` and `clock` outlive the object.
  static absl::StatusOr<std::unique_ptr<FabricPort>> Open(std::unique_ptr<Hca> hca, EventLoop* loop,
                                                          const Clock* clock);
  // The clients have been destroyed before.
  ~FabricPort();
  FabricPort(const FabricPort&) = delete;
  FabricPort& operator=(const FabricPort&) = delete;

  const Resources& resources() const { return resources_; }

  // Events and stops go to the clients in the order in which they were added. A client that comes
  // after Start is started.
  void Add(FabricPortClient* client);
  void Remove(FabricPortClient* client);
  bool Has(const FabricPortClient* client) const;
  void SetWorker(WorkerControl worker) { worker_ = std::move(worker); }
  // The loop calls `on_fatal` once when the HCA is lost; only a restart of the program helps. Call
  // before Start.
  void OnFatal(std::function<void(const std::string& why)> on_fatal) {
    on_fatal_ = std::move(on_fatal);
  }

  // The clients join their groups.
  void Start();
  // The clients leave their groups. The loop calls `done` when the SA has answered or given up.
  void Stop(std::function<void()> done);

  // A client found that its queue pair is lost. Rebuilds it soon, at most once a second.
  void RebuildSoon();

  // Why the HCA is lost; empty: it is not.
  const std::string& lost() const { return lost_; }
  const Subscriptions* subscriptions() const { return subscriptions_.get(); }  // null without an SA

 private:
  FabricPort(std::unique_ptr<Hca> hca, EventLoop* loop, const Clock* clock);

  absl::Status AllocateShared();
  absl::Status WatchDescriptors();
  absl::Time NextOfClients() const;
  void RunClients();
  void RunAsyncEvents();
  void LoseHca(const std::string& why);
  void RetryRebuild();
  void WaitForPKeys();
  RefreshDepth Note(const ibv_async_event& event);
  void Refresh(RefreshDepth depth);
  void RebuildClients();
  void OnNotice(const Notice& notice);
  EventLoop* const loop_;
  const Clock* const clock_;
  std::unique_ptr<Hca> hca_;
  ibv_pd* pd_ = nullptr;
  std::unique_ptr<AddressHandles> handles_;
  std::unique_ptr<HandleMaker> maker_;            // null on InfiniBand
  std::unique_ptr<SaClient> sa_;                  // null without an SA
  std::unique_ptr<Subscriptions> subscriptions_;  // null without an SA
  Resources resources_;
  WorkerControl worker_;
  std::vector<FabricPortClient*> clients_;
  bool running_ = false;  // between Start and Stop
  // A rebuild failed, or a client waits for its P_Key.
  absl::Time rebuild_again_at_ = absl::InfiniteFuture();
  absl::Time rebuilt_at_ = absl::InfinitePast();
  std::string lost_;  // why the HCA is lost; empty: it is not
  std::vector<int> watched_;
  std::function<void(const std::string&)> on_fatal_ = [](const std::string&) {};
  std::vector<EventLoop::TimerId> timers_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_SUBNET_FABRIC_PORT_H_
