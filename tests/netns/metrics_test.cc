// Metrics: what Prometheus scrapes from each program, and the dashboard on them; and the read-only
// control socket.
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/gateway.h"
#include "tests/lab/switch_test.h"
#include "vswitch/base/drop_reason.h"

namespace eoib::lab {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kFlag[] = "--metrics=9817";

std::string Scrape(Host* host) {
  return host->MustRun({"curl", "-sS", "--fail", "http://127.0.0.1:9817/metrics"});
}

// The value of a series, as it is written there; -1 if there is none.
double Value(const std::string& scrape, const std::string& series) {
  double value = -1;
  for (absl::string_view line : absl::StrSplit(scrape, '\n')) {
    if (!absl::StartsWith(line, series + " ")) continue;
    EXPECT_TRUE(absl::SimpleAtod(line.substr(series.size() + 1), &value)) << line;
  }
  return value;
}

// promtool checks the format, and the conventions for names, types, units and help texts.
void ExpectClean(const std::string& scrape) {
  const std::string path = absl::StrCat(testing::TempDir(), "/eoib_scrape.", getpid());
  WriteFile(path, scrape);
  const RunResult result = RunOnMachine({"sh", "-c", "promtool check metrics <" + path});
  unlink(path.c_str());
  EXPECT_EQ(result.exit_code, 0) << result.ToString();
  EXPECT_EQ(result.out + result.err, "");
}

std::set<std::string> NamesIn(const std::string& text) {
  static const std::regex kName("\\beoib_[a-z0-9_]+");
  return {std::sregex_token_iterator(text.begin(), text.end(), kName),
          std::sregex_token_iterator()};
}

class SoftMetricsTest : public SwitchTest {
 protected:
  AgentSpec WithMetrics() {
    AgentSpec spec;
    spec.flags = {kFlag};
    return spec;
  }
};

TEST_F(SoftMetricsTest, CountersAreThoseOfStats) {
  Agent& one = AddAgent("h1", WithMetrics());
  Agent& two = AddAgent("h2", WithMetrics());
  one.host()->AddAddress("v1", "10.0.0.1/24");
  two.host()->AddAddress("v1", "10.0.0.2/24");
  ExpectPing(one.host(), "10.0.0.2");
  // The kernel may send a frame between a scrape and the command.
  std::string scrape;
  const auto is_equal = [&](const std::string& metric, const std::string& counter) {
    return Value(scrape, metric) == static_cast<double>(one.Stat(counter));
  };
  EXPECT_TRUE(EventuallyTrue(
      kPatience,
      [&] {
        scrape = Scrape(one.host());
        return is_equal("eoib_vport_received_total{ves=\"red\",vport=\"v1\"}", "v1.received") &&
               is_equal("eoib_vport_transmitted_bytes_total{ves=\"red\",vport=\"v1\"}",
                        "v1.transmitted_bytes") &&
               is_equal("eoib_forwarder_from_ports_total{ves=\"red\"}", "from_ports");
      }))
      << scrape << one.MustCtl({"stats"});
  ExpectClean(scrape);
  EXPECT_GE(Value(scrape, "eoib_vport_received_total{ves=\"red\",vport=\"v1\"}"), 3);
  EXPECT_EQ(Value(scrape, "eoib_fdb_entries{ves=\"red\"}"), 2);
  EXPECT_EQ(Value(scrape, "eoib_ves_joined{ves=\"red\"}"), 1);
  EXPECT_EQ(Value(scrape, "eoib_ves_agents{ves=\"red\"}"), 1);
  EXPECT_EQ(Value(scrape, "eoib_ves_agents_lost{ves=\"red\"}"), 0);
  EXPECT_EQ(Value(scrape, "eoib_hca_port_active{hca=\"soft:h1\"}"), 1);
  EXPECT_GT(Value(scrape, "eoib_ves_buffers{ves=\"red\",state=\"posted\"}"), 0);
  EXPECT_GE(Value(scrape, "eoib_hca_xmit_packets_total{hca=\"soft:h1\"}"), 3);
  EXPECT_EQ(Value(scrape, "eoib_scrape_success"), 1);
  EXPECT_THAT(scrape, HasSubstr("eoib_build_info{program=\"eoibd\",name=\"\",version=\""));
  LabelledCounters<DropReason>().ForEach([&](const char* label, uint64_t, const char*) {
    EXPECT_THAT(scrape, HasSubstr(absl::StrCat("reason=\"", label, "\"} ")));
  });
  for (Agent* agent : {&one, &two})
    EXPECT_THAT(scrape, Not(HasSubstr(agent->host()->Mac("v1")))) << "labels must be bounded";
}

TEST_F(SoftMetricsTest, NothingListensByDefault) {
  Agent& agent = AddAgent("h1");
  EXPECT_EQ(agent.host()->MustRun({"ss", "-Hltn"}), "");
}

TEST_F(SoftMetricsTest, AddressThatCannotBeUsedIsTriedAgain) {
  AgentSpec spec;
  spec.flags = {"--metrics=192.0.2.1:9817"};
  Agent& agent = AddAgent("h1", spec);
  EXPECT_THAT(agent.Log(), HasSubstr("serve metrics on 192.0.2.1:9817: Cannot assign requested "
                                     "address; trying again every second"));
  agent.host()->AddAddress("v1", "192.0.2.1/24");
  const auto scrape = [&] {
    return agent.host()->Run({"curl", "-sS", "--fail", "http://192.0.2.1:9817/metrics"});
  };
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return scrape().exit_code == 0; })) << agent.Log();
  EXPECT_EQ(Value(scrape().out, "eoib_scrape_success"), 1);
}

