// Ports and the rings between them: credit, growth, order, faults, death.
#include "vswitch/fabric/softhca/soft_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "fdb/clock.h"
#include "vswitch/fabric/softhca/event_fd.h"
#include "vswitch/fabric/softhca/soft_node_for_test.h"

namespace eoib::softhca {
namespace {

using Received = SoftNode::Received;

const Gid kMgid = Gid::FromPrefixAndGuid(0xff12'e01b'ffff'ffff, Guid(0xffff'ffff'0000'0000));

// Every test runs with rings in this process's memory and with rings in memory files.
class SoftPortTest : public testing::TestWithParam<bool> {
 protected:
  SoftPortTest() { options_.clock = &clock_; }

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
  // A ring from `a` to `b` that is empty.
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
      ASSERT_EQ(a->PollSend().status, IBV_WC_SUCCESS) << "the HCA has taken it";
    }
  }
  void SetLoss(uint32_t ppm, uint64_t seed) {
    ASSERT_TRUE(subnet_.SetFault({"*", "*", FaultRule{.loss_ppm = ppm, .seed = seed}}).ok());
  }
  static int NumberOf(const Received& received) { return std::stoi(received.payload); }

  FakeClock clock_;
  Subnet subnet_;
  SoftPort::Options options_;
};
INSTANTIATE_TEST_SUITE_P(Memory, SoftPortTest, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Files" : "InProcess"; });

TEST_P(SoftPortTest, RingsAreMadeOnFirstUse) {
  auto a = Open("a"), b = Open("b");
  EXPECT_EQ(a->port().rings().outbound, 0u);
  Introduce(a.get(), b.get());
  EXPECT_EQ(a->port().rings().outbound, 1u);
  EXPECT_EQ(a->port().rings().largest_outbound, 64u * 1024);
  EXPECT_EQ(b->port().rings().inbound, 1u);
  EXPECT_EQ(subnet_.Rings().size(), 1u);
}

TEST_P(SoftPortTest, AStoppedPeerCostsItsMessagesAfterTheHeadOfQueueLifetime) {
  options_.outbound.parking_capacity = 64 * 1024;
  auto a = Open("a"), b = Open("b");
  Introduce(a.get(), b.get());
  // 15 go into the ring and 15 into the queue; the next finds it full.
  Fill(a.get(), b->Address(), 31);
  EXPECT_EQ(a->port().rings().parked, 15u);
  EXPECT_EQ(a->counters().xmit_discards, 1u);
  EXPECT_EQ(a->port().rings().largest_outbound, 64u * 1024) << "a ring that nobody empties does not grow";
  clock_.Advance(absl::Milliseconds(4));
  Fill(a.get(), b->Address(), 1);
  EXPECT_EQ(a->port().rings().parked, 15u) << "not yet";
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(Eventually([&] { return a->counters().xmit_discards == 17u; }));
  EXPECT_EQ(a->port().rings().parked, 0u);
  for (int i = 0; i < 15; ++i) EXPECT_EQ(NumberOf(b->Receive()), i);
  EXPECT_FALSE(b->Poll().has_value());
}

TEST_P(SoftPortTest, APeerThatHasTakenNothingForTheHeadOfQueueLifetimeIsNotWaitedFor) {
  auto a = Open("a"), b = Open("b");
  Introduce(a.get(), b.get());
  Fill(a.get(), b->Address(), 16);
  EXPECT_EQ(a->port().rings().parked, 1u);
  clock_.Advance(absl::Milliseconds(5));
  ASSERT_TRUE(Eventually([&] { return a->counters().xmit_discards == 1u; }));
  Fill(a.get(), b->Address(), 1, 16);
  EXPECT_EQ(a->port().rings().parked, 0u);
  EXPECT_EQ(a->counters().xmit_discards, 2u) << "at once";
  // It takes some: it lives, and is worth the wait again.
  EXPECT_EQ(NumberOf(b->Receive()), 0);
  clock_.Advance(absl::Seconds(1));
  Fill(a.get(), b->Address(), 20, 17);
  EXPECT_EQ(a->counters().xmit_discards, 2u) << "15 find room, the others wait";
  for (int i = 1; i < 15; ++i) EXPECT_EQ(NumberOf(b->Receive()), i);
  for (int i = 17; i < 37; ++i) EXPECT_EQ(NumberOf(b->Receive()), i);
}

TEST_P(SoftPortTest, ParkedMessagesFollowAsSoonAsThereIsRoom) {
  auto a = Open("a"), b = Open("b");
  Introduce(a.get(), b.get());
  Fill(a.get(), b->Address(), 40);
  EXPECT_EQ(a->port().rings().parked, 25u);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(NumberOf(b->Receive()), i) << "in order";
  EXPECT_EQ(a->counters().xmit_discards, 0u);
}

TEST_P(SoftPortTest, OneStoppedMemberStopsNoOther) {
  options_.outbound.parking_capacity = 64 * 1024;
  auto a = Open("a"), stopped = Open("stopped"), b = Open("b");
  const Mlid mlid = stopped->Join(kMgid);
  b->Join(kMgid);
  ASSERT_EQ(b->Attach(b->qp(), kMgid, mlid), 0);
  const Destination group = {mlid.value(), Qpn(Qpn::kMulticast), 0x1234, kMgid};
  for (int i = 0; i < 60; ++i) {
    Fill(a.get(), group, 1, i);
    const Received got = b->Receive();
    EXPECT_EQ(NumberOf(got), i);
    ASSERT_EQ(b->PostReceive(got.wc.wr_id), 0);
  }
  EXPECT_EQ(a->counters().xmit_discards, 60u - 30u) << "all of the stopped member's";
  EXPECT_EQ(a->counters().xmit_packets, 60u);
}

TEST_P(SoftPortTest, RingsGrowUnderLoadAndKeepOrder) {
  auto a = Open("a"), b = Open("b");
  Introduce(a.get(), b.get());
  int sent = 0, received = 0;
  // Bursts that outrun the receiver, which takes some between them.
  for (int burst = 0; burst < 60; ++burst) {
    Fill(a.get(), b->Address(), 30, sent);
    sent += 30;
    while (received < sent - 10) {
      const Received got = b->Receive();
      ASSERT_EQ(NumberOf(got), received++);
      ASSERT_EQ(b->PostReceive(got.wc.wr_id), 0);
    }
  }
  while (received < sent) {
    const Received got = b->Receive();
    ASSERT_EQ(NumberOf(got), received++);
    ASSERT_EQ(b->PostReceive(got.wc.wr_id), 0);
  }
  EXPECT_EQ(a->counters().xmit_discards, 0u);
  EXPECT_GT(a->port().rings().largest_outbound, 64u * 1024);
  EXPECT_LE(a->port().rings().largest_outbound, 4u * 1024 * 1024);
  EXPECT_TRUE(Eventually([&] {
    b->Poll();
    return subnet_.Rings().size() == 1 && b->port().rings().inbound == 1;
  })) << "smaller rings are closed";
}

TEST_P(SoftPortTest, IdleRingsAreClosedAndMadeAgain) {
  options_.outbound.idle_close = absl::Milliseconds(40);  // the background looks four times in this real time
  auto a = Open("a"), b = Open("b");
  Introduce(a.get(), b.get());
  // The fake clock stands still: nothing idles.
  EXPECT_EQ(a->port().rings().outbound, 1u);
  EXPECT_TRUE(Eventually([&] {
    clock_.Advance(absl::Seconds(1));
    b->Poll();
    return a->port().rings().outbound == 0 && b->port().rings().inbound == 0 && subnet_.Rings().empty();
  }));
  Introduce(a.get(), b.get());
  EXPECT_EQ(b->counters().rcv_delivered, 2u);
}

// To a subnet in another process that is stopped: it takes requests, and answers them when it goes on.
class StoppableLink final : public SubnetLink {
 public:
  explicit StoppableLink(std::unique_ptr<SubnetLink> link) : link_(std::move(link)) {}
  absl::Status Register(const std::string& name, const PortResources& resources, bool query_only, PortSink* sink) override {
    return link_->Register(name, resources, query_only, sink);
  }
  void Unregister() override { link_->Unregister(); }
  absl::Status SendMadTo(Lid destination, const Mad& mad) override { return link_->SendMadTo(destination, mad); }
  absl::Status OpenRing(uint64_t request, Lid destination, RingEnd end) override {
    {
      absl::MutexLock lock(&mutex_);
      if (stopped_) {
        waiting_.push_back({request, destination, std::move(end)});
        return absl::OkStatus();
      }
    }
    return link_->OpenRing(request, destination, std::move(end));
  }
  void CloseRing(uint64_t ring) override { link_->CloseRing(ring); }
  bool in_process() const override { return link_->in_process(); }

  void Stop() {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  void Continue() {
    std::vector<Request> waiting;
    {
      absl::MutexLock lock(&mutex_);
      stopped_ = false;
      waiting.swap(waiting_);
    }
    for (Request& request : waiting) {
      EXPECT_TRUE(link_->OpenRing(request.number, request.destination, std::move(request.end)).ok());
    }
  }
  size_t waiting() const {
    absl::MutexLock lock(&mutex_);
    return waiting_.size();
  }

 private:
  struct Request {
    uint64_t number;
    Lid destination;
    RingEnd end;
  };
  const std::unique_ptr<SubnetLink> link_;
  mutable absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Request> waiting_ ABSL_GUARDED_BY(mutex_);
};

TEST_P(SoftPortTest, IdleRingsStayWhileTheSubnetIsStoppedAndCouldNotMakeThemAgain) {
  auto stoppable = std::make_unique<StoppableLink>(Connect());
  StoppableLink* link = stoppable.get();
  absl::StatusOr<std::unique_ptr<Hca>> hca = OpenSoftHca(std::move(stoppable), "a", options_);
  ASSERT_TRUE(hca.ok()) << hca.status();
  SoftNode a(*std::move(hca));
  auto b = Open("b"), c = Open("c");
  Introduce(&a, b.get());
  Introduce(c.get(), b.get());
  const auto time_goes_on = [this] {
    clock_.Advance(absl::Milliseconds(500));
    EXPECT_TRUE(subnet_.SetFault({"*", "*", FaultRule()}).ok());  // so that backgrounds look at the clock
  };
  link->Stop();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Eventually([&] {
      time_goes_on();
      b->Poll();
      return c->port().rings().outbound == 0 && link->waiting() != 0;
    }));
    Introduce(c.get(), b.get());
  }
  EXPECT_EQ(a.port().rings().outbound, 1u);
  EXPECT_EQ(link->waiting(), 1u) << "asked for once, however long it takes";
  Introduce(&a, b.get());
  // It goes when the subnet answers again and it has idled anew.
  link->Continue();
  EXPECT_TRUE(Eventually([&] {
    time_goes_on();
    b->Poll();
    return a.port().rings().outbound == 0 && c->port().rings().outbound == 0 && b->port().rings().inbound == 0 &&
           subnet_.Rings().empty();
  }));
  Introduce(&a, b.get());
}

