// IP across the switch: ICMP errors, path MTU discovery through routers, fragments.
#include <poll.h>
#include <sys/socket.h>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/sockets.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

using ::testing::HasSubstr;

class IpTest : public SwitchTest {
 protected:
  void SetUp() override {
    SwitchTest::SetUp();
    auto hosts = AddNumberedAgents(2, {}, {.ipv6 = true});
    one_ = hosts[0];
    two_ = hosts[1];
  }

  Agent* one_ = nullptr;
  Agent* two_ = nullptr;
};

// ---- Errors -------------------------------------------------------------------------------------

// Sends a datagram on a connected socket and returns the error that comes back.
int ErrorOfSending(int socket) {
  const char byte = 0;
  if (send(socket, &byte, 1, 0) != 1) DieErrno("send");
  pollfd entry = {socket, POLLIN, 0};
  poll(&entry, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience)));
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

TEST_F(IpTest, PortUnreachableReachesSender) {
  for (const std::string& to : {Address(2), Address6(2)}) {
    UniqueFd socket = UdpConnect(one_->host(), to, 4444);
    EXPECT_EQ(ErrorOfSending(socket.get()), ECONNREFUSED) << to;
  }
}

// h1 -- switch -- h2 (router) -- link of MTU 1,400 -- far (router) -- server. h1 and the server
// have large MTUs.
class RoutersTest : public IpTest {
 protected:
  static constexpr char kServer[] = "10.2.0.2", kServer6[] = "fd02::2";

  void SetUp() override {
    IpTest::SetUp();
    Host* client = one_->host();
    Host* near = two_->host();
    Host* far = lab().AddHost("far", {.ipv6 = true});
    server_ = lab().AddHost("server", {.ipv6 = true});
    near->AddVeth("e1", far, "e0", 1400);
    far->AddVeth("e1", server_, "e0", 4070);
    for (Host* router : {near, far}) {
      router->Sysctl("ipv4/ip_forward", "1");
      router->Sysctl("ipv6/conf/all/forwarding", "1");
    }
    Connect(near, "e1", "10.1.0.1/24", "fd01::1/64");
    Connect(far, "e0", "10.1.0.2/24", "fd01::2/64");
    Connect(far, "e1", "10.2.0.1/24", "fd02::1/64");
    Connect(server_, "e0", absl::StrCat(kServer, "/24"), absl::StrCat(kServer6, "/64"));
    Default(client, Address(2), Address6(2));
    Default(near, "10.1.0.2", "fd01::2");
    Default(far, "10.1.0.1", "fd01::1");
    Default(server_, "10.2.0.1", "fd02::1");
  }

  static void Connect(Host* host, const std::string& interface, const std::string& prefix,
                      const std::string& prefix6) {
    host->AddAddress(interface, prefix);
    host->AddAddress(interface, prefix6);
  }
  static void Default(Host* host, const std::string& gateway, const std::string& gateway6) {
    host->MustIp("route add default via " + gateway);
    host->MustIp("-6 route add default via " + gateway6);
  }

  Host* server_ = nullptr;
};

TEST_F(RoutersTest, TimeExceededFromRouterReachesSender) {
  Host* client = one_->host();
  const RunResult ping = client->Run({"ping", "-n", "-c", "1", "-W", "5", "-t", "1", kServer});
  EXPECT_THAT(ping.out,
              HasSubstr(absl::StrCat("From ", Address(2), " icmp_seq=1 Time to live exceeded")));
  const RunResult ping6 = client->Run({"ping", "-n", "-c", "1", "-W", "5", "-t", "1", kServer6});
  EXPECT_THAT(ping6.out, HasSubstr(absl::StrCat("From ", Address6(2),
                                                " icmp_seq=1 Time exceeded: Hop limit")));
  ExpectPing(client, kServer);
  ExpectPing(client, kServer6);
}

