// ServiceManager: tells systemd, if that started this process as a service of Type=notify, when the
// process is ready, what it does, and that it makes progress (sd_notify(3),
// sd_watchdog_enabled(3)). Otherwise nothing is sent.
//
// One thread, the loop's.
#ifndef EOIB_VSWITCH_BASE_DAEMON_SERVICE_MANAGER_H_
#define EOIB_VSWITCH_BASE_DAEMON_SERVICE_MANAGER_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "vswitch/base/daemon/event_loop.h"

namespace eoib {

class ServiceManager {
 public:
  // The loop outlives it.
  explicit ServiceManager(EventLoop* loop);
  ~ServiceManager() { loop_->Cancel(timer_); }
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;

  // The process works, or waits for something that only an operator can mend. From here on the
  // status line is sent, and signs of life for the watchdog. May be called again.
  void Ready();
  // The process ends.
  void Stopping();

  // Each second asks for the status line that `systemctl status` shows, and sends it if it has
  // changed.
  void SetStatus(std::function<std::string()> status);
  // Asked before each sign of life, three times in WatchdogSec: whether the other threads have made
  // progress since the last time. Without progress no sign of life is sent, and the service manager
  // restarts the process.
  void SetProgressCheck(std::function<bool()> makes_progress);

  // For a process that is about to execute itself: it stays the same service.
  static void Restarting(absl::string_view why);

 private:
  void Run();
  void SendStatus();
  void SendSignOfLife();

  EventLoop* const loop_;
  // After this time without a sign of life the service manager restarts the process.
  absl::Duration watchdog_;
  absl::Time next_status_ = absl::InfiniteFuture(), next_sign_ = absl::InfiniteFuture();
  std::function<std::string()> status_;
  std::function<bool()> makes_progress_;
  std::string sent_status_;
  bool stalled_ = false;  // the last check found no progress
  EventLoop::TimerId timer_ = 0;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_DAEMON_SERVICE_MANAGER_H_
