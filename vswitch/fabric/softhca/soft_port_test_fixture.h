// SoftPortTest: ports of one subnet on a fake clock.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_PORT_TEST_FIXTURE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_PORT_TEST_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "vswitch/base/clock.h"
#include "vswitch/fabric/softhca/soft_node_for_test.h"
#include "vswitch/fabric/softhca/soft_port.h"

namespace eoib::softhca {

using Received = SoftNode::Received;

// Every test runs twice: with rings in this process's memory, and with rings in memory files.
class SoftPortTest : public testing::TestWithParam<bool> {
 protected:
  SoftPortTest() {
    options_.clock = &clock_;
    options_.outbound.first_capacity = 64 * 1024;  // soon full
  }

  std::unique_ptr<SubnetLink> Connect() {
    std::unique_ptr<SubnetLink> link = subnet_.Connect();
    if (GetParam()) link = std::make_unique<DescriptorLink>(std::move(link));
    return link;
  }
  std::unique_ptr<SoftNode> Open(const std::string& name, NodeOptions node = {}) {
    absl::StatusOr<std::unique_ptr<Hca>> hca = OpenSoftHca(Connect(), name, options_);
    EXPECT_TRUE(hca.ok()) << hca.status();
    return std::make_unique<SoftNode>(*std::move(hca), node);
  }
  // Makes an empty ring from `a` to `b`.
  void Introduce(SoftNode* a, SoftNode* b) {
    ASSERT_EQ(a->Send(b->Address(), "introduction"), 0);
    a->PollSend();
    const Received got = b->Receive();
    ASSERT_EQ(b->PostReceive(got.wc.wr_id), 0);
  }
  // Sends `count` numbered datagrams of 4,096 bytes.
  void Fill(SoftNode* a, const Destination& to, int count, int first = 0) {
    for (int i = first; i < first + count; ++i) {
      std::string payload = std::to_string(i);
      payload.resize(4096, ' ');
      ASSERT_EQ(a->Send(to, payload), 0);
      TakeSent(a);
    }
  }
  // Polls the completions of sends, checks their order and returns how many there were.
  static int TakeSent(SoftNode* a) {
    int count = 0;
    uint64_t last = 0;
    for (ibv_wc wc; (wc = a->PollSend()).wr_id != 0; ++count) {
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      EXPECT_GT(wc.wr_id, std::exchange(last, wc.wr_id));
    }
    return count;
  }
  void SetLoss(uint32_t ppm, uint64_t seed) {
    ASSERT_TRUE(subnet_.SetFault({"*", "*", FaultRule{.loss_ppm = ppm, .seed = seed}}).ok());
  }
  static int NumberOf(const Received& received) { return std::stoi(received.payload); }

  FakeClock clock_;
  Subnet subnet_;
  SoftPort::Options options_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_PORT_TEST_FIXTURE_H_
