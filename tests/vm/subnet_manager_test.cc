// Agents under OpenSM: joins and refused joins, and what happens when the subnet manager is killed
// or replaced.
#include <signal.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vm/infiniband_test_fixture.h"
#include "vswitch/base/clock.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/fabric/sa_client.h"
#include "vswitch/wire/mgid.h"

namespace eoib::lab {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// As OpenSM prints it: "MGID....................ff12:e01b:8001:...", without leading zeros.
constexpr char kFloodMgid[] = "ff12:e01b:8001:ffff:ffff:ffff::";

// Runs the client until the request that `ask` makes is answered, and expects success.
void Await(SaClient* sa, const std::function<void(SaClient::GroupCallback)>& ask) {
  absl::optional<absl::Status> answer;
  ask([&answer](const absl::StatusOr<McMemberRecord>& record) { answer = record.status(); });
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] {
    sa->Run();
    return answer.has_value();
  }));
  EXPECT_TRUE(answer->ok()) << *answer;
}

class SubnetManagerTest : public InfinibandTest {};

// ---- Groups.

TEST_F(SubnetManagerTest, OpenSmListsFloodGroupAndItsMembers) {
  StartHosts();
  const std::string mlid = MlidOf(1);
  EXPECT_EQ(MlidOf(3), mlid);
  EXPECT_THAT(Saquery({"-g"}),
              ContainsRegex(absl::StrCat("MGID\\.+", kFloodMgid, "\n[^\n]*Mlid\\.+0x",
                                         absl::AsciiStrToUpper(mlid.substr(2)))));
  ExpectMembers({1, 2, 3});
  EXPECT_EQ(agent(2).Stop(), 0);
  ExpectMembers({1, 3});
  agent(2).Start();
  ExpectFloodsReach(1, 2);
}

// A group with this MGID exists in another partition, so OpenSM refuses our joins.
TEST_F(SubnetManagerTest, RefusedJoinIsReportedAndRetried) {
  StartFabric({{0x8001}, {0x8002, {"h1"}}});
  auto hca = OpenVerbsHca("simib0/1");
  ASSERT_TRUE(hca.ok()) << hca.status();
  const MonotonicClock clock;
  SaClient sa((*hca)->mads(), &clock, {});
  McMemberRecord squatted;
  squatted.mgid = FloodMgid(PKey(0x8001));
  squatted.port_gid = (*hca)->QueryPort()->gid;
  squatted.pkey = PKey(0x8002);
  squatted.qkey = QKey(0x80008002);
  squatted.scope = 2;
  squatted.join_state = kFullMember;
  Await(&sa, [&](const SaClient::GroupCallback& done) {
    sa.Join(squatted,
            mcm::kMgid | mcm::kPortGid | mcm::kPKey | mcm::kQKey | mcm::kSl | mcm::kFlowLabel |
                mcm::kTrafficClass | mcm::kScope | mcm::kJoinState,
            done);
  });

  Agent agent(&lab(), &fabric(), lab().AddHost("h2"), {});
  agent.Launch();
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(agent.Ctl({"show"}).out, "request invalid (0x0200)");
  }));
  EXPECT_TRUE(agent.Alive());

  Await(&sa, [&](const SaClient::GroupCallback& done) { sa.Leave(squatted, done); });
  agent.WaitUntilReady();
  EXPECT_EQ(agent.Stop(), 0);
}

// ---- Without groups.

// The records of our service that OpenSM lists.
size_t Services() {
  const std::string list = Saquery({"-S"});
  return std::vector<std::string>(absl::StrSplit(list, "0x02656f6962008001")).size() - 1;
}

TEST_F(SubnetManagerTest, OpenSmListsServicesOfAgentsWithoutAGroup) {
  AgentSpec spec;
  spec.veses[0].more = "flood = \"replicate\"\n";
  AddNumberedAgents(2, spec);
  ExpectFloodsReach(1, 2);
  EXPECT_THAT(Saquery({"-g"}), Not(HasSubstr(kFloodMgid)));
  EXPECT_EQ(Services(), 2u) << Saquery({"-S"});
  EXPECT_EQ(agent(2).Stop(), 0);
  EXPECT_EQ(Services(), 1u) << Saquery({"-S"});
  agent(2).Start();

  subnet().KillSm(kH1, SIGKILL);
  ExpectFloodsReach(1, 2);
  subnet().StartSm(kH1);
  subnet().Wait();
  EXPECT_TRUE(EventuallyTrue(kPatience, [] { return Services() == 2; })) << Saquery({"-S"});
}

// ---- The subnet manager.

TEST_F(SubnetManagerTest, SubnetManagerRestartLosesNothing) {
  StartHosts();
  StartPings();
  subnet().KillSm(kH1, SIGKILL);
  subnet().StartSm(kH1);
  subnet().Wait();
  for (int number : {1, 2, 3}) ExpectShows(number, "notices of the subnet: subscribed");
  // It had lost the groups; the agents have joined again.
  ExpectMembers({1, 2, 3});
  ExpectNoLoss();
  ExpectFloodsReach(3, 1);
}

TEST_F(SubnetManagerTest, StandbySubnetManagerTakesOverWithoutLoss) {
  StartHosts();
  subnet().StartSm(kH4);
  subnet().Wait();
  StartPings();
  subnet().KillSm(kH1, SIGKILL);
  const std::string new_lid = absl::StrFormat("SM LID 0x%x,", IbSubnet::Lid(kH4));
  for (int number : {1, 2, 3}) {
    ExpectShows(number, new_lid);
    ExpectShows(number, ": joined, MLID");
    ExpectShows(number, "notices of the subnet: subscribed");
  }
  ExpectMembers({1, 2, 3});
  ExpectNoLoss();
  ExpectFloodsReach(3, 1);
  // A new agent uses the new subnet manager.
  Agent& fourth = AddAgent("h5");
  fourth.host()->AddAddress("v1", Address(5) + "/24");
  ExpectPing(fourth.host(), Address(1));

  subnet().StopSm(kH4);
  subnet().StartSm(kH1);
  subnet().Wait();
}

// Known peers need no subnet manager, and neither do two new peers.
TEST_F(SubnetManagerTest, MinuteWithoutSubnetManagerLosesNothingAndNewPeersCommunicate) {
  auto hosts = AddNumberedAgents(3);
  ExpectPing(hosts[0]->host(), Address(2));
  subnet().KillSm(kH1, SIGKILL);
  SteadyPing ping(hosts[0]->host(), Address(2), "0.1");
  // h3 has not communicated with either of them.
  ExpectPing(hosts[2]->host(), Address(1));
  ExpectPing(hosts[1]->host(), Address(3));
  EXPECT_TRUE(EventuallyTrue(absl::Seconds(120), [&] { return ping.LastAnswered() >= 600; }));
  ping.ExpectNoLoss();
  ExpectPing(hosts[2]->host(), Address(2));
  subnet().StartSm(kH1);
  subnet().Wait();
}

}  // namespace
}  // namespace eoib::lab
