#include "vswitch/base/daemon/daemon.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "vswitch/base/daemon/control_socket_path.h"
#include "vswitch/base/daemon/predecessor.h"

namespace eoib {
namespace {

// Blocks the signals, so that only the descriptor reports them.
UniqueFd SignalFd(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : signals) sigaddset(&set, signal);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  return UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

constexpr absl::Duration kSocketCheck = absl::Seconds(1);
constexpr char kTryingAgain[] = "; trying again every second";

// "RUNDIR/eoibd.h1.ctl" is the socket of the program eoibd and the name h1.
std::pair<std::string, std::string> ProgramAndName(const std::string& socket_path) {
  return absl::StrSplit(std::filesystem::path(socket_path).stem().string(),
                        absl::MaxSplits('.', 1));
}

void CollectBuildInfo(const std::string& socket_path, MetricSet* metrics) {
  const auto [program, name] = ProgramAndName(socket_path);
  metrics->Info("build", "the program, its --name and its version",
                {{"program", program}, {"name", name}, {"version", EOIB_VERSION}});
}

Answer VersionAnswer(const std::string& socket_path, absl::Duration uptime) {
  const auto [program, name] = ProgramAndName(socket_path);
  return Answer({{"program", program},
                 {"name", name},
                 {"version", EOIB_VERSION},
                 {"process", getpid()},
                 {"uptime_s", absl::ToInt64Seconds(uptime)}},
                [](const Json& json) {
                  const std::string name = TextOf(json, "name");
                  const absl::Duration up = absl::Seconds(json["uptime_s"].get<int64_t>());
                  return absl::StrCat(TextOf(json, "program"), name.empty() ? "" : " ", name, " ",
                                      TextOf(json, "version"), ", process ",
                                      TextOf(json, "process"), ", up ", absl::FormatDuration(up),
                                      "\n");
                });
}

// "signal TERM of process 1 (systemd)". A signal of the kernel, such as that of a terminal's
// Ctrl-C, has no process.
std::string SenderOf(const signalfd_siginfo& info) {
  const std::string signal =
      absl::StrCat("signal ", sigabbrev_np(static_cast<int>(info.ssi_signo)));
  if (info.ssi_pid == 0) return signal;
  std::string name;
  std::ifstream comm(absl::StrCat("/proc/", info.ssi_pid, "/comm"));
  std::getline(comm, name);
  return absl::StrCat(signal, " of process ", info.ssi_pid,
                      name.empty() ? "" : absl::StrCat(" (", absl::CHexEscape(name), ")"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Open(const std::string& socket_path) {
  auto daemon = std::unique_ptr<Daemon>(new Daemon());
  Daemon* const self = daemon.get();
  signal(SIGPIPE, SIG_IGN);
  self->signals_ = SignalFd({SIGTERM, SIGINT});
  self->hangups_ = SignalFd({SIGHUP});
  self->ignored_ = SignalFd({SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO});
  using enum CommandRegistry::Access;
  self->commands_.Register({
      {"exit", "", "stop the program", kReadWrite, "message",
       [self](const CommandRegistry::Arguments&) {
         const std::string client = self->server_->Client();
         self->loop_.CallAt(self->loop_.Now(), [self, client] {
           self->Stop(absl::StrCat("the command exit of ", client));
         });
         return "stopping\n";
       }},
      {"version", "", "the program, its --name, its version, and since when it runs", kReadOnly,
       "version",
       [self, socket_path, start = self->loop_.Now()](const CommandRegistry::Arguments&) {
         return VersionAnswer(socket_path, self->loop_.Now() - start);
       }},
      {"log/set", "info|warning", "the least level that is logged", kReadWrite, "message",
       [](const CommandRegistry::Arguments& level) -> absl::StatusOr<Answer> {
         if (level[0] != "info" && level[0] != "warning") {
           return absl::InvalidArgumentError(
               absl::StrCat("\"", level[0], "\" is no level; write info or warning"));
         }
         SetLogInfo(level[0] == "info");
         return absl::StrCat("logging from ", level[0], " on\n");
       }},
  });
  self->metrics_.Register(
      [socket_path](MetricSet* metrics) { CollectBuildInfo(socket_path, metrics); });
  absl::Status status = self->Serve(socket_path);
  if (status.ok()) status = self->WatchSignals();
  if (!status.ok()) return status;
  return daemon;
}

absl::Status Daemon::Serve(const std::string& socket_path) {
  if (IsReadOnlySocket(socket_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("listen on ", socket_path,
                     ": sockets of this name are read-only ones; choose a --name other than ro"));
  }
  const auto listen = [&](auto listener, std::unique_ptr<CommandServer>* server) -> absl::Status {
    auto started = StartAfterPredecessor(signals(), clock(),
                                         [&] { return listener(socket_path, &commands_); });
    if (!started.ok()) return started.status();
    *server = *std::move(started);
    return loop_.Add((*server)->fd(), EPOLLIN, [server](uint32_t) { (*server)->Run(); });
  };
  absl::Status status = listen(CommandServer::Listen, &server_);
  if (status.ok()) status = listen(CommandServer::ListenReadOnly, &read_only_server_);
  if (status.ok()) loop_.CallAt(loop_.Now() + kSocketCheck, [this] { RestoreSockets(); });
  return status;
}

void Daemon::RestoreSockets() {
  for (CommandServer* server : {server_.get(), read_only_server_.get()}) {
    const absl::StatusOr<bool> restored = server->RestoreSocket();
    if ((restored.ok() && !*restored) || !sockets_log_.Allow()) continue;
    LogWarning(restored.ok() ? absl::StrCat("another program removed the control socket ",
                                            server->path(), ": made it again")
                             : absl::StrCat(restored.status().message(), kTryingAgain));
  }
  loop_.CallAt(loop_.Now() + kSocketCheck, [this] { RestoreSockets(); });
}

Daemon::~Daemon() = default;

absl::Status Daemon::WatchSignals() {
  absl::Status status = loop_.Add(signals(), EPOLLIN, [this](uint32_t) {
    signalfd_siginfo info;
    while (read(signals(), &info, sizeof(info)) > 0) Stop(SenderOf(info));
  });
  status.Update(loop_.Add(hangups_.get(), EPOLLIN, [this](uint32_t) { RunHangups(); }));
  status.Update(loop_.Add(ignored_.get(), EPOLLIN, [this](uint32_t) { IgnoreSignals(); }));
  return status;
}

// Several that came together are one.
void Daemon::RunHangups() {
  signalfd_siginfo info;
  while (read(hangups_.get(), &info, sizeof(info)) > 0) continue;
  if (reload_ != nullptr) return reload_();
  if (ignored_log_.Allow())
    LogWarning("SIGHUP ignored: this program has no configuration to reload");
}

void Daemon::IgnoreSignals() {
  signalfd_siginfo info;
  while (read(ignored_.get(), &info, sizeof(info)) > 0) {
    if (ignored_log_.Allow()) {
      LogWarning(absl::StrCat(SenderOf(info),
                              " ignored: SIGHUP reloads the configuration, SIGTERM stops"));
    }
  }
}

absl::Status Daemon::ServeMetrics(const std::string& where) {
  if (where.empty()) return absl::OkStatus();
  const absl::Status status = TakeMetricsServer(ListenForMetrics(where));
  if (status.ok() || absl::IsInvalidArgument(status)) return status;
  if (absl::IsAlreadyExists(status)) {
    RetryMetrics(where, loop_.Now() + kPredecessorTimeout);
  } else {
    LogWarning(absl::StrCat(status.message(), kTryingAgain));
    RetryMetrics(where, absl::nullopt);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<MetricsServer>> Daemon::ListenForMetrics(const std::string& where) {
  return MetricsServer::Listen(
      where, &metrics_, [this](EventLoop::Callback callback) { loop_.Post(std::move(callback)); });
}

absl::Status Daemon::TakeMetricsServer(absl::StatusOr<std::unique_ptr<MetricsServer>> server) {
  if (!server.ok()) return server.status();
  metrics_server_ = *std::move(server);
  LogInfo(absl::StrCat("metrics on ", metrics_server_->url()));
  return absl::OkStatus();
}

// Until `expected` a predecessor may still have the port; what comes later is logged once.
void Daemon::RetryMetrics(const std::string& where, absl::optional<absl::Time> expected) {
  loop_.CallAt(loop_.Now() + (expected.has_value() ? absl::Milliseconds(100) : absl::Seconds(1)),
               [this, where, expected] {
                 const absl::Status status = TakeMetricsServer(ListenForMetrics(where));
                 if (status.ok()) return;
                 const bool is_late = expected.has_value() && loop_.Now() >= *expected;
                 if (is_late) LogWarning(absl::StrCat(status.message(), kTryingAgain));
                 RetryMetrics(where, is_late ? absl::nullopt : expected);
               });
}

// The first request waits for the stopper, which may wait for the SA, but at most a second. A
// second request does not wait.
void Daemon::Stop(const std::string& why) {
  LogInfo(absl::StrCat("stopping: ", why));
  service_manager_.Stopping();
  if (stopper_ == nullptr || std::exchange(stopping_, true)) return loop_.Stop();
  stopper_([this] { loop_.Stop(); });
  loop_.CallAt(loop_.Now() + absl::Seconds(1), [this] { loop_.Stop(); });
}

void Daemon::Run() {
  service_manager_.Ready();
  loop_.Run();
  metrics_server_.reset();
  // After this, main() still deletes interfaces but does not run the loop, so a thread of the
  // server answers clients.
  for (CommandServer* server : {server_.get(), read_only_server_.get()}) {
    loop_.Remove(server->fd());
    server->RefuseFromNowOn(
        absl::StrCat(std::filesystem::path(socket_path()).stem().string(), " is stopping"));
  }
}

std::function<bool(const std::string&, absl::Duration)> Daemon::WaitUnlessSignaled() {
  return [this](const std::string& what, absl::Duration waited) {
    if (waited >= absl::Seconds(1) && waiting_log_.Allow())
      LogWarning(absl::StrCat(what, "; waiting for it"));
    pollfd signal = {signals(), POLLIN, 0};
    return poll(&signal, 1, 0) == 0;
  };
}

void RestartProcess(const std::string& why) {
  constexpr char kWaitFlag[] = "--wait_for_hca";
  LogWarning(absl::StrCat(why, ": restarting"));
  ServiceManager::Restarting(why);
  std::vector<std::string> arguments;
  std::ifstream command_line("/proc/self/cmdline");
  for (std::string argument; std::getline(command_line, argument, '\0');)
    arguments.push_back(argument);
  if (arguments.empty() || arguments.back() != kWaitFlag) arguments.push_back(kWaitFlag);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  // execv closes all descriptors (they are close-on-exec), and with them the lost device.
  // Persistent interfaces stay.
  execv("/proc/self/exe", argv.data());
  LogWarning(absl::StrCat("restart: ", strerror(errno)));
  _exit(1);
}

}  // namespace eoib
