// Faults that fabricd injects, and how the switch handles them.
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/steady_ping.h"
#include "tests/lab/switch_test.h"
#include "tests/lab/traffic.h"

namespace eoib::lab {
namespace {

const MacAddr kA = MacAddr::FromUint64(0x02'aa'00'00'00'01);

class FaultsTest : public SwitchTest {
 protected:
  // Markers above those of a test's own frames.
  static constexpr uint32_t kPriming = 1'000'000, kEnd = kPriming + 1;

  void Fault(const Argv& command) {
    const RunResult result = soft_fabric().Ctl(command);
    ASSERT_TRUE(result.ok()) << result.ToString();
  }
  // The shortest of a few round trips, in milliseconds: "rtt min/avg/max/mdev =
  // 0.050/0.060/0.070/0.010 ms".
  static double ShortestRoundTrip(Host* from, const std::string& to) {
    const std::string log = from->Run(PingCommand(to, 5, "0.01")).out;
    const std::vector<std::string> parts = absl::StrSplit(log, "rtt min/avg/max/mdev = ");
    double shortest = -1;
    if (parts.size() == 2 && absl::SimpleAtod(parts[1].substr(0, parts[1].find('/')), &shortest))
      return shortest;
    ADD_FAILURE() << "ping from " << from->name() << " to " << to << ": no times in " << log;
    return shortest;
  }
  // Sends a broadcast and waits until `two` has `copies` of it and `three` has one.
  static void SendAndAwait(PacketSocket* from, uint32_t marker, PacketSocket* two, size_t copies,
                           PacketSocket* three) {
    from->Send(TestFrame(MacAddr::Broadcast(), kA, marker));
    ASSERT_TRUE(two->WaitFor(Marked(marker), copies)) << "frame " << marker;
    ASSERT_TRUE(three->WaitFor(Marked(marker))) << "frame " << marker;
  }
  // Parses fabricd's `counters` or an agent's `hca`: both have lines "  name value  meaning".
  static std::map<std::string, uint64_t> ParsePortCounters(const std::string& text) {
    std::map<std::string, uint64_t> counters;
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      const std::vector<std::string> words = Words(line);
      uint64_t value = 0;
      if (words.size() >= 2 && absl::SimpleAtoi(words[1], &value)) counters[words[0]] = value;
    }
    return counters;
  }
  static uint64_t PortCounter(Agent* agent, const std::string& name) {
    return ParsePortCounters(agent->MustCtl({"hca"})).at(name);
  }
  // fabricd passes a rule to the ports a moment after it accepts it: send until `at` has counted in
  // `counter`.
  static void AwaitRule(PacketSocket* from, Agent* at, const std::string& counter) {
    // Two, so that one can overtake the other.
    const std::vector<Bytes> two(2, TestFrame(MacAddr::Broadcast(), kA, kPriming));
    const auto counted = [&] { return from->SendAll(two), PortCounter(at, counter) > 0; };
    ASSERT_TRUE(EventuallyTrue(kPatience, counted))
        << at->host()->name() << " counts no " << counter;
  }
  // The end of a rule takes effect a moment later, too: send until one frame arrives, after all
  // frames sent before it.
  static void AwaitEnd(PacketSocket* from, PacketSocket* to) {
    const auto passed = [&] {
      from->Send(TestFrame(MacAddr::Broadcast(), kA, kEnd));
      return to->WaitFor(Marked(kEnd), 1, absl::Milliseconds(50));
    };
    ASSERT_TRUE(EventuallyTrue(kPatience, passed));
  }
  // The counters of an agent's port, after the agent and fabricd have come to agree on them.
  std::map<std::string, uint64_t> AgreedCounters(Agent* agent) {
    std::map<std::string, uint64_t> ours, theirs;
    const auto agree = [&] {
      ours = ParsePortCounters(agent->MustCtl({"hca"}));
      theirs = ParsePortCounters(soft_fabric().Ctl({"counters", agent->host()->name()}).out);
      return ours == theirs;
    };
    EventuallyTrue(absl::Seconds(5), agree);
    EXPECT_THAT(theirs, testing::ContainerEq(ours)) << agent->host()->name();
    EXPECT_GT(ours.size(), 20u) << agent->MustCtl({"hca"});
    return ours;
  }
  // The number of MADs that each port has sent. Parses "h1 lid ..." and, below it, "  registrations
  // 1, MADs 7, ...".
  std::map<std::string, uint64_t> Mads() {
    std::map<std::string, uint64_t> mads;
    std::string port;
    for (absl::string_view line : absl::StrSplit(soft_fabric().Ctl({"show"}).out, '\n')) {
      const std::vector<std::string> words =
          absl::StrSplit(line, absl::ByAnyChar(" ,"), absl::SkipEmpty());
      if (words.size() > 2 && words[1] == "lid") port = words[0];
      uint64_t count = 0;
      if (words.size() > 4 && words[2] == "MADs" && absl::SimpleAtoi(words[3], &count))
        mads[port] = count;
    }
    return mads;
  }
};

TEST_F(FaultsTest, LinkDownClearsCarrierAndLinkUpRestoresTraffic) {
  auto hosts = AddNumberedAgents(3);
  ExpectPing(hosts[0]->host(), Address(2));
  ExpectPing(hosts[0]->host(), Address(3));
  Fault({"link", "h2", "down"});
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(hosts[1]->host()->MustIp("-o link show dev v1"), "NO-CARRIER");
  })) << "the interface must lose its carrier";
  EXPECT_FALSE(
      hosts[0]->host()->Run({"ping", "-n", "-c", "2", "-i", "0.1", "-W", "0.2", Address(2)}).ok());
  ExpectPing(hosts[0]->host(), Address(3), 20);

  Fault({"link", "h2", "up"});
  EXPECT_TRUE(Reaches(hosts[0]->host(), Address(2)));
  EXPECT_TRUE(Reaches(hosts[1]->host(), Address(3)));
}

