#include "control/agent_wait.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/daemon/log.h"

namespace eoib {
namespace {

constexpr absl::Duration kTryAgain = absl::Seconds(1);
constexpr absl::Duration kSayAgain = absl::Minutes(1);

// A wrong name, a missing right or a stop request does not go away by waiting.
bool WaitingHeals(const absl::Status& status) {
  return !absl::IsInvalidArgument(status) && !absl::IsFailedPrecondition(status) && !absl::IsCancelled(status);
}

class Waiting {
 public:
  Waiting(const AgentMaker& make, EventLoop* loop, const Clock* clock) : make_(make), loop_(loop), clock_(clock) {}

  // Tries once. True if there is nothing to wait for: it made an agent, or failed with an error that does not heal.
  bool Try() {
    agent_ = make_();
    if (agent_.ok() || !WaitingHeals(agent_.status())) return true;
    Say();
    try_at_ = clock_->Now() + kTryAgain;
    return false;
  }
  absl::StatusOr<std::unique_ptr<Agent>> Run() {
    if (Try()) return std::move(agent_);
    bool done = false;
    const EventLoop::TimerId timer = loop_->AddDeadline([this] { return try_at_; },
                                                        [this, &done] {
                                                          done = Try();
                                                          if (done) loop_->Stop();
                                                        });
    loop_->Run();
    loop_->Cancel(timer);
    if (done) return std::move(agent_);
    return absl::CancelledError("asked to stop while it waited for its HCA");
  }
  std::string Show() const { return absl::StrCat("waiting for the HCA: ", said_, "\n"); }

 private:
  // Logs when the reason changes, and once a minute while it stays the same.
  void Say() {
    const absl::string_view why = agent_.status().message();
    if (why == said_ && clock_->Now() < say_at_) return;
    LogWarning(absl::StrCat(why, "; waiting for it"));
    said_ = std::string(why);
    say_at_ = clock_->Now() + kSayAgain;
  }

  const AgentMaker& make_;
  EventLoop* const loop_;
  const Clock* const clock_;
  absl::StatusOr<std::unique_ptr<Agent>> agent_ = absl::UnknownError("not tried yet");
  std::string said_;
  absl::Time say_at_ = absl::InfinitePast();
  absl::Time try_at_ = absl::InfiniteFuture();
};

}  // namespace

absl::StatusOr<std::unique_ptr<Agent>> AwaitAgent(const AgentMaker& make, CommandRegistry* commands, EventLoop* loop,
                                                  const Clock* clock) {
  Waiting waiting(make, loop, clock);
  commands->Register({"show", "", "what this agent waits for", 0, 0,
                      [&waiting](const CommandRegistry::Arguments&) -> absl::StatusOr<std::string> { return waiting.Show(); }});
  absl::StatusOr<std::unique_ptr<Agent>> agent = waiting.Run();
  commands->Unregister("show");
  return agent;
}

}  // namespace eoib
