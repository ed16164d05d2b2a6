// Fabric: the InfiniBand subnet that connects the agents of a lab.
//
// The same scenarios run on two fabrics; EOIB_LAB_FABRIC selects one: a software subnet
// (soft_fabric.h), or, inside a virtual machine, the kernel's InfiniBand stack with OpenSM
// (ib_fabric.h).
#ifndef EOIB_TESTS_LAB_FABRIC_H_
#define EOIB_TESTS_LAB_FABRIC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/lab/lab.h"

namespace eoib::lab {

// Members of a partition are HCA ports, named after their hosts. "ALL" means all ports.
struct PartitionSpec {
  uint16_t pkey = 0x8001;
  std::vector<std::string> full = {"ALL"};
  std::vector<std::string> limited;
  bool ipoib = false;  // also make IPoIB's broadcast group, where the kernel's IPoIB runs
};

class Fabric {
 public:
  virtual ~Fabric() = default;

  // The command line for `program` ("eoibd", ...) on that host's HCA port. The same name always
  // gets the same port.
  virtual Argv DaemonCommand(const std::string& program, const std::string& host) = 0;
  // How much slower programs run here than on the machine itself: tests divide large counts by it.
  virtual size_t Slowdown() const { return 1; }
  // Called at the end of a test, before the agents are stopped: continues a stopped fabric, so that
  // they can leave their groups.
  virtual void Resume() {}
  // Waits until nothing is under way, and expects that every posted datagram was delivered or
  // counted as dropped. Does nothing on a fabric without such counters.
  virtual void ExpectConservation() {}
  // Called after the agents have ended. Fails the test if a program of the fabric ended with an
  // error.
  virtual void End() {}
};

// Makes a subnet with these partitions, ready for agents. EOIB_LAB_FABRIC is "soft" (the default)
// or "infiniband".
std::unique_ptr<Fabric> MakeFabric(Lab* lab, const std::vector<PartitionSpec>& partitions);

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_FABRIC_H_
