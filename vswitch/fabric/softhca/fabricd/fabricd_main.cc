// eoib-fabricd: the software subnet. Ports of other processes on this machine register with it over
// RUNDIR/fabricd.sock.
//
// It has one thread, and datagrams do not pass through it. Ports that know each other exchange
// datagrams while it is stopped. A restarted fabricd is found by all ports.

#include <gflags/gflags.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vswitch/base/daemon/daemon.h"
#include "vswitch/base/daemon/directories.h"
#include "vswitch/base/daemon/event_loop.h"
#include "vswitch/base/daemon/log.h"
#include "vswitch/base/daemon/metric_set.h"
#include "vswitch/base/daemon/predecessor.h"
#include "vswitch/base/daemon/program.h"
#include "vswitch/fabric/softhca/fabricd/fabric_commands.h"
#include "vswitch/fabric/softhca/fabricd/fault_commands.h"
#include "vswitch/fabric/softhca/subnet/fabric_server.h"
#include "vswitch/fabric/softhca/subnet/lid_file.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"
#include "vswitch/fabric/softhca/subnet/subnet_config_files.h"

DEFINE_string(
    rundir, "/run/eoib",
    "directory of fabricd.sock, where ports register, and of the control socket fabricd.ctl");
DEFINE_string(config, "",
              "partitions, a TOML file NAME.toml, with drop-ins NAME.d/*.toml; without one there "
              "is the default partition 0xffff only");
DEFINE_string(statedir, "/var/lib/eoib",
              "directory in which the LIDs of ports are kept over a restart, in fabricd/lids; "
              "empty: nothing is kept");
DEFINE_string(metrics, "",
              "[ADDRESS:]PORT: serve metrics to Prometheus there, by HTTP; ADDRESS is 127.0.0.1 by "
              "default. Empty: nowhere");
DEFINE_bool(check_config, false, "read the --config file, report its mistakes and exit");
DEFINE_string(pidfile, "", "write the process ID to this file, and remove it at the end");

