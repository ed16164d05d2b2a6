// Whole agents: forwarding, events of the HCA port, start and stop. agent_subnet_test.cc tests the
// reports of the subnet.
#include "control/agent.h"

#include <filesystem>
#include <set>

#include "control/agent_test_fixture.h"
#include "vswitch/wire/mgid.h"

namespace eoib {
namespace {

using ::testing::HasSubstr;

class AgentTest : public AgentTestOf<MonotonicClock> {};

TEST_F(AgentTest, TwoAgentsExchangeFrames) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined()) << h1->Command("show");
  h1->port("v1")->Inject(MakeFrame(kB, kA));
  EXPECT_TRUE(Arrives(h2->port("v1"), MakeFrame(kB, kA)));
  h2->port("v1")->Inject(MakeFrame(kA, kB));
  EXPECT_TRUE(Arrives(h1->port("v1"), MakeFrame(kA, kB)));
  EXPECT_EQ(h2->Stat("flooded_unknown"), 1u) << "the frame that came, and not the reply";
  EXPECT_THAT(h1->Command("fdb/show"), HasSubstr(kB.ToString()));
  EXPECT_THAT(h1->Command("fdb", {"show", "blue"}), HasSubstr("vPort v1"));
  EXPECT_THAT(h1->Command("fdb/show", {"red"}), HasSubstr("no VES \"red\"; there is: blue"));
  EXPECT_THAT(h1->Command("fdb/show", {"blue", "0", kB.ToString()}),
              testing::Not(HasSubstr(kB.ToString())));
  EXPECT_THAT(h1->Command("fdb/show", {"blue", "0"}), HasSubstr("VES [VLAN MAC]"));
  EXPECT_THAT(h1->Command("fdb/show", {"blue", "4095", kA.ToString()}), HasSubstr("is no VLAN"));
  EXPECT_EQ(h1->mtu("v1"), 4070);
}

// The control thread does nothing else while it makes an answer.
TEST_F(AgentTest, AnswersWithALargeFdbInSmallParts) {
  constexpr int kMacs = 5000;
  Host* h1 = AddHost("h1", kOneVes);
  ASSERT_TRUE(AllJoined());
  for (uint64_t i = 0; i < kMacs; ++i) {
    h1->Command("fdb/add",
                {"blue", "0", MacAddr::FromUint64(0x02'00'00'01'00'00 + i).ToString(), "v1"});
  }
  std::set<std::string> rows;
  CommandRegistry::Arguments arguments = {"blue"};
  int answers = 0;
  for (; !arguments.empty(); ++answers) {
    const std::vector<std::string> lines =
        absl::StrSplit(h1->Command("fdb/show", arguments), '\n', absl::SkipEmpty());
    ASSERT_LE(lines.size(), 1100u);
    arguments.clear();
    for (const std::string& line : lines) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      if (words[0] == "more:") {
        arguments = {words[3], words[4], words[5]};
      } else if (words[0] == "blue") {
        EXPECT_TRUE(rows.insert(words[2]).second) << line;
      }
    }
  }
  EXPECT_EQ(rows.size(), kMacs + 1u) << "and that of v1";
  EXPECT_GE(answers, 5);
}

TEST_F(AgentTest, StartsWithAFullStateDirectory) {
  // Directories with the names of the temporary files make writes fail even for root.
  for (const char* file : {"agent.json.new", "vports.json.new", "fdb.json.new"}) {
    std::filesystem::create_directories(state_.path() + "/h1/" + file);
  }
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined()) << h1->Command("show");
  h1->port("v1")->Inject(MakeFrame(kB, kA));
  EXPECT_TRUE(Arrives(h2->port("v1"), MakeFrame(kB, kA)));
  h1->agent()->SaveMacs();
}

TEST_F(AgentTest, TwoVesesOfOneAgentAreIsolated) {
  Host* h1 = AddHost("h1", kTwoVeses);
  Host* h2 = AddHost("h2", kTwoVeses);
  ASSERT_TRUE(AllJoined());
  h1->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  h1->port("v2")->Inject(MakeFrame(MacAddr::Broadcast(), kC));
  EXPECT_TRUE(Arrives(h2->port("v1"), MakeFrame(MacAddr::Broadcast(), kA)));
  EXPECT_TRUE(Arrives(h2->port("v2"), MakeFrame(MacAddr::Broadcast(), kC)));
  EXPECT_THAT(h2->Command("fdb/show", {"red"}), testing::Not(HasSubstr(kA.ToString())));
}

TEST_F(AgentTest, PeersFollowARestartedAgent) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  h2->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  ASSERT_TRUE(Arrives(h1->port("v1"), MakeFrame(MacAddr::Broadcast(), kB)));
  hosts_.pop_back();
  h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  h2->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  ASSERT_TRUE(Arrives(h1->port("v1"), MakeFrame(MacAddr::Broadcast(), kB)));
  ASSERT_TRUE(Follows(h1, kB, h2));
  h1->port("v1")->Inject(MakeFrame(kB, kA));
  EXPECT_TRUE(Arrives(h2->port("v1"), MakeFrame(kB, kA)));
}

