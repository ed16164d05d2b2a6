// Daemon: what our daemons are around what they do: a control thread with its event loop, signals, the control socket, an
// orderly end.
//
// Control thread.
#ifndef EOIB_CONTROL_DAEMON_H_
#define EOIB_CONTROL_DAEMON_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "control/command_registry.h"
#include "control/command_server.h"
#include "control/event_loop.h"
#include "control/log.h"
#include "fdb/clock.h"
#include "vswitch/fabric/unique_fd.h"

namespace eoib {

class Daemon {
 public:
  // Stops what runs, and calls `done` when that has ended.
  using Stopper = std::function<void(std::function<void()> done)>;

  // Takes signals and listens on the control socket, which answers as soon as the loop runs. Before any thread starts. A
  // predecessor that serves the socket has kPredecessorPatience to end.
  static absl::StatusOr<std::unique_ptr<Daemon>> Open(const std::string& socket_path);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  EventLoop* loop() { return &loop_; }
  CommandRegistry* commands() { return &commands_; }
  const Clock* clock() const { return &clock_; }
  int signals() const { return signals_.get(); }
  const std::string& socket_path() const { return server_->path(); }

  // What SIGTERM, SIGINT and the command "exit" have to stop first; nothing until this is called. It has a second for it.
  void SetStopper(Stopper stopper) { stopper_ = std::move(stopper); }
  // Until the end was asked for. Then, as long as this object lives, the control socket says that the program is stopping.
  void Run();

 private:
  Daemon() : loop_(&clock_) {}

  void Stop();
  absl::Status WatchSignals();
  void IgnoreHangups();

  MonotonicClock clock_;
  EventLoop loop_;
  CommandRegistry commands_;
  UniqueFd signals_;
  UniqueFd hangups_;
  LogLimiter hangup_lines_{&clock_, 1, absl::Seconds(10)};
  std::unique_ptr<CommandServer> server_;
  Stopper stopper_;
  bool stopping_ = false;
};

// Waits for a program that is there and does not answer, until a signal tells this one to end: `signals` is readable then. Says
// so in the log after a second, and every ten seconds.
class Patience {
 public:
  explicit Patience(int signals) : signals_(signals) {}
  // Whether to go on waiting, `waited` so far.
  bool operator()(const std::string& what, absl::Duration waited);

 private:
  const int signals_;
  absl::Duration next_line_ = absl::Seconds(1);
};

// Starts the program anew, as after a crash: its successor takes over interfaces, MACs and LID, and the others follow its new
// queue pairs. It waits for the device, which may be gone for as long as somebody takes to load another driver.
class FreshStart {
 public:
  // As main got them; `wait_flag` is added for the successor: "--wait_for_hca".
  FreshStart(int argc, char** argv, const char* wait_flag);
  [[noreturn]] void operator()(const std::string& why);

 private:
  std::vector<std::string> arguments_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_DAEMON_H_
