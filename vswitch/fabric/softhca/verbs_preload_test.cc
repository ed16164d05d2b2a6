// Programs of strangers on our HCA: ibv_devinfo and ibv_ud_pingpong of ibverbs-utils, unmodified, with libeoib-verbs.so
// preloaded.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fdb/temp_dir_for_test.h"
#include "vswitch/fabric/softhca/fabric_client.h"
#include "vswitch/fabric/softhca/soft_node_for_test.h"
#include "vswitch/fabric/softhca/subnet/fabric_server.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"

namespace eoib::softhca {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

// A child process with the preload library, whose output goes to a file. Killed at the end.
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
    pid_ = fork();
    if (pid_ != 0) return;
    const int fd = open(output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(fd, 1);
    dup2(fd, 2);
    setenv("EOIB_FABRIC", fabric.c_str(), 1);
    setenv("EOIB_PORT", port.c_str(), 1);
    setenv("LD_PRELOAD", EOIB_VERBS_LIBRARY, 1);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  ~Program() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  // The exit status, or -1 if it does not end in time.
  int Wait() {
    int status = -1;
    if (!Eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; })) return -1;
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
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

class VerbsPreloadTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(access("/usr/bin/ibv_devinfo", X_OK), 0) << "this test needs ibv_devinfo: apt-get install ibverbs-utils";
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

  // Runs the two sides of ibv_ud_pingpong on two ports.
  void PingPong(const std::vector<std::string>& options) {
    std::vector<std::string> arguments = {"ibv_ud_pingpong", "-p", absl::StrCat(FreeTcpPort())};
    arguments.insert(arguments.end(), options.begin(), options.end());
    Program server(directory_, "server", arguments);
    arguments.push_back("127.0.0.1");
    // Until the server listens, a client finds nobody and says so.
    std::unique_ptr<Program> client;
    int status = -1;
    ASSERT_TRUE(Eventually([&] {
      client = std::make_unique<Program>(directory_, "client", arguments);
      status = client->Wait();
      return status != 1 || client->output().find("Couldn't connect") == std::string::npos;
    }));
    EXPECT_EQ(status, 0) << client->output();
    EXPECT_EQ(server.Wait(), 0) << server.output();
    for (const std::string& output : {client->output(), server.output()}) {
      EXPECT_THAT(output, ContainsRegex("[0-9]+ bytes in [0-9.]+ seconds"));
      EXPECT_THAT(output, ContainsRegex("[0-9]+ iters in [0-9.]+ seconds"));
    }
  }

  Subnet subnet_;
  const TempDir temporary_;
  const std::string directory_ = temporary_.path();
  std::unique_ptr<FabricServer> server_;
  std::thread thread_;
  std::atomic<bool> stop_{false};
};

TEST_F(VerbsPreloadTest, DevinfoShowsThePort) {
  Program devinfo(directory_, "host1", {"ibv_devinfo"});
  ASSERT_EQ(devinfo.Wait(), 0) << devinfo.output();
  const std::string output = devinfo.output();
  EXPECT_THAT(output, HasSubstr("eoib0"));
  EXPECT_THAT(output, ContainsRegex("state:[[:space:]]+PORT_ACTIVE \\(4\\)"));
  EXPECT_THAT(output, ContainsRegex("active_mtu:[[:space:]]+4096 \\(5\\)"));
  EXPECT_THAT(output, ContainsRegex("link_layer:[[:space:]]+InfiniBand"));
  EXPECT_THAT(output, ContainsRegex(absl::StrCat("port_lid:[[:space:]]+", subnet_.Ports().at(0).config.lid.value())));
  EXPECT_THAT(output, ContainsRegex(absl::StrCat("node_guid:[[:space:]]+", subnet_.Ports().at(0).config.node_guid.ToString())));
}

TEST_F(VerbsPreloadTest, VerboseDevinfoReadsTablesToo) {
  Program devinfo(directory_, "host1", {"ibv_devinfo", "-v"});
  ASSERT_EQ(devinfo.Wait(), 0) << devinfo.output();
  EXPECT_THAT(devinfo.output(), ContainsRegex("max_sge:[[:space:]]+32"));
  EXPECT_THAT(devinfo.output(), HasSubstr("GID["));
}

