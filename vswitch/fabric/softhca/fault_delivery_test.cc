// Simulated faults between two ports, from the operator's command to the receiving program.
// fault_injector_test.cc tests the injector in detail; soft_port_test.cc tests losses.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "vswitch/base/clock.h"
#include "vswitch/fabric/softhca/soft_node_for_test.h"
#include "vswitch/fabric/softhca/soft_port.h"

namespace eoib::softhca {
namespace {

using testing::ElementsAre;

constexpr uint32_t kAlways = 1'000'000;

// Every test runs twice: with rings in this process's memory, and with rings in memory files.
class FaultDeliveryTest : public testing::TestWithParam<bool> {
 protected:
  // Opens two ports that have rings to each other. `clock` is theirs.
  void Open(const Clock* clock) {
    options_.clock = clock;
    options_.outbound.idle_close = absl::Hours(1);  // the background must not look at rings early
    a_ = OpenPort("a");
    b_ = OpenPort("b");
    for (const auto& [from, to] : {std::pair(a_.get(), b_.get()), std::pair(b_.get(), a_.get())}) {
      ASSERT_EQ(from->Send(to->Address(), "introduction"), 0);
      to->Receive();
    }
  }
  void SetFault(const FaultRule& rule) { ASSERT_TRUE(subnet_.SetFault({"a", "b", rule}).ok()); }

