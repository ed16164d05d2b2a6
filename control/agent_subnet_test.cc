// Whole agents and the subnet: it sends traps 64 to 67, loses its state, moves, and disappears. The
// in-process subnet generates all traps. The agents' clock moves only when a test does it, which
// distinguishes immediate reactions from timed ones.
#include "absl/strings/str_replace.h"
#include "control/agent_test_fixture.h"
#include "vswitch/wire/ib/sa_mad.h"
#include "vswitch/wire/mgid.h"

namespace eoib {
namespace {

using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kGoneForGood =
    absl::Seconds(3);  // README.md: delay after trap 65 until the MACs behind a port are flushed

class AgentSubnetTest : public AgentTestOf<FakeClock> {
 protected:
  // Sends a frame from `host`'s station and waits until all others have it, and have what its agent
  // announces of it; by then they also have its agent's other announcements (see SourcesUpToNow).
  void Speak(Host* host, MacAddr mac) {
    for (int i = 0; i < 2; ++i) {
      host->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), mac));
      for (auto& other : hosts_) {
        if (other.get() == host) continue;
        EXPECT_TRUE(Arrives(other->port("v1"), MakeFrame(MacAddr::Broadcast(), mac)));
        EXPECT_TRUE(
            PassUntil([&] { return !host->announces() || other->OriginOf(mac) == "announced"; }));
      }
    }
  }
  // Waits until all announcements after the join were sent. Call before sending anything else
  // there.
  bool HasAnnouncedItself(Host* host) {
    Pass(absl::Seconds(2));
    return Until([host] { return host->Stat("transmitted_fabric") >= 5; });
  }
  // Adds h1, where C is frozen behind h3, because it was heard from h2, too. `more` goes into its
  // VES.
  Host* AddHostThatFreezesC(const std::string& more = "") {
    const std::string damped = "pkey = 0x8001\ndamping_moves = 2\n" + more;
    Host* h1 = AddHost("h1", absl::StrReplaceAll(kOneVes, {{"pkey = 0x8001\n", damped}}));
    Host* h2 = AddHost("h2", kDataOnly);
    Host* h3 = AddHost("h3", kDataOnly);
    EXPECT_TRUE(AllJoined());
    for (Host* host : {h3, h2, h3}) Speak(host, kC);
    EXPECT_THAT(h1->Command("fdb/frozen"), HasSubstr(kC.ToString()));
    return h1;
  }
  // The peer behind which `host` has learned `mac`; empty if unknown.
  static std::string PeerBehind(Host* host, MacAddr mac) {
    for (absl::string_view line : absl::StrSplit(host->Command("fdb/show"), '\n')) {
      const size_t at = line.find("GID");
      if (absl::StrContains(line, mac.ToString()) && at != line.npos)
        return std::string(line.substr(at));
    }
    return "";
  }
  // Waits until the agents have handled all reports of the subnet.
  bool AllReportsHeard() {
    return Until([this] {
      const auto notices = subnet_.mad_counters().notices;
      return notices.confirmed == notices.reports;
    });
  }
  uint64_t Reports() { return subnet_.mad_counters().notices.reports; }
  void SetLink(const std::string& name, bool up) {
    ASSERT_TRUE(subnet_.SetLink(name, up).ok());
    ASSERT_TRUE(AllReportsHeard());
  }
  uint64_t MadsOf(const std::string& name) {
    for (const auto& port : subnet_.Ports()) {
      if (port.name == name) return port.mads;
    }
    return 0;
  }
  void LoseEverything(const std::string& source, const std::string& destination) {
    softhca::Fault fault{source, destination, {}};
    fault.rule.loss_ppm = 1'000'000;
    ASSERT_TRUE(subnet_.SetFault(fault).ok());
  }
  // The sources of all frames that arrive at `to`, including everything that `from`'s agent has
  // been told to send so far. The worker takes injected frames and those from ports in any order,
  // but handles all waiting ones in one turn: those that waited when the first of two frames was
  // sent are out before the second.
  std::vector<MacAddr> SourcesUpToNow(Host* from, Host* to) {
    std::vector<MacAddr> sources;
    for (int i = 0; i < 2; ++i) {
      from->port("v1")->Inject(MakeFrame(kB, kA));
      EXPECT_TRUE(Until([&] {
        bool arrived = false;
        for (const auto& sent : to->port("v1")->TakeTransmitted()) {
          sources.push_back(MacAddr::FromWire(&sent.bytes[6]));
          arrived |= sent.bytes == MakeFrame(kB, kA);
        }
        return arrived;
      }));
    }
    return sources;
  }
};

