// eoib-gateway: joins VLANs of VESes to plain IPoIB links, so that the hosts of both sides share
// one IP subnet, and to physical Ethernet networks.
#include <gflags/gflags.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/agent.h"
#include "control/config/config_keys.h"
#include "control/operator/agent_commands.h"
#include "control/operator/config_commands.h"
#include "control/state/state_dir.h"
#include "gateway/gateway_commands.h"
#include "gateway/gateway_metrics.h"
#include "gateway/gateways_config.h"
#include "gateway/translation/gateway.h"
#include "gateway/uplink/uplink.h"
#include "gateway/uplink/uplink_commands.h"
#include "vswitch/base/daemon/control_socket_path.h"
#include "vswitch/base/daemon/daemon.h"
#include "vswitch/base/daemon/log.h"
#include "vswitch/base/daemon/program.h"
#include "vswitch/base/daemon/wait_for_hca.h"
#include "vswitch/fabric/softhca/open_hca.h"

DEFINE_string(hca, "",
              "the HCA port: verbs:DEVICE/PORT for a real one, soft:PORTNAME for one of a software "
              "subnet; InfiniBand, not RoCE");
DEFINE_string(config, "/etc/eoib/eoib-gateway.toml", "VESes, gateways and uplinks");
DEFINE_string(rundir, "/run/eoib",
              "directory of the control socket eoib-gateway.ctl, and of fabricd.sock unless "
              "--fabric says otherwise");
DEFINE_string(statedir, "/var/lib/eoib-gateway",
              "directory of what survives a restart: the hosts of both sides");
DEFINE_string(fabric, "", "soft: the socket of eoib-fabricd; default RUNDIR/fabricd.sock");
DEFINE_string(
    name, "",
    "for several gateways on one host: the control socket is RUNDIR/eoib-gateway.NAME.ctl");
DEFINE_bool(wait_for_hca, false,
            "wait for a missing HCA instead of ending with an error: for units that start at boot. "
            "A gateway that restarts itself adds this flag");
DEFINE_string(metrics, "",
              "[ADDRESS:]PORT: serve metrics to Prometheus there, by HTTP; ADDRESS is 127.0.0.1 by "
              "default. Empty: nowhere");
DEFINE_bool(check_config, false, "read the configuration, report its mistakes and exit");

