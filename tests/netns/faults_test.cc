// Faults that fabricd makes on demand, and what the switch makes of them.
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

const MacAddr kA = MacAddr::FromUint64(0x02'aa'00'00'00'01);

class FaultsTest : public SwitchTest {
 protected:
  void Fault(const Argv& command) {
    const RunResult result = fabric().Ctl(command);
    ASSERT_TRUE(result.ok()) << result.ToString();
  }
  // How many answers a ping that has ended says it got.
  static int Received(const std::string& log) {
    const size_t end = log.find(" received");
    int received = -1;
    if (end == std::string::npos) return received;
    const size_t begin = log.rfind(' ', end - 1) + 1;
    return absl::SimpleAtoi(log.substr(begin, end - begin), &received) ? received : -1;
  }
  // Whether one ping out of many gets through within the deadline.
  bool Reaches(Host* from, const std::string& to, absl::Duration limit = kPatience) {
    return EventuallyTrue(limit, [&] { return from->Run({"ping", "-n", "-c", "1", "-W", "0.1", to}).ok(); });
  }
};

TEST_F(FaultsTest, APulledCableIsSeenAtTheInterfaceAndAPluggedOneHealsByItself) {
  auto hosts = AddNumberedAgents(3);
  ExpectPing(hosts[0]->host(), Address(2));
  ExpectPing(hosts[0]->host(), Address(3));
  Fault({"link", "h2", "down"});
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(hosts[1]->host()->MustIp("-o link show dev v1"), "NO-CARRIER");
  })) << "what is behind the interface must see it";
  EXPECT_FALSE(hosts[0]->host()->Run({"ping", "-n", "-c", "2", "-i", "0.1", "-W", "0.2", Address(2)}).ok());
  ExpectPing(hosts[0]->host(), Address(3), 20);

  Fault({"link", "h2", "up"});
  EXPECT_TRUE(Reaches(hosts[0]->host(), Address(2)));
  EXPECT_TRUE(Reaches(hosts[1]->host(), Address(3)));
}

TEST_F(FaultsTest, LossLosesAboutWhatItSays) {
  auto hosts = AddNumberedAgents(2);
  PacketSocket one(hosts[0]->host(), "v1"), two(hosts[1]->host(), "v1");
  Fault({"fault", "*", "*", "loss", "200000", "seed", "7"});  // a fifth
  constexpr uint32_t kFrames = 2000;
  const uint64_t sent = hosts[0]->Stat("transmitted_fabric");
  for (uint32_t i = 1; i <= kFrames; ++i) {
    one.Send(TestFrame(MacAddr::Broadcast(), kA, i));
    // In bursts that the queues on the way hold: nothing but the fault may lose any.
    if (i % 50 != 0) continue;
    ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return hosts[0]->Stat("transmitted_fabric") >= sent + i; }));
  }
  ExpectConservation(hosts[0]);
  ExpectConservation(hosts[1]);
  Fault({"fault/clear"});
  one.Send(TestFrame(MacAddr::Broadcast(), kA, kFrames + 1));
  ASSERT_TRUE(two.WaitFor(Marked(kFrames + 1)));
  const size_t arrived = two.Markers().size() - 1;
  SCOPED_TRACE(fabric().Ctl({"show"}).ToString());
  EXPECT_GT(arrived, kFrames * 75 / 100);
  EXPECT_LT(arrived, kFrames * 85 / 100);
}

TEST_F(FaultsTest, AnotherLidIsFollowed) {
  auto hosts = AddNumberedAgents(3);
  ExpectPing(hosts[0]->host(), Address(2));
  ExpectPing(hosts[1]->host(), Address(3));
  Fault({"lid", "h2", "77"});
  EXPECT_TRUE(Reaches(hosts[0]->host(), Address(2)));
  EXPECT_TRUE(Reaches(hosts[2]->host(), Address(2)));
  EXPECT_EQ(hosts[1]->Lid(), "0x4d");
}

