// The FDB's policy as operators see it, and the limits of attacks on it.
#include <signal.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

const MacAddr kGuest = MacAddr::FromUint64(0x02'aa'00'00'00'42);
const MacAddr kOther = MacAddr::FromUint64(0x02'aa'00'00'00'43);

// Agents that announce nothing: their MACs are learned from traffic, and moves are damped.
constexpr char kSilent[] = "announce = false\n";

MacAddr NumberedSource(size_t i) { return MacAddr::FromUint64(0x06'00'00'00'00'00 + i); }

class FdbTest : public SwitchTest {
 protected:
  static AgentSpec WithVes(const std::string& more, const std::string& vport = "") {
    AgentSpec spec;
    spec.veses[0].more = more;
    spec.vports[0].more = vport;
    return spec;
  }
  // Adds hosts and waits until each receives from all others.
  std::vector<Agent*> AddHosts(int count, const AgentSpec& spec = {}) {
    std::vector<Agent*> hosts = AddNumberedAgents(count, spec);
    WaitUntilAllReceive(hosts);
    return hosts;
  }
  // Sends frames from `count` source MACs, and waits until each of `receivers` has received all of
  // them.
  static void SendFromManySources(PacketSocket* socket, size_t first, size_t count,
                                  const std::vector<PacketSocket*>& receivers) {
    constexpr size_t kPiece = 50;
    for (size_t begin = first; begin < first + count; begin += kPiece) {
      std::vector<Bytes> frames;
      for (size_t i = begin; i < begin + kPiece; ++i) {
        frames.push_back(TestFrame(MacAddr::Broadcast(), NumberedSource(i),
                                   static_cast<uint32_t>(100 + begin), 60));
      }
      socket->SendAll(frames);
      for (PacketSocket* other : receivers) {
        ASSERT_TRUE(other->WaitFor(Marked(static_cast<uint32_t>(100 + begin)), kPiece)) << begin;
      }
    }
  }
  // Sends a broadcast with source `mac` and waits until all of `receivers` have received it.
  void SendFrom(PacketSocket* socket, MacAddr mac, const std::vector<PacketSocket*>& receivers) {
    socket->Send(TestFrame(MacAddr::Broadcast(), mac, ++marker_));
    for (PacketSocket* other : receivers) ASSERT_TRUE(other->WaitFor(Marked(marker_)));
  }

 private:
  uint32_t marker_ = 1'000'000;
};
class SoftFdbTest : public FdbTest {};

// Without announcements, because an agent withdraws a MAC that it evicts, and then the table is not
// full.
TEST_F(FdbTest, ManySourcesDoNotEvictOtherVPorts) {
  const size_t limit = fabric().Slowdown() > 1 ? 100 : 500;
  auto hosts = AddHosts(3, WithVes(absl::StrCat("fdb_limit = ", limit, "\n", kSilent)));
  for (int from : {1, 2, 3})
    ExpectPing(hosts[static_cast<size_t>(from - 1)]->host(), Address(from % 3 + 1), 1);
  PacketSocket attacker(hosts[0]->host(), "v1"), two(hosts[1]->host(), "v1"),
      three(hosts[2]->host(), "v1");
  SendFromManySources(&attacker, 0, 10 * limit, {&two, &three});
  const uint64_t flooded = hosts[1]->Stat("flooded_unknown");
  ExpectPing(hosts[1]->host(), Address(3), 10);
  EXPECT_EQ(hosts[1]->Stat("flooded_unknown"), flooded) << "both are still known";
  for (Agent* agent : hosts) {
    SCOPED_TRACE(agent->host()->name());
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return agent->Stat("evicted") >= 9 * limit; }))
        << "agents evict at different times";
    EXPECT_EQ(agent->Stat("fdb_entries"), limit);
    for (Agent* other : hosts)
      EXPECT_TRUE(agent->Knows(other->host()->Mac("v1"))) << other->host()->name();
    EXPECT_THAT(agent->MustCtl({"fdb", "stats"}),
                AllOf(HasSubstr(absl::StrCat(limit, " of ", limit, " addresses")),
                      ContainsRegex("evicted +[0-9]+")));
  }
  EXPECT_THAT(hosts[0]->MustCtl({"fdb", "stats", "red"}),
              ContainsRegex(absl::StrCat(limit - 2, " +0 +0 +", limit, "  vPort v1")))
      << "all but the MACs of the other two hosts";
}

TEST_F(FdbTest, VPortLimitApplies) {
  // Without announcements, because the first agent withdraws the MACs that it evicts.
  auto hosts =
      AddHosts(2, WithVes(absl::StrCat("vport_fdb_limit = 100\n", kSilent), "fdb_limit = 10\n"));
  PacketSocket one(hosts[0]->host(), "v1"), two(hosts[1]->host(), "v1");
  SendFromManySources(&one, 0, 250, {&two});
  EXPECT_THAT(hosts[0]->MustCtl({"fdb", "stats"}), ContainsRegex(" 10 +0 +0 +10  vPort v1"));
  EXPECT_THAT(hosts[1]->MustCtl({"fdb", "stats"}), ContainsRegex(" 100 +0 +0 +100  GID"));
}

TEST_F(FdbTest, FlushedEntriesAreLearnedAgain) {
  AgentSpec spec;
  spec.vports = {{"v1", "red", "mode = \"trunk\"\n"}, {"v2", "red", ""}};
  Agent& agent = AddAgent("h1", spec);
  Agent& peer = AddAgent("h2", spec);
  WaitUntilAllReceive({agent.host()}, {{peer.host()}});
  PacketSocket trunk(agent.host(), "v1"), access(agent.host(), "v2"), far(peer.host(), "v1");
  const auto send_all = [&] {
    trunk.Send(WithTag(TestFrame(MacAddr::Broadcast(), kGuest, 1), 10));
    trunk.Send(TestFrame(MacAddr::Broadcast(), kGuest, 2));
    access.Send(TestFrame(MacAddr::Broadcast(), kOther, 3));
    for (uint32_t marker : {1, 2, 3}) ASSERT_TRUE(far.WaitFor(Marked(marker)));
    far.Clear();
  };
  const std::string guest = kGuest.ToString(), other = kOther.ToString();
  send_all();
  EXPECT_EQ(agent.MustCtl({"fdb", "flush", "red", "vlan", "10"}), "VES red: 1 addresses flushed\n");
  EXPECT_FALSE(agent.Knows(guest, "", 10));
  EXPECT_TRUE(agent.Knows(guest, "", 0));
  EXPECT_TRUE(agent.Knows(other));
  send_all();
  agent.MustCtl({"fdb", "flush", "red", "vport", "v1"});
  EXPECT_FALSE(agent.Knows(guest, "", 10));
  EXPECT_FALSE(agent.Knows(guest, "", 0));
  EXPECT_TRUE(agent.Knows(other));
  send_all();
  EXPECT_TRUE(agent.Knows(guest, "v1", 10));
  agent.MustCtl({"fdb", "flush", "red"});
  EXPECT_FALSE(agent.Knows(guest, "", 10));
  EXPECT_FALSE(agent.Knows(other));
  EXPECT_GE(agent.Stat("flushed"), 5u);
  for (const Argv& wrong :
       {Argv{"fdb", "flush", "green"}, Argv{"fdb", "flush", "red", "vlan", "5000"},
        Argv{"fdb", "flush", "red", "vport", "v9"}, Argv{"fdb", "flush", "red", "port", "v1"}}) {
    EXPECT_EQ(agent.Ctl(wrong).exit_code, 2) << agent.Ctl(wrong).ToString();
  }
  EXPECT_THAT(agent.Ctl({"fdb", "flush", "red", "vport", "v9"}).err, HasSubstr("v1, v2"));
}

TEST_F(FdbTest, StickyPortKeepsItsMacs) {
  AgentSpec spec;
  spec.vports[0].more = "sticky = true\nfdb_limit = 2\n";
  Agent& agent = AddAgent("h1", spec);
  Agent& peer = AddAgent("h2");
  WaitUntilAllReceive({agent.host()}, {{peer.host()}});
  PacketSocket port(agent.host(), "v1"), far(peer.host(), "v1");
  const std::string own = agent.host()->Mac("v1");
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return agent.Knows(own); }))
      << "the interface's own MAC is the first";
  SendFrom(&port, kGuest, {&far});
  SendFrom(&port, kOther, {&far});
  EXPECT_FALSE(agent.Knows(kOther.ToString())) << "the third MAC exceeds the limit of two";
  SendFrom(&far, kGuest, {&port});  // a spoofer
  EXPECT_TRUE(agent.Knows(kGuest.ToString(), "vPort v1"));
  EXPECT_THAT(agent.MustCtl({"fdb", "show"}),
              ContainsRegex(absl::StrCat(kGuest.ToString(), "  sticky +-  vPort v1")));
  EXPECT_EQ(agent.Stat("sticky_refused"), 1u);
  agent.MustCtl({"fdb", "flush", "red"});
  EXPECT_TRUE(agent.Knows(kGuest.ToString(), "vPort v1")) << "a flush does not remove it";
  agent.MustCtl({"fdb", "flush", "red", "sticky", "v1"});
  SendFrom(&far, kGuest, {&port});
  EXPECT_TRUE(agent.Knows(kGuest.ToString(), "GID"));
}

