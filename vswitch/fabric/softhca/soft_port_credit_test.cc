// Back-pressure: a full ring holds back the completions of sends, for a bounded time.
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "vswitch/fabric/softhca/soft_port_test_fixture.h"

namespace eoib::softhca {
namespace {

constexpr int kRingful = 15;  // datagrams of 4,096 bytes in a ring of 64 KiB
constexpr absl::Duration kLifetime = absl::Milliseconds(5);

class CreditTest : public SoftPortTest {
 protected:
  CreditTest() { options_.outbound.largest_capacity = options_.outbound.first_capacity; }

  // Sends `count` datagrams of 4,096 bytes and polls nothing.
  void Post(SoftNode* a, const Destination& to, int count) {
    for (int i = 0; i < count; ++i) ASSERT_EQ(a->Send(to, std::string(4096, 'x')), 0);
  }
  static void ReceiveOne(SoftNode* b) { ASSERT_EQ(b->PostReceive(b->Receive().wc.wr_id), 0); }
};
INSTANTIATE_TEST_SUITE_P(Memory, CreditTest, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Files" : "InProcess"; });

TEST_P(CreditTest, AMessageThatWaitsForRoomHoldsBackTheCompletionsBehindItInOrder) {
  auto a = Open("a"), full = Open("full"), other = Open("other");
  Introduce(a.get(), full.get());
  Introduce(a.get(), other.get());
  Post(a.get(), full->Address(), kRingful);
  EXPECT_EQ(TakeSent(a.get()), kRingful);
  Post(a.get(), full->Address(), 1);
  ASSERT_EQ(a->Send(other->Address(), "unsignaled", 0), 0);
  ASSERT_EQ(a->Send(other->Address(), "too long" + std::string(4096, 'x')), 0);
  EXPECT_EQ(other->Receive().payload, "unsignaled") << "is not held itself";
  EXPECT_EQ(TakeSent(a.get()), 0);
  ReceiveOne(full.get());
  const ibv_wc waited = a->PollSend(), failed = a->PollSend();
  EXPECT_EQ(waited.status, IBV_WC_SUCCESS);
  EXPECT_EQ(failed.status, IBV_WC_LOC_LEN_ERR) << "polling found the room";
  EXPECT_EQ(failed.wr_id, waited.wr_id + 2);
  EXPECT_EQ(a->port().rings().parked, 0u);
}

TEST_P(CreditTest, HeldCompletionsFillTheSendQueue) {
  auto a = Open("a", {.sends = 32}), b = Open("b");
  Introduce(a.get(), b.get());
  Post(a.get(), b->Address(), kRingful);
  EXPECT_EQ(TakeSent(a.get()), kRingful);
  Post(a.get(), b->Address(), 32);
  EXPECT_EQ(TakeSent(a.get()), 0);
  EXPECT_EQ(a->Send(b->Address(), "x"), ENOMEM);
  for (int i = 0; i < kRingful; ++i) ReceiveOne(b.get());
  EXPECT_GT(TakeSent(a.get()), 0);
  EXPECT_EQ(a->Send(b->Address(), "x"), 0);
}

TEST_P(CreditTest, ABurstOfASendQueueToASlowReceiverLosesNothing) {
  constexpr int kDepth = 512;
  options_.outbound = OutboundOptions();
  auto a = Open("a", {.sends = kDepth}), b = Open("b");
  Introduce(a.get(), b.get());
  int sent = 0, received = 0;
  while (received < 10 * kDepth) {
    while (a->Send(b->Address(), std::to_string(sent) + std::string(4000, ' ')) == 0) ++sent;
    const Received got = b->Receive();
    ASSERT_EQ(NumberOf(got), received++);
    ASSERT_EQ(b->PostReceive(got.wc.wr_id), 0);
    TakeSent(a.get());
  }
  EXPECT_EQ(a->counters().xmit_discards, 0u);
  EXPECT_LE(a->port().rings().largest_outbound, 1024u * 1024);
}

TEST_P(CreditTest,
       AStoppedDestinationHoldsCompletionsForOneLifetimeThenCostsNothingUntilItsRingHasRoom) {
  auto a = Open("a"), stopped = Open("stopped"), other = Open("other");
  Introduce(a.get(), stopped.get());
  Introduce(a.get(), other.get());
  Post(a.get(), stopped->Address(), kRingful + 1);
  ASSERT_EQ(a->Send(other->Address(), "beside it"), 0);
  EXPECT_EQ(TakeSent(a.get()), kRingful);
  clock_.Advance(kLifetime - absl::Nanoseconds(1));
  EXPECT_EQ(TakeSent(a.get()), 0);
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(TakeSent(a.get()), 2) << "without the background thread's help";
  EXPECT_EQ(a->counters().xmit_discards, 1u);
  for (int i = 0; i < 3; ++i) {
    Post(a.get(), stopped->Address(), 1);
    EXPECT_EQ(TakeSent(a.get()), 1) << "discarded at once";
    clock_.Advance(kLifetime);
  }
  EXPECT_EQ(a->counters().xmit_discards, 4u);
  // It goes on: what finds no room waits again.
  for (int i = 0; i < kRingful; ++i) ReceiveOne(stopped.get());
  Post(a.get(), stopped->Address(), kRingful + 1);
  EXPECT_EQ(TakeSent(a.get()), kRingful);
  EXPECT_EQ(a->counters().xmit_discards, 4u);
  EXPECT_EQ(a->port().rings().parked, 1u);
}

TEST_P(CreditTest, AStoppedMemberHoldsAMulticastForOneLifetime) {
  auto a = Open("a"), stopped = Open("stopped"), other = Open("other");
  const Mlid mlid = stopped->Join(kMgid);
  other->Join(kMgid);
  ASSERT_EQ(other->Attach(other->qp(), kMgid, mlid), 0);
  const Destination group = {mlid.value(), Qpn(Qpn::kMulticast), 0x1234, kMgid};
  Introduce(a.get(), stopped.get());
  for (int i = 0; i < kRingful; ++i) {
    Post(a.get(), group, 1);
    ReceiveOne(other.get());
  }
  EXPECT_EQ(TakeSent(a.get()), kRingful);
  Post(a.get(), group, 1);
  ReceiveOne(other.get());
  EXPECT_EQ(TakeSent(a.get()), 0);
  clock_.Advance(kLifetime);
  EXPECT_EQ(TakeSent(a.get()), 1);
  Post(a.get(), group, 1);
  ReceiveOne(other.get());
  EXPECT_EQ(TakeSent(a.get()), 1);
  EXPECT_EQ(a->counters().xmit_discards, 2u);
}

// While a ring is made, messages wait for up to a second, for which no queue pair may stop.
TEST_P(CreditTest, AMessageThatWaitsForARingHoldsNothing) {
  options_.outbound.first_capacity = 16 * 1024;
  options_.outbound.largest_capacity = 16 * 1024;
  auto a = Open("a"), b = Open("b");
  Introduce(a.get(), b.get());
  Post(a.get(), b->Address(), 4);
  EXPECT_EQ(TakeSent(a.get()), 3);
  // The ring goes while the fourth waits. It is not held any longer than it would have been.
  ASSERT_TRUE(subnet_.SetLink("b", false).ok());
  clock_.Advance(kLifetime);
  EXPECT_TRUE(Eventually([&] { return TakeSent(a.get()) == 1; }));
  EXPECT_EQ(a->counters().Sending(), 0);
}

TEST_P(CreditTest, ASleepingSenderIsWokenWhenThereIsRoomAndWhenTheLifetimeIsOver) {
  auto a = Open("a"), b = Open("b");
  Introduce(a.get(), b.get());
  const auto sleep = [&](auto until_awake) {
    ASSERT_EQ(ibv_req_notify_cq(a->send_cq(), 0), 0);
    ASSERT_EQ(TakeSent(a.get()), 0);
    until_awake();
    ibv_cq* cq;
    void* context;
    ASSERT_EQ(a->verbs().get_cq_event(a->channel(), &cq, &context), 0);
    EXPECT_EQ(cq, a->send_cq());
    a->verbs().ack_cq_events(cq, 1);
    EXPECT_EQ(TakeSent(a.get()), 1);
  };
  Post(a.get(), b->Address(), kRingful + 1);
  EXPECT_EQ(TakeSent(a.get()), kRingful);
  sleep([&] {
    for (int i = 0; i < kRingful; ++i) ReceiveOne(b.get());
  });
  Post(a.get(), b->Address(), kRingful);
  EXPECT_EQ(TakeSent(a.get()), kRingful - 1);
  sleep([&] { clock_.Advance(kLifetime); });
}

TEST_P(CreditTest, AQueuePairThatIsResetOrRemovedForgetsWhatItHolds) {
  auto a = Open("a"), b = Open("b");
  Introduce(a.get(), b.get());
  ibv_qp* other = a->MakeQp();
  Post(a.get(), b->Address(), kRingful + 1);
  EXPECT_EQ(TakeSent(a.get()), kRingful);
  ASSERT_EQ(a->Send(other, b->Address(), "waits, too"), 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  ASSERT_EQ(a->verbs().modify_qp(a->qp(), &attr, IBV_QP_STATE), 0);
  ASSERT_EQ(a->BringUp(a->qp()), 0);
  for (int i = 0; i < kRingful; ++i) ReceiveOne(b.get());
  EXPECT_EQ(a->PollSend().qp_num, other->qp_num);
  EXPECT_EQ(TakeSent(a.get()), 0);
  ReceiveOne(b.get());
  EXPECT_EQ(b->Receive().payload, "waits, too");
  Post(a.get(), b->Address(), 1);
  EXPECT_EQ(TakeSent(a.get()), 1) << "the reset queue pair is as good as new";
}

TEST_P(CreditTest, AQueuePairInErrorHoldsNothing) {
  auto a = Open("a", {.post_receives = false}), b = Open("b");
  Introduce(a.get(), b.get());
  Post(a.get(), b->Address(), kRingful + 2);
  EXPECT_EQ(TakeSent(a.get()), kRingful);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(a->verbs().modify_qp(a->qp(), &attr, IBV_QP_STATE), 0);
  EXPECT_EQ(TakeSent(a.get()), 2);
}

}  // namespace
}  // namespace eoib::softhca
