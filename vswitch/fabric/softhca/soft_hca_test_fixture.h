// SoftHcaTest: a subnet with two partitions and two groups, for tests of the software HCA's verbs.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_HCA_TEST_FIXTURE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_HCA_TEST_FIXTURE_H_

#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <string>
#include <utility>

#include "vswitch/fabric/softhca/soft_hca.h"
#include "vswitch/fabric/softhca/soft_node_for_test.h"

namespace eoib::softhca {

using Received = SoftNode::Received;

inline constexpr char kPartitions[] = R"(
[[partition]]
pkey = 0xffff
full = ["ALL"]

[[partition]]
pkey = 0x8001
full = ["full"]
limited = ["a", "limited"]
)";

inline const Gid kOtherMgid =
    Gid::FromPrefixAndGuid(0xff12'e01b'ffff'0100, Guid(0x5e00'0001'0000'0000));

inline bool IsReadable(int fd, int milliseconds = 0) {
  pollfd ready = {fd, POLLIN, 0};
  return poll(&ready, 1, milliseconds) == 1;
}

class SoftHcaTest : public testing::Test {
 protected:
  static Subnet::Options Options() {
    Subnet::Options options;
    options.config = ParseSubnetConfig(kPartitions, "test").value();
    options.seed = 1;
    return options;
  }
  std::unique_ptr<Hca> Open(const std::string& name) {
    absl::StatusOr<std::unique_ptr<Hca>> hca = OpenSoftHca(subnet_.Connect(), name);
    EXPECT_TRUE(hca.ok()) << hca.status();
    return *std::move(hca);
  }

  Subnet subnet_{Options()};
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_HCA_TEST_FIXTURE_H_
