#include "control/daemon/program.h"

#include <gflags/gflags.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "absl/synchronization/mutex.h"

DECLARE_bool(help);
DECLARE_bool(version);

namespace eoib {
namespace {

UniqueFd DescriptorOf(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : signals) sigaddset(&set, signal);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  return UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

}  // namespace

int ParseFlags(int argc, char** argv, const char* usage, const char* source) {
  const char* slash = std::strrchr(argv[0], '/');
  const char* name = slash == nullptr ? argv[0] : slash + 1;
  gflags::SetUsageMessage(usage);
  gflags::SetVersionString("0.1.0");
  gflags::ParseCommandLineNonHelpFlags(&argc, &argv, /*remove_flags=*/true);
  if (FLAGS_help) {
    gflags::ShowUsageWithFlagsRestrict(name, source);
    return 0;
  }
  gflags::HandleCommandLineHelpFlags();  // --version, --helpfull and such: ends the program
  if (argc <= 1) return -1;
  std::fprintf(stderr, "%s: unexpected argument \"%s\"; see %s --help\n", name, argv[1], name);
  return 1;
}

void UsePlainLocks() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }

void RaiseDescriptorLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

UniqueFd TerminationSignals() {
  signal(SIGPIPE, SIG_IGN);
  return DescriptorOf({SIGTERM, SIGINT});
}

UniqueFd HangupSignals() { return DescriptorOf({SIGHUP}); }

}  // namespace eoib
