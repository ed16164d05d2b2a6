// Gateway: joins one VLAN of a VES and one IPoIB link into one IP subnet. This is the control half:
// it owns the link, saves the tables on disk and answers the operator. The data path is its
// GatewayPort, a vPort of the VES.
//
// Control thread.
#ifndef EOIB_GATEWAY_TRANSLATION_GATEWAY_H_
#define EOIB_GATEWAY_TRANSLATION_GATEWAY_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "control/subnet/fabric_port.h"
#include "control/ves/ves.h"
#include "control/vport/vport.h"
#include "gateway/link/link.h"
#include "gateway/translation/gateway_config.h"
#include "gateway/translation/gateway_port.h"
#include "gateway/translation/packet_trace.h"
#include "gateway/translation/table_file.h"
#include "vswitch/base/daemon/event_loop.h"

namespace eoib::gateway {

// A warning about a gateway without `peers`, for the log and the operator.
inline constexpr char kNoPeers[] =
    "without `peers`, any full member of the IPoIB link's partition can silence this gateway by a "
    "hello of a higher priority; list the GIDs of the pair's gateways in the configuration, peers "
    "= [\"GID\", ...], or write peers = [] if it is alone";

class Gateway;

// The registry of this process's gateways, in the order of the configuration.
class Gateways {
 public:
  void Add(Gateway* gateway) { all_.push_back(gateway); }
  void Remove(Gateway* gateway);
  const std::vector<Gateway*>& all() const { return all_; }
  // The gateway of that name, or all if `name` is empty. The error lists the existing ones.
  absl::StatusOr<std::vector<Gateway*>> Find(absl::string_view name) const;

 private:
  std::vector<Gateway*> all_;
};

class Gateway final : public VPortInterface, public std::enable_shared_from_this<Gateway> {
 public:
  // Outlives the gateway.
  struct Context {
    FabricPort* fabric;
    EventLoop* loop;
    const Clock* clock;
    std::string state_directory;
    Gateways* registry;
  };
  // Makes a gateway and its port. `vport` has a GatewayConfig as its details; `mtu` is the largest
  // IP packet that the VES carries. The vPort keeps the gateway alive.
  static absl::StatusOr<VPort> MakeVPort(const VPortConfig& vport, int mtu, const Context& context);
  ~Gateway() override;
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  const std::string& name() const { return config_.name; }

  // VPortInterface.
  absl::Status SetMtu(int mtu) override;
  absl::Status SetLink(bool up) override;
  void Adjust(const VPortConfig& vport) override;

  // Saves the tables a last time. Call it after the workers have stopped.
  void SaveAtTheEnd();

  // Text for the operator. kDeadlineExceeded if the worker has not answered by `deadline`, a time
  // of day.
  absl::StatusOr<Json> Show(absl::Time deadline);
  absl::StatusOr<Json> ShowNeighbors(absl::Time deadline);
  absl::StatusOr<Json> ShowRoutes(absl::Time deadline);
  // Forgets learned prefixes and routers, also in the file.
  absl::StatusOr<Json> FlushRoutes(absl::Time deadline);
  absl::StatusOr<Json> Stats(absl::Time deadline);
  absl::StatusOr<Json> Drops(absl::Time deadline);
  // Runs `read` on the worker, which has the counters, and waits for it until `deadline`, a time of
  // day.
  absl::Status ReadCounters(GatewayPort::Task read, absl::Time deadline) {
    return port_->PostAndWait(std::move(read), deadline);
  }
  Json Groups() const;
  // Says what the gateway would do with `packet`, without doing it.
  absl::StatusOr<Json> Trace(TracedPacket packet, absl::Time deadline);

 private:
  Gateway(const GatewayConfig& config, const Context& context);

  absl::Status OpenLink();
  absl::StatusOr<std::unique_ptr<GatewayPort>> MakePort(int mtu);
  GatewayPort::Options PortOptions() const;
  void WarnWithoutPeers() const;
  using CounterReader = absl::FunctionRef<Json(const GatewayPort::TaskContext&)>;
  absl::StatusOr<Json> Counters(absl::Time deadline, CounterReader counters);
  void SaveSoon();
  void FetchTables();
  void Save(const translation::SavedTables& tables);

  GatewayConfig config_;
  const Context context_;
  const std::string file_;  // of the tables
  std::unique_ptr<ipoib::Link> link_;
  // Owned by the vPort, which destroys it before the gateway.
  GatewayPort* port_ = nullptr;
  std::vector<translation::NeighborRow> rows_;  // the last ones for the operator
  absl::Time rows_at_ = absl::InfinitePast();
  bool save_failed_ = false;
  absl::Time saved_at_ = absl::InfinitePast();
  absl::Duration save_interval_;
  absl::Time save_at_ = absl::InfiniteFuture();
  EventLoop::TimerId timer_ = 0;
};

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_TRANSLATION_GATEWAY_H_
