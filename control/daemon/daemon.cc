#include "control/daemon/daemon.h"

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
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/daemon/predecessor.h"

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

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Open(const std::string& socket_path) {
  auto daemon = std::unique_ptr<Daemon>(new Daemon());
  Daemon* const self = daemon.get();
  signal(SIGPIPE, SIG_IGN);
  self->signals_ = SignalFd({SIGTERM, SIGINT});
  self->hangups_ = SignalFd({SIGHUP});
  self->commands_.RegisterText("exit", "stop the program", [self] {
    self->loop_.CallAt(self->loop_.Now(), [self] { self->Stop(); });
    return "stopping\n";
  });
  auto server = StartAfterPredecessor(self->signals(), self->clock(),
                                      [&] { return CommandServer::Listen(socket_path, &self->commands_); });
  if (!server.ok()) return server.status();
  self->server_ = *std::move(server);
  absl::Status status = self->WatchSignals();
  status.Update(self->loop_.Add(self->server_->fd(), EPOLLIN, [self](uint32_t) { self->server_->Run(); }));
  if (!status.ok()) return status;
  return daemon;
}

Daemon::~Daemon() = default;

absl::Status Daemon::WatchSignals() {
  absl::Status status = loop_.Add(signals(), EPOLLIN, [this](uint32_t) {
    signalfd_siginfo info;
    while (read(signals(), &info, sizeof(info)) > 0) Stop();
  });
  status.Update(loop_.Add(hangups_.get(), EPOLLIN, [this](uint32_t) { IgnoreHangups(); }));
  return status;
}

void Daemon::IgnoreHangups() {
  signalfd_siginfo info;
  while (read(hangups_.get(), &info, sizeof(info)) > 0) continue;
  if (!hangup_log_.Allow()) return;
  LogWarning("SIGHUP ignored: this version cannot reload its configuration; restart it to apply changes");
}

// The first request waits for the stopper, which may wait for the SA, but at most a second. A second request does not wait.
void Daemon::Stop() {
  if (stopper_ == nullptr || std::exchange(stopping_, true)) return loop_.Stop();
  stopper_([this] { loop_.Stop(); });
  loop_.CallAt(loop_.Now() + absl::Seconds(1), [this] { loop_.Stop(); });
}

void Daemon::Run() {
  loop_.Run();
  // After this, main() still deletes interfaces but does not run the loop, so a thread of the server answers clients.
  loop_.Remove(server_->fd());
  server_->RefuseFromNowOn(absl::StrCat(std::filesystem::path(socket_path()).stem().string(), " is stopping"));
}

std::function<bool(const std::string&, absl::Duration)> Daemon::WaitUnlessSignaled() {
  return [this](const std::string& what, absl::Duration waited) {
    if (waited >= absl::Seconds(1) && waiting_log_.Allow()) LogWarning(absl::StrCat(what, "; waiting for it"));
    pollfd signal = {signals(), POLLIN, 0};
    return poll(&signal, 1, 0) == 0;
  };
}

void RestartProcess(const std::string& why) {
  constexpr char kWaitFlag[] = "--wait_for_hca";
  LogWarning(absl::StrCat(why, ": restarting"));
  std::vector<std::string> arguments;
  std::ifstream command_line("/proc/self/cmdline");
  for (std::string argument; std::getline(command_line, argument, '\0');) arguments.push_back(argument);
  if (arguments.empty() || arguments.back() != kWaitFlag) arguments.push_back(kWaitFlag);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  // execv closes all descriptors (they are close-on-exec), and with them the lost device. Persistent interfaces stay.
  execv("/proc/self/exe", argv.data());
  LogWarning(absl::StrCat("restart: ", strerror(errno)));
  _exit(1);
}

}  // namespace eoib
