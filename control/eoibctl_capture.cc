#include "control/eoibctl_capture.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "vswitch/base/daemon/directories.h"
#include "vswitch/base/unique_fd.h"

namespace eoib {
namespace {

constexpr int kDone = 0, kNoAnswer = 1, kRefused = 2;

// A fifo that only this user may open. Once both ends are open it needs no name.
class PrivateFifo {
 public:
  ~PrivateFifo() { Remove(); }

  bool Make(const std::string& parent) {
    directory_ = absl::StrCat(parent, "/capture.XXXXXX");
    if (mkdtemp(directory_.data()) == nullptr) {
      directory_.clear();
      return Failed(parent);
    }
    path_ = directory_ + "/fifo";
    if (mkfifo(path_.c_str(), 0600) != 0) return Failed(path_);
    reader_ = UniqueFd(open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    return reader_.valid() || Failed(path_);
  }
  void Remove() {
    if (directory_.empty()) return;
    unlink(path_.c_str());
    rmdir(directory_.c_str());
    directory_.clear();
  }
  const std::string& path() const { return path_; }
  int reader() const { return reader_.get(); }

 private:
  static bool Failed(const std::string& path) {
    std::fprintf(stderr, "eoibctl: make a fifo in %s: %s\n", path.c_str(), std::strerror(errno));
    return false;
  }

  std::string directory_, path_;
  UniqueFd reader_;
};

UniqueFd SignalFd() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return UniqueFd(signalfd(-1, &set, SFD_CLOEXEC));
}

enum class End { kCapture, kReader, kSignal };

// Copies what is in the fifo now. Nothing if the copy may go on.
absl::optional<End> CopyOnce(int fifo) {
  static char bytes[64 << 10];
  const ssize_t size = read(fifo, bytes, sizeof(bytes));
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return absl::nullopt;
  if (size <= 0) return End::kCapture;
  // By stdio, whose errors CheckOutputAtExit reports.
  const size_t written = std::fwrite(bytes, 1, static_cast<size_t>(size), stdout);
  if (written != static_cast<size_t>(size) || std::fflush(stdout) != 0) return End::kReader;
  return absl::nullopt;
}

// Standard output reports its reader's end as POLLERR, also while there is nothing to copy.
End Copy(int fifo, int signals) {
  pollfd fds[] = {{fifo, POLLIN, 0}, {signals, POLLIN, 0}, {STDOUT_FILENO, 0, 0}};
  while (true) {
    if (poll(fds, 3, -1) < 0) continue;
    if ((fds[2].revents & (POLLERR | POLLHUP)) != 0) return End::kReader;
    if (fds[1].revents != 0) return End::kSignal;
    if (fds[0].revents == 0) continue;
    if (const absl::optional<End> end = CopyOnce(fifo)) return *end;
  }
}

}  // namespace

int StreamCapture(const std::string& socket, const std::vector<std::string>& options,
                  const Caller& call) {
  if (isatty(STDOUT_FILENO) == 1) {
    std::fprintf(
        stderr,
        "eoibctl: a capture is no text for a terminal: add \"| tshark -r -\", or name a file\n");
    return kRefused;
  }
  const UniqueFd signals = SignalFd();
  PrivateFifo fifo;
  if (!fifo.Make(DirectoryOf(socket))) return kNoAnswer;
  std::vector<std::string> arguments = {fifo.path()};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const absl::optional<CommandReply> reply = call("capture/start", arguments);
  if (!reply.has_value()) return kNoAnswer;
  std::fputs(reply->text.c_str(), stderr);
  if (reply->is_error) return kRefused;
  fifo.Remove();
  if (Copy(fifo.reader(), signals.get()) == End::kCapture) return kDone;
  // Only this capture: somebody may have started another one, which has ended it.
  const absl::optional<CommandReply> stopped = call("capture/stop", {fifo.path()});
  while (!CopyOnce(fifo.reader()).has_value()) {  // what was recorded before the stop
  }
  return stopped.has_value() ? kDone : kNoAnswer;
}

}  // namespace eoib