// ---- Without a subnet manager, after its restart, and after its move.

// The SM cannot have told them the paths: when it disappeared, they did not know each other.
TEST_F(AgentSubnetTest, ResolvesNewPeersWithoutASubnetManager) {
  LoseEverything("*", "*");
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  subnet_.SetSmAbsent(true);
  ASSERT_EQ(h1->Stat("new_peers"), 0u);
  ASSERT_EQ(h2->Stat("new_peers"), 0u);
  subnet_.ClearFaults();
  EXPECT_TRUE(ArrivesInTheEnd(h1->port("v1"), h2->port("v1"), MakeFrame(kB, kA)));
  h2->port("v1")->Inject(MakeFrame(kA, kB));
  EXPECT_TRUE(Arrives(h1->port("v1"), MakeFrame(kA, kB)));
  EXPECT_EQ(h1->Stat("new_peers"), 1u);
  EXPECT_EQ(h2->Stat("new_peers"), 1u);
}

// As after a restart of the subnet manager. Everything in use stays in use.
TEST_F(AgentSubnetTest, ReregistrationKeepsEverythingInUse) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  EXPECT_THAT(SourcesUpToNow(h1, h2), Contains(kA))
      << "and the announcement of having joined is over";
  const std::string qpn = h1->Qpn();
  const uint64_t mads = MadsOf("h1");
  h1->soft_port()->sink().OnSubnetLost();
  h1->soft_port()->sink().OnPortConfig(h1->soft_port()->config());
  EXPECT_TRUE(Until([&] { return MadsOf("h1") >= mads + 6; }))
      << "a join, a path and four subscriptions";
  EXPECT_TRUE(AllJoined()) << "all answered";
  EXPECT_THAT(SourcesUpToNow(h1, h2), Not(Contains(h1->port("v1")->mac())))
      << "nothing is announced";
  EXPECT_EQ(h1->losses_of_carrier("v1"), 0);
  EXPECT_EQ(h1->Qpn(), qpn);
  ExpectTalk(h1->port("v1"), h2->port("v1"));
}

TEST_F(AgentSubnetTest, SmChangeCausesALightRefresh) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  EXPECT_THAT(SourcesUpToNow(h1, h2), Contains(kA));
  const std::string qpn = h1->Qpn();
  const uint64_t mads = MadsOf("h1");
  ASSERT_TRUE(subnet_.MoveSm(Lid(99)).ok());
  EXPECT_TRUE(Until([&] { return MadsOf("h1") >= mads + 6; }))
      << "a join, a path and four subscriptions";
  EXPECT_TRUE(AllJoined()) << "all answered";
  EXPECT_THAT(h1->Command("show"), HasSubstr("SM LID " + Lid(99).ToString()));
  EXPECT_THAT(SourcesUpToNow(h1, h2), Not(Contains(h1->port("v1")->mac())))
      << "nothing is announced";
  EXPECT_EQ(h1->losses_of_carrier("v1"), 0);
  EXPECT_EQ(h1->Qpn(), qpn);
  ExpectTalk(h1->port("v1"), h2->port("v1"));

  // Requests, answers and reports use its new LID.
  Host* h3 = AddHost("h3", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(AllReportsHeard());
  Speak(h3, kC);
  SetLink("h3", false);
  Pass(kGoneForGood);
  EXPECT_FALSE(h1->Knows(kC));
  bool stopped = false;
  h1->agent()->Stop([&stopped] { stopped = true; });
  EXPECT_TRUE(Until([&] { return stopped; }));
  ASSERT_EQ(subnet_.Groups().size(), 1u);
  EXPECT_EQ(subnet_.Groups()[0].members.size(), 1u) << "h2";
}

// ---- Reports.

TEST_F(AgentSubnetTest, SubscribesToTraps) {
  Host* h1 = AddHost("h1", kOneVes);
  ASSERT_TRUE(Until(
      [&] { return absl::StrContains(h1->Command("show"), "notices of the subnet: subscribed"); }));
  ASSERT_EQ(subnet_.AllSubscriptions().size(), 1u);
  EXPECT_EQ(subnet_.AllSubscriptions()[0].infos.size(), 4u);
  subnet_.RestartSm();
  EXPECT_TRUE(Until([&] {
    return subnet_.AllSubscriptions().size() == 1 &&
           subnet_.AllSubscriptions()[0].infos.size() == 4;
  }));
  bool stopped = false;
  h1->agent()->Stop([&stopped] { stopped = true; });
  EXPECT_TRUE(Until([&] { return stopped; }));
  EXPECT_TRUE(subnet_.AllSubscriptions().empty());
}