  static void Send(SoftNode* from, SoftNode* to, const std::vector<std::string>& payloads) {
    for (const std::string& payload : payloads) ASSERT_EQ(from->Send(to->Address(), payload), 0);
  }
  // Receives everything. A datagram is in the ring when its send returns, so a few polls suffice.
  static std::vector<std::string> PollAll(SoftNode* node) {
    std::vector<std::string> payloads;
    while (const auto got = node->Poll()) payloads.push_back(got->payload);
    return payloads;
  }
  // Sleeps on the completion channel until there is an event, like a program whose last poll found
  // nothing.
  static void SleepUntilEvent(SoftNode* node) {
    fcntl(node->channel()->fd, F_SETFL, O_NONBLOCK);
    ibv_cq* cq;
    void* context;
    while (node->verbs().get_cq_event(node->channel(), &cq, &context) != 0) {
      pollfd sleeper = {node->channel()->fd, POLLIN, 0};
      ASSERT_EQ(poll(&sleeper, 1, 20'000), 1) << "no thread wakes it";
    }
    node->verbs().ack_cq_events(cq, 1);
  }

  Subnet subnet_;
  SoftPort::Options options_;
  FakeClock clock_;
  const MonotonicClock real_{};
  std::unique_ptr<SoftNode> a_, b_;

 private:
  std::unique_ptr<SoftNode> OpenPort(const std::string& name) {
    std::unique_ptr<SubnetLink> link = subnet_.Connect();
    if (GetParam()) link = std::make_unique<DescriptorLink>(std::move(link));
    return std::make_unique<SoftNode>(OpenSoftHca(std::move(link), name, options_).value());
  }
};
INSTANTIATE_TEST_SUITE_P(Memory, FaultDeliveryTest, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Files" : "InProcess"; });

TEST_P(FaultDeliveryTest, ADuplicateArrivesTwiceOneWay) {
  Open(&clock_);
  SetFault({.duplicate_ppm = kAlways});
  Send(a_.get(), b_.get(), {"there", "again"});
  Send(b_.get(), a_.get(), {"back", "again"});
  EXPECT_THAT(PollAll(b_.get()), ElementsAre("there", "there", "again", "again"));
  EXPECT_THAT(PollAll(a_.get()), ElementsAre("back", "again"));
  EXPECT_EQ(b_->counters().rcv_simulated_duplicates, 2u);
  EXPECT_EQ(a_->counters().rcv_simulated_duplicates, 0u);
  subnet_.ClearFaults();
  Send(a_.get(), b_.get(), {"no more"});
  EXPECT_THAT(PollAll(b_.get()), ElementsAre("no more"));
}

TEST_P(FaultDeliveryTest, EachCopyTakesAReceive) {
  Open(&clock_);
  SetFault({.duplicate_ppm = kAlways});
  constexpr int kReceives = 63;  // 64, of which the introduction has taken one
  for (int i = 0; i < (kReceives + 1) / 2; ++i) {
    Send(a_.get(), b_.get(), {"x"});
    a_->PollSend();
  }
  EXPECT_EQ(PollAll(b_.get()).size(), size_t{kReceives});
  EXPECT_EQ(b_->counters().rcv_no_receive, 1u) << "the last copy";
}

TEST_P(FaultDeliveryTest, ADatagramIsOvertakenByTheNextOneWay) {
  Open(&clock_);
  SetFault({.reorder_ppm = kAlways});
  Send(a_.get(), b_.get(), {"1", "2", "3", "4"});
  Send(b_.get(), a_.get(), {"1", "2", "3", "4"});
  EXPECT_THAT(PollAll(b_.get()), ElementsAre("2", "1", "4", "3"));
  EXPECT_THAT(PollAll(a_.get()), ElementsAre("1", "2", "3", "4"));
  EXPECT_EQ(b_->counters().rcv_simulated_reorders, 2u);
}

TEST_P(FaultDeliveryTest, AReorderedDatagramWithoutSuccessorArrivesAfterTheReorderPatience) {
  Open(&clock_);
  SetFault({.reorder_ppm = kAlways});
  Send(a_.get(), b_.get(), {"alone"});
  EXPECT_THAT(PollAll(b_.get()), ElementsAre());
  clock_.Advance(FaultRule::kReorderPatience - absl::Nanoseconds(1));
  EXPECT_THAT(PollAll(b_.get()), ElementsAre());
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_THAT(PollAll(b_.get()), ElementsAre("alone"));
}

// No datagram follows and no thread polls, so only the port can wake the sleeper.
TEST_P(FaultDeliveryTest, ASleepingReceiverIsWokenForAReorderedDatagramWithoutSuccessor) {
  Open(&real_);
  SetFault({.reorder_ppm = kAlways});
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(b_->receive_cq(), 0), 0);
    ASSERT_THAT(PollAll(b_.get()), ElementsAre());
    const absl::Time sent = real_.Now();
    Send(a_.get(), b_.get(), {"alone"});
    SleepUntilEvent(b_.get());
    EXPECT_GE(real_.Now() - sent, FaultRule::kReorderPatience);
    EXPECT_THAT(PollAll(b_.get()), ElementsAre("alone"));
  }
}

TEST_P(FaultDeliveryTest, ADelayKeepsOrderAlsoWhenItEnds) {
  Open(&clock_);
  SetFault({.delay = absl::Milliseconds(50)});
  Send(a_.get(), b_.get(), {"1", "2"});
  Send(b_.get(), a_.get(), {"back"});
  EXPECT_THAT(PollAll(a_.get()), ElementsAre("back"));
  EXPECT_THAT(PollAll(b_.get()), ElementsAre());
  clock_.Advance(absl::Milliseconds(20));
  Send(a_.get(), b_.get(), {"3"});
  EXPECT_THAT(PollAll(b_.get()), ElementsAre());
  EXPECT_EQ(b_->counters().rcv_simulated_delays, 3u);
  clock_.Advance(absl::Milliseconds(30));
  EXPECT_THAT(PollAll(b_.get()), ElementsAre("1", "2"));
  // Datagrams still must not overtake the delayed ones.
  subnet_.ClearFaults();
  Send(a_.get(), b_.get(), {"4"});
  EXPECT_THAT(PollAll(b_.get()), ElementsAre());
  clock_.Advance(absl::Milliseconds(20));
  EXPECT_THAT(PollAll(b_.get()), ElementsAre("3", "4"));
  Send(a_.get(), b_.get(), {"5"});
  EXPECT_THAT(PollAll(b_.get()), ElementsAre("5"));
}

TEST_P(FaultDeliveryTest, ASleepingReceiverIsWokenForADelayedDatagram) {
  Open(&real_);
  constexpr absl::Duration kDelay = absl::Milliseconds(30);
  SetFault({.duplicate_ppm = kAlways, .delay = kDelay});
  ASSERT_EQ(ibv_req_notify_cq(b_->receive_cq(), 0), 0);
  ASSERT_THAT(PollAll(b_.get()), ElementsAre());
  const absl::Time sent = real_.Now();
  Send(a_.get(), b_.get(), {"late"});
  SleepUntilEvent(b_.get());
  EXPECT_GE(real_.Now() - sent, kDelay);
  EXPECT_THAT(PollAll(b_.get()), ElementsAre("late", "late"));
}

}  // namespace
}  // namespace eoib::softhca
