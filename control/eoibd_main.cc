// eoibd: the agent. One process for each host and HCA port.
//
// Linked twice from this file: eoibd with the software HCA, eoibd-verbs without it (EOIB_WITHOUT_SOFTHCA), which shows that
// nothing but this main knows that a software HCA exists.

#include <gflags/gflags.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/agent.h"
#include "control/agent_wait.h"
#include "control/command_server.h"
#include "control/config.h"
#include "control/event_loop.h"
#include "control/log.h"
#include "control/program.h"
#include "control/state_dir.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/port/tap_port.h"
#include "vswitch/port/test_port.h"
#ifndef EOIB_WITHOUT_SOFTHCA
#include "vswitch/fabric/softhca/fabric_client.h"
#include "vswitch/fabric/softhca/soft_hca.h"
#endif

DEFINE_string(hca, "",
              "the HCA port: verbs:DEVICE/PORT[?gid=INDEX] for a real one, soft:PORTNAME for one of a software subnet");
DEFINE_string(config, "/etc/eoib/eoibd.toml", "VESes and vPorts");
DEFINE_string(rundir, "/run/eoib",
              "directory of the control socket eoibd.ctl, and of fabricd.sock unless --fabric says otherwise");
DEFINE_string(statedir, "/var/lib/eoib", "directory of what has to survive a restart: MACs");
DEFINE_string(fabric, "", "soft: the socket of eoib-fabricd; default RUNDIR/fabricd.sock");
DEFINE_string(name, "", "the control socket is RUNDIR/eoibd.NAME.ctl then: for several agents on one host");
DEFINE_bool(
    wait_for_hca, false,
    "wait for an HCA that is not there, instead of ending with an error: for units that start at boot, and what an agent "
    "starts itself anew with");
DEFINE_bool(check_config, false, "read the configuration, report its mistakes and exit");

namespace eoib {

// As main got them, and --wait_for_hca: for starting anew.
std::vector<char*> arguments_to_start_anew;

namespace {

#ifndef EOIB_WITHOUT_SOFTHCA
// Waits for a stopped eoib-fabricd until this program is to stop: `signals` is readable then.
class FabricdPatience {
 public:
  explicit FabricdPatience(int signals) : signals_(signals) {}

  bool operator()(const std::string& what, absl::Duration waited) {
    if (waited >= next_line_) {
      LogWarning(absl::StrCat(what, "; waiting for it"));
      next_line_ = waited + absl::Seconds(10);
    }
    pollfd told = {signals_, POLLIN, 0};
    return poll(&told, 1, 0) == 0;
  }

 private:
  const int signals_;
  absl::Duration next_line_ = absl::Seconds(1);
};
#endif

HcaRegistry Hcas(int signals) {
  HcaRegistry registry;
  registry.Register("verbs", OpenVerbsHca);
#ifndef EOIB_WITHOUT_SOFTHCA
  const std::string socket = FLAGS_fabric.empty() ? FLAGS_rundir + "/fabricd.sock" : FLAGS_fabric;
  registry.Register("soft", softhca::SoftHcaOpener([socket, signals] {
                      return std::make_unique<softhca::FabricClient>(softhca::FabricClient::Options{
                          .socket = socket, .wait = absl::Seconds(5), .keep_waiting = FabricdPatience(signals)});
                    }));
#endif
  return registry;
}

absl::StatusOr<VPort> MakeTap(const VPortConfig& config, MacAddr mac, int mtu) {
  auto opened = TapPort::Open({.name = config.name, .mac = mac, .mtu = mtu});
  if (!opened.ok()) return opened.status();
  TapPort* tap = opened->get();
  VPort vport;
  vport.config = config;
  vport.port = *std::move(opened);
  vport.set_mtu = [tap](int bytes) { return tap->SetMtu(bytes); };
  vport.set_link = [tap](bool up) { return tap->SetLinkUp(up); };
  return vport;
}

// A port with nothing behind it: a place in the VES to look at, for trying a configuration out.
VPort MakeTest(const VPortConfig& config, MacAddr mac) {
  VPort vport;
  vport.config = config;
  auto port = std::make_unique<TestPort>(config.name, mac);
  port->SetDiscard(true);
  vport.port = std::move(port);
  vport.set_mtu = [](int) { return absl::OkStatus(); };
  vport.set_link = [](bool) { return absl::OkStatus(); };
  return vport;
}

absl::StatusOr<VPort> MakePort(const VPortConfig& config, MacAddr mac, int mtu) {
  if (config.type == "test") return MakeTest(config, mac);
  return MakeTap(config, mac, mtu);
}

// As after a crash: the successor takes over interfaces, MACs and LID, and the others follow its new queue pairs. It waits for
// the device, which may be gone for as long as somebody takes to load another driver.
[[noreturn]] void StartAnew(const std::string& why) {
  LogWarning(absl::StrCat(why, ": starting anew"));
  execv("/proc/self/exe", arguments_to_start_anew.data());
  LogWarning(absl::StrCat("start anew: ", strerror(errno)));
  _exit(1);
}

// How this program ends: by a signal, or by the command "exit".
class Ending {
 public:
  explicit Ending(EventLoop* loop) : loop_(loop) {}

