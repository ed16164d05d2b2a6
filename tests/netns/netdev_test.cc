// vPorts on existing netdevs: an end of a veth pair instead of a TAP. What is behind it is a host
// of its own.
#include <netinet/udp.h>
#include <signal.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/nic.h"
#include "tests/lab/packet_socket.h"
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

bool IsTcp(const Bytes& frame) {
  return OfEtherType(0x0800)(frame) && frame.size() >= 34 && frame[23] == 6;
}

// Host h1 has a vPort on the veth "v1", whose other end is "e0" of the host "behind". Host h2 has a
// TAP.
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
  void AddBoth(const std::string& more = "", const std::string& ves_more = "",
               const std::string& netdev = "v1") {
    AgentSpec spec;
    spec.veses = {{"red", 0x8001, ves_more}};
    spec.vports = {
        {"v1", "red", absl::StrCat("type = \"netdev\"\nnetdev = \"", netdev, "\"\n", more)}};
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
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return second_->KnowsAnnounced(behind_->Mac("e0"));
  })) << "the MAC behind it is announced";
  EXPECT_FALSE(second_->Knows(h1_->Mac("v1"))) << "its own MAC is not";
  EXPECT_EQ(first_->Drop("same_port"), 0u) << "own frames do not come back";
}

// As udev gives them to NICs.
TEST_F(NetdevTest, IsFoundByAnAlternativeName) {
  h1_->MustIp("link property add dev v1 altname enp1s0f0np0");
  AddBoth("", "", "enp1s0f0np0");
  ExpectPing(behind_, "10.0.0.2");
  ExpectPing(second_->host(), "10.0.0.1");
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
  EXPECT_EQ(first_->Drop("too_large") + first_->Drop("port_too_large") +
                first_->Drop("bad_checksum_request"),
            0u);
  for (Host* host : {behind_, second_->host()}) EXPECT_EQ(host->Counter("Tcp", "InCsumErrors"), 0u);
}

// A super-frame of 64 KiB does not fit 32 datagrams of an IB MTU of 2048: it is divided, not
// dropped.
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

// GRO by lists keeps the datagrams as they were, with their checksums. It hands over a super-frame
// with the first one's.
TEST_F(NetdevTest, DatagramsThatGroHasMergedPass) {
  h1_->MustRun({"ethtool", "-K", "v1", "gro", "on", "rx-gro-list", "on"});
  // A burst of datagrams on the wire.
  behind_->MustRun({"ethtool", "-K", "e0", "tx", "off", "tx-udp-segmentation", "off"});
  AddBoth();
  EXPECT_TRUE(Reaches(second_->host(), "10.0.0.1", kPatience, "0.1"));
  UniqueFd receiver = UdpSocket(second_->host(), "10.0.0.2", 4000),
           sender = UdpSocket(behind_, "10.0.0.1", 0);
  SetOption(sender.get(), SOL_UDP, UDP_SEGMENT, int{1000}, "set UDP_SEGMENT");
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    SendUdp(sender.get(), "10.0.0.2", 4000, Bytes(20'000, 0x5a));
    int datagrams = 0;
    while (ReceiveUdp(receiver.get(), absl::Milliseconds(300)) ==
           absl::optional<Bytes>(Bytes(1000, 0x5a)))
      ++datagrams;
    return datagrams == 20;
  }));
  EXPECT_EQ(first_->Drop("bad_checksum_request"), 0u);
}

// Frames arrive at "nic0" with the offloads of a NIC.
class NetdevOffloadTest : public NetdevTest {
 protected:
  void SetUp() override {
    NetdevTest::SetUp();
    nic_ = std::make_unique<Nic>(h1_, "nic0");
    AddBoth("mode = \"trunk\"\n", "", "nic0");
    tap_ = std::make_unique<PacketSocket>(second_->host(), "v1");
    ASSERT_TRUE(EventuallyTrue(kPatience, [&] {
      nic_->Deliver(TestFrame(kB, kA, 1));
      return tap_->Count(Marked(1)) != 0;
    }));
  }

  std::unique_ptr<Nic> nic_;
  std::unique_ptr<PacketSocket> tap_;
};

