// Ports in several processes on a fabricd, as far as that is more than ports in one: sockets, death, restart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

#include "fdb/temp_dir_for_test.h"
#include "vswitch/fabric/softhca/fabric_client.h"
#include "vswitch/fabric/softhca/fabric_server.h"
#include "vswitch/fabric/softhca/soft_node_for_test.h"
#include "vswitch/fabric/softhca/subnet.h"

namespace eoib::softhca {
namespace {

std::unique_ptr<SoftNode> Open(const std::string& socket, const std::string& name) {
  FabricClient::Options options;
  options.socket = socket;
  absl::StatusOr<std::unique_ptr<Hca>> hca = OpenSoftHca(std::make_unique<FabricClient>(options), name);
  EXPECT_TRUE(hca.ok()) << hca.status();
  return std::make_unique<SoftNode>(*std::move(hca));
}

// A fabricd in a thread.
class Fabricd {
 public:
  explicit Fabricd(const std::string& socket) : server_(FabricServer::Listen(socket, &subnet_).value()) {
    thread_ = std::thread([this] {
      while (!stop_) {
        pollfd ready = {server_->fd(), POLLIN, 0};
        if (poll(&ready, 1, 10) == 1) server_->Run();
      }
    });
  }
  ~Fabricd() {
    stop_ = true;
    thread_.join();
  }
  const Subnet& subnet() const { return subnet_; }

 private:
  Subnet subnet_;
  std::unique_ptr<FabricServer> server_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class SoftFabricTest : public testing::Test {
 protected:
  const TempDir directory_;  // outlives what is in it
  SoftFabricTest() {
    socket_ = directory_.path() + "/fabricd.sock";
    fabricd_ = std::make_unique<Fabricd>(socket_);
  }
  static void Exchange(SoftNode* a, SoftNode* b) {
    for (const auto& [from, to] : {std::make_pair(a, b), std::make_pair(b, a)}) {
      ASSERT_EQ(from->Send(to->GlobalAddress(), "hello"), 0);
      EXPECT_EQ(from->PollSend().status, IBV_WC_SUCCESS);
      const SoftNode::Received got = to->Receive();
      EXPECT_EQ(got.payload, "hello");
      EXPECT_EQ(got.wc.slid, from->config().lid.value());
      ASSERT_EQ(to->PostReceive(got.wc.wr_id), 0);
    }
  }

  std::string socket_;
  std::unique_ptr<Fabricd> fabricd_;
};

TEST_F(SoftFabricTest, RingsOutliveFabricdAndItsSuccessorLearnsOfThem) {
  auto a = Open(socket_, "a"), b = Open(socket_, "b");
  Exchange(a.get(), b.get());
  const Lid lid = a->config().lid;
  const QpnRange qpns = a->config().qpns;
  fabricd_.reset();
  Exchange(a.get(), b.get());
  fabricd_ = std::make_unique<Fabricd>(socket_);
  for (SoftNode* node : {a.get(), b.get()}) {
    ibv_async_event event{};
    while (event.event_type != IBV_EVENT_CLIENT_REREGISTER) {
      ASSERT_EQ(node->verbs().get_async_event(node->hca().context(), &event), 0);
    }
  }
  EXPECT_EQ(a->config().lid, lid);
  EXPECT_EQ(a->config().qpns.first, qpns.first);
  Exchange(a.get(), b.get());
  EXPECT_TRUE(Eventually([&] {
    a->Poll();
    b->Poll();
    return fabricd_->subnet().Rings().size() == 2 && a->port().rings().inbound == 1 && b->port().rings().inbound == 1;
  })) << "known rings in place of unknown ones";
  Exchange(a.get(), b.get());
  EXPECT_EQ(a->counters().xmit_discards + b->counters().xmit_discards, 0u);
}

// Not a test: what the child process of the next one does. It sends to the address it is given until it is killed.
TEST(SoftFabricChild, DISABLED_SendsForEver) {
  const char* socket = std::getenv("SOFT_FABRIC_TEST_SOCKET");
  ASSERT_NE(socket, nullptr);
  auto node = Open(socket, "child");
  const Destination to = {static_cast<uint16_t>(std::atoi(std::getenv("SOFT_FABRIC_TEST_LID"))),
                          Qpn(static_cast<uint32_t>(std::atoi(std::getenv("SOFT_FABRIC_TEST_QPN")))), 0x1234, absl::nullopt};
  for (;;) {
    node->Send(to, std::string(3000, 'c'));
    node->PollSend();
  }
}

pid_t StartChild(const std::string& socket, const Destination& to) {
  const std::string lid = std::to_string(to.dlid), qpn = std::to_string(to.qpn.value());
  const pid_t child = fork();
  if (child != 0) return child;
  setenv("SOFT_FABRIC_TEST_SOCKET", socket.c_str(), 1);
  setenv("SOFT_FABRIC_TEST_LID", lid.c_str(), 1);
  setenv("SOFT_FABRIC_TEST_QPN", qpn.c_str(), 1);
  execl("/proc/self/exe", "child", "--gtest_filter=SoftFabricChild.*", "--gtest_also_run_disabled_tests", "--gtest_brief=1",
        nullptr);
  _exit(127);
}

TEST_F(SoftFabricTest, AKilledProcessHarmsNobodyAndItsNameIsFreeAgain) {
  auto a = Open(socket_, "a"), b = Open(socket_, "b");
  for (const bool fabricd_dies_first : {false, true}) {
    SCOPED_TRACE(fabricd_dies_first);
    const uint64_t before = a->counters().rcv_delivered;
    const pid_t child = StartChild(socket_, a->Address());
    const auto receive = [&] {
      while (const auto got = a->Poll()) a->PostReceive(got->wc.wr_id);
    };
    EXPECT_TRUE(Eventually([&] {
      receive();
      return a->counters().rcv_delivered > before + 100;
    }));
    if (fabricd_dies_first) fabricd_.reset();
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    EXPECT_TRUE(Eventually([&] {
      receive();
      return a->port().rings().inbound <= 1;  // b's
    }));
    Exchange(a.get(), b.get());
  }
}

}  // namespace
}  // namespace eoib::softhca
