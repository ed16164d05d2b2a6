// Fabric: a software subnet for a lab, one running eoib-fabricd.
#ifndef EOIB_TESTS_LAB_FABRIC_H_
#define EOIB_TESTS_LAB_FABRIC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/lab/lab.h"

namespace eoib::lab {

// The members of a partition are ports, which bear the names of their hosts. "ALL" is all of them.
struct PartitionSpec {
  uint16_t pkey = 0x8001;
  std::vector<std::string> full = {"ALL"};
  std::vector<std::string> limited;
};

// fabricd runs in a namespace of its own, without any interface: it has no part in the traffic.
class Fabric {
 public:
  Fabric(Lab* lab, const std::vector<PartitionSpec>& partitions);

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

  Host* const host_;
  const std::string directory_;
  std::unique_ptr<Process> process_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_FABRIC_H_