TEST_F(VerbsPreloadTest, ASecondProcessSeesThePortButHasNoQueuePairsAndTheOwnerIsNotDisturbed) {
  FabricClient::Options options;
  options.socket = directory_ + "/fabricd.sock";
  const auto open = [&](const std::string& name) {
    return std::make_unique<SoftNode>(OpenSoftHca(std::make_unique<FabricClient>(options), name).value());
  };
  auto owner = open("host1"), peer = open("host2");
  const PortConfig before = owner->config();
  const auto exchange = [&] {
    for (const auto& [from, to] : {std::pair(owner.get(), peer.get()), std::pair(peer.get(), owner.get())}) {
      ASSERT_EQ(from->Send(to->GlobalAddress(), "undisturbed"), 0);
      from->PollSend();
      const SoftNode::Received got = to->Receive();
      EXPECT_EQ(got.payload, "undisturbed");
      ASSERT_EQ(to->PostReceive(got.wc.wr_id), 0);
    }
  };
  ASSERT_NO_FATAL_FAILURE(exchange());

  Program devinfo(directory_, "host1", {"ibv_devinfo", "-v"});
  EXPECT_EQ(devinfo.Wait(), 0) << devinfo.output();
  const std::string output = devinfo.output();
  EXPECT_THAT(output, ContainsRegex("state:[[:space:]]+PORT_ACTIVE \\(4\\)"));
  EXPECT_THAT(output, ContainsRegex("active_mtu:[[:space:]]+4096 \\(5\\)"));
  EXPECT_THAT(output, ContainsRegex(absl::StrCat("port_lid:[[:space:]]+", before.lid.value())));
  EXPECT_THAT(output, ContainsRegex(absl::StrCat("sm_lid:[[:space:]]+", before.sm_lid.value())));
  EXPECT_THAT(output, ContainsRegex(absl::StrCat("GID\\[ *0\\]:[[:space:]]+fe80:.*", before.port_guid.ToString().substr(15))));
  Program pingpong(directory_, "host1", {"ibv_ud_pingpong"});
  EXPECT_NE(pingpong.Wait(), 0);
  EXPECT_THAT(pingpong.output(), HasSubstr("another process owns port host1"));
  EXPECT_THAT(pingpong.output(), HasSubstr("Couldn't create QP"));

  EXPECT_EQ(owner->config().lid, before.lid);
  EXPECT_EQ(owner->config().qpns.first, before.qpns.first);
  EXPECT_EQ(subnet_.Ports().at(0).registrations, 1u);
  ASSERT_NO_FATAL_FAILURE(exchange());
  const PortCounters counters = owner->counters();
  EXPECT_EQ(counters.xmit_discards + counters.corrupt_rings, 0u);
}

TEST_F(VerbsPreloadTest, WithoutAFabricThereIsNoDevice) {
  Program devinfo(directory_, "host1", {"ibv_devinfo"}, "nobody.sock");
  EXPECT_NE(devinfo.Wait(), 0);
  EXPECT_THAT(devinfo.output(), HasSubstr("nobody.sock"));
  Program list(directory_, "host1", {"sh", "-c", "unset EOIB_PORT; ibv_devinfo"});
  EXPECT_NE(list.Wait(), 0);
  EXPECT_THAT(list.output(), HasSubstr("set EOIB_FABRIC"));
}

TEST_F(VerbsPreloadTest, PingPong) { PingPong({}); }
TEST_F(VerbsPreloadTest, PingPongOfTheMtu) { PingPong({"-s", "2048"}); }
TEST_F(VerbsPreloadTest, PingPongSleepsOnEvents) { PingPong({"-e"}); }
TEST_F(VerbsPreloadTest, PingPongWithGrh) { PingPong({"-g", "0"}); }

}  // namespace
}  // namespace eoib::softhca
