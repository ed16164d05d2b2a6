// ibverbs-utils on our HCA: ibv_devices, ibv_devinfo, ibv_ud_pingpong.
#include <arpa/inet.h>

#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "vswitch/fabric/softhca/preload/strangers_test_fixture.h"

namespace eoib::softhca {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

class StrangersVerbsTest : public StrangersTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(access("/usr/bin/ibv_devinfo", X_OK), 0)
        << "this test needs ibv_devinfo: apt-get install ibverbs-utils";
    StrangersTest::SetUp();
  }
  void PingPong(const std::vector<std::string>& options) {
    std::vector<std::string> arguments = {"ibv_ud_pingpong"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Pair pair = RunPair(arguments);
    for (const std::string& output : {pair.client, pair.server}) {
      EXPECT_THAT(output, ContainsRegex("[0-9]+ bytes in [0-9.]+ seconds"));
      EXPECT_THAT(output, ContainsRegex("[0-9]+ iters in [0-9.]+ seconds"));
    }
  }
};

TEST_F(StrangersVerbsTest, DevicesAreListed) {
  const std::string output = Run("host1", "ibv_devices");
  EXPECT_THAT(output, ContainsRegex("eoib0[[:space:]]+" +
                                    absl::StrFormat("%016x", ConfigOf("host1").node_guid.value())));
}

TEST_F(StrangersVerbsTest, DevinfoShowsThePortAsItIs) {
  std::string output = Run("host1", "ibv_devinfo");
  EXPECT_THAT(output, HasSubstr("eoib0"));
  EXPECT_THAT(output, ContainsRegex("state:[[:space:]]+PORT_ACTIVE \\(4\\)"));
  EXPECT_THAT(output, ContainsRegex("active_mtu:[[:space:]]+4096 \\(5\\)"));
  EXPECT_THAT(output, ContainsRegex("link_layer:[[:space:]]+InfiniBand"));
  EXPECT_THAT(output,
              ContainsRegex(absl::StrCat("port_lid:[[:space:]]+", ConfigOf("host1").lid.value())));
  EXPECT_THAT(output, ContainsRegex(absl::StrCat("node_guid:[[:space:]]+",
                                                 ConfigOf("host1").node_guid.ToString())));
  ASSERT_TRUE(subnet_.SetLid("host1", Lid(77)).ok());
  ASSERT_TRUE(subnet_.SetLink("host1", false).ok());
  ASSERT_TRUE(subnet_.MoveSm(Lid(88)).ok());
  output = Run("host1", "ibv_devinfo");
  EXPECT_THAT(output, ContainsRegex("state:[[:space:]]+PORT_DOWN \\(1\\)"));
  EXPECT_THAT(output, ContainsRegex("port_lid:[[:space:]]+77"));
  EXPECT_THAT(output, ContainsRegex("sm_lid:[[:space:]]+88"));
}

TEST_F(StrangersVerbsTest, VerboseDevinfoReadsTablesToo) {
  const std::string output = Run("host1", "ibv_devinfo -v");
  EXPECT_THAT(output, ContainsRegex("max_sge:[[:space:]]+32"));
  EXPECT_THAT(output, ContainsRegex("GID\\[ *0\\]:[[:space:]]+fe80:"));
}

TEST_F(StrangersVerbsTest, ASecondProcessSeesThePortButHasNoQueuePairsAndTheOwnerIsNotDisturbed) {
  auto owner = OpenNode("host1"), peer = OpenNode("host2");
  const PortConfig before = owner->config();
  const auto exchange = [&] {
    for (const auto& [from, to] :
         {std::pair(owner.get(), peer.get()), std::pair(peer.get(), owner.get())}) {
      ASSERT_EQ(from->Send(to->GlobalAddress(), "undisturbed"), 0);
      from->PollSend();
      const SoftNode::Received got = to->Receive();
      EXPECT_EQ(got.payload, "undisturbed");
      ASSERT_EQ(to->PostReceive(got.wc.wr_id), 0);
    }
  };
  ASSERT_NO_FATAL_FAILURE(exchange());

  const std::string output = Run("host1", "ibv_devinfo -v");
  EXPECT_THAT(output, ContainsRegex("state:[[:space:]]+PORT_ACTIVE \\(4\\)"));
  EXPECT_THAT(output, ContainsRegex("active_mtu:[[:space:]]+4096 \\(5\\)"));
  EXPECT_THAT(output, ContainsRegex(absl::StrCat("port_lid:[[:space:]]+", before.lid.value())));
  EXPECT_THAT(output, ContainsRegex(absl::StrCat("sm_lid:[[:space:]]+", before.sm_lid.value())));
  EXPECT_THAT(output, ContainsRegex(absl::StrCat("GID\\[ *0\\]:[[:space:]]+fe80:.*",
                                                 before.port_guid.ToString().substr(15))));
  const std::string refused = RunInVain("host1", "ibv_ud_pingpong");
  EXPECT_THAT(refused, HasSubstr("another process owns port host1"));
  EXPECT_THAT(refused, HasSubstr("Couldn't create QP"));

  EXPECT_EQ(owner->config().lid, before.lid);
  EXPECT_EQ(owner->config().qpns.first, before.qpns.first);
  EXPECT_EQ(subnet_.Ports().at(0).registrations, 1u);
  ASSERT_NO_FATAL_FAILURE(exchange());
  const SoftPortCounters counters = owner->counters();
  EXPECT_EQ(counters.xmit_discards + counters.corrupt_rings, 0u);
}

