// Large numbers: a full FDB and one more address, and an ARP storm.
#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/steady_ping.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

using ::testing::AnyOf;
using ::testing::IsEmpty;

// ---- A full table -------------------------------------------------------------------------------

constexpr size_t kLimit = 100'000;  // divided by the fabric's slowdown
// Entries before the test: the receiver, and the interfaces of three hosts.
constexpr size_t kKnown = 4;
const MacAddr kReceiver = MacAddr::FromUint64(0x02'bb'00'00'00'01);
const MacAddr kNewcomer = MacAddr::FromUint64(0x02'cc'00'00'00'01);

MacAddr Source(size_t i) { return MacAddr::FromUint64(0x02'aa'00'00'00'00 + i); }

class FullTableTest : public SwitchTest {
 protected:
  // Adds three hosts with a socket on each. All agents learn the hosts' MACs and the receiver's,
  // which is on the second host.
  void AddThree(const std::string& ageing) {
    AgentSpec spec;
    spec.veses[0].more = absl::StrCat("fdb_limit = ", limit(), "\nageing = ", ageing, "\n");
    for (Agent* agent : AddNumberedAgents(3, spec)) {
      sockets_.push_back(std::make_unique<PacketSocket>(agent->host(), "v1"));
    }
    for (int from : {1, 2, 3}) ExpectPing(agents()[from - 1]->host(), Address(from % 3 + 1), 1);
    receiver().Send(TestFrame(MacAddr::Broadcast(), kReceiver, 1));
    ASSERT_TRUE(sender().WaitFor(Marked(1)));
    ASSERT_TRUE(bystander().WaitFor(Marked(1)));
  }
  size_t limit() { return kLimit / fabric().Slowdown(); }
  PacketSocket& sender() { return *sockets_[0]; }
  PacketSocket& receiver() { return *sockets_[1]; }
  PacketSocket& bystander() { return *sockets_[2]; }

  // Sends frames from `count` sources, starting with number `first`, to the receiver; both agents
  // learn them. In pieces that fit the queues on the way; a piece that lost a frame is sent again.
  void Learn(size_t first, size_t count) {
    constexpr size_t kPiece = 250;
    for (size_t begin = first; begin < first + count; begin += kPiece) {
      std::vector<Bytes> frames;
      for (size_t i = begin; i < std::min(begin + kPiece, first + count); ++i) {
        frames.push_back(TestFrame(kReceiver, Source(i), 1, 60));
      }
      ASSERT_TRUE(EventuallyTrue(kPatience,
                                 [&] {
                                   receiver().Clear();
                                   sender().SendAll(frames);
                                   return receiver().WaitFor(Marked(1), frames.size(),
                                                             absl::Seconds(1));
                                 }))
          << agents()[0]->MustCtl({"drops"}) << agents()[1]->MustCtl({"stats"});
    }
  }

  std::vector<std::unique_ptr<PacketSocket>> sockets_;
};

TEST_F(FullTableTest, FullTableReplacesNewestEntryAndKeepsTheOthers) {
  AddThree("300");
  Agent* const local = agents()[0].get();
  Agent* const remote = agents()[1].get();
  const uint64_t before = local->ResidentKilobytes(), remote_before = remote->ResidentKilobytes();
  const absl::Time start = absl::Now();
  ASSERT_EQ(local->Stat("fdb_entries"), kKnown);
  ASSERT_EQ(remote->Stat("fdb_entries"), kKnown);
  Learn(0, limit() - kKnown);
  std::cout << limit() << " MAC addresses learned in " << absl::Now() - start
            << "; memory of the agents: " << local->ResidentKilobytes() << " and "
            << remote->ResidentKilobytes() << " KiB, before that " << before << " and "
            << remote_before << " KiB\n";
  for (Agent* agent : {local, remote}) {
    EXPECT_EQ(agent->Stat("fdb_entries"), limit());
    EXPECT_EQ(agent->Stat("learn_limited"), 0u);
  }
  EXPECT_EQ(remote->Fdb().size(), limit());

  // One more replaces the newest entry of its vPort. The replaced station can still communicate:
  // frames to it flood.
  sender().Send(TestFrame(kReceiver, kNewcomer, 100));
  ASSERT_TRUE(receiver().WaitFor(Marked(100)));
  for (Agent* agent : {local, remote}) {
    EXPECT_EQ(agent->Stat("evicted"), 1u);
    EXPECT_EQ(agent->Stat("fdb_entries"), limit());
    EXPECT_TRUE(agent->Knows(kNewcomer.ToString()));
  }
  const MacAddr newest = Source(limit() - kKnown - 1);
  EXPECT_FALSE(remote->Knows(newest.ToString()));
  const uint64_t flooded = remote->Stat("flooded_unknown");
  receiver().Send(TestFrame(newest, kReceiver, 101));
  EXPECT_TRUE(sender().WaitFor(Marked(101)));
  EXPECT_TRUE(bystander().WaitFor(Marked(101)));
  EXPECT_EQ(remote->Stat("flooded_unknown"), flooded + 1);

  // Frames to the known ones arrive there, and do not flood.
  constexpr size_t kPiece = 250, kStride = 9;
  for (size_t i = 0; i < limit() / 10; i += kPiece) {
    std::vector<Bytes> frames;
    for (size_t j = i; j < i + kPiece; ++j)
      frames.push_back(TestFrame(Source(j * kStride), kReceiver, 2000, 60));
    sender().Clear();
    receiver().SendAll(frames);
    EXPECT_TRUE(sender().WaitFor(Marked(2000), kPiece))
        << "from " << i << remote->MustCtl({"drops"});
  }
  EXPECT_EQ(remote->Stat("flooded_unknown"), flooded + 1);
  EXPECT_EQ(bystander().Count(Marked(2000)), 0u);
}

TEST_F(FullTableTest, AgeingEmptiesTableWithoutLoss) {
  AddThree("4");
  SteadyPing ping(agents()[1]->host(), Address(3));
  Learn(0, limit() / 2);
  // Some of the MACs are announced before their first frame arrives.
  EXPECT_GE(agents()[0]->Stat("learned"), limit() / 2);
  EXPECT_GE(agents()[1]->Stat("learned"), limit() / 4);
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return agents()[0]->Stat("fdb_entries") < 10; }));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return agents()[1]->Stat("fdb_entries") < 10; }));
  const PingCounts counts = ping.End();
  EXPECT_GT(counts.received, 100);
  EXPECT_EQ(counts.lost(), 0);
}