// The scraper of an agent that was killed finds its successor.
TEST_F(SoftMetricsTest, RestartedAgentServesAgain) {
  Agent& agent = AddAgent("h1", WithMetrics());
  Scrape(agent.host());
  agent.Kill(SIGKILL);
  agent.Wait();
  agent.Start();
  EXPECT_EQ(Value(Scrape(agent.host()), "eoib_scrape_success"), 1);
}

TEST_F(SoftMetricsTest, DashboardShowsMetricsOfAllPrograms) {
  StartFabric({{.pkey = 0x8001}, {.pkey = 0x8002}});
  Agent& agent = AddAgent("h1", WithMetrics());
  GatewayDaemon gateway(&lab(), &fabric(), lab().AddHost("gw"),
                        {{.more = "prefixes = [\"10.0.0.0/24\"]\n"}}, {kFlag});
  gateway.Start();
  IpoibHost ipoib(&lab(), &fabric(), lab().AddHost("s1"),
                  {.addresses = {"10.0.0.11/24"}, .more = {kFlag}});
  ipoib.Start();
  Host* const other = lab().AddHost("subnet");
  const std::string rundir = lab().Path("subnet");
  const auto fabricd =
      other->Start({Binary("eoib-fabricd"), "--rundir=" + rundir, "--statedir=", kFlag});
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(fabricd->Log(), "metrics on ");
  })) << fabricd->Log();

  std::set<std::string> names;
  for (Host* host : {agent.host(), gateway.host(), ipoib.host(), other}) {
    const std::string scrape = Scrape(host);
    ExpectClean(scrape);
    names.merge(NamesIn(scrape));
  }
  std::ifstream file(EOIB_DASHBOARD);
  const nlohmann::json dashboard = nlohmann::json::parse(file);
  std::set<std::string> shown;
  std::string rules = "groups:\n- name: dashboard\n  rules:\n";
  for (const nlohmann::json& panel : dashboard.at("panels")) {
    for (const nlohmann::json& target : panel.value("targets", nlohmann::json::array())) {
      const std::string query = target.at("expr");
      shown.merge(NamesIn(query));
      const std::string sample = absl::StrReplaceAll(query, {{"$__rate_interval", "5m"}});
      absl::StrAppend(&rules, "  - record: query_", shown.size(), "_", panel.at("id").get<int>(),
                      "\n    expr: ", nlohmann::json(sample).dump(), "\n");
    }
  }
  for (const nlohmann::json& variable : dashboard.at("templating").at("list"))
    shown.merge(NamesIn(variable.at("query")));
  EXPECT_GT(shown.size(), 30u);
  for (const std::string& name : shown)
    EXPECT_TRUE(names.contains(name)) << "no program has the metric " << name;
  // promtool parses the queries.
  const std::string path = lab().Path("rules.yaml");
  WriteFile(path, rules);
  const RunResult checked = RunOnMachine({"promtool", "check", "rules", "--lint=none", path});
  EXPECT_EQ(checked.exit_code, 0) << checked.ToString();
  for (Daemon* daemon : std::initializer_list<Daemon*>{&gateway, &ipoib})
    EXPECT_EQ(daemon->Stop(), 0) << daemon->Log();
}