// What a port holds of rings: memory files that are mapped, and descriptors.
size_t RingMappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += absl::StrContains(line, "/memfd:ring's") ? 1 : 0;
  return count;
}
size_t OpenDescriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

TEST_P(SoftPortTest, ARingGrowsToItsLargestAndAfterTenIdleSecondsNothingIsLeftOfIt) {
  auto a = Open("a"), b = Open("b");
  RingSharedEventFd(MakeEventFd().get());  // opens what the process keeps for all doorbells
  const size_t descriptors = OpenDescriptors();
  int sent = 0;
  EXPECT_TRUE(Eventually([&] {
    Fill(a.get(), b->Address(), 1, sent++);
    if (sent % 2 == 0) return false;  // half as fast as they come
    if (const absl::optional<Received> got = b->Poll()) b->PostReceive(got->wc.wr_id);
    return a->port().rings().largest_outbound == 4u * 1024 * 1024;
  })) << a->port().rings().largest_outbound;
  while (const absl::optional<Received> got = b->Poll()) b->PostReceive(got->wc.wr_id);
  EXPECT_EQ(subnet_.Rings().at(0).capacity, 4u * 1024 * 1024);
  // It looks whenever the port is told of faults.
  const auto background_looks = [this] { EXPECT_TRUE(subnet_.SetFault({"*", "*", FaultRule()}).ok()); };
  background_looks();
  clock_.Advance(absl::Seconds(9));
  background_looks();
  std::this_thread::yield();
  EXPECT_EQ(a->port().rings().outbound, 1u) << "not yet";
  EXPECT_TRUE(Eventually([&] {
    clock_.Advance(absl::Milliseconds(500));
    background_looks();
    b->Poll();
    return a->port().rings().outbound == 0 && b->port().rings().inbound == 0;
  }));
  EXPECT_TRUE(Eventually([&] { return RingMappings() == 0 && OpenDescriptors() == descriptors; }))
      << RingMappings() << " mappings, " << OpenDescriptors() << " descriptors of " << descriptors;
}

