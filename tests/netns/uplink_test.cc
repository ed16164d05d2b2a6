// Ethernet uplinks: gateways between a VES and a physical network, whose NICs are veths and whose
// core is a Linux bridge.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/multicast_station.h"
#include "tests/lab/nic.h"
#include "tests/lab/packet_socket.h"
#include "tests/netns/uplink_test_fixture.h"

namespace eoib::lab {
namespace {

using ::testing::HasSubstr;

TEST_F(UplinkTest, HostsOfBothSidesReachEachOther) {
  c1_->AddAddress("eth0", "10.0.0.101/24");
  UplinkDaemon* const gateway = StartGateway("vlans = [0]\n");
  Host* const h1 = AddMember();
  EXPECT_TRUE(Reaches(c1_, "10.0.0.1", kPatience, "0.1"));
  ExpectPing(c1_, "10.0.0.1");
  ExpectPing(h1, "10.0.0.101");
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return agent(1).KnowsAnnounced(c1_->Mac("eth0")); }))
      << "stations of the core are announced in the VES";
  EXPECT_THAT(core_->MustRun({"bridge", "fdb", "show", "br", "br0"}),
              HasSubstr(h1->Mac("v1") + " dev p-gw"));
  UniqueFd listener = TcpListener(h1, "10.0.0.1", 5000);
  UniqueFd client = TcpConnect(c1_, "10.0.0.1", 5000);
  ASSERT_TRUE(client.valid());
  UniqueFd server = TcpAccept(listener.get());
  EXPECT_EQ(TcpTransfer(client.get(), server.get(), 8 << 20), "");
  EXPECT_EQ(TcpTransfer(server.get(), client.get(), 8 << 20), "");
  for (Host* host : {c1_, h1}) EXPECT_EQ(host->Counter("Tcp", "InCsumErrors"), 0u);
  EXPECT_GT(gateway->Stat("from_wire"), 0u);
  EXPECT_GT(gateway->Stat("to_wire"), 0u);
}

TEST_F(UplinkTest, VlansAreTranslated) {
  UplinkDaemon* const gateway = StartGateway("vlans = [\"10-19:110\", \"30:0\"]\n");
  Host* const h1 = AddMember("mode = \"trunk\"\n");
  EXPECT_THAT(gateway->Show(),
              HasSubstr("VLANs 10-19:110,30:0, priority 100\n  active in VLANs 10-19,30;"));
  PacketSocket wire(c1_, "eth0"), tap(h1, "v1");
  const Bytes in = TestFrame(MacAddr::Broadcast(), kA, 1), out = TestFrame(kA, kB, 2);
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    wire.Send(WithTag(in, 110, 3));
    return tap.WaitFor(ExactlyFrame(WithTag(in, 10, 3)), 1, absl::Milliseconds(200));
  })) << "once the two agents know each other";
  tap.Send(WithTag(out, 10, 5));
  EXPECT_TRUE(wire.WaitFor(ExactlyFrame(WithTag(out, 110, 5))));
  // Untagged on the wire; another tag and a provider's are payload.
  for (const Bytes& payload : {in, WithTag(in, 99, 0, 0x88a8)}) {
    wire.Send(payload);
    EXPECT_TRUE(tap.WaitFor(ExactlyFrame(WithTag(payload, 30))));
  }
  tap.Send(WithTag(TestFrame(MacAddr::Broadcast(), kB, 3), 30));
  EXPECT_TRUE(wire.WaitFor(ExactlyFrame(TestFrame(MacAddr::Broadcast(), kB, 3))));
  tap.Send(WithTag(WithTag(out, 99), 12));
  EXPECT_TRUE(wire.WaitFor(ExactlyFrame(WithTag(WithTag(out, 99), 112))));
  tap.Send(WithTag(WithTag(out, 110), 30));
  EXPECT_TRUE(wire.WaitFor(ExactlyFrame(WithTag(WithTag(out, 110), 0))))
      << "a priority tag keeps the inner tag inside";
  wire.Send(WithTag(in, 10));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(gateway->Ctl({"drops"}).out, "vlan_not_allowed");
  })) << "the wire's VLAN 10 is not the VES's";
}

