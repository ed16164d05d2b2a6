// Process: a program that a test runs in the background. RunResult: the exit code and output of a
// finished one.
//
// All these processes die with the test (PR_SET_PDEATHSIG), so a test that crashes leaves none
// behind.
#ifndef EOIB_TESTS_LAB_PROCESS_H_
#define EOIB_TESTS_LAB_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "vswitch/base/unique_fd.h"

namespace eoib::lab {

using Argv = std::vector<std::string>;
// The words of both.
Argv Concatenated(Argv first, const Argv& second);

// How long a test waits for an expected event before it fails. Generous, because a sanitizer build
// on a busy machine is slow; a test that passes does not wait this long.
inline constexpr absl::Duration kPatience = absl::Seconds(20);

// Print the message (DieErrno: with errno's text) and exit with 1: the lab is broken, not the
// program under test.
[[noreturn]] void Die(const std::string& what);
[[noreturn]] void DieErrno(const std::string& what);

// Polls `predicate` every 5 ms until it is true. False if it is not within `limit`.
template <typename Predicate>
bool EventuallyTrue(absl::Duration limit, Predicate predicate);

// The words of a text, which white space separates.
std::vector<std::string> Words(absl::string_view text);

struct Pipe {
  UniqueFd read, write;
};
Pipe MakePipe();

// The exit code and the output of a program.
struct RunResult {
  int exit_code = -1;  // 128 + signal if it was killed
  std::string out;
  std::string err;

  bool ok() const { return exit_code == 0; }
  std::string ToString() const;
};

// How to start a child process. The caller owns the descriptors.
struct SpawnOptions {
  Argv argv;
  int network_namespace = -1;            // -1: the test's own
  int in = -1, out = -1, err = -1;       // -1: /dev/null
  std::vector<std::string> environment;  // "NAME=VALUE", in addition to the test's own
};
// Starts a child in its own process group. It dies when the calling thread ends.
pid_t Spawn(const SpawnOptions& options);
// Runs a program to its end; kills it after `limit`.
RunResult RunToEnd(SpawnOptions options, const std::string& input = "",
                   absl::Duration limit = absl::Seconds(60));

// RunToEnd in the test's own network namespace, for what belongs to no host.
RunResult RunOnMachine(const Argv& argv, absl::Duration limit = absl::Seconds(60));
// The same, for set-up: a failure ends the test program. Returns the output.
std::string MustRunOnMachine(const Argv& argv);

// Converts a status of waitpid to RunResult::exit_code.
int ExitCode(int status);
// Fails the test if a child was killed by a signal that means a crash (SIGSEGV, SIGABRT, ...).
void ExpectNoCrash(int status, const std::string& program, const std::string& output);

// A program in the background, with its output in a log file. The destructor kills it with its
// process group. One thread.
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
  // Sends a signal to its process group. SIGKILL returns when the process has ended, SIGSTOP when
  // all of its threads stand.
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
