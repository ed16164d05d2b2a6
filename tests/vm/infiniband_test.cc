// Agents on the kernel's InfiniBand stack, under Debian's OpenSM: what happens to a subnet, and that the agents follow. What a
// switch does for its ports is not here: the scenarios of tests/netns run on this fabric as they are (scenarios.sh).
//
// All tests share a subnet, whose manager runs on the port of host h1, and which each leaves as it found it.
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "fdb/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/ib_fabric.h"
#include "tests/lab/ib_subnet.h"
#include "tests/lab/switch_test.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/fabric/sa_client.h"
#include "vswitch/wire/mgid.h"

namespace eoib::lab {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// OpenSM tells of a group by "MGID....................ff12:e01b:8001:...", leading zeros left out.
constexpr char kFloodMgid[] = "ff12:e01b:8001:ffff:ffff:ffff::";

// Adapters of h1 to h4.
constexpr int kH1 = 0, kH2 = 1, kH4 = 3;

// What a stranger is told by the subnet administrator, who trusts those that know its SM_Key: to others it does not name
// members.
std::string Saquery(const Argv& arguments) {
  SpawnOptions options;
  options.argv = {"saquery", "--smkey", "1", "-C", IbSubnet::Device(IbFabric::kAdapters - 1)};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  return RunToEnd(std::move(options)).ToString();
}

// Runs the client until what `ask` asks is answered, which must go well.
void Await(SaClient* sa, const std::function<void(SaClient::GroupCallback)>& ask) {
  absl::optional<absl::Status> answer;
  ask([&answer](const absl::StatusOr<McMemberRecord>& record) { answer = record.status(); });
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] {
    sa->Run();
    return answer.has_value();
  }));
  EXPECT_TRUE(answer->ok()) << *answer;
}

class InfinibandTest : public SwitchTest {
 protected:
  static IbSubnet& subnet() { return IbFabric::subnet(); }

  // Three that know each other.
  void StartHosts() {
    hosts_ = AddNumberedAgents(3);
    ExpectPing(host(1), Address(2));
    ExpectPing(host(2), Address(3));
    ExpectPing(host(3), Address(1));
  }

  Host* host(int number) { return hosts_[number - 1]->host(); }
  Agent& agent(int number) { return *hosts_[number - 1]; }

  bool HasCarrier(int number) { return absl::StrContains(host(number)->MustIp("-o link show dev v1"), "LOWER_UP"); }
  bool Shows(int number, const std::string& text) { return absl::StrContains(agent(number).Ctl({"show"}).out, text); }
  // Waits for it.
  void ExpectShows(int number, const std::string& text) {
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return Shows(number, text); }))
        << "not \"" << text << "\" in " << agent(number).Ctl({"show"}).out;
  }
  void ExpectReaches(int from, int to) {
    EXPECT_TRUE(EventuallyTrue(kPatience,
                               [&] {
                                 return host(from)->Run({"ping", "-n", "-c", "1", "-W", "1", Address(to)}).ok();
                               }))
        << "h" << from << " to h" << to;
  }
  // By a frame that floods: the members of the group are who they should be.
  void ExpectFloodsReach(int from, int to) {
    host(from)->MustIp("neighbour flush dev v1");
    ExpectReaches(from, to);
  }

  // Which are in force when it returns.
  void SetPartitions(const std::vector<PartitionSpec>& partitions) {
    subnet().SetPartitions(ib_fabric().Translate(partitions));
    subnet().Wait();
  }
  IbFabric& ib_fabric() { return dynamic_cast<IbFabric&>(fabric()); }

  // h1 to h2 and h2 to h3, ten times a second, until ExpectNothingLost.
  void StartPings(int count) {
    StartPing(1, Address(2), count);
    StartPing(2, Address(3), count);
  }
  void StartPing(int from, const std::string& to, int count) {
    pings_.push_back(host(from)->Start(PingCommand(to, count, "0.1")));
  }
  void ExpectNothingLost() {
    for (const auto& ping : pings_) {
      ping->Wait(absl::Seconds(120));
      EXPECT_EQ(ParsePing(ping->Log()).lost(), 0) << ping->Log();
    }
    pings_.clear();
  }
  bool PingsRun() {
    return std::all_of(pings_.begin(), pings_.end(), [](const auto& ping) { return ping->Alive(); });
  }

  // Who is in the group of h1, by OpenSM's word: numbers of hosts.
  std::vector<int> Members() {
    const std::string answer = Saquery({"-m", MlidOf(1)});
    std::vector<int> members;
    for (int number = 1; number <= IbFabric::kAdapters; ++number) {
      if (absl::StrContains(answer, absl::StrCat("(", IbSubnet::Device(number - 1), ")"))) members.push_back(number);
    }
    return members;
  }
  void ExpectMembers(const std::vector<int>& expected) {
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return Members() == expected; })) << Saquery({"-m", MlidOf(1)});
  }
  std::string MlidOf(int number) {
    const std::string show = agent(number).MustCtl({"show"});
    const size_t at = show.find("MLID ");
    return at == std::string::npos ? "no MLID" : show.substr(at + 5, 6);
  }

 private:
  std::vector<Agent*> hosts_;
  std::vector<std::unique_ptr<Process>> pings_;
};

