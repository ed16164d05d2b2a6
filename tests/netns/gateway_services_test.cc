// Services across a gateway: multicast, DHCP, duplicate address detection, address scans, RARP.
#include <sys/socket.h>

#include <algorithm>
#include <iostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/dhcp_client.h"
#include "tests/lab/dhcpv6_client.h"
#include "tests/lab/multicast_station.h"
#include "tests/lab/networkd.h"
#include "tests/lab/servers.h"
#include "tests/lab/sockets.h"
#include "tests/netns/gateway_test_fixture.h"

namespace eoib::lab {
namespace {

using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// ---- Multicast ----------------------------------------------------------------------------------

class GatewayMulticastTest : public GatewayTest, public testing::WithParamInterface<bool> {
 protected:
  bool ipv6() const { return GetParam(); }
  const char* group() const { return ipv6() ? "ff15::1:2:3" : "239.1.2.3"; }
  // Sends until `to` receives one: a join takes a moment to have its effect.
  static bool Receives(MulticastStation* from, MulticastStation* to, const std::string& group,
                       const std::string& text) {
    return EventuallyTrue(kPatience, [&] {
      from->Send(group, text);
      for (const std::string& text_received : to->ReceivedSoFar()) {
        if (absl::StartsWith(text_received, text)) return true;
      }
      return false;
    });
  }
};

INSTANTIATE_TEST_SUITE_P(Families, GatewayMulticastTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Ipv6" : "Ipv4"; });

TEST_P(GatewayMulticastTest, GroupsCrossWhileTheOtherSideHasMembers) {
  AddHosts(2, 2);
  MulticastStation ethernet(ethernet_host(1), ipv6(), 4000), other(ethernet_host(2), ipv6(), 4000);
  MulticastStation ipoib(ipoib_host(1), ipv6(), 4000, "ib0"),
      far(ipoib_host(2), ipv6(), 4000, "ib0");
  for (MulticastStation* station : {&ethernet, &ipoib}) station->SetHops(3);

  StartCapture();
  // The gateway turns reports into joins, so packets from IPoIB reach the Ethernet listeners.
  other.Join(group());
  EXPECT_TRUE(Receives(&ipoib, &other, group(), "to Ethernet"));
  EXPECT_THAT(gateway()->MustCtl({"gateway", "groups"}), HasSubstr("member"));
  // And in the other direction.
  far.Join(group());
  EXPECT_TRUE(Receives(&ethernet, &far, group(), "to IPoIB"));

  // A host that has left receives nothing more. When the last one leaves, so does the gateway.
  other.Leave(group());
  const std::string mgid = ipv6() ? "ff12:601b:8002" : "ff12:401b:8002:0000:0000:0000:0f01:0203";
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    for (absl::string_view line : absl::StrSplit(gateway()->MustCtl({"gateway", "groups"}), '\n')) {
      if (absl::StartsWith(line, mgid) && absl::StrContains(line, "member") &&
          (!ipv6() || absl::StrContains(line, "0002:0003"))) {
        return false;
      }
    }
    return true;
  })) << gateway()->MustCtl({"gateway", "groups"});
  other.ReceivedSoFar();
  ipoib.Send(group(), "without a receiver");
  EXPECT_TRUE(Receives(&ethernet, &far, group(), "still to IPoIB"));
  EXPECT_THAT(other.ReceivedSoFar(), Not(Contains(HasSubstr("without a receiver"))));

  // The IPoIB group is deleted when its last member leaves; its packets then go to the link's
  // routers, if there are any. A kernel that has sent to a group stays in it for minutes.
  far.Leave(group());
  const auto without_group = [this] {
    return gateway()->Stat("to_all_routers") + gateway()->Drop("no_group");
  };
  const uint64_t before = without_group();
  EXPECT_TRUE(HasKernelIpoib() || EventuallyTrue(kPatience,
                                                 [&] {
                                                   ethernet.Send(group(), "without a receiver");
                                                   return without_group() > before;
                                                 }))
      << gateway()->MustCtl({"gateway", "groups"});
  ExpectCaptureDecodes(10);
}

