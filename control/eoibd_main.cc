// eoibd: the agent. One process for each HCA port of a host.
//
// This file is linked twice: into eoibd with the software HCA, and into eoibd-verbs without it
// (EOIB_WITHOUT_SOFTHCA, in open_hca.h). The second proves that no other code depends on the
// software HCA.

#include <gflags/gflags.h>
#include <sys/eventfd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "control/agent.h"
#include "control/config/config.h"
#include "control/config/config_diff.h"
#include "control/config/config_keys.h"
#include "control/operator/agent_commands.h"
#include "control/operator/config_commands.h"
#include "control/state/state_dir.h"
#include "control/vport/netdev_vport.h"
#include "control/vport/tap_vport.h"
#include "control/vport/vhost_vport.h"
#include "vswitch/base/daemon/control_socket_path.h"
#include "vswitch/base/daemon/daemon.h"
#include "vswitch/base/daemon/log.h"
#include "vswitch/base/daemon/program.h"
#include "vswitch/base/daemon/wait_for_hca.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/softhca/open_hca.h"
#include "vswitch/port/netdev.h"
#include "vswitch/port/tap_set.h"
#include "vswitch/worker_priority.h"

DEFINE_string(hca, "",
              "the HCA port: verbs:DEVICE/PORT[?gid=INDEX] for a real one, soft:PORTNAME for one "
              "of a software subnet");
DEFINE_string(config, "/etc/eoib/eoibd.toml", "VESes and vPorts");
DEFINE_string(rundir, "/run/eoib",
              "directory of the control socket eoibd.ctl, and of fabricd.sock unless --fabric says "
              "otherwise");
DEFINE_string(statedir, "/var/lib/eoib",
              "directory of what survives a restart: the agent's id, its MACs, and the MACs that "
              "it learned (fdb.json)");
DEFINE_string(fabric, "", "soft: the socket of eoib-fabricd; default RUNDIR/fabricd.sock");
DEFINE_string(name, "",
              "for several agents on one host: the control socket is RUNDIR/eoibd.NAME.ctl");
DEFINE_bool(wait_for_hca, false,
            "wait for a missing HCA instead of ending with an error: for units that start at boot. "
            "An agent that restarts itself adds this flag");
DEFINE_string(metrics, "",
              "[ADDRESS:]PORT: serve metrics to Prometheus there, by HTTP; ADDRESS is 127.0.0.1 by "
              "default. Empty: nowhere");
DEFINE_bool(realtime, false,
            "while many small frames come, workers run ahead of programs, in bursts; it takes "
            "CAP_SYS_NICE or RLIMIT_RTPRIO");
DEFINE_bool(check_config, false, "read the configuration, report its mistakes and exit");

namespace eoib {
namespace {

// "vport add db0 ves=blue" if that command made the vPort and was not saved; else empty.
std::string UnsavedCommandFor(const std::string& vport,
                              const std::vector<UnsavedCommand>& unsaved) {
  for (const UnsavedCommand& one : unsaved) {
    if (absl::StartsWith(absl::StrCat(one.command, " "), absl::StrCat("vport add ", vport, " ")))
      return one.command;
  }
  return "";
}

// A running agent removes the interfaces of removed vPorts. A stopped agent left them. `unsaved`:
// what the last run did not save.
void WarnOfLeftTaps(const AgentConfig& config, const std::string& owner,
                    const std::vector<UnsavedCommand>& unsaved, TapFinder* finder) {
  const std::string prefix = TapAliasPrefix(owner);
  for (const NetdevInfo& tap : finder->FindAll(prefix)) {
    const std::string name = tap.alias.substr(prefix.size());
    const VPortConfig* const vport = FindVPort(config, name);
    if (vport != nullptr && vport->kind == &kTapVPort) continue;
    const std::string interface = absl::CHexEscape(tap.name);
    const std::string command = absl::CHexEscape(UnsavedCommandFor(name, unsaved));
    LogWarning(absl::StrCat(
        "interface ", interface, " is left from vPort ", absl::CHexEscape(name), ", which was ",
        command.empty()
            ? "removed while no agent ran; "
            : absl::StrCat("added without being saved; `eoibctl ", command, "` adds it again, "),
        "`ip link del ", interface, "` removes it"));
  }
}

// The port of a vPort without an interface, for trying out a configuration. It discards the frames
// that it gets.
class DiscardPort final : public Port {
 public:
  explicit DiscardPort(MacAddr mac) : mac_(mac) {}
  int receive_fd() const override { return event_.get(); }
  size_t Receive(BufferPool*, uint32_t, absl::Span<Frame>, PortReceiveCounts*) noexcept override {
    return 0;
  }
  DropReason Transmit(const Frame&, bool) noexcept override { return DropReason::kNone; }
  MacAddr mac() const override { return mac_; }

 private:
  const MacAddr mac_;
  const UniqueFd event_{eventfd(0, EFD_CLOEXEC)};  // never readable
};

class NoInterface final : public VPortInterface {
 public:
  explicit NoInterface(MacAddr mac) : mac_(mac) {}
  std::unique_ptr<Port> MakeQueue() override { return std::make_unique<DiscardPort>(mac_); }

