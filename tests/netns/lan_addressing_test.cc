// Address configuration across the switch: router advertisements and DHCP, with stock servers and
// clients.
#include <signal.h>
#include <sys/stat.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/dhcp_client.h"
#include "tests/lab/servers.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// ---- IPv6: router advertisements and duplicate addresses ----------------------------------------

constexpr HostOptions kIpv6WithDad = {.ipv6 = true, .dad = true};
constexpr char kPrefix[] = "2001:db8:1:";
constexpr char kRouterAddress[] = "2001:db8:1::1";
constexpr char kElsewhere[] = "2001:db8:2::1";  // behind the router

// The host's address with `prefix` on v1; "" while there is none or it is tentative.
std::string UsableAddress(Host* host, const std::string& prefix) {
  for (absl::string_view line :
       absl::StrSplit(host->MustIp("-6 -o address show dev v1 scope global -tentative"), '\n')) {
    const std::vector<std::string> words = Words(line);
    if (words.size() < 4 || !absl::StartsWith(words[3], prefix)) continue;
    return words[3].substr(0, words[3].find('/'));
  }
  return "";
}

class RouterAdvertisementTest : public SwitchTest {
 protected:
  void StartRouter() {
    router_ = AddAgent("router", {}, {.ipv6 = true}).host();
    router_->Sysctl("ipv6/conf/all/forwarding", "1");
    router_->AddAddress("v1", absl::StrCat(kRouterAddress, "/64"));
    router_->AddAddress("lo", absl::StrCat(kElsewhere, "/128"));
    radvd_ = StartRadvd(&lab(), router_, "v1", absl::StrCat(kPrefix, ":/64"));
  }

  // Waits for the host's address "2001:db8:1:..." and returns it.
  std::string AutoconfiguredAddress(Host* host) {
    std::string address;
    EXPECT_TRUE(EventuallyTrue(kPatience,
                               [&] { return !(address = UsableAddress(host, kPrefix)).empty(); }))
        << host->name() << " has only " << host->MustIp("-6 address show dev v1") << "radvd says "
        << radvd_->Log();
    return address;
  }

  Host* router_ = nullptr;
  std::unique_ptr<Process> radvd_;
};

TEST_F(RouterAdvertisementTest, HostsGetAddressAndDefaultRoute) {
  StartRouter();
  Host* one = AddAgent("h1", {}, kIpv6WithDad).host();
  Host* two = AddAgent("h2", {}, kIpv6WithDad).host();
  const std::string address1 = AutoconfiguredAddress(one), address2 = AutoconfiguredAddress(two);
  EXPECT_NE(address1, address2);
  for (Host* host : {one, two}) {
    EXPECT_THAT(host->MustIp("-6 route show default"), HasSubstr("proto ra"));
    ExpectPing(host, kElsewhere);
  }
  ExpectPing(one, address2);
  ExpectPing(two, address1);
  ExpectPing(router_, address1);
}

TEST_F(RouterAdvertisementTest, WithdrawnDefaultRouteIsRemovedOnAllHosts) {
  StartRouter();
  Host* one = AddAgent("h1", {}, kIpv6WithDad).host();
  AutoconfiguredAddress(one);
  ASSERT_THAT(one->MustIp("-6 route show default"), HasSubstr("proto ra"));
  radvd_->Kill(SIGTERM);  // it sends a router lifetime of zero (RFC 4861 §6.2.5)
  EXPECT_TRUE(
      EventuallyTrue(kPatience, [&] { return one->MustIp("-6 route show default").empty(); }));
}

TEST_F(RouterAdvertisementTest, DuplicateAddressIsDetectedAcrossTheSwitch) {
  const std::string address = "2001:db8:1::7";
  Host* owner = AddAgent("h1", {}, kIpv6WithDad).host();
  Host* latecomer = AddAgent("h2", {}, kIpv6WithDad).host();
  owner->AddAddress("v1", address + "/64");
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return UsableAddress(owner, address) == address; }));
  // Each probe waits one second for an answer.
  latecomer->Sysctl("ipv6/conf/v1/dad_transmits", "5");
  latecomer->AddAddress("v1", address + "/64");
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(latecomer->MustIp("-6 address show dev v1"), "dadfailed");
  })) << latecomer->MustIp("-6 address show dev v1");
  EXPECT_THAT(owner->MustIp("-6 address show dev v1"), Not(HasSubstr("dadfailed")));
  // The kernels' link-local addresses are different.
  EXPECT_THAT(latecomer->MustIp("-6 address show dev v1 scope link"), Not(HasSubstr("dadfailed")));
}

