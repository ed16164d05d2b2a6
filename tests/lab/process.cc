#include "tests/lab/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace eoib::lab {
namespace {

absl::Time Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::TimeFromTimespec(now);
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<char*> Environment(const std::vector<std::string>& added) {
  std::vector<char*> pointers = Pointers(added);
  pointers.pop_back();
  for (char** variable = environ; *variable != nullptr; ++variable) pointers.push_back(*variable);
  pointers.push_back(nullptr);
  return pointers;
}

// From here to execvpe the code runs in the forked child: system calls only, since another thread
// may hold a lock.
[[noreturn]] void ChildFailed(const char* what) {
  char text[256];
  int length = snprintf(text, sizeof(text), "%s: %s\n", what, strerror(errno));
  (void)!write(STDERR_FILENO, text, length);
  _exit(127);
}

void Redirect(int fd, int target) {
  // dup2 of a descriptor onto itself does not clear close-on-exec.
  if (fd == target) {
    fcntl(fd, F_SETFD, 0);
  } else if (dup2(fd, target) < 0) {
    ChildFailed("dup2");
  }
}

[[noreturn]] void ExecChild(const SpawnOptions& options, char* const* argv,
                            char* const* environment, int null, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the test ended before PR_SET_PDEATHSIG
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  Redirect(options.in >= 0 ? options.in : null, STDIN_FILENO);
  Redirect(options.out >= 0 ? options.out : null, STDOUT_FILENO);
  Redirect(options.err >= 0 ? options.err : null, STDERR_FILENO);
  if (options.network_namespace >= 0 && setns(options.network_namespace, CLONE_NEWNET) != 0)
    ChildFailed("setns");
  execvpe(argv[0], argv, environment);
  ChildFailed(argv[0]);
}

// Appends the readable bytes to `text`; closes `fd` at end of file.
void Drain(UniqueFd* fd, std::string* text) {
  char bytes[65536];
  ssize_t got = read(fd->get(), bytes, sizeof(bytes));
  if (got > 0) {
    text->append(bytes, got);
  } else if (got == 0 || errno != EINTR) {
    fd->reset();
  }
}

// Writes `input` to `in` and reads both outputs until both end. False after the deadline.
bool TransferAll(UniqueFd in, const std::string& input, UniqueFd out, UniqueFd err,
                 absl::Time deadline, RunResult* result) {
  fcntl(in.get(), F_SETFL, O_NONBLOCK);
  size_t written = 0;
  while (out.valid() || err.valid()) {
    if (in.valid() && written == input.size()) in.reset();
    pollfd fds[] = {{in.get(), POLLOUT, 0}, {out.get(), POLLIN, 0}, {err.get(), POLLIN, 0}};
    int64_t left = absl::ToInt64Milliseconds(deadline - Now());
    if (left <= 0) return false;
    if (poll(fds, 3, static_cast<int>(left)) < 0 && errno != EINTR) DieErrno("poll");
    if (fds[0].revents != 0) {
      ssize_t sent = write(in.get(), input.data() + written, input.size() - written);
      if (sent > 0) written += sent;
      if (sent < 0 && errno != EAGAIN) in.reset();
    }
    if (fds[1].revents != 0) Drain(&out, &result->out);
    if (fds[2].revents != 0) Drain(&err, &result->err);
  }
  return true;
}

// Waits for the child's end; false after the deadline. It may have closed its outputs before.
bool EndsBy(pid_t pid, absl::Time deadline) {
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process.valid()) DieErrno("pidfd_open");
  pollfd ended = {process.get(), POLLIN, 0};
  int ready;
  do {
    ready =
        poll(&ended, 1,
             static_cast<int>(std::max<int64_t>(absl::ToInt64Milliseconds(deadline - Now()), 0)));
  } while (ready < 0 && errno == EINTR);
  return ready == 1;
}

}  // namespace

// exit, not abort: tests/run/ctest.sh retries a failed test, but not one that crashed.
void Die(const std::string& what) {
  std::fprintf(stderr, "lab: %s\n", what.c_str());
  std::fflush(nullptr);
  std::_Exit(1);
}

void DieErrno(const std::string& what) { Die(absl::StrCat(what, ": ", strerror(errno))); }