// RFC 4541 §2.1.2 (2): hosts listen to groups of 224.0.0.0/24 without a report.
TEST_F(GatewayTest, LocalGroupsCrossWithoutAReport) {
  AddHosts(1, 2);
  ethernet_host(1)->Sysctl("ipv4/igmp_link_local_mcast_reports", "0");
  MulticastStation ethernet(ethernet_host(1), /*ipv6=*/false, 4000),
      ipoib(ipoib_host(1), false, 4000, "ib0"), member(ipoib_host(2), false, 4000, "ib0");
  const auto receives = [](MulticastStation* from, MulticastStation* to, const std::string& group) {
    return EventuallyTrue(kPatience, [&] {
      from->Send(group, group);
      const std::vector<std::string> received = to->ReceivedSoFar();
      return std::any_of(received.begin(), received.end(),
                         [&](const auto& text) { return absl::StartsWith(text, group + ","); });
    });
  };
  // A host sends to a well-known group that no IPoIB host is in: OSPF, VRRP, HSRP, mDNS.
  for (const char* group : {"224.0.0.5", "224.0.0.18", "224.0.0.102", "224.0.0.251"}) {
    ethernet.Join(group);
    EXPECT_TRUE(receives(&ipoib, &ethernet, group)) << group << "\n"
                                                    << gateway()->MustCtl({"gateway", "groups"});
  }
  // Another group exists while IPoIB hosts are in it.
  const char* const other = "224.0.0.77";
  ethernet.Join(other);
  member.Join(other);
  EXPECT_TRUE(receives(&ipoib, &ethernet, other)) << gateway()->MustCtl({"gateway", "groups"});
  EXPECT_THAT(gateway()->MustCtl({"gateway", "groups"}),
              HasSubstr("ff12:401b:8002:0000:0000:0000:0000:004d  listener\n"))
      << "no Ethernet host has reported it";
  for (const char* group : {"224.0.0.5", "224.0.0.251"}) member.Join(group);
  for (const char* group : {"224.0.0.5", "224.0.0.251", other})
    EXPECT_TRUE(receives(&ethernet, &member, group)) << group;
}

// ---- DHCP ---------------------------------------------------------------------------------------

size_t CountOf(const std::string& text, const std::string& what) {
  return std::vector<std::string>(absl::StrSplit(text, what)).size() - 1;
}

class GatewayDhcpTest : public GatewayTest {};

// RFC 4390: an IPoIB client with hardware type 32, and a stock server on Ethernet. The gateway
// learns the prefix and the router.
TEST_F(GatewayDhcpTest, IpoibClientGetsLeaseFromEthernetServer) {
  AddGateway("gw", {{}})->Launch();
  AddNumberedAgents(1, {}, {.ipv6 = true});
  auto dnsmasq = StartDnsmasq(&lab(), ethernet_host(1), "v1");
  gateway()->WaitUntilActive();
  StartCapture();
  IpoibHost* const client = LaunchIpoibHost(1, {.more = {"--dhcp"}});
  ASSERT_TRUE(EventuallyTrue(kPatience,
                             [&] {
                               return absl::StrContains(
                                   ipoib_daemon(1)->host()->MustIp("-4 address show"), "10.0.0.1");
                             }))
      << client->Log() << dnsmasq->Log();
  EXPECT_THAT(client->MustCtl({"show"}), HasSubstr("10.0.0.1"));
  // More than one if an answer was late.
  const size_t discovers = CountOf(dnsmasq->Log(), "DHCPDISCOVER(v1)");
  ExpectPing(ipoib_daemon(1)->host(), Address(1));
  const std::string routes = gateway()->MustCtl({"gateway", "route", "show"});
  EXPECT_THAT(routes, ContainsRegex("10.0.0.0/24 +dhcp, expires in [0-9]+s"));
  EXPECT_THAT(routes, ContainsRegex(absl::StrCat("default via ", Address(1), " +dhcp")));
  EXPECT_THAT(gateway()->MustCtl({"gateway", "route", "flush", "gw0"}),
              HasSubstr("2 routes flushed"));
  // The client renews its lease by unicast.
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return CountOf(dnsmasq->Log(), "DHCPACK(v1)") >= 2;
  })) << dnsmasq->Log();
  EXPECT_EQ(CountOf(dnsmasq->Log(), "DHCPDISCOVER(v1)"), discovers) << dnsmasq->Log();
  // A stock client on the kernel's interface.
  if (HasKernelIpoib()) {
    Host* const host = AddKernelIpoibHost(2, {});
    const auto answers = [&] { return CountOf(dnsmasq->Log(), "DHCPACK(v1)"); };
    const size_t before = answers();
    Networkd stock(host, "ib0", "ipv4");
    EXPECT_TRUE(stock.Gets("10.0.0.1")) << stock.Log() << dnsmasq->Log();
    ExpectPing(host, Address(1));
    client->Kill(SIGKILL);  // its renewals would count, too
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return answers() >= before + 2; }))
        << stock.Log() << dnsmasq->Log();
    stock.Stop();
  }
  ExpectCaptureDecodes(8);
}

