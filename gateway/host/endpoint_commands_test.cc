#include "gateway/host/endpoint_commands.h"

#include "gateway/host/ip_host_test_fixture.h"
#include "gmock/gmock.h"
#include "vswitch/wire/golden_ipoib_for_test.h"

namespace eoib::endpoint {
namespace {

using ::testing::HasSubstr;

class EndpointCommandsTest : public IpHostTestFixture {
 protected:
  using IpHostTestFixture::Run;
  std::string Run(const char* command) {
    CommandRegistry registry;
    RegisterHostCommands(
        &host_,
        [] {
          return Json{{"netdev", "ib0"}};
        },
        &registry);
    return *registry.Run(command, {});
  }
};

TEST_F(EndpointCommandsTest, WithoutALink) {
  EXPECT_EQ(Run("show"), "IPoIB link: down\n  netdev ib0\n");
  EXPECT_EQ(Run("neigh"), "");
  EXPECT_EQ(Run("drops"), "");
  EXPECT_EQ(Run("groups"), "224.0.0.1\nff02::1\n");
}

TEST_F(EndpointCommandsTest, Show) {
  Assign({"10.0.0.2/24"});
  host_.addresses().Want(*InterfaceAddress::Parse("10.0.0.1/24"), AddressOrigin::kDhcp);
  ReceiveDatagram(FromHex(kLinuxArpRequest), true);
  EXPECT_EQ(Run("show"),
            "IPoIB link: up, P_Key 0xffff, scope 0x2, MTU 2044\n"
            "  own address 00:00:00:02:fe:80:00:00:00:00:00:00:02:53:49:4d:49:42:01:01\n"
            "  address 10.0.0.1/24: duplicate, dhcp, used by "
            "00:00:00:02:fe:80:00:00:00:00:00:00:02:53:49:4d:49:42:00:01\n"
            "  address 10.0.0.2/24: assigned, flag\n"
            "  address fe80::253:494d:4942:101/64: assigned, link-local\n"
            "  netdev ib0\n");
}

TEST_F(EndpointCommandsTest, ShowSaysWhyTheKernelRefusesAnAddress) {
  Assign({});
  kernel_.refusal = absl::InternalError("add address fd00::2/64 to the TUN: Permission denied");
  host_.addresses().Want(*InterfaceAddress::Parse("fd00::2/64"), AddressOrigin::kOperator);
  Run(absl::Seconds(5));
  EXPECT_THAT(Run("show"), HasSubstr("  address fd00::2/64: refused, flag, add address fd00::2/64 "
                                     "to the TUN: Permission denied\n"));
}

TEST_F(EndpointCommandsTest, Neighbors) {
  Assign({"10.0.0.2/24"});
  ReceiveDatagram(FromHex(kLinuxArpRequest), true);
  Bytes packet = PacketOf(kLinuxPing);
  packet[19] = 9;                        // to 10.0.0.9
  packet[10] = 0x37, packet[11] = 0xa2;  // 7 more in the sum
  host_.FromTun(packet);
  clock_.Advance(absl::Milliseconds(2500));
  EXPECT_EQ(Run("neigh"),
            "10.0.0.1 00:00:00:02:fe:80:00:00:00:00:00:00:02:53:49:4d:49:42:00:01 stale, heard 2.5 "
            "s ago\n"
            "10.0.0.9 - incomplete, never heard, 1 packets wait\n");
}

TEST_F(EndpointCommandsTest, Counters) {
  Assign({"10.0.0.2/24"});
  ReceiveDatagram(FromHex("08060000 0020"), true);
  ReceiveDatagram(FromHex(kLinuxPing));
  EXPECT_THAT(Run("stats"), HasSubstr("to_tun 1\n  from_link 2\n"));
  EXPECT_THAT(Run("stats"), HasSubstr("drops 1\n"));
  EXPECT_EQ(Run("drops"),
            "  arp_malformed                 1  ARP from the link that is cut or not of IPoIB\n");
  EXPECT_THAT(Run("groups"), HasSubstr("224.0.0.1 ff12:401b:ffff:0000:0000:0000:0000:0001\n"));
}

}  // namespace
}  // namespace eoib::endpoint
