// `eoibctl -j`: every command of every program answers in JSON as the schema that it names
// describes it (control/operator/schema). A command that needs arguments has an example here, too.
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "tests/lab/answer_schema.h"
#include "tests/lab/gateway.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

using nlohmann::json;

struct Example {
  Argv command;
  bool refused = false;  // it has nothing to do here, and its error is text
};
constexpr bool kRefused = true;
// In the order in which they are run.
using Examples = std::vector<Example>;

// Those of eoibd and eoib-gateway, and `more`. `vport` is in VES red.
Examples AgentExamples(const std::string& capture, const std::string& vport, const Examples& more) {
  Examples all = {{{"capture/start", capture}},
                  {{"show"}},
                  {{"capture/stop"}},
                  {{"ves/show", "red"}},
                  {{"vport/show", vport, "-s"}},
                  {{"fdb/add", "02:00:00:00:00:42", "dev", vport}},
                  {{"fdb/get", "02:00:00:00:00:42", "dev", vport}},
                  {{"fdb/find", "02:00:00:00:00:42"}},
                  {{"fdb/show", "red"}},
                  {{"trace", vport, "02:00:00:00:00:41", "02:00:00:00:00:43"}},
                  {{"fdb/del", "02:00:00:00:00:42", "dev", vport}},
                  {{"fdb/thaw", "02:00:00:00:00:42"}, kRefused},
                  {{"fdb/flush", "red"}},
                  {{"fdb/monitor", "red", "0"}},
                  {{"ves/add", "blue", "pkey=0x8003"}},
                  {{"ves/set", "blue", "ageing=60"}},
                  {{"config/diff"}},
                  {{"ves/del", "blue"}},
                  {{"config/keys", "ves"}}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

class SoftJsonTest : public SwitchTest {
 protected:
  RunResult Eoibctl(Host* host, const std::string& ctl_path, const Argv& command) {
    Argv argv = {Binary("eoibctl"), "-j", "-t", ctl_path};
    argv.insert(argv.end(), command.begin(), command.end());
    return host->Run(argv);
  }
  json Answer(Host* host, const std::string& ctl_path, const Argv& command) {
    const RunResult result = Eoibctl(host, ctl_path, command);
    EXPECT_EQ(result.exit_code, 0) << absl::StrJoin(command, " ") << ": " << result.err;
    return json::parse(result.out, nullptr, false);
  }

  void ExpectRefusal(Host* host, const std::string& ctl_path, const Argv& command) {
    const RunResult result = Eoibctl(host, ctl_path, command);
    EXPECT_EQ(result.exit_code, 2) << absl::StrJoin(command, " ");
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err, "");
  }

  void ExpectAnswerFits(Host* host, const std::string& ctl_path, const std::string& definition,
                        const Argv& command) {
    const json answer = Answer(host, ctl_path, command);
    EXPECT_EQ(schema_.Violations(definition, answer), "")
        << absl::StrJoin(command, " ") << ": " << answer.dump();
  }
  // Runs the examples, and all other commands that the program lists, without arguments.
  void ExpectAnswersFit(Host* host, const std::string& ctl_path, Examples examples) {
    std::map<std::string, std::string> definitions, rest;
    const json list = Answer(host, ctl_path, {"list-commands"});
    for (const json& command : list["commands"]) definitions[command["name"]] = command["schema"];
    rest = definitions;
    rest.erase("exit");  // ends the test, which ends the programs
    examples.push_back({{"log/set", "info"}});
    for (const auto& [command, refused] : examples) {
      rest.erase(command[0]);
      if (refused) {
        ExpectRefusal(host, ctl_path, command);
      } else {
        ExpectAnswerFits(host, ctl_path, definitions[command[0]], command);
      }
    }
    for (const auto& [name, definition] : rest)
      ExpectAnswerFits(host, ctl_path, definition, {name});
  }

  const AnswerSchema schema_;
};

TEST_F(SoftJsonTest, Agent) {
  auto hosts = AddNumberedAgents(2);
  ExpectPing(hosts[0]->host(), Address(2));
  ExpectAnswersFit(hosts[0]->host(), hosts[0]->ctl_path(),
                   AgentExamples(lab().Path("x.erf"), "v1",
                                 {{{"vport/add", "v9", "ves=red", "type=test"}},
                                  {{"vport/set", "v9", "access_vlan=10"}},
                                  {{"vport/del", "v9"}}}));
  ExpectAnswerFits(hosts[1]->host(), hosts[1]->ctl_path(), "message", {"exit", "--yes"});
  EXPECT_EQ(hosts[1]->Wait(), 0);
  hosts[1]->Start();
}

TEST_F(SoftJsonTest, GatewayAndIpoibHost) {
  StartFabric({{.pkey = 0x8001}, {.pkey = 0x8002}});
  Agent& agent = AddAgent("h1");
  Host* const gw = lab().AddHost("gw");
  gw->AddVeth("nic", lab().AddHost("core"), "e0");
  GatewayDaemon gateway(&lab(), &fabric(), gw,
                        {{.more = "prefixes = [\"10.0.0.0/24\"]\n[[uplink]]\nname = \"up0\"\nves = "
                                  "\"red\"\nnetdev = \"nic\"\n"
                                  "vlans = [10]\npeers = [\"fe80::1\"]\n"}});
  gateway.Start();
  IpoibHost ipoib(&lab(), &fabric(), lab().AddHost("s1"), {.addresses = {"10.0.0.11/24"}});
  ipoib.Start();
  agent.host()->MustIp("addr add 10.0.0.1/24 dev v1");
  ExpectPing(agent.host(), "10.0.0.11");
  ExpectAnswersFit(
      gateway.host(), gateway.ctl_path(),
      AgentExamples(
          lab().Path("gw.erf"), "gw0",
          {{{"gateway/add", "gw1", "ves=red", "vlan=9", "pkey=0x8001"}},
           {{"gateway/set", "gw1", "priority=42"}},
           {{"gateway/del", "gw1"}},
           {{"gateway/route/flush", "gw0"}},
           {{"uplink/add", "up1", "ves=red", "netdev=e9", "vlans=[20]"}},
           {{"uplink/set", "up1", "priority=42"}},
           {{"uplink/del", "up1"}},
           {{"gateway/trace", "gw0", "ethernet",
             "ffffffffffff020000000042080600010800060400010200000000420a000001000000000000"
             "0a00000b"}}}));
  ExpectAnswersFit(ipoib.host(), ipoib.ctl_path(),
                   {{{"capture/start", lab().Path("s1.erf")}}, {{"capture/stop"}}});
  for (Daemon* daemon : std::initializer_list<Daemon*>{&gateway, &ipoib})
    EXPECT_EQ(daemon->Stop(), 0) << daemon->Log();
}

TEST_F(SoftJsonTest, Fabricd) {
  AddNumberedAgents(2);
  ExpectPing(host(1), Address(2));
  ExpectAnswersFit(soft_fabric().host(), soft_fabric().directory() + "/fabricd.ctl",
                   {{{"fault", "h1", "h2", "delay", "1ms"}},
                    {{"fault/show"}},
                    {{"counters", "h1"}},
                    {{"link", "h1", "up"}},
                    {{"lid", "h1", "0x50"}},
                    {{"partition/add", "0x8005", "h1"}},
                    {{"partition/remove", "0x8005", "h1"}},
                    {{"reregister", "ALL"}},
                    {{"sm", "on"}},
                    {{"sm/move", "0x60"}},
                    {{"show"}}});
}

}  // namespace
}  // namespace eoib::lab