// After a restart of the subnet, other agents may join a little later than the one that announces.
TEST_F(AgentTest, PeerThatJoinsLaterHearsARepeatedAnnouncement) {
  Host* h1 = AddHost("h1", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(Until([h1] { return h1->Stat("transmitted") >= 1; }))
      << "the first was sent before any peer joined";
  Host* h2 = AddHost("h2", kOneVes);
  const std::string mac = h1->port("v1")->mac().ToString();
  EXPECT_TRUE(Until([&] { return absl::StrContains(h2->Command("fdb/show"), mac); }));
}

TEST_F(AgentTest, JoinsAgainAfterTheLinkWasDown) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(subnet_.SetLink("h1", false).ok());
  EXPECT_TRUE(Until([h1] { return !h1->Joined(); }));
  ASSERT_TRUE(subnet_.SetLink("h1", true).ok());
  ASSERT_TRUE(AllJoined());
  // Retried: if h2 announced itself meanwhile, its port treats h1's as unreachable for 100 ms.
  EXPECT_TRUE(ArrivesInTheEnd(h2->port("v1"), h1->port("v1"), MakeFrame(MacAddr::Broadcast(), kB)));
}

// The flood group sets the VES's parameters: a later member takes the group's MTU and Q_Key instead
// of its own settings.
TEST_F(AgentTest, TakesTheParametersOfAnExistingGroup) {
  auto creator = softhca::OpenSoftHca(subnet_.Connect(), "creator").value();
  SaClient sa(creator->mads(), &clock_, {});
  McMemberRecord record;
  record.mgid = FloodMgid(PKey(0x8001));
  record.port_gid = creator->QueryPort().value().gid;
  record.qkey = QKey(0x80001234);
  record.mtu = static_cast<uint8_t>(IbMtu::k2048);
  record.pkey = PKey(0x8001);
  record.scope = 2;
  record.join_state = kFullMember;
  bool made = false;
  sa.Join(record,
          mcm::kMgid | mcm::kPortGid | mcm::kJoinState | mcm::kPKey | mcm::kQKey |
              mcm::kTrafficClass | mcm::kSl | mcm::kFlowLabel | mcm::kHopLimit | mcm::kScope |
              mcm::kMtu | mcm::kMtuSelector,
          [&made](absl::StatusOr<McMemberRecord> answer) { made = answer.ok(); });
  ASSERT_TRUE(Until([&] {
    sa.Run();
    return made;
  }));

  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  EXPECT_THAT(h1->Command("show"),
              testing::AllOf(HasSubstr("Q_Key 0x80001234"), HasSubstr("MTU 2044")));
  EXPECT_EQ(h1->mtu("v1"), 2022);
  Bytes largest = MakeFrame(kB, kA);
  largest.resize(2044, 0x55);
  h1->port("v1")->Inject(largest);
  EXPECT_TRUE(Arrives(h2->port("v1"), largest));
  largest.push_back(0x55);
  h1->port("v1")->Inject(largest);
  EXPECT_TRUE(Until([h1] { return absl::StrContains(h1->Command("drops"), "too_large"); }));
}

TEST_F(AgentTest, LeavesItsGroupsWhenItStops) {
  Host* h1 = AddHost("h1", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_EQ(subnet_.Groups().size(), 1u);
  bool stopped = false;
  h1->agent()->Stop([&stopped] { stopped = true; });
  EXPECT_TRUE(Until([&] { return stopped; }));
  EXPECT_EQ(subnet_.Groups().size(), 0u);
}

// ---- The three depths of a refresh.

TEST_F(AgentTest, LidChangeKeepsTheQueuePair) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  const std::string qpn = h2->Qpn();
  ASSERT_TRUE(subnet_.SetLid("h2", Lid(77)).ok());
  // Frames to the old LID are lost until h2's agent announces its station; the station itself need
  // not send.
  EXPECT_TRUE(ArrivesInTheEnd(h1->port("v1"), h2->port("v1"), MakeFrame(kB, kA)));
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  EXPECT_EQ(h2->Qpn(), qpn);
  EXPECT_EQ(h2->losses_of_carrier("v1"), 0);
}