TEST_F(FaultsTest, LossFaultLosesTheConfiguredShare) {
  auto hosts = AddNumberedAgents(2);
  WaitUntilAllReceive({{hosts[0]->host()}, {hosts[1]->host()}});
  PacketSocket one(hosts[0]->host(), "v1"), two(hosts[1]->host(), "v1");
  Fault({"fault", "*", "*", "loss", "200000", "seed", "7"});  // a fifth
  ASSERT_NO_FATAL_FAILURE(AwaitRule(&one, hosts[1], "rcv_simulated_losses"));
  const auto come_to_its_port = [&] {
    const auto counters = ParsePortCounters(hosts[1]->MustCtl({"hca"}));
    return counters.at("rcv_packets") + counters.at("rcv_simulated_losses");
  };
  constexpr uint32_t kFrames = 2000;
  const uint64_t before = come_to_its_port();
  for (uint32_t i = 1; i <= kFrames; ++i) {
    one.Send(TestFrame(MacAddr::Broadcast(), kA, i));
    // Send in bursts that fit the queues on the way, so that only the fault loses frames.
    if (i % 50 != 0) continue;
    ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return come_to_its_port() >= before + i; }));
  }
  ExpectConservation(hosts[0]);
  ExpectConservation(hosts[1]);
  Fault({"fault/clear"});
  ASSERT_NO_FATAL_FAILURE(AwaitEnd(&one, &two));
  size_t arrived = 0;
  for (const auto& [marker, count] : two.Markers()) arrived += marker >= 1 && marker <= kFrames;
  SCOPED_TRACE(soft_fabric().Ctl({"show"}).ToString());
  EXPECT_GT(arrived, kFrames * 75 / 100);
  EXPECT_LT(arrived, kFrames * 85 / 100);
}

