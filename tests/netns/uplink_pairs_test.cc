// Two Ethernet uplinks between the same networks: which one forwards, and what happens when it
// fails.
#include <signal.h>

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gateway/election/uplink_hello.h"
#include "gateway/uplink/wire_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/netns/uplink_test_fixture.h"

namespace eoib::lab {
namespace {

using gateway::kUplinkHelloGroup;
using gateway::UplinkHello;
using ::testing::HasSubstr;

// Two gateways between the same networks.
class UplinkPairTest : public UplinkTest {
 protected:
  // The first one becomes active.
  void StartPair() {
    c1_->AddAddress("eth0", "10.0.0.101/24");
    StartGateways("0", "0");
    h1_ = AddMember();
    EXPECT_TRUE(Reaches(c1_, "10.0.0.1", kPatience, "0.1"));
    EXPECT_TRUE(
        EventuallyTrue(kPatience, [&] { return agent(1).KnowsAnnounced(c1_->Mac("eth0")); }));
  }
  // With one VLAN, `shown` in the VES.
  void StartGateways(const std::string& vlan, const std::string& shown) {
    const std::string vlans = absl::StrCat("vlans = [", vlan, "]\n");
    for (const char* name : {"gw1", "gw2"}) {
      UplinkDaemon* const gateway = AddGateway(name);
      gateway->host()->MustIp("link set e1 down");  // until each knows the other
      gateway->Configure(vlans);
      gateway->Launch();
      gateway->WaitUntil({"uplink", "show"},
                         [](const std::string& show) { return absl::StrContains(show, "down"); });
    }
    const std::string peers = absl::StrCat("peers = [\"", gateways_[0]->OwnGid(), "\", \"",
                                           gateways_[1]->OwnGid(), "\"]\n");
    for (size_t i = 0; i < 2; ++i) {
      configuration_[i] = absl::StrCat(vlans, "priority = ", 200 - i, "\n", peers);
      gateways_[i]->Configure(configuration_[i]);
      gateways_[i]->MustCtl({"reload"});
      gateways_[i]->host()->MustIp("link set e1 up");
      EXPECT_TRUE(gateways_[i]->Shows(
          absl::StrCat(i == 0 ? "active in VLANs " : "stands by in ", shown, "\n")))
          << gateways_[i]->Show();
    }
    EXPECT_TRUE(first()->Shows(absl::StrCat("standing by in ", shown, "\n"))) << first()->Show();
  }
  UplinkDaemon* first() { return gateways_[0].get(); }
  UplinkDaemon* second() { return gateways_[1].get(); }

