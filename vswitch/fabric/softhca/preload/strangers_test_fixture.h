// StrangersTest: unmodified programs by others, with our preload libraries, on one software subnet.
//
// The test program moves into its own network namespace, since some of the programs first meet by
// TCP.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_PRELOAD_STRANGERS_TEST_FIXTURE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_PRELOAD_STRANGERS_TEST_FIXTURE_H_

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "vswitch/base/child_for_test.h"
#include "vswitch/base/temp_dir_for_test.h"
#include "vswitch/fabric/softhca/fabric_client.h"
#include "vswitch/fabric/softhca/soft_node_for_test.h"
#include "vswitch/fabric/softhca/subnet/fabric_server.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"

namespace eoib::softhca {

// A child process with the preload libraries. Its output goes to a file; the destructor kills it.
class Program {
 public:
  Program(const std::string& directory, const std::string& port, std::vector<std::string> arguments,
          const std::string& socket = "fabricd.sock") {
    static std::atomic<int> count{0};
    output_ = absl::StrCat(directory, "/output.", ++count);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const std::string fabric = directory + "/" + socket;
    const pid_t test = getpid();
    pid_ = fork();
    if (pid_ != 0) return;
    DieWithTest(test);
    const int fd = open(output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(fd, 1);
    dup2(fd, 2);
    setenv("EOIB_FABRIC", fabric.c_str(), 1);
    setenv("EOIB_PORT", port.c_str(), 1);
    setenv("LD_PRELOAD", EOIB_VERBS_LIBRARY ":" EOIB_UMAD_LIBRARY, 1);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  ~Program() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  static constexpr int kKilled = 256;

  // Returns the exit status, kKilled plus the number of a signal, or -1 if it does not end in time.
  int Wait() {
    constexpr int kPatienceMs = 30'000;
    const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
    pollfd ended = {process.get(), POLLIN, 0};
    int status = 0;
    if (poll(&ended, 1, kPatienceMs) != 1 || waitpid(pid_, &status, 0) != pid_) return -1;
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : kKilled + WTERMSIG(status);
  }
  bool IsRunning() const {
    siginfo_t ended{};
    return waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid == 0;
  }
  std::string output() const {
    std::ifstream file(output_);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

 private:
  std::string output_;
  pid_t pid_;
};

class StrangersTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const bool apart = EnterOwnNetworkNamespace();
    ASSERT_TRUE(apart) << "cannot make a network namespace: " << std::strerror(errno);
  }

  void SetUp() override {
    auto server = FabricServer::Listen(directory_ + "/fabricd.sock", &subnet_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    thread_ = std::thread([this] {
      while (!stop_) {
        pollfd ready = {server_->fd(), POLLIN, 0};
        if (poll(&ready, 1, 20) == 1) server_->Run();
      }
    });
  }
  void TearDown() override {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    server_.reset();
  }

  // Runs a program that must succeed and returns its output; otherwise fails the test with the
  // output.
  std::string Run(const std::string& port, const std::string& command) {
    Program program(directory_, port, absl::StrSplit(command, ' '));
    EXPECT_EQ(program.Wait(), 0) << command << "\n" << program.output();
    return program.output();
  }
  // Runs a program that must fail by itself and returns its output.
  std::string RunInVain(const std::string& port, const std::string& command) {
    Program program(directory_, port, absl::StrSplit(command, ' '));
    const int status = program.Wait();
    EXPECT_GT(status, 0) << command << "\n" << program.output();
    EXPECT_NE(status, 127) << command << " was not found";
    EXPECT_LT(status, Program::kKilled) << command << "\n" << program.output();
    return program.output();
  }

  // A client that first talks TCP to a server. While the server does not listen yet, the client
  // fails, with a message.
  struct Pair {
    int server_status = -1, client_status = -1;
    std::string server, client;
  };
  Pair RunPair(std::vector<std::string> arguments) {
    arguments.push_back("-p");
    arguments.push_back(absl::StrCat(FreeTcpPort()));
    Program server(directory_, "server", arguments);
    arguments.push_back("127.0.0.1");
    std::unique_ptr<Program> client;
    Pair pair;
    EXPECT_TRUE(Eventually([&] {
      client = std::make_unique<Program>(directory_, "client", arguments);
      pair.client_status = client->Wait();
      return pair.client_status != 1 ||
             client->output().find("Couldn't connect") == std::string::npos;
    }));
    pair.server_status = server.Wait();
    pair.client = client->output();
    pair.server = server.output();
    EXPECT_EQ(pair.client_status, 0) << absl::StrJoin(arguments, " ") << "\n" << pair.client;
    EXPECT_EQ(pair.server_status, 0) << absl::StrJoin(arguments, " ") << "\n" << pair.server;
    return pair;
  }

  // Opens a node of ours on that port, like an agent.
  std::unique_ptr<SoftNode> OpenNode(const std::string& name, NodeOptions options = {}) const {
    FabricClient::Options client;
    client.socket = directory_ + "/fabricd.sock";
    return std::make_unique<SoftNode>(
        OpenSoftHca(std::make_unique<FabricClient>(client), name).value(), options);
  }
  PortConfig ConfigOf(const std::string& name) const {
    for (const Subnet::PortStatus& port : subnet_.Ports()) {
      if (port.name == name) return port.config;
    }
    ADD_FAILURE() << "no port " << name;
    return PortConfig();
  }

  static uint16_t FreeTcpPort() {
    const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    return ntohs(address.sin_port);
  }

  Subnet subnet_;
  const TempDir temporary_;
  const std::string directory_ = temporary_.path();

 private:
  static bool EnterOwnNetworkNamespace() {
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
    const UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq loopback{};
    std::strcpy(loopback.ifr_name, "lo");
    loopback.ifr_flags = IFF_UP;
    return ioctl(fd.get(), SIOCSIFFLAGS, &loopback) == 0;
  }

  std::unique_ptr<FabricServer> server_;
  std::thread thread_;
  std::atomic<bool> stop_{false};
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_PRELOAD_STRANGERS_TEST_FIXTURE_H_
