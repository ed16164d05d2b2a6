// UdEndpoint on an Ethernet link layer (RoCE).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "vswitch/fabric/ud_endpoint_test_fixture.h"
#include "vswitch/wire/mgid.h"

namespace eoib {
namespace {

using testing::HasSubstr;

class EthernetEndpointTest : public UdEndpointTest {
 protected:
  EthernetEndpointTest() {
    hca_.port_attr.link_layer = IBV_LINK_LAYER_ETHERNET;
    hca_.gids[0].ndev_ifindex = if_nametoindex("lo");
    endpoint_ = *UdEndpoint::Create(&hca_, pd_, pool_.get(), handles_.get(), options_);
  }
  bool NetdevIsMember() const {
    std::ifstream file("/proc/net/igmp6");
    const std::string all{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    return absl::StrContains(all, "lo              ff12e0fd8001ffffffffffff00000000");
  }
  const Mgid mgid_ = FloodMgid(PKey(0x8001), 0xff12'e0fd);  // used by no other test
};

TEST_F(EthernetEndpointTest, TheNetworkDeviceJoinsTheGroupsToo) {
  ASSERT_TRUE(endpoint_->Attach(mgid_, Mlid()).ok());
  EXPECT_TRUE(NetdevIsMember());
  ASSERT_TRUE(endpoint_->Detach(mgid_, Mlid()).ok());
  EXPECT_FALSE(NetdevIsMember());
  ASSERT_TRUE(endpoint_->Attach(mgid_, Mlid()).ok());
  endpoint_.reset();
  EXPECT_FALSE(NetdevIsMember());
}

TEST_F(EthernetEndpointTest, AFailedJoinOfTheNetworkDeviceFailsTheAttachment) {
  hca_.gids[0].ndev_ifindex = 99999;
  EXPECT_THAT(
      endpoint_->Attach(mgid_, Mlid()).message(),
      HasSubstr("on network device 99999, which is not in this process's network namespace"));
  EXPECT_TRUE(hca_.qp()->groups.empty());
  hca_.gids.clear();
  EXPECT_THAT(endpoint_->Attach(mgid_, Mlid()).message(), HasSubstr("query GID 0 of port fake0/1"));
  EXPECT_TRUE(hca_.qp()->groups.empty());
}

// Some HCAs put parts of the source MAC there.
TEST_F(EthernetEndpointTest, LidAndSlOfACompletionAreIgnored) {
  endpoint_->Refill();
  hca_.Deliver(
      Bytes(10),
      {.status = IBV_WC_SUCCESS, .src_qp = 0x99, .wc_flags = IBV_WC_GRH, .slid = 0x5054, .sl = 3});
  Datagram datagram;
  ASSERT_EQ(endpoint_->Receive({&datagram, 1}), 1u);
  EXPECT_EQ(datagram.source(), (PeerAddress{kSgid, Qpn(0x99)}));
  EXPECT_EQ(datagram.slid, Lid());
  EXPECT_EQ(datagram.sl, Sl());
  pool_->Free(datagram.buffer);
}

}  // namespace
}  // namespace eoib
