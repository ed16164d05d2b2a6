// UdEndpoint: failures of its queue pair, completion queues or device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "vswitch/fabric/ud_endpoint_test_fixture.h"
#include "vswitch/wire/mgid.h"

namespace eoib {
namespace {

using State = BufferPool::State;
using testing::ElementsAre;
using testing::HasSubstr;

// ---- Failures that need a new queue pair.

TEST_F(UdEndpointTest, ASendQueueThatStaysInErrorFailsTheEndpoint) {
  struct Row {
    const char* description;
    ibv_qp_state state;
    const char* verb;  // that fails; empty: none
  };
  const Row rows[] = {
      {"in ERR there is no way back to RTS", IBV_QPS_ERR, ""},
      {"the HCA refuses to take it back", IBV_QPS_SQE, "modify_qp"},
      {"the HCA says nothing", IBV_QPS_SQE, "query_qp"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.description);
    endpoint_ = *UdEndpoint::Create(&hca_, pd_, pool_.get(), handles_.get(), options_);
    const std::vector<SendRequest> requests = Requests(1);
    EXPECT_EQ(Send(requests), 1u);
    hca_.CompleteSend(IBV_WC_LOC_QP_OP_ERR);
    hca_.qp()->state = row.state;
    hca_.FailNext(row.verb, EIO);
    EXPECT_FALSE(endpoint_->failed());
    EXPECT_EQ(Reap(), 1u);
    EXPECT_TRUE(endpoint_->failed());
    const std::vector<SendRequest> refused = Requests(1);
    EXPECT_EQ(Send(refused), 0u);
    EXPECT_THAT(result_, ElementsAre(DropReason::kSendError));
    pool_->Free(refused[0].buffer);
    endpoint_->Refill();
    EXPECT_EQ(pool_->count(State::kPosted), 0u) << "a receive posted now would be flushed for ever";
  }
}

TEST_F(UdEndpointTest, AReceiveThatMovesTheQueuePairToErrFailsTheEndpoint) {
  struct Row {
    const char* description;
    ibv_wc_status status;
    ibv_qp_state state;
    const char* verb;  // that fails; empty: none
    bool fails;
  };
  const Row rows[] = {
      {"the buffer was no good: the QP is in ERR", IBV_WC_LOC_PROT_ERR, IBV_QPS_ERR, "", true},
      {"flushed: whatever was first, it is in ERR, and need not be asked", IBV_WC_WR_FLUSH_ERR,
       IBV_QPS_RTS, "", true},
      {"the HCA says nothing of its state", IBV_WC_LOC_LEN_ERR, IBV_QPS_RTS, "query_qp", true},
      {"one datagram was no good, and the QP goes on", IBV_WC_LOC_LEN_ERR, IBV_QPS_RTS, "", false},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.description);
    endpoint_ = *UdEndpoint::Create(&hca_, pd_, pool_.get(), handles_.get(), options_);
    endpoint_->Refill();
    hca_.Deliver(std::vector<uint8_t>(100), {.status = row.status});
    hca_.qp()->state = row.state;
    hca_.FailNext(row.verb, EIO);
    std::vector<Datagram> datagrams(8);
    for (const Datagram& datagram :
         absl::MakeSpan(datagrams).first(endpoint_->Receive(absl::MakeSpan(datagrams)))) {
      EXPECT_FALSE(datagram.ok);
      pool_->Free(datagram.buffer);
    }
    EXPECT_EQ(endpoint_->failed(), row.fails);
    const size_t posted = hca_.qp()->receives.size();
    endpoint_->Refill();
    EXPECT_EQ(hca_.qp()->receives.size(), posted + (row.fails ? 0 : 1));
  }
}

TEST_F(UdEndpointTest, ACompletionQueueThatCannotBeReadFailsTheEndpoint) {
  hca_.FailNext("poll_cq", EIO);
  Datagram datagram;
  EXPECT_EQ(endpoint_->Receive(absl::MakeSpan(&datagram, 1)), 0u);
  EXPECT_TRUE(endpoint_->failed());

  endpoint_ = *UdEndpoint::Create(&hca_, pd_, pool_.get(), handles_.get(), options_);
  EXPECT_EQ(Send(Requests(1)), 1u);
  hca_.FailNext("poll_cq", EIO);
  EXPECT_EQ(Reap(), 0u);
  EXPECT_TRUE(endpoint_->failed());

  endpoint_ = *UdEndpoint::Create(&hca_, pd_, pool_.get(), handles_.get(), options_);
  endpoint_->DrainEvents();
  EXPECT_FALSE(endpoint_->failed()) << "there was no event, that is all";
  hca_.FailNext("get_cq_event", EIO);
  endpoint_->DrainEvents();
  EXPECT_TRUE(endpoint_->failed()) << "the channel of a device that is gone is readable for ever";
}

// Since Linux 6.3, and in stable kernels: "RDMA/uverbs: Restrict usage of privileged QKEYs".
TEST_F(UdEndpointTest, AControlledQKeyNeedsAPrivilegeOnNewerKernels) {
  hca_.FailNext("modify_qp", EPERM);
  const UdEndpoint::Options controlled = {.qkey = QKey(0x8000'8001)};
  const absl::Status created =
      UdEndpoint::Create(&hca_, pd_, pool_.get(), handles_.get(), controlled).status();
  EXPECT_THAT(std::string(created.message()),
              testing::AllOf(testing::StartsWith("modify QP 0x48 to INIT on fake0/1: Operation"),
                             testing::HasSubstr("CAP_NET_RAW")));
  hca_.FailNext("modify_qp", EPERM);
  EXPECT_THAT(std::string(endpoint_->SetQKey(QKey(0x8000'0001)).message()),
              testing::HasSubstr("CAP_NET_RAW"));
  hca_.FailNext("modify_qp", EPERM);
  EXPECT_THAT(std::string(endpoint_->SetQKey(QKey(1)).message()),
              testing::Not(testing::HasSubstr("CAP_NET_RAW")));
}

// The driver was unloaded under the process: objects that cannot be destroyed are dropped.
TEST_F(UdEndpointTest, DestructionOnALostDeviceFreesAllBuffers) {
  const UdEndpoint::Options options = {.qkey = QKey(1), .receive_depth = 4, .send_depth = 4};
  auto endpoint = *UdEndpoint::Create(&hca_, pd_, pool_.get(), handles_.get(), options);
  ASSERT_TRUE(endpoint->Attach(FloodMgid(PKey(0x8001)), Mlid(0xc001)).ok());
  endpoint->Refill();
  ASSERT_EQ(pool_->count(State::kPosted), 4u);
  for (const char* verb : {"detach_mcast", "destroy_qp", "destroy_cq", "destroy_comp_channel"})
    hca_.FailNext(verb, EIO);
  endpoint.reset();
  EXPECT_EQ(pool_->count(State::kPosted), 0u);
}

}  // namespace
}  // namespace eoib