// The SM disappears after it has changed the LID, before h2 can send a request. h2's announcements
// after its join are over. h1 uses the new LID when the SA has not answered for
// PathResolver::kPatience.
TEST_F(AgentSubnetTest, AnnouncesANewLidBeforeTheSaAnswers) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(HasAnnouncedItself(h2));
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  ASSERT_TRUE(Until([&] { return absl::StrContains(h1->Command("neigh"), "rate"); }))
      << "h1 has the path's record";
  subnet_.SetSmAbsent(true);
  ASSERT_TRUE(subnet_.SetLid("h2", Lid(77)).ok());
  ASSERT_TRUE(Until([&] { return h1->Stat("path_other_lids") > 0; }));
  // The answer to an earlier query may still come, and is followed by another query.
  Pass(2 * PathResolver::kPatience);
  EXPECT_TRUE(ArrivesInTheEnd(h1->port("v1"), h2->port("v1"), MakeFrame(kB, kA)));
}

TEST_F(AgentSubnetTest, AnnouncesNothingWithoutALink) {
  AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(HasAnnouncedItself(h2));
  subnet_.SetSmAbsent(true);
  const uint64_t before = h2->Stat("transmitted_fabric");
  ASSERT_TRUE(subnet_.SetLid("h2", Lid(77)).ok());
  ASSERT_TRUE(Until([&] { return h2->Stat("transmitted_fabric") > before; }))
      << "the LID is announced";
  ASSERT_TRUE(subnet_.SetLink("h2", false).ok());
  ASSERT_TRUE(Until([&] { return !h2->carrier("v1"); }));
  Pass(absl::Seconds(2));
  // A frame after everything that the agent may have sent.
  h2->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  ASSERT_TRUE(Until([&] { return absl::StrContains(h2->Command("drops"), "fabric_down"); }));
  EXPECT_THAT(h2->Command("drops"), testing::ContainsRegex("fabric_down +1 "));
}

// Each change takes the kernel's rtnl lock, so unchanged carriers are skipped.
TEST_F(AgentSubnetTest, SetsTheCarrierOnlyWhenItChangesAndRetries) {
  AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  const int joined = h2->times_carrier_set;
  ASSERT_TRUE(subnet_.SetLid("h2", Lid(77)).ok());
  Pass(absl::Seconds(1));
  ASSERT_TRUE(AllJoined());
  EXPECT_EQ(h2->times_carrier_set, joined);
  h2->may_set_carrier = false;
  ASSERT_TRUE(subnet_.SetLink("h2", false).ok());
  ASSERT_TRUE(Until([&] { return h2->times_carrier_set > joined; }));
  h2->may_set_carrier = true;
  ASSERT_TRUE(subnet_.SetLink("h2", true).ok());
  ASSERT_TRUE(AllJoined());
  EXPECT_TRUE(h2->carrier("v1"));
  EXPECT_EQ(h2->times_carrier_set, joined + 2);
}

