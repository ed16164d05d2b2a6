// UmadAgents: the kernel's handling of MADs, step by step.
#include "vswitch/fabric/softhca/preload/umad_agents.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <numeric>
#include <string>

#include "vswitch/base/clock.h"
#include "vswitch/wire/ib/sa_mad.h"
#include "vswitch/wire/ib/sa_table.h"

namespace eoib::softhca {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kFile = 7;
constexpr Lid kSm{1};
constexpr uint64_t kLow = 0xffff'ffff;

UmadPacket Request(int agent, uint64_t tid, Lid to = kSm,
                   MgmtClass mgmt_class = MgmtClass::kSubnAdm) {
  MadHeader header;
  header.mgmt_class = mgmt_class;
  header.tid = tid;
  Mad mad{};
  EncodeMadHeader(header, &mad);
  UmadPacket packet;
  packet.agent = agent;
  packet.address.lid = htons(to.value());
  packet.mad.assign(mad.begin(), mad.end());
  return packet;
}

uint64_t TidOf(const Mad& mad) { return DecodeMadHeader(mad)->tid; }

class UmadAgentsTest : public ::testing::Test {
 protected:
  UmadAgentsTest() { agents_.OpenFile(kFile); }

  int Register(MgmtClass mgmt_class = MgmtClass::kSubnAdm, bool rmpp = false,
               std::bitset<128> methods = {}) {
    int agent = -1;
    EXPECT_EQ(
        agents_.Register(kFile, {static_cast<uint8_t>(mgmt_class), kSaClassVersion, methods, rmpp},
                         &agent),
        0);
    return agent;
  }
  int Send(const UmadPacket& packet, int timeout_ms = 1000, int retries = 0) {
    return agents_.Send(kFile, packet, absl::Milliseconds(timeout_ms), retries, clock_.Now());
  }
  // The only outgoing MAD.
  Mad Sent() {
    const auto outgoing = agents_.TakeOutgoing();
    EXPECT_THAT(outgoing, SizeIs(1));
    return outgoing.empty() ? Mad{} : outgoing[0].mad;
  }
  void Answer(const Mad& request, Lid from = kSm) {
    Mad answer = request;
    MadHeader header = *DecodeMadHeader(request);
    header.method = ResponseTo(header.method);
    EncodeMadHeader(header, &answer);
    agents_.Receive(from, answer);
  }
  void Pass(int milliseconds) {
    clock_.Advance(absl::Milliseconds(milliseconds));
    agents_.Run(clock_.Now());
  }
  absl::optional<UmadPacket> Take(int file = kFile) {
    const UmadPacket* front = agents_.Front(file);
    if (front == nullptr) return absl::nullopt;
    const UmadPacket packet = *front;
    agents_.Pop(file);
    return packet;
  }

