// eoib-gateway: joins VLANs of VESes to plain IPoIB links, so that the hosts of both sides share one IP subnet.
#include <gflags/gflags.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/agent.h"
#include "control/agent_wait.h"
#include "control/daemon/daemon.h"
#include "control/daemon/log.h"
#include "control/daemon/program.h"
#include "control/state_dir.h"
#include "gateway/gateway.h"
#include "gateway/gateway_commands.h"
#include "gateway/gateway_config.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/fabric/softhca/fabric_client.h"

DEFINE_string(
    hca, "",
    "the HCA port: verbs:DEVICE/PORT for a real one, soft:PORTNAME for one of a software subnet; InfiniBand, not RoCE");
DEFINE_string(config, "/etc/eoib/eoib-gateway.toml", "VESes and gateways");
DEFINE_string(rundir, "/run/eoib",
              "directory of the control socket eoib-gateway.ctl, and of fabricd.sock unless --fabric says otherwise");
DEFINE_string(statedir, "/var/lib/eoib-gateway", "directory of what has to survive a restart: the hosts of both sides");
DEFINE_string(fabric, "", "soft: the socket of eoib-fabricd; default RUNDIR/fabricd.sock");
DEFINE_string(name, "", "the control socket is RUNDIR/eoib-gateway.NAME.ctl then: for several of them on one host");
DEFINE_bool(wait_for_hca, false,
            "wait for an HCA that is not there, instead of ending with an error: for units that start at boot, and what a "
            "gateway starts itself anew with");
DEFINE_bool(check_config, false, "read the configuration, report its mistakes and exit");

namespace eoib::gateway {
namespace {

HcaRegistry Hcas(int signals) {
  HcaRegistry registry;
  registry.Register("verbs", OpenVerbsHca);
  registry.Register("soft",
                    softhca::FabricHcaOpener({.socket = FLAGS_fabric.empty() ? FLAGS_rundir + "/fabricd.sock" : FLAGS_fabric,
                                              .wait = absl::Seconds(5),
                                              .keep_waiting = Patience(signals)}));
  return registry;
}

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
  auto hca = Hcas(daemon->signals()).Open(FLAGS_hca);
  if (!hca.ok()) return hca.status();
  const auto make_port = [&config, daemon, gateways](const VPortConfig& vport, MacAddr, int mtu,
                                                     FabricPort* fabric) -> absl::StatusOr<VPort> {
    return Gateway::MakeVPort(ConfigOf(config, vport.name), vport, PKeyOf(config, vport.ves), mtu,
                              {fabric, daemon->loop(), daemon->clock(), FLAGS_statedir, gateways});
  };
  return Agent::Create(config.agent, *std::move(hca), state, make_port, daemon->loop(), daemon->clock());
}

absl::Status Run(FreshStart* start_anew) {
  UsePlainLocks();
  RaiseDescriptorLimit();
  const absl::StatusOr<GatewaysConfig> config = LoadGatewaysConfig(FLAGS_config);
  if (!config.ok()) return config.status();
  if (FLAGS_check_config) return absl::OkStatus();
  if (FLAGS_hca.empty()) {
    return absl::InvalidArgumentError("--hca is missing: verbs:DEVICE/PORT (see ibv_devices) or soft:PORTNAME");
  }
  auto daemon = Daemon::Open(absl::StrCat(FLAGS_rundir, "/eoib-gateway", FLAGS_name.empty() ? "" : ".", FLAGS_name, ".ctl"));
  if (!daemon.ok()) return daemon.status();
  auto state = StateDir::Open(FLAGS_statedir);
  if (!state.ok()) return state.status();

  Gateways gateways;
  const AgentMaker make = [&] { return MakeAgent(*config, daemon->get(), state->get(), &gateways); };
  auto agent = FLAGS_wait_for_hca ? AwaitAgent(make, (*daemon)->commands(), (*daemon)->loop(), (*daemon)->clock()) : make();
  if (absl::IsCancelled(agent.status())) return absl::OkStatus();  // asked to stop while it waited
  if (!agent.ok()) return agent.status();
  (*daemon)->SetStopper([&](std::function<void()> done) {
    (*agent)->Stop(std::move(done));
    for (Gateway* gateway : gateways.all()) gateway->SaveAtTheEnd();
  });
  (*agent)->OnFatal([start_anew](const std::string& why) { (*start_anew)(why); });
  (*agent)->RegisterCommands((*daemon)->commands());
  RegisterGatewayCommands(&gateways, (*daemon)->commands());
  (*agent)->Start();
  LogInfo(absl::StrCat("translating on ", FLAGS_hca, "; control socket ", (*daemon)->socket_path()));
  (*daemon)->Run();
  agent->reset();
  LogInfo("stopped");
  return absl::OkStatus();
}

}  // namespace
}  // namespace eoib::gateway

int main(int argc, char** argv) {
  eoib::FreshStart start_anew(argc, argv, "--wait_for_hca");
  const int done = eoib::ParseFlags(argc, argv, "a gateway between VESes and plain IPoIB links", "eoib_gateway_main");
  if (done >= 0) return done;
  eoib::SetLogProgram("eoib-gateway");
  const absl::Status status = eoib::gateway::Run(&start_anew);
  if (status.ok()) return 0;
  std::fprintf(stderr, "eoib-gateway: %s\n", std::string(status.message()).c_str());
  return 1;
}
