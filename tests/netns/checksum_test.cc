// Checksum offload: a packet with an unfinished checksum is accepted by the receiver, and also
// behind a router. A wrong checksum stays wrong.
#include <sys/socket.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/sockets.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

using ::testing::HasSubstr;

const MacAddr kA = MacAddr::FromUint64(0x02'aa'00'00'00'01);

Bytes Payload(size_t size) {
  Bytes payload;
  for (size_t i = 0; i < size; ++i) payload.push_back(static_cast<uint8_t>(i * 11 + size));
  return payload;
}

bool IsTcpOrUdp(const Bytes& frame) {
  if (frame.size() < 34) return false;
  const uint8_t protocol = OfEtherType(0x0800)(frame)   ? frame[23]
                           : OfEtherType(0x86dd)(frame) ? frame[20]
                                                        : 0;
  return protocol == 6 || protocol == 17;
}

// The sum of the kernel's counters of wrong checksums.
uint64_t ChecksumErrorsOf(Host* host) {
  return host->Counter("Udp", "InCsumErrors") + host->Counter("Tcp", "InCsumErrors") +
         host->Counter("", "Udp6InCsumErrors") + host->Counter("Icmp", "InCsumErrors");
}

class ChecksumTest : public SwitchTest {
 protected:
  void AddTwo() {
    auto hosts = AddNumberedAgents(2, {}, {.ipv6 = true});
    one_ = hosts[0];
    two_ = hosts[1];
  }

  Agent* one_ = nullptr;
  Agent* two_ = nullptr;
};

TEST_F(ChecksumTest, ChecksumOffloadIsOfferedAndAgentVouches) {
  AddTwo();
  EXPECT_THAT(one_->host()->MustRun({"ethtool", "-k", "v1"}), HasSubstr("tx-checksumming: on"));
  UniqueFd receiver = UdpSocket(two_->host(), Address(2), 4000);
  UniqueFd sender = UdpSocket(one_->host(), Address(1), 0);
  const uint64_t vouched = one_->Stat("checksums_vouched");
  PacketSocket arrival(two_->host(), "v1");
  SendUdp(sender.get(), Address(2), 4000, Payload(100));
  EXPECT_EQ(ReceiveUdp(receiver.get()), absl::optional<Bytes>(Payload(100)));
  EXPECT_EQ(one_->Stat("checksums_vouched"), vouched + 1);
  EXPECT_TRUE(arrival.WaitFor(OfEtherType(0x0800)));
  EXPECT_GE(arrival.unfinished_checksums(), 1u)
      << "the receiving interface must be told to complete it";
}

TEST_F(ChecksumTest, ReceiversAcceptUdpOfEverySizeAndFamily) {
  AddTwo();
  const uint64_t errors = ChecksumErrorsOf(two_->host());
  for (bool ipv6 : {false, true}) {
    const std::string from = ipv6 ? Address6(1) : Address(1), to = ipv6 ? Address6(2) : Address(2);
    UniqueFd receiver = UdpSocket(two_->host(), to, 4000);
    UniqueFd sender = UdpSocket(one_->host(), from, 0);
    // Odd lengths, padded frames, full frames, fragments.
    for (size_t size :
         {0, 1, 2, 3, 5, 17, 18, 19, 20, 63, 100, 1471, 4025, 4026, 4045, 4046, 9001}) {
      SendUdp(sender.get(), to, 4000, Payload(size));
      EXPECT_EQ(ReceiveUdp(receiver.get()), absl::optional<Bytes>(Payload(size)))
          << size << " bytes to " << to;
    }
  }
  EXPECT_EQ(ChecksumErrorsOf(two_->host()), errors);
}

TEST_F(ChecksumTest, ReceiversAcceptUdpWithoutAChecksum) {
  AddTwo();
  UniqueFd receiver = UdpSocket(two_->host(), Address(2), 4000);
  UniqueFd sender = UdpSocket(one_->host(), Address(1), 0);
  SetOption(sender.get(), SOL_SOCKET, SO_NO_CHECK, int{1}, "set SO_NO_CHECK");
  SendUdp(sender.get(), Address(2), 4000, Payload(33));
  EXPECT_EQ(ReceiveUdp(receiver.get()), absl::optional<Bytes>(Payload(33)));
}

TEST_F(ChecksumTest, ReceiversAcceptTcp) {
  AddTwo();
  for (bool ipv6 : {false, true}) {
    const std::string to = ipv6 ? Address6(2) : Address(2);
    UniqueFd listener = TcpListener(two_->host(), to, 5000);
    UniqueFd client = TcpConnect(one_->host(), to, 5000);
    ASSERT_TRUE(client.valid()) << to;
    UniqueFd server = TcpAccept(listener.get());
    EXPECT_EQ(TcpTransfer(client.get(), server.get(), 4 << 20), "");
  }
  EXPECT_EQ(ChecksumErrorsOf(one_->host()) + ChecksumErrorsOf(two_->host()), 0u);
}

// The second host routes to a third over a veth pair without checksum offload, so packets there
// must have complete checksums.
class RouterTest : public ChecksumTest {
 protected:
  void SetUp() override {
    ChecksumTest::SetUp();
    AddTwo();
    behind_ = lab().AddHost("behind", {.ipv6 = true});
    Host* router = two_->host();
    router->AddVeth("r0", behind_, "e0", 4070);
    router->MustRun({"ethtool", "-K", "r0", "tx", "off"});
    behind_->MustRun({"ethtool", "-K", "e0", "gro", "off"});
    router->Sysctl("ipv4/ip_forward", "1");
    router->Sysctl("ipv6/conf/all/forwarding", "1");
    router->AddAddress("r0", "10.1.0.1/24");
    router->AddAddress("r0", "fd01::1/64");
    behind_->AddAddress("e0", "10.1.0.2/24");
    behind_->AddAddress("e0", "fd01::2/64");
    behind_->MustIp("route add default via 10.1.0.1");
    behind_->MustIp("-6 route add default via fd01::1");
    one_->host()->MustIp("route add 10.1.0.0/24 via " + Address(2));
    one_->host()->MustIp("-6 route add fd01::/64 via " + Address6(2));
    wire_ = std::make_unique<PacketSocket>(behind_, "e0");
  }

  void ExpectOnlyFinishedChecksums() {
    size_t packets = 0;
    for (const Bytes& frame : wire_->received()) {
      if (!IsTcpOrUdp(frame)) continue;
      ++packets;
      ASSERT_EQ(ChecksumErrors(frame), "") << Hex(frame);
    }
    EXPECT_GT(packets, 0u);
    EXPECT_EQ(wire_->unfinished_checksums(), 0u);
    EXPECT_EQ(ChecksumErrorsOf(behind_), 0u);
  }

  Host* behind_ = nullptr;
  std::unique_ptr<PacketSocket> wire_;
};

TEST_F(RouterTest, UdpLeavesRouterWithCompleteChecksum) {
  for (bool ipv6 : {false, true}) {
    const std::string from = ipv6 ? Address6(1) : Address(1), to = ipv6 ? "fd01::2" : "10.1.0.2";
    UniqueFd receiver = UdpSocket(behind_, to, 4000);
    UniqueFd sender = UdpSocket(one_->host(), from, 0);
    for (size_t size : {0, 1, 19, 100, 1471, 4026}) {
      SendUdp(sender.get(), to, 4000, Payload(size));
      EXPECT_EQ(ReceiveUdp(receiver.get()), absl::optional<Bytes>(Payload(size)))
          << size << " bytes to " << to;
    }
  }
  EXPECT_GT(one_->Stat("checksums_vouched"), 0u);
  ExpectOnlyFinishedChecksums();
}

TEST_F(RouterTest, TcpLeavesRouterWithCompleteChecksum) {
  for (const char* to : {"10.1.0.2", "fd01::2"}) {
    UniqueFd listener = TcpListener(behind_, to, 5000);
    UniqueFd client = TcpConnect(one_->host(), to, 5000);
    ASSERT_TRUE(client.valid()) << to;
    UniqueFd server = TcpAccept(listener.get());
    EXPECT_EQ(TcpTransfer(client.get(), server.get(), 1 << 20), "");
    EXPECT_EQ(TcpTransfer(server.get(), client.get(), 1 << 20), "");
  }
  ExpectOnlyFinishedChecksums();
}

// Agents of one VES may send different headers. With the alternative header a frame carries
// complete checksums.
TEST_F(ChecksumTest, AgentsWithDifferentHeadersExchangeTcpAndUdp) {
  StartFabric({{0x8001, {"ALL"}}, {0x8002, {"ALL"}}});
  AgentSpec eoib, xve;
  eoib.veses = {{"red", 0x8001, ""}, {"blue", 0x8002, "header = \"xve\"\n"}};
  xve.veses = {{"red", 0x8001, "header = \"xve\"\n"}, {"blue", 0x8002, "header = \"xve\"\n"}};
  eoib.vports = xve.vports = {{"v1", "red", ""}, {"v2", "blue", ""}};
  one_ = &AddAgent("h1", eoib);
  two_ = &AddAgent("h2", xve);
  for (Agent* agent : {one_, two_}) {
    const std::string number = agent == one_ ? "1" : "2";
    agent->host()->AddAddress("v1", "10.0.1." + number + "/24");
    agent->host()->AddAddress("v2", "10.0.2." + number + "/24");
  }
  for (const std::string net : {"10.0.1.", "10.0.2."}) {
    SCOPED_TRACE(net);
    UniqueFd listener = TcpListener(two_->host(), net + "2", 5000);
    UniqueFd client = TcpConnect(one_->host(), net + "2", 5000);
    ASSERT_TRUE(client.valid());
    UniqueFd server = TcpAccept(listener.get());
    EXPECT_EQ(TcpTransfer(client.get(), server.get(), 1 << 20), "");
    EXPECT_EQ(TcpTransfer(server.get(), client.get(), 1 << 20), "");
    UniqueFd there = UdpSocket(two_->host(), net + "2", 4000),
             here = UdpSocket(one_->host(), net + "1", 4000);
    for (size_t size : {0, 1, 19, 1471, 4026, 9001}) {
      SendUdp(here.get(), net + "2", 4000, Payload(size));
      EXPECT_EQ(ReceiveUdp(there.get()), absl::optional<Bytes>(Payload(size)))
          << size << " bytes to h2";
      SendUdp(there.get(), net + "1", 4000, Payload(size));
      EXPECT_EQ(ReceiveUdp(here.get()), absl::optional<Bytes>(Payload(size)))
          << size << " bytes to h1";
    }
  }
  EXPECT_GT(one_->Stat("checksums_vouched", "red"), 0u);
  EXPECT_EQ(two_->Stat("checksums_vouched", "red"), 0u);
  for (Agent* agent : {one_, two_}) EXPECT_EQ(agent->Stat("checksums_vouched", "blue"), 0u);
  EXPECT_EQ(ChecksumErrorsOf(one_->host()) + ChecksumErrorsOf(two_->host()), 0u);
}

TEST_F(ChecksumTest, WrongChecksumStaysWrong) {
  AddTwo();
  PacketSocket raw(one_->host(), "v1");
  UniqueFd receiver = UdpSocket(two_->host(), Address(2), 4000);
  const Flow4 flow = {Mac(two_->host()->Mac("v1")), kA, Ip4(Address(1)), Ip4(Address(2))};
  const uint64_t errors = ChecksumErrorsOf(two_->host());
  constexpr int kDatagrams = 10;
  for (int i = 0; i < kDatagrams; ++i) {
    Bytes datagram = UdpDatagram(flow, 4001, 4000, Payload(50 + i));
    datagram[45 + i] ^= 0x10;  // in the payload, which the checksum covers
    raw.Send(datagram);
  }
  const Bytes good = Payload(7);
  raw.Send(UdpDatagram(flow, 4001, 4000, good));
  EXPECT_EQ(ReceiveUdp(receiver.get()), absl::optional<Bytes>(good))
      << "the first datagram that is delivered is the good one";
  EXPECT_EQ(ChecksumErrorsOf(two_->host()), errors + kDatagrams);
}

}  // namespace
}  // namespace eoib::lab
