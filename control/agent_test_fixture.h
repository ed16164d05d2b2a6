// The fixture for tests of whole agents: several agents in one process, on an in-process software
// subnet. Workers are threads; the test runs the control loops.
#ifndef EOIB_CONTROL_AGENT_TEST_FIXTURE_H_
#define EOIB_CONTROL_AGENT_TEST_FIXTURE_H_

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "control/agent.h"
#include "control/faulty_hca_for_test.h"
#include "control/operator/agent_commands.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/eventually_for_test.h"
#include "vswitch/base/temp_dir_for_test.h"
#include "vswitch/fabric/softhca/soft_hca.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"
#include "vswitch/port/locked_port.h"
#include "vswitch/port/port_for_test.h"
#include "vswitch/wire/frame_for_test.h"
#include "vswitch/wire/ib/sa_mad.h"
#include "vswitch/wire/mgid.h"

namespace eoib {

inline constexpr char kPartitions[] =
    "[[partition]]\npkey = 0x8001\nfull = [\"ALL\"]\n"
    "[[partition]]\npkey = 0x8002\nfull = [\"ALL\"]\n";

inline constexpr char kTwoVeses[] =
    "[[ves]]\nname = \"blue\"\npkey = 0x8001\n[[vport]]\nname = \"v1\"\nves = \"blue\"\ntype = "
    "\"test\"\n"
    "[[ves]]\nname = \"red\"\npkey = 0x8002\n[[vport]]\nname = \"v2\"\nves = \"red\"\ntype = "
    "\"test\"\n";
inline constexpr char kOneVes[] =
    "[[ves]]\nname = \"blue\"\npkey = 0x8001\n[[vport]]\nname = \"v1\"\nves = \"blue\"\ntype = "
    "\"test\"\n";

// An agent that is learned from its traffic only.
inline constexpr char kDataOnly[] =
    "[[ves]]\nname = \"blue\"\npkey = 0x8001\nannounce = false\n"
    "[[vport]]\nname = \"v1\"\nves = \"blue\"\ntype = \"test\"\n";

// One agent with its ports.
class Host {
 public:
  // Calls `prepare` before the agent gets the HCA. `state` is its state directory.
  Host(softhca::Subnet* subnet, const std::string& name, const std::string& toml,
       const Clock* clock, const std::string& state, const std::function<void(FaultyHca*)>& prepare)
      : loop_(clock), state_(StateDir::Open(state).value()) {
    const AgentConfig config = ParseConfig(toml, "test").value();
    announces_ = config.veses[0].announce;
    std::unique_ptr<Hca> soft = softhca::OpenSoftHca(subnet->Connect(), name).value();
    soft_port_ = softhca::SoftPortOf(*soft);
    auto hca = std::make_unique<FaultyHca>(std::move(soft));
    hca_ = hca.get();
    prepare(hca_);
    agent_ = Agent::Create(
                 config, std::move(hca), state_.get(),
                 [this](const VPortConfig& vport, MacAddr mac, int mtu, const Ves&, FabricPort*) {
                   return MakePort(vport, mac, mtu);
                 },
                 &loop_, clock)
                 .value();
    RegisterAgentCommands(agent_.get(), &commands_);
    agent_->OnFatal([this](const std::string& why) {
      if (!may_be_lost) ADD_FAILURE() << "the agent asks for a restart: " << why;
      lost.push_back(why);
    });
    agent_->RestoreSavedMacs();
    agent_->Start();
  }

