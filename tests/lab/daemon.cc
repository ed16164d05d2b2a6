#include "tests/lab/daemon.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "vswitch/base/daemon/command_client.h"

namespace eoib::lab {

Daemon::Daemon(Lab* lab, Fabric* fabric, Host* host, const std::string& program, const Argv& flags)
    : fabric_(fabric),
      host_(host),
      program_(program),
      flags_(flags),
      directory_(lab->Path(host->name())) {
  for (const char* part : {"", "/run", "/state"}) {
    if (mkdir((directory_ + part).c_str(), 0755) != 0 && errno != EEXIST)
      DieErrno("make " + directory_ + part);
  }
}

void Daemon::Launch() {
  Argv argv = fabric_->DaemonCommand(program_, host_->name());
  argv.push_back(absl::StrCat("--rundir=", directory_, "/run"));
  argv.insert(argv.end(), flags_.begin(), flags_.end());
  if (const std::string machine_id = directory_ + "/machine-id";
      access(machine_id.c_str(), F_OK) == 0) {
    constexpr char kMount[] = "mount --bind \"$0\" /etc/machine-id && exec \"$@\"";
    argv = Concatenated({"unshare", "--mount", "sh", "-c", kMount, machine_id}, argv);
  }
  process_ = host_->Start(argv);
  has_stopped_ = false;
}

std::string Daemon::ctl_path() const { return absl::StrCat(directory_, "/run/", program_, ".ctl"); }

void Daemon::DieOf(const Argv& command) {
  Die(absl::StrCat(program_, " on ", host_->name(),
                   Alive() ? " does not come up: `" : " has ended: `", absl::StrJoin(command, " "),
                   "` says ", Ctl(command).ToString(), "its log says\n", Log()));
}

void Daemon::Kill(int signal) {
  EXPECT_TRUE(Alive()) << program_ << " on " << host_->name() << " has died:\n" << Log();
  process_->Kill(signal);
}

void Daemon::Terminate() {
  Kill(SIGCONT);
  Kill(SIGTERM);
}

int Daemon::Wait() {
  const int code = process_->Wait().value_or(-1);
  has_stopped_ = code == 0;
  return code;
}

int Daemon::Stop() {
  Terminate();
  return Wait();
}

// Calls the control socket directly, without an eoibctl process for each command. operator_test.cc
// tests eoibctl itself.
RunResult Daemon::Ctl(const Argv& command, absl::Duration limit) {
  const auto reply =
      CallCommand(ctl_path(), command[0], {command.begin() + 1, command.end()}, limit);
  RunResult result;
  result.exit_code = !reply.ok() ? 1 : reply->is_error ? 2 : 0;
  if (!reply.ok()) {
    result.err = std::string(reply.status().message());
  } else {
    (reply->is_error ? result.err : result.out) = reply->text;
  }
  return result;
}

std::string Daemon::MustCtl(const Argv& command, absl::Duration limit) {
  const RunResult result = Ctl(command, limit);
  EXPECT_TRUE(result.ok()) << "eoibctl " << absl::StrJoin(command, " ") << " on " << host_->name()
                           << ": " << result.ToString();
  return result.ok() ? result.out : "";
}

}  // namespace eoib::lab