TEST_F(FdbTest, FlappingMacFreezesAndIsReported) {
  auto hosts =
      AddHosts(3, WithVes(absl::StrCat("move_damping = \"freeze_until_thawed\"\n", kSilent)));
  PacketSocket one(hosts[0]->host(), "v1"), two(hosts[1]->host(), "v1"),
      three(hosts[2]->host(), "v1");
  Agent* const watched = hosts[2];
  auto monitor = watched->host()->Start(
      {Binary("eoibctl"), "-t", watched->ctl_path(), "fdb", "monitor", "red"});
  SendFrom(&one, kGuest, {&two, &three});
  for (int i = 0; i < 2; ++i) {
    SendFrom(&two, kGuest, {&one, &three});
    SendFrom(&one, kGuest, {&two, &three});
  }
  EXPECT_EQ(watched->Stat("froze"), 0u) << "four moves are allowed";
  SendFrom(&two, kGuest, {&one, &three});
  EXPECT_EQ(watched->Stat("froze"), 1u);
  const std::string guest = kGuest.ToString();
  const std::string both = absl::StrCat(guest, " in VLAN 0.* GID .* QPN .* GID .* QPN ");
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(monitor->Log(), "frozen ");
  })) << monitor->Log();
  EXPECT_THAT(monitor->Log(), AllOf(ContainsRegex(absl::StrCat("learned +", guest)),
                                    ContainsRegex(absl::StrCat("moved +", guest)),
                                    ContainsRegex(absl::StrCat("frozen +", both))));
  EXPECT_THAT(watched->Log(), ContainsRegex(absl::StrCat(both, ".*thaw")));
  EXPECT_THAT(watched->MustCtl({"fdb", "frozen"}), HasSubstr(guest));
  EXPECT_THAT(watched->MustCtl({"fdb", "show"}), ContainsRegex(absl::StrCat(guest, "  frozen")));

  // Frames reach it at its home, where it was first learned.
  three.Send(TestFrame(kGuest, kOther, 1));
  ASSERT_TRUE(one.WaitFor(Marked(1)));
  EXPECT_EQ(two.Count(Marked(1)), 0u);
  EXPECT_EQ(watched->Ctl({"fdb", "thaw", "red", "0", kOther.ToString()}).exit_code, 2)
      << "this MAC is not frozen";
  EXPECT_EQ(hosts[1]->Stat("froze"), 0u) << "h2 does not freeze the MAC of its own station";
  for (Agent* agent : {hosts[0], hosts[2]}) agent->MustCtl({"fdb", "thaw", "red", "0", guest});
  SendFrom(&two, kGuest, {&one, &three});
  three.Send(TestFrame(kGuest, kOther, 2));
  ASSERT_TRUE(two.WaitFor(Marked(2)));
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(monitor->Log(), "thawed ");
  })) << monitor->Log();
  monitor->Kill(SIGTERM);
  monitor->Wait();
}