// A packet socket sends one tag only, but the netdev carries two.
TEST_F(NetdevOffloadTest, PacketsOfTheFullMtuPassBehindTwoTags) {
  tap_->Send(TestFrame(kA, kB, 2));
  second_->host()->MustIp("link set v1 mtu 9000");  // for the test's own socket
  for (const uint16_t tpid : {0x88a8, 0x8100}) {
    const auto with_tags = [tpid](const Bytes& frame) {
      return WithTag(WithTag(frame, 21), 20, 0, tpid);
    };
    for (const MacAddr destination : {kB, MacAddr::Broadcast()}) {
      const Bytes frame = with_tags(TestFrame(destination, kA, 10 + tpid, 1514));
      nic_->Deliver(frame);
      EXPECT_TRUE(tap_->WaitFor(ExactlyFrame(frame))) << tpid;
    }
    const Bytes back = with_tags(TestFrame(kA, kB, 20 + tpid, 1514));
    tap_->Send(back);
    EXPECT_TRUE(nic_->WaitFor(ExactlyFrame(back))) << tpid;
  }
  tap_->Send(WithTag(WithTag(TestFrame(kA, kB, 3, 1515), 21), 20));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return first_->Drop("port_too_large") == 1; }));
}

// A kernel with SCTP leaves its checksum to a veth, and to many NICs.
TEST_F(NetdevOffloadTest, SctpGetsItsCrc32c) {
  const Flow4 flow4{kB, kA, Ip4("10.7.0.1"), Ip4("10.7.0.2")};
  const Flow6 flow6{kB, kA, Ip6("fd00::1"), Ip6("fd00::2")};
  for (const size_t size : {1, 64, 1401}) {
    const Bytes payload(size, 0x5a);
    for (const auto& [right, start] :
         {std::make_pair(SctpPacket(flow4, payload), 34), {SctpPacket(flow6, payload), 54}}) {
      ASSERT_EQ(ChecksumErrors(right), "");
      for (const bool behind_tag : {false, true}) {
        Bytes unfinished = right;
        std::fill_n(unfinished.begin() + start + 8, 4, 0);
        const auto at = static_cast<uint16_t>(start + (behind_tag ? 4 : 0));
        nic_->Deliver(behind_tag ? WithTag(unfinished, 20, 0, 0x88a8) : unfinished,
                      {.checksum_start = at, .checksum_offset = 8});
        const Bytes expected = behind_tag ? WithTag(right, 20, 0, 0x88a8) : right;
        EXPECT_TRUE(tap_->WaitFor(ExactlyFrame(Padded(expected)))) << Hex(expected);
      }
    }
  }
  EXPECT_EQ(first_->Stat("checksums_vouched"), 0u);
}

TEST_F(NetdevOffloadTest, SegmentsThatANicHasMergedPass) {
  Bytes payload(5600);
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<uint8_t>(i * 31);
  const Bytes merged = TcpSegment({kB, kA, Ip4("10.7.0.1"), Ip4("10.7.0.2")}, 4000, 4001, payload);
  ASSERT_EQ(ChecksumErrors(merged), "");
  const Offloads lro{.gso_type = 1, .gso_size = 1400, .header_length = 54};
  nic_->Deliver(merged, lro);
  ASSERT_TRUE(tap_->WaitFor(IsTcp));
  Bytes got = *tap_->Receive(IsTcp);
  // The checksum, which a TAP takes unfinished.
  std::copy_n(merged.begin() + 50, 2, got.begin() + 50);
  EXPECT_EQ(Hex(got), Hex(merged));
  Bytes damaged = merged;
  damaged.back() ^= 1;
  nic_->Deliver(damaged, lro);
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return first_->Drop("bad_checksum_request") == 1; }));
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
  EXPECT_TRUE(Shows("netdev v1, MTU 9000 (more than 4070 passes in segments only), access VLAN 0"))
      << Show();
  second_->MustCtl({"vport", "set", "v1", "mtu=9000"});
  EXPECT_TRUE(Reaches(second_->host(), "10.0.0.1", kPatience, "0.1"));
  UniqueFd receiver = UdpSocket(second_->host(), "10.0.0.2", 4000),
           sender = UdpSocket(behind_, "10.0.0.1", 0);
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
  EXPECT_TRUE(
      Shows("vPort v1: netdev v1, access VLAN 0, 1 peers: there is no netdev v1; the vPort takes "
            "it when it is there"))
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
  EXPECT_THAT(first_->Log(), AllOf(HasSubstr("vPort v1: there is no netdev v1"),
                                   HasSubstr("vPort v1: its interface is up again")));
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
  EXPECT_THAT(first_->MustCtl({"vport", "set", "v1", "netdev=other"}),
              HasSubstr("replace vPort v1"));
  behind_->MustIp("address flush dev e0");
  behind_->AddAddress("e1", "10.0.0.1/24");
  EXPECT_TRUE(Reaches(behind_, "10.0.0.2", kPatience, "0.1"));
  EXPECT_THAT(Show(), Not(HasSubstr("netdev v1")));
}

}  // namespace
}  // namespace eoib::lab
