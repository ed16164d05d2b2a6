// Fabric: the InfiniBand subnet of a lab, under which the agents of its hosts meet.
//
// The scenarios are written once. Which fabric carries them says the environment: a software subnet (soft_fabric.h), or, inside
// a virtual machine, the kernel's InfiniBand stack with OpenSM (ib_fabric.h).
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
  bool ipoib = false;  // has IPoIB's broadcast group, too, where there is a kernel that wants it
};

class Fabric {
 public:
  virtual ~Fabric() = default;

  // What to run for a daemon on the port of that host: program ("eoibd", ...) and flags. The same port for the same name.
  virtual Argv DaemonCommand(const std::string& program, const std::string& host) = 0;
  // By how much what runs here is slower than on a machine's own processor: large numbers are to be so much smaller.
  virtual size_t Slowdown() const { return 1; }
  // At the end of a test, before its agents end: they must be able to say goodbye.
  virtual void Resume() {}
  // Waits until nothing is under way, and expects that every datagram that was posted was delivered, or dropped for a reason
  // that was counted. Nothing where a fabric cannot tell.
  virtual void ExpectConservation() {}
  // After its agents have ended. Fails the test if something of the fabric ended badly.
  virtual void End() {}
};

// A subnet with these partitions, ready for agents: of the kind that EOIB_LAB_FABRIC names, "soft" (the default) or
// "infiniband".
std::unique_ptr<Fabric> MakeFabric(Lab* lab, const std::vector<PartitionSpec>& partitions);

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_FABRIC_H_