// Two hosts claim a guest's MAC in turn, so that the guest's own next frame is the fifth move.
TEST_F(FdbTest, AlternatingSpoofersDoNotTakeOverAMac) {
  auto hosts = AddHosts(4, WithVes(kSilent));
  PacketSocket victim(hosts[0]->host(), "v1"), one(hosts[1]->host(), "v1"),
      two(hosts[2]->host(), "v1");
  PacketSocket caller(hosts[3]->host(), "v1");
  SendFrom(&victim, kGuest, {&one, &two, &caller});
  for (int i = 0; i < 2; ++i) {
    SendFrom(&one, kGuest, {&victim, &two, &caller});
    SendFrom(&two, kGuest, {&victim, &one, &caller});
  }
  SendFrom(&victim, kGuest, {&one, &two, &caller});
  for (int i = 0; i < 3; ++i) {
    SendFrom(&one, kGuest, {&victim, &two, &caller});
    SendFrom(&two, kGuest, {&victim, &one, &caller});
    caller.Send(TestFrame(kGuest, kOther, static_cast<uint32_t>(i + 1)));
    ASSERT_TRUE(victim.WaitFor(Marked(static_cast<uint32_t>(i + 1))))
        << "frames must still reach the guest";
  }
  // Earlier frames of the caller have arrived by now.
  SendFrom(&caller, kOther, {&victim, &one, &two});
  for (PacketSocket* spoofer : {&one, &two}) {
    for (uint32_t marker : {1, 2, 3}) EXPECT_EQ(spoofer->Count(Marked(marker)), 0u);
  }
  EXPECT_TRUE(hosts[0]->Knows(kGuest.ToString(), "vPort v1")) << hosts[0]->MustCtl({"fdb", "show"});
  for (Agent* agent : {hosts[0], hosts[3]}) {
    EXPECT_EQ(agent->Stat("froze"), 1u);
    EXPECT_THAT(agent->MustCtl({"fdb", "frozen"}), HasSubstr(kGuest.ToString()));
  }
}

