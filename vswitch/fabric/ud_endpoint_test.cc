#include "vswitch/fabric/ud_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "vswitch/fabric/ud_endpoint_test_fixture.h"
#include "vswitch/wire/mgid.h"

namespace eoib {
namespace {

using State = BufferPool::State;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

TEST_F(UdEndpointTest, CreateBringsTheQueuePairToRts) {
  const std::vector<FakeTransition>& steps = hca_.qp()->transitions;
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].attr.qp_state, IBV_QPS_INIT);
  EXPECT_EQ(steps[0].mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
  EXPECT_EQ(steps[0].attr.pkey_index, 3);
  EXPECT_EQ(steps[0].attr.port_num, 1);
  EXPECT_EQ(steps[0].attr.qkey, 0x1234u);
  EXPECT_EQ(steps[1].attr.qp_state, IBV_QPS_RTR);
  EXPECT_EQ(steps[1].mask, IBV_QP_STATE);
  EXPECT_EQ(steps[2].attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(steps[2].mask, IBV_QP_STATE | IBV_QP_SQ_PSN);
  EXPECT_EQ(endpoint_->qpn(), Qpn(0x48));
  EXPECT_EQ(hca_.qp()->qp_type, IBV_QPT_UD);
}

TEST_F(UdEndpointTest, EachFailureOfCreateIsReportedAndLeavesNothing) {
  struct Row {
    const char* verb;
    int skip;
    bool pins;  // pins memory, which the locked-memory limit may forbid
    const char* message;
  };
  static constexpr Row kRows[] = {
      {"create_comp_channel", 0, false,
       "create a completion channel on fake0/1: Cannot allocate memory"},
      {"create_cq", 0, true, "create a completion queue of 40 on fake0/1: Cannot allocate memory"},
      {"create_cq", 1, true, "create a completion queue of 8 on fake0/1: Cannot allocate memory"},
      {"create_qp", 0, true,
       "create a UD QP of 8 sends and 40 receives on fake0/1: Cannot allocate memory"},
      {"modify_qp", 0, false, "modify QP 0x48 to INIT on fake0/1: Cannot allocate memory"},
      {"modify_qp", 1, false, "modify QP 0x48 to RTR on fake0/1: Cannot allocate memory"},
      {"modify_qp", 2, false, "modify QP 0x48 to RTS on fake0/1: Cannot allocate memory"},
  };
  const int before = hca_.alive();
  FakeQp* const qp = hca_.qp();
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.message);
    hca_.FailNext(row.verb, ENOMEM, row.skip);
    const absl::Status status =
        UdEndpoint::Create(&hca_, pd_, pool_.get(), handles_.get(), options_).status();
    EXPECT_THAT(std::string(status.message()), testing::StartsWith(row.message));
    EXPECT_EQ(std::string(status.message()).find("LimitMEMLOCK") != std::string::npos, row.pins);
    EXPECT_EQ(hca_.alive(), before);
  }
  EXPECT_NE(qp, nullptr);
  EXPECT_EQ(UdEndpoint::Create(&hca_, pd_, pool_.get(), handles_.get(), {.send_depth = 0})
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(UdEndpointTest, RefillPostsToTheDepthAndNoFurther) {
  endpoint_->Refill();
  EXPECT_EQ(pool_->count(State::kPosted), static_cast<size_t>(kReceiveDepth));
  ASSERT_THAT(hca_.qp()->receives, SizeIs(kReceiveDepth));
  EXPECT_EQ(hca_.post_receive_calls, 1) << "one chain";
  const FakeReceive& first = hca_.qp()->receives.front();
  const BufferId buffer(static_cast<uint32_t>(first.wr_id));
  EXPECT_EQ(first.sge.addr, reinterpret_cast<uintptr_t>(pool_->Grh(buffer)));
  EXPECT_EQ(first.sge.addr + first.sge.length,
            reinterpret_cast<uintptr_t>(pool_->Frame(buffer)) + pool_->frame_capacity());
  EXPECT_GT(first.sge.length, kGrhSize + 4 + kFrameSize) << "one byte too many is noticed";
  EXPECT_EQ(first.sge.lkey, pool_->lkey());
  endpoint_->Refill();
  EXPECT_EQ(hca_.post_receive_calls, 1) << "nothing is missing";
}

TEST_F(UdEndpointTest, RefillStopsAtAnEmptyPool) {
  std::vector<BufferId> taken;
  while (pool_->count(State::kFree) > 5) taken.push_back(pool_->Allocate());
  endpoint_->Refill();
  EXPECT_EQ(pool_->count(State::kPosted), 5u);
  for (BufferId buffer : taken) pool_->Free(buffer);
  endpoint_->Refill();
  EXPECT_EQ(pool_->count(State::kPosted), static_cast<size_t>(kReceiveDepth));
}

TEST_F(UdEndpointTest, RefusedReceivesReturnToThePool) {
  hca_.post_room = 7;
  endpoint_->Refill();
  EXPECT_EQ(pool_->count(State::kPosted), 7u);
  EXPECT_EQ(pool_->count(State::kFree), kBuffers - 7);
  hca_.post_room = -1;
  hca_.FailNext("post_recv", EINVAL);
  endpoint_->Refill();
  EXPECT_EQ(pool_->count(State::kPosted), 7u);
  endpoint_->Refill();
  EXPECT_EQ(pool_->count(State::kPosted), static_cast<size_t>(kReceiveDepth));
}

TEST_F(UdEndpointTest, ReceiveReadsTheCompletionAndTheGrh) {
  endpoint_->Refill();
  hca_.Deliver(
      Bytes(68),
      {.status = IBV_WC_SUCCESS, .src_qp = 0x77, .wc_flags = IBV_WC_GRH, .slid = 9, .sl = 3});
  Datagram datagrams[4];
  ASSERT_EQ(endpoint_->Receive(absl::MakeSpan(datagrams)), 1u);
  const Datagram& datagram = datagrams[0];
  EXPECT_TRUE(datagram.ok);
  EXPECT_EQ(datagram.length, 68u);
  EXPECT_TRUE(datagram.has_grh);
  EXPECT_EQ(datagram.sgid, kSgid);
  EXPECT_EQ(datagram.dgid, kDgid);
  EXPECT_EQ(datagram.source_qpn, Qpn(0x77));
  EXPECT_EQ(datagram.slid, Lid(9));
  EXPECT_EQ(datagram.sl, Sl(3));
  EXPECT_EQ(pool_->Frame(datagram.buffer)[63], 0x5a);
  EXPECT_EQ(pool_->count(State::kBatch), 1u);
  pool_->Free(datagram.buffer);
  EXPECT_EQ(endpoint_->Receive(absl::MakeSpan(datagrams)), 0u);
}

// rdma-core, ibv_poll_cq(3): the flag means something only on devices that announce the offload.
TEST_F(UdEndpointTest, ChecksumsAreOkOnlyOnADeviceThatAnnouncesTheOffload) {
  for (const bool announced : {false, true}) {
    hca_.device_attr.device_cap_flags = announced ? IBV_DEVICE_UD_IP_CSUM : 0;
    auto endpoint = UdEndpoint::Create(&hca_, hca_.pd(), pool_.get(), handles_.get(),
                                       {.receive_depth = 4, .send_depth = 4});
    ASSERT_TRUE(endpoint.ok());
    (*endpoint)->Refill();
    for (const unsigned flags : {0u, unsigned{IBV_WC_IP_CSUM_OK}}) {
      hca_.Deliver(Bytes(68), {.status = IBV_WC_SUCCESS, .src_qp = 0x77, .wc_flags = flags});
      Datagram datagram;
      ASSERT_EQ((*endpoint)->Receive(absl::MakeSpan(&datagram, 1)), 1u);
      EXPECT_EQ(datagram.checksums_ok, announced && flags != 0);
      pool_->Free(datagram.buffer);
    }
  }
}

TEST_F(UdEndpointTest, ReceiveMarksFailedReceives) {
  struct Row {
    const char* description;
    ibv_wc wc;
    size_t payload;
    bool ok;
    bool has_grh;
  };
  const Row rows[] = {
      {"without a GRH its first 40 bytes mean nothing",
       {.status = IBV_WC_SUCCESS},
       10,
       true,
       false},
      {"empty payload", {.status = IBV_WC_SUCCESS, .wc_flags = IBV_WC_GRH}, 0, true, true},
      {"completed with an error",
       {.status = IBV_WC_LOC_PROT_ERR, .wc_flags = IBV_WC_GRH},
       10,
       false,
       false},
  };
  endpoint_->Refill();
  for (const Row& row : rows) {
    SCOPED_TRACE(row.description);
    hca_.Deliver(Bytes(row.payload), row.wc);
    Datagram datagram;
    ASSERT_EQ(endpoint_->Receive(absl::MakeSpan(&datagram, 1)), 1u);
    EXPECT_EQ(datagram.ok, row.ok);
    EXPECT_EQ(datagram.has_grh, row.has_grh);
    EXPECT_EQ(datagram.sgid.IsZero(), !row.has_grh);
    EXPECT_EQ(datagram.length, row.ok ? row.payload : 0);
    EXPECT_EQ(pool_->count(State::kBatch), 1u) << "in every case the buffer is the batch's";
    pool_->Free(datagram.buffer);
  }
  hca_.Deliver(std::vector<uint8_t>(39));  // less than a GRH
  Datagram datagram;
  ASSERT_EQ(endpoint_->Receive(absl::MakeSpan(&datagram, 1)), 1u);
  EXPECT_FALSE(datagram.ok);
  pool_->Free(datagram.buffer);
}

TEST_F(UdEndpointTest, ReceiveFillsNoMoreThanItsSpan) {
  endpoint_->Refill();
  for (int i = 0; i < kReceiveDepth; ++i) hca_.Deliver(Bytes(static_cast<size_t>(i)));
  std::vector<Datagram> datagrams(33);  // more than one poll takes
  EXPECT_EQ(endpoint_->Receive(absl::MakeSpan(datagrams)), 33u);
  for (size_t i = 0; i < 33; ++i) {
    EXPECT_EQ(datagrams[i].length, i) << "in order";
    pool_->Free(datagrams[i].buffer);
  }
  EXPECT_EQ(endpoint_->Receive(absl::MakeSpan(datagrams)), 7u);
  for (size_t i = 0; i < 7; ++i) pool_->Free(datagrams[i].buffer);
  endpoint_->Refill();
  EXPECT_EQ(pool_->count(State::kPosted), static_cast<size_t>(kReceiveDepth));
}

TEST_F(UdEndpointTest, FlushedReceivesAreNoDatagrams) {
  endpoint_->Refill();
  hca_.Deliver(Bytes(10), {.status = IBV_WC_WR_FLUSH_ERR});
  hca_.Deliver(Bytes(10));
  Datagram datagrams[2];
  ASSERT_EQ(endpoint_->Receive(absl::MakeSpan(datagrams)), 1u);
  EXPECT_TRUE(datagrams[0].ok);
  pool_->Free(datagrams[0].buffer);
  EXPECT_EQ(pool_->count(State::kPosted), static_cast<size_t>(kReceiveDepth) - 2);
  EXPECT_EQ(pool_->count(State::kFree), kBuffers - kReceiveDepth + 2);
}

TEST_F(UdEndpointTest, SendPostsOneChain) {
  std::vector<SendRequest> requests = Requests(3);
  requests[1].qpn = Qpn(Qpn::kMulticast);
  EXPECT_EQ(Send(requests), 3u);
  EXPECT_THAT(result_, Each(DropReason::kNone));
  EXPECT_EQ(hca_.post_send_calls, 1);
  ASSERT_THAT(hca_.qp()->sends, SizeIs(3));
  const FakeSend& first = hca_.qp()->sends[0];
  EXPECT_EQ(first.sge.addr, reinterpret_cast<uintptr_t>(requests[0].payload));
  EXPECT_EQ(first.sge.length, 64u);
  EXPECT_EQ(first.sge.lkey, pool_->lkey());
  EXPECT_EQ(first.ah, hca_.ahs[0].get());
  EXPECT_EQ(first.remote_qpn, 0x99u);
  EXPECT_EQ(first.remote_qkey, 0x8000'1234u) << "high-order bit: the QP's own";
  EXPECT_EQ(hca_.qp()->sends[1].remote_qpn, 0xffffffu);
  EXPECT_EQ(endpoint_->sends_in_flight(), 3u);
  EXPECT_EQ(pool_->count(State::kInFlight), 3u);

  hca_.CompleteSend();
  hca_.CompleteSend();
  EXPECT_EQ(Reap(), 2u);
  EXPECT_EQ(failed_, 0u);
  EXPECT_EQ(endpoint_->sends_in_flight(), 1u);
  EXPECT_EQ(pool_->count(State::kInFlight), 1u);
  EXPECT_EQ(pool_->count(State::kFree), kBuffers - 1);
}

TEST_F(UdEndpointTest, SendWithoutAHandleStaysTheBatchs) {
  std::vector<SendRequest> requests = Requests(4);
  requests[0].ah = AhIndex::None();
  requests[2].ah = AhIndex(77);
  EXPECT_EQ(Send(requests), 2u);
  EXPECT_THAT(result_, ElementsAre(DropReason::kUnresolved, DropReason::kNone,
                                   DropReason::kUnresolved, DropReason::kNone));
  EXPECT_EQ(hca_.qp()->sends[0].wr_id, requests[1].buffer.value());
  EXPECT_EQ(hca_.qp()->sends[1].wr_id, requests[3].buffer.value());
  EXPECT_EQ(pool_->count(State::kBatch), 2u);
  pool_->Free(requests[0].buffer);
  pool_->Free(requests[2].buffer);

  std::vector<SendRequest> none = Requests(1);
  none[0].ah = AhIndex::None();
  EXPECT_EQ(Send(none), 0u);
  EXPECT_EQ(hca_.post_send_calls, 1) << "an empty chain is not posted";
  pool_->Free(none[0].buffer);
  EXPECT_EQ(Send({}), 0u);
}

TEST_F(UdEndpointTest, SendStopsAtTheDepth) {
  const std::vector<SendRequest> requests = Requests(kSendDepth + 2);
  EXPECT_EQ(Send(requests), static_cast<size_t>(kSendDepth));
  EXPECT_EQ(result_[kSendDepth - 1], DropReason::kNone);
  EXPECT_EQ(result_[kSendDepth], DropReason::kSendQueueFull);
  EXPECT_EQ(result_[kSendDepth + 1], DropReason::kSendQueueFull);
  hca_.CompleteSend();
  EXPECT_EQ(Reap(), 1u);
  EXPECT_EQ(Send({requests.begin() + kSendDepth, requests.end()}), 1u) << "one has room now";
  EXPECT_EQ(result_[1], DropReason::kSendQueueFull);
  pool_->Free(requests.back().buffer);
}

TEST_F(UdEndpointTest, IsCongestedWhileOverHalfOfTheSendQueueIsInFlight) {
  EXPECT_EQ(Send(Requests(kSendDepth / 2)), static_cast<size_t>(kSendDepth / 2));
  EXPECT_FALSE(endpoint_->IsCongested());
  EXPECT_EQ(Send(Requests(1)), 1u);
  EXPECT_TRUE(endpoint_->IsCongested());
  hca_.CompleteSend();
  EXPECT_EQ(Reap(), 1u);
  EXPECT_FALSE(endpoint_->IsCongested());
}

// Requests of trains with these lengths.
std::vector<SendRequest> Trains(std::vector<SendRequest> requests,
                                const std::vector<uint8_t>& lengths) {
  size_t i = 0;
  for (const uint8_t length : lengths) {
    for (uint8_t left = length; left > 0; --left) requests[i++].train = left;
  }
  return requests;
}

TEST_F(UdEndpointTest, ATrainIsPostedWholeOrNotAtAll) {
  constexpr uint8_t kFirst = kSendDepth - 2;
  const std::vector<SendRequest> requests = Trains(Requests(kSendDepth + 3), {kFirst, 3, 2});
  EXPECT_EQ(Send(requests), static_cast<size_t>(kSendDepth))
      << "the third one has room where the second has not";
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(result_[i],
              i >= kFirst && i < kFirst + 3u ? DropReason::kSendQueueFull : DropReason::kNone)
        << i;
  }
  EXPECT_EQ(endpoint_->sends_in_flight(), 2u);
  for (int i = 0; i < kFirst - 1; ++i) hca_.CompleteSend();
  EXPECT_EQ(Reap(), 0u) << "the last request decides";
  hca_.CompleteSend();
  EXPECT_EQ(Reap(), 1u);
  EXPECT_EQ(endpoint_->sends_in_flight(), 1u);
  EXPECT_EQ(Send({requests.begin() + kFirst, requests.begin() + kFirst + 3}), 3u);
}

TEST_F(UdEndpointTest, ATrainWithoutAHandleHoldsNone) {
  std::vector<SendRequest> requests = Trains(Requests(3), {3});
  for (SendRequest& request : requests) request.ah = AhIndex(77);
  EXPECT_EQ(Send(requests), 0u);
  EXPECT_THAT(result_, Each(DropReason::kUnresolved));
  for (const SendRequest& request : requests) pool_->Free(request.buffer);
}

TEST_F(UdEndpointTest, RefusedSendsStayTheBatchs) {
  hca_.post_room = 2;
  const std::vector<SendRequest> requests = Requests(4);
  EXPECT_EQ(Send(requests), 2u);
  EXPECT_THAT(result_, ElementsAre(DropReason::kNone, DropReason::kNone, DropReason::kSendQueueFull,
                                   DropReason::kSendQueueFull));
  EXPECT_EQ(pool_->count(State::kBatch), 2u);
  hca_.post_room = -1;
  hca_.FailNext("post_send", EINVAL);
  EXPECT_EQ(Send({requests[2], requests[3]}), 0u);
  EXPECT_THAT(result_, Each(DropReason::kSendError));
  EXPECT_EQ(pool_->count(State::kBatch), 2u);
  EXPECT_EQ(endpoint_->sends_in_flight(), 2u);
  pool_->Free(requests[2].buffer);
  pool_->Free(requests[3].buffer);
}

TEST_F(UdEndpointTest, AHandleLivesUntilItsSendHasCompleted) {
  const AhIndex other = *handles_->Get({kSgid, 6, Sl(0)}, {});
  std::vector<SendRequest> requests = Requests(1);
  requests[0].ah = other;
  EXPECT_EQ(Send(requests), 1u);
  handles_->Put(other);
  EXPECT_EQ(handles_->Reap(), 1u);
  hca_.CompleteSend();
  EXPECT_EQ(Reap(), 1u);
  EXPECT_EQ(handles_->Reap(), 0u);
}

// A failed send moves a real UD QP to SQE: posted sends are flushed, then the queue must be moved
// back to RTS.
TEST_F(UdEndpointTest, AFailedSendIsFlushedAndTheQueueRecovers) {
  EXPECT_EQ(Send(Requests(3)), 3u);
  hca_.CompleteSend(IBV_WC_LOC_LEN_ERR);
  hca_.qp()->state = IBV_QPS_SQE;
  EXPECT_EQ(Reap(), 1u);
  EXPECT_EQ(failed_, 1u);
  const std::vector<SendRequest> refused = Requests(1);
  EXPECT_EQ(Send(refused), 0u) << "until the others are flushed";
  EXPECT_THAT(result_, ElementsAre(DropReason::kSendError));
  EXPECT_EQ(hca_.qp()->state, IBV_QPS_SQE);

  hca_.CompleteSend(IBV_WC_WR_FLUSH_ERR);
  hca_.CompleteSend(IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(Reap(), 2u);
  EXPECT_EQ(failed_, 2u);
  EXPECT_EQ(hca_.qp()->state, IBV_QPS_RTS);
  EXPECT_EQ(Send(refused), 1u);
  hca_.CompleteSend();
  EXPECT_EQ(Reap(), 1u);
  EXPECT_EQ(failed_, 0u);
}

TEST_F(UdEndpointTest, AFailedSendThatLeavesTheQueueAloneChangesNothing) {
  const size_t transitions = hca_.qp()->transitions.size();
  EXPECT_EQ(Send(Requests(1)), 1u);
  hca_.CompleteSend(IBV_WC_GENERAL_ERR);
  EXPECT_EQ(Reap(), 1u);
  EXPECT_EQ(hca_.qp()->transitions.size(), transitions);
  EXPECT_EQ(Send(Requests(1)), 1u);
}

TEST_F(UdEndpointTest, ReapPollsUntilTheQueueIsEmpty) {
  const UdEndpoint::Options options = {.qkey = QKey(1), .receive_depth = 1, .send_depth = 90};
  auto endpoint = *UdEndpoint::Create(&hca_, pd_, pool_.get(), handles_.get(), options);
  const std::vector<SendRequest> requests = Requests(90);
  std::vector<DropReason> result(90);
  EXPECT_EQ(endpoint->Send(requests, absl::MakeSpan(result)), 90u);
  for (int i = 0; i < 90; ++i) hca_.CompleteSend();
  EXPECT_EQ(endpoint->ReapSends(&failed_), 90u);
  EXPECT_EQ(pool_->count(State::kFree), kBuffers);
}

TEST_F(UdEndpointTest, EitherQueueWakesTheWorker) {
  endpoint_->Refill();
  EXPECT_EQ(Send(Requests(2)), 2u);
  hca_.CompleteSend();
  EXPECT_FALSE(Readable()) << "not armed";
  EXPECT_TRUE(endpoint_->Arm().ok());
  hca_.CompleteSend();
  EXPECT_TRUE(Readable());
  endpoint_->DrainEvents();
  EXPECT_FALSE(Readable());

  EXPECT_TRUE(endpoint_->Arm().ok());
  hca_.Deliver(Bytes(10));
  EXPECT_TRUE(Readable());
  endpoint_->DrainEvents();
  endpoint_->DrainEvents();  // nothing there: does not block
  EXPECT_FALSE(Readable());
  EXPECT_EQ(FakeHca::receive_cq(hca_.qp())->unacknowledged, 0u);
  EXPECT_EQ(FakeHca::send_cq(hca_.qp())->unacknowledged, 0u);

  hca_.FailNext("req_notify_cq", EIO);
  EXPECT_EQ(endpoint_->Arm().message(),
            "arm a completion queue of QP 0x48 on fake0/1: Input/output error");
}

TEST_F(UdEndpointTest, AttachesAndDetaches) {
  const Mgid mgid(Gid::FromPrefixAndGuid(0xff12'e01b'8001'ffff, Guid(0xffff'ffff'0000'0000)));
  EXPECT_TRUE(endpoint_->Attach(mgid, Mlid(0xc001)).ok());
  EXPECT_EQ(hca_.qp()->groups.at(mgid.gid()), 0xc001);
  EXPECT_TRUE(endpoint_->Detach(mgid, Mlid(0xc001)).ok());
  EXPECT_EQ(
      endpoint_->Detach(mgid, Mlid(0xc001)).message(),
      "detach QP 0x48 from " + mgid.ToString() + " (MLID 0xc001) on fake0/1: Invalid argument");
  hca_.FailNext("attach_mcast", ENOMEM);
  EXPECT_EQ(
      endpoint_->Attach(mgid, Mlid(0xc001)).message(),
      "attach QP 0x48 to " + mgid.ToString() + " (MLID 0xc001) on fake0/1: Cannot allocate memory");
}

// The kernel does not destroy a QP that is attached to a group. The fixture checks that no object
// is left.
TEST_F(UdEndpointTest, DestructionDetaches) {
  const Mgid mgid(Gid::FromPrefixAndGuid(0xff12'e01b'8001'ffff, Guid(1)));
  const Mgid other(Gid::FromPrefixAndGuid(0xff12'e01b'8001'ffff, Guid(2)));
  EXPECT_TRUE(endpoint_->Attach(mgid, Mlid(0xc001)).ok());
  EXPECT_TRUE(endpoint_->Attach(other, Mlid(0xc001)).ok());
  EXPECT_TRUE(endpoint_->Detach(mgid, Mlid(0xc001)).ok());
  EXPECT_TRUE(endpoint_->Attach(mgid, Mlid(0xc002)).ok());
}

TEST_F(UdEndpointTest, SetQKeyChangesTheQueuePair) {
  EXPECT_TRUE(endpoint_->SetQKey(QKey(0x8000'8001)).ok());
  EXPECT_EQ(hca_.qp()->transitions.back().mask, IBV_QP_QKEY);
  EXPECT_EQ(hca_.qp()->transitions.back().attr.qkey, 0x8000'8001u);
  EXPECT_EQ(Send(Requests(1)), 1u);
  EXPECT_EQ(hca_.qp()->sends[0].remote_qkey, 0x8000'8001u);
  hca_.FailNext("modify_qp", EPERM);
  EXPECT_THAT(endpoint_->SetQKey(QKey(2)).message(),
              HasSubstr("modify QP 0x48 to Q_Key " + QKey(2).ToString() +
                        " on fake0/1: Operation not permitted"));
}

// The fixture's destructor checks that all buffers are free and no handle is in use.
TEST_F(UdEndpointTest, DestructionFreesPostedAndInFlightBuffers) {
  endpoint_->Refill();
  EXPECT_EQ(Send(Requests(5)), 5u);
  hca_.CompleteSend();  // completed, but not reaped
  hca_.Deliver(Bytes(10));
  auto second = *UdEndpoint::Create(&hca_, pd_, pool_.get(), handles_.get(), options_);
  second->Refill();
  second.reset();
  EXPECT_EQ(pool_->count(State::kPosted), static_cast<size_t>(kReceiveDepth))
      << "the other endpoint's stay posted";
  endpoint_.reset();
  EXPECT_EQ(pool_->count(State::kFree), kBuffers);
}

}  // namespace
}  // namespace eoib
