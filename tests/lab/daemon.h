// Daemon: one of our programs on a host of a lab. It uses the HCA port that has the host's name;
// its control socket is at hand.
#ifndef EOIB_TESTS_LAB_DAEMON_H_
#define EOIB_TESTS_LAB_DAEMON_H_

#include <memory>
#include <string>

#include "tests/lab/fabric.h"
#include "tests/lab/lab.h"

namespace eoib::lab {

// Its directories belong to the host, so a restarted daemon finds its former state. A file
// machine-id there is the host's /etc/machine-id; without one it is that of this machine.
class Daemon {
 public:
  // `flags` are in addition to those for the HCA port and --rundir.
  Daemon(Lab* lab, Fabric* fabric, Host* host, const std::string& program, const Argv& flags = {});
  virtual ~Daemon() = default;

  // Starts it; returns at once.
  void Launch();
  // Waits until is_ready accepts the answer to `command`. Aborts the test with the daemon's log on
  // a timeout or if the daemon has ended.
  template <typename Predicate>
  void WaitUntil(const Argv& command, Predicate is_ready) {
    const auto ready = [&] { return Alive() && is_ready(Ctl(command).out); };
    if (!EventuallyTrue(kPatience, [&] { return !Alive() || ready(); }) || !Alive()) DieOf(command);
  }
  // Sends a signal. Fails the test if the daemon is dead already, since no test has killed it.
  void Kill(int signal);
  // Sends SIGTERM; first continues a stopped one.
  void Terminate();
  // The exit code; -1 if it does not end in time.
  int Wait();
  int Stop();  // Terminate and Wait
  // Whether the test has stopped it, in order, and not launched it again.
  bool HasStopped() const { return has_stopped_; }
  bool Alive() { return process_ != nullptr && process_->Alive(); }
  pid_t pid() const { return process_->pid(); }
  std::string Log() const { return process_->Log(); }

  Host* host() const { return host_; }
  const std::string& program() const { return program_; }
  // Holds its configuration, run and state directories.
  const std::string& directory() const { return directory_; }
  std::string ctl_path() const;

  RunResult Ctl(const Argv& command, absl::Duration limit = absl::Seconds(10));
  // Fails the test, and returns "", if the command fails.
  std::string MustCtl(const Argv& command, absl::Duration limit = absl::Seconds(10));

 private:
  [[noreturn]] void DieOf(const Argv& command);

  Fabric* const fabric_;
  Host* const host_;
  const std::string program_;
  const Argv flags_;
  const std::string directory_;
  std::unique_ptr<Process> process_;
  bool has_stopped_ = false;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_DAEMON_H_
