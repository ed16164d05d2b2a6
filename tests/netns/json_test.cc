// `eoibctl -j`: every command of every program answers in JSON as control/operator/schema describes
// it. A command without a schema, or without an example here, fails the test.
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
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

const Examples& CommonExamples() {
  static const Examples examples = {
      {{"list-commands"}}, {{"help"}}, {{"help", "log"}}, {{"log/set", "info"}}};
  return examples;
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

  // Runs the examples. All commands that the program lists must be among them and in the schema,
  // and the reverse.
  void ExpectAnswersFit(Host* host, const std::string& ctl_path,
                        const std::vector<std::string>& schemas, Examples examples) {
    const AnswerSchema schema(schemas);
    examples.insert(examples.begin(), CommonExamples().begin(), CommonExamples().end());
    std::set<std::string> listed, run = {"exit"};  // `exit` ends the test, which ends the programs
    const json list = Answer(host, ctl_path, {"list-commands"});
    for (const json& command : list["commands"]) listed.insert(command["name"]);
    for (const auto& [command, refused] : examples) {
      run.insert(command[0]);
      if (refused) {
        ExpectRefusal(host, ctl_path, command);
        continue;
      }
      const json answer = Answer(host, ctl_path, command);
      EXPECT_EQ(schema.Violations(command[0], answer), "")
          << absl::StrJoin(command, " ") << ": " << answer.dump();
    }
    EXPECT_EQ(listed, schema.commands())
        << "each command has its schema in control/operator/schema";
    EXPECT_EQ(listed, run) << "each command has an example in this test";
  }
  void ExpectExitFits(Host* host, const std::string& ctl_path,
                      const std::vector<std::string>& schemas) {
    const json answer = Answer(host, ctl_path, {"exit", "--yes"});
    EXPECT_EQ(AnswerSchema(schemas).Violations("exit", answer), "") << answer.dump();
  }
};

