#include "vswitch/worker_priority.h"

#include <sched.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace eoib {
namespace {

constexpr pid_t kCallingThread = 0;

bool SetPolicy(int policy) {
  sched_param parameters{};
  parameters.sched_priority = sched_get_priority_min(policy);
  return sched_setscheduler(kCallingThread, policy, &parameters) == 0;
}

}  // namespace

absl::Status WorkerPriority::Check() {
  if (sched_getscheduler(kCallingThread) != SCHED_OTHER) return absl::OkStatus();
  if (!SetPolicy(SCHED_RR)) {
    return absl::PermissionDeniedError(
        absl::StrCat("use a real-time priority: ", strerror(errno),
                     "; it takes CAP_SYS_NICE or RLIMIT_RTPRIO: see --realtime in eoibd(8)"));
  }
  SetPolicy(SCHED_OTHER);
  return absl::OkStatus();
}

void WorkerPriority::RunAhead(absl::Time now) {
  end_ = now + kLongest;
  if (runs_ahead_ || !may_ || now < rest_) return;
  may_ = sched_getscheduler(kCallingThread) == SCHED_OTHER && SetPolicy(SCHED_RR);
  runs_ahead_ = may_;
}

void WorkerPriority::RunAsPrograms() {
  if (!runs_ahead_) return;
  SetPolicy(SCHED_OTHER);
  runs_ahead_ = false;
}

void WorkerPriority::Expire(absl::Time now) {
  if (!runs_ahead_ || now < end_) return;
  rest_ = now + kRest;
  RunAsPrograms();
}

}  // namespace eoib
