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
#include "vswitch/fabric/softhca/subnet.h"
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
    agent_ = Agent::Create(
                 config, softhca::OpenSoftHca(subnet->Connect(), name).value(), state_.get(),
                 [this](const VPortConfig& vport, MacAddr mac, int mtu) { return MakePort(vport, mac, mtu); }, &loop_, clock)
                 .value();
    agent_->RegisterCommands(&commands_);
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
    vport.set_link = [](bool) { return absl::OkStatus(); };
    return vport;
  }

  TempDir directory_;
  EventLoop loop_;
  std::unique_ptr<StateDir> state_;
  std::map<std::string, TestPort*> ports_;
  std::map<std::string, int> mtus_;
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
  const std::string two = absl::StrCat(
      kOneVes, "[[ves]]\nname = \"red\"\npkey = 0x8002\n[[vport]]\nname = \"v2\"\nves = \"red\"\ntype = \"test\"\n");
  Host* h1 = AddHost("h1", two);
  Host* h2 = AddHost("h2", two);
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

// A queue pair is made for an index of the P_Key table and a membership: an agent that has lost either has to be made anew.
TEST_F(AgentTest, AChangeOfMembershipIsToldAsFatal) {
  Host* h1 = AddHost("h1", kOneVes);
  std::string why;
  h1->agent()->OnFatal([&why](const std::string& reason) { why = reason; });
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(subnet_.RemoveFromPartition(PKey(0x8001), "ALL").ok());
  ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8001), "h1", softhca::Membership::kLimited).ok());
  EXPECT_TRUE(Until([&why] { return !why.empty(); }));
  EXPECT_THAT(why, HasSubstr("P_Key is 0x0001"));
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