TEST_F(StrangersVerbsTest, WithoutAFabricThereIsNoDevice) {
  Program devinfo(directory_, "host1", {"ibv_devinfo"}, "absent.sock");
  EXPECT_NE(devinfo.Wait(), 0);
  EXPECT_THAT(devinfo.output(), HasSubstr("absent.sock"));
  Program list(directory_, "host1", {"sh", "-c", "unset EOIB_PORT; ibv_devinfo"});
  EXPECT_NE(list.Wait(), 0);
  EXPECT_THAT(list.output(), HasSubstr("set EOIB_FABRIC"));
}

TEST_F(StrangersVerbsTest, PingPong) { PingPong({}); }
TEST_F(StrangersVerbsTest, PingPongOfHalfTheMtu) { PingPong({"-s", "2048"}); }
TEST_F(StrangersVerbsTest, PingPongOfTheMtu) { PingPong({"-s", "4096"}); }
TEST_F(StrangersVerbsTest, PingPongSleepsOnEvents) { PingPong({"-e"}); }
TEST_F(StrangersVerbsTest, PingPongWithGrh) { PingPong({"-g", "0"}); }

TEST_F(StrangersVerbsTest, PingPongAboveTheMtuIsRefused) {
  EXPECT_THAT(RunInVain("host1", "ibv_ud_pingpong -s 4097"),
              HasSubstr("Requested size larger than port MTU (4096)"));
}

// As on hardware, datagrams of another partition are dropped and counted, and both sides wait for
// ever.
TEST_F(StrangersVerbsTest, PingPongBetweenPartitionsReceivesNothing) {
  ASSERT_TRUE(subnet_.RemoveFromPartition(PKey(0xffff), "ALL").ok());
  ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8001), "server", Membership::kFull).ok());
  ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8002), "client", Membership::kFull).ok());
  const std::string tcp = absl::StrCat(FreeTcpPort());
  Program server(directory_, "server", {"ibv_ud_pingpong", "-p", tcp});
  std::unique_ptr<Program> client;
  ASSERT_TRUE(Eventually([&] {
    if (client == nullptr || !client->IsRunning()) {
      client = std::make_unique<Program>(
          directory_, "client",
          std::vector<std::string>{"ibv_ud_pingpong", "-p", tcp, "127.0.0.1"});
    }
    const auto counters = subnet_.CountersOf("server");
    return counters.has_value() && counters->rcv_pkey_violations == 1;
  })) << server.output();
  EXPECT_EQ(subnet_.CountersOf("server")->rcv_delivered, 0u);
  EXPECT_TRUE(server.IsRunning()) << server.output();
  EXPECT_TRUE(client->IsRunning()) << client->output();
}

// Our own client: it says over TCP what ibv_ud_pingpong says, then sends whatever the test wants.
class PingPongPeer {
 public:
  explicit PingPongPeer(SoftNode* node) : node_(node) {}

  // Returns true once the server at that TCP port has accepted us as its client; its address is
  // *server.
  bool Meet(uint16_t tcp_port, Destination* server) {
    const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(tcp_port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      return false;
    char message[sizeof "0000:000000:000000:00000000000000000000000000000000"] = {};
    std::snprintf(message, sizeof(message), "%04x:%06x:%06x:%032d", node_->config().lid.value(),
                  node_->qpn().value(), 0, 0);
    unsigned lid = 0, qpn = 0;
    if (write(fd.get(), message, sizeof(message)) != sizeof(message) ||
        recv(fd.get(), message, sizeof(message), MSG_WAITALL) != sizeof(message) ||
        std::sscanf(message, "%x:%x:", &lid, &qpn) != 2 ||
        write(fd.get(), "done", sizeof "done") != sizeof "done") {
      ADD_FAILURE() << "the server does not keep to its own protocol";
      return false;
    }
    server->dlid = static_cast<uint16_t>(lid);
    server->qpn = Qpn(qpn);
    return true;
  }

 private:
  SoftNode* const node_;
};

TEST_F(StrangersVerbsTest, PingPongWithAnotherQKeyReceivesNothing) {
  constexpr uint32_t kPingPongQKey = 0x11111111;
  const uint16_t tcp = FreeTcpPort();
  Program server(directory_, "server", {"ibv_ud_pingpong", "-p", absl::StrCat(tcp), "-n", "1"});
  NodeOptions options;
  options.qkey = kPingPongQKey;
  auto node = OpenNode("client", options);
  Destination to;
  ASSERT_TRUE(Eventually([&] { return PingPongPeer(node.get()).Meet(tcp, &to); }))
      << server.output();
  to.qkey = kPingPongQKey + 1;
  ASSERT_EQ(node->Send(to, std::string(1024, 'x')), 0);
  node->PollSend();
  EXPECT_TRUE(Eventually([&] { return subnet_.CountersOf("server")->rcv_qkey_violations == 1; }));
  EXPECT_EQ(subnet_.CountersOf("server")->rcv_delivered, 0u);
  EXPECT_TRUE(server.IsRunning());
  to.qkey = kPingPongQKey;
  ASSERT_EQ(node->Send(to, std::string(1024, 'x')), 0);
  node->PollSend();
  EXPECT_EQ(node->Receive().payload.size(), 1024u) << "the right one is answered";
  EXPECT_EQ(server.Wait(), 0) << server.output();
}

}  // namespace
}  // namespace eoib::softhca