  void Pump() { loop_.RunOnce(absl::InfinitePast()); }
  TestPort* port(const std::string& name) { return ports_.at(name); }
  int mtu(const std::string& name) { return mtus_.at(name); }
  std::string Command(const std::string& name, const CommandRegistry::Arguments& arguments = {}) {
    const absl::StatusOr<std::string> answer = commands_.Run(name, arguments);
    return answer.ok() ? *answer : absl::StrCat("error: ", answer.status().message());
  }
  // Whether it has joined its groups and the last refresh is complete. A refresh requests the
  // subscriptions last, and answers come in order.
  bool Joined() {
    const std::string show = Command("show");
    return !absl::StrContains(show, "not joined") &&
           absl::StrContains(show, "notices of the subnet: subscribed");
  }
  bool announces() const { return announces_; }
  // All parts of `fdb show`.
  std::string ShowFdb() {
    std::string all;
    CommandRegistry::Arguments next;
    do {
      const std::string part = Command("fdb/show", next);
      const size_t more = part.find("more: fdb show ");
      all += part.substr(0, more);
      next.clear();
      if (more != part.npos)
        next = absl::StrSplit(
            absl::StripSuffix(part.substr(more + sizeof("more: fdb show ") - 1), "\n"), ' ');
    } while (!next.empty());
    return all;
  }
  // "learned", "announced"; empty: unknown.
  std::string OriginOf(MacAddr mac) {
    for (absl::string_view line : absl::StrSplit(ShowFdb(), '\n')) {
      if (!absl::StrContains(line, mac.ToString())) continue;
      for (const char* origin : {"learned", "announced", "static", "sticky", "frozen"}) {
        if (absl::StrContains(line, origin)) return origin;
      }
    }
    return "";
  }
  bool Knows(MacAddr mac) { return absl::StrContains(ShowFdb(), mac.ToString()); }
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
  // Changes the agent's configuration.
  absl::Status Apply(const std::string& toml) {
    return agent_->Apply(ParseConfig(toml, "test").value());
  }
  // Which interfaces cannot be made, and what was removed.
  std::function<bool(const VPortConfig& config)> is_broken = [](const VPortConfig&) {
    return false;
  };
  std::vector<std::string> removed_interfaces;
  softhca::SoftPort* soft_port() { return soft_port_; }
  FaultyHca* hca() { return hca_; }
  // The reasons for which the agent asked to be restarted.
  std::vector<std::string> lost;
  bool may_be_lost = false;
  // How often a carrier was set, changed or not; and whether setting it succeeds.
  int times_carrier_set = 0;
  bool may_set_carrier = true;
  bool carrier(const std::string& name) { return carriers_[name]; }
  int losses_of_carrier(const std::string& name) { return losses_[name]; }
  // The QPN of a VES: "0x48", or "none".
  std::string Qpn(const std::string& ves = "blue") {
    const std::string show = Command("show");
    const std::string key = "QPN ";
    const size_t at = show.find(key, show.find("VES " + ves + ":")) + key.size();
    return show.substr(at, show.find(',', at) - at);
  }

 private:
  absl::StatusOr<VPort> MakePort(const VPortConfig& config, MacAddr mac, int mtu) {
    if (is_broken(config)) return absl::InternalError("make " + config.name + ": broken");
    VPort vport;
    vport.config = config;
    vport.is_new = true;
    auto port = std::make_unique<TestPort>(config.name, mac);
    ports_[config.name] = port.get();
    mtus_[config.name] = mtu;
    auto locked = std::make_unique<LockedPort>(std::move(port));
    vport.interface = std::make_shared<TestInterface>(this, config.name, locked.get());
    vport.port = std::move(locked);
    return vport;
  }

  // Notes what the agent does with it.
  class TestInterface final : public VPortInterface {
   public:
    TestInterface(Host* host, std::string name, LockedPort* first)
        : host_(host), name_(std::move(name)), first_(first) {}

    std::unique_ptr<Port> MakeQueue() override { return first_->MakeQueue(); }
    absl::Status SetMtu(int mtu) override {
      host_->mtus_[name_] = mtu;
      return absl::OkStatus();
    }
    absl::Status SetLink(bool up) override {
      ++host_->times_carrier_set;
      if (!host_->may_set_carrier) return absl::InternalError("set the carrier of " + name_);
      host_->losses_[name_] += host_->carriers_[name_] && !up;
      host_->carriers_[name_] = up;
      return absl::OkStatus();
    }
    absl::Status Remove() override {
      host_->removed_interfaces.push_back(name_);
      return absl::OkStatus();
    }

   private:
    Host* const host_;
    const std::string name_;
    LockedPort* const first_;
  };

  EventLoop loop_;
  bool announces_ = true;
  std::unique_ptr<StateDir> state_;
  std::map<std::string, TestPort*> ports_;
  std::map<std::string, int> mtus_;
  std::map<std::string, bool> carriers_;
  std::map<std::string, int> losses_;
  softhca::SoftPort* soft_port_ = nullptr;
  FaultyHca* hca_ = nullptr;
  CommandRegistry commands_;
  std::unique_ptr<Agent> agent_;
};

// `HostClock` is the agents' clock: the machine's, or one that only the test moves. The subnet uses
// the machine's.
template <typename HostClock>
class AgentTestOf : public testing::Test {
 protected:
  explicit AgentTestOf(softhca::Subnet::Options options = Options())
      : subnet_(std::move(options)) {}

  // This is real time: other programs may have the processors.
  static constexpr absl::Duration kPatience = absl::Minutes(1);

  static softhca::Subnet::Options Options() {
    softhca::Subnet::Options options;
    options.config = softhca::ParseSubnetConfig(kPartitions, "test").value();
    return options;
  }

