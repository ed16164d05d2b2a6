// What the subnet does to whole agents: it reports ports and groups (traps 64 to 67), forgets its members, moves, is gone. All
// traps are the in-process subnet's own. The agents' clock stands still, so that what happens at once is told from what
// happens in time.
#include "absl/strings/str_replace.h"
#include "control/agent_test_fixture.h"
#include "vswitch/wire/mgid.h"
#include "vswitch/wire/sa_mad.h"

namespace eoib {
namespace {

using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kGoneForGood =
    absl::Seconds(3);  // README.md: what is behind a port is forgotten so long after trap 65

class AgentSubnetTest : public AgentTestOf<FakeClock> {
 protected:
  // What `host`'s station says reaches everybody else; and so has, by then, whatever its agent had to announce
  // (SourcesUpToNow).
  void Speak(Host* host, MacAddr mac) {
    for (int i = 0; i < 2; ++i) {
      host->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), mac));
      for (auto& other : hosts_) {
        if (other.get() == host) continue;
        EXPECT_TRUE(Arrives(other->port("v1"), MakeFrame(MacAddr::Broadcast(), mac)));
      }
    }
  }
  // All that it announces after it has joined is out. Before anything else is sent there.
  bool HasAnnouncedItself(Host* host) {
    Pass(absl::Seconds(2));
    return Until([host] { return host->Stat("transmitted_fabric") >= 5; });
  }
  // h1, at which C is frozen behind h3, since it was heard from h2 as well. `more` is of its VES.
  Host* AddHostThatFreezesC(const std::string& more = "") {
    const std::string damped = "pkey = 0x8001\ndamping_moves = 2\n" + more;
    Host* h1 = AddHost("h1", absl::StrReplaceAll(kOneVes, {{"pkey = 0x8001\n", damped}}));
    Host* h2 = AddHost("h2", kOneVes);
    Host* h3 = AddHost("h3", kOneVes);
    EXPECT_TRUE(AllJoined());
    for (Host* host : {h3, h2, h3}) Speak(host, kC);
    EXPECT_THAT(h1->Command("fdb/frozen"), HasSubstr(kC.ToString()));
    return h1;
  }
  // The peer behind which `host` knows `mac`; empty if it does not.
  static std::string PeerBehind(Host* host, MacAddr mac) {
    for (absl::string_view line : absl::StrSplit(host->Command("fdb/show"), '\n')) {
      const size_t at = line.find("GID");
      if (absl::StrContains(line, mac.ToString()) && at != line.npos) return std::string(line.substr(at));
    }
    return "";
  }
  // Every report that the subnet made has been acted upon.
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
    softhca::Subnet::Fault fault{source, destination, {}};
    fault.rule.loss_ppm = 1'000'000;
    ASSERT_TRUE(subnet_.SetFault(fault).ok());
  }
  // Another program behind the same port takes the membership away; nobody tells the agent.
  void LeaveInTheNameOf(Host* host) {
    McMemberRecord record;
    record.mgid = FloodMgid(PKey(0x8001));
    record.port_gid = host->soft_port()->config().gid;
    record.join_state = kFullMember;
    Mad mad;
    EncodeSaHeader({.method = MadMethod::kDelete,
                    .tid = 1,
                    .attribute = SaAttribute::kMcMemberRecord,
                    .component_mask = mcm::kMgid | mcm::kPortGid | mcm::kJoinState},
                   &mad);
    EncodeMcMemberRecord(record, SaRecord(&mad));
    ASSERT_TRUE(host->soft_port()->SendMad(mad).ok());
  }
  // The sources of all that arrives at `to` before a frame that `from` sends after everything that its agent has been told to
  // send. The worker takes injected frames and those of ports in any order, but all that wait in one turn: what waited
  // when the first of two frames was sent is out before the second.
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

// It cannot have told them the paths: when it was last there, neither had heard of the other.
TEST_F(AgentSubnetTest, NewPeersAreResolvedWithTheSmGone) {
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

// As after a restart of the subnet manager. What is in use stays in use.
TEST_F(AgentSubnetTest, AReregistrationTakesNothingAway) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  EXPECT_THAT(SourcesUpToNow(h1, h2), Contains(kA)) << "and the announcement of having joined is over";
  const std::string qpn = h1->Qpn();
  const uint64_t mads = MadsOf("h1");
  h1->soft_port()->OnSubnetLost();
  h1->soft_port()->OnPortConfig(h1->soft_port()->config());
  EXPECT_TRUE(Until([&] { return MadsOf("h1") >= mads + 6; })) << "a join, a path and four subscriptions";
  EXPECT_TRUE(AllJoined()) << "all answered";
  EXPECT_THAT(SourcesUpToNow(h1, h2), Not(Contains(h1->port("v1")->mac()))) << "nothing is announced";
  EXPECT_EQ(h1->losses_of_carrier("v1"), 0);
  EXPECT_EQ(h1->Qpn(), qpn);
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  EXPECT_EQ(h2->Stat("readdressed_peers"), 0u);
}

