// Whole agents, several in one process, on an in-process software subnet: workers are threads, control is pumped by the test.
#include "control/agent.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "fdb/temp_dir_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/fabric/softhca/soft_hca.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"
#include "vswitch/port/test_port.h"
#include "vswitch/wire/mgid.h"

namespace eoib {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<uint8_t>;

constexpr char kPartitions[] =
    "[[partition]]\npkey = 0x8001\nfull = [\"ALL\"]\n"
    "[[partition]]\npkey = 0x8002\nfull = [\"ALL\"]\n";

Bytes MakeFrame(MacAddr to, MacAddr from) {
  Bytes frame(60, 0);
  to.ToWire(&frame[0]);
  from.ToWire(&frame[6]);
  frame[12] = 0x88, frame[13] = 0xb6;
  return frame;
}

const MacAddr kA = MacAddr::FromUint64(0x02'00'00'00'00'0a);
const MacAddr kB = MacAddr::FromUint64(0x02'00'00'00'00'0b);
const MacAddr kC = MacAddr::FromUint64(0x02'00'00'00'00'0c);

// One agent with its ports.
class Host {
 public:
  Host(softhca::Subnet* subnet, const std::string& name, const std::string& toml, const Clock* clock)
      : loop_(clock), state_(StateDir::Open(directory_.path()).value()) {
    const AgentConfig config = ParseConfig(toml, "test").value();
    std::unique_ptr<Hca> hca = softhca::OpenSoftHca(subnet->Connect(), name).value();
    soft_port_ = softhca::SoftPortOf(*hca);
    agent_ = Agent::Create(
                 config, std::move(hca), state_.get(),
                 [this](const VPortConfig& vport, MacAddr mac, int mtu) { return MakePort(vport, mac, mtu); }, &loop_, clock)
                 .value();
    agent_->RegisterCommands(&commands_);
    agent_->OnFatal([](const std::string& why) { ADD_FAILURE() << "starts anew: " << why; });
    agent_->Start();
  }

  void Pump() { loop_.RunOnce(absl::InfinitePast()); }
  TestPort* port(const std::string& name) { return ports_.at(name); }
  int mtu(const std::string& name) { return mtus_.at(name); }
  std::string Command(const std::string& name, const CommandRegistry::Arguments& arguments = {}) {
    const absl::StatusOr<std::string> answer = commands_.Run(name, arguments);
    return answer.ok() ? *answer : absl::StrCat("error: ", answer.status().message());
  }
  bool Joined() { return !absl::StrContains(Command("show"), "not joined"); }
  uint64_t Stat(const std::string& name) {
    uint64_t sum = 0;
    for (absl::string_view line : absl::StrSplit(Command("stats"), '\n')) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      uint64_t value = 0;
      if (words.size() == 2 && words[0] == name && absl::SimpleAtoi(words[1], &value)) sum += value;
    }
    return sum;
  }
  bool Conserved() {
    return Stat("frames_in") == Stat("forwarded") + Stat("ingress_drops") &&
           Stat("egress_copies") == Stat("transmitted") + Stat("egress_drops");
  }
  Agent* agent() { return agent_.get(); }
  softhca::SoftPort* soft_port() { return soft_port_; }
  bool carrier(const std::string& name) { return carriers_[name]; }
  int losses_of_carrier(const std::string& name) { return losses_[name]; }
  // "0x48", of a VES; "none" without one.
  std::string Qpn(const std::string& ves = "blue") {
    const std::string show = Command("show");
    const std::string key = "QPN ";
    const size_t at = show.find(key, show.find("VES " + ves + ":")) + key.size();
    return show.substr(at, show.find(',', at) - at);
  }

 private:
  absl::StatusOr<VPort> MakePort(const VPortConfig& config, MacAddr mac, int mtu) {
    VPort vport;
    vport.config = config;
    auto port = std::make_unique<TestPort>(config.name, mac);
    ports_[config.name] = port.get();
    mtus_[config.name] = mtu;
    vport.port = std::move(port);
    vport.set_mtu = [this, name = config.name](int bytes) {
      mtus_[name] = bytes;
      return absl::OkStatus();
    };
    vport.set_link = [this, name = config.name](bool up) {
      losses_[name] += carriers_[name] && !up;
      carriers_[name] = up;
      return absl::OkStatus();
    };
    return vport;
  }

  TempDir directory_;
  EventLoop loop_;
  std::unique_ptr<StateDir> state_;
  std::map<std::string, TestPort*> ports_;
  std::map<std::string, int> mtus_;
  std::map<std::string, bool> carriers_;
  std::map<std::string, int> losses_;
  softhca::SoftPort* soft_port_ = nullptr;
  CommandRegistry commands_;
  std::unique_ptr<Agent> agent_;
};

class AgentTest : public testing::Test {
 protected:
  AgentTest() : subnet_(Options()) {}

  static softhca::Subnet::Options Options() {
    softhca::Subnet::Options options;
    options.config = softhca::ParseSubnetConfig(kPartitions, "test").value();
    return options;
  }

  Host* AddHost(const std::string& name, const std::string& toml) {
    hosts_.push_back(std::make_unique<Host>(&subnet_, name, toml, &clock_));
    return hosts_.back().get();
  }

  // Pumps all control loops until `done`, at most ten seconds.
  bool Until(const std::function<bool()>& done) {
    const absl::Time deadline = clock_.Now() + absl::Seconds(10);
    while (!done()) {
      if (clock_.Now() > deadline) return false;
      for (auto& host : hosts_) host->Pump();
      std::this_thread::yield();
    }
    return true;
  }
  bool AllJoined() {
    return Until([this] { return std::all_of(hosts_.begin(), hosts_.end(), [](auto& host) { return host->Joined(); }); });
  }
  // The frame arrives at `port`; what else arrives there is passed over.
  bool Arrives(TestPort* port, const Bytes& frame) {
    return Until([&] {
      for (const auto& sent : port->TakeTransmitted()) {
        if (sent.bytes == frame) return true;
      }
      return false;
    });
  }

  // Both ways, to a MAC that is not known and back to one that is.
  void ExpectTalk(TestPort* one, TestPort* other) {
    one->Inject(MakeFrame(kB, kA));
    EXPECT_TRUE(Arrives(other, MakeFrame(kB, kA)));
    other->Inject(MakeFrame(kA, kB));
    EXPECT_TRUE(Arrives(one, MakeFrame(kA, kB)));
  }

  void TearDown() override {
    EXPECT_TRUE(Until([this] {
      return std::all_of(hosts_.begin(), hosts_.end(), [](auto& host) { return host->Conserved(); });
    })) << "frames are not conserved: "
        << (hosts_.empty() ? "" : hosts_[0]->Command("stats"));
  }

  MonotonicClock clock_;
  softhca::Subnet subnet_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

constexpr char kTwoVeses[] =
    "[[ves]]\nname = \"blue\"\npkey = 0x8001\n[[vport]]\nname = \"v1\"\nves = \"blue\"\ntype = \"test\"\n"
    "[[ves]]\nname = \"red\"\npkey = 0x8002\n[[vport]]\nname = \"v2\"\nves = \"red\"\ntype = \"test\"\n";
constexpr char kOneVes[] =
    "[[ves]]\nname = \"blue\"\npkey = 0x8001\n[[vport]]\nname = \"v1\"\nves = \"blue\"\ntype = \"test\"\n";

TEST_F(AgentTest, TwoAgentsTalk) {
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
  EXPECT_EQ(h1->mtu("v1"), 4074);
}

TEST_F(AgentTest, TwoVesesOfOneAgentStayApart) {
  Host* h1 = AddHost("h1", kTwoVeses);
  Host* h2 = AddHost("h2", kTwoVeses);
  ASSERT_TRUE(AllJoined());
  h1->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  h1->port("v2")->Inject(MakeFrame(MacAddr::Broadcast(), kC));
  EXPECT_TRUE(Arrives(h2->port("v1"), MakeFrame(MacAddr::Broadcast(), kA)));
  EXPECT_TRUE(Arrives(h2->port("v2"), MakeFrame(MacAddr::Broadcast(), kC)));
  EXPECT_THAT(h2->Command("fdb/show", {"red"}), testing::Not(HasSubstr(kA.ToString())));
}

TEST_F(AgentTest, AnAgentThatComesBackIsFoundAgain) {
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
  h1->port("v1")->Inject(MakeFrame(kB, kA));
  EXPECT_TRUE(Arrives(h2->port("v1"), MakeFrame(kB, kA)));
}

// Where the subnet itself was restarted, others join again a little later than an agent that comes with it.
TEST_F(AgentTest, WhoJoinsAMomentLaterHearsTheAnnouncementAsWell) {
  Host* h1 = AddHost("h1", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(Until([h1] { return h1->Stat("transmitted") == 1; })) << "the first is out, and nobody was there to hear it";
  Host* h2 = AddHost("h2", kOneVes);
  const std::string mac = h1->port("v1")->mac().ToString();
  EXPECT_TRUE(Until([&] { return absl::StrContains(h2->Command("fdb/show"), mac); }));
}

TEST_F(AgentTest, ALinkThatGoesDownAndComesBackIsJoinedAgain) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(subnet_.SetLink("h1", false).ok());
  EXPECT_TRUE(Until([h1] { return !h1->Joined(); }));
  ASSERT_TRUE(subnet_.SetLink("h1", true).ok());
  ASSERT_TRUE(AllJoined());
  h2->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  EXPECT_TRUE(Arrives(h1->port("v1"), MakeFrame(MacAddr::Broadcast(), kB)));
}

TEST_F(AgentTest, NewPeersAreResolvedWithTheSmGone) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  subnet_.SetSmAbsent(true);
  h1->port("v1")->Inject(MakeFrame(kB, kA));
  ASSERT_TRUE(Arrives(h2->port("v1"), MakeFrame(kB, kA)));
  h2->port("v1")->Inject(MakeFrame(kA, kB));
  EXPECT_TRUE(Arrives(h1->port("v1"), MakeFrame(kA, kB)));
}

// The flood group is the VES's constitution: who comes later takes its MTU and Q_Key, whatever he would have asked for.
TEST_F(AgentTest, AGroupThatExistsIsTakenAsItIs) {
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
          mcm::kMgid | mcm::kPortGid | mcm::kJoinState | mcm::kPKey | mcm::kQKey | mcm::kTrafficClass | mcm::kSl |
              mcm::kFlowLabel | mcm::kHopLimit | mcm::kScope | mcm::kMtu | mcm::kMtuSelector,
          [&made](absl::StatusOr<McMemberRecord> answer) { made = answer.ok(); });
  ASSERT_TRUE(Until([&] {
    sa.Run();
    return made;
  }));

  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  EXPECT_THAT(h1->Command("show"), testing::AllOf(HasSubstr("Q_Key 0x80001234"), HasSubstr("MTU 2044")));
  EXPECT_EQ(h1->mtu("v1"), 2026);
  Bytes largest = MakeFrame(kB, kA);
  largest.resize(2044, 0x55);
  h1->port("v1")->Inject(largest);
  EXPECT_TRUE(Arrives(h2->port("v1"), largest));
  largest.push_back(0x55);
  h1->port("v1")->Inject(largest);
  EXPECT_TRUE(Until([h1] { return absl::StrContains(h1->Command("drops"), "too_large"); }));
}

TEST_F(AgentTest, AnAgentThatStopsLeavesItsGroups) {
  Host* h1 = AddHost("h1", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_EQ(subnet_.Groups().size(), 1u);
  bool stopped = false;
  h1->agent()->Stop([&stopped] { stopped = true; });
  EXPECT_TRUE(Until([&] { return stopped; }));
  EXPECT_EQ(subnet_.Groups().size(), 0u);
}

// ---- The three depths of a refresh.

// As after a restart of the subnet manager. What is in use stays in use.
TEST_F(AgentTest, AReregistrationTakesNothingAway) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  const std::string qpn = h1->Qpn();
  const uint64_t mads = subnet_.Ports()[0].mads;
  h1->soft_port()->OnSubnetLost();
  h1->soft_port()->OnPortConfig(h1->soft_port()->config());
  h2->port("v1")->TakeTransmitted();
  EXPECT_TRUE(Until([&] { return subnet_.Ports()[0].mads > mads + 5; })) << "joined, subscribed and asked for the path again";
  EXPECT_EQ(h1->losses_of_carrier("v1"), 0);
  EXPECT_EQ(h1->Qpn(), qpn);
  EXPECT_TRUE(h2->port("v1")->TakeTransmitted().empty()) << "nothing is announced";
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  EXPECT_EQ(h2->Stat("readdressed_peers"), 0u);
}

TEST_F(AgentTest, AnotherLidIsFollowedWithTheSameQueuePair) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  const std::string qpn = h2->Qpn();
  ASSERT_TRUE(subnet_.SetLid("h2", Lid(77)).ok());
  // What is sent to the old LID is lost, but h1 need not wait for h2's station to speak: its agent announces it.
  EXPECT_TRUE(Until([&] {
    h1->port("v1")->Inject(MakeFrame(kB, kA));
    const auto arrived = h2->port("v1")->TakeTransmitted();
    return std::any_of(arrived.begin(), arrived.end(), [](const auto& sent) { return sent.bytes == MakeFrame(kB, kA); });
  }));
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  EXPECT_EQ(h2->Qpn(), qpn);
  EXPECT_EQ(h2->losses_of_carrier("v1"), 0);
  EXPECT_EQ(h1->Stat("readdressed_peers"), 0u);
}

// The index is another partition's by then: what is sent with the former queue pair would get there.
TEST_F(AgentTest, AWithdrawnPKeyTakesItsVesDownAndBackAtAnotherIndexUpAgain) {
  Host* h1 = AddHost("h1", kTwoVeses);
  Host* h2 = AddHost("h2", kTwoVeses);
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  ExpectTalk(h1->port("v2"), h2->port("v2"));
  const std::string red = h1->Qpn("red"), blue = h1->Qpn("blue");
  ASSERT_TRUE(subnet_.RemoveFromPartition(PKey(0x8001), "h1").ok());
  ASSERT_TRUE(Until([&] { return !h1->carrier("v1"); }));
  EXPECT_THAT(h1->Command("show"), testing::AllOf(HasSubstr("QPN none"), HasSubstr("find P_Key 0x8001 on port soft:h1")));
  ExpectTalk(h1->port("v2"), h2->port("v2"));
  EXPECT_EQ(h1->Qpn("red"), red);
  EXPECT_EQ(h1->losses_of_carrier("v2"), 0);
  // What its own hosts send meanwhile is counted.
  h1->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  h1->port("v1")->Inject(MakeFrame(kB, kA));
  EXPECT_TRUE(Until([&] { return absl::StrContains(h1->Command("drops", {"blue"}), "fabric_down"); }));

  ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8005), "h1", softhca::Membership::kFull).ok());
  ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8001), "h1", softhca::Membership::kFull).ok());
  ASSERT_TRUE(Until([&] { return h1->carrier("v1"); }));
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  EXPECT_NE(h1->Qpn("blue"), blue);
  EXPECT_EQ(h1->Qpn("red"), red);
  EXPECT_EQ(h2->Stat("readdressed_peers"), 1u) << "as after a restart, all that is behind it is found in one step";
}

