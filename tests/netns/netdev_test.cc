// vPorts on existing netdevs: an end of a veth pair instead of a TAP. What is behind it is a host of its own.
#include <signal.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/sockets.h"
#include "tests/lab/steady_ping.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const MacAddr kA = MacAddr::FromUint64(0x02'aa'00'00'00'01);
const MacAddr kB = MacAddr::FromUint64(0x02'aa'00'00'00'02);

bool IsTcp(const Bytes& frame) { return OfEtherType(0x0800)(frame) && frame.size() >= 34 && frame[23] == 6; }

// Host h1 has a vPort on the veth "v1", whose other end is "e0" of the host "behind". Host h2 has a TAP.
class NetdevTest : public SwitchTest {
 protected:
  void SetUp() override {
    SwitchTest::SetUp();
    StartFabric({PartitionSpec()});
    h1_ = lab().AddHost("h1");
    behind_ = lab().AddHost("behind");
    AddPair();
  }
  void AddPair() {
    h1_->AddVeth("v1", behind_, "e0");
    behind_->AddAddress("e0", "10.0.0.1/24");
  }
  void AddBoth(const std::string& more = "", const std::string& ves_more = "") {
    AgentSpec spec;
    spec.veses = {{"red", 0x8001, ves_more}};
    spec.vports = {{"v1", "red", "type = \"netdev\"\nnetdev = \"v1\"\n" + more}};
    first_ = std::make_unique<Agent>(&lab(), &fabric(), h1_, spec);
    first_->Start();
    spec.vports = {{"v1", "red", more}};
    second_ = &AddAgent("h2", spec);
    second_->host()->AddAddress("v1", "10.0.0.2/24");
  }
  void TearDown() override {
    if (first_ != nullptr && first_->Alive()) {
      ExpectConservation(first_.get());
      EXPECT_EQ(first_->Stop(), 0) << first_->Log();
    }
    SwitchTest::TearDown();
  }
  std::string Show() { return first_->Ctl({"show"}).out; }
  bool Shows(const std::string& text) {
    return EventuallyTrue(kPatience, [&] { return absl::StrContains(Show(), text); });
  }

  Host* h1_ = nullptr;
  Host* behind_ = nullptr;
  std::unique_ptr<Agent> first_;
  Agent* second_ = nullptr;
};

TEST_F(NetdevTest, HostBehindANetdevReachesATap) {
  AddBoth();
  ExpectPing(behind_, "10.0.0.2");
  ExpectPing(second_->host(), "10.0.0.1");
  EXPECT_THAT(Show(), HasSubstr("vPort v1: netdev v1, MTU 1500, access VLAN 0, 1 peers\n"));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return second_->KnowsAnnounced(behind_->Mac("e0")); }))
      << "the MAC behind it is announced";
  EXPECT_FALSE(second_->Knows(h1_->Mac("v1"))) << "its own MAC is not";
  EXPECT_EQ(first_->Drop("same_port"), 0u) << "own frames do not come back";
}

TEST_F(NetdevTest, TcpPassesInSuperFrames) {
  AddBoth();
  UniqueFd listener = TcpListener(second_->host(), "10.0.0.2", 5000);
  UniqueFd client = TcpConnect(behind_, "10.0.0.2", 5000);
  ASSERT_TRUE(client.valid());
  UniqueFd server = TcpAccept(listener.get());
  EXPECT_EQ(TcpTransfer(client.get(), server.get(), (32 << 20) / fabric().Slowdown()), "");
  EXPECT_EQ(TcpTransfer(server.get(), client.get(), (32 << 20) / fabric().Slowdown()), "");
  EXPECT_GT(first_->Stat("segments_sent"), 0u);
  EXPECT_GT(second_->Stat("segments_sent"), 0u);
  EXPECT_EQ(first_->Drop("too_large") + first_->Drop("port_too_large") + first_->Drop("bad_checksum_request"), 0u);
  for (Host* host : {behind_, second_->host()}) EXPECT_EQ(host->Counter("Tcp", "InCsumErrors"), 0u);
}

// A super-frame of 64 KiB does not fit 32 datagrams of an IB MTU of 2048: it is divided, not dropped.
TEST_F(NetdevTest, TcpPassesWithASmallIbMtu) {
  AddBoth("", "mtu = 2048\n");
  UniqueFd listener = TcpListener(second_->host(), "10.0.0.2", 5000);
  UniqueFd client = TcpConnect(behind_, "10.0.0.2", 5000);
  ASSERT_TRUE(client.valid());
  UniqueFd server = TcpAccept(listener.get());
  EXPECT_EQ(TcpTransfer(client.get(), server.get(), (32 << 20) / fabric().Slowdown()), "");
  EXPECT_EQ(first_->Drop("too_large"), 0u);
}

