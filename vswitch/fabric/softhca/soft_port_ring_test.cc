// Rings between ports under load: credit, parking, growth, order, idle rings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "vswitch/fabric/softhca/soft_port_test_fixture.h"

namespace eoib::softhca {
namespace {

TEST_P(SoftPortTest, RingsAreMadeOnFirstUse) {
  auto a = Open("a"), b = Open("b");
  EXPECT_EQ(a->port().rings().outbound, 0u);
  Introduce(a.get(), b.get());
  EXPECT_EQ(a->port().rings().outbound, 1u);
  EXPECT_EQ(a->port().rings().largest_outbound, 64u * 1024);
  EXPECT_EQ(b->port().rings().inbound, 1u);
  EXPECT_EQ(subnet_.Rings().size(), 1u);
}

TEST_P(SoftPortTest, ARingWhoseDescriptorsFoundNoRoomIsCounted) {
  auto a = Open("a"), b = Open("b");
  const PortConfig config = b->config();
  a->port().sink().OnRingOffered(99, {config.lid, config.gid, config.pkeys, config.qpns},
                                 RingEnd());
  a->port().sink().OnRingOpened(98, 97, nullptr);
  EXPECT_EQ(a->counters().ring_failures, 2u);
  EXPECT_EQ(a->counters().corrupt_rings, 0u);
  EXPECT_EQ(a->port().rings().inbound, 0u);
}

TEST_P(SoftPortTest, DataIsCountedInWordsFromTheLrhToTheIcrc) {
  auto a = Open("a"), b = Open("b");
  ASSERT_EQ(a->Send(b->Address(), "12345"), 0);
  b->Receive();
  constexpr uint64_t kWords = (8 + 12 + 8 + 5 + 3 + 4) / 4;  // LRH, BTH, DETH, payload, pad, ICRC
  EXPECT_EQ(a->counters().xmit_data, kWords);
  EXPECT_EQ(b->counters().rcv_data, kWords);
  ASSERT_EQ(a->Send(b->GlobalAddress(), "12345"), 0);
  b->Receive();
  EXPECT_EQ(a->counters().xmit_data, 2 * kWords + 40 / 4);
  EXPECT_EQ(b->counters().rcv_data, 2 * kWords + 40 / 4);
}

TEST_P(SoftPortTest, AStoppedPeerCostsItsMessagesAfterTheHeadOfQueueLifetime) {
  options_.outbound.parking_capacity = 64 * 1024;
  auto a = Open("a"), b = Open("b");
  Introduce(a.get(), b.get());
  // 15 fit into the ring and 15 into the parking queue; the next one finds it full.
  Fill(a.get(), b->Address(), 31);
  EXPECT_EQ(a->port().rings().parked, 15u);
  EXPECT_EQ(a->counters().xmit_discards, 1u);
  EXPECT_EQ(a->port().rings().largest_outbound, 64u * 1024)
      << "a ring that no consumer empties does not grow";
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
  // It takes some, so it is alive, and messages wait for it again.
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
  // Bursts that are faster than the receiver, which takes some records between them.
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
  EXPECT_LE(a->port().rings().largest_outbound, 1024u * 1024);
  EXPECT_TRUE(Eventually([&] {
    b->Poll();
    return subnet_.Rings().size() == 1 && b->port().rings().inbound == 1;
  })) << "smaller rings are closed";
}

TEST_P(SoftPortTest, IdleRingsAreClosedAndMadeAgain) {
  // The background looks four times in this real time.
  options_.outbound.idle_close = absl::Milliseconds(40);
  auto a = Open("a"), b = Open("b");
  Introduce(a.get(), b.get());
  // The fake clock stands still, so no ring idles.
  EXPECT_EQ(a->port().rings().outbound, 1u);
  EXPECT_TRUE(Eventually([&] {
    clock_.Advance(absl::Seconds(1));
    b->Poll();
    return a->port().rings().outbound == 0 && b->port().rings().inbound == 0 &&
           subnet_.Rings().empty();
  }));
  Introduce(a.get(), b.get());
  EXPECT_EQ(b->counters().rcv_delivered, 2u);
}

// A link to a stopped subnet in another process: it accepts requests and answers them when it
// continues.
class StoppableLink final : public SubnetLink {
 public:
  explicit StoppableLink(std::unique_ptr<SubnetLink> link) : link_(std::move(link)) {}
  absl::Status Register(const std::string& name, const PortResources& resources, PortUse use,
                        PortSink* sink) override {
    return link_->Register(name, resources, use, sink);
  }
  void Unregister() override { link_->Unregister(); }
  absl::Status SendMadTo(Lid destination, const Mad& mad) override {
    return link_->SendMadTo(destination, mad);
  }
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
      EXPECT_TRUE(
          link_->OpenRing(request.number, request.destination, std::move(request.end)).ok());
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
    // Makes background threads read the clock.
    EXPECT_TRUE(subnet_.SetFault({"*", "*", FaultRule()}).ok());
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
  // The ring is closed after the subnet answered and the ring has idled again.
  link->Continue();
  EXPECT_TRUE(Eventually([&] {
    time_goes_on();
    b->Poll();
    return a.port().rings().outbound == 0 && c->port().rings().outbound == 0 &&
           b->port().rings().inbound == 0 && subnet_.Rings().empty();
  }));
  Introduce(&a, b.get());
}

// A port's resources for rings: mapped memory files and descriptors.
size_t RingMappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += absl::StrContains(line, "/memfd:ring's") ? 1 : 0;
  return count;
}
size_t OpenDescriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

TEST_P(SoftPortTest, ARingGrowsToItsLargestAndAfterTenIdleSecondsNothingIsLeftOfIt) {
  auto a = Open("a"), b = Open("b");
  const size_t descriptors = OpenDescriptors();
  int sent = 0;
  EXPECT_TRUE(Eventually([&] {
    Fill(a.get(), b->Address(), 1, sent++);
    if (sent % 2 == 0) return false;  // half as fast as they come
    if (const absl::optional<Received> got = b->Poll()) b->PostReceive(got->wc.wr_id);
    return a->port().rings().largest_outbound == 1024u * 1024;
  })) << a->port().rings().largest_outbound;
  while (const absl::optional<Received> got = b->Poll()) b->PostReceive(got->wc.wr_id);
  EXPECT_EQ(subnet_.Rings().at(0).capacity, 1024u * 1024);
  // The background thread looks whenever the port gets fault rules.
  const auto background_looks = [this] {
    EXPECT_TRUE(subnet_.SetFault({"*", "*", FaultRule()}).ok());
  };
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

}  // namespace
}  // namespace eoib::softhca
