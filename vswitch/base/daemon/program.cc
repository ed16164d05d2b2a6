#include "vswitch/base/daemon/program.h"

#include <gflags/gflags.h>
#include <poll.h>
#include <stdio_ext.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "vswitch/base/daemon/log.h"

DECLARE_bool(help);

namespace GFLAGS_NAMESPACE {
// gflags exports it for its tests and declares it in no header. gflags calls it after it has
// printed what is wrong with a flag.
extern void (*gflags_exitfunc)(int);
}  // namespace GFLAGS_NAMESPACE

namespace eoib {
namespace {

constexpr size_t kColumn = 22, kWidth = 100;

// Appends `words` in lines that begin at kColumn. The present line has a shorter text.
void AppendWrapped(absl::string_view words, std::string* text) {
  size_t at = text->size() - (text->rfind('\n') + 1);
  for (absl::string_view word : absl::StrSplit(words, ' ', absl::SkipEmpty())) {
    if (at > kColumn && at + 1 + word.size() > kWidth) {
      *text += '\n';
      at = 0;
    }
    const size_t gap = at < kColumn ? kColumn - at : 1;
    absl::StrAppend(text, std::string(gap, ' '), word);
    at += gap + word.size();
  }
  *text += '\n';
}

bool IsOf(const gflags::CommandLineFlagInfo& flag, absl::string_view source) {
  return absl::StrContains(flag.filename, absl::StrCat("/", source, ".")) ||
         absl::StartsWith(flag.filename, source);
}

void AppendFlag(const gflags::CommandLineFlagInfo& flag, std::string* text) {
  const bool is_switch = flag.type == "bool";
  absl::StrAppend(text, "  --", flag.name, is_switch ? "" : "=",
                  is_switch ? "" : absl::AsciiStrToUpper(flag.type));
  const bool has_default = !flag.default_value.empty() && flag.default_value != "false";
  AppendWrapped(
      absl::StrCat(flag.description,
                   has_default ? absl::StrCat(" (default: ", flag.default_value, ")") : ""),
      text);
}

// Without output a standard output that is closed (`program >&-`) is no error.
void CloseOutput() {
  const bool had_output = __fpending(stdout) > 0, failed_before = std::ferror(stdout) != 0;
  pollfd reader = {STDOUT_FILENO, 0, 0};
  const bool has_reader = poll(&reader, 1, 0) <= 0 || (reader.revents & (POLLERR | POLLHUP)) == 0;
  errno = 0;
  const bool is_closed = std::fclose(stdout) == 0;
  if ((is_closed && !failed_before) || !has_reader || errno == EPIPE) return;
  if (errno == EBADF && !had_output && !failed_before) return;
  // stdio forgets the reason of an earlier failure.
  std::fprintf(stderr, "%s: write to standard output: %s\n", program_invocation_short_name,
               errno == 0 ? "it failed; is the disk full?" : std::strerror(errno));
  _exit(1);
}

}  // namespace

std::string Usage(const DaemonInfo& info) {
  std::string text = absl::StrCat("usage: ", info.name, " [FLAG...]\n\n", info.name, " is ",
                                  info.description, ".\n\n");
  std::vector<gflags::CommandLineFlagInfo> flags;
  gflags::GetAllFlags(&flags);
  for (const gflags::CommandLineFlagInfo& flag : flags) {
    if (IsOf(flag, info.source)) AppendFlag(flag, &text);
  }
  return absl::StrCat(text, "  --version", std::string(kColumn - 11, ' '), "print the version\n");
}

void CheckOutputAtExit() { std::atexit(CloseOutput); }

void ParseFlags(int* argc, char*** argv) {
  static char help[] = "--help";
  for (int i = 1; i < *argc; ++i) {
    if (std::strcmp((*argv)[i], "-h") == 0) (*argv)[i] = help;
  }
  GFLAGS_NAMESPACE::gflags_exitfunc = [](int status) {
    std::fprintf(stderr, "see %s --help\n", gflags::ProgramInvocationShortName());
    std::exit(status);
  };
  gflags::ParseCommandLineNonHelpFlags(argc, argv, /*remove_flags=*/true);
  GFLAGS_NAMESPACE::gflags_exitfunc = &std::exit;  // --version, which is no mistake, calls it, too
}

namespace {

// "eoibd.h1": as in the name of its control socket.
std::string NameForLog(const char* program) {
  gflags::CommandLineFlagInfo flag;
  if (!gflags::GetCommandLineFlagInfo("name", &flag) || flag.current_value.empty()) return program;
  return absl::StrCat(program, ".", flag.current_value);
}

}  // namespace

int RunDaemon(const DaemonInfo& info, int argc, char** argv,
              const std::function<absl::Status()>& run) {
  CheckOutputAtExit();
  gflags::SetUsageMessage(info.description);
  gflags::SetVersionString(EOIB_VERSION);
  const bool wants_usage = std::any_of(
      argv, argv + argc, [](const char* argument) { return std::strcmp(argument, "-h") == 0; });
  if (wants_usage) {
    std::fputs(Usage(info).c_str(), stdout);
    return 0;
  }
  ParseFlags(&argc, &argv);
  if (FLAGS_help) {
    gflags::ShowUsageWithFlagsRestrict(info.name, info.source);
    return 0;
  }
  gflags::HandleCommandLineHelpFlags();  // --version, --helpfull and such: ends the program
  if (argc > 1) {
    std::fprintf(stderr, "%s: unexpected argument \"%s\"; see %s --help\n", info.name, argv[1],
                 info.name);
    return 1;
  }
  SetLogProgram(NameForLog(info.name));
  // Debian builds Abseil such that every lock looks for deadlocks by default. This check is useful
  // in tests only.
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