TEST_F(AgentTest, WithdrawnPKeyTakesItsVesDownUntilItIsBackAtAnyIndex) {
  Host* h1 = AddHost("h1", kTwoVeses);
  Host* h2 = AddHost("h2", kTwoVeses);
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  ExpectTalk(h1->port("v2"), h2->port("v2"));
  const std::string red = h1->Qpn("red"), blue = h1->Qpn("blue");
  ASSERT_TRUE(subnet_.RemoveFromPartition(PKey(0x8001), "h1").ok());
  ASSERT_TRUE(Until([&] { return !h1->carrier("v1"); }));
  EXPECT_THAT(h1->Command("show"), testing::AllOf(HasSubstr("QPN none"),
                                                  HasSubstr("find P_Key 0x8001 on port soft:h1")));
  ExpectTalk(h1->port("v2"), h2->port("v2"));
  EXPECT_EQ(h1->Qpn("red"), red);
  EXPECT_EQ(h1->losses_of_carrier("v2"), 0);
  // Frames from local stations are counted as drops meanwhile.
  h1->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  h1->port("v1")->Inject(MakeFrame(kB, kA));
  EXPECT_TRUE(
      Until([&] { return absl::StrContains(h1->Command("drops", {"blue"}), "fabric_down"); }));

  ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8005), "h1", softhca::Membership::kFull).ok());
  ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8001), "h1", softhca::Membership::kFull).ok());
  ASSERT_TRUE(Until([&] { return h1->carrier("v1"); }));
  ASSERT_TRUE(Follows(h2, kA, h1));
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  EXPECT_NE(h1->Qpn("blue"), blue);
  EXPECT_EQ(h1->Qpn("red"), red);
}

TEST_F(AgentTest, FollowsAMembershipThatBecomesLimitedAndFullAgain) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  Host* h3 = AddHost("h3", kOneVes);
  ASSERT_TRUE(AllJoined());
  for (const char* name : {"h1", "h2"}) {
    ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8001), name, softhca::Membership::kLimited).ok());
  }
  const auto limited = [](Host* host) {
    return absl::StrContains(host->Command("show"), "0x0001 (limited member)");
  };
  ASSERT_TRUE(Until([&] { return limited(h1) && limited(h2); }));
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h3->port("v1"));
  h2->port("v1")->TakeTransmitted();
  h1->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kC));
  ASSERT_TRUE(Arrives(h3->port("v1"), MakeFrame(MacAddr::Broadcast(), kC)));
  for (const auto& sent : h2->port("v1")->TakeTransmitted()) {
    EXPECT_NE(sent.bytes, MakeFrame(MacAddr::Broadcast(), kC))
        << "limited members are isolated from each other";
  }
  for (const char* name : {"h1", "h2"}) {
    ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8001), name, softhca::Membership::kFull).ok());
  }
  ASSERT_TRUE(Until([&] { return !limited(h1) && !limited(h2); }));
  ASSERT_TRUE(AllJoined());
  h1->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kC));
  EXPECT_TRUE(Arrives(h2->port("v1"), MakeFrame(MacAddr::Broadcast(), kC)));
}

// A restarted subnet assigns another range of QPNs.
TEST_F(AgentTest, ReplacesALostQueuePairInPlace) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  const std::string qpn = h1->Qpn();
  softhca::PortConfig config = h1->soft_port()->config();
  config.qpns.first = Qpn(config.qpns.first.value() + 100);
  config.qpns.count -= 100;
  h1->soft_port()->sink().OnPortConfig(config);
  ASSERT_TRUE(Until([&] { return h1->Qpn() != qpn; }));
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(Follows(h2, kA, h1));
  EXPECT_EQ(h1->losses_of_carrier("v1"), 0);
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  h2->port("v1")->Inject(MakeFrame(kA, kC));
  EXPECT_TRUE(Arrives(h1->port("v1"), MakeFrame(kA, kC)));
}