TEST_F(UplinkTest, BridgePdusPassAndOthersAreDroppedAsConfigured) {
  UplinkDaemon* const gateway = StartGateway("vlans = [0]\n");
  Host* const h1 = AddMember();
  PacketSocket wire(c1_, "eth0"), tap(h1, "v1");
  const auto to_group = [](uint8_t group, uint16_t type, uint32_t marker) {
    Bytes frame = TestFrame(MacAddr::FromUint64(0x01'80'c2'00'00'00 + group), kA, marker);
    frame[12] = static_cast<uint8_t>(type >> 8), frame[13] = static_cast<uint8_t>(type);
    return frame;
  };
  // The bridge does not pass these groups; so the test speaks on the port to the gateway itself.
  core_->MustRun({"sh", "-c", "echo 0xfff8 >/sys/class/net/br0/bridge/group_fwd_mask || true"});
  PacketSocket core(core_, "p-gw");
  const Bytes lldp = to_group(0x0e, 0x88cc, 2), slow = to_group(0x02, 0x8809, 3),
              stp = to_group(0x00, 0x88b6, 4);
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    core.Send(stp);
    return tap.WaitFor(ExactlyFrame(stp), 1, absl::Milliseconds(200));
  }));
  core.Send(lldp);
  core.Send(slow);
  core.Send(stp);
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(gateway->Ctl({"drops"}).out, "link_local_control");
  }));
  EXPECT_EQ(tap.Count(ExactlyFrame(lldp)) + tap.Count(ExactlyFrame(slow)), 0u);
  tap.Send(lldp);
  EXPECT_TRUE(EventuallyTrue(
      kPatience, [&] { return absl::StrContains(gateway->Ctl({"drops"}).out, "port_filtered"); }));
}

TEST_F(UplinkTest, StationsOfEachSideAreLimited) {
  c1_->AddAddress("eth0", "10.0.0.101/24");
  UplinkDaemon* const gateway = StartGateway("vlans = [0]\nves_macs = 2\nfdb_limit = 2\n");
  Host* const h1 = AddMember();
  EXPECT_TRUE(Reaches(c1_, "10.0.0.1", kPatience, "0.1")) << "the first one is h1 itself";
  PacketSocket wire(c1_, "eth0"), tap(h1, "v1");
  const auto from = [](MacAddr source, uint32_t marker) {
    return TestFrame(MacAddr::Broadcast(), source, marker);
  };
  tap.Send(from(kA, 1));
  EXPECT_TRUE(wire.WaitFor(Marked(1)));
  tap.Send(from(kB, 2));
  tap.Send(from(kA, 3));
  EXPECT_TRUE(wire.WaitFor(Marked(3)));
  EXPECT_EQ(wire.Count(Marked(2)), 0u);
  EXPECT_THAT(gateway->Ctl({"drops"}).out, HasSubstr("port_mac_limit"));
  EXPECT_EQ(gateway->MustCtl({"uplink", "set", "up0", "ves_macs=3"}),
            "change uplink up0, in place\n");
  tap.Send(from(kB, 4));
  EXPECT_TRUE(wire.WaitFor(Marked(4)));
  for (uint32_t i = 0; i < 5; ++i)
    wire.Send(from(MacAddr::FromUint64(0x02'bb'00'00'00'00 + i), 10 + i));
  EXPECT_TRUE(tap.WaitFor(Marked(14)));
  size_t behind = 0;
  for (absl::string_view line : absl::StrSplit(gateway->MustCtl({"fdb", "show"}), '\n'))
    behind += absl::StrContains(line, "vPort up0");
  EXPECT_LE(behind, 2u);
  EXPECT_GE(behind, 1u);
}

// The port of the physical network sends back what it floods.
TEST_F(UplinkTest, ReflectedBroadcastsMoveNoMac) {
  UplinkDaemon* const gateway = StartGateway("vlans = [0]\n");
  Host* const h1 = AddMember();
  AgentSpec spec;
  spec.vports = {{"v1", "red"}};
  Host* const h2 = AddAgent("h2", spec).host();
  core_->MustIp("link set p-gw type bridge_slave hairpin on");
  // A guest behind the vPort of h1 has kA; kB is behind that of h2.
  PacketSocket guest(h1, "v1"), other(h2, "v1"), wire(c1_, "eth0");
  for (uint32_t i = 1; i <= 10; ++i) {
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
      guest.Send(TestFrame(MacAddr::Broadcast(), kA, i));
      return wire.WaitFor(Marked(i), 1, absl::Milliseconds(200)) && gateway->Stat("reflected") >= i;
    })) << gateway->MustCtl({"uplink", "stats"});
    other.Send(TestFrame(kA, kB, 100 + i));
    EXPECT_TRUE(guest.WaitFor(Marked(100 + i))) << agent(2).Ctl({"fdb", "show"}).out;
  }
  // A guest that has moved to the wire is heard at once: it says something else.
  wire.Send(TestFrame(MacAddr::Broadcast(), kA, 200));
  EXPECT_TRUE(guest.WaitFor(Marked(200)));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    other.Send(TestFrame(kA, kB, 201));
    return wire.WaitFor(Marked(201), 1, absl::Milliseconds(200));
  })) << agent(2).Ctl({"fdb", "show"}).out;
}