 private:
  const MacAddr mac_;
};

VPort MakeTest(const VPortConfig& config, MacAddr mac) {
  VPort vport;
  vport.config = config;
  vport.interface = std::make_shared<NoInterface>(mac);
  vport.port = vport.interface->MakeQueue();
  return vport;
}

absl::StatusOr<std::unique_ptr<Agent>> MakeAgent(AgentConfig config, Daemon* daemon,
                                                 StateDir* state, TapSet* taps) {
  auto hca = OpenHca(FLAGS_hca, FLAGS_rundir, FLAGS_fabric, daemon->WaitUnlessSignaled());
  if (!hca.ok()) return hca.status();
  const TapOwner tap_owner{taps, daemon->loop(), state->path()};
  const auto make_port = [tap_owner](const VPortConfig& vport, MacAddr mac, int mtu, const Ves& ves,
                                     FabricPort*) -> absl::StatusOr<VPort> {
    if (vport.kind == &kTestVPort) return MakeTest(vport, mac);
    if (vport.kind == &kNetdevVPort) return MakeNetdevVPort(vport);
    if (vport.kind == &kVhostVPort) return MakeVhostVPort(vport, ves.workers());
    return MakeTapVPort(vport, tap_owner, mac, mtu, ves.config().SendsSegments());
  };
  config.realtime = FLAGS_realtime;
  return Agent::Create(config, *std::move(hca), state, make_port, daemon->loop(), daemon->clock(),
                       nullptr, FLAGS_name);
}

absl::Status Run() {
  // Before the file: the first mistake.
  if (FLAGS_hca.empty() && !FLAGS_check_config) return OpenHca("", "", "", {}).status();
  const absl::StatusOr<ConfigText> text = LoadConfigText(FLAGS_config, FLAGS_name);
  if (!text.ok()) return text.status();
  const absl::StatusOr<AgentConfig> config = ParseConfig(*text);
  if (!config.ok()) return config.status();
  if (absl::Status status = CheckVhostInstalled(*config); !status.ok()) return status;
  if (absl::Status may = FLAGS_realtime ? WorkerPriority::Check() : absl::OkStatus(); !may.ok()) {
    LogWarning(absl::StrCat("--realtime: ", may.message()));
  }
  if (FLAGS_check_config) {
    std::printf("%s: no mistakes; %zu VESes, %zu vPorts\n", FLAGS_config.c_str(),
                config->veses.size(), config->vports.size());
    return absl::OkStatus();
  }
  const absl::StatusOr<std::string> socket = OwnControlSocket(FLAGS_rundir, "eoibd", FLAGS_name);
  if (!socket.ok()) return socket.status();
  auto daemon = Daemon::Open(*socket);
  if (!daemon.ok()) return daemon.status();
  if (absl::Status status = (*daemon)->ServeMetrics(FLAGS_metrics); !status.ok()) return status;
  auto state = StateDir::Open(FLAGS_statedir);
  if (!state.ok()) return state.status();

  const std::vector<UnsavedCommand> lost = TakeUnsaved((*state)->path());
  ConfigCommands configuration(*text,
                               {FLAGS_config,
                                [] { return LoadConfigText(FLAGS_config, FLAGS_name); },
                                [](const ConfigText& changed) { return ParseConfig(changed); },
                                {{"ves", ToKeys(kVesKeys)}, {"vport", ToKeys(kVPortKeys)}},
                                (*state)->path()});
  configuration.RegisterReload((*daemon)->commands());
  (*daemon)->SetReloader([&configuration] { configuration.Reload().IgnoreError(); });

  TapSet taps((*daemon)->clock());
  std::unique_ptr<Agent> agent;
  const auto start = [&]() -> absl::Status {
    const absl::StatusOr<AgentConfig> present = ParseConfig(configuration.text());
    if (!present.ok()) return present.status();
    auto made = MakeAgent(*present, daemon->get(), state->get(), &taps);
    if (!made.ok()) return made.status();
    agent = *std::move(made);
    return absl::OkStatus();
  };
  ServiceManager* const service_manager = (*daemon)->service_manager();
  const absl::Status started = FLAGS_wait_for_hca ? WaitForHca(start, (*daemon)->commands(),
                                                               (*daemon)->loop(), service_manager)
                                                  : start();
  if (!started.ok()) return started;
  absl::Time stopping_since = (*daemon)->loop()->Now();
  (*daemon)->SetStopper([&](std::function<void()> done) {
    stopping_since = (*daemon)->loop()->Now();
    agent->Stop(std::move(done));
    agent->SaveMacs();
    configuration.WarnOfUnsaved();
  });
  agent->OnFatal([&agent](const std::string& why) {
    agent->SaveMacs();
    RestartProcess(why);
  });
  RegisterAgentCommands(agent.get(), (*daemon)->commands(),
                        [&configuration] { return configuration.unsaved(); });
  RegisterAgentMetrics(agent.get(), (*daemon)->metrics());
  configuration.Register(agent.get(), (*daemon)->commands());
  (*daemon)->metrics()->Register(
      [&configuration](MetricSet* metrics) { configuration.Collect(metrics); });
  WarnOfLeftTaps(agent->config(), (*state)->path(), lost, taps.finder());
  agent->RestoreSavedMacs();
  agent->Start();
  service_manager->SetStatus(
      [&agent] { return absl::StrCat("forwarding on ", FLAGS_hca, "; ", agent->StatusLine()); });
  service_manager->SetProgressCheck([&agent] { return agent->MakesProgress(); });
  LogInfo(absl::StrCat("forwarding on ", FLAGS_hca, "; control socket ", (*daemon)->socket_path()));
  (*daemon)->Run();
  agent.reset();
  LogInfo(absl::StrCat("stopped within ",
                       absl::FormatDuration((*daemon)->loop()->Now() - stopping_since)));
  return absl::OkStatus();
}

}  // namespace
}  // namespace eoib

int main(int argc, char** argv) {
  return eoib::RunDaemon(
      {"eoibd", "the eoib agent: Ethernet ports of a virtual switch on an InfiniBand port",
       "eoibd_main"},
      argc, argv, eoib::Run);
}
