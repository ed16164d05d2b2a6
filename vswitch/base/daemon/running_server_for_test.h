// For tests of clients: a command server on its own thread, and a way to run programs.
#ifndef EOIB_VSWITCH_BASE_DAEMON_RUNNING_SERVER_FOR_TEST_H_
#define EOIB_VSWITCH_BASE_DAEMON_RUNNING_SERVER_FOR_TEST_H_

#include <sys/epoll.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "vswitch/base/check.h"
#include "vswitch/base/daemon/command_registry.h"
#include "vswitch/base/daemon/command_server.h"
#include "vswitch/base/daemon/event_loop.h"
#include "vswitch/base/temp_dir_for_test.h"

namespace eoib {

// Makes a directory that is removed when the program ends. Any thread.
inline std::string MakeTemporaryDirectory() {
  static absl::Mutex mutex;
  static std::list<TempDir> directories;
  absl::MutexLock lock(&mutex);
  return directories.emplace_back().path();
}

// Serves `registry` on a thread of its own. The registry must not change meanwhile.
class RunningServer {
 public:
  RunningServer(const std::string& path, const CommandRegistry* registry) {
    auto server = CommandServer::Listen(path, registry);
    EOIB_CHECK(server.ok());
    server_ = *std::move(server);
    EOIB_CHECK(loop_.Add(server_->fd(), EPOLLIN, [this](uint32_t) { server_->Run(); }).ok());
    thread_ = std::thread([this] { loop_.Run(); });
  }
  ~RunningServer() {
    loop_.Stop();
    thread_.join();
  }

 private:
  MonotonicClock clock_;
  EventLoop loop_{&clock_};
  std::unique_ptr<CommandServer> server_;
  std::thread thread_;
};

struct ProgramResult {
  int exit_status = -1;  // 127: the shell did not find the program
  std::string out;
  std::string err;
};

// Runs a shell command and waits for its end.
inline ProgramResult RunProgram(const std::string& command) {
  const std::string directory = MakeTemporaryDirectory();
  const auto content = [](const std::string& path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const int status =
      std::system((command + " >" + directory + "/out 2>" + directory + "/err </dev/null").c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, content(directory + "/out"),
          content(directory + "/err")};
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_DAEMON_RUNNING_SERVER_FOR_TEST_H_