TEST_F(SoftJsonTest, Agent) {
  const std::vector<std::string> kSchemas = {"daemon", "port",  "config", "agent",
                                             "fdb",    "peers", "eoibd"};
  auto hosts = AddNumberedAgents(2);
  ExpectPing(hosts[0]->host(), Address(2));
  ExpectAnswersFit(hosts[0]->host(), hosts[0]->ctl_path(), kSchemas,
                   {{{"capture/start", lab().Path("x.erf")}},
                    {{"show"}},
                    {{"capture/stop"}},
                    {{"hca"}},
                    {{"ves/list"}},
                    {{"ves/show"}},
                    {{"ves/show", "red"}},
                    {{"groups"}},
                    {{"stats"}},
                    {{"drops"}},
                    {{"neigh"}},
                    {{"peers"}},
                    {{"vport/list"}},
                    {{"vport/show"}},
                    {{"vport/show", "v1", "-s"}},
                    {{"fdb/add", "red", "0", "02:00:00:00:00:42", "v1"}},
                    {{"fdb/show"}},
                    {{"fdb/get", "red", "0", "02:00:00:00:00:42"}},
                    {{"trace", "v1", "02:00:00:00:00:41", "02:00:00:00:00:43"}},
                    {{"fdb/del", "02:00:00:00:00:42"}},
                    {{"fdb/thaw", "red", "0", "02:00:00:00:00:42"}, kRefused},
                    {{"fdb/stats"}},
                    {{"fdb/frozen"}},
                    {{"fdb/flush", "red"}},
                    {{"fdb/monitor", "red", "0"}},
                    {{"ves/add", "blue", "pkey=0x8002"}},
                    {{"ves/set", "blue", "ageing=60"}},
                    {{"vport/add", "v9", "ves=blue", "type=test"}},
                    {{"vport/set", "v9", "access_vlan=10"}},
                    {{"config/show"}},
                    {{"config/keys", "vport"}},
                    {{"config/diff"}},
                    {{"vport/del", "v9"}},
                    {{"ves/del", "blue"}},
                    {{"config/save"}},
                    {{"reload"}}});
  ExpectExitFits(hosts[1]->host(), hosts[1]->ctl_path(), kSchemas);
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
  ExpectAnswersFit(gateway.host(), gateway.ctl_path(),
                   {"daemon", "port", "config", "agent", "fdb", "peers", "link", "eoib-gateway"},
                   {{{"show"}},
                    {{"hca"}},
                    {{"capture/start", lab().Path("gw.erf")}},
                    {{"capture/stop"}},
                    {{"ves/list"}},
                    {{"ves/show"}},
                    {{"groups"}},
                    {{"stats"}},
                    {{"drops"}},
                    {{"neigh"}},
                    {{"peers"}},
                    {{"vport/list"}},
                    {{"vport/show"}},
                    {{"fdb/add", "02:00:00:00:00:42", "dev", "gw0"}},
                    {{"fdb/show"}},
                    {{"fdb/get", "02:00:00:00:00:42", "dev", "gw0"}},
                    {{"trace", "gw0", "02:00:00:00:00:41", "01:80:c2:00:00:01"}},
                    {{"fdb/del", "02:00:00:00:00:42", "dev", "gw0"}},
                    {{"fdb/thaw", "02:00:00:00:00:42"}, kRefused},
                    {{"fdb/stats"}},
                    {{"fdb/frozen"}},
                    {{"fdb/flush", "red"}},
                    {{"fdb/monitor", "red", "0"}},
                    {{"ves/add", "blue", "pkey=0x8003"}},
                    {{"ves/set", "blue", "ageing=60"}},
                    {{"ves/del", "blue"}},
                    {{"config/show"}},
                    {{"config/keys", "gateway"}},
                    {{"config/diff"}},
                    {{"config/save"}},
                    {{"reload"}},
                    {{"gateway/add", "gw1", "ves=red", "vlan=9", "pkey=0x8001"}},
                    {{"gateway/set", "gw1", "priority=42"}},
                    {{"gateway/del", "gw1"}},
                    {{"gateway/show"}},
                    {{"gateway/neigh/show"}},
                    {{"gateway/route/show"}},
                    {{"gateway/route/flush", "gw0"}},
                    {{"gateway/groups"}},
                    {{"gateway/stats"}},
                    {{"gateway/drops"}},
                    {{"uplink/add", "up1", "ves=red", "netdev=e9", "vlans=[20]"}},
                    {{"uplink/set", "up1", "priority=42"}},
                    {{"uplink/del", "up1"}},
                    {{"uplink/show"}},
                    {{"uplink/stats", "up0"}},
                    {{"gateway/trace", "gw0", "ethernet",
                      "ffffffffffff020000000042080600010800060400010200000000420a000001000000000000"
                      "0a00000b"}}});
  ExpectAnswersFit(ipoib.host(), ipoib.ctl_path(), {"daemon", "port", "link", "eoib-ipoib"},
                   {{{"show"}},
                    {{"neigh"}},
                    {{"groups"}},
                    {{"stats"}},
                    {{"drops"}},
                    {{"hca"}},
                    {{"capture/start", lab().Path("s1.erf")}},
                    {{"capture/stop"}},
                    {{"link/show"}},
                    {{"link/groups"}},
                    {{"link/stats"}},
                    {{"link/drops"}}});
  for (Daemon* daemon : std::initializer_list<Daemon*>{&gateway, &ipoib})
    EXPECT_EQ(daemon->Stop(), 0) << daemon->Log();
}

TEST_F(SoftJsonTest, Fabricd) {
  AddNumberedAgents(2);
  ExpectPing(host(1), Address(2));
  ExpectAnswersFit(soft_fabric().host(), soft_fabric().directory() + "/fabricd.ctl",
                   {"daemon", "eoib-fabricd"},
                   {{{"fault", "h1", "h2", "delay", "1ms"}},
                    {{"fault/show"}},
                    {{"show"}},
                    {{"fault/clear"}},
                    {{"groups"}},
                    {{"subscriptions"}},
                    {{"services"}},
                    {{"rings"}},
                    {{"counters"}},
                    {{"counters", "h1"}},
                    {{"link", "h1", "up"}},
                    {{"lid", "h1", "0x50"}},
                    {{"partition/add", "0x8005", "h1"}},
                    {{"partition/remove", "0x8005", "h1"}},
                    {{"reregister", "ALL"}},
                    {{"sm", "on"}},
                    {{"sm/restart"}},
                    {{"sm/move", "0x60"}},
                    {{"config/diff"}},
                    {{"config/save"}},
                    {{"config/show"}},
                    {{"reload"}}});
}

}  // namespace
}  // namespace eoib::lab
