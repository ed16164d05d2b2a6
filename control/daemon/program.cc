#include "control/daemon/program.h"

#include <gflags/gflags.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/synchronization/mutex.h"
#include "control/daemon/log.h"

DECLARE_bool(help);

namespace GFLAGS_NAMESPACE {
// gflags exports it for its tests and declares it in no header. gflags calls it after it has printed what is wrong with a flag.
extern void (*gflags_exitfunc)(int);
}  // namespace GFLAGS_NAMESPACE

namespace eoib {

void ParseFlags(int* argc, char*** argv) {
  GFLAGS_NAMESPACE::gflags_exitfunc = [](int status) {
    std::fprintf(stderr, "see %s --help\n", gflags::ProgramInvocationShortName());
    std::exit(status);
  };
  gflags::ParseCommandLineNonHelpFlags(argc, argv, /*remove_flags=*/true);
  GFLAGS_NAMESPACE::gflags_exitfunc = &std::exit;  // --version, which is no mistake, calls it, too
}

int RunDaemon(const DaemonInfo& info, int argc, char** argv, const std::function<absl::Status()>& run) {
  gflags::SetUsageMessage(info.description);
  gflags::SetVersionString("0.1.0");
  ParseFlags(&argc, &argv);
  if (FLAGS_help) {
    gflags::ShowUsageWithFlagsRestrict(info.name, info.source);
    return 0;
  }
  gflags::HandleCommandLineHelpFlags();  // --version, --helpfull and such: ends the program
  if (argc > 1) {
    std::fprintf(stderr, "%s: unexpected argument \"%s\"; see %s --help\n", info.name, argv[1], info.name);
    return 1;
  }
  SetLogProgram(info.name);
  // Debian builds Abseil such that every lock looks for deadlocks by default. This check is useful in tests only.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  RaiseDescriptorLimit();
  const absl::Status status = run();
  if (status.ok() || absl::IsCancelled(status)) return 0;
  std::fprintf(stderr, "%s: %s\n", info.name, std::string(status.message()).c_str());
  return 1;
}

void RaiseDescriptorLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace eoib