TEST_F(UplinkTest, AnUntaggedWireMayBeAnyVlanOfTheVes) {
  c1_->AddAddress("eth0", "10.0.0.101/24");
  StartGateway("vlans = [\"30:0\"]\n");
  Host* const h1 = AddMember("access_vlan = 30\n");
  EXPECT_TRUE(Reaches(c1_, "10.0.0.1", kPatience, "0.1"));
  ExpectPing(h1, "10.0.0.101");
}

// The VES carries packets of 4,070 bytes, the wire of 1,500.
TEST_F(UplinkTest, PacketsTooLargeForTheWireAreAnswered) {
  c1_->AddAddress("eth0", "10.0.0.101/24");
  UplinkDaemon* const gateway = StartGateway("vlans = [0]\n");
  Host* const h1 = AddMember();
  EXPECT_TRUE(Reaches(c1_, "10.0.0.1", kPatience, "0.1"));
  UniqueFd sender = UdpSocket(h1, "10.0.0.1", 0), receiver = UdpSocket(c1_, "10.0.0.101", 4000);
  const Bytes datagram(3000, 0x5a);
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    SendUdp(sender.get(), "10.0.0.101", 4000, datagram);
    return ReceiveUdp(receiver.get(), absl::Milliseconds(200)) == absl::optional<Bytes>(datagram);
  })) << "its sender makes fragments once it knows the MTU";
  EXPECT_GT(gateway->Stat("too_big_to_wire"), 0u);
  EXPECT_GT(gateway->Stat("too_big_errors_sent"), 0u);
}

// The NIC of the gateway is the test's.
class UplinkNicTest : public UplinkTest {
 protected:
  void SetUp() override {
    UplinkTest::SetUp();
    gateway_ = AddGateway("gw");
    gateway_->host()->MustIp("link delete e1");
    nic_ = std::make_unique<Nic>(gateway_->host(), "e1");
    gateway_->Configure("vlans = [0, 20]\n");
    gateway_->Launch();
    h1_ = AddMember("mode = \"trunk\"\n");
    tap_ = std::make_unique<PacketSocket>(h1_, "v1");
    ASSERT_TRUE(EventuallyTrue(kPatience, [&] {
      nic_->Deliver(TestFrame(kB, kA, 1));
      return tap_->Count(Marked(1)) != 0;
    }));
  }

  UplinkDaemon* gateway_ = nullptr;
  Host* h1_ = nullptr;
  std::unique_ptr<Nic> nic_;
  std::unique_ptr<PacketSocket> tap_;
};

