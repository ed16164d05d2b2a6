// A hostile peer beside peers that keep to the rules: all on one port.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "vswitch/fabric/softhca/event_fd.h"
#include "vswitch/fabric/softhca/hostile_peer_for_test.h"
#include "vswitch/fabric/softhca/soft_node_for_test.h"

namespace eoib::softhca {
namespace {

constexpr uint8_t kUntouched = 0x5a;

class HostileRingTest : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<SoftNode> Open(const std::string& name) {
    std::unique_ptr<SubnetLink> link = subnet_.Connect();
    if (!GetParam()) link = std::make_unique<DescriptorLink>(std::move(link));
    SoftPort::Options options;
    options.outbound.idle_close = absl::Hours(1);  // however slow the machine
    return std::make_unique<SoftNode>(OpenSoftHca(std::move(link), name, options).value(), NodeOptions{.post_receives = false});
  }
  std::set<uint64_t> RingsWithout(const std::string& name) const {
    std::set<uint64_t> rings;
    for (const Subnet::RingStatus& ring : subnet_.Rings()) {
      if (ring.source != name && ring.destination != name) rings.insert(ring.ring);
    }
    return rings;
  }
  // A receive whose buffer shows what was written into it.
  static void Post(SoftNode* node, uint64_t index) {
    std::memset(node->buffer(index), kUntouched, 4096 + 40);
    ASSERT_EQ(node->PostReceive(index), 0);
  }

  // Takes one datagram. True if it is the one that is waited for.
  bool TakeOne(SoftNode* node, const Hostile& hostile, Lid from, const std::string& payload) {
    const absl::optional<SoftNode::Received> got = node->Poll();
    if (!got.has_value()) return false;
    EXPECT_EQ(got->wc.status, IBV_WC_SUCCESS);
    EXPECT_LE(got->wc.byte_len, 4096u + 40);
    const uint8_t* buffer = node->buffer(got->wc.wr_id);
    EXPECT_TRUE(std::all_of(buffer + got->wc.byte_len, buffer + 4096 + 40, [](uint8_t byte) { return byte == kUntouched; }));
    Post(node, got->wc.wr_id);
    const PortConfig rogue = hostile.config();
    if (got->wc.slid == rogue.lid.value()) {
      EXPECT_TRUE(rogue.qpns.Contains(Qpn(got->wc.src_qp))) << "its own name only";
      return false;
    }
    EXPECT_EQ(got->wc.slid, from.value());
    EXPECT_EQ(got->payload, payload) << "all that a good peer sent, in order";
    return true;
  }

  // As a program that sleeps would: arms, looks, asks for events.
  static void TakeEvents(SoftNode* node) {
    ASSERT_EQ(ibv_req_notify_cq(node->receive_cq(), 0), 0);
    ibv_cq* cq;
    void* context;
    if (node->verbs().get_cq_event(node->channel(), &cq, &context) == 0) node->verbs().ack_cq_events(cq, 1);
  }

  Subnet subnet_;
};
INSTANTIATE_TEST_SUITE_P(Memory, HostileRingTest, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "InProcess" : "Files"; });

