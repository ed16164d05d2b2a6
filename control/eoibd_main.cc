// eoibd: the agent. One process for each HCA port of a host.
//
// This file is linked twice: into eoibd with the software HCA, and into eoibd-verbs without it (EOIB_WITHOUT_SOFTHCA, in
// open_hca.h). The second proves that no other code depends on the software HCA.

#include <gflags/gflags.h>
#include <sys/eventfd.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/agent.h"
#include "control/config.h"
#include "control/daemon/daemon.h"
#include "control/daemon/log.h"
#include "control/daemon/program.h"
#include "control/daemon/wait_for_hca.h"
#include "control/state_dir.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/softhca/open_hca.h"
#include "vswitch/port/tap_port.h"
#include "vswitch/port/tap_set.h"

DEFINE_string(hca, "",
              "the HCA port: verbs:DEVICE/PORT[?gid=INDEX] for a real one, soft:PORTNAME for one of a software subnet");
DEFINE_string(config, "/etc/eoib/eoibd.toml", "VESes and vPorts");
DEFINE_string(rundir, "/run/eoib",
              "directory of the control socket eoibd.ctl, and of fabricd.sock unless --fabric says otherwise");
DEFINE_string(statedir, "/var/lib/eoib", "directory of what survives a restart: MACs");
DEFINE_string(fabric, "", "soft: the socket of eoib-fabricd; default RUNDIR/fabricd.sock");
DEFINE_string(name, "", "for several agents on one host: the control socket is RUNDIR/eoibd.NAME.ctl");
DEFINE_bool(
    wait_for_hca, false,
    "wait for a missing HCA instead of ending with an error: for units that start at boot. An agent that restarts itself adds "
    "this flag");
DEFINE_bool(check_config, false, "read the configuration, report its mistakes and exit");

namespace eoib {
namespace {

absl::StatusOr<VPort> MakeTap(const VPortConfig& config, MacAddr mac, int mtu, bool super_frames, TapSet* taps) {
  auto opened = TapPort::Open({.name = config.name, .mac = mac, .mtu = mtu, .super_frames = super_frames, .set = taps});
  if (!opened.ok()) return opened.status();
  TapPort* tap = opened->get();
  VPort vport;
  vport.config = config;
  vport.port = *std::move(opened);
  vport.set_mtu = [tap](int bytes) { return tap->SetMtu(bytes); };
  vport.set_link = [tap](bool up) { return tap->SetLinkUp(up); };
  vport.limit_super_frames = [tap](uint32_t ves_mtu) { return tap->LimitSuperFrames(ves_mtu); };
  return vport;
}

// The port of a vPort without an interface, for trying out a configuration. It discards the frames that it gets.
class DiscardPort final : public Port {
 public:
  explicit DiscardPort(MacAddr mac) : mac_(mac) {}
  int receive_fd() const override { return event_.get(); }
  size_t Receive(BufferPool*, uint32_t, absl::Span<Frame>, PortReceiveCounts*) noexcept override { return 0; }
  DropReason Transmit(const Frame&, bool) noexcept override { return DropReason::kNone; }
  MacAddr mac() const override { return mac_; }

 private:
  const MacAddr mac_;
  const UniqueFd event_{eventfd(0, EFD_CLOEXEC)};  // never readable
};

VPort MakeTest(const VPortConfig& config, MacAddr mac) {
  VPort vport;
  vport.config = config;
  vport.port = std::make_unique<DiscardPort>(mac);
  vport.set_mtu = [](int) { return absl::OkStatus(); };
  vport.set_link = [](bool) { return absl::OkStatus(); };
  return vport;
}

absl::StatusOr<std::unique_ptr<Agent>> MakeAgent(const AgentConfig& config, Daemon* daemon, StateDir* state, TapSet* taps) {
  auto hca = OpenHca(FLAGS_hca, FLAGS_rundir, FLAGS_fabric, daemon->WaitUnlessSignaled());
  if (!hca.ok()) return hca.status();
  const auto make_port = [&](const VPortConfig& vport, MacAddr mac, int mtu, FabricPort*) -> absl::StatusOr<VPort> {
    if (vport.type == "test") return MakeTest(vport, mac);
    const bool super_frames = std::any_of(config.veses.begin(), config.veses.end(), [&vport](const VesConfig& ves) {
      return ves.name == vport.ves && ves.SendsSegments();
    });
    return MakeTap(vport, mac, mtu, super_frames, taps);
  };
  return Agent::Create(config, *std::move(hca), state, make_port, daemon->loop(), daemon->clock());
}

absl::Status Run() {
  const absl::StatusOr<AgentConfig> config = LoadConfig(FLAGS_config);
  if (!config.ok()) return config.status();
  if (FLAGS_check_config) return absl::OkStatus();
  auto daemon = Daemon::Open(absl::StrCat(FLAGS_rundir, "/eoibd", FLAGS_name.empty() ? "" : ".", FLAGS_name, ".ctl"));
  if (!daemon.ok()) return daemon.status();
  auto state = StateDir::Open(FLAGS_statedir);
  if (!state.ok()) return state.status();

  TapSet taps;
  std::unique_ptr<Agent> agent;
  const auto start = [&]() -> absl::Status {
    auto made = MakeAgent(*config, daemon->get(), state->get(), &taps);
    if (made.ok()) agent = *std::move(made);
    return made.status();
  };
  const absl::Status started = FLAGS_wait_for_hca ? WaitForHca(start, (*daemon)->commands(), (*daemon)->loop()) : start();
  if (!started.ok()) return started;
  (*daemon)->SetStopper([&agent](std::function<void()> done) { agent->Stop(std::move(done)); });
  agent->OnFatal(RestartProcess);
  agent->RegisterCommands((*daemon)->commands());
  agent->Start();
  LogInfo(absl::StrCat("forwarding on ", FLAGS_hca, "; control socket ", (*daemon)->socket_path()));
  (*daemon)->Run();
  if (absl::Status status = taps.DeleteNetdevs(); !status.ok()) LogWarning(status.message());
  agent.reset();
  LogInfo("stopped");
  return absl::OkStatus();
}

}  // namespace
}  // namespace eoib

int main(int argc, char** argv) {
  return eoib::RunDaemon({"eoibd", "the eoib agent: Ethernet ports of a virtual switch on an InfiniBand port", "eoibd_main"},
                         argc, argv, eoib::Run);
}
