// As many ports in one process as a simulation uses.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vswitch/base/sanitizer_for_test.h"
#include "vswitch/fabric/softhca/soft_node_for_test.h"

namespace eoib::softhca {
namespace {

constexpr size_t kPorts = kSanitized ? 100 : 1000;

void AllowDescriptors(rlim_t count) {
  rlimit files;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  ASSERT_GE(files.rlim_max, count)
      << "this test needs more descriptors: raise the hard limit (ulimit -Hn)";
}

// The resident memory of this process.
size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  size_t pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * 4096;
}

class ManyPortsTest : public testing::Test {
 protected:
  void SetUp() override { AllowDescriptors(20 * kPorts); }
  void OpenAll() {
    for (size_t i = 0; i < kPorts; ++i) {
      absl::StatusOr<std::unique_ptr<Hca>> hca =
          OpenSoftHca(subnet_.Connect(), absl::StrCat("port", i));
      ASSERT_TRUE(hca.ok()) << hca.status();
      nodes_.push_back(std::make_unique<SoftNode>(
          *std::move(hca), NodeOptions{.receives = 2, .receive_size = 256, .sends = 2}));
    }
  }
  void Exchange(SoftNode* from, SoftNode* to, const std::string& payload) {
    ASSERT_EQ(from->Send(to->Address(), payload), 0);
    from->PollSend();
    const SoftNode::Received got = to->Receive();
    ASSERT_EQ(got.payload, payload);
    ASSERT_EQ(got.wc.slid, from->config().lid.value());
    ASSERT_EQ(to->PostReceive(got.wc.wr_id), 0);
  }

  Subnet subnet_;
  std::vector<std::unique_ptr<SoftNode>> nodes_;
};

TEST_F(ManyPortsTest, AThousandPortsInOneProcess) {
  const size_t before = ResidentBytes();
  ASSERT_NO_FATAL_FAILURE(OpenAll());
  const size_t idle = (ResidentBytes() - before) / kPorts;

  Mlid mlid;
  for (const auto& node : nodes_) {
    mlid = node->Join(kMgid);
    ASSERT_EQ(node->Attach(node->qp(), kMgid, mlid), 0);
  }
  ASSERT_EQ(nodes_[0]->Send({mlid.value(), Qpn(Qpn::kMulticast), 0x1234, kMgid}, "all"), 0);
  nodes_[0]->PollSend();
  for (const auto& node : nodes_) {
    const SoftNode::Received got = node->Receive();
    ASSERT_EQ(got.payload, "all");
    ASSERT_EQ(node->PostReceive(got.wc.wr_id), 0);
  }
  EXPECT_EQ(nodes_[0]->port().rings().outbound, kPorts);

  std::mt19937 random(1);
  for (size_t i = 0; i < 3 * kPorts; ++i) {
    SoftNode* from = nodes_[random() % kPorts].get();
    SoftNode* to = nodes_[random() % kPorts].get();
    ASSERT_NO_FATAL_FAILURE(Exchange(from, to, std::to_string(i))) << i;
  }
  const size_t busy = (ResidentBytes() - before) / kPorts;
  std::printf("%zu ports: %zu KiB each idle, %zu KiB with four rings each\n", kPorts, idle / 1024,
              busy / 1024);
  RecordProperty("idle_kib_per_port", static_cast<int>(idle / 1024));
  RecordProperty("busy_kib_per_port", static_cast<int>(busy / 1024));
  if (kSanitized) return;
  EXPECT_LT(idle, 256u * 1024);
  EXPECT_LT(busy, 1024u * 1024);
}

}  // namespace
}  // namespace eoib::softhca