// A round trip passes the rule's direction once, whichever side starts it.
TEST_F(FaultsTest, DelayFaultAffectsOneDirectionOfOnePair) {
  auto hosts = AddNumberedAgents(3);
  for (const int other : {2, 3}) ExpectPing(hosts[0]->host(), Address(other));
  const auto round_trip = [&](int from, int to) {
    return ShortestRoundTrip(hosts[from - 1]->host(), Address(to));
  };
  // Retried, since a busy machine adds delays of its own.
  const auto is_prompt = [&](int from, int to) {
    return EventuallyTrue(kPatience, [&] { return round_trip(from, to) < 50; });
  };
  const auto is_late_once = [&](int from, int to) {
    return EventuallyTrue(kPatience, [&] {
      const double milliseconds = round_trip(from, to);
      EXPECT_GE(milliseconds, 50);
      return milliseconds < 100;
    });
  };
  Fault({"fault", "h1", "h2", "delay", "50ms"});
  const auto has_rule = [&] {
    return round_trip(1, 2), PortCounter(hosts[1], "rcv_simulated_delays") > 0;
  };
  ASSERT_TRUE(EventuallyTrue(kPatience, has_rule)) << "the rule did not reach the port";
  EXPECT_TRUE(is_late_once(1, 2));
  EXPECT_TRUE(is_late_once(2, 1)) << "h1's replies must be delayed as well";
  EXPECT_TRUE(is_prompt(1, 3));
  EXPECT_TRUE(is_prompt(3, 2));
  Fault({"fault/clear", "h1", "h2"});
  EXPECT_TRUE(is_prompt(1, 2));
}

TEST_F(FaultsTest, DuplicateFaultAffectsOneDirectionOfOnePair) {
  auto hosts = AddNumberedAgents(3);
  WaitUntilAllReceive({{hosts[0]->host()}, {hosts[1]->host()}, {hosts[2]->host()}});
  PacketSocket one(hosts[0]->host(), "v1"), two(hosts[1]->host(), "v1"),
      three(hosts[2]->host(), "v1");
  Fault({"fault", "h1", "h2", "duplicate", "1000000"});
  ASSERT_NO_FATAL_FAILURE(AwaitRule(&one, hosts[1], "rcv_simulated_duplicates"));
  constexpr uint32_t kFrames = 20;
  for (uint32_t i = 1; i <= kFrames; ++i)
    ASSERT_NO_FATAL_FAILURE(SendAndAwait(&one, i, &two, 2, &three));
  // The way back.
  two.Send(
      TestFrame(Mac(hosts[0]->host()->Mac("v1")), Mac(hosts[1]->host()->Mac("v1")), kFrames + 1));
  ASSERT_TRUE(one.WaitFor(Marked(kFrames + 1)));
  // Frames arrive in order, so when these have arrived, all copies of the earlier ones have.
  Fault({"fault/clear"});
  ASSERT_NO_FATAL_FAILURE(SendAndAwait(&one, kEnd, &two, 1, &three));
  two.Send(TestFrame(MacAddr::Broadcast(), Mac(hosts[1]->host()->Mac("v1")), kEnd));
  ASSERT_TRUE(one.WaitFor(Marked(kEnd)));
  for (uint32_t i = 1; i <= kFrames; ++i) {
    EXPECT_EQ(two.Count(Marked(i)), 2u) << "frame " << i;
    EXPECT_EQ(three.Count(Marked(i)), 1u) << "frame " << i << ", of another pair";
  }
  EXPECT_EQ(one.Count(Marked(kFrames + 1)), 1u);
}

