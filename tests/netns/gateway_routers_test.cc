// Networks behind a router, on either side of a gateway.
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tests/lab/frames.h"
#include "tests/lab/packet_socket.h"
#include "tests/lab/servers.h"
#include "tests/netns/gateway_test_fixture.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib::lab {
namespace {

// IPv4 is configured, IPv6 is learned.
constexpr char kPrefix4[] = "prefixes = [\"10.0.0.0/24\"]\n";
// Addresses of the router outside the subnet: packets for them must go through the router.
constexpr char kElsewhere4[] = "192.0.2.1", kElsewhere6[] = "2001:db8:2::1";

class GatewayRouterTest : public GatewayTest {
 protected:
  // Makes `host` a router that advertises itself and fd00::/64 on its interface.
  void MakeRouter(Host* host, const std::string& interface) {
    host->Sysctl("ipv6/conf/all/forwarding", "1");
    // Until eoib-ipoib has read the kernel's groups again, it answers without the router flag,
    // which ends default routes.
    if (interface == "ib0" && !IsKernelIpoib(1)) {
      ipoib_daemon(1)->WaitUntil({"groups"}, [](const std::string& groups) {
        return absl::StrContains(groups, "ff02::2\n") || absl::StrContains(groups, "ff02::2 ");
      });
    }
    host->AddAddress("lo", absl::StrCat(kElsewhere4, "/32"));
    host->AddAddress("lo", absl::StrCat(kElsewhere6, "/128"));
    radvd_ = StartRadvd(&lab(), host, interface, "fd00::/64", "AdvDefaultLifetime 600;");
  }
  void ExpectDefaultRoute(Host* host) {
    EXPECT_TRUE(EventuallyTrue(
        kPatience,
        [&] { return absl::StrContains(host->MustIp("-6 route show default"), "proto ra"); }))
        << host->MustIp("-6 route show") << radvd_->Log()
        << gateway()->MustCtl({"gateway", "drops"});
  }

  // Waits until IPoIB host `number` uses the address from the advertisement, which takes a second
  // of duplicate address detection. Until eoib-ipoib sees the address, it passes packets from it.
  void WaitForAdvertisedAddress(int number) {
    const auto count = [](const std::string& text, const char* what) {
      return std::vector<std::string>(absl::StrSplit(text, what)).size() - 1;
    };
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
      return count(ipoib_host(number)->MustIp("-6 address show dev ib0 scope global -tentative"),
                   "inet6 fd00:") == 2;
    }));
    if (IsKernelIpoib(number)) return;
    ipoib_daemon(number)->WaitUntil({"show"}, [&](const std::string& show) {
      return count(show, "address fd00:") == 2 && !absl::StrContains(show, ": tentative");
    });
  }
  // Waits until the gateway's file has every address that it knows, which takes a tenth of a
  // second.
  void WaitUntilSaved() {
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
      const std::string saved = ReadFile(gateway()->directory() + "/state/gateway-gw0.json");
      for (absl::string_view word : absl::StrSplit(gateway()->MustCtl({"gateway", "neigh", "show"}),
                                                   absl::ByAnyChar(" \n"))) {
        const bool is_address = IpAddr::Parse(word).ok();
        if (is_address && !absl::StrContains(saved, absl::StrCat("\"", word, "\""))) return false;
      }
      return !saved.empty();
    }));
  }
  // Retries, because the duplicate address detection of `from` takes a second.
  static void ExpectToReach(Host* from, const std::string& to) {
    EXPECT_TRUE(Reaches(from, to)) << to;
    ExpectPing(from, to);
  }

  std::unique_ptr<Process> radvd_;
};

// Packets from IPoIB hosts do not name their next hop. The gateway learned the IPv6 router from its
// advertisements, and has the IPv4 router from its configuration.
TEST_F(GatewayRouterTest, IpoibHostsReachNetworkBehindEthernetRouter) {
  AddHosts(1, 1, absl::StrCat("routers = [\"", Address(1), "\"]\n", kPrefix4));
  StartCapture();
  MakeRouter(ethernet_host(1), "v1");
  ExpectDefaultRoute(ipoib_host(1));
  WaitForAdvertisedAddress(1);
  ExpectToReach(ipoib_host(1), kElsewhere6);
  ipoib_host(1)->MustIp(absl::StrCat("route add default via ", Address(1), " dev ib0"));
  ExpectPing(ipoib_host(1), kElsewhere4);
  ExpectCaptureDecodes(10);
}

