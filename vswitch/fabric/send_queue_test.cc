#include "vswitch/fabric/send_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "vswitch/fabric/ud_endpoint_test_fixture.h"

namespace eoib {
namespace {

using State = BufferPool::State;
using testing::ElementsAre;

// Of an endpoint. The fixture checks that all buffers and handles come back.
class SendQueueTest : public UdEndpointTest {
 protected:
  std::vector<unsigned> Flags() const {
    std::vector<unsigned> flags;
    for (const FakeSend& send : hca_.qp()->sends) flags.push_back(send.flags);
    return flags;
  }
};

TEST_F(SendQueueTest, TheLastOfAChainCompletesAll) {
  std::vector<SendRequest> requests = Requests(3);
  for (SendRequest& request : requests) request.length = 1000;
  EXPECT_EQ(Send(requests), 3u);
  EXPECT_THAT(Flags(), ElementsAre(0, 0, IBV_SEND_SIGNALED));
  hca_.SkipSend();
  hca_.SkipSend();
  EXPECT_EQ(Reap(), 0u);
  EXPECT_EQ(pool_->count(State::kInFlight), 3u);
  hca_.CompleteSend();
  EXPECT_EQ(Reap(), 3u);
  EXPECT_EQ(failed_, 0u);
  EXPECT_EQ(endpoint_->sends_in_flight(), 0u);
  EXPECT_EQ(pool_->count(State::kFree), kBuffers);
}

TEST_F(SendQueueTest, AFailureLeavesThoseBeforeItSuccessful) {
  EXPECT_EQ(Send(Requests(4)), 4u);
  hca_.SkipSend();
  hca_.SkipSend();
  hca_.CompleteSend(IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(Reap(), 3u);
  EXPECT_EQ(failed_, 1u);
  hca_.CompleteSend(IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(Reap(), 1u);
  EXPECT_EQ(failed_, 1u);
  EXPECT_EQ(Send(Requests(1)), 1u);
}

TEST_F(SendQueueTest, AShortPayloadGoesInline) {
  std::vector<SendRequest> requests = Requests(3);
  requests[1].length = 129;
  requests[2].length = 128;
  EXPECT_EQ(Send(requests), 3u);
  EXPECT_THAT(Flags(), ElementsAre(IBV_SEND_INLINE, 0, IBV_SEND_INLINE | IBV_SEND_SIGNALED));
}

TEST_F(SendQueueTest, NothingGoesInlineIfTheHcaRefusesIt) {
  hca_.FailNext("create_qp", EINVAL);
  endpoint_ = *UdEndpoint::Create(&hca_, pd_, pool_.get(), handles_.get(), options_);
  EXPECT_EQ(Send(Requests(1)), 1u);
  EXPECT_THAT(Flags(), ElementsAre(IBV_SEND_SIGNALED));
}

TEST_F(SendQueueTest, NeighboursHoldTheirHandleUntilTheLastHasCompleted) {
  const AhIndex other = *handles_->Get({kSgid, 6, Sl(0)}, {});
  std::vector<SendRequest> requests = Requests(4);
  requests[1].ah = requests[2].ah = other;
  EXPECT_EQ(Send(requests), 4u);
  handles_->Put(other);
  hca_.CompleteSend();
  hca_.CompleteSend();
  EXPECT_EQ(Reap(), 2u);
  EXPECT_EQ(handles_->Reap(), 1u) << "the third one uses it";
  hca_.CompleteSend();
  EXPECT_EQ(Reap(), 1u);
  EXPECT_EQ(handles_->Reap(), 0u);
}

// For each number of requests that the HCA takes: those before the refused ones hold what they
// need, and no more.
TEST_F(SendQueueTest, RefusedRequestsGiveTheirHandlesBack) {
  const AhIndex other = *handles_->Get({kSgid, 6, Sl(0)}, {});
  for (int room = 0; room < 6; ++room) {
    SCOPED_TRACE(room);
    std::vector<SendRequest> requests = Requests(6);
    requests[2].ah = requests[3].ah = other;
    hca_.post_room = room;
    EXPECT_EQ(Send(requests), static_cast<size_t>(room));
    for (size_t i = static_cast<size_t>(room); i < requests.size(); ++i)
      pool_->Free(requests[i].buffer);
    EXPECT_EQ(endpoint_->sends_in_flight(), static_cast<size_t>(room));
    hca_.post_room = -1;
    EXPECT_EQ(Send(Requests(1)), 1u);
    for (int i = 0; i < room; ++i) hca_.SkipSend();
    hca_.CompleteSend();
    EXPECT_EQ(Reap(), static_cast<size_t>(room) + 1) << "the next chain completes them";
    EXPECT_EQ(pool_->count(State::kFree), kBuffers);
  }
  handles_->Put(other);
  EXPECT_EQ(handles_->Reap(), 0u);
}

}  // namespace
}  // namespace eoib