TEST_F(AgentTest, AMembershipThatBecomesLimitedAndFullAgainIsFollowed) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  Host* h3 = AddHost("h3", kOneVes);
  ASSERT_TRUE(AllJoined());
  for (const char* name : {"h1", "h2"}) {
    ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8001), name, softhca::Membership::kLimited).ok());
  }
  const auto limited = [](Host* host) { return absl::StrContains(host->Command("show"), "0x0001 (limited member)"); };
  ASSERT_TRUE(Until([&] { return limited(h1) && limited(h2); }));
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h3->port("v1"));
  h2->port("v1")->TakeTransmitted();
  h1->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kC));
  ASSERT_TRUE(Arrives(h3->port("v1"), MakeFrame(MacAddr::Broadcast(), kC)));
  for (const auto& sent : h2->port("v1")->TakeTransmitted()) {
    EXPECT_NE(sent.bytes, MakeFrame(MacAddr::Broadcast(), kC)) << "limited members are isolated from each other";
  }
  for (const char* name : {"h1", "h2"}) {
    ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8001), name, softhca::Membership::kFull).ok());
  }
  ASSERT_TRUE(Until([&] { return !limited(h1) && !limited(h2); }));
  ASSERT_TRUE(AllJoined());
  h1->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kC));
  EXPECT_TRUE(Arrives(h2->port("v1"), MakeFrame(MacAddr::Broadcast(), kC)));
}

