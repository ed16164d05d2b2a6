// WorkerPause: stops the worker while control changes what it works with. A long change is made in
// steps, between which the worker handles what has come meanwhile, so that no queue of an interface
// or queue pair overflows.
#ifndef EOIB_CONTROL_VES_WORKER_PAUSE_H_
#define EOIB_CONTROL_VES_WORKER_PAUSE_H_

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "vswitch/base/clock.h"
#include "vswitch/data_path.h"

namespace eoib {

// Control thread.
class WorkerPause {
 public:
  // A step may begin until then; after it the worker runs.
  static constexpr absl::Duration kStep = absl::Milliseconds(1);
  // How long the worker may take for what has come in a pause. At less than its capacity it is done
  // sooner.
  static constexpr absl::Duration kCatchUp = absl::Milliseconds(50);

  // From now until End or destruction. `worker` is null if none runs; it outlives the object.
  explicit WorkerPause(DataPath* worker) : worker_(worker) { Begin(absl::ZeroDuration()); }
  ~WorkerPause() { End(); }
  WorkerPause(const WorkerPause&) = delete;
  WorkerPause& operator=(const WorkerPause&) = delete;

  // Between two steps of a change, at a moment when all that the worker knows is valid: lets it run
  // if the pause was long.
  void BetweenSteps() {
    if (worker_ == nullptr || clock_.Now() < since_ + kStep) return;
    Resume();
    Begin(kCatchUp);
  }
  void End() {
    if (worker_ != nullptr) Resume();
    worker_ = nullptr;
  }
  // After End, for the log.
  std::string ToString() const {
    return absl::StrCat("the worker paused ", pauses_,
                        pauses_ == 1 ? " time, " : " times, at most ",
                        absl::FormatDuration(longest_));
  }

 private:
  void Begin(absl::Duration catch_up) {
    if (worker_ != nullptr) worker_->Stop(catch_up);
    since_ = clock_.Now();
  }
  void Resume() {
    worker_->Start();
    longest_ = std::max(longest_, clock_.Now() - since_);
    ++pauses_;
  }

  DataPath* worker_;
  const MonotonicClock clock_;
  absl::Time since_;
  absl::Duration longest_;
  int pauses_ = 0;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_VES_WORKER_PAUSE_H_
