// For which datagrams a producer rings: a system call, and one for the port that must clear it.
#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

#include "vswitch/fabric/softhca/raw_peer_test_fixture.h"

namespace eoib::softhca {
namespace {

// A port with a second queue, as that of an agent with two VESes.
class DoorbellTest : public RawPeerTest {
 protected:
  DoorbellTest() {
    const VerbsTable& verbs = victim_.verbs();
    channel_ = verbs.create_comp_channel(victim_.hca().context());
    other_ = verbs.create_cq(victim_.hca().context(), 8, nullptr, channel_, 0);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = other_;
    init.cap = {4, 4, 1, 1, 0};
    init.qp_type = IBV_QPT_UD;
    other_qp_ = verbs.create_qp(victim_.pd(), &init);
    EXPECT_EQ(victim_.BringUp(other_qp_), 0);
    EXPECT_EQ(victim_.PostReceive(other_qp_, 60, 4136), 0);
    Offer();
  }
  ~DoorbellTest() override {
    EXPECT_EQ(victim_.verbs().destroy_qp(other_qp_), 0);
    EXPECT_EQ(victim_.verbs().destroy_cq(other_), 0);
    EXPECT_EQ(victim_.verbs().destroy_comp_channel(channel_), 0);
  }

  // Takes all that has arrived, as an agent does. Returns how many datagrams are for the queue that
  // this thread polls.
  int Poll() {
    ibv_wc completions[8];
    const int count = ibv_poll_cq(victim_.receive_cq(), 8, completions);
    for (int i = 0; i < count; ++i) EXPECT_EQ(victim_.PostReceive(completions[i].wr_id), 0);
    return count;
  }
  // Sends a datagram to that queue, and receives it. Returns whether the port asks to be rung for
  // it.
  bool RingsForOne() {
    Write(GoodHeader());
    const bool rings = is_asked_to_ring_;
    EXPECT_EQ(Poll(), 1);
    return rings;
  }
  bool IsArmed() { return memory_->index()->armed.load() != 0; }

  ibv_comp_channel* channel_;
  ibv_cq* other_;
  ibv_qp* other_qp_;
};

TEST_F(DoorbellTest, AnArmedQueueOfAThreadThatPollsAnotherOneAsksForNone) {
  ASSERT_EQ(ibv_req_notify_cq(other_, 0), 0);
  EXPECT_TRUE(RingsForOne()) << "it may be asleep";
  EXPECT_TRUE(Eventually([this] { return !RingsForOne(); }));
}

TEST_F(DoorbellTest, AThreadThatPollsNoMoreAsksSoon) {
  ASSERT_EQ(ibv_req_notify_cq(other_, 0), 0);
  ASSERT_TRUE(Eventually([this] { return !RingsForOne(); }));
  EXPECT_TRUE(Eventually([this] { return IsArmed(); }));
  RecordHeader header = GoodHeader();
  header.destination_qpn = other_qp_->qp_num;
  Write(header);
  EXPECT_TRUE(is_asked_to_ring_);
}

TEST_F(DoorbellTest, ASleepingThreadIsWokenForARecordThatNobodyRangFor) {
  EXPECT_TRUE(Eventually([this] {
    EXPECT_EQ(ibv_req_notify_cq(other_, 0), 0);
    RingsForOne();
    RecordHeader header = GoodHeader();
    header.destination_qpn = other_qp_->qp_num;
    Write(header);
    const bool unasked = !is_asked_to_ring_;
    EXPECT_TRUE(unasked || Poll() == 0) << "a poll takes the record in place of the doorbell";
    pollfd sleeper = {channel_->fd, POLLIN, 0};
    EXPECT_EQ(poll(&sleeper, 1, 20'000), 1);
    ibv_cq* cq;
    void* context;
    EXPECT_EQ(victim_.verbs().get_cq_event(channel_, &cq, &context), 0);
    victim_.verbs().ack_cq_events(cq, 1);
    ibv_wc completion;
    EXPECT_EQ(ibv_poll_cq(other_, 1, &completion), 1);
    EXPECT_EQ(victim_.PostReceive(other_qp_, 60, 4136), 0);
    return unasked;
  }));
}

TEST_F(DoorbellTest, AQueueThatAnotherThreadArmedAsksAlways) {
  std::thread([this] { ASSERT_EQ(ibv_req_notify_cq(other_, 0), 0); }).join();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(RingsForOne());
  ASSERT_EQ(ibv_req_notify_cq(victim_.send_cq(), 0), 0) << "so that two threads have armed queues";
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(RingsForOne());
}

}  // namespace
}  // namespace eoib::softhca