// An Ethernet client, and a stock server on the IPoIB link, on a TUN or on the kernel's interface.
TEST_F(GatewayDhcpTest, EthernetClientGetsLeaseFromIpoibServer) {
  AddHosts(0, 1, kPrefixes, {"--dhcp_server"});
  auto dnsmasq = StartDnsmasq(&lab(), ipoib_host(1), "ib0");
  StartCapture();
  Agent& agent = AddAgent("h1", {}, {.ipv6 = true});
  DhcpClient client(&lab(), agent.host(), "v1", "-4");
  client.Start();
  const std::string address = client.AddressAt("BOUND");
  EXPECT_THAT(address, HasSubstr("10.0.0.1")) << dnsmasq->Log();
  ExpectPing(agent.host(), Address(11));
  EXPECT_EQ(client.AddressAt("RENEW"), address) << dnsmasq->Log();
  client.Stop();
  EXPECT_GE(gateway()->Stat("dhcp_broadcast"), 1u);
  ExpectCaptureDecodes(8);
}

TEST_F(GatewayDhcpTest, EthernetClientGetsDhcpv6LeaseFromIpoibServer) {
  AddHosts(0, 1);
  auto dnsmasq = StartDnsmasq(&lab(), ipoib_host(1), "ib0");
  StartCapture();
  AgentSpec printable;
  printable.vports = {{"v1", "red", "mac = \"02:65:6f:69:62:31\"\n"}};
  Agent& agent = AddAgent("h1", printable, {.ipv6 = true});
  DhcpClient client(&lab(), agent.host(), "v1", "-6");
  client.Start();
  EXPECT_THAT(client.AddressAt("BOUND6"), HasSubstr("fd00::1")) << dnsmasq->Log();
  client.Stop();
  ExpectCaptureDecodes(4);
}

TEST_F(GatewayDhcpTest, IpoibClientGetsDhcpv6LeaseFromEthernetServer) {
  AddGateway()->Launch();
  AddNumberedAgents(1, {}, {.ipv6 = true});
  auto dnsmasq = StartDnsmasq(&lab(), ethernet_host(1), "v1");
  LaunchIpoibHost(1)->WaitUntilReady();
  gateway()->WaitUntilActive();
  StartCapture();
  Dhcpv6Client client(ipoib_daemon(1)->host(), "ib0");
  EXPECT_THAT(client.Lease(), HasSubstr("fd00::1")) << dnsmasq->Log();
  EXPECT_THAT(dnsmasq->Log(), HasSubstr("DHCPREPLY(v1) fd00::1"));
  if (HasKernelIpoib()) {
    Networkd stock(AddKernelIpoibHost(2, {}), "ib0", "ipv6");
    EXPECT_TRUE(stock.Gets("fd00::1")) << stock.Log() << dnsmasq->Log();
    stock.Stop();
  }
  ExpectCaptureDecodes(4);
}

// ---- Duplicate addresses ------------------------------------------------------------------------

class GatewayDadTest : public GatewayTest {};

TEST_F(GatewayDadTest, EthernetHostDetectsDuplicateOfIpoibHost) {
  AddHosts(0, 1);
  StartCapture();
  Host* const latecomer = AddAgent("h1", {}, {.ipv6 = true, .dad = true}).host();
  // Each probe waits one second for an answer.
  latecomer->Sysctl("ipv6/conf/v1/dad_transmits", "5");
  latecomer->AddAddress("v1", Address6(11) + "/64");
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(latecomer->MustIp("-6 address show dev v1"), "dadfailed");
  })) << latecomer->MustIp("-6 address show dev v1");
  const RunResult probe =
      latecomer->Run({"arping", "-D", "-c", "2", "-w", "5", "-I", "v1", Address(11)});
  EXPECT_EQ(probe.exit_code, 1) << probe.ToString();
  EXPECT_EQ(
      latecomer->Run({"arping", "-D", "-c", "2", "-w", "2", "-I", "v1", Address(77)}).exit_code, 0)
      << "an unused address";
  ExpectCaptureDecodes(4);
}