  std::string configuration_[2];
  Host* h1_ = nullptr;
};

TEST_F(UplinkPairTest, OneForwardsAndTheOtherStandsBy) {
  StartPair();
  PacketSocket tap(h1_, "v1"), wire(c1_, "eth0");
  wire.Send(TestFrame(MacAddr::Broadcast(), MacAddr::FromUint64(0x02'aa'00'00'00'09), 1));
  EXPECT_TRUE(tap.WaitFor(Marked(1)));
  tap.Send(TestFrame(MacAddr::Broadcast(), MacAddr::FromUint64(0x02'aa'00'00'00'0a), 2));
  EXPECT_TRUE(wire.WaitFor(Marked(2)));
  ExpectPing(c1_, "10.0.0.1", 20);
  EXPECT_EQ(tap.Count(Marked(1)), 1u);
  EXPECT_EQ(wire.Count(Marked(2)), 1u);
  EXPECT_EQ(second()->Stat("from_wire") + second()->Stat("to_wire"), 0u);
  EXPECT_GT(second()->Stat("standby_from_wire"), 0u);
  EXPECT_GT(second()->Stat("hellos_from_ves"), 0u);
  EXPECT_GT(second()->Stat("hellos_from_wire"), 0u);
}

TEST_F(UplinkPairTest, ConnectionsSurviveAKillAndAStop) {
  StartPair();
  UniqueFd listener = TcpListener(h1_, "10.0.0.1", 5000);
  UniqueFd client = TcpConnect(c1_, "10.0.0.1", 5000);
  ASSERT_TRUE(client.valid());
  UniqueFd server = TcpAccept(listener.get());
  EXPECT_EQ(TcpTransfer(client.get(), server.get(), 1 << 20), "");
  first()->Kill(SIGKILL);
  EXPECT_TRUE(second()->Shows("active in VLANs 0, the last failover")) << second()->Show();
  EXPECT_LE(second()->LastFailover(), 1000);
  EXPECT_EQ(TcpTransfer(server.get(), client.get(), 1 << 20), "");
  EXPECT_EQ(TcpTransfer(client.get(), server.get(), 1 << 20), "");
  EXPECT_GT(second()->Stat("macs_taken_over"), 0u);
  EXPECT_GT(second()->Stat("macs_advertised"), 0u);
  first()->Launch();
  EXPECT_TRUE(first()->Shows("stands by in 0\n"))
      << "it does not take the VLANs back: " << first()->Show();
  EXPECT_TRUE(second()->Shows("standing by in 0\n"))
      << "so the first one can be its successor: " << second()->Show();
  EXPECT_EQ(second()->Stop(), 0) << second()->Log();
  EXPECT_TRUE(first()->Shows("active in VLANs 0, the last failover")) << first()->Show();
  EXPECT_LE(first()->LastFailover(), 100);
  EXPECT_EQ(TcpTransfer(server.get(), client.get(), 1 << 20), "");
}

TEST_F(UplinkPairTest, ANicWithoutLinkHandsItsVlansOver) {
  StartPair();
  core_->MustIp("link set p-gw1 down");
  EXPECT_TRUE(second()->Shows("active in VLANs 0, the last failover")) << second()->Show();
  EXPECT_TRUE(Reaches(c1_, "10.0.0.1", kPatience, "0.1"));
  EXPECT_TRUE(Reaches(h1_, "10.0.0.101", kPatience, "0.1"));
  core_->MustIp("link set p-gw1 up");
  EXPECT_TRUE(first()->Shows("stands by in 0\n")) << first()->Show();
}

TEST_F(UplinkPairTest, AStoppedGatewayForwardsNothingWhenItGoesOn) {
  StartPair();
  first()->Kill(SIGSTOP);
  EXPECT_TRUE(second()->Shows("active in VLANs 0, the last failover")) << second()->Show();
  PacketSocket tap(h1_, "v1"), wire(c1_, "eth0");
  wire.Send(TestFrame(MacAddr::Broadcast(), kA, 1));
  EXPECT_TRUE(tap.WaitFor(Marked(1)));
  first()->Kill(SIGCONT);
  EXPECT_TRUE(first()->Shows("stands by in 0\n")) << first()->Show();
  ExpectPing(c1_, "10.0.0.1", 20);
  EXPECT_EQ(tap.Count(Marked(1)), 1u) << "it has waited in the socket of the first one";
}

TEST_F(UplinkPairTest, FramesOnTheWireThatAreNoHellosAreCounted) {
  StartPair();
  PacketSocket wire(c1_, "eth0");
  Bytes forged = TestFrame(MacAddr::FromUint64(0x03'65'6f'69'62'75), kA, 7);
  forged[12] = 0x88, forged[13] = 0xb5;
  wire.Send(forged);
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return first()->Stat("hellos_malformed") == 1; }));
  EXPECT_THAT(first()->Show(), HasSubstr("active in VLANs 0\n"));
}

// A hello in the name of a gateway, which claims VLAN 0 of VES 0x8001.
Bytes ForgedHello(UplinkDaemon* from, UplinkHello::Claim claim, MacAddr to = kUplinkHelloGroup) {
  UplinkHello hello;
  hello.ves = PKey(0x8001);
  hello.from = *Gid::Parse(from->OwnGid());
  hello.priority = 255;
  hello.sequence = UINT64_MAX;
  hello.runs = {{Vid(0), Vid(0), claim}};
  return EthernetFrame(to, kA, 0x88b5, gateway::EncodeUplinkHello(hello));
}

TEST_F(UplinkPairTest, ForgedHellosMakeNoLoop) {
  StartPair();
  PacketSocket tap(h1_, "v1"), wire(c1_, "eth0");
  std::vector<Bytes> forged;
  for (UplinkDaemon* gateway : {first(), second()})
    forged.push_back(ForgedHello(gateway, UplinkHello::Claim::kListening));
  const uint64_t heard = second()->Stat("hellos_from_ves");
  // Three seconds of genuine hellos.
  for (uint32_t marker = 1; second()->Stat("hellos_from_ves") < heard + 30; ++marker) {
    wire.SendAll(forged);
    wire.Send(TestFrame(MacAddr::Broadcast(), kB, marker));
    ASSERT_TRUE(tap.WaitFor(Marked(marker)));
  }
  for (const auto& [marker, count] : tap.Markers()) EXPECT_EQ(count, 1u) << marker;
  for (const auto& [marker, count] : wire.Markers()) EXPECT_EQ(count, 0u) << marker;
  EXPECT_THAT(first()->Show(), HasSubstr("active in VLANs 0\n"));
  EXPECT_EQ(second()->Stat("from_wire"), 0u);
}

TEST_F(UplinkPairTest, HellosCountInTheFirstVlanAndToTheirGroupOnly) {
  StartPair();
  PacketSocket wire(c1_, "eth0");
  const Bytes claim = ForgedHello(second(), UplinkHello::Claim::kActive);
  Bytes sentinel = claim;
  sentinel.resize(40);
  const uint64_t changes = first()->Stat("vlan_changes");
  wire.SendAll({WithTag(claim, 30), WithTag(claim, 0, 0, 0x88a8), WithTag(claim, 30, 0, 0x88a8),
                ForgedHello(second(), UplinkHello::Claim::kActive, MacAddr::Broadcast()),
                ForgedHello(second(), UplinkHello::Claim::kActive, Mac(first()->host()->Mac("e1"))),
                sentinel});
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return first()->Stat("hellos_malformed") == 1; }));
  EXPECT_EQ(first()->Stat("vlan_changes"), changes);
  wire.Send(WithTag(claim, 0, 5));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return first()->Stat("vlan_changes") == changes + 1;
  })) << "a priority tag";
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(first()->Show() + second()->Show(), "active in VLANs 0");
  })) << "one of the two";
}