namespace eoib::softhca {
namespace {

// Ports that come and go, and commands: processes that restart in a loop must not fill the journal.
constexpr int kLogBurst = 200;
constexpr absl::Duration kLogInterval = absl::Milliseconds(500);

void LogLimited(const std::string& line, LogLimiter* limiter) {
  int suppressed = 0;
  if (!limiter->Allow(&suppressed)) return;
  LogInfo(absl::StrCat(
      line, suppressed == 0
                ? ""
                : absl::StrCat(" (", suppressed, " lines before this one are left out)")));
}

void CollectFabric(const Subnet& subnet, const FabricServer& server, MetricSet* metrics) {
  const auto gauge = [metrics](const char* name, const char* help, double value) {
    metrics->Gauge(name, help, {}, value);
  };
  const std::vector<Subnet::PortStatus> ports = subnet.Ports();
  const auto alive =
      std::count_if(ports.begin(), ports.end(), [](const auto& port) { return port.alive; });
  gauge("fabric_ports", "ports that have registered", static_cast<double>(ports.size()));
  gauge("fabric_ports_alive", "ports that a process owns", static_cast<double>(alive));
  gauge("fabric_groups", "multicast groups", static_cast<double>(subnet.Groups().size()));
  gauge("fabric_rings", "rings between ports", static_cast<double>(subnet.Rings().size()));
  gauge("fabric_connections", "connections of processes", static_cast<double>(server.clients()));
  gauge("fabric_sm_absent", "1 while the subnet manager is made absent",
        subnet.sm_absent() ? 1 : 0);

  const auto counter = [metrics](const char* name, const char* help, uint64_t value) {
    metrics->Counter(name, help, {}, value);
  };
  const Subnet::MadCounters mads = subnet.mad_counters();
  counter("fabric_sa_requests", "MADs that the subnet administrator answered", mads.sa.requests);
  counter("fabric_sa_errors", "MADs that it answered with an error", mads.sa.errors);
  counter("fabric_sa_malformed", "malformed MADs", mads.sa.malformed);
  counter("fabric_reports", "reports to subscribers of traps", mads.notices.reports);
  counter("fabric_reports_given_up", "reports that no subscriber confirmed", mads.notices.given_up);
  counter("fabric_connections_accepted", "connections of processes that were accepted",
          server.counters().accepted);
  counter("fabric_connections_refused", "connections of processes that were refused",
          server.counters().refused);
}

absl::Status WritePidFile(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  std::ofstream file(path);
  file << getpid() << "\n" << std::flush;
  return file ? absl::OkStatus()
              : absl::ErrnoToStatus(errno, absl::StrCat("write the process ID to ", path));
}

// Returns null if LIDs are not kept, or cannot be.
absl::StatusOr<std::unique_ptr<LidFile>> OpenLidFile() {
  if (FLAGS_statedir.empty()) return nullptr;
  const std::string directory = absl::StrCat(FLAGS_statedir, "/fabricd");
  absl::Status status = MakeDirectories(directory, 0700);
  if (status.ok()) return LidFile::Open(directory);
  if (absl::IsFailedPrecondition(status)) return status;
  LogWarning(absl::StrCat(status.message(), "; the LIDs of ports will not survive a restart; make ",
                          directory, " writable, or give another directory (--statedir)"));
  return nullptr;
}

std::string StatusLine(const Subnet& subnet) {
  const std::vector<Subnet::PortStatus> ports = subnet.Ports();
  const auto alive = std::count_if(ports.begin(), ports.end(),
                                   [](const Subnet::PortStatus& port) { return port.alive; });
  return absl::StrCat("ports: ", alive, subnet.sm_absent() ? "; the subnet manager is absent" : "");
}

absl::Status Run() {
  Subnet::Options options;
  if (!FLAGS_config.empty()) {
    absl::StatusOr<SubnetConfig> config = LoadSubnetConfig(FLAGS_config);
    if (!config.ok()) return config.status();
    options.config = *std::move(config);
  }
  if (FLAGS_check_config) return absl::OkStatus();
  const auto daemon = Daemon::Open(absl::StrCat(FLAGS_rundir, "/fabricd.ctl"));
  if (!daemon.ok()) return daemon.status();
  if (absl::Status status = (*daemon)->ServeMetrics(FLAGS_metrics); !status.ok()) return status;
  const absl::StatusOr<std::unique_ptr<LidFile>> lids = OpenLidFile();
  if (!lids.ok()) return lids.status();
  options.lids = lids->get();
  Subnet subnet(std::move(options));
  auto server = StartAfterPredecessor((*daemon)->signals(), (*daemon)->clock(), [&subnet] {
    return FabricServer::Listen(absl::StrCat(FLAGS_rundir, "/fabricd.sock"), &subnet);
  });
  if (!server.ok()) return server.status();

  LogLimiter limiter((*daemon)->clock(), kLogBurst, kLogInterval);
  const auto log = [&limiter](const std::string& line) { LogLimited(line, &limiter); };
  (*server)->SetObserver(log);
  RegisterFabricCommands(&subnet, server->get(), lids->get(), (*daemon)->commands());
  (*daemon)->metrics()->Register(
      [&](MetricSet* metrics) { CollectFabric(subnet, **server, metrics); });
  RegisterFaultCommands(&subnet, (*daemon)->commands());
  RegisterPartitionCommands(FLAGS_config, &subnet, (*daemon)->commands());
  (*daemon)->SetReloader([&subnet] { ReloadPartitions(FLAGS_config, &subnet).IgnoreError(); });
  (*daemon)->service_manager()->SetStatus([&subnet] { return StatusLine(subnet); });
  EventLoop* const loop = (*daemon)->loop();
  absl::Status watched = loop->Add((*server)->fd(), EPOLLIN, [&](uint32_t) { (*server)->Run(); });
  loop->AddDeadline([&] { return subnet.NextDeadline(); }, [&] { subnet.Run(); });
  absl::Time next_check = loop->Now();
  loop->AddDeadline([&next_check] { return next_check; },
                    [&] {
                      next_check = loop->Now() + absl::Seconds(1);
                      const absl::StatusOr<bool> restored = (*server)->RestoreSocket();
                      if (!restored.ok()) log(std::string(restored.status().message()));
                      if (restored.ok() && *restored)
                        log("another program removed fabricd.sock: made it again");
                    });
  watched.Update(WritePidFile(FLAGS_pidfile));
  if (!watched.ok()) return watched;
  (*daemon)->commands()->OnChange(
      [&log](const std::string& command) { log(absl::StrCat("command: ", command)); });
  LogInfo(absl::StrCat("subnet manager of ", subnet.Partitions().size(),
                       " partitions; ports register at ", FLAGS_rundir,
                       "/fabricd.sock; control socket ", (*daemon)->socket_path()));
  (*daemon)->Run();
  LogInfo("stopped");
  if (!FLAGS_pidfile.empty()) unlink(FLAGS_pidfile.c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace eoib::softhca

int main(int argc, char** argv) {
  return eoib::RunDaemon(
      {"eoib-fabricd",
       "the software InfiniBand subnet of this machine: subnet manager, SA and switch control",
       "fabricd_main"},
      argc, argv, eoib::softhca::Run);
}