// As LRO hands them over.
TEST_F(UplinkNicTest, MergedSegmentsPass) {
  const Bytes merged =
      TcpSegment({kB, kA, Ip4("10.7.0.1"), Ip4("10.7.0.2")}, 4000, 4001, Bytes(5600, 0x5a));
  nic_->Deliver(merged, {.gso_type = 1, .gso_size = 1400, .header_length = 54});
  // But for the checksum, which a TAP takes unfinished.
  const auto is_it = [&](const Bytes& frame) {
    return frame.size() == merged.size() &&
           std::equal(merged.begin() + 54, merged.end(), frame.begin() + 54);
  };
  EXPECT_TRUE(tap_->WaitFor(is_it)) << gateway_->Ctl({"drops"}).out;
}

TEST_F(UplinkNicTest, SctpGetsItsCrc32c) {
  const Bytes right = SctpPacket(Flow4{kB, kA, Ip4("10.7.0.1"), Ip4("10.7.0.2")}, Bytes(64, 0x5a));
  Bytes unfinished = right;
  std::fill_n(unfinished.begin() + 42, 4, 0);
  nic_->Deliver(unfinished, {.checksum_start = 34, .checksum_offset = 8});
  EXPECT_TRUE(tap_->WaitFor(ExactlyFrame(right)));
}

TEST_F(UplinkNicTest, PacketsOfTheFullMtuPassBehindTwoTags) {
  h1_->MustIp("link set v1 mtu 9000");  // for the test's own socket
  const auto with_tags = [](const Bytes& frame) { return WithTag(WithTag(frame, 21), 20); };
  // A datagram of the VES carries 4,070 bytes, the wire 1,500.
  const Bytes in = with_tags(TestFrame(kB, kA, 2, 4084)),
              out = with_tags(TestFrame(kA, kB, 3, 1514));
  nic_->Deliver(in);
  EXPECT_TRUE(tap_->WaitFor(ExactlyFrame(in))) << gateway_->Ctl({"drops"}).out;
  tap_->Send(out);
  EXPECT_TRUE(nic_->WaitFor(ExactlyFrame(out))) << gateway_->Ctl({"drops"}).out;
  EXPECT_EQ(gateway_->Stat("too_big_from_wire") + gateway_->Stat("too_big_to_wire"), 0u);
}

TEST_F(UplinkTest, PacketsTooLargeForTheVesAreAnswered) {
  c1_->MustIp("link set eth0 mtu 9000");
  core_->MustIp("link set s1 mtu 9000");
  c1_->AddAddress("eth0", "10.0.0.101/24");
  UplinkDaemon* const gateway = StartGateway("vlans = [0]\n", 9000);
  Host* const h1 = AddMember();
  EXPECT_TRUE(Reaches(c1_, "10.0.0.1", kPatience, "0.1"));
  UniqueFd sender = UdpSocket(c1_, "10.0.0.101", 0), receiver = UdpSocket(h1, "10.0.0.1", 4000);
  const Bytes datagram(8000, 0x5a);
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    SendUdp(sender.get(), "10.0.0.1", 4000, datagram);
    return ReceiveUdp(receiver.get(), absl::Milliseconds(200)) == absl::optional<Bytes>(datagram);
  }));
  EXPECT_GT(gateway->Stat("too_big_from_wire"), 0u);
}

TEST_F(UplinkTest, ANicWithoutLinkIsShown) {
  UplinkDaemon* const gateway = StartGateway("vlans = [0]\n");
  core_->MustIp("link set p-gw down");
  EXPECT_TRUE(gateway->Shows("down: netdev e1 has no carrier")) << gateway->Show();
  EXPECT_THAT(gateway->Show(), HasSubstr("active in VLANs none"));
  core_->MustIp("link set p-gw up");
  EXPECT_TRUE(gateway->Shows("active in VLANs 0;")) << gateway->Show();
}