TEST_F(AgentSubnetTest, FdbMonitorSaysThatMoreEventsWait) {
  Host* h1 = AddHost("h1", kOneVes);
  ASSERT_TRUE(AllJoined());
  const std::string first = h1->Command("fdb/monitor", {"blue"});
  const std::string next = first.substr(5, first.find('\n') - 5);
  EXPECT_EQ(first.substr(0, 5), "next ");
  for (uint64_t i = 0; i < 2001; ++i) {
    h1->Command("fdb/add",
                {"blue", "0", MacAddr::FromUint64(0x02'00'00'01'00'00 + i).ToString(), "v1"});
  }
  EXPECT_THAT(h1->Command("fdb/monitor", {"blue", next}), testing::StartsWith("more "));
}

// Trap 65.
TEST_F(AgentSubnetTest, FlushesTheMacsBehindAPortThatStaysOutOfService) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  Host* h3 = AddHost("h3", kOneVes);
  ASSERT_TRUE(AllJoined());
  Speak(h2, kB);
  Speak(h3, kC);
  ASSERT_TRUE(AllReportsHeard());
  const uint64_t reports = Reports();
  SetLink("h3", false);
  EXPECT_EQ(Reports(), reports + 2) << "to h1 and h2";
  Pass(kGoneForGood - absl::Milliseconds(1));
  EXPECT_TRUE(h1->Knows(kC));
  EXPECT_TRUE(h2->Knows(kC));
  Pass(absl::Milliseconds(1));
  EXPECT_FALSE(h1->Knows(kC));
  EXPECT_FALSE(h2->Knows(kC));
  EXPECT_TRUE(h1->Knows(kB)) << "its port is in service";

  const uint64_t flooded = h1->Stat("flooded_unknown");
  h1->port("v1")->Inject(MakeFrame(kC, kA));
  EXPECT_TRUE(Arrives(h2->port("v1"), MakeFrame(kC, kA))) << "it may be anywhere";
  EXPECT_EQ(h1->Stat("flooded_unknown"), flooded + 1);
}

// A frozen entry does not age, so its age does not show when it was heard.
TEST_F(AgentSubnetTest, FrozenMacIsNoEvidenceThatAPortIsBack) {
  Host* h1 = AddHostThatFreezesC();
  ASSERT_TRUE(AllReportsHeard());
  SetLink("h3", false);
  Pass(kGoneForGood);
  EXPECT_FALSE(h1->Knows(kC));
}

// Even if no other entry is left there.
TEST_F(AgentSubnetTest, KeepsTheVPortThatClaimedAFrozenMac) {
  Host* h1 = AddHostThatFreezesC("ageing = 10\n");
  ASSERT_THAT(h1->Command("fdb/frozen"), HasSubstr("and was heard from GID "));
  Pass(absl::Seconds(60));
  EXPECT_THAT(h1->Command("fdb/frozen"), HasSubstr("and was heard from GID "));
}

// The home vPort has no entry while the MAC is elsewhere. If it were reclaimed, the MAC would later
// be frozen at a missing vPort.
TEST_F(AgentSubnetTest, KeepsTheVPortThatIsTheHomeOfAMovedMac) {
  Host* h1 = AddHost(
      "h1", absl::StrReplaceAll(kOneVes, {{"pkey = 0x8001\n", "pkey = 0x8001\nageing = 10\n"}}));
  Host* victim = AddHost("h2", kDataOnly);
  Host* thieves[] = {AddHost("h3", kDataOnly), AddHost("h4", kDataOnly)};
  ASSERT_TRUE(AllJoined());
  Speak(victim, kC);
  const std::string home = PeerBehind(h1, kC);
  Speak(thieves[0], kC);
  EXPECT_NE(PeerBehind(h1, kC), home);
  Pass(absl::Seconds(60));
  for (int i = 0; i < 4; ++i) Speak(thieves[i % 2], kC);
  Speak(victim, kC);
  EXPECT_THAT(h1->Command("fdb/frozen"), HasSubstr(kC.ToString()));
  EXPECT_EQ(PeerBehind(h1, kC), home);
}

// Among agents that announce nothing no claim decides the quarrel.
TEST_F(AgentSubnetTest, AFreezeAtTheHomeOfAMacLastsWithoutAnnouncements) {
  Host* home = AddHost("h1", kDataOnly);
  Host* thief = AddHost("h2", kDataOnly);
  ASSERT_TRUE(AllJoined());
  for (int i = 0; i < 3; ++i) {
    for (Host* host : {home, thief}) Speak(host, kC);
  }
  EXPECT_THAT(home->Command("fdb/frozen"), HasSubstr(kC.ToString()));
  Pass(absl::Seconds(5));
  EXPECT_THAT(home->Command("fdb/frozen"), HasSubstr(kC.ToString()));
}

// Its holder may judge a contest right after the FDB's tick has changed.
TEST_F(AgentSubnetTest, AStationThatSpeaksKeepsItsMacWheneverItIsContested) {
  Host* holder = AddHost("h1", kOneVes);
  Host* h3 = AddHost("h3", kOneVes);
  ASSERT_TRUE(AllJoined());
  Speak(holder, kC);
  Host* thief = AddHost("h2", kDataOnly);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(AllReportsHeard());
  const auto say = [&](Host* host) {
    host->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kC));
    for (Host* other : {holder, thief, h3}) {
      if (other == host) continue;
      EXPECT_TRUE(Arrives(other->port("v1"), MakeFrame(MacAddr::Broadcast(), kC)));
    }
  };
  const std::string home = PeerBehind(h3, kC);
  for (int tenth = 0; tenth < 10; ++tenth) {
    say(thief);
    for (int i = 0; i < 21; ++i) {
      say(holder);
      Pass(absl::Milliseconds(100));
      ASSERT_TRUE(holder->Knows(kC)) << tenth << " " << i;
      ASSERT_TRUE(Until([&] { return PeerBehind(h3, kC) == home; })) << tenth << " " << i;
    }
  }
}