// Peers that take no segments get cut frames.
TEST_F(NetdevTest, TcpPassesBetweenAgentsThatAnnounceNothing) {
  AddBoth("", "announce = false\n");
  UniqueFd listener = TcpListener(second_->host(), "10.0.0.2", 5000);
  UniqueFd client = TcpConnect(behind_, "10.0.0.2", 5000);
  ASSERT_TRUE(client.valid());
  UniqueFd server = TcpAccept(listener.get());
  EXPECT_EQ(TcpTransfer(client.get(), server.get(), (4 << 20) / fabric().Slowdown()), "");
  EXPECT_EQ(TcpTransfer(server.get(), client.get(), (4 << 20) / fabric().Slowdown()), "");
  EXPECT_EQ(first_->Stat("segments_sent"), 0u);
}

TEST_F(NetdevTest, ChecksumsAreCompleteOnAWireWithoutOffload) {
  h1_->MustRun({"ethtool", "-K", "v1", "tx", "off", "tso", "off", "gso", "off"});
  behind_->MustRun({"ethtool", "-K", "e0", "gro", "off"});
  PacketSocket wire(behind_, "e0");
  AddBoth();
  UniqueFd listener = TcpListener(behind_, "10.0.0.1", 5000);
  UniqueFd client = TcpConnect(second_->host(), "10.0.0.1", 5000);
  ASSERT_TRUE(client.valid());
  UniqueFd server = TcpAccept(listener.get());
  EXPECT_EQ(TcpTransfer(client.get(), server.get(), 1 << 20), "");
  size_t packets = 0;
  for (const Bytes& frame : wire.received()) {
    if (!IsTcp(frame)) continue;
    ++packets;
    ASSERT_LE(frame.size(), 1514u);
    ASSERT_EQ(ChecksumErrors(frame), "") << Hex(frame);
  }
  EXPECT_GT(packets, 700u);
  EXPECT_EQ(wire.unfinished_checksums(), 0u);
}

TEST_F(NetdevTest, TrunkCarriesTags) {
  AddBoth("mode = \"trunk\"\ntrunk_vlans = [0, \"10-20\"]\nnative_vlan = 0\n");
  PacketSocket wire(behind_, "e0"), tap(second_->host(), "v1");
  WaitUntilAllReceive({behind_, "e0"}, {{second_->host(), "v1"}});
  const Bytes plain = TestFrame(MacAddr::Broadcast(), kA, 1), back = TestFrame(kA, kB, 2);
  for (const Bytes& sent : {plain, WithTag(plain, 10, 3), WithTag(WithTag(plain, 99), 20)}) {
    wire.Send(sent);
    EXPECT_TRUE(tap.WaitFor(ExactlyFrame(Padded(sent)))) << Hex(sent);
  }
  for (const Bytes& sent : {back, WithTag(back, 10, 5), WithTag(WithTag(back, 99), 20)}) {
    tap.Send(sent);
    EXPECT_TRUE(wire.WaitFor(ExactlyFrame(Padded(sent)))) << Hex(sent);
  }
  wire.Send(WithTag(plain, 30));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return first_->Drop("vlan_not_allowed") == 1; }));
}

TEST_F(NetdevTest, AccessPortHasNoTagOnTheWire) {
  AddBoth("access_vlan = 7\n");
  ExpectPing(behind_, "10.0.0.2");
  EXPECT_TRUE(first_->Knows(behind_->Mac("e0"), "vPort v1", 7));
}

TEST_F(NetdevTest, FramesThatTheHostSendsThereStayOutside) {
  AddBoth();
  ExpectPing(behind_, "10.0.0.2");
  PacketSocket host(h1_, "v1"), tap(second_->host(), "v1"), wire(behind_, "e0");
  host.Send(TestFrame(MacAddr::Broadcast(), kA, 1));
  EXPECT_TRUE(wire.WaitFor(Marked(1)));
  wire.Send(TestFrame(MacAddr::Broadcast(), kB, 2));
  EXPECT_TRUE(tap.WaitFor(Marked(2))) << "it left later than the first one";
  EXPECT_EQ(tap.Count(Marked(1)), 0u);
}

