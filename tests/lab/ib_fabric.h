// IbFabric: the kernel's InfiniBand stack as a lab's fabric, in a virtual machine: agents of the production configuration on
// real verbs, under Debian's OpenSM (ib_subnet.h).
#ifndef EOIB_TESTS_LAB_IB_FABRIC_H_
#define EOIB_TESTS_LAB_IB_FABRIC_H_

#include <map>
#include <string>
#include <vector>

#include "tests/lab/fabric.h"
#include "tests/lab/ib_subnet.h"

namespace eoib::lab {

// All tests of a program share one IbSubnet, which only its partitions tell from one test to the next; a test that changes more
// of it puts that back. Host hN has adapter N - 1, other hosts the next that is free.
class IbFabric final : public Fabric {
 public:
  static constexpr int kAdapters = 8;

  explicit IbFabric(const std::vector<PartitionSpec>& partitions);

  Argv DaemonCommand(const std::string& program, const std::string& host) override;
  size_t Slowdown() const override { return 20; }  // in QEMU's emulation

  static IbSubnet& subnet();
  int AdapterOf(const std::string& host);
  // As OpenSM is told of them.
  std::vector<IbPartition> Translate(const std::vector<PartitionSpec>& partitions);

 private:
  std::map<std::string, int> adapters_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_IB_FABRIC_H_