TEST_F(GatewayDadTest, IpoibHostDetectsDuplicateOfEthernetHost) {
  AddGateway()->Launch();
  AddNumberedAgents(1, {}, {.ipv6 = true});
  gateway()->WaitUntilActive();
  for (const std::string& address : {Address(1) + "/24", Address6(1) + "/64"}) {
    SCOPED_TRACE(address);
    IpoibHost* const latecomer =
        LaunchIpoibHost(absl::StrContains(address, ':') ? 2 : 1, {.addresses = {address}});
    latecomer->WaitUntil(
        {"show"}, [](const std::string& show) { return absl::StrContains(show, ": duplicate"); });
    EXPECT_THAT(latecomer->host()->MustIp("address show dev ib0"), Not(HasSubstr(address)));
    EXPECT_THAT(latecomer->Log(), HasSubstr(address.substr(0, address.find('/'))));
  }
  if (!HasKernelIpoib()) return;
  Host* const kernel = AddKernelIpoibHost(3, {}, {.ipv6 = true, .dad = true});
  kernel->Sysctl("ipv6/conf/ib0/dad_transmits", "5");
  kernel->AddAddress("ib0", Address6(1) + "/64");
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(kernel->MustIp("-6 address show dev ib0"), "dadfailed");
  })) << kernel->MustIp("-6 address show dev ib0");
}

// ---- Scans --------------------------------------------------------------------------------------

class GatewayScanTest : public GatewayTest, public testing::WithParamInterface<bool> {
 protected:
  static constexpr int kScanned = 10'000;

  bool ipv6() const { return GetParam(); }
  std::string AddressOf(int host) const { return ipv6() ? Address6(host) : Address(host); }
  // Unused addresses: number `i` of range `range`.
  std::string UnusedAddress(int range, int i) const {
    return ipv6() ? absl::StrCat("fd00::", range, ":", absl::Hex(1 + i))
                  : absl::StrCat("10.0.", 50 * range + i / 250, ".", 1 + i % 250);
  }
  Bytes Solicitation(MacAddr from, const std::string& about) const {
    return ipv6() ? NeighborSolicitation(from, Ip6(AddressOf(1)), Ip6(about))
                  : ArpRequest(from, Ip4(AddressOf(1)), Ip4(about));
  }

  // Solicits all of them from an Ethernet host, as fast as possible.
  void SolicitEach(Host* from) {
    PacketSocket socket(from, "v1");
    const MacAddr mac = Mac(from->Mac("v1"));
    std::vector<Bytes> solicitations;
    for (int i = 0; i < kScanned; ++i)
      solicitations.push_back(Solicitation(mac, UnusedAddress(1, i)));
    for (size_t at = 0; at < solicitations.size(); at += 500) {
      socket.SendAll({solicitations.begin() + static_cast<long>(at),
                      solicitations.begin() + static_cast<long>(at) + 500});
    }
  }
  // Sends a datagram to each of them from an IPoIB host, as fast as its interface accepts them.
  void SendToEach(Host* from) {
    const UniqueFd socket = UdpSocket(from, ipv6() ? "::" : "0.0.0.0", 0);
    // The kernel queues some datagrams for each neighbour that it resolves.
    SetOption(socket.get(), SOL_SOCKET, SO_SNDBUFFORCE, int{64 << 20}, "set SO_SNDBUFFORCE");
    for (int i = 0; i < kScanned; ++i) {
      SetPeer(socket.get(), UnusedAddress(2, i), 9);
      (void)!send(socket.get(), "x", 1, MSG_DONTWAIT);
      if (i % 50 == 0) internal::SleepOnePoll();
    }
  }
  // For messages: the drops of the second IPoIB host, if it is eoib-ipoib.
  std::string IpoibDrops() {
    return IsKernelIpoib(2)
               ? ""
               : ipoib_daemon(2)->MustCtl({"drops"}) + ipoib_daemon(2)->MustCtl({"link", "drops"});
  }
  // Pings between the second hosts of both sides. During a scan, which takes all processors, one or
  // two may be lost.
  void ExpectCommunication() {
    for (const auto& [from, to] :
         {std::pair(ethernet_host(2), AddressOf(12)), std::pair(ipoib_host(2), AddressOf(2))}) {
      const PingAnswers answers = Ping(from, to, 50, "0.02");
      EXPECT_LE(answers.lost.size(), 2u)
          << "of 50 " << answers.log << "\n"
          << gateway()->MustCtl({"gateway", "drops"}) << IpoibDrops();
    }
  }
  // Checks that `counter` has grown no faster than the gateway's rate limit since `begin`.
  void ExpectNoStorm(const std::string& counter, uint64_t before, absl::Time begin) {
    const uint64_t count = gateway()->Stat(counter) - before;
    const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
    std::cout << counter << " " << count << " in " << seconds << " s, with " << kScanned
              << " addresses scanned\n";
    EXPECT_LT(static_cast<double>(count), 200 + 150 * seconds) << "burst, rate limit and pings";
  }
};