TEST_F(FaultsTest, ReorderFaultLosesNoFrame) {
  auto hosts = AddNumberedAgents(3);
  WaitUntilAllReceive({{hosts[0]->host()}, {hosts[1]->host()}, {hosts[2]->host()}});
  PacketSocket one(hosts[0]->host(), "v1"), two(hosts[1]->host(), "v1"),
      three(hosts[2]->host(), "v1");
  Fault({"fault", "h1", "h2", "reorder", "300000", "seed", "7"});
  ASSERT_NO_FATAL_FAILURE(AwaitRule(&one, hosts[1], "rcv_simulated_reorders"));
  constexpr uint32_t kBursts = 5, kBurst = 50;  // a burst fits the queues on the way
  const auto is_ours = [](const Bytes& frame) {
    return MarkerOf(frame) != 0 && MarkerOf(frame) < kPriming;
  };
  std::vector<uint32_t> sent;
  for (uint32_t burst = 0; burst < kBursts; ++burst) {
    std::vector<Bytes> frames;
    for (uint32_t i = 0; i < kBurst; ++i) {
      sent.push_back(burst * kBurst + i + 1);
      frames.push_back(TestFrame(MacAddr::Broadcast(), kA, sent.back()));
    }
    one.SendAll(frames);
    for (PacketSocket* socket : {&two, &three}) ASSERT_TRUE(socket->WaitFor(is_ours, sent.size()));
  }
  const auto markers = [&](PacketSocket* socket) {
    std::vector<uint32_t> arrived;
    for (const Bytes& frame : socket->received()) {
      if (is_ours(frame)) arrived.push_back(MarkerOf(frame));
    }
    return arrived;
  };
  EXPECT_EQ(markers(&three), sent) << "another pair";
  std::vector<uint32_t> arrived = markers(&two);
  EXPECT_NE(arrived, sent);
  std::sort(arrived.begin(), arrived.end());
  EXPECT_EQ(arrived, sent) << "each frame arrives once";
}

// A port's own counters equal those that fabricd reads from the counter page that it shares with
// the port.
TEST_F(FaultsTest, AgentAndFabricdReportTheSameCounters) {
  AgentSpec silent;
  silent.veses[0].more = "announce = false\n";
  auto hosts = AddNumberedAgents(2, silent);
  for (Agent* agent : hosts) agent->WaitUntilAnnounced();
  PacketSocket one(hosts[0]->host(), "v1"), two(hosts[1]->host(), "v1");
  const MacAddr there = Mac(hosts[1]->host()->Mac("v1"));
  two.Send(TestFrame(MacAddr::Broadcast(), there, 1));
  ASSERT_TRUE(one.WaitFor(Marked(1)));  // h1 knows where h2's MAC is
  // h2 also receives its own floods; wait until it has.
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] {
    return hosts[1]->Drop("own_multicast") == PortCounter(hosts[1], "xmit_multicast_packets");
  }));
  auto sender = AgreedCounters(hosts[0]), receiver = AgreedCounters(hosts[1]);

  // vswitch/wire/eoib_header.h.
  constexpr uint64_t kFloods = 30, kUnicasts = 20, kLength = 100, kHeader = 4;
  std::vector<Bytes> frames(kFloods, TestFrame(MacAddr::Broadcast(), kA, 2, kLength));
  frames.insert(frames.end(), kUnicasts, TestFrame(there, kA, 3, kLength));
  one.SendAll(frames);
  ASSERT_TRUE(two.WaitFor(Marked(2), kFloods));
  ASSERT_TRUE(two.WaitFor(Marked(3), kUnicasts));
  const auto count = [](std::map<std::string, uint64_t> after,
                        std::map<std::string, uint64_t> before) {
    return [=](const std::string& name) mutable { return after.at(name) - before.at(name); };
  };
  auto sent = count(AgreedCounters(hosts[0]), sender),
       received = count(AgreedCounters(hosts[1]), receiver);
  EXPECT_EQ(sent("xmit_packets"), kFloods + kUnicasts);
  EXPECT_EQ(sent("xmit_multicast_packets"), kFloods);
  EXPECT_EQ(sent("xmit_bytes"), (kFloods + kUnicasts) * (kLength + kHeader));
  EXPECT_EQ(received("rcv_packets"), kFloods + kUnicasts);
  EXPECT_EQ(received("rcv_multicast_packets"), kFloods);
  EXPECT_EQ(received("rcv_bytes"), (kFloods + kUnicasts) * (kLength + kHeader));
  EXPECT_EQ(received("rcv_delivered"), kFloods + kUnicasts);
  EXPECT_EQ(sent("xmit_discards"), 0u);
}

