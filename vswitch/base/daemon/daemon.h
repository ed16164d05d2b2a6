// Daemon: what each of our daemons needs on its control thread: event loop, signals, control socket
// and orderly stop.
//
// All calls come from the control thread.
#ifndef EOIB_VSWITCH_BASE_DAEMON_DAEMON_H_
#define EOIB_VSWITCH_BASE_DAEMON_DAEMON_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/daemon/command_registry.h"
#include "vswitch/base/daemon/command_server.h"
#include "vswitch/base/daemon/event_loop.h"
#include "vswitch/base/daemon/log.h"
#include "vswitch/base/daemon/metric_set.h"
#include "vswitch/base/daemon/metrics_server.h"
#include "vswitch/base/daemon/service_manager.h"
#include "vswitch/base/unique_fd.h"

namespace eoib {

class Daemon {
 public:
  // Stops the program's work, and calls `done` when it has stopped.
  using Stopper = std::function<void(std::function<void()> done)>;

  // Serves the commands on `socket_path`, and the read-only ones also on
  // ReadOnlySocketOf(socket_path), which must not be another program's name; makes the socket files
  // again within a second if they are removed. Blocks SIGTERM, SIGINT and SIGHUP, and listens on
  // the control socket, which answers once the loop runs. Call before any thread starts, so that
  // all threads inherit the signal mask. Waits for a predecessor that still serves the socket
  // (predecessor.h).
  static absl::StatusOr<std::unique_ptr<Daemon>> Open(const std::string& socket_path);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  EventLoop* loop() { return &loop_; }
  CommandRegistry* commands() { return &commands_; }
  // Starts with the program's version. Collectors run while Run does.
  MetricRegistry* metrics() { return &metrics_; }
  const Clock* clock() const { return &clock_; }
  ServiceManager* service_manager() { return &service_manager_; }
  // Readable once SIGTERM or SIGINT has arrived.
  int signals() const { return signals_.get(); }
  const std::string& socket_path() const { return server_->path(); }

  // SIGTERM, SIGINT and the command "exit" call `stopper` and wait up to a second for it. Without
  // one they stop the loop at once.
  void SetStopper(Stopper stopper) { stopper_ = std::move(stopper); }
  // SIGHUP calls `reload`. Without one it is logged and has no effect.
  void SetReloader(std::function<void()> reload) { reload_ = std::move(reload); }
  // Serves metrics() on `where` (MetricsServer::Listen). Does nothing if `where` is empty. An
  // address that cannot be used now is logged and tried again every second, because traffic must
  // not depend on it; kInvalidArgument if it is no address.
  absl::Status ServeMetrics(const std::string& where);
  // Reports that the program is ready, and runs the loop until it is told to stop. After that the
  // control socket answers "... is stopping", until this object is destroyed.
  void Run();

  // A function to call repeatedly while start-up waits for another program. `what` is the reason
  // for the log, `waited` the time so far. It logs after a second and then every ten seconds, and
  // returns false once SIGTERM or SIGINT has arrived.
  std::function<bool(const std::string& what, absl::Duration waited)> WaitUnlessSignaled();

 private:
  Daemon() : loop_(&clock_) {}

  void Stop(const std::string& why);
  absl::Status Serve(const std::string& socket_path);
  absl::Status WatchSignals();
  absl::StatusOr<std::unique_ptr<MetricsServer>> ListenForMetrics(const std::string& where);
  absl::Status TakeMetricsServer(absl::StatusOr<std::unique_ptr<MetricsServer>> server);
  void RestoreSockets();
  void RetryMetrics(const std::string& where, absl::optional<absl::Time> expected);
  void RunHangups();
  void IgnoreSignals();

  MonotonicClock clock_;
  EventLoop loop_;
  ServiceManager service_manager_{&loop_};
  CommandRegistry commands_;
  MetricRegistry metrics_;
  UniqueFd signals_;
  UniqueFd hangups_;
  UniqueFd ignored_;  // signals that would end the process, and mean nothing here
  LogLimiter ignored_log_{&clock_, 1, absl::Seconds(10)};
  LogLimiter waiting_log_{&clock_, 1, absl::Seconds(10)};
  LogLimiter sockets_log_{&clock_, 2, absl::Seconds(10)};
  std::unique_ptr<CommandServer> server_, read_only_server_;
  std::unique_ptr<MetricsServer> metrics_server_;
  Stopper stopper_;
  std::function<void()> reload_;
  bool stopping_ = false;
};

// Restarts the program by executing itself, with --wait_for_hca added, as after a crash: the new
// image takes over interfaces, MACs and LID, and the peers follow its new queue pairs. It waits for
// the device, whose driver may be reloaded.
[[noreturn]] void RestartProcess(const std::string& why);

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_DAEMON_DAEMON_H_
