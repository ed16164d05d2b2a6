// Several gateways in one process: each joins its own VLAN and IPoIB link and no others.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/multicast_station.h"
#include "tests/netns/gateway_test_fixture.h"

namespace eoib::lab {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint16_t kOtherVesPKey = 0x8003, kOtherIpoibPKey = 0x8004;
constexpr uint8_t kFirstVlan = 10, kSecondVlan = 20;

// Two networks with the same addresses: if the gateway mixed them up, the wrong host would answer.
class GatewayPairsTest : public GatewayTest {
 protected:
  std::vector<PartitionSpec> Partitions() const override {
    std::vector<PartitionSpec> partitions = GatewayTest::Partitions();
    partitions.push_back({.pkey = kOtherVesPKey});
    partitions.push_back({.pkey = kOtherIpoibPKey, .ipoib = true});
    return partitions;
  }

  // Adds s1 on the first link and s2 on the other, both with 10.0.0.11 and fd00::11.
  void AddIpoibHosts() {
    AddIpoibHost(1, OnLink(kIpoibPKey));
    AddIpoibHost(2, OnLink(kOtherIpoibPKey));
  }
  static IpoibSpec OnLink(uint16_t pkey) {
    IpoibSpec spec = Numbered(1);
    spec.pkey = pkey;
    return spec;
  }
  // Adds h1 and h2, both with 10.0.0.1 and fd00::1 on v1.
  void AddEthernetHosts(const AgentSpec& first, const AgentSpec& second) {
    int number = 0;
    for (const AgentSpec& spec : {first, second}) {
      Host* const host = AddAgent(absl::StrCat("h", ++number), spec, {.ipv6 = true}).host();
      host->AddAddress("v1", Address(1) + "/24");
      host->AddAddress("v1", Address6(1) + "/64");
    }
  }
  void WaitUntilAllAreReady() {
    WaitUntilIpoibIsReady();
    for (const char* name : {"gw0", "gw1"}) {
      EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return gateway()->State(name) == "active"; }));
    }
  }

  // Expects that h1 reaches s1, and h2 reaches s2, and that the two networks are isolated.
  void ExpectTwoNetworks() {
    for (const int number : {1, 2}) {
      SCOPED_TRACE(absl::StrCat("network ", number));
      for (const std::string& to : {Address(11), Address6(11)})
        ExpectPing(ethernet_host(number), to);
      for (const std::string& to : {Address(1), Address6(1)}) ExpectPing(ipoib_host(number), to);
      const int other = 3 - number;
      const std::string shown =
          gateway()->MustCtl({"gateway", "neigh", "show", absl::StrCat("gw", number - 1)});
      EXPECT_THAT(shown, HasSubstr(IpoibAddressOf(number)));
      EXPECT_THAT(shown, Not(HasSubstr(IpoibAddressOf(other))));
      EXPECT_THAT(shown, HasSubstr(ethernet_host(number)->Mac("v1")));
      EXPECT_THAT(shown, Not(HasSubstr(ethernet_host(other)->Mac("v1"))));
    }
    // A broadcast arrives on both sides of its own network, and not in the other one.
    PacketSocket here(ethernet_host(1), "v1"), there(ethernet_host(2), "v1");
    MulticastStation first(ipoib_host(1), /*ipv6=*/false, 4000, "ib0");
    MulticastStation second(ipoib_host(2), /*ipv6=*/false, 4000, "ib0");
    for (MulticastStation* host : {&first, &second}) host->SetHops(1);
    const auto contains = [](const std::string& text) {
      return [text](const Bytes& frame) {
        return std::string(frame.begin(), frame.end()).find(text) != std::string::npos;
      };
    };
    first.Send("224.0.0.1", "sent in the first network");
    second.Send("224.0.0.1", "sent in the second network");
    EXPECT_TRUE(here.WaitFor(contains("sent in the first network")));
    EXPECT_TRUE(there.WaitFor(contains("sent in the second network")));
    EXPECT_EQ(here.Count(contains("sent in the second network")), 0u);
    EXPECT_EQ(there.Count(contains("sent in the first network")), 0u);
  }
};

TEST_F(GatewayPairsTest, OneProcessConnectsTwoVesesToTwoLinks) {
  AddGateway("gw", {{.more = kPrefixes},
                    {.name = "gw1",
                     .ves = "blue",
                     .ves_pkey = kOtherVesPKey,
                     .pkey = kOtherIpoibPKey,
                     .more = kPrefixes}})
      ->Launch();
  AddIpoibHosts();
  AddEthernetHosts({}, {.veses = {{"blue", kOtherVesPKey}}, .vports = {{"v1", "blue"}}});
  WaitUntilAllAreReady();
  ExpectTwoNetworks();
}