// As a subnet does that was restarted and gives out other numbers.
TEST_F(AgentTest, ALostQueuePairIsMadeAnewInPlace) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  const std::string qpn = h1->Qpn();
  softhca::PortConfig config = h1->soft_port()->config();
  config.qpns.first = Qpn(config.qpns.first.value() + 100);
  config.qpns.count -= 100;
  h1->soft_port()->OnPortConfig(config);
  ASSERT_TRUE(Until([&] { return h1->Qpn() != qpn; }));
  ASSERT_TRUE(AllJoined());
  EXPECT_EQ(h1->losses_of_carrier("v1"), 0);
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  h2->port("v1")->Inject(MakeFrame(kA, kC));
  EXPECT_TRUE(Arrives(h1->port("v1"), MakeFrame(kA, kC)));
}

TEST_F(AgentTest, AnotherGidIsAnotherIdentity) {
  Host* h1 = AddHost("h1", kOneVes);
  ASSERT_TRUE(AllJoined());
  const std::string qpn = h1->Qpn();
  const softhca::PortConfig before = h1->soft_port()->config();
  softhca::PortConfig config = before;
  config.gid = Gid::FromPrefixAndGuid(0xfec0'0000'0000'0000, config.port_guid);
  h1->soft_port()->OnPortConfig(config);
  ASSERT_TRUE(Until([&] { return h1->Qpn() != qpn; }));
  // This subnet's SA lets nobody join under a GID that it did not give.
  ASSERT_TRUE(Until([&] { return !h1->carrier("v1"); }));
  h1->soft_port()->OnPortConfig(before);
  ASSERT_TRUE(Until([&] { return h1->carrier("v1"); }));
}

// Interfaces send all the while, so rebuilds meet frames in every state. TearDown sees that all of them are accounted for.
TEST_F(AgentTest, RebuildsUnderLoadLoseNoBufferAndNoCount) {
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
  ExpectTalk(h1->port("v1"), h2->port("v1"));
}

TEST_F(AgentTest, APKeyThatIsGoneWhenTheLinkComesBackIsNoticed) {
  Host* h1 = AddHost("h1", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(subnet_.SetLink("h1", false).ok());
  ASSERT_TRUE(subnet_.RemoveFromPartition(PKey(0x8001), "h1").ok());
  ASSERT_TRUE(subnet_.SetLink("h1", true).ok());
  ASSERT_TRUE(Until([&] { return h1->Qpn() == "none"; }));
  EXPECT_FALSE(h1->carrier("v1"));
}

TEST_F(AgentTest, WithoutASubnetManagerARefreshKeepsWhatThereIs) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  subnet_.SetSmAbsent(true);
  h1->soft_port()->OnSubnetLost();
  h1->soft_port()->OnPortConfig(h1->soft_port()->config());
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  EXPECT_EQ(h1->losses_of_carrier("v1"), 0);
  subnet_.SetSmAbsent(false);
}

// Through the SA's RMPP: fifteen records are five segments.
TEST_F(AgentTest, ManyPathsAreRefreshedAsATable) {
  Host* h1 = AddHost("h1", kOneVes);
  constexpr int kPeers = 15;
  for (int i = 2; i < 2 + kPeers; ++i) AddHost(absl::StrCat("h", i), kOneVes);
  ASSERT_TRUE(AllJoined());
  for (int i = 1; i <= kPeers; ++i) hosts_[i]->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  ASSERT_TRUE(Until([&] { return h1->Stat("new_peers") == kPeers; }));
  const auto tables = [this] { return subnet_.mad_counters().tables; };
  const auto before = tables();
  ASSERT_TRUE(subnet_.Reregister("h1").ok());
  EXPECT_TRUE(Until([&] { return tables().completed == before.completed + 1; }));
  EXPECT_EQ(tables().aborted, before.aborted);
  h1->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  EXPECT_TRUE(Arrives(hosts_[5]->port("v1"), MakeFrame(MacAddr::Broadcast(), kA)));
}

// ---- What the subnet reports.

TEST_F(AgentTest, AgentsSubscribe) {
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

// It has backed off by seconds when the full member comes.
TEST_F(AgentTest, ALimitedMemberThatWaitedJoinsAsSoonAsTheGroupIsThere) {
  ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8001), "h1", softhca::Membership::kLimited).ok());
  Host* h1 = AddHost("h1", kOneVes);
  const absl::Time start = clock_.Now();
  ASSERT_TRUE(Until([&] { return clock_.Now() > start + absl::Seconds(4); })) << "joins at 0.1, 0.3, 0.7, 1.5, 3.1 and 6.3 s";
  EXPECT_FALSE(h1->carrier("v1"));
  AddHost("h2", kOneVes);
  ASSERT_TRUE(Until([&] { return h1->carrier("v1"); }));
  EXPECT_LT(clock_.Now(), start + absl::Seconds(6));
}

