// Process: a program that a test started, and RunResult, what became of one.
//
// Every process here dies with the test (PR_SET_PDEATHSIG), so that a test that crashes leaves nothing behind.
#ifndef EOIB_TESTS_LAB_PROCESS_H_
#define EOIB_TESTS_LAB_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace eoib::lab {

using Argv = std::vector<std::string>;

// How long a test waits for what must happen, before it fails. Generous: a sanitizer build on a busy machine is slow, and no
// passing test ever waits this long.
inline constexpr absl::Duration kPatience = absl::Seconds(20);

// Prints "what: errno's text" and exits with 1: the lab itself is broken, not what it tests.
[[noreturn]] void Die(const std::string& what);
[[noreturn]] void DieErrno(const std::string& what);

// Looks at `predicate` every 5 ms until it holds. False if it did not within `limit`.
template <typename Predicate>
bool EventuallyTrue(absl::Duration limit, Predicate predicate);

// How a program ended and what it said.
struct RunResult {
  int exit_code = -1;  // 128 + signal if it was killed
  std::string out;
  std::string err;

  bool ok() const { return exit_code == 0; }
  std::string ToString() const;
};

// What a child process is started with. Descriptors are the caller's and stay open in the caller.
struct SpawnOptions {
  Argv argv;
  int network_namespace = -1;            // -1: the test's own
  int in = -1, out = -1, err = -1;       // -1: /dev/null
  std::vector<std::string> environment;  // "NAME=VALUE", in addition to the test's own
};
// The child is in its own process group, and dies when the calling thread ends.
pid_t Spawn(const SpawnOptions& options);
// Runs a program to its end; one that takes longer than `limit` is killed.
RunResult RunToEnd(SpawnOptions options, const std::string& input = "", absl::Duration limit = absl::Seconds(60));

// The end of a child as RunResult counts it, from a status of waitpid.
int ExitCode(int status);
// Fails the test if a child was ended by a signal that only its own fault can raise (SIGSEGV, SIGABRT, ...).
void ExpectNoCrash(int status, const std::string& program, const std::string& output);

// A program in the background, with its output in a log file. Killed (with its process group) by the destructor. One thread.
class Process {
 public:
  // Standard output and error are appended to `log_path`.
  Process(SpawnOptions options, std::string log_path);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  const std::string& log_path() const { return log_path_; }
  std::string Log() const;

  bool Alive();
  // SIGKILL returns when the process is gone.
  void Kill(int signal);
  // The exit code, or nothing if the process still runs after `limit`.
  absl::optional<int> Wait(absl::Duration limit = kPatience);

 private:
  bool Reap(int options);

  const std::string program_, log_path_;
  pid_t pid_ = -1;
  absl::optional<int> exit_code_;
};

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& text);

namespace internal {
void SleepOnePoll();
}  // namespace internal

template <typename Predicate>
bool EventuallyTrue(absl::Duration limit, Predicate predicate) {
  timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  while (true) {
    if (predicate()) return true;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (absl::DurationFromTimespec(now) - absl::DurationFromTimespec(start) > limit) return false;
    internal::SleepOnePoll();
  }
}

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_PROCESS_H_