// The agent in a mount namespace where /etc/group has a group eoib, and a user who is in that group
// only.
class SoftMonitoringTest : public SwitchTest {
 protected:
  static constexpr char kGroup[] = "4242";

  std::unique_ptr<Process> StartAgent(Host* host) {
    fabric();
    chmod(lab().Path("").c_str(), 0755);  // for the user
    const std::string directory = lab().Path(host->name());
    EXPECT_EQ(mkdir(directory.c_str(), 0755), 0);
    WriteFile(directory + "/group", absl::StrCat("root:x:0:\neoib:x:", kGroup, ":\n"));
    WriteFile(directory + "/eoibd.toml", ToToml(AgentSpec()));
    const std::string command = absl::StrCat(
        "mount --bind ", directory, "/group /etc/group && exec ", Binary("eoibd"),
        " --hca=soft:", host->name(), " --fabric=", soft_fabric().socket(), " --rundir=", directory,
        " --statedir=", directory, "/state --config=", directory, "/eoibd.toml");
    auto agent = host->Start({"unshare", "--mount", "sh", "-c", command});
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
      return absl::StrContains(agent->Log(), "forwarding on ");
    })) << agent->Log();
    return agent;
  }
  static RunResult As(const std::string& group, Host* host, const std::string& rundir,
                      const Argv& command) {
    return host->Run(Concatenated({"setpriv", "--reuid=65534", "--regid=" + group, "--clear-groups",
                                   Binary("eoibctl"), "--rundir=" + rundir},
                                  command));
  }
};

TEST_F(SoftMonitoringTest, GroupMayUseTheReadOnlySocket) {
  Host* const host = lab().AddHost("h1");
  const auto agent = StartAgent(host);
  const std::string rundir = lab().Path("h1");
  for (const Argv& command : std::initializer_list<Argv>{{"show"},
                                                         {"stats"},
                                                         {"drops"},
                                                         {"fdb", "show"},
                                                         {"peers"},
                                                         {"hca"},
                                                         {"config", "show"}}) {
    const RunResult result = As(kGroup, host, rundir, command);
    EXPECT_TRUE(result.ok()) << command[0] << result.ToString();
  }
  for (const Argv& command : std::initializer_list<Argv>{{"exit", "--yes"},
                                                         {"fdb", "flush", "red"},
                                                         {"capture", "start", "/tmp/x"},
                                                         {"reload"},
                                                         {"log", "set", "info"}}) {
    const RunResult result = As(kGroup, host, rundir, command);
    EXPECT_EQ(result.exit_code, 2) << command[0];
    EXPECT_THAT(result.err, HasSubstr("this socket is read-only; use " + rundir + "/eoibd.ctl"));
  }
  const RunResult stranger = As("65534", host, rundir, {"show"});
  EXPECT_EQ(stranger.exit_code, 1);
  EXPECT_THAT(stranger.err, HasSubstr("members of the group eoib may use the read-only socket"));
  EXPECT_TRUE(host->Run({Binary("eoibctl"), "--rundir=" + rundir, "exit"}).ok());
  EXPECT_EQ(agent->Wait(), 0);
}

}  // namespace
}  // namespace eoib::lab