// ---- Groups.

TEST_F(InfinibandTest, TheFloodGroupIsOneOfOpenSmsWithItsMembers) {
  StartHosts();
  const std::string mlid = MlidOf(1);
  EXPECT_EQ(MlidOf(3), mlid);
  EXPECT_THAT(Saquery({"-g"}),
              ContainsRegex(absl::StrCat("MGID\\.+", kFloodMgid, "\n[^\n]*Mlid\\.+0x", absl::AsciiStrToUpper(mlid.substr(2)))));
  ExpectMembers({1, 2, 3});
  EXPECT_EQ(agent(2).Stop(), 0);
  ExpectMembers({1, 3});
  agent(2).Start();
  host(2)->AddAddress("v1", Address(2) + "/24");
  ExpectFloodsReach(1, 2);
}

// Somebody has made a group of that MGID in another partition: OpenSM lets none of ours into it.
TEST_F(InfinibandTest, AJoinThatIsRefusedIsToldAndTriedAgain) {
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
            mcm::kMgid | mcm::kPortGid | mcm::kPKey | mcm::kQKey | mcm::kSl | mcm::kFlowLabel | mcm::kTrafficClass |
                mcm::kScope | mcm::kJoinState,
            done);
  });

  Agent agent(&lab(), &fabric(), lab().AddHost("h2"), {});
  agent.Launch();
  EXPECT_TRUE(
      EventuallyTrue(kPatience, [&] { return absl::StrContains(agent.Ctl({"show"}).out, "request invalid (0x0200)"); }));
  EXPECT_TRUE(agent.Alive());

  Await(&sa, [&](const SaClient::GroupCallback& done) { sa.Leave(squatted, done); });
  agent.WaitUntilReady();
  EXPECT_EQ(agent.Stop(), 0);
}

// ---- The subnet manager.

TEST_F(InfinibandTest, ASubnetManagerThatIsKilledAndRestartedCostsNothing) {
  StartHosts();
  StartPings(80);
  subnet().KillSm(kH1, SIGKILL);
  subnet().StartSm(kH1);
  subnet().Wait();
  for (int number : {1, 2, 3}) ExpectShows(number, "notices of the subnet: subscribed");
  // It has forgotten the groups; the agents have told it.
  ExpectMembers({1, 2, 3});
  EXPECT_TRUE(PingsRun()) << "they must have covered it all";
  ExpectNothingLost();
  ExpectFloodsReach(3, 1);
}

