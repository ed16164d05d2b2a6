#include "control/daemon/daemon.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/daemon/predecessor.h"
#include "control/daemon/program.h"

namespace eoib {

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Open(const std::string& socket_path) {
  auto daemon = std::unique_ptr<Daemon>(new Daemon());
  Daemon* const self = daemon.get();
  self->signals_ = TerminationSignals();
  self->hangups_ = HangupSignals();
  self->commands_.Register(
      {"exit", "", "stop the program", 0, 0, [self](const CommandRegistry::Arguments&) -> absl::StatusOr<std::string> {
         self->loop_.CallAt(self->loop_.Now(), [self] { self->Stop(); });
         return std::string("stopping\n");
       }});
  auto server = StartAfterPredecessor(PredecessorWait(self->signals(), self->clock()),
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
  if (!hangup_lines_.Allow()) return;
  LogWarning("SIGHUP ignored: this version cannot reload its configuration; restart it to apply changes");
}

// A second request to stop does not wait for the SA. Nor does the first, for more than a second.
void Daemon::Stop() {
  if (stopper_ == nullptr || std::exchange(stopping_, true)) return loop_.Stop();
  stopper_([this] { loop_.Stop(); });
  loop_.CallAt(loop_.Now() + absl::Seconds(1), [this] { loop_.Stop(); });
}

void Daemon::Run() {
  loop_.Run();
  // The main still deletes interfaces, without this loop: a thread of the server answers meanwhile.
  loop_.Remove(server_->fd());
  server_->RefuseFromNowOn(absl::StrCat(std::filesystem::path(socket_path()).stem().string(), " is stopping"));
}

bool Patience::operator()(const std::string& what, absl::Duration waited) {
  if (waited >= next_line_) {
    LogWarning(absl::StrCat(what, "; waiting for it"));
    next_line_ = waited + absl::Seconds(10);
  }
  pollfd told = {signals_, POLLIN, 0};
  return poll(&told, 1, 0) == 0;
}

FreshStart::FreshStart(int argc, char** argv, const char* wait_flag) : arguments_(argv, argv + argc) {
  if (arguments_.back() != wait_flag) arguments_.push_back(wait_flag);
}

void FreshStart::operator()(const std::string& why) {
  LogWarning(absl::StrCat(why, ": starting anew"));
  std::vector<char*> argv;
  for (std::string& argument : arguments_) argv.push_back(argument.data());
  argv.push_back(nullptr);
  // The kernel closes all descriptors (close-on-exec), and with them the lost device; persistent interfaces stay.
  execv("/proc/self/exe", argv.data());
  LogWarning(absl::StrCat("start anew: ", strerror(errno)));
  _exit(1);
}

}  // namespace eoib