// A guest says that everything is on the link, that it is the router, and that it has the address
// of a remote host.
TEST_F(GatewayRouterTest, GuestCannotTakeRoutedTraffic) {
  AddHosts(2, 1, absl::StrCat("routers = [\"", Address(1), "\"]\n", kPrefix4));
  ethernet_host(1)->AddAddress("lo", absl::StrCat(kElsewhere4, "/32"));
  ipoib_host(1)->MustIp(absl::StrCat("route add default via ", Address(1), " dev ib0"));
  ExpectToReach(ipoib_host(1), kElsewhere4);

  Host* const guest = ethernet_host(2);
  const MacAddr mac = Mac(guest->Mac("v1"));
  PacketSocket socket(guest, "v1");
  // DHCPACK of 10.0.0.200/0 for ever; the server and router is the guest.
  Bytes ack(236);
  ack[0] = 2, ack[1] = 32, ack[7] = 1, ack[16] = 10, ack[19] = 200;
  const Bytes options = {0x63, 0x82, 0x53, 0x63, 53, 1,    5,    1,    4,    0,  0,
                         0,    0,    54,   4,    10, 0,    0,    2,    3,    4,  10,
                         0,    0,    2,    51,   4,  0xff, 0xff, 0xff, 0xff, 255};
  ack.insert(ack.end(), options.begin(), options.end());
  socket.Send(UdpDatagram({MacAddr::Broadcast(), mac, Ip4(Address(2)), Ip4("255.255.255.255")}, 67,
                          68, ack));
  socket.Send(ArpRequest(mac, Ip4(kElsewhere4), Ip4(kElsewhere4)));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return gateway()->Stat("unasked_dhcp") >= 1 && gateway()->Stat("ignored_claims") >= 1;
  })) << gateway()->MustCtl({"gateway", "stats"});
  ExpectPing(ipoib_host(1), kElsewhere4);
  EXPECT_FALSE(absl::StrContains(gateway()->MustCtl({"gateway", "route", "show"}), "dhcp"));
  gateway()->Kill(SIGKILL);
  gateway()->Wait();
  gateway()->Start();
  ExpectToReach(ipoib_host(1), kElsewhere4);
}

TEST_F(GatewayRouterTest, EthernetHostsReachNetworkBehindIpoibRouter) {
  AddHosts(1, 1);
  // It has no address of its own yet; the advertisement gives it one.
  Host* const client = AddAgent("h2", {}, {.ipv6 = true}).host();
  MakeRouter(ipoib_host(1), "ib0");
  ExpectDefaultRoute(client);
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(client->MustIp("-6 address show dev v1 scope global -tentative"),
                             "fd00:");
  }));
  ExpectToReach(client, kElsewhere6);
  client->AddAddress("v1", Address(2) + "/24");
  client->MustIp(absl::StrCat("route add default via ", Address(11), " dev v1"));
  ExpectPing(client, kElsewhere4);
}

// RFC 4861 §7.2.5: a restarted gateway still knows the router, and must not announce it with the
// router flag cleared.
TEST_F(GatewayRouterTest, GatewayRestartKeepsDefaultRoutesOfHosts) {
  AddHosts(1, 1, absl::StrCat("routers = [\"", Address(1), "\"]\n", kPrefix4));
  MakeRouter(ethernet_host(1), "v1");
  ExpectDefaultRoute(ipoib_host(1));
  WaitForAdvertisedAddress(1);
  ExpectToReach(ipoib_host(1), kElsewhere6);
  WaitUntilSaved();
  radvd_->Kill(SIGKILL);  // so that no advertisement can repair it
  gateway()->Kill(SIGKILL);
  gateway()->Wait();
  gateway()->Start();
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return gateway()->Stat("announced") >= 2; }));
  ExpectToReach(ipoib_host(1), kElsewhere6);
  EXPECT_TRUE(absl::StrContains(ipoib_host(1)->MustIp("-6 route show default"), "proto ra"));
}

}  // namespace
}  // namespace eoib::lab
