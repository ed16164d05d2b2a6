// Gateways on ports of an in-process subnet, for tests. Workers are threads; the test drives the
// control side with Pump().
#ifndef EOIB_GATEWAY_GATEWAY_TEST_FIXTURE_H_
#define EOIB_GATEWAY_GATEWAY_TEST_FIXTURE_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "control/agent_test_fixture.h"
#include "control/operator/agent_commands.h"
#include "gateway/gateway_commands.h"
#include "gateway/gateways_config.h"
#include "gateway/link/link_test_fixture.h"
#include "gateway/translation/conservation_for_test.h"
#include "gateway/translation/gateway.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace eoib::gateway {

inline constexpr char kOneGateway[] =
    "[[ves]]\nname = \"blue\"\npkey = 0x8001\n"
    "[[gateway]]\nname = \"gw0\"\nves = \"blue\"\npkey = 0x8002\nprefixes = [\"10.0.0.0/24\"]\n";

class GatewayNode {
 public:
  // `prepare` is called before the agent gets the HCA.
  GatewayNode(softhca::Subnet* subnet, const std::string& name, const std::string& toml,
              const std::string& state_directory, const Clock* clock,
              const std::function<void(FaultyHca*)>& prepare)
      : loop_(clock),
        state_(StateDir::Open(state_directory).value()),
        config_(ParseGatewaysConfig(toml, "test").value()) {
    const auto make_port = [this, clock, state_directory](const VPortConfig& vport, MacAddr,
                                                          int mtu, const Ves&, FabricPort* fabric) {
      return Gateway::MakeVPort(vport, mtu, {fabric, &loop_, clock, state_directory, &gateways_});
    };
    auto hca = std::make_unique<FaultyHca>(softhca::OpenSoftHca(subnet->Connect(), name).value());
    prepare(hca.get());
    agent_ = Agent::Create(config_.agent, std::move(hca), state_.get(), make_port, &loop_, clock)
                 .value();
    RegisterAgentCommands(agent_.get(), &commands_);
    RegisterGatewayCommands(&gateways_, &commands_);
    agent_->Start();
  }

  ~GatewayNode() {
    if (!stopped_) ExpectConservation();
  }

  void Pump() { loop_.RunOnce(absl::InfinitePast()); }
  std::string Command(const std::string& name, const CommandRegistry::Arguments& arguments = {}) {
    const absl::StatusOr<std::string> answer = commands_.Run(name, arguments);
    return answer.ok() ? *answer : absl::StrCat("error: ", answer.status().message());
  }
  std::string ReadOnlyCommand(const std::string& name,
                              const CommandRegistry::Arguments& arguments = {}) {
    const absl::StatusOr<std::string> answer =
        commands_.Run(name, arguments, CommandRegistry::Access::kReadOnly);
    return answer.ok() ? *answer : absl::StrCat("error: ", answer.status().message());
  }
  bool Active() { return absl::StrContains(Command("gateway/show"), ", active"); }
  Gateway* gateway() { return gateways_.all().front(); }
  // Works while the worker runs.
  void ExpectConservation() {
    const std::string stats = Command("gateway/stats");
    EXPECT_THAT(ParseGatewayStats(stats), testing::Contains(testing::Key("gw0")));
    EXPECT_EQ(NotConserved(stats), "");
  }
  // Like the program's orderly end.
  void Stop() {
    ExpectConservation();
    stopped_ = true;
    agent_->Stop([] {});
    for (Gateway* gateway : gateways_.all()) gateway->SaveAtTheEnd();
  }

 private:
  EventLoop loop_;
  std::unique_ptr<StateDir> state_;
  const GatewaysConfig config_;
  CommandRegistry commands_;
  Gateways gateways_;
  std::unique_ptr<Agent> agent_;
  bool stopped_ = false;
};

class GatewayTest : public testing::Test {
 protected:
  GatewayTest() : subnet_(SubnetOptions()) {}

  static softhca::Subnet::Options SubnetOptions() {
    softhca::Subnet::Options options;
    options.config = softhca::ParseSubnetConfig(kPartitions, "test").value();
    return options;
  }

  GatewayNode* AddGateway(
      const std::string& name, const std::string& toml = kOneGateway, const std::string& state = "",
      const std::function<void(FaultyHca*)>& prepare = [](FaultyHca*) {}) {
    if (state.empty()) directories_.push_back(std::make_unique<TempDir>());
    gateways_.push_back(std::make_unique<GatewayNode>(
        &subnet_, name, toml, state.empty() ? directories_.back()->path() : state, &clock_,
        prepare));
    return gateways_.back().get();
  }
  Host* AddHost(const std::string& name) {
    directories_.push_back(std::make_unique<TempDir>());
    hosts_.push_back(std::make_unique<Host>(&subnet_, name, kOneVes, &clock_,
                                            directories_.back()->path(), [](FaultyHca*) {}));
    return hosts_.back().get();
  }
  ipoib::Node* AddNode(const std::string& name) {
    nodes_.push_back(std::make_unique<ipoib::Node>(&subnet_, name, &clock_,
                                                   ipoib::Link::Options{.pkey = PKey(0x8002)}));
    return nodes_.back().get();
  }
  // Turns all nodes, 10 ms of fake time a turn, until `predicate` holds.
  template <typename Predicate>
  bool Until(Predicate predicate) {
    return Eventually([&] {
      clock_.Advance(absl::Milliseconds(10));
      for (auto& gateway : gateways_) gateway->Pump();
      for (auto& host : hosts_) host->Pump();
      for (auto& node : nodes_) node->Turn();
      return predicate();
    });
  }

  FakeClock clock_;
  softhca::Subnet subnet_;
  std::vector<std::unique_ptr<TempDir>> directories_;
  std::vector<std::unique_ptr<GatewayNode>> gateways_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<ipoib::Node>> nodes_;
};

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_GATEWAY_TEST_FIXTURE_H_
