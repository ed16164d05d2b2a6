// eoib-gateway: joins VLANs of VESes to plain IPoIB links, so that the hosts of both sides share one IP subnet.
#include <gflags/gflags.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/agent.h"
#include "control/daemon/daemon.h"
#include "control/daemon/log.h"
#include "control/daemon/program.h"
#include "control/daemon/wait_for_hca.h"
#include "control/state_dir.h"
#include "gateway/gateway.h"
#include "gateway/gateway_commands.h"
#include "gateway/gateway_config.h"
#include "vswitch/fabric/softhca/open_hca.h"

DEFINE_string(
    hca, "",
    "the HCA port: verbs:DEVICE/PORT for a real one, soft:PORTNAME for one of a software subnet; InfiniBand, not RoCE");
DEFINE_string(config, "/etc/eoib/eoib-gateway.toml", "VESes and gateways");
DEFINE_string(rundir, "/run/eoib",
              "directory of the control socket eoib-gateway.ctl, and of fabricd.sock unless --fabric says otherwise");
DEFINE_string(statedir, "/var/lib/eoib-gateway", "directory of what survives a restart: the hosts of both sides");
DEFINE_string(fabric, "", "soft: the socket of eoib-fabricd; default RUNDIR/fabricd.sock");
DEFINE_string(name, "", "for several gateways on one host: the control socket is RUNDIR/eoib-gateway.NAME.ctl");
DEFINE_bool(
    wait_for_hca, false,
    "wait for a missing HCA instead of ending with an error: for units that start at boot. A gateway that restarts itself "
    "adds this flag");
DEFINE_bool(check_config, false, "read the configuration, report its mistakes and exit");

namespace eoib::gateway {
namespace {

const GatewayConfig& ConfigOf(const GatewaysConfig& config, const std::string& name) {
  return *std::find_if(config.gateways.begin(), config.gateways.end(),
                       [&name](const GatewayConfig& gateway) { return gateway.name == name; });
}

PKey PKeyOf(const GatewaysConfig& config, const std::string& ves) {
  const auto found = std::find_if(config.agent.veses.begin(), config.agent.veses.end(),
                                  [&ves](const VesConfig& one) { return one.name == ves; });
  return found->pkey;
}

absl::StatusOr<std::unique_ptr<Agent>> MakeAgent(const GatewaysConfig& config, Daemon* daemon, StateDir* state,
                                                 Gateways* gateways) {
  auto hca = OpenHca(FLAGS_hca, FLAGS_rundir, FLAGS_fabric, daemon->WaitUnlessSignaled());
  if (!hca.ok()) return hca.status();
  const auto make_port = [&config, daemon, gateways](const VPortConfig& vport, MacAddr, int mtu,
                                                     FabricPort* fabric) -> absl::StatusOr<VPort> {
    return Gateway::MakeVPort(ConfigOf(config, vport.name), vport, PKeyOf(config, vport.ves), mtu,
                              {fabric, daemon->loop(), daemon->clock(), FLAGS_statedir, gateways});
  };
  return Agent::Create(config.agent, *std::move(hca), state, make_port, daemon->loop(), daemon->clock());
}

absl::Status Run() {
  const absl::StatusOr<GatewaysConfig> config = LoadGatewaysConfig(FLAGS_config);
  if (!config.ok()) return config.status();
  if (FLAGS_check_config) return absl::OkStatus();
  auto daemon = Daemon::Open(absl::StrCat(FLAGS_rundir, "/eoib-gateway", FLAGS_name.empty() ? "" : ".", FLAGS_name, ".ctl"));
  if (!daemon.ok()) return daemon.status();
  auto state = StateDir::Open(FLAGS_statedir);
  if (!state.ok()) return state.status();

  Gateways gateways;
  std::unique_ptr<Agent> agent;
  const auto start = [&]() -> absl::Status {
    auto made = MakeAgent(*config, daemon->get(), state->get(), &gateways);
    if (made.ok()) agent = *std::move(made);
    return made.status();
  };
  const absl::Status started = FLAGS_wait_for_hca ? WaitForHca(start, (*daemon)->commands(), (*daemon)->loop()) : start();
  if (!started.ok()) return started;
  (*daemon)->SetStopper([&](std::function<void()> done) {
    agent->Stop(std::move(done));
    for (Gateway* gateway : gateways.all()) gateway->SaveAtTheEnd();
  });
  agent->OnFatal(RestartProcess);
  agent->RegisterCommands((*daemon)->commands());
  RegisterGatewayCommands(&gateways, (*daemon)->commands());
  agent->Start();
  LogInfo(absl::StrCat("translating on ", FLAGS_hca, "; control socket ", (*daemon)->socket_path()));
  (*daemon)->Run();
  agent.reset();
  LogInfo("stopped");
  return absl::OkStatus();
}

}  // namespace
}  // namespace eoib::gateway

int main(int argc, char** argv) {
  return eoib::RunDaemon({"eoib-gateway", "a gateway between VESes and plain IPoIB links", "eoib_gateway_main"}, argc, argv,
                         eoib::gateway::Run);
}
