#include "vswitch/base/daemon/service_manager.h"

#include <systemd/sd-daemon.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "vswitch/base/daemon/log.h"

namespace eoib {
namespace {

constexpr absl::Duration kStatusInterval = absl::Seconds(1);
constexpr int kSignsInATimeout = 3;

bool HasServiceManager() { return std::getenv("NOTIFY_SOCKET") != nullptr; }

// Keeps the environment, because a process that executes itself (RestartProcess) notifies again. A
// service manager that does not listen is no reason to stop.
void Notify(const std::string& state) { (void)sd_notify(/*unset_environment=*/0, state.c_str()); }

// A line break would begin another assignment.
void NotifyStatus(absl::string_view status) {
  Notify(absl::StrCat("STATUS=", absl::StrReplaceAll(status, {{"\n", "; "}})));
}

}  // namespace

ServiceManager::ServiceManager(EventLoop* loop) : loop_(loop) {
  if (!HasServiceManager()) return;
  uint64_t microseconds = 0;
  if (sd_watchdog_enabled(/*unset_environment=*/0, &microseconds) > 0)
    watchdog_ = absl::Microseconds(microseconds);
  timer_ =
      loop_->AddDeadline([this] { return std::min(next_status_, next_sign_); }, [this] { Run(); });
}

void ServiceManager::Ready() {
  if (!HasServiceManager()) return;
  Notify("READY=1");
  next_status_ = loop_->Now();
  if (watchdog_ > absl::ZeroDuration()) next_sign_ = loop_->Now();
}

void ServiceManager::Stopping() {
  if (!HasServiceManager()) return;
  Notify("STOPPING=1");
  next_status_ = next_sign_ = absl::InfiniteFuture();
}

void ServiceManager::SetStatus(std::function<std::string()> status) { status_ = std::move(status); }

void ServiceManager::SetProgressCheck(std::function<bool()> makes_progress) {
  makes_progress_ = std::move(makes_progress);
}

void ServiceManager::Restarting(absl::string_view why) {
  NotifyStatus(absl::StrCat("restarting: ", why));
}

void ServiceManager::Run() {
  const absl::Time now = loop_->Now();
  if (now >= next_status_) {
    next_status_ = now + kStatusInterval;
    SendStatus();
  }
  if (now >= next_sign_) {
    next_sign_ = now + watchdog_ / kSignsInATimeout;
    SendSignOfLife();
  }
}

void ServiceManager::SendStatus() {
  if (status_ == nullptr) return;
  std::string status = status_();
  if (status == sent_status_) return;
  NotifyStatus(status);
  sent_status_ = std::move(status);
}

void ServiceManager::SendSignOfLife() {
  const bool was_stalled =
      std::exchange(stalled_, makes_progress_ != nullptr && !makes_progress_());
  if (!stalled_) return Notify("WATCHDOG=1");
  if (was_stalled) return;
  LogWarning(absl::StrCat(
      "a thread makes no progress; if that lasts, the service manager restarts this program ",
      absl::FormatDuration(watchdog_), " after its last sign of life"));
}

}  // namespace eoib