// ---- An ARP storm -------------------------------------------------------------------------------

// How much an agent's memory may grow during a storm, in KiB, once its rings have grown to their
// size. If it kept a frame of every request, it would grow twenty times as much. The address
// sanitizer keeps freed memory.
uint64_t Growth() { return AreSanitized() ? 64 << 10 : 1 << 10; }

class ArpStormTest : public SwitchTest {
 protected:
  static constexpr absl::Duration kDuration = absl::Seconds(3);
  static constexpr int kTargets = 10'000;

  // Sends ARP requests for all targets, repeatedly; returns their number.
  static size_t Storm(PacketSocket* socket, MacAddr mac) {
    std::vector<Bytes> requests;
    for (int i = 0; i < kTargets; ++i) {
      requests.push_back(ArpRequest(mac, Ip4(Address(1)),
                                    Ip4(absl::StrCat("10.0.", 1 + i / 250, ".", 1 + i % 250))));
    }
    size_t sent = 0;
    for (const absl::Time end = absl::Now() + kDuration; absl::Now() < end;
         sent += requests.size()) {
      socket->SendAll(requests);
    }
    return sent;
  }
};

TEST_F(ArpStormTest, OtherHostsStillCommunicate) {
  auto hosts = AddNumberedAgents(4);
  PacketSocket socket(hosts[0]->host(), "v1");
  const MacAddr mac = Mac(hosts[0]->host()->Mac("v1"));
  for (int to : {3, 4}) ExpectPing(hosts[1]->host(), Address(to));
  for (Agent* agent : hosts) {
    ASSERT_TRUE(EventuallyTrue(kPatience, [&] {
      return agent->Stat("fdb_entries") == hosts.size();
    })) << "every agent must know all hosts";
  }
  SteadyPing ping3(hosts[1]->host(), Address(3)), ping4(hosts[1]->host(), Address(4));
  const size_t sent = Storm(&socket, mac);
  std::vector<PingCounts> answered;
  for (SteadyPing* ping : {&ping3, &ping4}) answered.push_back(ping->End());
  uint64_t dropped = 0;
  for (const Agent* agent : hosts) dropped += agent->host()->InterfaceDrops("v1");
  for (const PingCounts& counts : answered) {
    EXPECT_GT(counts.received, 50);
    // The storm fills the interfaces' queues. All lost pings were dropped there.
    EXPECT_LE(static_cast<uint64_t>(counts.lost()), dropped);
    EXPECT_LE(counts.lost(), counts.transmitted / 10);
    std::cout << counts.received << " of " << counts.transmitted << " pings answered, during "
              << sent << " ARP requests; " << dropped << " drops at the interfaces\n";
  }
  for (size_t i = 0; i < hosts.size(); ++i) {
    SCOPED_TRACE(hosts[i]->host()->name());
    ExpectConservation(hosts[i]);
    const Counters drops = hosts[i]->Drops()["red"];
    for (const auto& [reason, count] : drops)
      EXPECT_THAT(reason, AnyOf("own_multicast", "control_message")) << count;
    EXPECT_EQ(hosts[i]->Stat("fdb_entries"), hosts.size()) << hosts[i]->MustCtl({"fdb", "show"});
  }
}

// Rings grow with the load up to a limit, each at its own time. A leak would grow with every storm.
TEST_F(ArpStormTest, AgentMemoryDoesNotGrow) {
  auto hosts = AddNumberedAgents(4);
  PacketSocket socket(hosts[0]->host(), "v1");
  const MacAddr mac = Mac(hosts[0]->host()->Mac("v1"));
  const auto memory = [&] {
    std::vector<uint64_t> kilobytes;
    for (Agent* agent : hosts) {
      ExpectConservation(agent);
      kilobytes.push_back(agent->ResidentKilobytes());
    }
    return kilobytes;
  };
  constexpr int kStorms = 5;
  std::vector<std::string> grown;
  for (int storm = 0; storm == 0 || (storm < kStorms && !grown.empty()); ++storm) {
    const std::vector<uint64_t> before = memory();
    Storm(&socket, mac);
    const std::vector<uint64_t> after = memory();
    grown.clear();
    for (size_t i = 0; i < hosts.size(); ++i) {
      if (after[i] <= before[i] + Growth()) continue;
      grown.push_back(
          absl::StrCat(hosts[i]->host()->name(), " from ", before[i], " to ", after[i], " KiB"));
    }
  }
  EXPECT_THAT(grown, IsEmpty()) << "in the last of " << kStorms << " storms";
}

}  // namespace
}  // namespace eoib::lab