TEST_F(FaultsTest, LidChangeIsFollowed) {
  auto hosts = AddNumberedAgents(3);
  ExpectPing(hosts[0]->host(), Address(2));
  ExpectPing(hosts[1]->host(), Address(3));
  Fault({"lid", "h2", "77"});
  EXPECT_TRUE(Reaches(hosts[0]->host(), Address(2)));
  EXPECT_TRUE(Reaches(hosts[2]->host(), Address(2)));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return hosts[1]->Lid() == "0x4d"; }))
      << hosts[1]->Lid();
}

// The agent needs a new queue pair, and the peers follow the MACs to it.
TEST_F(FaultsTest, PKeyRemovalAndReturnAffectOneHostOnly) {
  auto hosts = AddNumberedAgents(3);
  ExpectPing(hosts[0]->host(), Address(2));
  ExpectPing(hosts[0]->host(), Address(3));
  SteadyPing others(hosts[0]->host(), Address(3));
  const auto has_carrier = [&] {
    return !absl::StrContains(hosts[1]->host()->MustIp("-o link show dev v1"), "NO-CARRIER");
  };
  for (int round = 0; round < 3; ++round) {
    Fault({"partition/remove", "0x8001", "h2"});
    ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return !has_carrier(); }));
    EXPECT_THAT(hosts[1]->MustCtl({"show"}), testing::HasSubstr("find P_Key 0x8001"));
    // Another partition takes its place in the P_Key table, so the P_Key comes back at another
    // index.
    Fault({"partition/add", absl::StrCat("0x900", round), "h2"});
    Fault({"partition/add", "0x8001", "h2"});
    ASSERT_TRUE(EventuallyTrue(kPatience, has_carrier));
    EXPECT_TRUE(Reaches(hosts[0]->host(), Address(2)));
    EXPECT_TRUE(Reaches(hosts[1]->host(), Address(3)));
  }
  others.ExpectNoLoss();
  EXPECT_THAT(hosts[1]->Log(), testing::Not(testing::HasSubstr(": restarting")));
}

// Counts lost datagrams: one is sent in each direction every 5 ms, and those to the former LID are
// lost.
TEST_F(FaultsTest, LidChangeCostsLessThanAThirdOfASecond) {
  auto hosts = AddNumberedAgents(2);
  ExpectPing(hosts[0]->host(), Address(2));
  Traffic traffic;
  const Stream* there = traffic.Add(hosts[0]->host(), Address(1), hosts[1]->host(), Address(2));
  const Stream* back = traffic.Add(hosts[1]->host(), Address(2), hosts[0]->host(), Address(1));
  const auto both_forward = [&](absl::Time since) {
    return EventuallyTrue(kPatience, [&] {
      return there->ForwardsSince(since).has_value() && back->ForwardsSince(since).has_value();
    });
  };
  traffic.Start();
  ASSERT_TRUE(both_forward(absl::InfinitePast()));
  for (int lid = 88; lid < 93; ++lid) {
    SCOPED_TRACE(absl::StrCat("LID ", lid));
    const absl::Time start = absl::Now();
    Fault({"lid", "h2", absl::StrCat(lid)});
    const std::string expected = absl::StrCat("0x", absl::Hex(lid));
    ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return hosts[1]->Lid() == expected; }))
        << hosts[1]->Lid();
    ASSERT_TRUE(both_forward(absl::Now()));
    constexpr size_t kMost = 300 / 5;
    EXPECT_LE(there->LostSince(start), kMost);
    EXPECT_LE(back->LostSince(start), kMost);
    std::cout << "LID " << lid << ": " << there->LostSince(start) << " and "
              << back->LostSince(start) << " lost\n";
  }
}