  Host* AddHost(
      const std::string& name, const std::string& toml,
      const std::function<void(FaultyHca*)>& prepare = [](FaultyHca*) {}) {
    hosts_.push_back(
        std::make_unique<Host>(&subnet_, name, toml, &clock_, state_.path() + "/" + name, prepare));
    return hosts_.back().get();
  }
  // Destroys the agent, as if its process were killed.
  void KillHost(Host* host) {
    hosts_.erase(std::find_if(hosts_.begin(), hosts_.end(),
                              [host](const auto& each) { return each.get() == host; }));
  }

  // Runs one round of each control loop.
  void PumpAll() {
    for (auto& host : hosts_) host->Pump();
  }
  // Moves the clock in steps shorter than the agents' timeouts. Each step has a round for requests
  // and one for answers.
  void Pass(absl::Duration time) {
    const absl::Time end = clock_.Now() + time;
    while (clock_.Now() < end) {
      clock_.Advance(std::min(absl::Milliseconds(100), end - clock_.Now()));
      PumpAll();
      PumpAll();
    }
  }
  // Moves the clock until `done`, slowly, so that the workers keep up; false after kPatience.
  bool PassUntil(const std::function<bool()>& done) {
    const absl::Time deadline = watch_.Now() + kPatience;
    while (watch_.Now() < deadline) {
      const absl::Time step = watch_.Now() + absl::Milliseconds(2);
      if (Until([&] { return done() || watch_.Now() >= step; }) && done()) return true;
      Pass(absl::Milliseconds(100));
    }
    return false;
  }
  // Runs all control loops until `done`.
  bool Until(const std::function<bool()>& done) {
    return Eventually([&] {
      if (done()) return true;
      PumpAll();
      return false;
    });
  }
  bool AllJoined() {
    return Until([this] {
      return std::all_of(hosts_.begin(), hosts_.end(), [](auto& host) { return host->Joined(); });
    });
  }
  // Waits until the frame arrives at `port`; ignores other frames.
  bool Arrives(TestPort* port, const Bytes& frame) {
    return Until([&] {
      for (const auto& sent : port->TakeTransmitted()) {
        if (sent.bytes == frame) return true;
      }
      return false;
    });
  }
  // Sends the frame again if it does not arrive within 100 ms; most often no copy is under way on
  // return.
  bool ArrivesAfterTries(TestPort* from, TestPort* port, const Bytes& frame) {
    for (int tries = 0; tries < 100; ++tries) {
      from->Inject(frame);
      const absl::Time next = watch_.Now() + absl::Milliseconds(100);
      bool arrived = false;
      Until([&] {
        for (const auto& sent : port->TakeTransmitted()) arrived |= sent.bytes == frame;
        return arrived || watch_.Now() >= next;
      });
      if (arrived) return true;
    }
    return false;
  }
  // Sends the frame repeatedly until it arrives, because the path may not be ready yet.
  bool ArrivesInTheEnd(TestPort* from, TestPort* port, const Bytes& frame) {
    return Until([&] {
      from->Inject(frame);
      const auto arrived = port->TakeTransmitted();
      return std::any_of(arrived.begin(), arrived.end(),
                         [&frame](const auto& sent) { return sent.bytes == frame; });
    });
  }

  // Waits until `host` knows that `mac` is behind the present queue pair of `other`.
  bool Follows(Host* host, MacAddr mac, Host* other) {
    return Until([&] {
      const std::string show = host->ShowFdb();
      const size_t at = show.find(mac.ToString());
      return at != show.npos &&
             absl::StrContains(show.substr(at, show.find('\n', at) - at), "QPN " + other->Qpn());
    });
  }
  // Expects frames in both directions: to an unknown MAC, and back to a known one. Repeats the
  // latter: if `one` has a new queue pair, the other agent follows when that is announced.
  void ExpectTalk(TestPort* one, TestPort* other) {
    one->Inject(MakeFrame(kB, kA));
    EXPECT_TRUE(Arrives(other, MakeFrame(kB, kA)));
    EXPECT_TRUE(ArrivesAfterTries(other, one, MakeFrame(kA, kB)));
  }

  // Another program on the same port leaves the group; the agent does not know.
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

  void TearDown() override {
    EXPECT_TRUE(Until([this] {
      return std::all_of(hosts_.begin(), hosts_.end(),
                         [](auto& host) { return host->Conserved(); });
    })) << "frames are not conserved: "
        << (hosts_.empty() ? "" : hosts_[0]->Command("stats"));
    if (!HasFailure()) return;
    for (auto& host : hosts_)
      ADD_FAILURE() << host->Command("show") << host->Command("drops") << host->Command("hca");
  }

  HostClock clock_;
  const MonotonicClock watch_;
  TempDir state_;  // has a directory for each name, so a host of the same name is the same agent
  softhca::Subnet subnet_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_AGENT_TEST_FIXTURE_H_