// Without ageing the FDB's tick is a minute.
TEST_F(AgentSubnetTest, FlushesStickyMacsBehindAPortOutOfService) {
  Host* h1 = AddHost(
      "h1", absl::StrReplaceAll(kOneVes, {{"pkey = 0x8001\n", "pkey = 0x8001\nageing = 0\n"}}));
  Host* h3 = AddHost("h3", kOneVes);
  ASSERT_TRUE(AllJoined());
  Speak(h3, kC);
  ASSERT_TRUE(AllReportsHeard());
  SetLink("h3", false);
  Pass(kGoneForGood);
  EXPECT_FALSE(h1->Knows(kC));
}

// A station that makes MACs flap must not fill the log.
TEST_F(AgentSubnetTest, RateLimitsTheLogOfMacsThatMoveTooOften) {
  const std::string damped =
      absl::StrReplaceAll(kOneVes, {{"pkey = 0x8001\n", "pkey = 0x8001\ndamping_moves = 2\n"}});
  Host* h1 = AddHost("h1", damped);
  Host* h2 = AddHost("h2", kDataOnly);
  Host* h3 = AddHost("h3", kDataOnly);
  ASSERT_TRUE(AllJoined());
  uint64_t mac = 0x02'00'00'00'01'00;
  const auto freeze_one = [&] {
    ++mac;
    for (Host* host : {h2, h3, h2}) Speak(host, MacAddr::FromUint64(mac));
    Pass(absl::Milliseconds(200));
  };
  testing::internal::CaptureStderr();
  for (int i = 0; i < 20; ++i) freeze_one();
  const std::vector<std::string> first =
      absl::StrSplit(testing::internal::GetCapturedStderr(), '\n');
  const auto is_told = [](const std::string& line) {
    return absl::StrContains(line, "moved 2 times within");
  };
  EXPECT_EQ(std::count_if(first.begin(), first.end(), is_told), 10);
  EXPECT_THAT(first, Contains(ContainsRegex(
                         "it is held at GID .* for 3m, or until `eoibctl fdb thaw blue 0 02:")));
  EXPECT_EQ(h1->Stat("froze"), 20u);
  Pass(absl::Seconds(6));
  testing::internal::CaptureStderr();
  freeze_one();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("; 10 more like this since the last message"));
}

// Trap 64. The port comes back with another LID. h1 cannot receive its agent's announcement, and
// must use the report.
TEST_F(AgentSubnetTest, PortBackInServiceInTimeIsQueriedAtOnceAndKeepsItsMacs) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h3 = AddHost("h3", kOneVes);
  ASSERT_TRUE(AllJoined());
  Speak(h3, kC);
  ASSERT_TRUE(AllReportsHeard());
  LoseEverything("h3", "h1");
  SetLink("h3", false);
  Pass(kGoneForGood - absl::Milliseconds(1));
  ASSERT_TRUE(subnet_.SetLid("h3", Lid(77)).ok());
  SetLink("h3", true);
  const uint64_t flooded = h1->Stat("flooded_unknown");
  EXPECT_TRUE(ArrivesInTheEnd(h1->port("v1"), h3->port("v1"), MakeFrame(kC, kA)));
  EXPECT_EQ(h1->Stat("flooded_unknown"), flooded) << "the path is the new one";
  subnet_.ClearFaults();  // otherwise h1 would find that h3 does not answer
  EXPECT_TRUE(ArrivesInTheEnd(h3->port("v1"), h1->port("v1"), MakeFrame(kA, kC)));
  Pass(2 * kGoneForGood);
  EXPECT_TRUE(Until([&] { return h1->Knows(kC); }));
}