Argv Concatenated(Argv first, const Argv& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

std::vector<std::string> Words(absl::string_view text) {
  return absl::StrSplit(text, absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
}

Pipe MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) DieErrno("pipe");
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

std::string RunResult::ToString() const {
  return absl::StrCat("exit code ", exit_code, "\n", out, err);
}

// tests/run/ctest.sh searches for "crashed: " in the output.
void ExpectNoCrash(int status, const std::string& program, const std::string& output) {
  if (!WIFSIGNALED(status)) return;
  constexpr int kCrashes[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
  if (std::count(std::begin(kCrashes), std::end(kCrashes), WTERMSIG(status)) == 0) return;
  ADD_FAILURE() << "crashed: " << program << ", by signal " << WTERMSIG(status) << "\n" << output;
}

int ExitCode(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

pid_t Spawn(const SpawnOptions& options) {
  if (options.argv.empty()) Die("start a program: empty command line");
  // Allocate before the fork: another thread may hold the allocator's lock, which the child would
  // wait for.
  std::vector<char*> argv = Pointers(options.argv);
  std::vector<char*> environment = Environment(options.environment);
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const pid_t parent = getpid();
  pid_t pid = fork();
  if (pid < 0) DieErrno("fork");
  if (pid == 0) ExecChild(options, argv.data(), environment.data(), null.get(), parent);
  setpgid(pid, pid);  // in parent and child, so that the group exists whichever runs first
  return pid;
}

RunResult RunToEnd(SpawnOptions options, const std::string& input, absl::Duration limit) {
  Pipe in = MakePipe(), out = MakePipe(), err = MakePipe();
  options.in = in.read.get();
  options.out = out.write.get();
  options.err = err.write.get();
  // Otherwise a program that does not read its input would kill the test.
  signal(SIGPIPE, SIG_IGN);
  const absl::Time deadline = Now() + limit;
  pid_t pid = Spawn(options);
  in.read.reset();
  out.write.reset();
  err.write.reset();
  RunResult result;
  const bool ended = TransferAll(std::move(in.write), input, std::move(out.read),
                                 std::move(err.read), deadline, &result);
  if (!ended || !EndsBy(pid, deadline)) {
    absl::StrAppend(&result.err, "killed after ", absl::FormatDuration(limit), ": ",
                    absl::StrJoin(options.argv, " "), "\n");
    kill(-pid, SIGKILL);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  result.exit_code = ExitCode(status);
  ExpectNoCrash(status, options.argv[0], result.err);
  return result;
}

RunResult RunOnMachine(const Argv& argv, absl::Duration limit) {
  SpawnOptions options;
  options.argv = argv;
  return RunToEnd(std::move(options), "", limit);
}

std::string MustRunOnMachine(const Argv& argv) {
  RunResult result = RunOnMachine(argv);
  if (!result.ok()) Die(absl::StrCat(absl::StrJoin(argv, " "), ": ", result.ToString()));
  return result.out;
}

Process::Process(SpawnOptions options, std::string log_path)
    : program_(options.argv.at(0)), log_path_(std::move(log_path)) {
  UniqueFd log(open(log_path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log.valid()) DieErrno("open " + log_path_);
  options.out = options.err = log.get();
  pid_ = Spawn(options);
}

Process::~Process() { Kill(SIGKILL); }

std::string Process::Log() const { return ReadFile(log_path_); }

bool Process::Reap(int options) {
  if (exit_code_) return true;
  int status = 0;
  pid_t got = waitpid(pid_, &status, options);
  if (got == pid_) {
    exit_code_ = ExitCode(status);
    ExpectNoCrash(status, program_, Log());
  }
  return exit_code_.has_value();
}

bool Process::Alive() { return !Reap(WNOHANG); }

void Process::Kill(int signal) {
  if (!Alive()) return;
  kill(-pid_, signal);
  if (signal == SIGKILL) Reap(0);
  siginfo_t stopped;
  if (signal == SIGSTOP) waitid(P_PID, pid_, &stopped, WSTOPPED | WEXITED | WNOWAIT);
}

absl::optional<int> Process::Wait(absl::Duration limit) {
  EventuallyTrue(limit, [this] { return !Alive(); });
  return exit_code_;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  if (!file.flush()) DieErrno("write " + path);
}

namespace internal {
void SleepOnePoll() {
  const timespec five_milliseconds = {0, 5'000'000};
  nanosleep(&five_milliseconds, nullptr);
}
}  // namespace internal

}  // namespace eoib::lab