TEST_F(InfinibandTest, AnotherSubnetManagerTakesOverWithoutLoss) {
  StartHosts();
  subnet().StartSm(kH4);
  subnet().Wait();
  StartPings(150);
  subnet().KillSm(kH1, SIGKILL);
  const std::string new_lid = absl::StrFormat("SM LID 0x%x,", IbSubnet::Lid(kH4));
  for (int number : {1, 2, 3}) {
    ExpectShows(number, new_lid);
    ExpectShows(number, ": joined, MLID");
    ExpectShows(number, "notices of the subnet: subscribed");
  }
  ExpectMembers({1, 2, 3});
  EXPECT_TRUE(PingsRun()) << "they must have covered it all";
  ExpectNothingLost();
  ExpectFloodsReach(3, 1);
  // Who comes now asks the new one.
  Agent& fourth = AddAgent("h5");
  fourth.host()->AddAddress("v1", Address(5) + "/24");
  ExpectPing(fourth.host(), Address(1));

  subnet().StopSm(kH4);
  subnet().StartSm(kH1);
  subnet().Wait();
}

// What is known needs no subnet manager, for as long as it lasts, and neither do two who meet.
TEST_F(InfinibandTest, AMinuteWithoutASubnetManagerLosesNoKnownUnicastAndNewPeersMeet) {
  auto hosts = AddNumberedAgents(3);
  ExpectPing(hosts[0]->host(), Address(2));
  subnet().KillSm(kH1, SIGKILL);
  const auto ping = hosts[0]->host()->Start(PingCommand(Address(2), 600, "0.1"));
  // h3 has not spoken to either.
  ExpectPing(hosts[2]->host(), Address(1));
  ExpectPing(hosts[1]->host(), Address(3));
  EXPECT_EQ(ping->Wait(absl::Seconds(120)), absl::optional<int>(0));
  EXPECT_EQ(ParsePing(ping->Log()).lost(), 0) << ping->Log();
  ExpectPing(hosts[2]->host(), Address(2));
  subnet().StartSm(kH1);
  subnet().Wait();
}

// ---- Ports.

// By partitions.conf and SIGHUP: no trap is raised for it.
TEST_F(InfinibandTest, AWithdrawnPKeyTakesOneHostOutAndBackWhileOthersDoNotNotice) {
  StartHosts();
  StartPing(1, Address(3), 100);
  for (int round = 0; round < 2; ++round) {
    SetPartitions({{0x8001, {"h1", "h3"}}});
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return !HasCarrier(2); }));
    EXPECT_THAT(agent(2).MustCtl({"show"}), HasSubstr("0x8001"));
    // Another partition has its place in the table: it comes back at another index.
    SetPartitions({{0x8001, {"h1", "h3"}}, {static_cast<uint16_t>(0x9000 + round), {"h2"}}});
    SetPartitions({{0x8001}, {static_cast<uint16_t>(0x9000 + round), {"h2"}}});
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return HasCarrier(2); }));
    ExpectReaches(1, 2);
    ExpectReaches(2, 3);
  }
  ExpectNothingLost();
}

TEST_F(InfinibandTest, APulledCableIsSeenAtTheInterfaceAndAPluggedOneHealsByItself) {
  StartHosts();
  StartPing(3, Address(1), 50);
  subnet().SetCable(kH2, false);
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return !HasCarrier(2); }));
  EXPECT_FALSE(host(1)->Run({"ping", "-n", "-c", "2", "-i", "0.1", "-W", "0.3", Address(2)}).ok());
  subnet().SetCable(kH2, true);
  subnet().Wait();
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return HasCarrier(2); }));
  ExpectReaches(1, 2);
  ExpectFloodsReach(2, 3);
  ExpectNothingLost();
}

