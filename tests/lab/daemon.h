// Daemon: one of our programs running on a host of a lab, on the HCA port that bears the host's name, and what its control
// socket says.
#ifndef EOIB_TESTS_LAB_DAEMON_H_
#define EOIB_TESTS_LAB_DAEMON_H_

#include <memory>
#include <string>

#include "tests/lab/fabric.h"
#include "tests/lab/lab.h"

namespace eoib::lab {

// Its directories are the host's, so that it comes back as the same one.
class Daemon {
 public:
  // `flags` beside those for the HCA port and --rundir.
  Daemon(Lab* lab, Fabric* fabric, Host* host, const std::string& program, const Argv& flags = {});
  virtual ~Daemon() = default;

  // Runs it; returns at once.
  void Launch();
  // Until it answers, and is_ready says so of what it answers to `command`. Aborts the test, with the log, if that does not
  // come to pass.
  template <typename Predicate>
  void WaitUntil(const Argv& command, Predicate is_ready) {
    const auto ready = [&] { return Alive() && is_ready(Ctl(command).out); };
    if (!EventuallyTrue(kPatience, [&] { return !Alive() || ready(); }) || !Alive()) DieOf(command);
  }
  // Fails the test if it is dead already: it has died of something that nobody did to it.
  void Kill(int signal);
  // SIGTERM, also to one that is stopped.
  void Terminate();
  // Its exit code, -1 if it does not end.
  int Wait();
  int Stop();  // both
  bool Alive() { return process_ != nullptr && process_->Alive(); }
  pid_t pid() const { return process_->pid(); }
  std::string Log() const { return process_->Log(); }

  Host* host() const { return host_; }
  const std::string& program() const { return program_; }
  // What it has to find, or keep, for itself.
  const std::string& directory() const { return directory_; }
  std::string ctl_path() const;

  RunResult Ctl(const Argv& command);
  // Fails the test, and returns "", if the command fails.
  std::string MustCtl(const Argv& command);

 private:
  [[noreturn]] void DieOf(const Argv& command);

  Fabric* const fabric_;
  Host* const host_;
  const std::string program_;
  const Argv flags_;
  const std::string directory_;
  std::unique_ptr<Process> process_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_DAEMON_H_