INSTANTIATE_TEST_SUITE_P(Families, GatewayScanTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Ipv6" : "Ipv4"; });

// The first host of either side scans ten thousand unused addresses: the gateway limits its
// solicitations on the other side, and the other hosts can communicate.
TEST_P(GatewayScanTest, SolicitationsOfAddressScanAreRateLimited) {
  AddHosts(2, 2, "prefixes = [\"10.0.0.0/16\", \"fd00::/64\"]\n");
  ExpectPing(ethernet_host(2), AddressOf(12));
  const uint64_t out = gateway()->Stat("packets_out"), in = gateway()->Stat("frames_in");
  const absl::Time begin = absl::Now();
  SolicitEach(ethernet_host(1));
  ExpectCommunication();
  ExpectNoStorm("packets_out", out, begin);
  const uint64_t solicited = gateway()->Stat("frames_in") - in;
  EXPECT_GT(solicited, 1'000u) << "a slow gateway's agent loses some";
  EXPECT_GT(gateway()->Drop("throttled"), solicited * 8 / 10);

  // From IPoIB. An IPv6 solicitation goes to the target's solicited-node group, which does not
  // exist for an unused address.
  ipoib_host(1)->MustIp("route add 10.0.0.0/16 dev ib0");
  const uint64_t frames = gateway()->Stat("frames_out"), packets = gateway()->Stat("packets_in");
  const absl::Time again = absl::Now();
  SendToEach(ipoib_host(1));
  ExpectCommunication();
  ExpectNoStorm("frames_out", frames, again);
  EXPECT_GT(gateway()->Stat("packets_in") - packets, ipv6() ? 50u : 1'000u);
}

// ---- RARP ---------------------------------------------------------------------------------------

// RFC 903: a reverse-ARP request crosses to the IPoIB link, in the form of RFC 4391 §9.1.
TEST_F(GatewayTest, RarpRequestCrossesToIpoib) {
  AddGateway()->Launch();
  AddNumberedAgents(1);
  gateway()->WaitUntilActive();
  const std::string path = lab().Path("gateway.erf");
  gateway()->MustCtl({"capture", "start", path});
  PacketSocket socket(ethernet_host(1), "v1");
  const uint64_t before = gateway()->Stat("arp_translated");
  socket.Send(RarpRequest(Mac(ethernet_host(1)->Mac("v1"))));
  EXPECT_TRUE(
      EventuallyTrue(kPatience, [&] { return gateway()->Stat("arp_translated") > before; }));
  gateway()->MustCtl({"capture", "stop"});
  const RunResult tshark = gateway()->host()->Run(
      {"tshark", "-n", "-r", path, "-Y", "arp.opcode == 3", "-T", "fields", "-e",
       "infiniband.bth.p_key", "-e", "arp.hw.type", "-e", "arp.hw.size", "-e", "_ws.malformed"});
  EXPECT_THAT(tshark.out, HasSubstr(absl::StrCat(kVesPKey, "\t1\t6\t\n"))) << tshark.err;
  EXPECT_THAT(tshark.out, HasSubstr(absl::StrCat(kIpoibPKey, "\t32\t20\t\n"))) << tshark.err;
}

}  // namespace
}  // namespace eoib::lab