TEST_F(InfinibandTest, AnotherLidIsFollowed) {
  StartHosts();
  const uint16_t old_lid = IbSubnet::Lid(kH2), new_lid = 77;
  subnet().ReassignLid(kH2, new_lid);
  EXPECT_EQ(IbSubnet::Lid(kH2), new_lid);
  ExpectShows(2, absl::StrFormat("LID 0x%x,", new_lid));
  ExpectReaches(1, 2);
  ExpectReaches(2, 3);
  subnet().ReassignLid(kH2, old_lid);
  ExpectReaches(1, 2);
}

// ---- The device.

TEST_F(InfinibandTest, TheDriverIsUnloadedUnderTrafficAndLoadedAgain) {
  StartHosts();
  const std::string mac = host(2)->Mac("v1");
  auto stream = host(1)->Start(PingCommand(Address(2), 100'000, "0.01"));
  subnet().StopSm(kH1);
  subnet().Unload();
  for (int number : {1, 2, 3}) {
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return !HasCarrier(number); })) << "h" << number;
    EXPECT_TRUE(agent(number).Alive()) << agent(number).Log();
  }
  ExpectShows(1, "simib0");
  subnet().Load();
  subnet().Start();
  for (int number : {1, 2, 3}) agent(number).WaitUntilReady();
  ExpectReaches(1, 2);
  ExpectReaches(2, 3);
  EXPECT_EQ(host(2)->Mac("v1"), mac);
  EXPECT_TRUE(stream->Alive()) << "it must have covered it all";
  stream->Kill(SIGINT);
  stream->Wait();
  EXPECT_GT(ParsePing(stream->Log()).received, 0);
}

// ---- The kernel's IPoIB on the same ports, in a partition of its own and in the VES's.

class SharedPortTest : public InfinibandTest {
 protected:
  // hN gets the interface that the kernel has made for its adapter as ib1, and another in the VES's partition as ib2, with the
  // addresses 10.1.0.N and 10.2.0.N.
  void AddIpoib(int number) {
    const std::string parent = IbSubnet::IpoibInterface(number - 1), child = absl::StrCat("child", number);
    MustIp({"link", "add", "link", parent, "name", child, "type", "ipoib", "pkey", "0x8001"});
    int count = 0;
    for (const std::string& interface : {child, parent}) {
      const std::string name = absl::StrCat("ib", 2 - count++);
      MustIp({"link", "set", interface, "netns", absl::StrCat(host(number)->holder()), "name", name});
      host(number)->AddAddress(name, absl::StrCat("10.", name.substr(2), ".0.", number, "/24"));
      host(number)->SetUp(name);
    }
  }

 private:
  static void MustIp(const Argv& arguments) {
    SpawnOptions options;
    options.argv = {"ip"};
    options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
    const RunResult result = RunToEnd(std::move(options));
    ASSERT_TRUE(result.ok()) << result.ToString();
  }
};

TEST_F(SharedPortTest, IpoibAndAgentsDoNotDisturbEachOther) {
  StartFabric({{.pkey = 0xffff, .ipoib = true}, {.pkey = 0x8001, .ipoib = true}});
  StartHosts();
  for (int number : {1, 2, 3}) AddIpoib(number);
  for (const char* address : {"10.1.0.2", "10.2.0.2"}) {
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
      return host(1)->Run({"ping", "-n", "-c", "1", "-W", "1", address}).ok();
    })) << address;
  }
  // Of each kind between h1 and h2, while on h3 each kind comes and goes.
  for (const std::string& address : {Address(2), std::string("10.1.0.2"), std::string("10.2.0.2")}) StartPing(1, address, 60);
  agent(3).Kill(SIGKILL);
  agent(3).Start();
  host(3)->MustIp("link set ib2 down");
  host(3)->MustIp("link set ib2 up");
  EXPECT_EQ(agent(3).Stop(), 0);
  agent(3).Start();
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return host(3)->Run({"ping", "-n", "-c", "1", "-W", "1", "10.2.0.1"}).ok(); }));
  ExpectNothingLost();
}

}  // namespace
}  // namespace eoib::lab