TEST_F(AgentSubnetTest, ASubnetManagerThatMovesIsFollowedByALightRefresh) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  EXPECT_THAT(SourcesUpToNow(h1, h2), Contains(kA));
  const std::string qpn = h1->Qpn();
  const uint64_t mads = MadsOf("h1");
  ASSERT_TRUE(subnet_.MoveSm(Lid(99)).ok());
  EXPECT_TRUE(Until([&] { return MadsOf("h1") >= mads + 6; })) << "a join, a path and four subscriptions";
  EXPECT_TRUE(AllJoined()) << "all answered";
  EXPECT_THAT(h1->Command("show"), HasSubstr("SM LID " + Lid(99).ToString()));
  EXPECT_THAT(SourcesUpToNow(h1, h2), Not(Contains(h1->port("v1")->mac()))) << "nothing is announced";
  EXPECT_EQ(h1->losses_of_carrier("v1"), 0);
  EXPECT_EQ(h1->Qpn(), qpn);
  ExpectTalk(h1->port("v1"), h2->port("v1"));

  // It is asked, and answers, and reports, where it is now.
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

// ---- What it reports.

TEST_F(AgentSubnetTest, AgentsSubscribe) {
  Host* h1 = AddHost("h1", kOneVes);
  ASSERT_TRUE(Until([&] { return absl::StrContains(h1->Command("show"), "notices of the subnet: subscribed"); }));
  ASSERT_EQ(subnet_.AllSubscriptions().size(), 1u);
  EXPECT_EQ(subnet_.AllSubscriptions()[0].infos.size(), 4u);
  subnet_.RestartSm();
  EXPECT_TRUE(Until([&] { return subnet_.AllSubscriptions().size() == 1 && subnet_.AllSubscriptions()[0].infos.size() == 4; }));
  bool stopped = false;
  h1->agent()->Stop([&stopped] { stopped = true; });
  EXPECT_TRUE(Until([&] { return stopped; }));
  EXPECT_TRUE(subnet_.AllSubscriptions().empty());
}

// The SM that gave it is gone before h2 can ask it for anything. What h2 announced when it joined is over.
TEST_F(AgentSubnetTest, AnotherLidIsAnnouncedWithoutAnAnswerOfTheSa) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(HasAnnouncedItself(h2));
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  subnet_.SetSmAbsent(true);
  ASSERT_TRUE(subnet_.SetLid("h2", Lid(77)).ok());
  EXPECT_TRUE(ArrivesInTheEnd(h1->port("v1"), h2->port("v1"), MakeFrame(kB, kA)));
}

TEST_F(AgentSubnetTest, WithoutALinkNothingIsAnnounced) {
  AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(HasAnnouncedItself(h2));
  subnet_.SetSmAbsent(true);
  const uint64_t before = h2->Stat("transmitted_fabric");
  ASSERT_TRUE(subnet_.SetLid("h2", Lid(77)).ok());
  ASSERT_TRUE(Until([&] { return h2->Stat("transmitted_fabric") > before; })) << "the LID is announced";
  ASSERT_TRUE(subnet_.SetLink("h2", false).ok());
  ASSERT_TRUE(Until([&] { return !h2->carrier("v1"); }));
  Pass(absl::Seconds(2));
  // Behind whatever the agent has to say.
  h2->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  ASSERT_TRUE(Until([&] { return absl::StrContains(h2->Command("drops"), "fabric_down"); }));
  EXPECT_THAT(h2->Command("drops"), testing::ContainsRegex("fabric_down +1 "));
}

