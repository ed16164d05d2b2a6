#include "control/subnet/subscriptions.h"

#include "absl/strings/str_cat.h"
#include "vswitch/base/daemon/log.h"

namespace eoib {

Subscriptions::Subscriptions(SaClient* sa, const Clock* clock) : sa_(sa), clock_(clock) {}

void Subscriptions::Renew() {
  backoff_.Reset();
  retry_at_ = clock_->Now();
  Run();
}

void Subscriptions::Run() {
  if (clock_->Now() < retry_at_) return;
  retry_at_ = absl::InfiniteFuture();
  subscribed_ = answered_ = 0;
  // Without the registration for reports, notices would go to the other program: do not subscribe.
  if (!sa_->ReceivesReports()) {
    const absl::Status taken = absl::UnavailableError("another program takes this port's reports");
    for (size_t i = 0; i < kTraps.size(); ++i) Answered(taken);
    return;
  }
  may_be_subscribed_ = true;
  for (size_t i = 0; i < kTraps.size(); ++i) {
    sa_->Subscribe(kTraps[i], requests_[i].Await([this](const absl::StatusOr<InformInfo>& answer) {
      Answered(answer.status());
    }));
  }
}

// Called once for each trap. Waits for all answers of a round before a retry, so that there is one
// retry and one log line.
void Subscriptions::Answered(const absl::Status& status) {
  ++answered_;
  subscribed_ += status.ok();
  if (!status.ok() && trouble_.empty()) {
    trouble_ = std::string(status.message());
    LogWarning(absl::StrCat(trouble_, "; retrying"));
  }
  if (complete()) trouble_.clear();
  if (answered_ < kTraps.size() || complete()) return;
  retry_at_ = clock_->Now() + backoff_.Pause();
}

void Subscriptions::End(std::function<void()> done) {
  for (RequestHandle& request : requests_) request.Cancel();
  retry_at_ = absl::InfiniteFuture();
  subscribed_ = 0;
  if (!may_be_subscribed_) return done();
  auto waiting = std::make_shared<size_t>(kTraps.size());
  for (SmTrap trap : kTraps) {
    sa_->Unsubscribe(trap, [waiting, done](absl::StatusOr<InformInfo>) {
      if (--*waiting == 0) done();
    });
  }
}

std::string Subscriptions::Show() const {
  if (complete()) return "subscribed";
  return absl::StrCat("not subscribed: ", trouble_.empty() ? "no answer yet" : trouble_);
}

}  // namespace eoib
