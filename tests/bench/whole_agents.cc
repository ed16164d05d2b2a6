#include "tests/bench/whole_agents.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "control/agent.h"
#include "control/config/config.h"
#include "control/operator/agent_commands.h"
#include "control/state/state_dir.h"
#include "tests/lab/process.h"
#include "vswitch/base/daemon/command_registry.h"
#include "vswitch/base/daemon/event_loop.h"
#include "vswitch/fabric/softhca/soft_hca.h"
#include "vswitch/port/port_for_test.h"

namespace eoib::bench {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(2);
constexpr char kPartition[] = "[[partition]]\npkey = 0x8001\nfull = [\"ALL\"]\n";
constexpr char kConfig[] =
    "[[ves]]\nname = \"blue\"\npkey = 0x8001\n[[vport]]\nname = \"v1\"\nves = \"blue\"\ntype = "
    "\"test\"\n";

softhca::Subnet::Options SubnetOptions() {
  softhca::Subnet::Options options;
  options.config = softhca::ParseSubnetConfig(kPartition, "bench").value();
  return options;
}

absl::StatusOr<VPort> MakePort(const VPortConfig& config, MacAddr mac, int, const Ves&,
                               FabricPort*) {
  VPort vport;
  vport.config = config;
  vport.port = std::make_unique<TestPort>(config.name, mac);
  return vport;
}

}  // namespace

class WholeAgents::WholeAgent {
 public:
  WholeAgent(softhca::Subnet* subnet, const std::string& port, const std::string& state,
             const Clock* clock)
      : loop_(clock), state_(StateDir::Open(state).value()) {
    agent_ = Agent::Create(ParseConfig(kConfig, "bench").value(),
                           softhca::OpenSoftHca(subnet->Connect(), port).value(), state_.get(),
                           MakePort, &loop_, clock)
                 .value();
    RegisterAgentCommands(agent_.get(), &commands_);
    agent_->Start();
  }

  void Pump() { loop_.RunOnce(absl::InfinitePast()); }

  // Whether it knows `others` agents that are up, and the MAC of each.
  bool Knows(size_t others) {
    size_t up = 0, announced = 0;
    for (absl::string_view line : absl::StrSplit(Command("peers"), '\n'))
      up += absl::StrContains(line, " up ");
    if (up != others) return false;
    for (absl::string_view line : absl::StrSplit(Command("fdb/show"), '\n'))
      announced += absl::StrContains(line, "announced");
    return announced >= others;
  }
  uint64_t Stat(absl::string_view name) {
    for (absl::string_view line : absl::StrSplit(Command("stats"), '\n')) {
      const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      uint64_t value = 0;
      if (words.size() == 2 && words[0] == name && absl::SimpleAtoi(words[1], &value)) return value;
    }
    lab::Die(absl::StrCat("no counter ", name));
  }

 private:
  std::string Command(const std::string& name) { return commands_.Run(name, {}).value(); }

  EventLoop loop_;
  std::unique_ptr<StateDir> state_;
  CommandRegistry commands_;
  std::unique_ptr<Agent> agent_;
};

WholeAgents::WholeAgents() : subnet_(SubnetOptions()) {}
WholeAgents::~WholeAgents() = default;

void WholeAgents::Start(size_t number) {
  if (agents_.size() <= number) agents_.resize(number + 1);
  const std::string name = absl::StrCat("h", number);
  agents_[number] = std::make_unique<WholeAgent>(
      &subnet_, name, absl::StrCat(directory_.path(), "/", name), &clock_);
}

void WholeAgents::Kill(size_t number) { agents_[number].reset(); }

void WholeAgents::RunUntilAllKnowAll() {
  const absl::Time deadline = clock_.Now() + kPatience;
  for (size_t right = 0; right < agents_.size();) {
    if (clock_.Now() > deadline)
      lab::Die(absl::StrCat("agent h", right, " does not know all others"));
    for (auto& agent : agents_) agent->Pump();
    while (right < agents_.size() && agents_[right]->Knows(agents_.size() - 1)) ++right;
  }
}

WholeAgents::Traffic WholeAgents::traffic() const {
  Traffic sum;
  for (const auto& agent : agents_) {
    if (agent == nullptr) continue;
    sum.group_messages += agent->Stat("protocol_group_messages");
    sum.unicast_messages += agent->Stat("protocol_unicast_messages");
  }
  return sum;
}

}  // namespace eoib::bench