// ---- DHCP ---------------------------------------------------------------------------------------

// A server, a client on a host, and a client on a guest behind another host's bridge.
class DhcpTest : public SwitchTest {
 protected:
  void SetUp() override {
    SwitchTest::SetUp();
    server_ = AddAgent("server", {}, {.ipv6 = true}).host();
    server_->AddAddress("v1", "10.0.0.1/24");
    server_->AddAddress("v1", "fd00::1/64");
    // dhclient's IAID is the last four bytes of the MAC. It cannot parse its own lease file if one
    // of them is a backslash.
    AgentSpec printable;
    printable.vports = {{"v1", "red", "mac = \"02:65:6f:69:62:31\"\n"}};
    host_ = AddAgent("h1", printable, {.ipv6 = true}).host();
    Host* bridge = AddAgent("h2").host();
    guest_ = lab().AddHost("guest", {.ipv6 = true});
    bridge->AddVeth("tap1", guest_, "eth0", 4070);
    bridge->AddBridge("br0", {"v1", "tap1"});
    dnsmasq_ = StartDnsmasq(&lab(), server_, "v1");
  }

  // Waits until the server's log contains `what`.
  void ExpectInServersLog(const std::string& what) {
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return absl::StrContains(dnsmasq_->Log(), what); }))
        << what << " is not in\n"
        << dnsmasq_->Log();
  }

  Host* server_ = nullptr;
  Host* host_ = nullptr;
  Host* guest_ = nullptr;
  std::unique_ptr<Process> dnsmasq_;
};

TEST_F(DhcpTest, Ipv4ClientsGetAndRenewLeases) {
  DhcpClient client(&lab(), host_, "v1", "-4"), guest(&lab(), guest_, "eth0", "-4");
  client.Start();
  guest.Start();
  const std::string address = client.AddressAt("BOUND"), guests_address = guest.AddressAt("BOUND");
  EXPECT_NE(address, guests_address);
  ExpectPing(server_, address);
  ExpectPing(server_, guests_address);
  ExpectPing(host_, guests_address);
  EXPECT_EQ(client.AddressAt("RENEW"), address);
  EXPECT_EQ(guest.AddressAt("RENEW"), guests_address);
  ExpectPing(guest_, address);
  EXPECT_TRUE(guest.Release().ok());
  ExpectInServersLog(absl::StrCat("DHCPRELEASE(v1) ", guests_address));
}

TEST_F(DhcpTest, Ipv6ClientsGetConfirmAndRenewLeases) {
  DhcpClient client(&lab(), host_, "v1", "-6"), guest(&lab(), guest_, "eth0", "-6");
  client.Start();
  guest.Start();
  const std::string address = client.AddressAt("BOUND6"),
                    guests_address = guest.AddressAt("BOUND6");
  EXPECT_NE(address, guests_address);
  ExpectPing(server_, address);
  ExpectPing(server_, guests_address);
  ExpectPing(host_, guests_address);
  // The server's T1 is half of its shortest lease, one minute. A restarted client confirms the
  // lease in its file (RFC 8415 §18.2.3), and renews it at once if T1 is over.
  client.Stop();
  const std::string leases = ReadFile(client.leases());
  ASSERT_THAT(leases, HasSubstr("renew 60;"));
  WriteFile(client.leases(), absl::StrReplaceAll(leases, {{"renew 60;", "renew 1;"}}));
  client.Start();
  EXPECT_EQ(client.AddressAt("RENEW6"), address);
  ExpectInServersLog("DHCPCONFIRM(v1)");
  ExpectInServersLog("DHCPRENEW(v1)");
  ExpectPing(guest_, address);
  EXPECT_TRUE(guest.Release().ok());
  ExpectInServersLog("DHCPRELEASE(v1)");
}

}  // namespace
}  // namespace eoib::lab
