// Child processes for tests. No child outlives its test, however the test ends.
#ifndef EOIB_VSWITCH_BASE_CHILD_FOR_TEST_H_
#define EOIB_VSWITCH_BASE_CHILD_FOR_TEST_H_

#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

namespace eoib {

// Call this in the child, right after the fork from `test`, by a thread that lives as long as the
// child. A test that crashes then leaves no child behind.
inline void DieWithTest(pid_t test) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != test) _exit(127);  // the test ended before prctl took effect
}

// A child that is killed at the end of its scope.
class ChildForTest {
 public:
  explicit ChildForTest(pid_t pid) : pid_(pid) {}
  ~ChildForTest() { Kill(); }
  ChildForTest(const ChildForTest&) = delete;
  ChildForTest& operator=(const ChildForTest&) = delete;

  // Returns when the child is gone.
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_CHILD_FOR_TEST_H_