TEST_F(UplinkTest, TheNetdevMayGoDownAndBeReplaced) {
  c1_->AddAddress("eth0", "10.0.0.101/24");
  UplinkDaemon* const gateway = StartGateway("vlans = [0]\n");
  Host* const host = gateway->host();
  AddMember();
  EXPECT_TRUE(Reaches(c1_, "10.0.0.1", kPatience, "0.1"));
  host->MustIp("link set e1 down");
  EXPECT_TRUE(gateway->Shows("down: netdev e1 is down; set it up")) << gateway->Show();
  EXPECT_THAT(gateway->Show(), HasSubstr("active in VLANs none"));
  host->MustIp("link set e1 up");
  EXPECT_TRUE(gateway->Shows("active in VLANs 0;")) << gateway->Show();
  EXPECT_TRUE(Reaches(c1_, "10.0.0.1", kPatience, "0.1"));
  host->MustIp("link del e1");
  EXPECT_TRUE(gateway->Shows("down: there is no netdev e1")) << gateway->Show();
  host->AddVeth("e1", core_, "p-new");
  core_->MustIp("link set p-new master br0");
  EXPECT_TRUE(gateway->Shows("active in VLANs 0;")) << gateway->Show();
  EXPECT_TRUE(Reaches(c1_, "10.0.0.1", kPatience, "0.1"));
  EXPECT_THAT(core_->MustRun({"bridge", "fdb", "show", "br", "br0"}), HasSubstr("dev p-new"));
}

// As README.md says: mergecap joins both sides, in the order of their times.
TEST_F(UplinkTest, CapturesOfBothSidesHaveTheFramesThatCross) {
  UplinkDaemon* const gateway = StartGateway("vlans = [\"10:110\"]\n");
  Host* const h1 = AddMember("mode = \"trunk\"\n");
  PacketSocket wire(c1_, "eth0"), tap(h1, "v1");
  const std::string directory = gateway->directory();
  const std::string ves_path = directory + "/ves.erf", wire_path = directory + "/wire.pcap";
  gateway->MustCtl({"capture", "start", ves_path, "vport=up0"});
  const std::unique_ptr<Process> tcpdump = gateway->host()->Start(
      {"tcpdump", "-U", "--immediate-mode", "-i", "e1", "-w", wire_path, "vlan", "110"});
  const Bytes in = WithTag(TestFrame(MacAddr::Broadcast(), kA, 1), 110);
  const auto fields = [&](const std::string& path) {
    return gateway->host()->Run(
        {"tshark", "-r", path, "-T", "fields", "-e", "eth.src", "-e", "vlan.id"});
  };
  EXPECT_TRUE(EventuallyTrue(
      kPatience,
      [&] {
        wire.Send(in);
        tap.WaitFor(Marked(1), 1, absl::Milliseconds(200));
        const std::string both = directory + "/both.pcapng";
        if (!gateway->host()->Run({"mergecap", "-w", both, ves_path, wire_path}).ok()) return false;
        const std::string merged = fields(both).out;
        return absl::StrContains(merged, absl::StrCat(kA.ToString(), "\t110\n")) &&
               absl::StrContains(merged, absl::StrCat(kA.ToString(), "\t10\n"));
      }))
      << fields(ves_path).out << fields(wire_path).out;
}

TEST_F(UplinkTest, AnUplinkThatIsNoEdgeWaitsForTheSpanningTree) {
  core_->MustIp("link set br0 type bridge stp_state 1 forward_delay 200");
  c1_->AddAddress("eth0", "10.0.0.101/24");
  UplinkDaemon* const gateway = AddGateway("gw");
  gateway->Configure("vlans = [0]\nedge = false\n");
  gateway->Launch();
  gateway->WaitUntil({"uplink", "show"}, [](const std::string& show) {
    return absl::StrContains(show, "down: it waits for the spanning tree of the wire");
  });
  AddMember();
  EXPECT_TRUE(Reaches(c1_, "10.0.0.1", kPatience, "0.1"))
      << "the first broadcast shows that the port forwards";
  EXPECT_THAT(gateway->Show(), HasSubstr("active in VLANs 0;"));
}