TEST_F(UplinkPairTest, HellosAreTaggedOnATaggedWire) {
  StartGateways("\"10:110\"", "10");
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return second()->Stat("hellos_from_wire") > 10; }));
}

// A gateway that the others do not list hears them, and is not heard.
TEST_F(UplinkPairTest, HellosOfStrangersAreIgnoredAndCounted) {
  StartPair();
  UplinkDaemon* const stranger = AddGateway("gw3");
  stranger->Configure(
      absl::StrCat("vlans = [0]\npriority = 255\npeers = [\"", first()->OwnGid(), "\"]\n"));
  stranger->Launch();
  EXPECT_TRUE(stranger->Shows("stands by in 0\n")) << stranger->Show();
  for (UplinkDaemon* gateway : {first(), second()}) {
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return gateway->Stat("hellos_unlisted") > 10; }));
    EXPECT_EQ(gateway->Stat("hellos_malformed"), 0u);
  }
  EXPECT_THAT(first()->Show(), HasSubstr("active in VLANs 0\n"));
  EXPECT_THAT(second()->Show(), HasSubstr("stands by in 0\n"));
}

// A filter for the frames in which `station` announces itself by ARP or reverse ARP. They have its
// address as sender and target.
PacketSocket::Filter ArpOf(MacAddr station, uint16_t ethertype, uint8_t operation, uint8_t host) {
  Bytes expected(14 + 28);
  std::fill_n(expected.begin(), 6, uint8_t{0xff});
  station.ToWire(&expected[6]);
  const uint8_t rest[] = {static_cast<uint8_t>(ethertype >> 8),
                          static_cast<uint8_t>(ethertype),
                          0,
                          1,
                          8,
                          0,
                          6,
                          4,
                          0,
                          operation};
  std::copy(std::begin(rest), std::end(rest), expected.begin() + 12);
  station.ToWire(&expected[22]);
  if (operation == 3) station.ToWire(&expected[32]);
  const uint8_t ip[] = {10, 0, 0, host};
  for (const size_t at : {28, 38}) {
    if (host != 0)
      std::copy(std::begin(ip), std::end(ip), expected.begin() + static_cast<ptrdiff_t>(at));
  }
  return [expected](const Bytes& frame) {
    return frame.size() >= expected.size() &&
           std::equal(expected.begin(), expected.end(), frame.begin());
  };
}