// Both ports come back with their queue pairs, but trap 64 does not come, because the subnet
// manager is gone. A port from which frames arrive keeps its MACs.
TEST_F(AgentSubnetTest, PortHeardAfterItsTrapKeepsItsMacs) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  Host* h3 = AddHost("h3", kOneVes);
  ASSERT_TRUE(AllJoined());
  Speak(h1, kA);
  Speak(h2, kB);
  Speak(h2, kD);
  Speak(h3, kC);
  ASSERT_TRUE(AllReportsHeard());
  SetLink("h2", false);
  SetLink("h3", false);
  subnet_.SetSmAbsent(true);
  ASSERT_TRUE(subnet_.SetLink("h2", true).ok());
  ASSERT_TRUE(subnet_.SetLink("h3", true).ok());
  Pass(kGoneForGood - absl::Seconds(1));
  const uint64_t peers = h1->Stat("new_peers");
  EXPECT_TRUE(ArrivesInTheEnd(h2->port("v1"), h1->port("v1"), MakeFrame(kA, kB)));
  Pass(absl::Seconds(1));
  EXPECT_FALSE(h1->Knows(kC));
  EXPECT_TRUE(h1->Knows(kB));
  EXPECT_TRUE(h1->Knows(kD)) << "it is behind the same port";
  Pass(2 * kGoneForGood);
  EXPECT_TRUE(h1->Knows(kB));
  EXPECT_EQ(h1->Stat("new_peers"), peers);
}

// Trap 66. The limited member's backoff has grown to seconds when the full member joins.
TEST_F(AgentSubnetTest, LimitedMemberJoinsAsSoonAsTheGroupIsCreated) {
  ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8001), "h1", softhca::Membership::kLimited).ok());
  Host* h1 = AddHost("h1", kOneVes);
  Pass(absl::Seconds(4));  // joins at 0.1, 0.3, 0.7, 1.5, 3.1 and 6.3 s
  EXPECT_FALSE(h1->carrier("v1"));
  AddHost("h2", kOneVes);
  EXPECT_TRUE(Until([&] { return h1->carrier("v1"); })) << "though no time passes";
}

// A limited member is a group member like any other, so the group survives the full member that
// created it.
TEST_F(AgentSubnetTest, LimitedMemberKeepsTheGroupWhenItsCreatorIsGone) {
  ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8001), "h1", softhca::Membership::kLimited).ok());
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  Host* h1 = AddHost("h1", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(AllReportsHeard());
  const uint64_t reports = Reports();
  KillHost(h2);
  ASSERT_TRUE(AllReportsHeard());
  EXPECT_EQ(Reports(), reports + 1) << "the port went out of service";
  EXPECT_EQ(subnet_.Groups().size(), 1u);
  Host* h3 = AddHost("h3", kOneVes);
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h3->port("v1"));
  EXPECT_EQ(h1->losses_of_carrier("v1"), 0);
}

// Only trap 67 tells the limited member that its group was deleted. Then trap 66, when another full
// member creates it.
TEST_F(AgentSubnetTest, LimitedMemberLosesADeletedGroupAndJoinsTheNext) {
  ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8001), "h1", softhca::Membership::kLimited).ok());
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  Host* h1 = AddHost("h1", kOneVes);
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  KillHost(h2);
  LeaveInTheNameOf(h1);
  ASSERT_TRUE(subnet_.Groups().empty());
  EXPECT_TRUE(Until([&] { return absl::StrContains(h1->Command("show"), "joining again"); }))
      << "though no time passes";
  EXPECT_TRUE(h1->carrier("v1"))
      << "not at the first refusal: a full member may be about to make it again";
  EXPECT_TRUE(PassUntil([&] { return !h1->carrier("v1"); }));
  EXPECT_THAT(h1->Command("show"), HasSubstr("not joined"));

  Pass(absl::Seconds(20));
  Host* h3 = AddHost("h3", kOneVes);
  EXPECT_TRUE(Until([&] { return h1->carrier("v1"); })) << "though no time passes";
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h3->port("v1"));
}

// Trap 67, too.
TEST_F(AgentSubnetTest, FullMembersRecreateADeletedGroupWithoutAGap) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(AllReportsHeard());
  LeaveInTheNameOf(h1);
  LeaveInTheNameOf(h2);
  ASSERT_TRUE(subnet_.Groups().empty());
  EXPECT_TRUE(Until(
      [&] { return subnet_.Groups().size() == 1 && subnet_.Groups()[0].members.size() == 2; }));
  // Retried: the senders learn the members a moment later.
  EXPECT_TRUE(ArrivesInTheEnd(h1->port("v1"), h2->port("v1"), MakeFrame(MacAddr::Broadcast(), kA)));
  EXPECT_TRUE(ArrivesInTheEnd(h2->port("v1"), h1->port("v1"), MakeFrame(MacAddr::Broadcast(), kB)));
  for (Host* host : {h1, h2}) EXPECT_EQ(host->losses_of_carrier("v1"), 0);
}

}  // namespace
}  // namespace eoib