TEST_F(NetdevTest, LargerMtuIsShownAndItsFramesPassInSegments) {
  h1_->MustIp("link set v1 mtu 9000");
  behind_->MustIp("link set e0 mtu 9000");
  AddBoth();
  EXPECT_TRUE(Shows("netdev v1, MTU 9000 (more than 4074 passes in segments only), access VLAN 0")) << Show();
  second_->MustCtl({"vport", "set", "v1", "mtu=9000"});
  EXPECT_TRUE(Reaches(second_->host(), "10.0.0.1", kPatience, "0.1"));
  UniqueFd receiver = UdpSocket(second_->host(), "10.0.0.2", 4000), sender = UdpSocket(behind_, "10.0.0.1", 0);
  const Bytes datagram(8900, 0x5a);
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    SendUdp(sender.get(), "10.0.0.2", 4000, datagram);
    return ReceiveUdp(receiver.get(), absl::Seconds(1)) == absl::optional<Bytes>(datagram);
  }));
  EXPECT_GT(first_->Stat("segments_sent"), 0u);
}

TEST_F(NetdevTest, NetdevThatGoesAndReturnsIsTakenAgain) {
  AddBoth();
  ExpectPing(behind_, "10.0.0.2");
  h1_->MustIp("link delete v1");
  EXPECT_TRUE(Shows("vPort v1: netdev v1, access VLAN 0, 1 peers: there is no netdev v1; the vPort takes it when it is there"))
      << Show();
  AddPair();
  EXPECT_TRUE(Reaches(behind_, "10.0.0.2", kPatience, "0.1"));
  EXPECT_TRUE(Shows("netdev v1, MTU 1500, access VLAN 0, 1 peers\n")) << Show();
  h1_->MustIp("link set v1 down");
  EXPECT_TRUE(Shows(": netdev v1 is down; set it up (ip link set v1 up)")) << Show();
  h1_->MustIp("link set v1 up");
  EXPECT_TRUE(Reaches(behind_, "10.0.0.2", kPatience, "0.1"));
  behind_->MustIp("link set e0 down");
  EXPECT_TRUE(Shows(": netdev v1 has no carrier")) << Show();
  behind_->MustIp("link set e0 up");
  EXPECT_TRUE(Reaches(behind_, "10.0.0.2", kPatience, "0.1"));
  EXPECT_THAT(first_->Log(),
              AllOf(HasSubstr("vPort v1: there is no netdev v1"), HasSubstr("vPort v1: its interface is up again")));
}

TEST_F(NetdevTest, NetdevMayComeAfterTheAgent) {
  h1_->MustIp("link delete v1");
  AgentSpec spec;
  spec.vports = {{"v1", "red", "type = \"netdev\"\nnetdev = \"v1\"\n"}};
  first_ = std::make_unique<Agent>(&lab(), &fabric(), h1_, spec);
  first_->Launch();
  EXPECT_TRUE(Shows("there is no netdev v1")) << first_->Log();
  AddPair();
  first_->WaitUntilReady();
  second_ = &AddAgent("h2");
  second_->host()->AddAddress("v1", "10.0.0.2/24");
  EXPECT_TRUE(Reaches(behind_, "10.0.0.2", kPatience, "0.1"));
}

TEST_F(NetdevTest, AgentLeavesTheNetdevAsItIs) {
  const std::string before = h1_->MustIp("-d link show v1");
  AddBoth();
  ExpectPing(behind_, "10.0.0.2");
  EXPECT_EQ(first_->Stop(), 0);
  EXPECT_EQ(h1_->MustIp("-d link show v1"), before) << "and no longer promiscuous";
  first_->Start();
  EXPECT_TRUE(Reaches(behind_, "10.0.0.2", kPatience, "0.1"));
  first_->Kill(SIGKILL);
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return !first_->Alive(); }));
  first_->Start();
  EXPECT_TRUE(Reaches(behind_, "10.0.0.2", kPatience, "0.1"));
}

TEST_F(NetdevTest, ReloadExchangesTheNetdevAndRefusesThoseOfOthers) {
  h1_->AddVeth("other", behind_, "e1");
  h1_->AddBridge("br0", {});
  AddBoth();
  ExpectPing(behind_, "10.0.0.2");
  h1_->AddVeth("member", behind_, "e2");
  h1_->MustIp("link set member master br0");
  const RunResult refused = first_->Ctl({"vport", "set", "v1", "netdev=member"});
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(refused.out + refused.err, HasSubstr("it is a port of br0"));
  EXPECT_TRUE(Reaches(behind_, "10.0.0.2", kPatience, "0.1")) << "everything is as before";
  EXPECT_THAT(first_->MustCtl({"vport", "set", "v1", "netdev=other"}), HasSubstr("replace vPort v1"));
  behind_->MustIp("address flush dev e0");
  behind_->AddAddress("e1", "10.0.0.1/24");
  EXPECT_TRUE(Reaches(behind_, "10.0.0.2", kPatience, "0.1"));
  EXPECT_THAT(Show(), Not(HasSubstr("netdev v1")));
}

}  // namespace
}  // namespace eoib::lab
