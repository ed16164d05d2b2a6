// SoftFabric: a software subnet for a lab, one running eoib-fabricd.
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

// fabricd runs in a namespace of its own, without any interface: it has no part in the traffic.
class SoftFabric final : public Fabric {
 public:
  SoftFabric(Lab* lab, const std::vector<PartitionSpec>& partitions);

  Argv DaemonCommand(const std::string& program, const std::string& host) override;
  void Resume() override { Kill(SIGCONT); }
  // By what `counters` says of the whole fabric (vswitch/fabric/softhca/README.md, "Conservation").
  void ExpectConservation() override;
  void End() override;

  // Runs fabricd; returns at once.
  void Launch();
  // Returns when its socket takes connections. Aborts the test if that does not come to pass.
  void Start();
  // Fails the test if it is dead already: it has died of something that nobody did to it.
  void Kill(int signal);
  // SIGTERM, also to one that is stopped; the exit code, -1 if it does not end.
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