TEST_F(AgentTest, GidChangeReplacesTheQueuePair) {
  Host* h1 = AddHost("h1", kOneVes);
  ASSERT_TRUE(AllJoined());
  const std::string qpn = h1->Qpn();
  const softhca::PortConfig before = h1->soft_port()->config();
  softhca::PortConfig config = before;
  config.gid = Gid::FromPrefixAndGuid(0xfec0'0000'0000'0000, config.port_guid);
  h1->soft_port()->sink().OnPortConfig(config);
  ASSERT_TRUE(Until([&] { return h1->Qpn() != qpn; }));
  // This SA refuses joins from a GID that it did not assign.
  ASSERT_TRUE(Until([&] { return !h1->carrier("v1"); }));
  h1->soft_port()->sink().OnPortConfig(before);
  ASSERT_TRUE(Until([&] { return h1->carrier("v1"); }));
}

// Interfaces send all the time, so a rebuild finds frames in every state. TearDown checks that all
// are accounted for.
TEST_F(AgentTest, RebuildsUnderLoadConserveBuffersAndCounts) {
  Host* h1 = AddHost("h1", kTwoVeses);
  Host* h2 = AddHost("h2", kTwoVeses);
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 50; ++i) {
      h1->port("v1")->Inject(MakeFrame(kB, kA));
      h2->port("v1")->Inject(MakeFrame(kA, kB));
      h1->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kA));
    }
    const bool back = round % 2 == 1;
    if (back) {
      ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8001), "h1", softhca::Membership::kFull).ok());
    } else {
      ASSERT_TRUE(subnet_.RemoveFromPartition(PKey(0x8001), "h1").ok());
    }
    ASSERT_TRUE(Until([&] { return h1->carrier("v1") == back; })) << round;
    h2->port("v1")->TakeTransmitted();
    h1->port("v1")->TakeTransmitted();
  }
  ASSERT_TRUE(Follows(h2, kA, h1));
  ExpectTalk(h1->port("v1"), h2->port("v1"));
}

TEST_F(AgentTest, NoticesAPKeyThatIsGoneWhenTheLinkComesBack) {
  Host* h1 = AddHost("h1", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(subnet_.SetLink("h1", false).ok());
  ASSERT_TRUE(subnet_.RemoveFromPartition(PKey(0x8001), "h1").ok());
  ASSERT_TRUE(subnet_.SetLink("h1", true).ok());
  ASSERT_TRUE(Until([&] { return h1->Qpn() == "none"; }));
  EXPECT_FALSE(h1->carrier("v1"));
}

TEST_F(AgentTest, RefreshWithoutASubnetManagerKeepsEverythingInUse) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  subnet_.SetSmAbsent(true);
  h1->soft_port()->sink().OnSubnetLost();
  h1->soft_port()->sink().OnPortConfig(h1->soft_port()->config());
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  EXPECT_EQ(h1->losses_of_carrier("v1"), 0);
  subnet_.SetSmAbsent(false);
}

TEST_F(AgentTest, StaticEntryNeedsAVlanThatItsPortCarries) {
  Host* host =
      AddHost("h1",
              "[[ves]]\nname = \"blue\"\npkey = 0x8001\nvlans = [0, \"10-30\"]\n"
              "[[vport]]\nname = \"v1\"\nves = \"blue\"\ntype = \"test\"\naccess_vlan = 10\n"
              "[[vport]]\nname = \"v2\"\nves = \"blue\"\ntype = \"test\"\nmode = \"trunk\"\n"
              "trunk_vlans = [\"20-40\"]\n");
  ASSERT_TRUE(AllJoined());
  EXPECT_EQ(host->Command("fdb/add", {"blue", "20", kA.ToString(), "v1"}),
            "error: vPort v1 carries no VLAN 20 of VES blue; it carries: 10");
  EXPECT_EQ(host->Command("fdb/add", {"blue", "40", kA.ToString(), "v2"}),
            "error: vPort v2 carries no VLAN 40 of VES blue; it carries: 20-30");
  EXPECT_FALSE(host->Knows(kA));
  EXPECT_THAT(host->Command("fdb/add", {"blue", "10", kA.ToString(), "v1"}),
              testing::HasSubstr("is at vPort v1"));
  EXPECT_THAT(host->Command("fdb/add", {"blue", "20", kB.ToString(), "v2"}),
              testing::HasSubstr("is at vPort v2"));
}

TEST_F(AgentTest, ManyPathsAreRefreshedAsATable) {
  Host* h1 = AddHost("h1", kOneVes);
  constexpr int kPeers = 15;
  for (int i = 2; i < 2 + kPeers; ++i) AddHost(absl::StrCat("h", i), kOneVes);
  ASSERT_TRUE(AllJoined());
  for (int i = 1; i <= kPeers; ++i)
    hosts_[i]->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  const auto paths = [h1] {
    return std::vector<std::string>(absl::StrSplit(h1->Command("neigh"), "GID ")).size() - 1;
  };
  ASSERT_TRUE(Until([&] { return paths() == kPeers; }))
      << "the agent resolves what its worker has met";
  const auto tables = [this] { return subnet_.mad_counters().sa.tables; };
  const uint64_t before = tables();
  ASSERT_TRUE(subnet_.Reregister("h1").ok());
  EXPECT_TRUE(Until([&] { return tables() == before + 1; }));
  h1->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  EXPECT_TRUE(Arrives(hosts_[5]->port("v1"), MakeFrame(MacAddr::Broadcast(), kA)));
}

}  // namespace
}  // namespace eoib