// The kernel takes the lock of all network configuration for each.
TEST_F(AgentSubnetTest, ACarrierIsSetWhereItChangesAndAgainIfThatFailed) {
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

TEST_F(AgentSubnetTest, WhoWatchesIsToldThatThereIsMore) {
  Host* h1 = AddHost("h1", kOneVes);
  ASSERT_TRUE(AllJoined());
  const std::string first = h1->Command("fdb/monitor", {"blue"});
  const std::string next = first.substr(5, first.find('\n') - 5);
  EXPECT_EQ(first.substr(0, 5), "next ");
  for (uint64_t i = 0; i < 2001; ++i) {
    h1->Command("fdb/add", {"blue", "0", MacAddr::FromUint64(0x02'00'00'01'00'00 + i).ToString(), "v1"});
  }
  EXPECT_THAT(h1->Command("fdb/monitor", {"blue", next}), testing::StartsWith("more "));
}

// Trap 65.
TEST_F(AgentSubnetTest, APortThatStaysOutOfServiceTakesItsMacsAlong) {
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
  EXPECT_TRUE(h1->Knows(kB)) << "of a port that is in service";

  const uint64_t flooded = h1->Stat("flooded_unknown");
  h1->port("v1")->Inject(MakeFrame(kC, kA));
  EXPECT_TRUE(Arrives(h2->port("v1"), MakeFrame(kC, kA))) << "it may be anywhere";
  EXPECT_EQ(h1->Stat("flooded_unknown"), flooded + 1);
}

// An entry that does not age has no time at which it was heard.
TEST_F(AgentSubnetTest, AFrozenMacDoesNotSpeakForAPortThatIsGone) {
  Host* h1 = AddHostThatFreezesC();
  ASSERT_TRUE(AllReportsHeard());
  SetLink("h3", false);
  Pass(kGoneForGood);
  EXPECT_FALSE(h1->Knows(kC));
}

// Though nothing else is known there any more.
TEST_F(AgentSubnetTest, WhereAFrozenMacWouldHaveMovedIsRemembered) {
  Host* h1 = AddHostThatFreezesC("ageing = 10\n");
  ASSERT_THAT(h1->Command("fdb/frozen"), HasSubstr("and was heard from GID "));
  Pass(absl::Seconds(60));
  EXPECT_THAT(h1->Command("fdb/frozen"), HasSubstr("and was heard from GID "));
}

// Its vPort has no entry while another has its MAC. Were it reclaimed, the MAC would be held where nobody is.
TEST_F(AgentSubnetTest, ASilentHomeIsRemembered) {
  Host* h1 = AddHost("h1", absl::StrReplaceAll(kOneVes, {{"pkey = 0x8001\n", "pkey = 0x8001\nageing = 10\n"}}));
  Host* victim = AddHost("h2", kOneVes);
  Host* thieves[] = {AddHost("h3", kOneVes), AddHost("h4", kOneVes)};
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

// Without ageing the FDB counts minutes.
TEST_F(AgentSubnetTest, APortThatIsGoneTakesItsMacsAlongAlsoWhereTheyDoNotAge) {
  Host* h1 = AddHost("h1", absl::StrReplaceAll(kOneVes, {{"pkey = 0x8001\n", "pkey = 0x8001\nageing = 0\n"}}));
  Host* h3 = AddHost("h3", kOneVes);
  ASSERT_TRUE(AllJoined());
  Speak(h3, kC);
  ASSERT_TRUE(AllReportsHeard());
  SetLink("h3", false);
  Pass(kGoneForGood);
  EXPECT_FALSE(h1->Knows(kC));
}

// Whoever has MACs flap does not fill the log with it.
TEST_F(AgentSubnetTest, MacsThatMoveTooOftenAreLoggedNowAndThen) {
  const std::string damped = absl::StrReplaceAll(kOneVes, {{"pkey = 0x8001\n", "pkey = 0x8001\ndamping_moves = 2\n"}});
  Host* h1 = AddHost("h1", damped);
  Host* h2 = AddHost("h2", kOneVes);
  Host* h3 = AddHost("h3", kOneVes);
  ASSERT_TRUE(AllJoined());
  uint64_t mac = 0x02'00'00'00'01'00;
  const auto freeze_one = [&] {
    ++mac;
    for (Host* host : {h2, h3, h2}) Speak(host, MacAddr::FromUint64(mac));
    Pass(absl::Milliseconds(200));
  };
  testing::internal::CaptureStderr();
  for (int i = 0; i < 20; ++i) freeze_one();
  const std::vector<std::string> first = absl::StrSplit(testing::internal::GetCapturedStderr(), '\n');
  const auto is_told = [](const std::string& line) { return absl::StrContains(line, "moved 2 times within"); };
  EXPECT_EQ(std::count_if(first.begin(), first.end(), is_told), 10);
  EXPECT_THAT(first, Contains(ContainsRegex("it is held at GID .* for 3m, or until `eoibctl fdb thaw blue 0 02:")));
  EXPECT_EQ(h1->Stat("froze"), 20u);
  Pass(absl::Seconds(6));
  testing::internal::CaptureStderr();
  freeze_one();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("; 10 more like this since the last message"));
}

// Trap 64. The port comes back with another LID; its agent says so, but h1 cannot hear it, and goes by the report alone.
TEST_F(AgentSubnetTest, APortThatIsBackInTimeIsAskedForAtOnceAndKeepsItsMacs) {
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
  Pass(2 * kGoneForGood);
  EXPECT_TRUE(h1->Knows(kC));
}

// Both ports come back with the queue pairs they had, but trap 64 waits for a subnet manager that is gone. Whoever is heard is
// there all the same.
TEST_F(AgentSubnetTest, APortThatIsHeardAfterItsReportKeepsItsMacs) {
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
  EXPECT_EQ(h1->Stat("readdressed_peers"), 0u);
}

// Trap 66. It has backed off by seconds when the full member comes.
TEST_F(AgentSubnetTest, ALimitedMemberThatWaitedJoinsAsSoonAsTheGroupIsThere) {
  ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8001), "h1", softhca::Membership::kLimited).ok());
  Host* h1 = AddHost("h1", kOneVes);
  Pass(absl::Seconds(4));  // joins at 0.1, 0.3, 0.7, 1.5, 3.1 and 6.3 s
  EXPECT_FALSE(h1->carrier("v1"));
  AddHost("h2", kOneVes);
  EXPECT_TRUE(Until([&] { return h1->carrier("v1"); })) << "though no time passes";
}

// It is a member of the group like any other, so the group does not end with the full member that made it.
TEST_F(AgentSubnetTest, ALimitedMemberKeepsTheGroupWhenWhoMadeItIsGone) {
  ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8001), "h1", softhca::Membership::kLimited).ok());
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  Host* h1 = AddHost("h1", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(AllReportsHeard());
  const uint64_t reports = Reports();
  KillHost(h2);
  ASSERT_TRUE(AllReportsHeard());
  EXPECT_EQ(Reports(), reports + 1) << "of the port";
  EXPECT_EQ(subnet_.Groups().size(), 1u);
  Host* h3 = AddHost("h3", kOneVes);
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h3->port("v1"));
  EXPECT_EQ(h1->losses_of_carrier("v1"), 0);
}