TEST_F(UplinkTest, TwoUplinksOfOneProcessKeepTheirNetworksApart) {
  Host* const other = lab().AddHost("other");
  UplinkDaemon* const gateway = AddGateway("gw");
  gateway->host()->AddVeth("e2", other, "eth0");
  gateway->Configure(
      "vlans = [\"10:0\"]\n[[uplink]]\nname = \"up1\"\nves = \"red\"\nnetdev = \"e2\"\nvlans = "
      "[\"20:0\"]\n");
  gateway->Launch();
  gateway->WaitUntil({"uplink", "show", "up1"},
                     [](const std::string& show) { return absl::StrContains(show, "VLANs 20;"); });
  c1_->AddAddress("eth0", "10.0.0.101/24");
  other->AddAddress("eth0", "10.0.0.101/24");
  AgentSpec spec;
  spec.vports = {{"v1", "red", "access_vlan = 10\n"}, {"v2", "red", "access_vlan = 20\n"}};
  Host* const h1 = AddAgent("h1", spec).host();
  h1->AddAddress("v1", "10.0.0.1/24");
  EXPECT_TRUE(Reaches(c1_, "10.0.0.1", kPatience, "0.1"));
  EXPECT_FALSE(Reaches(other, "10.0.0.1", absl::Milliseconds(300), "0.1"));
  h1->MustIp("addr del 10.0.0.1/24 dev v1");
  h1->AddAddress("v2", "10.0.0.1/24");
  EXPECT_TRUE(Reaches(other, "10.0.0.1", kPatience, "0.1"));
}

// IPoIB host s1, member h1 of the VES and host c1 of the core in one subnet, through one process.
class UplinkIpoibTest : public SwitchTest {};

TEST_F(UplinkIpoibTest, AllThreeNetworksReachEachOther) {
  StartFabric({{.pkey = 0x8001}, {.pkey = 0x8002, .ipoib = true}});
  const HostOptions with_ipv6 = {.ipv6 = true};
  Host* const c1 = lab().AddHost("c1", with_ipv6);
  Host* const gw = lab().AddHost("gw");
  gw->AddVeth("e1", c1, "eth0");
  UplinkDaemon gateway(&lab(), &fabric(), gw);
  gateway.Configure(
      "vlans = [0]\n[[gateway]]\nname = \"gw0\"\nves = \"red\"\npkey = 0x8002\npeers = []\n"
      "prefixes = [\"10.0.0.0/24\", \"fd00::/64\"]\n");
  gateway.Launch();
  gateway.WaitUntil({"gateway", "show"},
                    [](const std::string& show) { return absl::StrContains(show, ", active"); });
  IpoibHost s1(&lab(), &fabric(), lab().AddHost("s1", with_ipv6),
               {.addresses = {"10.0.0.11/24", "fd00::11/64"}});
  s1.Start();
  Host* const h1 = AddNumberedAgents(1, {}, with_ipv6)[0]->host();
  c1->AddAddress("eth0", "10.0.0.101/24");
  c1->AddAddress("eth0", "fd00::101/64");
  for (const auto& [from, to] :
       std::vector<std::pair<Host*, std::string>>{{c1, "10.0.0.11"},
                                                  {c1, "fd00::11"},
                                                  {c1, "10.0.0.1"},
                                                  {c1, "fd00::1"},
                                                  {s1.host(), "10.0.0.101"},
                                                  {s1.host(), "fd00::101"},
                                                  {s1.host(), "10.0.0.1"},
                                                  {h1, "10.0.0.101"},
                                                  {h1, "fd00::11"}}) {
    EXPECT_TRUE(Reaches(from, to, kPatience, "0.2")) << from->name() << " to " << to;
  }
  PacketSocket core(c1, "eth0"), member(h1, "v1");
  MulticastStation station(s1.host(), /*ipv6=*/false, 4000, "ib0");
  station.SetHops(1);
  station.Send("224.0.0.1", "from IPoIB to all");
  const auto arrived = [](const Bytes& frame) {
    return std::string(frame.begin(), frame.end()).find("from IPoIB to all") != std::string::npos;
  };
  EXPECT_TRUE(core.WaitFor(arrived));
  EXPECT_TRUE(member.WaitFor(arrived));
  ExpectConservation(&gateway, {"red"});
  for (Daemon* daemon : std::initializer_list<Daemon*>{&gateway, &s1})
    EXPECT_EQ(daemon->Stop(), 0) << daemon->Log();
}

}  // namespace
}  // namespace eoib::lab
