// Completion events: which sleepers are woken, and that none is forgotten.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "vswitch/fabric/softhca/soft_hca_test_fixture.h"

namespace eoib::softhca {
namespace {

// Takes and acknowledges an event. Returns 0 or errno.
int TakeEvent(SoftNode* node) {
  fcntl(node->channel()->fd, F_SETFL, O_NONBLOCK);
  ibv_cq* cq;
  void* context;
  if (node->verbs().get_cq_event(node->channel(), &cq, &context) != 0) return errno;
  node->verbs().ack_cq_events(cq, 1);
  return 0;
}

TEST_F(SoftHcaTest, AnArmedQueueRaisesOneEvent) {
  SoftNode a(Open("a")), b(Open("b"));
  ASSERT_EQ(a.Send(b.Address(), "before"), 0);
  b.Receive();
  EXPECT_FALSE(IsReadable(b.channel()->fd)) << "not armed";
  ASSERT_EQ(ibv_req_notify_cq(b.receive_cq(), 0), 0);
  EXPECT_FALSE(IsReadable(b.channel()->fd));
  EXPECT_EQ(TakeEvent(&b), EAGAIN);
  ASSERT_EQ(a.Send(b.Address(), "1"), 0);
  EXPECT_TRUE(IsReadable(b.channel()->fd, 10'000));
  EXPECT_EQ(TakeEvent(&b), 0);
  EXPECT_EQ(TakeEvent(&b), EAGAIN);
  EXPECT_FALSE(IsReadable(b.channel()->fd));
  ASSERT_EQ(a.Send(b.Address(), "2"), 0);
  // The doorbell may ring for another reason, such as a new ring; that is no event.
  IsReadable(b.channel()->fd, 20);
  EXPECT_EQ(TakeEvent(&b), EAGAIN) << "one event for one arming";
  EXPECT_EQ(b.Receive().payload, "1");
  EXPECT_EQ(b.Receive().payload, "2");
}

TEST_F(SoftHcaTest, OnlySolicitedWakes) {
  SoftNode a(Open("a")), b(Open("b"));
  ASSERT_EQ(ibv_req_notify_cq(b.receive_cq(), 1), 0);
  ASSERT_EQ(a.Send(b.Address(), "plain"), 0);
  EXPECT_EQ(TakeEvent(&b), EAGAIN);
  ASSERT_EQ(a.Send(b.Address(), "solicited", IBV_SEND_SIGNALED | IBV_SEND_SOLICITED), 0);
  EXPECT_TRUE(IsReadable(b.channel()->fd, 10'000))
      << "a drop or a plain one in between does not use up the doorbell";
  EXPECT_EQ(TakeEvent(&b), 0);
  EXPECT_EQ(b.Receive().payload, "plain");
  EXPECT_EQ(b.Receive().payload, "solicited");
}

TEST_F(SoftHcaTest, ADroppedDatagramDoesNotUseUpTheEvent) {
  SoftNode a(Open("a")), b(Open("b"));
  ASSERT_EQ(ibv_req_notify_cq(b.receive_cq(), 0), 0);
  Destination wrong = b.Address();
  wrong.qkey = 1;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(a.Send(wrong, "dropped"), 0);
    EXPECT_TRUE(IsReadable(b.channel()->fd, 10'000));
    EXPECT_EQ(TakeEvent(&b), EAGAIN);
    EXPECT_FALSE(IsReadable(b.channel()->fd));
  }
  ASSERT_EQ(a.Send(b.Address(), "good"), 0);
  EXPECT_TRUE(IsReadable(b.channel()->fd, 10'000));
  EXPECT_EQ(TakeEvent(&b), 0);
}

// Two queue pairs of a port with a channel each: the one that takes the records wakes the other for
// its share.
TEST_F(SoftHcaTest, EachChannelHearsOfItsOwn) {
  SoftNode a(Open("a"));
  std::unique_ptr<Hca> hca = Open("b");
  Hca* shared = hca.get();
  SoftNode b(std::move(hca));
  const VerbsTable& verbs = b.verbs();
  ibv_comp_channel* channel = verbs.create_comp_channel(shared->context());
  ibv_cq* cq = verbs.create_cq(shared->context(), 8, &a, channel, 0);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.cap = {4, 4, 1, 1, 0};
  init.qp_type = IBV_QPT_UD;
  ibv_qp* qp = verbs.create_qp(b.pd(), &init);
  ASSERT_EQ(b.BringUp(qp), 0);
  ASSERT_EQ(b.PostReceive(qp, 60, 4136), 0);

  ASSERT_EQ(ibv_req_notify_cq(b.receive_cq(), 0), 0);
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  Destination to = b.Address();
  to.qpn = Qpn(qp->qp_num);
  ASSERT_EQ(a.Send(to, "for the other"), 0);
  EXPECT_TRUE(IsReadable(b.channel()->fd, 10'000)) << "they share the doorbell";
  EXPECT_EQ(TakeEvent(&b), EAGAIN) << "but this one has nothing";
  EXPECT_TRUE(IsReadable(channel->fd, 10'000));
  ibv_cq* ready;
  void* context;
  ASSERT_EQ(verbs.get_cq_event(channel, &ready, &context), 0);
  EXPECT_EQ(ready, cq);
  EXPECT_EQ(context, &a);
  ASSERT_EQ(a.Send(b.Address(), "for this"), 0);
  EXPECT_TRUE(IsReadable(b.channel()->fd, 10'000)) << "still armed";
  EXPECT_EQ(TakeEvent(&b), 0);
  verbs.ack_cq_events(cq, 1);
  EXPECT_EQ(verbs.destroy_qp(qp), 0);
  EXPECT_EQ(verbs.destroy_cq(cq), 0);
  EXPECT_EQ(verbs.destroy_comp_channel(channel), 0);
}

// The datagrams of a busy queue pair wait in the ring until it has receives again, however often
// another queue is polled.
TEST_F(SoftHcaTest, PollingAnIdleQueueDoesNotRunABusyOneOutOfReceives) {
  SoftNode a(Open("a"), {.sends = 512}), b(Open("b"), {.receives = 64});
  ibv_cq* idle = b.verbs().create_cq(b.hca().context(), 8, nullptr, nullptr, 0);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = idle;
  init.cap = {4, 4, 1, 1, 0};
  init.qp_type = IBV_QPT_UD;
  ibv_qp* qp = b.verbs().create_qp(b.pd(), &init);
  ASSERT_EQ(b.BringUp(qp), 0);

  constexpr int kDatagrams = 200;
  for (int i = 0; i < kDatagrams; ++i) ASSERT_EQ(a.Send(b.Address(), "busy"), 0);
  ibv_wc completions[64];
  int received = 0;
  for (int turn = 0; turn < kDatagrams && received < kDatagrams; ++turn) {
    EXPECT_EQ(ibv_poll_cq(idle, 64, completions), 0);
    const int got = ibv_poll_cq(b.receive_cq(), 64, completions);
    for (int i = 0; i < got; ++i)
      ASSERT_EQ(b.PostReceive(static_cast<uint32_t>(completions[i].wr_id)), 0);
    received += got;
  }
  EXPECT_EQ(received, kDatagrams);
  EXPECT_EQ(b.counters().rcv_no_receive, 0u);
  EXPECT_EQ(b.verbs().destroy_qp(qp), 0);
  EXPECT_EQ(b.verbs().destroy_cq(idle), 0);
}

// A worker that wakes asks all its channels, and then polls.
TEST_F(SoftHcaTest, AskingAnIdleChannelDoesNotRunABusyQueueOutOfReceives) {
  SoftNode a(Open("a"), {.sends = 512}), b(Open("b"), {.receives = 128});
  ibv_comp_channel* channel = b.verbs().create_comp_channel(b.hca().context());
  fcntl(channel->fd, F_SETFL, O_NONBLOCK);
  ibv_cq* idle = b.verbs().create_cq(b.hca().context(), 8, nullptr, channel, 0);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = idle;
  init.cap = {4, 4, 1, 1, 0};
  init.qp_type = IBV_QPT_UD;
  ibv_qp* qp = b.verbs().create_qp(b.pd(), &init);
  ASSERT_EQ(b.BringUp(qp), 0);
  ASSERT_EQ(ibv_req_notify_cq(idle, 0), 0);

  constexpr int kDatagrams = 200;
  for (int i = 0; i < kDatagrams; ++i) ASSERT_EQ(a.Send(b.Address(), "busy"), 0);
  ibv_wc completions[128];
  int received = 0;
  for (int turn = 0; turn < kDatagrams && received < kDatagrams; ++turn) {
    ibv_cq* ready;
    void* context;
    EXPECT_NE(b.verbs().get_cq_event(channel, &ready, &context), 0);
    const int got = ibv_poll_cq(b.receive_cq(), 128, completions);
    for (int i = 0; i < got; ++i)
      ASSERT_EQ(b.PostReceive(static_cast<uint32_t>(completions[i].wr_id)), 0);
    received += got;
  }
  EXPECT_EQ(received, kDatagrams);
  EXPECT_EQ(b.counters().rcv_no_receive, 0u);
  EXPECT_EQ(b.verbs().destroy_qp(qp), 0);
  EXPECT_EQ(b.verbs().destroy_cq(idle), 0);
  EXPECT_EQ(b.verbs().destroy_comp_channel(channel), 0);
}

// Poll, arm, poll once more, sleep: no arrival is missed, whenever it comes.
TEST_F(SoftHcaTest, NoWakeUpIsLost) {
  constexpr int kMessages = 3000;
  SoftNode a(Open("a")), b(Open("b"));
  std::thread receiver([&b] {
    for (int got = 0; got < kMessages;) {
      const absl::optional<Received> received = b.Poll();
      if (received.has_value()) {
        ASSERT_EQ(received->payload, std::to_string(got));
        ++got;
        ASSERT_EQ(b.PostReceive(received->wc.wr_id), 0);
        continue;
      }
      ASSERT_EQ(ibv_req_notify_cq(b.receive_cq(), 0), 0);
      if (const absl::optional<Received> late = b.Poll()) {
        ASSERT_EQ(late->payload, std::to_string(got));
        ++got;
        ASSERT_EQ(b.PostReceive(late->wc.wr_id), 0);
        continue;
      }
      ASSERT_TRUE(IsReadable(b.channel()->fd, 20'000)) << "slept through message " << got;
      TakeEvent(&b);
    }
  });
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_EQ(a.Send(b.Address(), std::to_string(i)), 0);
    a.PollSend();
    // Waiting now and then makes the receiver sleep; otherwise it lags behind and finds some
    // records at once.
    if (i % 3 == 0) continue;
    ASSERT_TRUE(Eventually([&] { return b.counters().rcv_delivered >= static_cast<uint64_t>(i); }));
  }
  receiver.join();
  EXPECT_EQ(b.counters().rcv_delivered, static_cast<uint64_t>(kMessages));
}

}  // namespace
}  // namespace eoib::softhca
