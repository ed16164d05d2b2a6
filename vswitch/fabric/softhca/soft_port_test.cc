// Ports and the rings between them: credit, growth, order, faults, death.
#include "vswitch/fabric/softhca/soft_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fdb/clock.h"
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
  EXPECT_EQ(a->port().rings().parked, 5u);
  EXPECT_EQ(a->counters().xmit_discards, 2u);
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

TEST_P(SoftPortTest, LossesAreTheSameForTheSameSeed) {
  std::vector<std::string> patterns;
  for (const uint64_t seed : {5, 5, 6}) {
    auto a = Open("a"), b = Open("b");
    Introduce(a.get(), b.get());
    subnet_.SetLossPpm(300'000, seed);
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
    subnet_.SetLossPpm(0);
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
  ASSERT_TRUE(Eventually([&] { return !b->config().active; }));
  ASSERT_EQ(a->Send(b->Address(), "into the void"), 0);
  EXPECT_TRUE(b->Counts(&PortCounters::rcv_link_down, 1));
  ASSERT_EQ(b->Send(a->Address(), "out of it"), 0);
  EXPECT_EQ(b->PollSend().status, IBV_WC_SUCCESS);
  EXPECT_EQ(b->counters().xmit_discards, 1u);
  ASSERT_TRUE(subnet_.SetLink("b", true).ok());
  ASSERT_TRUE(Eventually([&] { return b->config().active; }));
  Introduce(a.get(), b.get());
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

// ---- A peer that does not keep to the rules, played by the test.

// A port of which the test is the HCA.
class RawPort : public PortSink {
 public:
  RawPort(Subnet* subnet, const std::string& name) : link_(subnet->Connect()) {
    doorbell_ = UniqueFd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    EXPECT_TRUE(link_->Register(name, doorbell_.get(), false, this).ok());
    EXPECT_TRUE(Eventually([this] { return configured_.load(); }));
  }
  ~RawPort() override { link_->Unregister(); }

  void OnPortConfig(const PortConfig& config) override {
    config_ = config;
    configured_ = true;
  }
  void OnMad(const Mad&) override {}
  void OnRingOffered(uint64_t, const SourceIdentity&, RingEnd) override {}
  void OnSourceChanged(uint64_t, const SourceIdentity&) override {}
  void OnRingClosed(uint64_t) override { closed_ = true; }
  void OnRingOpened(uint64_t, uint64_t, std::shared_ptr<UniqueFd>) override { opened_ = true; }
  void OnRingRefused(uint64_t, const std::string&) override {}
  void OnGroup(Mlid, const std::vector<Lid>&) override {}
  void OnFaults(const Faults&) override {}
  void OnSubnetLost() override {}

  std::unique_ptr<SubnetLink> link_;
  UniqueFd doorbell_;
  PortConfig config_;
  // The subnet tells from whatever thread is at it.
  std::atomic<bool> configured_{false};
  std::atomic<bool> opened_{false};
  std::atomic<bool> closed_{false};
};

class RoguePeerTest : public testing::Test {
 protected:
  RoguePeerTest() : victim_(OpenSoftHca(subnet_.Connect(), "victim").value()), rogue_(&subnet_, "rogue") {
    memory_ = RingMemory::CreateShared(64 * 1024).value();
    EXPECT_TRUE(memory_->ReleaseFds(&end_.data, &end_.index));
    end_.capacity = 64 * 1024;
    end_.space = UniqueFd(eventfd(0, EFD_NONBLOCK));
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    liveness_ = UniqueFd(ends[0]);
    end_.liveness = UniqueFd(ends[1]);
  }
  void Offer() {
    ASSERT_TRUE(rogue_.link_->OpenRing(1, victim_.config().lid, std::move(end_)).ok());
    ASSERT_TRUE(Eventually([this] { return rogue_.opened_.load(); }));
    ASSERT_TRUE(Eventually([this] { return victim_.port().rings().inbound == 1; }));
  }
  RecordHeader GoodHeader() {
    RecordHeader header;
    header.destination_qpn = victim_.qpn().value();
    header.source_qpn = rogue_.config_.qpns.first.value();
    header.qkey = 0x1234;
    header.pkey = 0xffff;
    header.dlid = victim_.config().lid.value();
    return header;
  }
  void Write(const RecordHeader& header) {
    uint8_t* record = producer().Reserve(header.length);
    std::memcpy(record, &header, sizeof(header));
    producer().Commit(header.length);
    producer().Publish();
  }
  RingProducer& producer() {
    if (producer_ == nullptr) producer_ = std::make_unique<RingProducer>(memory_);
    return *producer_;
  }

  Subnet subnet_;
  SoftNode victim_;
  RawPort rogue_;
  std::shared_ptr<RingMemory> memory_;
  RingEnd end_;
  UniqueFd liveness_;
  std::unique_ptr<RingProducer> producer_;
};

TEST_F(RoguePeerTest, IdentityComesFromTheSubnetNotFromTheRing) {
  Offer();
  Write(GoodHeader());
  const Received got = victim_.Receive();
  EXPECT_EQ(got.wc.slid, rogue_.config_.lid.value());
  struct Row {
    const char* description;
    std::function<void(RecordHeader*)> forge;
    uint64_t PortCounters::*drop;
  };
  const Row kRows[] = {
      {"another port's QPN", [](RecordHeader* header) { header->source_qpn -= 1; }, &PortCounters::rcv_bad_address},
      {"a P_Key that it has not", [](RecordHeader* header) { header->pkey = 0x8001; }, &PortCounters::rcv_pkey_violations},
      {"longer than the MTU", [](RecordHeader* header) { header->length = 4097; }, &PortCounters::rcv_too_long},
      {"another port's LID", [](RecordHeader* header) { header->dlid += 1; }, &PortCounters::rcv_bad_address},
  };
  uint64_t bad_address = 0;
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.description);
    RecordHeader header = GoodHeader();
    row.forge(&header);
    Write(header);
    const bool is_address = row.drop == &PortCounters::rcv_bad_address;
    bad_address += is_address ? 1 : 0;
    EXPECT_TRUE(victim_.Counts(row.drop, is_address ? bad_address : 1));
  }
  Write(GoodHeader());
  victim_.Receive();
}

TEST_F(RoguePeerTest, ACorruptRingIsClosedAndOthersGoOn) {
  Offer();
  memory_->index()->head = 17;
  SoftNode other(OpenSoftHca(subnet_.Connect(), "other").value());
  ASSERT_EQ(other.Send(victim_.Address(), "unharmed"), 0);
  EXPECT_EQ(victim_.Receive().payload, "unharmed");
  EXPECT_TRUE(victim_.Counts(&PortCounters::corrupt_rings, 1));
  EXPECT_TRUE(Eventually([this] { return victim_.port().rings().inbound == 1 && rogue_.closed_.load(); }));
}

TEST_F(RoguePeerTest, UnsealedMemoryIsRefused) {
  end_.data = UniqueFd(memfd_create("unsealed", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(end_.data.get(), 64 * 1024), 0);
  ASSERT_TRUE(rogue_.link_->OpenRing(1, victim_.config().lid, std::move(end_)).ok());
  EXPECT_TRUE(Eventually([this] { return rogue_.closed_.load(); }));
  EXPECT_EQ(victim_.counters().corrupt_rings, 1u);
  EXPECT_EQ(victim_.port().rings().inbound, 0u);
}

TEST_F(RoguePeerTest, ADeadPeersRingIsEmptiedAndDropped) {
  Offer();
  Write(GoodHeader());
  liveness_.reset();  // what the kernel does when the process ends
  EXPECT_EQ(victim_.Receive().wc.status, IBV_WC_SUCCESS);
  EXPECT_TRUE(Eventually([this] {
    victim_.Poll();
    return victim_.port().rings().inbound == 0;
  }));
}

TEST_F(RoguePeerTest, RingsOfOneSourceAreLimited) {
  Offer();
  for (uint64_t request = 2; request < 20; ++request) {
    RingEnd end;
    end.capacity = 64 * 1024;
    end.local = RingMemory::CreateLocal(end.capacity);
    ASSERT_TRUE(rogue_.link_->OpenRing(request, victim_.config().lid, std::move(end)).ok());
  }
  EXPECT_TRUE(Eventually([this] { return subnet_.Rings().size() == Inbound::kMaxRingsOfSource; }));
  EXPECT_EQ(victim_.port().rings().inbound, Inbound::kMaxRingsOfSource);
}

// ---- Many.

// A simulation's size: each sends to the next, and one to all.
TEST(ManyPortsTest, AThousandPortsInOneProcess) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr size_t kPorts = 100;
#else
  constexpr size_t kPorts = 1000;
#endif
  rlimit files;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  ASSERT_GE(files.rlim_max, 10 * kPorts) << "this test needs more descriptors: raise the hard limit (ulimit -Hn)";
  Subnet subnet;
  std::vector<std::unique_ptr<SoftNode>> nodes;
  for (size_t i = 0; i < kPorts; ++i) {
    absl::StatusOr<std::unique_ptr<Hca>> hca = OpenSoftHca(subnet.Connect(), absl::StrCat("port", i));
    ASSERT_TRUE(hca.ok()) << hca.status();
    nodes.push_back(std::make_unique<SoftNode>(*std::move(hca), NodeOptions{.receives = 2, .receive_size = 256, .sends = 2}));
  }
  for (size_t i = 0; i < kPorts; ++i) ASSERT_EQ(nodes[i]->Send(nodes[(i + 1) % kPorts]->Address(), "next"), 0);
  for (const auto& node : nodes) EXPECT_EQ(node->Receive().payload, "next");
  Mlid mlid;
  for (const auto& node : nodes) {
    mlid = node->Join(kMgid);
    ASSERT_EQ(node->Attach(node->qp(), kMgid, mlid), 0);
  }
  ASSERT_EQ(nodes[0]->Send({mlid.value(), Qpn(Qpn::kMulticast), 0x1234, kMgid}, "all"), 0);
  for (const auto& node : nodes) EXPECT_EQ(node->Receive().payload, "all");
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