  // From now on what asks for the end is heard.
  absl::Status Watch(int signals, CommandRegistry* commands) {
    commands->Register(
        {"exit", "", "stop the agent", 0, 0, [this](const CommandRegistry::Arguments&) -> absl::StatusOr<std::string> {
           loop_->CallAt(loop_->Now(), [this] { Stop(); });
           return std::string("stopping\n");
         }});
    return loop_->Add(signals, EPOLLIN, [this, signals](uint32_t) {
      signalfd_siginfo info;
      while (read(signals, &info, sizeof(info)) > 0) Stop();
    });
  }
  // `agent` leaves its groups first. It is gone when the loop has ended.
  void Of(Agent* agent) { agent_ = agent; }

 private:
  // A second request does not wait for the SA.
  void Stop() {
    if (agent_ == nullptr || std::exchange(stopping_, true)) return loop_->Stop();
    agent_->Stop([this] { loop_->Stop(); });
    loop_->CallAt(loop_->Now() + absl::Seconds(1), [this] { loop_->Stop(); });
  }

  EventLoop* const loop_;
  Agent* agent_ = nullptr;  // null: there is none yet
  bool stopping_ = false;
};

absl::StatusOr<std::unique_ptr<Agent>> MakeAgent(const AgentConfig& config, int signals, StateDir* state, EventLoop* loop,
                                                 const Clock* clock) {
  auto hca = Hcas(signals).Open(FLAGS_hca);
  if (!hca.ok()) return hca.status();
  return Agent::Create(config, *std::move(hca), state, MakePort, loop, clock);
}

absl::Status Run() {
  const UniqueFd signals = TerminationSignals();
  const absl::StatusOr<AgentConfig> config = LoadConfig(FLAGS_config);
  if (!config.ok()) return config.status();
  if (FLAGS_check_config) return absl::OkStatus();
  if (FLAGS_hca.empty()) {
    return absl::InvalidArgumentError("--hca is missing: verbs:DEVICE/PORT (see ibv_devices) or soft:PORTNAME");
  }

  MonotonicClock clock;
  EventLoop loop(&clock);
  CommandRegistry commands;
  auto server =
      CommandServer::Listen(absl::StrCat(FLAGS_rundir, "/eoibd", FLAGS_name.empty() ? "" : ".", FLAGS_name, ".ctl"), &commands);
  if (!server.ok()) return server.status();
  auto state = StateDir::Open(FLAGS_statedir);
  if (!state.ok()) return state.status();
  Ending ending(&loop);
  absl::Status watched = ending.Watch(signals.get(), &commands);
  watched.Update(loop.Add((*server)->fd(), EPOLLIN, [&](uint32_t) { (*server)->Run(); }));
  if (!watched.ok()) return watched;

  const AgentMaker make = [&] { return MakeAgent(*config, signals.get(), state->get(), &loop, &clock); };
  auto agent = FLAGS_wait_for_hca ? AwaitAgent(make, &commands, &loop, &clock) : make();
  if (absl::IsCancelled(agent.status())) return absl::OkStatus();  // asked to stop while it waited
  if (!agent.ok()) return agent.status();
  ending.Of(agent->get());
  (*agent)->OnFatal(StartAnew);
  (*agent)->RegisterCommands(&commands);
  (*agent)->Start();
  LogInfo(absl::StrCat("forwarding on ", FLAGS_hca, "; control socket ", (*server)->path()));
  loop.Run();
  loop.Remove((*server)->fd());
  agent->reset();
  LogInfo("stopped");
  return absl::OkStatus();
}

}  // namespace
}  // namespace eoib

int main(int argc, char** argv) {
  static char wait_for_hca[] = "--wait_for_hca";
  eoib::arguments_to_start_anew.assign(argv, argv + argc);
  if (eoib::arguments_to_start_anew.back() != absl::string_view(wait_for_hca)) {
    eoib::arguments_to_start_anew.push_back(wait_for_hca);
  }
  eoib::arguments_to_start_anew.push_back(nullptr);
  const int done =
      eoib::ParseFlags(argc, argv, "the eoib agent: Ethernet ports of a virtual switch on an InfiniBand port", "eoibd_main");
  if (done >= 0) return done;
  eoib::SetLogProgram("eoibd");
  const absl::Status status = eoib::Run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "eoibd: %s\n", std::string(status.message()).c_str());
  return 1;
}
