// IbFabric: the kernel's InfiniBand stack as a lab's fabric, inside a virtual machine. The agents
// use real verbs, as in production; Debian's OpenSM manages the subnet (ib_subnet.h).
#ifndef EOIB_TESTS_LAB_IB_FABRIC_H_
#define EOIB_TESTS_LAB_IB_FABRIC_H_

#include <map>
#include <string>
#include <vector>

#include "tests/lab/fabric.h"
#include "tests/lab/ib_subnet.h"

namespace eoib::lab {

// All tests of a program share one IbSubnet. Only its partitions are set for each test; a test that
// changes more must restore it. Host hN gets adapter N - 1, other hosts a free one.
class IbFabric final : public Fabric {
 public:
  static constexpr int kAdapters = 8;

  explicit IbFabric(const std::vector<PartitionSpec>& partitions);

  Argv DaemonCommand(const std::string& program, const std::string& host) override;
  size_t Slowdown() const override { return 20; }  // QEMU emulates the processor

  static IbSubnet& subnet();
  int AdapterOf(const std::string& host);
  // The partitions in OpenSM's terms.
  std::vector<IbPartition> Translate(const std::vector<PartitionSpec>& partitions);

 private:
  std::map<std::string, int> adapters_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_IB_FABRIC_H_