// A restarted subnet manager has lost groups and subscriptions, and requests reregistration: a
// light refresh, without any loss.
TEST_F(FaultsTest, SubnetManagerRestartLosesNothing) {
  auto hosts = AddNumberedAgents(3);
  ExpectPing(hosts[0]->host(), Address(2));
  ExpectPing(hosts[1]->host(), Address(3));
  const auto subscribed = [](Agent* agent) {
    return absl::StrContains(agent->MustCtl({"show"}), "notices of the subnet: subscribed");
  };
  for (Agent* agent : hosts)
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return subscribed(agent); }));
  SteadyPing one(hosts[0]->host(), Address(2)), two(hosts[1]->host(), Address(3));
  for (int i = 0; i < 5; ++i) {
    const uint64_t sent = hosts[0]->Stat("transmitted_fabric");
    Fault({"sm", "restart"});
    ASSERT_TRUE(EventuallyTrue(kPatience,
                               [&] { return hosts[0]->Stat("transmitted_fabric") > sent + 20; }));
  }
  one.ExpectNoLoss();
  two.ExpectNoLoss();
  for (Agent* agent : hosts) {
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return subscribed(agent); }));
    EXPECT_THAT(agent->MustCtl({"show"}), testing::HasSubstr(": joined, MLID"));
  }
  // Floods reach all hosts: the group exists again, with all its members.
  hosts[0]->host()->MustIp("neighbour flush dev v1");
  ExpectPing(hosts[0]->host(), Address(3));
}

TEST_F(FaultsTest, SubnetManagerMoveIsFollowedWithoutLoss) {
  auto hosts = AddNumberedAgents(3);
  ExpectPing(hosts[0]->host(), Address(2));
  ExpectPing(hosts[1]->host(), Address(3));
  SteadyPing one(hosts[0]->host(), Address(2)), two(hosts[1]->host(), Address(3));
  for (const char* lid : {"0xc8", "0xc9"}) {
    // The ports must send their MADs to its new LID: each port sends some when it reregisters.
    Fault({"sm", "move", lid});
    for (Agent* agent : hosts) {
      EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
        return absl::StrContains(agent->MustCtl({"show"}), absl::StrCat(", SM LID ", lid, ","));
      })) << agent->MustCtl({"show"});
    }
    const auto before = Mads();
    ASSERT_EQ(before.size(), hosts.size());
    Fault({"reregister", "ALL"});
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
      const auto mads = Mads();
      return std::all_of(before.begin(), before.end(),
                         [&](const auto& port) { return mads.at(port.first) > port.second; });
    })) << soft_fabric().Ctl({"show"}).out;
  }
  one.ExpectNoLoss();
  two.ExpectNoLoss();
  for (Agent* agent : hosts)
    EXPECT_THAT(agent->MustCtl({"show"}), testing::HasSubstr(": joined, MLID"));
  EXPECT_NE(soft_fabric().Ctl({"sm", "move", hosts[0]->Lid()}).exit_code, 0)
      << "a port has this LID";
  // A new agent finds it at the new LID.
  Agent& fourth = AddAgent("h4");
  fourth.host()->AddAddress("v1", Address(4) + "/24");
  EXPECT_THAT(fourth.MustCtl({"show"}), testing::HasSubstr(", SM LID 0xc9,"));
  ExpectPing(fourth.host(), Address(1));
}

TEST_F(FaultsTest, NewPeersCommunicateWithoutSubnetManager) {
  // Drop all, or they would receive each other's announcements.
  Fault({"fault", "*", "*", "loss", "1000000"});
  auto hosts = AddNumberedAgents(2);  // they join the group
  Fault({"sm", "off"});
  for (Agent* agent : hosts) ASSERT_EQ(agent->Stat("new_peers"), 0u) << agent->host()->name();
  Fault({"fault/clear"});
  ExpectPing(hosts[0]->host(), Address(2));
  ExpectPing(hosts[1]->host(), Address(1));
  Fault({"sm", "on"});
}

}  // namespace
}  // namespace eoib::lab