namespace eoib::gateway {
namespace {

absl::StatusOr<AgentConfig> Parse(const ConfigText& text) {
  absl::StatusOr<GatewaysConfig> config = ParseGatewaysConfig(text);
  if (!config.ok()) return config.status();
  return std::move(config->agent);
}

absl::StatusOr<std::unique_ptr<Agent>> MakeAgent(const AgentConfig& config, Daemon* daemon,
                                                 StateDir* state, Gateways* gateways,
                                                 Uplinks* uplinks) {
  auto hca = OpenHca(FLAGS_hca, FLAGS_rundir, FLAGS_fabric, daemon->WaitUnlessSignaled());
  if (!hca.ok()) return hca.status();
  const auto make_port = [daemon, gateways, uplinks](const VPortConfig& vport, MacAddr mac, int mtu,
                                                     const Ves&,
                                                     FabricPort* fabric) -> absl::StatusOr<VPort> {
    if (vport.kind == &kUplinkVPort)
      return Uplink::MakeVPort(vport, mac, {daemon->loop(), daemon->clock(), uplinks, fabric});
    return Gateway::MakeVPort(vport, mtu,
                              {fabric, daemon->loop(), daemon->clock(), FLAGS_statedir, gateways});
  };
  return Agent::Create(config, *std::move(hca), state, make_port, daemon->loop(), daemon->clock());
}

absl::Status Run() {
  const absl::StatusOr<ConfigText> text = LoadGatewaysConfigText(FLAGS_config, FLAGS_name);
  if (!text.ok()) return text.status();
  const absl::StatusOr<AgentConfig> config = Parse(*text);
  if (!config.ok()) return config.status();
  if (FLAGS_check_config) {
    std::printf("%s: no mistakes; %zu VESes, %zu gateways and uplinks\n", FLAGS_config.c_str(),
                config->veses.size(), config->vports.size());
    return absl::OkStatus();
  }
  const absl::StatusOr<std::string> socket =
      OwnControlSocket(FLAGS_rundir, "eoib-gateway", FLAGS_name);
  if (!socket.ok()) return socket.status();
  auto daemon = Daemon::Open(*socket);
  if (!daemon.ok()) return daemon.status();
  if (absl::Status status = (*daemon)->ServeMetrics(FLAGS_metrics); !status.ok()) return status;
  auto state = StateDir::Open(FLAGS_statedir);
  if (!state.ok()) return state.status();

  TakeUnsaved((*state)->path());
  ConfigCommands configuration(*text,
                               {FLAGS_config,
                                [] { return LoadGatewaysConfigText(FLAGS_config, FLAGS_name); },
                                [](const ConfigText& changed) { return Parse(changed); },
                                {{"ves", ToKeys(kVesKeys)},
                                 {"gateway", ToKeys(kGatewayKeys)},
                                 {"uplink", ToKeys(kUplinkKeys)}},
                                (*state)->path()});
  configuration.RegisterReload((*daemon)->commands());
  (*daemon)->SetReloader([&configuration] { configuration.Reload().IgnoreError(); });

  Gateways gateways;
  Uplinks uplinks;
  std::unique_ptr<Agent> agent;
  const auto start = [&]() -> absl::Status {
    const absl::StatusOr<AgentConfig> present = Parse(configuration.text());
    if (!present.ok()) return present.status();
    auto made = MakeAgent(*present, daemon->get(), state->get(), &gateways, &uplinks);
    if (!made.ok()) return made.status();
    agent = *std::move(made);
    return absl::OkStatus();
  };
  ServiceManager* const service_manager = (*daemon)->service_manager();
  const absl::Status started = FLAGS_wait_for_hca ? WaitForHca(start, (*daemon)->commands(),
                                                               (*daemon)->loop(), service_manager)
                                                  : start();
  if (!started.ok()) return started;
  (*daemon)->SetStopper([&](std::function<void()> done) {
    agent->Stop(std::move(done));
    for (Gateway* gateway : gateways.all()) gateway->SaveAtTheEnd();
    configuration.WarnOfUnsaved();
  });
  agent->OnFatal(RestartProcess);
  RegisterAgentCommands(agent.get(), (*daemon)->commands(),
                        [&configuration] { return configuration.unsaved(); });
  RegisterGatewayCommands(&gateways, (*daemon)->commands());
  RegisterUplinkCommands(&uplinks, (*daemon)->commands());
  RegisterAgentMetrics(agent.get(), (*daemon)->metrics());
  (*daemon)->metrics()->Register(
      [&gateways](MetricSet* metrics) { CollectGateways(gateways, metrics); });
  (*daemon)->metrics()->Register(
      [&uplinks](MetricSet* metrics) { CollectUplinks(uplinks, metrics); });
  configuration.Register(agent.get(), (*daemon)->commands());
  (*daemon)->metrics()->Register(
      [&configuration](MetricSet* metrics) { configuration.Collect(metrics); });
  agent->Start();
  service_manager->SetStatus(
      [&agent] { return absl::StrCat("translating on ", FLAGS_hca, "; ", agent->StatusLine()); });
  service_manager->SetProgressCheck([&agent] { return agent->MakesProgress(); });
  LogInfo(
      absl::StrCat("translating on ", FLAGS_hca, "; control socket ", (*daemon)->socket_path()));
  (*daemon)->Run();
  agent.reset();
  LogInfo("stopped");
  return absl::OkStatus();
}

}  // namespace
}  // namespace eoib::gateway

int main(int argc, char** argv) {
  return eoib::RunDaemon(
      {"eoib-gateway", "a gateway between VESes, plain IPoIB links and physical Ethernet networks",
       "eoib_gateway_main"},
      argc, argv, eoib::gateway::Run);
}
