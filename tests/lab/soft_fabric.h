// SoftFabric: a software subnet for a lab: one running eoib-fabricd.
#ifndef EOIB_TESTS_LAB_SOFT_FABRIC_H_
#define EOIB_TESTS_LAB_SOFT_FABRIC_H_

#include <signal.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/lab/fabric.h"
#include "tests/lab/lab.h"

namespace eoib::lab {

// fabricd runs on a host of its own, without interfaces: no datagram passes through it.
class SoftFabric final : public Fabric {
 public:
  SoftFabric(Lab* lab, const std::vector<PartitionSpec>& partitions);

  Argv DaemonCommand(const std::string& program, const std::string& host) override;
  void Resume() override { Kill(SIGCONT); }
  // Checks fabricd's command `counters` (vswitch/fabric/softhca/README.md, "Conservation").
  void ExpectConservation() override;
  void End() override;

  // Starts fabricd; returns at once.
  void Launch();
  // Starts fabricd and waits until its socket accepts connections. Aborts the test on a timeout.
  void Start();
  // Sends a signal. Fails the test if fabricd is dead already, since no test has killed it.
  void Kill(int signal);
  // Sends SIGTERM (first continues a stopped one) and returns the exit code; -1 if it does not end
  // in time.
  int Stop();
  bool Alive() { return process_ != nullptr && process_->Alive(); }
  pid_t pid() const { return process_->pid(); }
  std::string Log() const { return process_->Log(); }

  Host* host() const { return host_; }
  const std::string& directory() const { return directory_; }
  std::string socket() const { return directory_ + "/fabricd.sock"; }
  // Runs a command of fabricd's control socket.
  RunResult Ctl(const Argv& command);

 private:
  bool Answers() const;
  std::map<std::string, int64_t> Conservation();

  Host* const host_;
  const std::string directory_;
  std::unique_ptr<Process> process_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_SOFT_FABRIC_H_
