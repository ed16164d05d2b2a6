// SoftPort: faults, changes of links and LIDs, death, threads.
#include "vswitch/fabric/softhca/soft_port.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "vswitch/base/event_fd.h"
#include "vswitch/fabric/softhca/soft_port_test_fixture.h"

namespace eoib::softhca {
namespace {

INSTANTIATE_TEST_SUITE_P(Memory, SoftPortTest, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Files" : "InProcess"; });

// ---- Faults.

TEST_P(SoftPortTest, LossIsOfOnePairAndDirection) {
  auto a = Open("a"), b = Open("b"), c = Open("c");
  ASSERT_TRUE(subnet_.SetFault({"a", "b", FaultRule{.loss_ppm = 1'000'000}}).ok());
  ASSERT_EQ(a->Send(b->Address(), "lost"), 0);
  EXPECT_TRUE(b->Counts(&SoftPortCounters::rcv_simulated_losses, 1));
  for (const auto& [from, to] :
       {std::pair(a.get(), c.get()), std::pair(c.get(), b.get()), std::pair(b.get(), a.get())}) {
    ASSERT_EQ(from->Send(to->Address(), "unharmed"), 0);
    EXPECT_EQ(to->Receive().payload, "unharmed");
  }
  EXPECT_EQ(subnet_.CountersOf("b")->rcv_simulated_losses, 1u);
}

TEST_P(SoftPortTest, EachMemberLosesItsOwnCopyOfAMulticastAndALoopbackIsSpared) {
  auto a = Open("a"), b = Open("b"), c = Open("c");
  Mlid mlid;
  for (SoftNode* node : {a.get(), b.get(), c.get()}) {
    mlid = node->Join(kMgid);
    ASSERT_EQ(node->Attach(node->qp(), kMgid, mlid), 0);
  }
  ASSERT_TRUE(Eventually([&] { return subnet_.Groups().at(0).members.size() == 3; }));
  ASSERT_TRUE(subnet_.SetFault({"a", "b", FaultRule{.loss_ppm = 1'000'000}}).ok());
  ASSERT_TRUE(subnet_.SetFault({"*", "a", FaultRule{.loss_ppm = 1'000'000}}).ok());
  ASSERT_EQ(a->Send({mlid.value(), Qpn(Qpn::kMulticast), 0x1234, kMgid}, "all"), 0);
  EXPECT_EQ(a->Receive().payload, "all") << "its own";
  EXPECT_EQ(c->Receive().payload, "all");
  EXPECT_TRUE(b->Counts(&SoftPortCounters::rcv_simulated_losses, 1));
  EXPECT_EQ(a->counters().xmit_multicast_packets, 1u);
  EXPECT_EQ(c->counters().rcv_multicast_packets, 1u);
}

TEST_P(SoftPortTest, ADelayedDatagramIsPolledWhenItIsDue) {
  auto a = Open("a"), b = Open("b");
  Introduce(a.get(), b.get());
  ASSERT_TRUE(subnet_.SetFault({"a", "*", FaultRule{.delay = absl::Milliseconds(50)}}).ok());
  Fill(a.get(), b->Address(), 5);
  EXPECT_TRUE(b->Counts(&SoftPortCounters::rcv_simulated_delays, 5));
  clock_.Advance(absl::Milliseconds(49));
  EXPECT_FALSE(b->Poll().has_value());
  clock_.Advance(absl::Milliseconds(1));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(NumberOf(b->Receive()), i);
}

TEST_P(SoftPortTest, ASleepingReceiverIsWokenWhenADelayedDatagramIsDue) {
  const MonotonicClock real;
  options_.clock = &real;
  auto a = Open("a"), b = Open("b");
  Introduce(a.get(), b.get());
  constexpr absl::Duration kDelay = absl::Milliseconds(30);
  ASSERT_TRUE(subnet_.SetFault({"*", "b", FaultRule{.delay = kDelay}}).ok());
  for (int turn = 0; turn < 5; ++turn) {
    ASSERT_EQ(ibv_req_notify_cq(b->receive_cq(), 0), 0);
    EXPECT_FALSE(b->Poll().has_value());
    const absl::Time sent = real.Now();
    Fill(a.get(), b->Address(), 1, turn);
    ibv_cq* cq;
    void* context;
    // Sleeps; only the end of the delay wakes it.
    ASSERT_EQ(b->verbs().get_cq_event(b->channel(), &cq, &context), 0);
    EXPECT_GE(real.Now() - sent, kDelay);
    EXPECT_LT(real.Now() - sent, kDelay + absl::Seconds(2));
    b->verbs().ack_cq_events(cq, 1);
    EXPECT_EQ(NumberOf(b->Receive()), turn);
  }
}

TEST_P(SoftPortTest, LossesAreTheSameForTheSameSeed) {
  std::vector<std::string> patterns;
  for (const uint64_t seed : {5, 5, 6}) {
    auto a = Open("a"), b = Open("b");
    Introduce(a.get(), b.get());
    SetLoss(300'000, seed);
    std::string pattern;
    for (int i = 0; i < 200; ++i) {
      const uint64_t lost = b->counters().rcv_simulated_losses;
      ASSERT_EQ(a->Send(b->Address(), std::to_string(i)), 0);
      a->PollSend();
      absl::optional<Received> got;
      ASSERT_TRUE(Eventually([&] {
        return (got = b->Poll()).has_value() || b->counters().rcv_simulated_losses > lost;
      }));
      pattern += got.has_value() ? '.' : 'x';
      if (got.has_value()) {
        ASSERT_EQ(b->PostReceive(got->wc.wr_id), 0);
      }
    }
    subnet_.ClearFaults();
    patterns.push_back(pattern);
  }
  EXPECT_EQ(patterns[0], patterns[1]);
  EXPECT_NE(patterns[0], patterns[2]);
  const auto losses = std::count(patterns[0].begin(), patterns[0].end(), 'x');
  EXPECT_GT(losses, 30);
  EXPECT_LT(losses, 90);
}

TEST_P(SoftPortTest, ALinkThatIsDownDropsBothWays) {
  auto a = Open("a"), b = Open("b");
  Introduce(a.get(), b.get());
  ASSERT_TRUE(subnet_.SetLink("b", false).ok());
  ASSERT_TRUE(Eventually([&] { return !b->config().active && a->port().rings().outbound == 0; }));
  ASSERT_EQ(a->Send(b->Address(), "into the void"), 0);
  EXPECT_TRUE(Eventually([&] { return a->counters().xmit_unreachable == 1; }));
  ASSERT_EQ(b->Send(a->Address(), "out of it"), 0);
  EXPECT_EQ(b->PollSend().status, IBV_WC_SUCCESS);
  EXPECT_EQ(b->counters().xmit_discards, 1u);
  ASSERT_TRUE(subnet_.SetLink("b", true).ok());
  ASSERT_TRUE(Eventually([&] { return b->config().active; }));
  clock_.Advance(options_.outbound.refusal_pause);
  Introduce(a.get(), b.get());
}

TEST_P(SoftPortTest, RecordsInTheRingsOfALinkThatGoesDownAreNotReceived) {
  auto a = Open("a"), b = Open("b");
  Introduce(a.get(), b.get());
  PortConfig down = b->config();
  down.active = false;
  b->port().sink().OnPortConfig(down);
  ASSERT_EQ(a->Send(b->Address(), "too late"), 0);
  EXPECT_TRUE(b->Counts(&SoftPortCounters::rcv_link_down, 1));
}

TEST_P(SoftPortTest, ALidWithoutAPortIsUnreachable) {
  auto a = Open("a");
  ASSERT_EQ(a->Send({999, Qpn(5), 0, absl::nullopt}, "x"), 0);
  EXPECT_TRUE(Eventually([&] { return a->counters().xmit_unreachable == 1; }));
  ASSERT_EQ(a->Send({999, Qpn(5), 0, absl::nullopt}, "x"), 0);
  EXPECT_TRUE(Eventually([&] { return a->counters().xmit_unreachable == 2; }));
  EXPECT_EQ(subnet_.Ports().at(0).rings_refused, 1u) << "not asked for every datagram";
  auto b = Open("b");
  clock_.Advance(absl::Seconds(1));
  Introduce(a.get(), b.get());
}

TEST_P(SoftPortTest, ANewLidIsReachedAndTheOldOneIsNot) {
  auto a = Open("a"), b = Open("b");
  Introduce(a.get(), b.get());
  const Destination old = b->Address();
  ASSERT_TRUE(subnet_.SetLid("b", Lid(0x50)).ok());
  ASSERT_TRUE(Eventually([&] { return b->config().lid == Lid(0x50); }));
  ASSERT_TRUE(Eventually([&] { return a->port().rings().outbound == 0; }))
      << "the ring to the old LID is closed";
  ASSERT_EQ(a->Send(old, "to the old LID"), 0);
  EXPECT_TRUE(Eventually([&] { return a->counters().xmit_unreachable == 1; }));
  Introduce(a.get(), b.get());
  Introduce(b.get(), b.get());
  // The source's identity is updated as well.
  ASSERT_EQ(b->Send(a->Address(), "from the new LID"), 0);
  EXPECT_EQ(a->Receive().wc.slid, 0x50);
}

TEST_P(SoftPortTest, ARestartedPeerIsReachedAgain) {
  auto a = Open("a"), b = Open("b");
  Introduce(a.get(), b.get());
  const Qpn before = b->qpn();
  const Lid lid = b->config().lid;
  b.reset();
  ASSERT_TRUE(Eventually([&] { return a->port().rings().outbound == 0; }));
  b = Open("b");
  EXPECT_EQ(b->config().lid, lid);
  EXPECT_NE(b->qpn(), before);
  clock_.Advance(absl::Seconds(1));
  Introduce(a.get(), b.get());
}

TEST_P(SoftPortTest, ALostSubnetLeavesRingsAndItsReturnRenewsThem) {
  auto a = Open("a"), b = Open("b");
  Introduce(a.get(), b.get());
  const uint64_t ring = subnet_.Rings().at(0).ring;
  SoftPort& port = a->port();
  port.sink().OnSubnetLost();
  Introduce(a.get(), b.get());
  port.sink().OnPortConfig(port.config());
  ibv_async_event event;
  ASSERT_EQ(a->verbs().get_async_event(a->hca().context(), &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_CLIENT_REREGISTER);
  EXPECT_TRUE(Eventually([&] {
    b->Poll();
    return subnet_.Rings().size() == 1 && subnet_.Rings().at(0).ring != ring;
  }));
  Introduce(a.get(), b.get());
  EXPECT_EQ(a->counters().xmit_discards, 0u);
}

// Like ibv_destroy_qp: no later event names the queue pair.
TEST_P(SoftPortTest, ADestroyedQueuePairLeavesNoEvents) {
  auto a = Open("a");
  const VerbsTable& verbs = a->verbs();
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = a->receive_cq();
  attributes.qp_type = IBV_QPT_UD;
  ibv_qp* second = verbs.create_qp(a->qp()->pd, &attributes);
  ASSERT_NE(second, nullptr);
  PortConfig other_qpns = a->config();
  other_qpns.qpns.first = Qpn(other_qpns.qpns.first.value() ^ PortTable::kQpnsPerPort);
  a->port().sink().OnPortConfig(other_qpns);
  ASSERT_EQ(verbs.destroy_qp(second), 0);
  ibv_context* context = a->hca().context();
  fcntl(context->async_fd, F_SETFL, O_NONBLOCK);
  ibv_async_event event;
  ASSERT_EQ(verbs.get_async_event(context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_FATAL);
  EXPECT_EQ(event.element.qp, a->qp());
  EXPECT_EQ(verbs.get_async_event(context, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

// A program on hardware may end with its last completion, since the HCA has the message.
TEST_P(SoftPortTest, APortThatLingersSendsWhatItHasTakenBeforeItEnds) {
  options_.linger = absl::Seconds(20);
  auto a = Open("a"), b = Open("b");
  Introduce(a.get(), b.get());
  constexpr int kMessages = 40;
  Fill(a.get(), b->Address(), kMessages);
  ASSERT_GT(a->port().rings().parked, 0u) << "more than the ring has room for";
  std::thread end([&a] { a.reset(); });
  for (int i = 0; i < kMessages; ++i) EXPECT_EQ(NumberOf(b->Receive()), i);
  end.join();
}

// ---- Threads.

// Several threads on each of two ports, with everything that runs beside the data path. For
// ThreadSanitizer.
TEST_P(SoftPortTest, ManyThreads) {
  const MonotonicClock real;
  options_.clock = &real;
  options_.outbound.idle_close = absl::Milliseconds(20);
  auto a = Open("a"), b = Open("b");
  const Mlid mlid = a->Join(kMgid);
  b->Join(kMgid);
  ASSERT_EQ(a->Attach(a->qp(), kMgid, mlid), 0);
  ASSERT_EQ(b->Attach(b->qp(), kMgid, mlid), 0);
  std::atomic<bool> stop{false};
  std::atomic<int> received{0};
  std::vector<std::thread> threads;
  for (SoftNode* node : {a.get(), b.get()}) {
    SoftNode* peer = node == a.get() ? b.get() : a.get();
    threads.emplace_back([=, &stop, &received] {  // a worker
      while (!stop) {
        node->Send({mlid.value(), Qpn(Qpn::kMulticast), 0x1234, kMgid}, "group");
        node->Send(peer->Address(), std::string(2000, 'x'));
        for (int i = 0; i < 2; ++i) node->PollSend();
        while (const auto got = node->Poll()) {
          ++received;
          node->PostReceive(got->wc.wr_id);
        }
        ibv_req_notify_cq(node->receive_cq(), 0);
      }
    });
    threads.emplace_back([=, &stop] {  // an observer
      while (!stop) {
        node->counters();
        node->hca().QueryPort().IgnoreError();
        node->port().rings();
        std::this_thread::yield();
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(subnet_.SetLink("a", i % 2 == 1).ok());
    ASSERT_TRUE(subnet_.SetLid("b", Lid(static_cast<uint16_t>(100 + i))).ok());
    const int before = received;
    ASSERT_TRUE(Eventually([&] { return received > before + 10; }));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace eoib::softhca