TEST_F(RoutersTest, PacketTooBigFromRouterReachesSender) {
  Host* client = one_->host();
  const RunResult ping =
      client->Run({"ping", "-n", "-c", "1", "-W", "5", "-M", "do", "-s", "3000", kServer});
  EXPECT_THAT(ping.out + ping.err, HasSubstr("Frag needed and DF set (mtu = 1400)"));
  const RunResult ping6 =
      client->Run({"ping", "-n", "-c", "1", "-W", "5", "-M", "do", "-s", "3000", kServer6});
  EXPECT_THAT(ping6.out + ping6.err, HasSubstr("Packet too big: mtu=1400"));
  EXPECT_THAT(client->MustIp(absl::StrCat("route get ", kServer)), HasSubstr("mtu 1400"));
  EXPECT_THAT(client->MustIp(absl::StrCat("-6 route get ", kServer6)), HasSubstr("mtu 1400"));
  // In fragments it passes, and so does the answer, once the server has got the same error on its
  // side.
  for (const char* to : {kServer, kServer6}) {
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
      return client->Run({"ping", "-n", "-c", "1", "-W", "1", "-M", "want", "-s", "3000", to}).ok();
    })) << to;
  }
}

TEST_F(RoutersTest, TcpDiscoversSmallerPathMtu) {
  for (const char* to : {kServer, kServer6}) {
    UniqueFd listener = TcpListener(server_, to, 5000);
    UniqueFd client = TcpConnect(one_->host(), to, 5000);
    ASSERT_TRUE(client.valid()) << to;
    UniqueFd server = TcpAccept(listener.get());
    ASSERT_TRUE(server.valid()) << to;
    EXPECT_EQ(TcpTransfer(client.get(), server.get(), 4 << 20), "") << "to " << to;
    EXPECT_EQ(TcpTransfer(server.get(), client.get(), 4 << 20), "") << "from " << to;
  }
  // The first segments were too large: the router sent errors.
  EXPECT_GT(two_->host()->Counter("Icmp", "OutDestUnreachs"), 0u);
  EXPECT_GT(two_->host()->Counter("", "Icmp6OutPktTooBigs"), 0u);
}

// ---- Fragments ----------------------------------------------------------------------------------

Bytes Payload(size_t size) {
  Bytes payload;
  for (size_t i = 0; i < size; ++i) payload.push_back(static_cast<uint8_t>(i * 11 + (i >> 8)));
  return payload;
}

TEST_F(IpTest, FragmentedPingsAreAnswered) {
  for (const std::string& to : {Address(2), Address6(2)}) {
    // Resolve first: the kernel queues little for a new neighbour.
    ExpectPing(one_->host(), to, 1);
    // All fragments fit into the ring between the agents.
    ExpectPing(one_->host(), to, 5, "0.01", 10000);
  }
}

// With checksum offload the kernel leaves the checksum of an unfragmented datagram to the switch,
// which vouches for it. The switch must not vouch for a fragment, which is not a whole datagram.
TEST_F(IpTest, FragmentsArriveWithoutVouchedChecksum) {
  ASSERT_THAT(one_->host()->MustRun({"ethtool", "-k", "v1"}), HasSubstr("tx-checksumming: on"));
  for (bool ipv6 : {false, true}) {
    const std::string from = ipv6 ? Address6(1) : Address(1), to = ipv6 ? Address6(2) : Address(2);
    UniqueFd receiver = UdpSocket(two_->host(), to, 4000);
    UniqueFd sender = UdpSocket(one_->host(), from, 0);
    SendUdp(sender.get(), to, 4000, Payload(1000));
    ASSERT_EQ(ReceiveUdp(receiver.get()), absl::optional<Bytes>(Payload(1000))) << to;
    ExpectConservation(one_);
    const uint64_t vouched = one_->Stat("checksums_vouched");
    EXPECT_GT(vouched, 0u) << "the agent must vouch for a whole datagram";
    PacketSocket arrival(two_->host(), "v1");
    // At most what the ring between the agents holds before it has grown.
    for (size_t size : {4047, 8100, 40000}) {
      SendUdp(sender.get(), to, 4000, Payload(size));
      EXPECT_EQ(ReceiveUdp(receiver.get()), absl::optional<Bytes>(Payload(size)))
          << size << " bytes to " << to;
    }
    EXPECT_EQ(one_->Stat("checksums_vouched"), vouched);
    EXPECT_GE(arrival.Count(Any), 2u + 2u + 10u);
    EXPECT_EQ(arrival.unfinished_checksums(), 0u);
  }
}

}  // namespace
}  // namespace eoib::lab