// Trap 67: nothing else tells the limited member that its group is no more. Then 66, when another full member comes.
TEST_F(AgentSubnetTest, ALimitedMemberLosesADeletedGroupAndJoinsTheNext) {
  ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8001), "h1", softhca::Membership::kLimited).ok());
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  Host* h1 = AddHost("h1", kOneVes);
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  KillHost(h2);
  LeaveInTheNameOf(h1);
  ASSERT_TRUE(subnet_.Groups().empty());
  EXPECT_TRUE(Until([&] { return absl::StrContains(h1->Command("show"), "joining again"); })) << "though no time passes";
  EXPECT_TRUE(h1->carrier("v1")) << "not at the first refusal: a full member may be about to make it again";
  Pass(absl::Milliseconds(300));
  EXPECT_TRUE(Until([&] { return !h1->carrier("v1"); }));
  EXPECT_THAT(h1->Command("show"), HasSubstr("not joined"));

  Pass(absl::Seconds(20));
  Host* h3 = AddHost("h3", kOneVes);
  EXPECT_TRUE(Until([&] { return h1->carrier("v1"); })) << "though no time passes";
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h3->port("v1"));
}

// Trap 67 as well.
TEST_F(AgentSubnetTest, FullMembersMakeADeletedGroupAgainWithoutAGap) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(AllReportsHeard());
  LeaveInTheNameOf(h1);
  LeaveInTheNameOf(h2);
  ASSERT_TRUE(subnet_.Groups().empty());
  EXPECT_TRUE(Until([&] { return subnet_.Groups().size() == 1 && subnet_.Groups()[0].members.size() == 2; }));
  // In the end: senders hear of the members a moment later.
  EXPECT_TRUE(ArrivesInTheEnd(h1->port("v1"), h2->port("v1"), MakeFrame(MacAddr::Broadcast(), kA)));
  EXPECT_TRUE(ArrivesInTheEnd(h2->port("v1"), h1->port("v1"), MakeFrame(MacAddr::Broadcast(), kB)));
  for (Host* host : {h1, h2}) EXPECT_EQ(host->losses_of_carrier("v1"), 0);
}

}  // namespace
}  // namespace eoib