// A port that is back before its time is over keeps all that is known of it; so does one that is heard.
TEST_F(AgentTest, APortThatStaysOutOfServiceTakesItsMacsAlong) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  Host* h3 = AddHost("h3", kOneVes);
  ASSERT_TRUE(AllJoined());
  h2->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  h3->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kC));
  ASSERT_TRUE(Arrives(h1->port("v1"), MakeFrame(MacAddr::Broadcast(), kB)));
  const auto knows = [h1](MacAddr mac) { return absl::StrContains(h1->Command("fdb/show"), mac.ToString()); };
  ASSERT_TRUE(Until([&] { return knows(kB) && knows(kC); }));
  auto report = [h1, tid = uint64_t{1}](SmTrap trap, Host* about) mutable {
    Mad mad;
    EncodeSaHeader({.method = MadMethod::kReport, .tid = tid++, .attribute = SaAttribute::kNotice}, &mad);
    EncodeNotice(Notice::OfGid(trap, about->soft_port()->config().gid), SaRecord(&mad));
    h1->soft_port()->OnMad(mad);
  };
  report(SmTrap::kGidOutOfService, h2);
  report(SmTrap::kGidOutOfService, h3);
  report(SmTrap::kGidInService, h2);
  EXPECT_TRUE(Until([&] { return !knows(kC); }));
  EXPECT_TRUE(knows(kB));
  const uint64_t flooded = h1->Stat("flooded_unknown");
  h1->port("v1")->Inject(MakeFrame(kC, kA));
  EXPECT_TRUE(Arrives(h3->port("v1"), MakeFrame(kC, kA)));
  EXPECT_EQ(h1->Stat("flooded_unknown"), flooded + 1) << "it is looked for";
}

TEST_F(AgentTest, APartitionThatThePortIsNotInIsAClearError) {
  TempDir directory;
  EventLoop loop(&clock_);
  auto state = StateDir::Open(directory.path()).value();
  const AgentConfig config = ParseConfig("[[ves]]\nname = \"green\"\npkey = 0x8009\n", "test").value();
  const auto agent = Agent::Create(
      config, softhca::OpenSoftHca(subnet_.Connect(), "h9").value(), state.get(),
      [](const VPortConfig&, MacAddr, int) -> absl::StatusOr<VPort> { abort(); }, &loop, &clock_);
  ASSERT_FALSE(agent.ok());
  EXPECT_THAT(std::string(agent.status().message()),
              testing::AllOf(HasSubstr("green"), HasSubstr("0x8009"), HasSubstr("0x8001")));
}

}  // namespace
}  // namespace eoib