  FakeClock clock_;
  UmadAgents agents_;
};

TEST_F(UmadAgentsTest, AnAnswerFindsTheAgentThatAsked) {
  const int a = Register(), b = Register();
  EXPECT_THAT((std::vector{a, b}), ElementsAre(0, 1));
  ASSERT_EQ(Send(Request(a, 0xdead'0000'0005)), 0);
  const Mad from_a = Sent();
  ASSERT_EQ(Send(Request(b, 5)), 0) << "their numbers may be the same";
  const Mad from_b = Sent();
  EXPECT_EQ(TidOf(from_a) & kLow, 5u);
  EXPECT_NE(TidOf(from_a) >> 32, TidOf(from_b) >> 32);
  Answer(from_b);
  Answer(from_a);
  for (const int agent : {b, a}) {
    const auto packet = Take();
    ASSERT_TRUE(packet.has_value());
    EXPECT_EQ(packet->agent, agent);
    EXPECT_EQ(packet->status, 0);
    EXPECT_EQ(packet->mad.size(), kMadSize);
    EXPECT_EQ(ntohs(packet->address.lid), kSm.value());
    EXPECT_EQ(ntohl(packet->address.qpn), 1u);
  }
  EXPECT_EQ(agents_.NextDeadline(), absl::InfiniteFuture());
}

TEST_F(UmadAgentsTest, OnlyTheQueriedLidAnswersOnceAndInTime) {
  const int agent = Register();
  ASSERT_EQ(Send(Request(agent, 1)), 0);
  const Mad request = Sent();
  Answer(request, Lid(99));
  EXPECT_FALSE(Take().has_value()) << "another LID";
  Answer(request);
  Answer(request);
  EXPECT_TRUE(Take().has_value());
  EXPECT_FALSE(Take().has_value()) << "twice";
  ASSERT_EQ(Send(Request(agent, 2), /*timeout_ms=*/0), 0);
  Answer(Sent());
  EXPECT_FALSE(Take().has_value()) << "no request waits";
  ASSERT_EQ(Send(Request(agent, 3), 100), 0);
  const Mad late = Sent();
  Pass(100);
  EXPECT_EQ(Take()->status, ETIMEDOUT);
  Answer(late);
  EXPECT_FALSE(Take().has_value()) << "too late";
}

TEST_F(UmadAgentsTest, AnUnansweredRequestIsRetriedThenReturned) {
  const int agent = Register();
  ASSERT_EQ(Send(Request(agent, 1), 100, /*retries=*/2), 0);
  const Mad request = Sent();
  EXPECT_EQ(agents_.NextDeadline(), clock_.Now() + absl::Milliseconds(100));
  for (int retry = 0; retry < 2; ++retry) {
    Pass(99);
    EXPECT_THAT(agents_.TakeOutgoing(), IsEmpty());
    Pass(1);
    EXPECT_EQ(Sent(), request);
    EXPECT_FALSE(Take().has_value());
  }
  Pass(100);
  const auto packet = Take();
  ASSERT_TRUE(packet.has_value());
  EXPECT_EQ(packet->agent, agent);
  EXPECT_EQ(packet->status, ETIMEDOUT);
  EXPECT_EQ(packet->mad, std::vector<uint8_t>(request.begin(), request.begin() + 24))
      << "the request's header";
  EXPECT_EQ(ntohs(packet->address.lid), kSm.value()) << "as it was addressed";
  EXPECT_EQ(agents_.NextDeadline(), absl::InfiniteFuture());
}

TEST_F(UmadAgentsTest, InvalidSendsAreRefused) {
  const int agent = Register();
  UmadPacket is_short = Request(agent, 1), is_long = Request(agent, 1);
  is_short.mad.resize(255);
  is_long.mad.resize(257);
  const struct {
    const char* description;
    UmadPacket packet;
  } kRows[] = {{"no such agent", Request(agent + 1, 1)},
               {"a short one", is_short},
               {"one of two MADs", is_long},
               {"to LID 0", Request(agent, 1, Lid())},
               {"to a group", Request(agent, 1, Lid(0xc001))}};
  for (const auto& row : kRows) EXPECT_EQ(Send(row.packet), EINVAL) << row.description;
  EXPECT_EQ(agents_.Send(kFile + 1, Request(agent, 1), absl::Seconds(1), 0, clock_.Now()), EINVAL)
      << "no such file";
  ASSERT_EQ(Send(Request(agent, 1)), 0);
  EXPECT_EQ(Send(Request(agent, 1)), EINVAL) << "it is being asked";
  Answer(Sent());
  EXPECT_EQ(Send(Request(agent, 1)), 0) << "it was answered";
  EXPECT_EQ(agents_.Unregister(kFile, agent + 1), EINVAL);
}

TEST_F(UmadAgentsTest, DirectedRoutesNeedNoLid) {
  const int agent = Register(MgmtClass::kSubnDirected);
  ASSERT_EQ(Send(Request(agent, 1, Lid(0xffff), MgmtClass::kSubnDirected)), 0);
  const auto outgoing = agents_.TakeOutgoing();
  ASSERT_THAT(outgoing, SizeIs(1));
  EXPECT_EQ(outgoing[0].destination, Lid());
  Answer(outgoing[0].mad, Lid(0xffff));
  const auto packet = Take();
  ASSERT_TRUE(packet.has_value());
  EXPECT_EQ(ntohl(packet->address.qpn), 0u) << "the subnet management interface";
}

TEST_F(UmadAgentsTest, AnUnsolicitedMadGoesToTheAgentThatRegisteredForIt) {
  std::bitset<128> reports;
  reports.set(static_cast<size_t>(MadMethod::kReport));
  Register();
  const int listener = Register(MgmtClass::kSubnAdm, false, reports);
  int other = -1;
  EXPECT_EQ(agents_.Register(
                kFile, {static_cast<uint8_t>(MgmtClass::kSubnAdm), kSaClassVersion, reports, false},
                &other),
            EINVAL)
      << "one agent for each method";
  MadHeader header;
  header.method = MadMethod::kReport;
  header.tid = 0x1234'5678'9abc'def0;
  Mad report{};
  EncodeMadHeader(header, &report);
  agents_.Receive(kSm, report);
  auto packet = Take();
  ASSERT_TRUE(packet.has_value());
  EXPECT_EQ(packet->agent, listener);
  header.method = MadMethod::kTrap;
  EncodeMadHeader(header, &report);
  agents_.Receive(kSm, report);
  EXPECT_FALSE(Take().has_value()) << "no agent registered for the method";
  // The response keeps the report's number.
  header.method = MadMethod::kReportResp;
  EncodeMadHeader(header, &report);
  packet->mad.assign(report.begin(), report.end());
  ASSERT_EQ(Send(*packet, 0), 0);
  EXPECT_EQ(TidOf(Sent()), header.tid);
}

TEST_F(UmadAgentsTest, ClosedFilesAndUnregisteredAgentsReceiveNothing) {
  const int agent = Register();
  ASSERT_EQ(Send(Request(agent, 1)), 0);
  const Mad request = Sent();
  ASSERT_EQ(agents_.Unregister(kFile, agent), 0);
  EXPECT_EQ(Register(), agent) << "the lowest number that is free";
  Answer(request);
  EXPECT_FALSE(Take().has_value()) << "a namesake's";
  agents_.OpenFile(8);
  int other = -1;
  ASSERT_EQ(agents_.Register(
                8, {static_cast<uint8_t>(MgmtClass::kSubnAdm), kSaClassVersion, {}, false}, &other),
            0);
  ASSERT_EQ(agents_.Send(8, Request(other, 1), absl::Milliseconds(1), 0, clock_.Now()), 0);
  agents_.CloseFile(8);
  Pass(1);
  EXPECT_FALSE(Take(8).has_value());
  EXPECT_EQ(agents_.Register(8, {}, &other), EINVAL);
}

TEST_F(UmadAgentsTest, AgentsAndQueuedMadsAreLimited) {
  for (size_t i = 0; i < UmadAgents::kMaxAgents; ++i) Register();
  int agent = -1;
  EXPECT_EQ(agents_.Register(kFile, {}, &agent), ENOMEM);
  for (uint64_t i = 0; i < UmadAgents::kMaxWaiting + 5; ++i) {
    ASSERT_EQ(Send(Request(0, i)), 0);
    Answer(Sent());
  }
  size_t arrived = 0;
  while (Take().has_value()) ++arrived;
  EXPECT_EQ(arrived, UmadAgents::kMaxWaiting);
}

// ---- Tables.

std::vector<uint8_t> TableFor(const Mad& request) {
  const SaHeader header = {.method = MadMethod::kGetTableResp,
                           .tid = TidOf(request),
                           .attribute = SaAttribute::kNodeRecord};
  return EncodeSaTable(header, std::vector<uint8_t>(410, 7));
}

TEST_F(UmadAgentsTest, AnAgentWithRmppGetsATableInOnePiece) {
  const int agent = Register(MgmtClass::kSubnAdm, /*rmpp=*/true);
  ASSERT_EQ(Send(Request(agent, 1)), 0);
  const std::vector<uint8_t> table = TableFor(Sent());
  agents_.Receive(kSm, table);
  const auto packet = Take();
  ASSERT_TRUE(packet.has_value());
  EXPECT_EQ(packet->status, 0);
  EXPECT_EQ(packet->mad, table);
  agents_.Receive(kSm, table);
  EXPECT_FALSE(Take().has_value()) << "twice";
  EXPECT_EQ(agents_.NextDeadline(), absl::InfiniteFuture());
}

// It would acknowledge segments itself, and the software subnet sends none.
TEST_F(UmadAgentsTest, AnAgentWithoutRmppGetsNoTable) {
  const int agent = Register();
  ASSERT_EQ(Send(Request(agent, 1), 100), 0);
  agents_.Receive(kSm, TableFor(Sent()));
  EXPECT_FALSE(Take().has_value());
  Pass(100);
  EXPECT_EQ(Take()->status, ETIMEDOUT);
}

}  // namespace
}  // namespace eoib::softhca
