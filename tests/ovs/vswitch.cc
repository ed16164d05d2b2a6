#include "tests/ovs/vswitch.h"

#include <signal.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace eoib::lab {

VSwitch::VSwitch(Lab* lab, SoftFabric* fabric, Host* host, const std::string& other_config,
                 const std::vector<std::string>& environment)
    : fabric_(fabric),
      host_(host),
      directory_(lab->Path(host->name() + ".ovs")),
      environment_(environment) {
  host->MustRun({"mkdir", "-p", directory_});
  const std::string database = directory_ + "/conf.db";
  host->MustRun({"ovsdb-tool", "create", database, "/usr/share/openvswitch/vswitch.ovsschema"});
  ovsdb_ = host->Start({"ovsdb-server", database,
                        absl::StrCat("--remote=punix:", directory_, "/db.sock"), "--no-chdir",
                        absl::StrCat("--unixctl=", directory_, "/ovsdb.ctl")});
  if (!EventuallyTrue(kPatience, [&] { return TryVsctl("--no-wait init").ok(); })) {
    Die("ovsdb-server does not start: " + ovsdb_->Log());
  }
  if (!other_config.empty()) Vsctl("--no-wait set Open_vSwitch . other_config:" + other_config);
  Launch();
}

void VSwitch::Launch() {
  vswitchd_ = host_->Start(
      {Binary("eoib-vswitchd"), absl::StrCat("unix:", directory_, "/db.sock"), "--no-chdir",
       "--disable-system", absl::StrCat("--unixctl=", directory_, "/vswitchd.ctl")},
      Concatenated(
          {"OVS_RUNDIR=" + directory_, "OVS_LOGDIR=" + directory_, "OVS_DBDIR=" + directory_},
          environment_));
  if (!EventuallyTrue(kPatience, [&] { return TryAppctl({"version"}).ok(); }))
    Die("eoib-vswitchd does not start: " + Log());
}

Argv VSwitch::Words(const std::string& command) const {
  Argv words = {"ovs-vsctl", "--timeout=20", absl::StrCat("--db=unix:", directory_, "/db.sock")};
  for (absl::string_view word : absl::StrSplit(command, ' ', absl::SkipEmpty()))
    words.emplace_back(word);
  return words;
}

RunResult VSwitch::TryVsctl(const std::string& command) { return host_->Run(Words(command)); }

std::string VSwitch::Vsctl(const std::string& command) {
  const RunResult result = TryVsctl(command);
  EXPECT_TRUE(result.ok()) << command << ": " << result.ToString() << Log();
  return result.out;
}

RunResult VSwitch::TryAppctl(const Argv& command) {
  return host_->Run(Concatenated({"ovs-appctl", "-t", directory_ + "/vswitchd.ctl"}, command));
}

std::string VSwitch::Appctl(const Argv& command) {
  const RunResult result = TryAppctl(command);
  EXPECT_TRUE(result.ok()) << result.ToString();
  return result.out;
}

std::string VSwitch::Ofctl(const Argv& command) {
  Argv words = {"ovs-ofctl", command[0],
                absl::StrCat("unix:", directory_, "/", command[1], ".mgmt")};
  words.insert(words.end(), command.begin() + 2, command.end());
  return host_->MustRun(words);
}

void VSwitch::AddBridge(const std::string& bridge, int number) {
  Vsctl(absl::StrCat("add-br ", bridge, " -- set bridge ", bridge, " datapath_type=netdev"));
  if (!EventuallyTrue(kPatience, [&] { return host_->HasInterface(bridge); }))
    Die("there is no bridge: " + Log());
  host_->SetUp(bridge);
  if (number != 0) host_->AddAddress(bridge, absl::StrCat("10.0.0.", number, "/24"));
}

std::string VSwitch::PortWords(const std::string& bridge, const std::string& port,
                               const std::string& more) const {
  return absl::StrCat("add-port ", bridge, " ", port, " ", more, " -- set Interface ", port,
                      " type=eoib options:ves=red options:pkey=0x8001 options:hca=soft:",
                      host_->name(), " options:fabric=", fabric_->socket());
}

void VSwitch::AddPort(const std::string& bridge, const std::string& port, const std::string& more) {
  Vsctl(PortWords(bridge, port, more));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return Of(port, "link_state") == "up"; }))
      << Vsctl("list Interface " + port) << TryAppctl({"eoib/show"}).ToString() << Log();
}

std::string VSwitch::Of(const std::string& interface, const std::string& column) {
  std::string value = Vsctl(absl::StrCat("get Interface ", interface, " ", column));
  value.erase(value.find_last_not_of('\n') + 1);
  if (value.size() >= 2 && value.front() == '"') value = value.substr(1, value.size() - 2);
  return absl::StrReplaceAll(value, {{"\\\"", "\""}});
}

void VSwitch::Stop() {
  vswitchd_->Kill(SIGTERM);
  const auto code = vswitchd_->Wait();
  // OVS ends by the signal itself, after its clean-up.
  EXPECT_TRUE(code == 0 || code == 128 + SIGTERM)
      << "eoib-vswitchd ended with " << code.value_or(-1) << ":\n"
      << Log();
}

void VSwitch::Restart() {
  Stop();
  Launch();
}

}  // namespace eoib::lab