// Regression: one forged frame moved the MAC in the FDB of its own agent, until the interface sent
// a frame.
TEST_F(FdbTest, InterfaceMacCannotBeClaimedByOthers) {
  AgentSpec spec;
  spec.vports = {{"v1"}, {"v2"}};
  auto hosts = AddHosts(3, spec);
  PacketSocket owner(hosts[0]->host(), "v1"), beside(hosts[0]->host(), "v2"),
      far(hosts[1]->host(), "v1");
  PacketSocket caller(hosts[2]->host(), "v1");
  const MacAddr own = Mac(hosts[0]->host()->Mac("v1"));
  SendFrom(&owner, own, {&far, &caller});
  SendFrom(&beside, kGuest, {&far, &caller});
  const uint64_t floods = hosts[1]->Stat("flooded_unknown");
  uint64_t forged = 0;
  for (uint32_t i = 1; i <= 20; ++i) {
    // Known to be behind h1, so no other host receives it.
    far.Send(TestFrame(kGuest, own, 1000 + i));
    beside.Send(TestFrame(kOther, own, 2000 + i));  // and from this host
    forged += 2;
    ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return hosts[0]->Drop("pinned_mac") == forged; }))
        << hosts[0]->MustCtl({"drops"});
    caller.Send(TestFrame(own, kOther, i));
    ASSERT_TRUE(owner.WaitFor(Marked(i))) << "no frame may be lost";
  }
  EXPECT_EQ(hosts[1]->Stat("flooded_unknown"), floods);
  EXPECT_TRUE(hosts[0]->Knows(own.ToString(), "vPort v1"));
  EXPECT_EQ(beside.Count(Marked(1001)), 0u);
}

TEST_F(FdbTest, UnpinnedInterfaceMacMoves) {
  auto hosts = AddHosts(2, WithVes("", "pin_mac = false\n"));
  PacketSocket one(hosts[0]->host(), "v1"), two(hosts[1]->host(), "v1");
  const MacAddr own = Mac(hosts[0]->host()->Mac("v1"));
  SendFrom(&two, own, {&one});
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return hosts[0]->Knows(own.ToString(), "GID"); }));
  EXPECT_EQ(hosts[0]->Drop("pinned_mac"), 0u);
}

// Neither a stopped `fdb monitor` nor a flood of events delays the agent. The monitor reports lost
// events.
TEST_F(SoftFdbTest, StoppedMonitorDoesNotDelayTheAgent) {
  auto hosts = AddHosts(2, WithVes("fdb_limit = 300\n"));
  Agent* const agent = hosts[0];
  auto monitor =
      agent->host()->Start({Binary("eoibctl"), "-t", agent->ctl_path(), "fdb", "monitor", "red"});
  ASSERT_TRUE(
      EventuallyTrue(kPatience, [&] { return absl::StrContains(monitor->Log(), "learned"); }));
  monitor->Kill(SIGSTOP);
  PacketSocket one(agent->host(), "v1"), two(hosts[1]->host(), "v1");
  SendFromManySources(&one, 0, 10'000, {&two});
  ExpectPing(agent->host(), Address(2), 10);
  monitor->Kill(SIGCONT);
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(monitor->Log(), "events before these were lost");
  }));
  SendFrom(&one, kGuest, {&two});
  ASSERT_TRUE(EventuallyTrue(kPatience,
                             [&] { return absl::StrContains(monitor->Log(), kGuest.ToString()); }));
  monitor->Kill(SIGTERM);
  monitor->Wait();
}

TEST_F(FdbTest, StaticEntriesCanBeAddedAndRemoved) {
  auto hosts = AddHosts(2);
  PacketSocket one(hosts[0]->host(), "v1"), two(hosts[1]->host(), "v1");
  Agent* const agent = hosts[0];
  agent->MustCtl({"fdb", "add", "red", "0", kGuest.ToString(), "v1"});
  SendFrom(&two, kGuest, {&one});
  EXPECT_TRUE(agent->Knows(kGuest.ToString(), "vPort v1"));
  EXPECT_EQ(agent->Stat("overruled"), 1u);
  agent->MustCtl({"fdb", "del", "red", "0", kGuest.ToString()});
  EXPECT_EQ(agent->Ctl({"fdb", "del", "red", "0", kGuest.ToString()}).exit_code, 2);
  SendFrom(&two, kGuest, {&one});
  EXPECT_TRUE(agent->Knows(kGuest.ToString(), "GID"));
  EXPECT_EQ(agent->Ctl({"fdb", "add", "red", "0", "ff:ff:ff:ff:ff:ff", "v1"}).exit_code, 2);
  EXPECT_EQ(agent->Ctl({"fdb", "add", "red", "0", "02:00", "v1"}).exit_code, 2);
}

}  // namespace
}  // namespace eoib::lab