// A queue pair has to be made anew for it, and what was behind the old one is followed.
TEST_F(FaultsTest, AWithdrawnPKeyTakesOneHostOutAndBackWhileOthersDoNotNotice) {
  auto hosts = AddNumberedAgents(3);
  ExpectPing(hosts[0]->host(), Address(2));
  ExpectPing(hosts[0]->host(), Address(3));
  const auto others = hosts[0]->host()->Start(PingCommand(Address(3), 300, "0.01"));
  const auto has_carrier = [&] { return !absl::StrContains(hosts[1]->host()->MustIp("-o link show dev v1"), "NO-CARRIER"); };
  for (int round = 0; round < 3; ++round) {
    Fault({"partition/remove", "0x8001", "h2"});
    ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return !has_carrier(); }));
    EXPECT_THAT(hosts[1]->MustCtl({"show"}), testing::HasSubstr("find P_Key 0x8001"));
    // Its place in the table goes to another partition, so it comes back at another index.
    Fault({"partition/add", absl::StrCat("0x900", round), "h2"});
    Fault({"partition/add", "0x8001", "h2"});
    ASSERT_TRUE(EventuallyTrue(kPatience, has_carrier));
    EXPECT_TRUE(Reaches(hosts[0]->host(), Address(2)));
    EXPECT_TRUE(Reaches(hosts[1]->host(), Address(3)));
  }
  EXPECT_EQ(others->Wait(), absl::optional<int>(0)) << others->Log();
  EXPECT_THAT(others->Log(), testing::HasSubstr(" 0% packet loss"));
  EXPECT_THAT(hosts[1]->Log(), testing::Not(testing::HasSubstr("starting anew")));
}

TEST_F(FaultsTest, AnotherLidCostsAFewPings) {
  auto hosts = AddNumberedAgents(2);
  ExpectPing(hosts[0]->host(), Address(2));
  const auto ping = hosts[0]->host()->Start(PingCommand(Address(2), 300, "0.01"));
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return hosts[0]->Stat("transmitted_fabric") > 100; }));
  Fault({"lid", "h2", "88"});
  ping->Wait();
  EXPECT_GT(Received(ping->Log()), 300 - 30) << ping->Log();
  EXPECT_EQ(hosts[1]->Lid(), "0x58");
}

// It has forgotten groups and subscriptions, and asks for reregistration: a light refresh, which takes nothing away.
TEST_F(FaultsTest, ARestartedSubnetManagerCostsNothing) {
  auto hosts = AddNumberedAgents(3);
  ExpectPing(hosts[0]->host(), Address(2));
  ExpectPing(hosts[1]->host(), Address(3));
  const auto subscribed = [](Agent* agent) {
    return absl::StrContains(agent->MustCtl({"show"}), "notices of the subnet: subscribed");
  };
  for (Agent* agent : hosts) EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return subscribed(agent); }));
  const auto one = hosts[0]->host()->Start(PingCommand(Address(2), 300, "0.01"));
  const auto two = hosts[1]->host()->Start(PingCommand(Address(3), 300, "0.01"));
  for (int i = 0; i < 5; ++i) {
    const uint64_t sent = hosts[0]->Stat("transmitted_fabric");
    Fault({"sm", "restart"});
    ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return hosts[0]->Stat("transmitted_fabric") > sent + 20; }));
  }
  for (const auto& ping : {one.get(), two.get()}) {
    EXPECT_EQ(ping->Wait(), absl::optional<int>(0)) << ping->Log();
    EXPECT_THAT(ping->Log(), testing::HasSubstr(" 0% packet loss"));
  }
  for (Agent* agent : hosts) {
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return subscribed(agent); }));
    EXPECT_THAT(agent->MustCtl({"show"}), testing::HasSubstr(": joined, MLID"));
  }
  // Floods reach everybody: the group is there again, with all its members.
  hosts[0]->host()->MustIp("neighbour flush dev v1");
  ExpectPing(hosts[0]->host(), Address(3));
}

TEST_F(FaultsTest, WithoutASubnetManagerNewPeersStillMeet) {
  auto hosts = AddNumberedAgents(2);  // in the group, but they have not spoken to each other's station yet
  Fault({"sm", "off"});
  ExpectPing(hosts[0]->host(), Address(2));
  ExpectPing(hosts[1]->host(), Address(1));
  Fault({"sm", "on"});
}

}  // namespace
}  // namespace eoib::lab