TEST_P(SoftPortTest, LoopbackParksAndGrowsLikeAnyOther) {
  auto a = Open("a");
  Introduce(a.get(), a.get());
  for (int turn = 0; turn < 10; ++turn) {
    Fill(a.get(), a->Address(), 40, 40 * turn);
    for (int i = 0; i < 40; ++i) {
      const Received got = a->Receive();
      ASSERT_EQ(NumberOf(got), 40 * turn + i);
      ASSERT_EQ(a->PostReceive(got.wc.wr_id), 0);
    }
  }
  EXPECT_EQ(a->counters().xmit_discards, 0u);
  EXPECT_TRUE(subnet_.Rings().empty()) << "the subnet has no part in it";
}

// ---- Faults.

TEST_P(SoftPortTest, LossIsOfOnePairAndDirection) {
  auto a = Open("a"), b = Open("b"), c = Open("c");
  ASSERT_TRUE(subnet_.SetFault({"a", "b", FaultRule{.loss_ppm = 1'000'000}}).ok());
  ASSERT_EQ(a->Send(b->Address(), "lost"), 0);
  EXPECT_TRUE(b->Counts(&PortCounters::rcv_simulated_losses, 1));
  for (const auto& [from, to] : {std::pair(a.get(), c.get()), std::pair(c.get(), b.get()), std::pair(b.get(), a.get())}) {
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
  EXPECT_TRUE(b->Counts(&PortCounters::rcv_simulated_losses, 1));
  EXPECT_EQ(a->counters().xmit_multicast_packets, 1u);
  EXPECT_EQ(c->counters().rcv_multicast_packets, 1u);
}

TEST_P(SoftPortTest, WhatIsDelayedIsPolledWhenItIsDue) {
  auto a = Open("a"), b = Open("b");
  Introduce(a.get(), b.get());
  ASSERT_TRUE(subnet_.SetFault({"a", "*", FaultRule{.delay = absl::Milliseconds(50)}}).ok());
  Fill(a.get(), b->Address(), 5);
  EXPECT_TRUE(b->Counts(&PortCounters::rcv_simulated_delays, 5));
  clock_.Advance(absl::Milliseconds(49));
  EXPECT_FALSE(b->Poll().has_value());
  clock_.Advance(absl::Milliseconds(1));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(NumberOf(b->Receive()), i);
}

TEST_P(SoftPortTest, WhoSleepsIsWokenWhenWhatIsDelayedIsDue) {
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
    ASSERT_EQ(b->verbs().get_cq_event(b->channel(), &cq, &context), 0);  // sleeps, and nothing but the delay's end ends it
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
      ASSERT_TRUE(Eventually([&] { return (got = b->Poll()).has_value() || b->counters().rcv_simulated_losses > lost; }));
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
  EXPECT_TRUE(Eventually([&] { return a->counters().xmit_discards == 1; }));
  ASSERT_EQ(b->Send(a->Address(), "out of it"), 0);
  EXPECT_EQ(b->PollSend().status, IBV_WC_SUCCESS);
  EXPECT_EQ(b->counters().xmit_discards, 1u);
  ASSERT_TRUE(subnet_.SetLink("b", true).ok());
  ASSERT_TRUE(Eventually([&] { return b->config().active; }));
  clock_.Advance(options_.outbound.refusal_pause);
  Introduce(a.get(), b.get());
}

TEST_P(SoftPortTest, WhatIsInTheRingsOfALinkThatGoesDownIsNotReceived) {
  auto a = Open("a"), b = Open("b");
  Introduce(a.get(), b.get());
  PortConfig down = b->config();
  down.active = false;
  b->port().OnPortConfig(down);
  ASSERT_EQ(a->Send(b->Address(), "too late"), 0);
  EXPECT_TRUE(b->Counts(&PortCounters::rcv_link_down, 1));
}

TEST_P(SoftPortTest, NobodyAtThatLid) {
  auto a = Open("a");
  ASSERT_EQ(a->Send({999, Qpn(5), 0, absl::nullopt}, "x"), 0);
  EXPECT_TRUE(Eventually([&] { return a->counters().xmit_discards == 1; }));
  ASSERT_EQ(a->Send({999, Qpn(5), 0, absl::nullopt}, "x"), 0);
  EXPECT_TRUE(Eventually([&] { return a->counters().xmit_discards == 2; }));
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
  ASSERT_TRUE(Eventually([&] { return a->port().rings().outbound == 0; })) << "the ring to the old LID is closed";
  ASSERT_EQ(a->Send(old, "to the old LID"), 0);
  EXPECT_TRUE(Eventually([&] { return a->counters().xmit_discards == 1; }));
  Introduce(a.get(), b.get());
  Introduce(b.get(), b.get());
  // The source's identity follows as well.
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
  port.OnSubnetLost();
  Introduce(a.get(), b.get());
  port.OnPortConfig(port.config());
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

// Its producer would have renewed it. Who does not wants to keep what it had before: another LID, a P_Key.
TEST_P(SoftPortTest, ARingThatARestartedSubnetDoesNotKnowIsClosed) {
  auto a = Open("a"), b = Open("b");
  Introduce(a.get(), b.get());
  b->port().OnSubnetLost();
  b->port().OnPortConfig(b->port().config());
  EXPECT_EQ(b->port().rings().inbound, 1u);
  clock_.Advance(absl::Seconds(10));
  b->port().OnFaults({});  // so that the background looks at the clock
  EXPECT_TRUE(Eventually([&] {
    b->Poll();
    return b->port().rings().inbound == 0;
  }));
}

// ---- Threads.

// Several threads on each of two ports, with all that happens beside the data path. For ThreadSanitizer.
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
    threads.emplace_back([=, &stop] {  // somebody who looks
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
