// Conservation: each copy of a posted datagram is delivered, or dropped for a reason that a port
// counts (README.md, "Conservation").
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vswitch/fabric/softhca/soft_port_test_fixture.h"

namespace eoib::softhca {
namespace {

class ConservationTest : public SoftPortTest {
 protected:
  using Nodes = std::vector<std::unique_ptr<SoftNode>>;

  Nodes OpenAll(const std::vector<std::string>& names) {
    Nodes nodes;
    for (const std::string& name : names) nodes.push_back(Open(name));
    return nodes;
  }
  static void Drain(SoftNode* node) {
    while (const absl::optional<Received> got = node->Poll()) {
      if (got->wc.status == IBV_WC_SUCCESS) node->PostReceive(got->wc.wr_id);
    }
  }
  static std::string ToString(const Conservation& now) {
    return absl::StrCat("copies ", now.copies, " = delivered ", now.delivered, " + dropped ",
                        now.dropped, " + sending ", now.sending, " + in rings ", now.in_rings,
                        " + receiving ", now.receiving, " + died ", now.died);
  }
  // Receives until nothing is in flight.
  void ExpectConservation(const Nodes& nodes) {
    Conservation now;
    EXPECT_TRUE(Eventually([&] {
      clock_.Advance(absl::Milliseconds(100));  // ends the wait of parked and delayed datagrams
      for (const auto& node : nodes) Drain(node.get());
      now = subnet_.GetConservation();
      return now.sending == 0 && now.in_rings == 0 && now.receiving == 0;
    })) << ToString(now);
    EXPECT_EQ(now.copies, now.delivered + now.dropped + static_cast<uint64_t>(now.died))
        << ToString(now);
    for (const auto& node : nodes) {
      EXPECT_EQ(node->counters().Sending(), 0);
      EXPECT_EQ(node->counters().Receiving(), 0);
    }
  }
  static FaultRule SomeOfEach(absl::Duration delay) {
    constexpr uint32_t kSome = 200'000;  // of a million
    return FaultRule{
        .loss_ppm = kSome, .duplicate_ppm = kSome, .reorder_ppm = kSome, .delay = delay};
  }
  // The change of the counters by one datagram.
  SoftPortCounters Counted(const SoftNode& node, const SoftPortCounters& before) {
    SoftPortCounters counted = node.counters();
    for (const auto& row : before.Rows()) counted.*row.member -= before.*row.member;
    return counted;
  }
};
INSTANTIATE_TEST_SUITE_P(Memory, ConservationTest, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Files" : "InProcess"; });

TEST_P(ConservationTest, EveryDatagramHasAnEnd) {
  const Nodes nodes = OpenAll({"a", "b", "c"});
  SoftNode &a = *nodes[0], &b = *nodes[1], &c = *nodes[2];
  const Mlid mlid = b.Join(kMgid);
  ASSERT_EQ(c.Join(kMgid), mlid);
  ASSERT_EQ(b.Attach(b.qp(), kMgid, mlid), 0);
  // Where no receive is posted; c's is not attached.
  ASSERT_EQ(b.Attach(b.MakeQp(), kMgid, mlid), 0);
  struct Row {
    const char* description;
    Destination to;
    uint64_t SoftPortCounters::*at_a;  // null: none
    uint64_t SoftPortCounters::*at_b;
    uint64_t copies;
  };
  const Row kRows[] = {
      {"a datagram", b.Address(), nullptr, &SoftPortCounters::rcv_delivered, 1},
      {"to its own port", a.Address(), &SoftPortCounters::rcv_delivered, nullptr, 1},
      {"to an unknown LID", {999, b.qpn()}, &SoftPortCounters::xmit_unreachable, nullptr, 1},
      {"to an unknown MLID",
       {0xc0ff, Qpn(Qpn::kMulticast), 0x1234, kMgid},
       &SoftPortCounters::xmit_no_group,
       nullptr,
       1},
      {"to an unknown QPN",
       {b.config().lid.value(), Qpn(1)},
       nullptr,
       &SoftPortCounters::rcv_no_qp,
       1},
      {"with another Q_Key",
       {b.config().lid.value(), b.qpn(), 0x4321},
       nullptr,
       &SoftPortCounters::rcv_qkey_violations,
       1},
      {"to a group",
       {mlid.value(), Qpn(Qpn::kMulticast), 0x1234, kMgid},
       nullptr,
       &SoftPortCounters::rcv_replicated,
       2},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.description);
    const SoftPortCounters a_before = a.counters(), b_before = b.counters();
    ASSERT_EQ(a.Send(row.to, "datagram"), 0);
    ExpectConservation(nodes);
    ASSERT_FALSE(HasFailure());
    const SoftPortCounters at_a = Counted(a, a_before), at_b = Counted(b, b_before);
    EXPECT_EQ(at_a.xmit_copies, row.copies);
    EXPECT_TRUE(row.at_a == nullptr || at_a.*row.at_a == 1);
    EXPECT_TRUE(row.at_b == nullptr || at_b.*row.at_b == 1);
  }
  EXPECT_EQ(c.counters().rcv_no_qp, 1u) << "its copy of the multicast";

  // Destinations that have gone, and a P_Key that was withdrawn.
  const Destination group = {mlid.value(), Qpn(Qpn::kMulticast), 0x1234, kMgid};
  ASSERT_TRUE(subnet_.SetLink("b", false).ok());
  ASSERT_TRUE(subnet_.SetLink("c", false).ok());
  ASSERT_EQ(a.Send(group, "to no member"), 0);
  ASSERT_EQ(b.Send(a.Address(), "from a port that is down"), 0);
  ExpectConservation(nodes);
  EXPECT_EQ(a.counters().xmit_no_group, 2u);
  EXPECT_EQ(b.counters().xmit_discards, 1u);
  ASSERT_TRUE(subnet_.RemoveFromPartition(PKey(0xffff), "ALL").ok());
  ASSERT_EQ(a.Send(a.Address(), "without a P_Key"), 0);
  ExpectConservation(nodes);
  EXPECT_EQ(a.counters().xmit_pkey_errors, 1u);
}

TEST_P(ConservationTest, HoldsWithFaults) {
  const Nodes nodes = OpenAll({"a", "b"});
  for (const FaultRule& rule :
       {FaultRule{.loss_ppm = 300'000}, FaultRule{.duplicate_ppm = 300'000},
        FaultRule{.reorder_ppm = 300'000}, FaultRule{.delay = absl::Milliseconds(50)}}) {
    ASSERT_TRUE(subnet_.SetFault({"a", "b", rule}).ok());
    for (int turn = 0; turn < 10; ++turn) {
      Fill(nodes[0].get(), nodes[1]->Address(), 5);
      Drain(nodes[1].get());
    }
    ExpectConservation(nodes);
    ASSERT_FALSE(HasFailure());
  }
  const SoftPortCounters counters = nodes[1]->counters();
  EXPECT_GT(counters.rcv_simulated_losses, 0u);
  EXPECT_GT(counters.rcv_simulated_duplicates, 0u);
  EXPECT_GT(counters.rcv_simulated_reorders, 0u);
  EXPECT_GT(counters.rcv_simulated_delays, 0u);
}

TEST_P(ConservationTest, RecordsLeftByAReceiverThatEndsCountAsLostAtTheirSender) {
  Nodes nodes = OpenAll({"a", "b"});
  Introduce(nodes[0].get(), nodes[1].get());
  Fill(nodes[0].get(), nodes[1]->Address(), 5);
  nodes.pop_back();
  ExpectConservation(nodes);
  EXPECT_EQ(nodes[0]->counters().xmit_lost, 5u);
  // Its own datagrams that it could not send are discarded.
  nodes.push_back(Open("b"));
  Introduce(nodes[1].get(), nodes[0].get());
  Fill(nodes[1].get(), nodes[0]->Address(), 40);
  ASSERT_GT(nodes[1]->port().rings().parked, 0u);
  nodes.pop_back();
  ExpectConservation(nodes);
  EXPECT_EQ(subnet_.GetConservation().died, 0);
  EXPECT_EQ(subnet_.GetConservation().joint_deaths, 0u);
}

TEST_P(ConservationTest, RecordsInTheRingsOfALinkThatGoesDownAreDropped) {
  const Nodes nodes = OpenAll({"a", "b"});
  SoftNode &a = *nodes[0], &b = *nodes[1];
  for (int turn = 0; turn < 20; ++turn) {
    ASSERT_TRUE(Eventually([&] {  // an earlier refusal holds for a while
      clock_.Advance(options_.outbound.refusal_pause);
      Fill(&a, b.Address(), 1);
      return a.port().rings().outbound == 1;
    }));
    Fill(&a, b.Address(), 3);
    ASSERT_TRUE(subnet_.SetLink("b", false).ok());
    Fill(&a, b.Address(), 3);
    ASSERT_TRUE(subnet_.SetLink("b", true).ok());
    ExpectConservation(nodes);
    ASSERT_FALSE(HasFailure());
  }
}

// Every kind of event between ports, in any order.
TEST_P(ConservationTest, HoldsAfterRandomEvents) {
  constexpr int kSteps = 3000;
  const std::vector<std::string> names = {"a", "b", "c"};
  options_.outbound.idle_close = absl::Milliseconds(200);
  options_.outbound.parking_capacity = 64 * 1024;
  Nodes nodes = OpenAll(names);
  std::mt19937 random(1);
  uint16_t next_lid = 100;
  Mlid mlid;
  const auto join = [&](SoftNode* node) {
    mlid = node->Join(kMgid);
    ASSERT_EQ(node->Attach(node->qp(), kMgid, mlid), 0);
  };
  for (const auto& node : nodes) join(node.get());
  // Datagrams of 4,096 bytes, as many as the send queue takes: a full ring of another port may fill
  // it.
  const auto fill = [](SoftNode* node, const Destination& to, int count) {
    while (count-- > 0 && node->Send(to, std::string(4096, 'x')) == 0) TakeSent(node);
    TakeSent(node);
  };
  const auto step = [&](size_t number) {
    SoftNode* node = nodes[number].get();
    switch (random() % 24) {
      case 0:
        ASSERT_TRUE(subnet_.SetLink(names[number], random() % 2 == 0).ok());
        break;
      case 1:
        ASSERT_TRUE(subnet_.SetLid(names[number], Lid(next_lid++)).ok());
        break;
      case 2:
        subnet_.ClearFaults();
        break;
      case 3:
        ASSERT_TRUE(
            subnet_.SetFault({"*", names[number], SomeOfEach(absl::Milliseconds(random() % 20))})
                .ok());
        break;
      case 4:
        nodes[number].reset();
        nodes[number] = Open(names[number]);
        break;
      case 5:
        if (node->config().active) join(node);
        break;
      case 6:
      case 7:
        clock_.Advance(absl::Milliseconds(random() % 20));
        break;
      case 8:
      case 9:
      case 10:
      case 11:
        Drain(node);
        break;
      case 12:
      case 13:
      case 14:
        fill(node, {mlid.value(), Qpn(Qpn::kMulticast), 0x1234, kMgid},
             static_cast<int>(random() % 20));
        break;
      default:
        fill(node, nodes[random() % nodes.size()]->Address(), static_cast<int>(random() % 20));
    }
  };
  for (int i = 0; i < kSteps; ++i) {
    SCOPED_TRACE(i);
    ASSERT_NO_FATAL_FAILURE(step(random() % nodes.size()));
    if (i % 100 == 99) ExpectConservation(nodes);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_EQ(subnet_.GetConservation().joint_deaths, 0u);
  EXPECT_GT(subnet_.GetConservation().delivered, 1000u);
}

}  // namespace
}  // namespace eoib::softhca
