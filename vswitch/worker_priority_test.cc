#include "vswitch/worker_priority.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace eoib {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'000);

int Policy() { return sched_getscheduler(0); }

// Runs `test` in a process of its own, which may be damaged. It returns the number of the first
// failed line, or 0.
int InAChild(int (*test)()) {
  const pid_t child = fork();
  if (child == 0) _exit(test());
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define LINE_UNLESS(condition) \
  if (!(condition)) return __LINE__

TEST(WorkerPriorityTest, RunsAheadAndBack) {
  ASSERT_TRUE(WorkerPriority::Check().ok()) << "this test needs CAP_SYS_NICE";
  EXPECT_EQ(Policy(), SCHED_OTHER) << "the check leaves no trace";
  WorkerPriority priority;
  for (int i = 0; i < 2; ++i) {
    priority.RunAhead(kNow);
    EXPECT_TRUE(priority.runs_ahead());
    EXPECT_EQ(Policy(), SCHED_RR);
    priority.RunAsPrograms();
    EXPECT_FALSE(priority.runs_ahead());
    EXPECT_EQ(Policy(), SCHED_OTHER);
  }
}

TEST(WorkerPriorityTest, EndsByItselfAndRests) {
  WorkerPriority priority;
  priority.RunAhead(kNow - absl::Milliseconds(1));
  priority.RunAhead(kNow);
  const absl::Time end = kNow + WorkerPriority::kLongest;
  priority.Expire(end - absl::Nanoseconds(1));
  EXPECT_EQ(Policy(), SCHED_RR);
  priority.Expire(end);
  EXPECT_EQ(Policy(), SCHED_OTHER);
  priority.RunAhead(end + WorkerPriority::kRest - absl::Nanoseconds(1));
  EXPECT_EQ(Policy(), SCHED_OTHER);
  priority.RunAhead(end + WorkerPriority::kRest);
  EXPECT_EQ(Policy(), SCHED_RR);
  priority.RunAsPrograms();
}

TEST(WorkerPriorityTest, StaysAsItIsIfItMayNot) {
  EXPECT_EQ(InAChild([]() -> int {
              const rlimit none{0, 0};
              LINE_UNLESS(setrlimit(RLIMIT_RTPRIO, &none) == 0 && setuid(65534) == 0);
              LINE_UNLESS(absl::StrContains(WorkerPriority::Check().message(), "eoibd(8)"));
              WorkerPriority priority;
              priority.RunAhead(kNow);
              LINE_UNLESS(!priority.runs_ahead() && Policy() == SCHED_OTHER);
              return 0;
            }),
            0);
}

TEST(WorkerPriorityTest, LeavesThePolicyOfAnOperator) {
  EXPECT_EQ(InAChild([]() -> int {
              const sched_param parameters{};
              LINE_UNLESS(sched_setscheduler(0, SCHED_BATCH, &parameters) == 0);
              LINE_UNLESS(WorkerPriority::Check().ok());
              WorkerPriority priority;
              priority.RunAhead(kNow);
              LINE_UNLESS(!priority.runs_ahead() && Policy() == SCHED_BATCH);
              priority.RunAsPrograms();
              LINE_UNLESS(Policy() == SCHED_BATCH);
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace eoib