TEST_P(HostileRingTest, GoodTrafficAllArrivesAndNothingThatNobodySent) {
#if defined(EOIB_SANITIZE_THREAD) || defined(EOIB_SANITIZE_ADDRESS)
  constexpr int kRounds = 300;
  constexpr uint64_t kHostileSteps = 20'000;
#else
  constexpr int kRounds = 3000;
  constexpr uint64_t kHostileSteps = 200'000;
#endif
  // A datagram is in the ring when its sender has posted it. What the hostile has written may go before it: a share of its
  // rings, and the completions of 64 receives. What takes time, but no polls, must not take a second, unless the machine did.
  constexpr int kMostPolls = 200;
  constexpr int kMostSlowRounds = 20;
  auto victim = Open("victim");
  std::unique_ptr<SoftNode> good[] = {Open("good1"), Open("good2")};
  for (SoftNode* node : {victim.get(), good[0].get(), good[1].get()}) {
    for (uint64_t i = 0; i < 64; ++i) Post(node, i);
    fcntl(node->channel()->fd, F_SETFL, O_NONBLOCK);
  }
  Hostile hostile(&subnet_, victim->config().lid, victim->qpn(), GetParam());
  const Destination to_hostile = {hostile.config().lid.value(), hostile.config().qpns.first, 0x1234, absl::nullopt};
  const auto exchange = [&](int round) {
    SoftNode* peer = good[round % 2].get();
    const std::string payload = Message(round, static_cast<size_t>(round * 37 % 4090), kConfided);
    EXPECT_EQ(peer->Send(victim->Address(), payload), 0);
    EXPECT_EQ(victim->Send(peer->Address(), payload), 0);
    // Shorter, as a rule: behind it, where it is sent from, stands the rest of what the good peer was sent.
    EXPECT_EQ(victim->Send(to_hostile, Message(round, static_cast<size_t>(round * 53 % 4090 / 2), kPublic)), 0);
    peer->PollSend();
    victim->PollSend();
    victim->PollSend();
    int polls = 0, peers_polls = 0;
    EXPECT_TRUE(Eventually([&] {
      if (++polls % 4 == 0) TakeEvents(victim.get());
      return TakeOne(victim.get(), hostile, peer->config().lid, payload);
    })) << "hostile steps: "
        << hostile.steps();
    EXPECT_TRUE(Eventually([&] {
      ++peers_polls;
      return TakeOne(peer, hostile, victim->config().lid, payload);
    }));
    return std::max(polls, peers_polls);
  };
  // The good have met before the hostile begins.
  for (int round = 0; round < 2; ++round) exchange(round);
  const std::set<uint64_t> good_rings = RingsWithout("hostile");
  hostile.Start();
  const auto attacked = [&] {
    const PortCounters counters = victim->counters();
    return hostile.steps() >= kHostileSteps && counters.corrupt_rings != 0 && counters.rcv_bad_address != 0;
  };
  // All rounds, and until the hostile has done enough, whoever is given the processor.
  const MonotonicClock clock;
  const absl::Time deadline = clock.Now() + absl::Seconds(60);
  int rounds = 0, most_polls = 0, slow_rounds = 0;
  const auto enough = [&] { return rounds >= kRounds && (attacked() || clock.Now() > deadline); };
  for (; !HasFailure() && slow_rounds <= kMostSlowRounds && !enough(); ++rounds) {
    SCOPED_TRACE(rounds);
    const absl::Time began = clock.Now();
    most_polls = std::max(most_polls, exchange(rounds));
    if (clock.Now() - began > absl::Seconds(1)) ++slow_rounds;
  }
  EXPECT_GE(rounds, kRounds);
  EXPECT_LE(slow_rounds, kMostSlowRounds) << "of more than a second, among " << rounds;
  EXPECT_LE(most_polls, kMostPolls) << "in a round";
  EXPECT_GE(hostile.steps(), kHostileSteps);
  hostile.Stop();
  hostile.LookAtEverything();
  EXPECT_EQ(hostile.leaks(), 0u) << "what good peers said was found in the hostile's rings";
  EXPECT_GT(victim->counters().corrupt_rings, 0u);
  EXPECT_GT(victim->counters().rcv_bad_address, 0u);
  for (const auto& peer : good) EXPECT_EQ(peer->counters().corrupt_rings, 0u);
  EXPECT_EQ(RingsWithout("hostile"), good_rings) << "nobody else's ring was closed";
}

// Within a process there is nobody to steal.
class StolenDoorbellTest : public HostileRingTest {
 protected:
  // How often it was heard.
  static uint64_t Steal(int doorbell) {
    uint64_t count = 0;
    iovec bytes{&count, sizeof(count)};
    return preadv2(doorbell, &bytes, 1, -1, RWF_NOWAIT) == sizeof(count) ? count : 0;
  }
};
INSTANTIATE_TEST_SUITE_P(Files, StolenDoorbellTest, testing::Values(false), [](const auto&) { return "Files"; });

// The doorbell that a good peer rings may be silenced by a bad one before the sleeper has seen it.
TEST_P(StolenDoorbellTest, ATheftDelaysButDoesNotForget) {
  auto victim = Open("victim"), good = Open("good");
  fcntl(victim->channel()->fd, F_SETFL, O_NONBLOCK);
  Post(victim.get(), 0);
  ASSERT_EQ(good->Send(victim->Address(), "introduction"), 0);
  victim->Receive();
  // The rogue asks for a ring to have the doorbell.
  Hostile rogue(&subnet_, victim->config().lid, victim->qpn(), /*local=*/false);
  const UniqueFd doorbell = rogue.StealDoorbell();
  const MonotonicClock clock;
  for (int i = 0; i < 5; ++i) {
    SCOPED_TRACE(i);
    Post(victim.get(), 0);
    TakeEvents(victim.get());
    ASSERT_EQ(ibv_req_notify_cq(victim->receive_cq(), 0), 0);
    ASSERT_FALSE(victim->Poll().has_value());
    const absl::Time sent = clock.Now();
    ASSERT_EQ(good->Send(victim->Address(), "wake up"), 0);
    ASSERT_TRUE(Eventually([&] { return Steal(doorbell.get()) != 0; })) << "it was rung";
    // Nothing but the port itself can wake the sleeper now. A tenth of a second is what it takes; the rest is for slow
    // machines.
    pollfd sleeper = {victim->channel()->fd, POLLIN, 0};
    ASSERT_EQ(poll(&sleeper, 1, 20'000), 1) << "forgotten";
    EXPECT_LT(clock.Now() - sent, absl::Seconds(5));
    ibv_cq* cq;
    void* context;
    ASSERT_EQ(victim->verbs().get_cq_event(victim->channel(), &cq, &context), 0);
    victim->verbs().ack_cq_events(cq, 1);
    EXPECT_EQ(victim->Receive().payload, "wake up");
  }
}

}  // namespace
}  // namespace eoib::softhca