// A filter for unsolicited neighbor advertisements to all nodes (RFC 4861 §4.4) of `station` for
// `ip`: with the override flag, and the station's MAC as target link-layer address.
PacketSocket::Filter AdvertisementOf(MacAddr station, const Ipv6& ip) {
  Bytes source(6);
  station.ToWire(source.data());
  return [source, ip](const Bytes& frame) {
    constexpr uint8_t kAllNodes[] = {0x33, 0x33, 0, 0, 0, 1};
    if (frame.size() < 86 || !std::equal(std::begin(kAllNodes), std::end(kAllNodes), frame.begin()))
      return false;
    const auto has = [&frame](size_t at, const auto& bytes) {
      return std::equal(bytes.begin(), bytes.end(), frame.begin() + static_cast<ptrdiff_t>(at));
    };
    const bool is_advertisement = frame[12] == 0x86 && frame[13] == 0xdd && frame[20] == 58 &&
                                  frame[21] == 255 && frame[54] == 136;
    return is_advertisement && has(6, source) && has(22, ip) && frame[58] == 0x20 && has(62, ip) &&
           frame[78] == 2 && has(80, source) && ChecksumErrors(frame).empty();
  };
}

TEST_F(UplinkPairTest, StationsOfTheVesAreAdvertisedAfterAFailover) {
  StartPair();
  // Station A tells its IPv4 address, C its IPv6 address, and B none.
  Bytes announcement(60);
  PacketSocket tap(h1_, "v1"), wire(c1_, "eth0");
  const PacketSocket::Filter arp_of_a = ArpOf(kA, 0x0806, 1, 7);
  const uint8_t arp[] = {0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1, 0, 0,  0, 0, 0,
                         0,    10,   0, 0, 7, 0, 0, 0, 0, 0, 0, 10, 0, 0, 7};
  std::fill_n(announcement.begin(), 6, uint8_t{0xff});
  kA.ToWire(&announcement[6]);
  std::copy(std::begin(arp), std::end(arp), announcement.begin() + 12);
  kA.ToWire(&announcement[22]);
  tap.Send(announcement);
  tap.Send(TestFrame(MacAddr::Broadcast(), kB, 1));
  const MacAddr c = MacAddr::FromUint64(0x02'aa'00'00'00'0c);
  tap.Send(NeighborSolicitation(c, Ip6("fd00::c"), Ip6("fd00::99")));
  EXPECT_TRUE(wire.WaitFor(arp_of_a)) << "through the first gateway";
  for (const MacAddr station : {kA, kB, c}) {
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
      return absl::StrContains(second()->MustCtl({"fdb", "show"}), station.ToString());
    }));
  }
  first()->Kill(SIGKILL);
  EXPECT_TRUE(wire.WaitFor(arp_of_a, 2)) << "a gratuitous ARP of the second gateway";
  EXPECT_TRUE(wire.WaitFor(AdvertisementOf(c, Ip6("fd00::c"))))
      << "an unsolicited neighbor advertisement";
  EXPECT_TRUE(wire.WaitFor(ArpOf(kB, 0x8035, 3, 0)))
      << "a reverse ARP request, because its address is not known";
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(core_->MustRun({"bridge", "fdb", "show", "br", "br0"}),
                             kB.ToString() + " dev p-gw2");
  })) << "the core knows the new way";
}

}  // namespace
}  // namespace eoib::lab
