// Basic connectivity: hosts communicate as on one Ethernet switch.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/sockets.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

using ::testing::HasSubstr;

MacAddr StationMac(int number) { return MacAddr::FromUint64(0x02'aa'00'00'00'00 + number); }

class ConnectivityTest : public SwitchTest {};

TEST_F(ConnectivityTest, PingInBothDirections) {
  auto hosts = AddNumberedAgents(2);
  ExpectPing(hosts[0]->host(), Address(2));
  ExpectPing(hosts[1]->host(), Address(1));
}

TEST_F(ConnectivityTest, PingOfEverySizeUpToTheMtu) {
  auto hosts = AddNumberedAgents(2);
  // The interface's MTU is 4,070 on a 4,096-byte fabric, so 4,042 bytes fit after the IPv4 and ICMP
  // headers.
  for (const char* size : {"0", "1", "17", "18", "1472", "1473", "4041", "4042"}) {
    const RunResult ping = hosts[0]->host()->Run(
        {"ping", "-n", "-c", "2", "-i", "0.01", "-w", "20", "-M", "do", "-s", size, Address(2)});
    for (const char* number : {"icmp_seq=1 ", "icmp_seq=2 "}) {
      EXPECT_THAT(ping.out, HasSubstr(number)) << size << " bytes: " << ping.ToString();
    }
  }
}

TEST_F(ConnectivityTest, PingBetweenAllPairsOfFiveHosts) {
  auto hosts = AddNumberedAgents(5);
  for (int from = 1; from <= 5; ++from) {
    for (int to = 1; to <= 5; ++to) {
      if (from != to) ExpectPing(hosts[from - 1]->host(), Address(to), 1);
    }
  }
}

TEST_F(ConnectivityTest, ArpResolvesToPeerInterfaceMac) {
  auto hosts = AddNumberedAgents(2);
  ExpectPing(hosts[0]->host(), Address(2));
  EXPECT_THAT(hosts[0]->host()->MustIp(absl::StrCat("neigh show to ", Address(2), " dev v1")),
              HasSubstr("lladdr " + hosts[1]->host()->Mac("v1")));
}

TEST_F(ConnectivityTest, Ipv6NeighborDiscoveryAndPing) {
  auto hosts = AddNumberedAgents(2, {}, {.ipv6 = true});
  const RunResult ndisc = hosts[0]->host()->Run({"ndisc6", "-1", "-w", "5000", Address6(2), "v1"});
  EXPECT_TRUE(ndisc.ok()) << ndisc.ToString();
  EXPECT_THAT(absl::AsciiStrToLower(ndisc.out), HasSubstr(hosts[1]->host()->Mac("v1")));
  ExpectPing(hosts[0]->host(), Address6(2));
  ExpectPing(hosts[1]->host(), Address6(1));
}

TEST_F(ConnectivityTest, TcpTransferInBothDirections) {
  auto hosts = AddNumberedAgents(2);
  UniqueFd listener = TcpListener(hosts[1]->host(), Address(2), 5000);
  UniqueFd client = TcpConnect(hosts[0]->host(), Address(2), 5000);
  ASSERT_TRUE(client.valid());
  UniqueFd server = TcpAccept(listener.get());
  ASSERT_TRUE(server.valid());
  EXPECT_EQ(TcpTransfer(client.get(), server.get(), 32 << 20), "");
  EXPECT_EQ(TcpTransfer(server.get(), client.get(), 32 << 20), "");
}

TEST_F(ConnectivityTest, UdpDatagramsOfEverySizeArriveInOrder) {
  auto hosts = AddNumberedAgents(2);
  UniqueFd receiver = UdpSocket(hosts[1]->host(), Address(2), 4000);
  UniqueFd sender = UdpSocket(hosts[0]->host(), Address(1), 0);
  // The largest two are fragmented.
  for (size_t size : {0, 1, 2, 17, 18, 19, 511, 1472, 1473, 4042, 4043, 20000}) {
    Bytes payload;
    for (size_t i = 0; i < size; ++i) payload.push_back(static_cast<uint8_t>(i * 7 + size));
    SendUdp(sender.get(), Address(2), 4000, payload);
    EXPECT_EQ(ReceiveUdp(receiver.get()), absl::optional<Bytes>(payload)) << size << " bytes";
  }
}

TEST_F(ConnectivityTest, FramesOfAnyEtherTypeArriveUnchanged) {
  auto hosts = AddNumberedAgents(2);
  WaitUntilAllReceive(hosts);
  PacketSocket one(hosts[0]->host(), "v1"), two(hosts[1]->host(), "v1");
  struct {
    const char* description;
    MacAddr destination;
    uint16_t ethertype;
    size_t length;
  } rows[] = {
      {"local experimental, broadcast", MacAddr::Broadcast(), 0x88b6, 100},
      {"ATA over Ethernet, unicast", StationMac(2), 0x88a2, 1400},
      {"EtherCAT, multicast", Mac("01:01:05:00:00:01"), 0x88a4, 61},
      {"802.3 length and LLC", StationMac(2), 86, 100},
      {"LLDP to its reserved group", Mac("01:80:c2:00:00:0e"), 0x88cc, 90},
      {"provider tag as payload", StationMac(2), 0x88a8, 120},
      {"the largest that an untagged interface takes", StationMac(2), 0x88b6, 4084},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.description);
    Bytes payload(row.length - 14);
    for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<uint8_t>(i * 3);
    const Bytes frame = EthernetFrame(row.destination, StationMac(1), row.ethertype, payload);
    one.Send(frame);
    EXPECT_TRUE(two.WaitFor(ExactlyFrame(frame)))
        << "received: " << two.received().size() << " frames";
    EXPECT_EQ(two.Count(ExactlyFrame(frame)), 1u);
  }
}

TEST_F(ConnectivityTest, ShortFramesArrivePaddedToMinimum) {
  auto hosts = AddNumberedAgents(2);
  WaitUntilAllReceive(hosts);
  PacketSocket one(hosts[0]->host(), "v1"), two(hosts[1]->host(), "v1");
  const Bytes frame = TestFrame(StationMac(2), StationMac(1), 1, 20);
  one.Send(frame);
  const auto received = two.Receive(Marked(1));
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(Hex(*received), Hex(Padded(frame)));
}

TEST_F(ConnectivityTest, TwoHundredMacsBehindOneVPortAreLearned) {
  constexpr int kStations = 200;
  auto hosts = AddNumberedAgents(3);
  WaitUntilAllReceive(hosts);
  PacketSocket one(hosts[0]->host(), "v1"), two(hosts[1]->host(), "v1"),
      three(hosts[2]->host(), "v1");
  for (int i = 1; i <= kStations; ++i) one.Send(TestFrame(MacAddr::Broadcast(), StationMac(i), i));
  ASSERT_TRUE(two.WaitFor(OfEtherType(kTestEtherType), kStations));

  size_t known = 0;
  for (const FdbRow& row : hosts[1]->Fdb()) {
    if (absl::StartsWith(row.mac, "02:aa:00:00:00:") && absl::StrContains(row.behind, "QPN"))
      ++known;
  }
  EXPECT_EQ(known, static_cast<size_t>(kStations));

  // All are reached, each with one unicast datagram; the third host receives none of them.
  const MacAddr answering = StationMac(0xffff);
  const uint64_t flooded = hosts[1]->Stat("flooded_unknown");
  for (int i = 1; i <= kStations; ++i) two.Send(TestFrame(StationMac(i), answering, 1000 + i));
  two.Send(TestFrame(MacAddr::Broadcast(), answering, 9999));
  for (int i = 1; i <= kStations; ++i)
    EXPECT_TRUE(one.WaitFor(Marked(1000 + i))) << "station " << i;
  EXPECT_EQ(one.Count(OfEtherType(kTestEtherType)), kStations + 1u);
  ASSERT_TRUE(three.WaitFor(Marked(9999)));
  for (const auto& [marker, count] : three.Markers())
    EXPECT_TRUE(marker <= kStations || marker == 9999) << marker;
  EXPECT_EQ(hosts[1]->Stat("flooded_unknown"), flooded);
}

TEST_F(ConnectivityTest, InterfaceWorksAsLinuxBridgePort) {
  auto hosts = AddNumberedAgents(2);
  Host* first = hosts[0]->host();
  first->MustIp("address flush dev v1");
  // Two guests behind the bridge, and the host itself.
  Host* guest = lab().AddHost("guest");
  Host* other_guest = lab().AddHost("other-guest");
  first->AddVeth("tap1", guest, "eth0", 4070);
  first->AddVeth("tap2", other_guest, "eth0", 4070);
  first->AddBridge("br0", {"v1", "tap1", "tap2"});
  first->AddAddress("br0", Address(1) + "/24");
  guest->AddAddress("eth0", Address(11) + "/24");
  other_guest->AddAddress("eth0", Address(12) + "/24");

  ExpectPing(guest, Address(2));
  ExpectPing(hosts[1]->host(), Address(11));
  ExpectPing(hosts[1]->host(), Address(12));
  ExpectPing(hosts[1]->host(), Address(1));
  ExpectPing(guest, Address(12));
  EXPECT_TRUE(hosts[1]->Knows(guest->Mac("eth0"), "QPN"));
  EXPECT_TRUE(hosts[1]->Knows(other_guest->Mac("eth0"), "QPN"));
}

TEST_F(ConnectivityTest, MacvlansWorkOnTheInterface) {
  auto hosts = AddNumberedAgents(2);
  Host* container = lab().AddHost("container");
  Host* other_container = lab().AddHost("other-container");
  hosts[0]->host()->AddMacvlan("v1", container, "eth0");
  hosts[0]->host()->AddMacvlan("v1", other_container, "eth0");
  container->AddAddress("eth0", Address(21) + "/24");
  other_container->AddAddress("eth0", Address(22) + "/24");

  ExpectPing(container, Address(2));
  ExpectPing(hosts[1]->host(), Address(21));
  ExpectPing(hosts[1]->host(), Address(22));
  ExpectPing(container, Address(22));
  EXPECT_TRUE(hosts[1]->Knows(container->Mac("eth0"), "QPN"));
}

TEST_F(ConnectivityTest, MacMovesBetweenHosts) {
  auto hosts = AddNumberedAgents(3);
  WaitUntilAllReceive(hosts);
  PacketSocket one(hosts[0]->host(), "v1"), two(hosts[1]->host(), "v1"),
      three(hosts[2]->host(), "v1");
  const MacAddr moving = StationMac(7), caller = StationMac(3);

  one.Send(TestFrame(MacAddr::Broadcast(), moving, 1));
  ASSERT_TRUE(three.WaitFor(Marked(1)));
  three.Send(TestFrame(moving, caller, 2));
  ASSERT_TRUE(one.WaitFor(Marked(2)));
  // Until the first host has announced it, a move may be seen twice.
  for (Agent* agent : {hosts[1], hosts[2]}) {
    ASSERT_TRUE(
        EventuallyTrue(kPatience, [&] { return agent->KnowsAnnounced(moving.ToString()); }));
  }

  two.Send(TestFrame(MacAddr::Broadcast(), moving, 3));
  ASSERT_TRUE(three.WaitFor(Marked(3)));
  ASSERT_TRUE(one.WaitFor(Marked(3)));
  const std::string qpns = hosts[1]->Shown(" QPN ");  // several, if the agent has several workers
  const std::string second = "QPN " + qpns.substr(0, qpns.find(' '));
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return hosts[2]->Knows(moving.ToString(), second); }))
      << "it follows the claim";
  three.Send(TestFrame(moving, caller, 4));
  three.Send(TestFrame(MacAddr::Broadcast(), caller, 5));
  ASSERT_TRUE(two.WaitFor(Marked(4)));
  ASSERT_TRUE(one.WaitFor(Marked(5)));
  EXPECT_EQ(one.Count(Marked(4)), 0u) << "the old host must not receive it";
  // The old host can also send to the new one, once it has heard that its claim is lost, and gets
  // nothing back.
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return hosts[0]->Knows(moving.ToString(), "GID"); }));
  one.Send(TestFrame(moving, StationMac(8), 6));
  EXPECT_TRUE(two.WaitFor(Marked(6)));
  EXPECT_LE(hosts[2]->Stat("moved"), 1u) << "none if the withdrawal overtook the claim";
}

// A move between two vPorts of one host.
TEST_F(ConnectivityTest, MacMovesBetweenVPortsOfOneHost) {
  AgentSpec two_ports;
  two_ports.vports = {{"v1"}, {"v2"}};
  Agent& first = AddAgent("h1", two_ports);
  Agent& second = AddAgent("h2");
  WaitUntilAllReceive({{first.host()}, {first.host(), "v2"}, {second.host()}});
  PacketSocket v1(first.host(), "v1"), v2(first.host(), "v2"), remote(second.host(), "v1");
  const MacAddr moving = StationMac(7), caller = StationMac(3);

  v1.Send(TestFrame(MacAddr::Broadcast(), moving, 1));
  ASSERT_TRUE(remote.WaitFor(Marked(1)));
  ASSERT_TRUE(v2.WaitFor(Marked(1)));
  v2.Send(TestFrame(MacAddr::Broadcast(), moving, 2));
  ASSERT_TRUE(remote.WaitFor(Marked(2)));
  remote.Send(TestFrame(moving, caller, 3));
  ASSERT_TRUE(v2.WaitFor(Marked(3)));
  EXPECT_EQ(v1.Count(Marked(3)), 0u);
}

}  // namespace
}  // namespace eoib::lab
