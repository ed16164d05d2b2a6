// Follows "On real hardware" of deploy/README.md to the letter: its partitions.conf, its
// eoibd.toml, its unit's command and privileges lead to the first ping. Only the device and the
// ports' GUIDs are replaced by those of the virtual machine.
#include <signal.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vm/document.h"
#include "tests/vm/infiniband_test_fixture.h"

namespace eoib::lab {
namespace {

using ::testing::HasSubstr;

class DeployReadmeTest : public InfinibandTest {
 protected:
  static constexpr int kHosts = 3;

  // The next test sets its own partitions.
  ~DeployReadmeTest() override { subnet().SetPartitions({}); }

  // The rest of the line that begins with `beginning`; "" if there is none.
  static std::string LineOf(const std::string& listing, const std::string& beginning) {
    for (absl::string_view line : absl::StrSplit(listing, '\n')) {
      if (absl::StartsWith(line, beginning)) return std::string(line.substr(beginning.size()));
    }
    ADD_FAILURE() << "no line \"" << beginning << "...\" in\n" << listing;
    return "";
  }

  static std::string PartitionsConf(std::string text) {
    const char* const guids[kHosts] = {"0x0002c903000e0b72", "0x0002c903000e0b73",
                                       "0x0002c903000e0b74"};
    for (int k = 0; k < kHosts; ++k) {
      EXPECT_THAT(text, HasSubstr(guids[k]));
      text = absl::StrReplaceAll(text,
                                 {{guids[k], absl::StrFormat("0x%016x", IbSubnet::PortGuid(k))}});
    }
    return text;
  }

  // Starts the unit's command on that host's adapter, as root with only the unit's capabilities.
  std::unique_ptr<Process> StartUnit(const std::string& unit, Host* host, int adapter) {
    EXPECT_EQ(LineOf(unit, "LimitMEMLOCK="), "infinity");
    EXPECT_EQ(LineOf(unit, "CapabilityBoundingSet="), "CAP_NET_ADMIN CAP_NET_RAW");
    EXPECT_EQ(LineOf(unit, "Environment=EOIB_HCA="), "verbs:mlx5_0/1");
    EXPECT_EQ(LineOf(unit, "Environment=EOIBD_OPTIONS="), "");
    Argv argv = {"prlimit", "--memlock=unlimited:unlimited", "setpriv",
                 "--bounding-set=-all,+net_admin,+net_raw"};
    for (absl::string_view word : absl::StrSplit(LineOf(unit, "ExecStart="), ' ')) {
      if (word == "$EOIBD_OPTIONS") continue;  // none
      argv.push_back(absl::StrReplaceAll(
          word, {{"/usr/bin/eoibd", Binary("eoibd")},
                 {"${EOIB_HCA}", absl::StrCat("verbs:", IbSubnet::Device(adapter), "/1")}}));
    }
    // Separate directories for each host, because the hosts share this machine's files.
    const std::string directory = lab().Path(host->name());
    for (const char* flag : {"rundir", "statedir"})
      argv.push_back(absl::StrCat("--", flag, "=", directory, ".", flag));
    return host->Start(argv);
  }
  std::string Show(Host* host) {
    return host
        ->Run({Binary("eoibctl"), absl::StrCat("--rundir=", lab().Path(host->name()), ".rundir"),
               "show"})
        .ToString();
  }

  const Document section_{"deploy/README.md", "## On real hardware"};
};

TEST_F(DeployReadmeTest, StepsLeadToTheFirstPing) {
  subnet().SetPartitionFile(PartitionsConf(section_.ListingBelow("**1. Partitions**")));
  const std::string first_ping = section_.ListingBelow("`eoibd.toml` names the VES");
  for (const std::string command : {"mkdir", "printf"}) {
    const RunResult result = RunOnMachine({"sh", "-ec", command + LineOf(first_ping, command)});
    ASSERT_TRUE(result.ok()) << result.ToString();
  }
  const std::string unit = ReadFile("deploy/systemd/eoibd.service");
  const char* const membership[kHosts] = {"full", "full", "limited"};
  std::map<int, Host*> hosts;
  std::vector<std::unique_ptr<Process>> agents;
  // Start the limited member first, which cannot create the group.
  for (const int k : {2, 0, 1}) {
    hosts[k] = lab().AddHost(absl::StrCat("h", k + 1));
    agents.push_back(StartUnit(unit, hosts[k], k));
    EXPECT_TRUE(EventuallyTrue(kPatience,
                               [&] {
                                 const std::string show = Show(hosts[k]);
                                 return absl::StrContains(
                                            show, absl::StrCat(" (", membership[k], " member)")) &&
                                        absl::StrContains(show, ": joined, ") &&
                                        absl::StrContains(show, "Q_Key 0x80008001, MTU 4096");
                               }))
        << Show(hosts[k]) << agents.back()->Log();
    hosts[k]->MustRun({"sh", "-ec",
                       absl::StrReplaceAll("ip" + LineOf(first_ping, "ip"),
                                           {{"10.1.0.1", absl::StrCat("10.1.0.", k + 1)}})});
  }
  for (int from : {0, 2}) ExpectPing(hosts[from], LineOf(first_ping, "ping "));
  ExpectPing(hosts[1], "10.1.0.3");
  for (const std::unique_ptr<Process>& agent : agents) agent->Kill(SIGTERM);
  for (const std::unique_ptr<Process>& agent : agents)
    EXPECT_EQ(agent->Wait().value_or(-1), 0) << agent->Log();
}

}  // namespace
}  // namespace eoib::lab
