// A lease and its effects: the address, the route, and the server's view.
#include "gateway/host/dhcp_session.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gateway/host/ip_host_test_fixture.h"
#include "gmock/gmock.h"
#include "vswitch/wire/ip/dhcp4_writer.h"
#include "vswitch/wire/ip/udp.h"

namespace eoib::endpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class DhcpSessionTest : public IpHostTestFixture {
 protected:
  // Answers the client's last message, like a server with one address that needs no queues.
  void Answer(DhcpMessageType type, uint32_t seconds = 3600) {
    DhcpFields fields;
    for (const auto& sent : link_.Take()) {
      const auto packet = ParseIpv4Packet(sent.payload);
      const auto datagram = packet.has_value() ? ParseUdp(*packet) : absl::nullopt;
      const auto message =
          datagram.has_value() ? DhcpMessage::Parse(datagram->payload) : absl::nullopt;
      if (!message.has_value()) continue;
      fields = message->fields();
      identifier_ = message->FindOption(DhcpOption::kClientIdentifier).value_or(Bytes());
    }
    fields.operation = BootpOperation::kReply;
    fields.yours = Ip4("10.0.0.7");
    Bytes bytes(kUdp4HeadersSize + 548);
    DhcpWriter writer(fields, absl::MakeSpan(bytes).subspan(kUdp4HeadersSize));
    writer.Add(type);
    writer.AddAddress(DhcpOption::kServerIdentifier, Ip4("10.0.0.1"));
    writer.AddNumber32(DhcpOption::kLeaseTime, seconds);
    writer.AddAddress(DhcpOption::kSubnetMask, Ip4("255.255.255.0"));
    writer.AddAddress(DhcpOption::kRouters, Ip4("10.0.0.254"));
    const auto packet = BuildUdp4({.source = Ip4("10.0.0.1"),
                                   .destination = Ipv4Addr::Broadcast(),
                                   .source_port = 67,
                                   .destination_port = 68},
                                  writer.Finish(), absl::MakeSpan(bytes));
    Receive(IpoibType::kIpv4, {packet.begin(), packet.end()}, true);
  }
  void Lease(uint32_t seconds = 3600) {
    LinkUp();
    session_.OnLinkState();
    session_.client().Tick();
    Answer(DhcpMessageType::kOffer, seconds);
    Answer(DhcpMessageType::kAck, seconds);
    Run(absl::Seconds(2));
    ASSERT_EQ(session_.client().state(), DhcpState::kBound);
  }
  // To any server: by broadcast.
  void Renew(uint32_t seconds = 3600) {
    session_.client().OnLinkDown();
    session_.client().OnLinkUp();
    Answer(DhcpMessageType::kAck, seconds);
    ASSERT_EQ(session_.client().state(), DhcpState::kBound);
  }
  std::vector<std::string> TakeRoutes() { return std::exchange(routes_set_, {}); }

  absl::Status SetRouter(absl::optional<Ipv4Addr> router, Ipv4Addr source) {
    EXPECT_EQ(source, Ip4("10.0.0.7"));
    routes_set_.push_back(router.has_value() ? router->ToString() : "none");
    return absl::OkStatus();
  }

  std::vector<std::string> routes_set_;
  Bytes identifier_;
  DhcpSession session_{
      Guid(0x0202'c903'000e'0048),
      PKey(0x7fff),
      "node7",
      &clock_,
      [this] { return random_(); },
      &host_,
      [this](const auto& router, Ipv4Addr source) { return SetRouter(router, source); }};
};

// RFC 4361 §6.1: type 255, IAID, DUID. The interfaces of a port differ in their IAID, which is the
// same for limited members.
TEST_F(DhcpSessionTest, GoldenIdentifier) {
  const std::string duid = ToHex(DuidOf(Guid(0x0202'c903'000e'0048)));
  Lease();
  EXPECT_EQ(ToHex(identifier_), absl::StrCat("ff0000ffff", duid));
  DhcpSession other(
      Guid(0x0202'c903'000e'0048), PKey(0x8001), "", &clock_, [this] { return random_(); }, &host_,
      [](const auto&, Ipv4Addr) { return absl::OkStatus(); });
  other.OnLinkState();
  other.client().Tick();
  Answer(DhcpMessageType::kOffer);
  EXPECT_EQ(ToHex(identifier_), absl::StrCat("ff00008001", duid));
}

// Otherwise the kernel would keep for ever an address that a killed program had leased for an hour.
TEST_F(DhcpSessionTest, TheAddressEndsInTheKernelWithItsLease) {
  Lease();
  EXPECT_EQ(kernel_.ends.at("10.0.0.7/24"), session_.client().lease()->expiry);
  clock_.Advance(absl::Minutes(7));
  Renew();
  EXPECT_EQ(kernel_.ends.at("10.0.0.7/24"), clock_.Now() + absl::Hours(1));
  Renew(0xffff'ffff);
  EXPECT_EQ(kernel_.ends.at("10.0.0.7/24"), absl::InfiniteFuture());
  EXPECT_EQ(kernel_.ends.at(absl::StrCat(kOwnLinkLocal, "/64")), absl::InfiniteFuture());
}

TEST_F(DhcpSessionTest, AnAddressThatAKilledProgramLeftEndsWithTheNewLease) {
  host_.addresses().OnKernelAdded(*InterfaceAddress::Parse("10.0.0.7/24"));
  Lease();
  EXPECT_EQ(kernel_.ends["10.0.0.7/24"], session_.client().lease()->expiry);
}

TEST_F(DhcpSessionTest, TheRouteIsSetAgainWhenItMayBeGone) {
  Lease();
  EXPECT_THAT(TakeRoutes(), ElementsAre("10.0.0.254"));
  session_.OnTunUp();
  EXPECT_THAT(TakeRoutes(), ElementsAre("10.0.0.254"));
  Renew();
  EXPECT_THAT(TakeRoutes(), ElementsAre("10.0.0.254"));
  // Without the address the router is unreachable; with it the route comes back.
  host_.addresses().OnKernelAdded(*InterfaceAddress::Parse("10.0.0.7/24"));
  host_.addresses().OnKernelRemoved(Ip("10.0.0.7"));
  session_.OnTunUp();
  EXPECT_THAT(TakeRoutes(), IsEmpty());
  host_.addresses().OnTunUp();
  Run(absl::Seconds(2));
  EXPECT_THAT(TakeRoutes(), ElementsAre("10.0.0.254"));
  session_.client().Stop();
  EXPECT_THAT(TakeRoutes(), ElementsAre("none"));
}

}  // namespace
}  // namespace eoib::endpoint