TEST_F(GatewayPairsTest, OneProcessConnectsTwoVlansToTwoLinks) {
  AddGateway("gw", {{.more = absl::StrCat("vlan = ", kFirstVlan, "\n", kPrefixes)},
                    {.name = "gw1",
                     .pkey = kOtherIpoibPKey,
                     .more = absl::StrCat("vlan = ", kSecondVlan, "\n", kPrefixes)}})
      ->Launch();
  AddIpoibHosts();
  const auto in_vlan = [](int vlan) {
    return AgentSpec{.vports = {{"v1", "red", absl::StrCat("access_vlan = ", vlan, "\n")}}};
  };
  AddEthernetHosts(in_vlan(kFirstVlan), in_vlan(kSecondVlan));
  WaitUntilAllAreReady();
  ExpectTwoNetworks();

  // On a trunk the answer carries its VLAN's tag.
  Host* const trunk = AddAgent("h3", {.vports = {{"v1", "red", "mode = \"trunk\"\n"}}}).host();
  PacketSocket socket(trunk, "v1");
  const MacAddr mac = Mac(trunk->Mac("v1"));
  const auto answer = [mac](uint8_t vlan) {
    return [mac, vlan](const Bytes& frame) {
      return frame.size() > 22 &&
             Bytes(frame.begin(), frame.begin() + 6) ==
                 Bytes(mac.bytes().begin(), mac.bytes().end()) &&
             frame[12] == 0x81 && frame[15] == vlan && frame[16] == 0x08 && frame[17] == 0x06;
    };
  };
  for (const uint8_t vlan : {kFirstVlan, kSecondVlan}) {
    socket.Send(WithTag(ArpRequest(mac, Ip4(Address(3)), Ip4(Address(11))), vlan));
    const absl::optional<Bytes> reply = socket.Receive(answer(vlan));
    ASSERT_TRUE(reply.has_value()) << int{vlan};
    const std::string known =
        gateway()->MustCtl({"gateway", "neigh", "show", vlan == kFirstVlan ? "gw0" : "gw1"});
    const MacAddr from = MacAddr::FromWire(reply->data() + 6);
    EXPECT_THAT(known, HasSubstr(from.ToString()));
  }
  EXPECT_EQ(socket.Count(answer(0)), 0u) << "without a tag";
}

// With all_groups the gateway forwards a group that no Ethernet host has reported.
TEST_F(GatewayPairsTest, AllGroupsOptionForwardsUnreportedGroups) {
  AddGateway("gw", {{.more = absl::StrCat("all_groups = true\n", kPrefixes)},
                    {.name = "gw1",
                     .ves = "blue",
                     .ves_pkey = kOtherVesPKey,
                     .pkey = kOtherIpoibPKey,
                     .more = kPrefixes}})
      ->Launch();
  LaunchIpoibHost(1, OnLink(kIpoibPKey));
  LaunchIpoibHost(2, OnLink(kOtherIpoibPKey));
  AddEthernetHosts({}, {.veses = {{"blue", kOtherVesPKey}}, .vports = {{"v1", "blue"}}});
  WaitUntilAllAreReady();
  const std::string group = "239.7.7.7";
  const auto to_group = [](const Bytes& frame) {
    return frame.size() > 34 &&
           Bytes(frame.begin(), frame.begin() + 6) == Bytes{0x01, 0x00, 0x5e, 7, 7, 7} &&
           frame[23] == 17;
  };
  PacketSocket all(ethernet_host(1), "v1"), reported(ethernet_host(2), "v1");
  // An IPoIB group exists only while it has members; the first to join creates it.
  MulticastStation member(ipoib_daemon(1)->host(), false, 4000, "ib0"),
      other_member(ipoib_daemon(2)->host(), false, 4000, "ib0");
  for (MulticastStation* host : {&member, &other_member}) {
    host->SetHops(3);
    host->Join(group);
  }
  // Before the group exists, its packets go to the all-routers group (RFC 4391 §10), which gateways
  // receive.
  ipoib_daemon(2)->WaitUntil({"link", "groups"}, [](const std::string& groups) {
    return absl::StrContains(groups, "ff12:401b:8004:0000:0000:0000:0f07:0707  member\n");
  });
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    member.Send(group, "to all groups");
    other_member.Send(group, "to a group without members");
    return all.Count(to_group) > 0;
  })) << gateway()->MustCtl({"gateway", "groups"});
  ExpectPing(ipoib_daemon(2)->host(), Address(1));
  EXPECT_EQ(reported.Count(to_group), 0u);
}

}  // namespace
}  // namespace eoib::lab
