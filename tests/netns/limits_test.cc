// Frames that the switch must drop: too large ones, and those that imitate the switch's own.
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

const MacAddr kA = MacAddr::FromUint64(0x02'aa'00'00'00'01);
const MacAddr kB = MacAddr::FromUint64(0x02'aa'00'00'00'02);

// A fabric with an MTU of 4,096 carries frames of 4,092 bytes, including a tag.
constexpr size_t kVesMtu = 4092;

class LimitsTest : public SwitchTest {
 protected:
  void SetUp() override {
    SwitchTest::SetUp();
    AgentSpec trunk;
    trunk.vports[0].more = "mode = \"trunk\"\n";
    auto hosts = AddNumberedAgents(2, trunk);
    one_ = hosts[0];
    two_ = hosts[1];
    WaitUntilAllReceive({{one_->host()}, {two_->host()}});
    a_ = std::make_unique<PacketSocket>(one_->host(), "v1");
    b_ = std::make_unique<PacketSocket>(two_->host(), "v1");
  }

  // Sends a frame and waits for it: then all earlier frames have arrived or were dropped.
  void Flush(uint32_t marker = 999'999) {
    a_->Send(TestFrame(MacAddr::Broadcast(), kA, marker));
    ASSERT_TRUE(b_->WaitFor(Marked(marker)));
  }

  Agent* one_ = nullptr;
  Agent* two_ = nullptr;
  std::unique_ptr<PacketSocket> a_, b_;
};

TEST_F(LimitsTest, InterfaceMtuIsVesMtuLessHeaderAndTwoTags) {
  EXPECT_THAT(one_->host()->MustIp("-o link show dev v1"), ::testing::HasSubstr("mtu 4070 "));
}

// VLAN devices on VLAN devices send that, and a Linux bridge passes it.
TEST_F(LimitsTest, PacketsOfTheFullMtuPassBehindTwoTags) {
  b_->Send(TestFrame(MacAddr::Broadcast(), kB, 1));
  ASSERT_TRUE(a_->WaitFor(Marked(1)));
  uint32_t marker = 1;
  for (const size_t mtu : {4070, 1500}) {
    for (Agent* agent : {one_, two_})
      agent->MustCtl({"vport", "set", "v1", absl::StrCat("mtu=", mtu)});
    one_->host()->MustIp("link set v1 mtu 9000");  // a packet socket sends one tag only
    for (const uint16_t tpid : {0x88a8, 0x8100}) {
      for (const MacAddr destination : {kB, MacAddr::Broadcast()}) {
        const Bytes frame =
            WithTag(WithTag(TestFrame(destination, kA, ++marker, mtu + 14), 21), 20, 0, tpid);
        a_->Send(frame);
        EXPECT_TRUE(b_->WaitFor(ExactlyFrame(frame)))
            << "MTU " << mtu << ", TPID " << tpid << " to " << destination.ToString();
      }
    }
  }
  EXPECT_EQ(two_->Drop("port_too_large"), 0u);
  a_->Send(WithTag(WithTag(TestFrame(kB, kA, ++marker, 1501 + 14), 21), 20));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return two_->Drop("port_too_large") == 1; }));
}

TEST_F(LimitsTest, TooLargeFrameIsDroppedAndCountedNotTruncated) {
  // An operator may set an interface MTU that the fabric does not carry.
  one_->host()->MustIp("link set v1 mtu 60000");
  two_->host()->MustIp("link set v1 mtu 60000");
  struct {
    const char* description;
    size_t length;
    bool tagged;
    bool arrives;
  } rows[] = {
      {"the largest that fits", kVesMtu, false, true},
      {"the largest that fits with its tag", kVesMtu - 4, true, true},
      {"one byte more", kVesMtu + 1, false, false},
      {"one byte more because of the tag", kVesMtu - 3, true, false},
      {"the size of a segmented frame", 9014, false, false},
      {"as large as frames get", 60000, false, false},
      {"the largest again, behind all these", kVesMtu, false, true},
  };
  uint64_t dropped = one_->Drop("too_large");
  const MacAddr unknown = MacAddr::FromUint64(0x02'aa'00'00'00'77);
  b_->Send(TestFrame(MacAddr::Broadcast(), kB, 1));
  ASSERT_TRUE(a_->WaitFor(Marked(1)));
  for (MacAddr destination : {kB, unknown, MacAddr::Broadcast()}) {
    uint32_t marker = 100;
    for (const auto& row : rows) {
      SCOPED_TRACE(absl::StrCat(row.description, " to ", destination.ToString()));
      Bytes frame = TestFrame(destination, kA, ++marker, row.length);
      if (row.tagged) frame = WithTag(frame, 7);
      a_->Send(frame);
      if (row.arrives) {
        EXPECT_TRUE(b_->WaitFor(ExactlyFrame(frame)));
      } else {
        ++dropped;
      }
    }
    Flush();
    EXPECT_THAT(b_->Markers(),
                ElementsAre(Pair(101, 1), Pair(102, 1), Pair(107, 1), Pair(999'999, 1)));
    EXPECT_EQ(one_->Drop("too_large"), dropped);
    b_->Clear();
  }
}

TEST_F(LimitsTest, ControlEtherTypesFromPortAreDropped) {
  struct {
    const char* description;
    std::vector<uint16_t> tags;  // TPIDs, outermost first
  } rows[] = {
      {"bare", {}},
      {"behind an 802.1Q tag", {0x8100}},
      {"behind an 802.1ad tag", {0x88a8}},
      {"behind 802.1ad and 802.1Q", {0x88a8, 0x8100}},
      {"behind three 802.1Q tags", {0x8100, 0x8100, 0x8100}},
      {"behind eight tags", {0x88a8, 0x8100, 0x8100, 0x8100, 0x8100, 0x8100, 0x8100, 0x8100}},
  };
  one_->WaitUntilAnnounced();
  Flush(1);
  b_->Clear();
  uint64_t dropped = one_->Drop("control_ethertype");
  for (uint16_t ethertype : {0x88b5, 0x8919}) {
    for (const auto& row : rows) {
      for (MacAddr destination : {MacAddr::Broadcast(), kB}) {
        Bytes frame = EthernetFrame(destination, kA, ethertype, Bytes(80, 0x5a));
        for (size_t i = row.tags.size(); i > 0; --i)
          frame = WithTag(frame, 10 + i, 0, row.tags[i - 1]);
        a_->Send(frame);
        ++dropped;
      }
    }
  }
  Flush();
  EXPECT_EQ(one_->Drop("control_ethertype"), dropped);
  EXPECT_EQ(b_->Count(Any), b_->Count(Marked(999'999))) << "only the last frame may arrive";
}

TEST_F(LimitsTest, StpAndLldpPassPauseAndLacpAreDropped) {
  struct {
    const char* description;
    const char* destination;
    bool passes;
  } rows[] = {
      {"spanning tree", "01:80:c2:00:00:00", true},
      {"pause", "01:80:c2:00:00:01", false},
      {"LACP", "01:80:c2:00:00:02", false},
      {"LLDP", "01:80:c2:00:00:0e", true},
  };
  const uint64_t dropped = one_->Drop("link_local_control");
  uint32_t marker = 0;
  for (const auto& row : rows) a_->Send(TestFrame(Mac(row.destination), kA, ++marker));
  Flush();
  marker = 0;
  for (const auto& row : rows)
    EXPECT_EQ(b_->Count(Marked(++marker)), row.passes ? 1u : 0u) << row.description;
  EXPECT_EQ(one_->Drop("link_local_control"), dropped + 2);
}

class ReservedGroupsTest : public SwitchTest {};

TEST_F(ReservedGroupsTest, GroupFwdMaskAppliesInBothDirections) {
  // h1 forwards LACP but not STP; h2 forwards STP but not LACP.
  AgentSpec lacp, stp;
  lacp.veses[0].more = "group_fwd_mask = 0xfffc\n";
  stp.veses[0].more = "group_fwd_mask = 0xfff9\n";
  Agent& one = AddAgent("h1", lacp);
  Agent& two = AddAgent("h2", stp);
  WaitUntilAllReceive({{one.host()}, {two.host()}});
  PacketSocket a(one.host(), "v1"), b(two.host(), "v1");
  const auto send = [](PacketSocket* from, MacAddr source, PacketSocket* to) {
    uint32_t marker = 0;
    for (const char* group :
         {"01:80:c2:00:00:00", "01:80:c2:00:00:01", "01:80:c2:00:00:02", "01:80:c2:00:00:0e"}) {
      from->Send(TestFrame(Mac(group), source, ++marker));
    }
    from->Send(TestFrame(MacAddr::Broadcast(), source, 999));
    ASSERT_TRUE(to->WaitFor(Marked(999)));
    EXPECT_THAT(to->Markers(), ElementsAre(Pair(4, 1), Pair(999, 1))) << "LLDP passes both";
  };
  send(&a, kA, &b);
  EXPECT_EQ(one.Drop("link_local_control"), 2u) << "STP and pause, from the port";
  EXPECT_EQ(two.Drop("link_local_control"), 1u) << "LACP, from the fabric";
  send(&b, kB, &a);
  EXPECT_EQ(two.Drop("link_local_control"), 3u) << "pause and LACP, from the port";
  EXPECT_EQ(one.Drop("link_local_control"), 3u) << "STP, from the fabric";
}

TEST_F(LimitsTest, GroupAndZeroSourcesAreDropped) {
  const uint64_t dropped = one_->Drop("bad_source");
  a_->Send(TestFrame(kB, MacAddr::Broadcast(), 1));
  a_->Send(TestFrame(kB, Mac("01:00:5e:00:00:01"), 2));
  a_->Send(TestFrame(kB, MacAddr(), 3));
  Flush();
  EXPECT_THAT(b_->Markers(), ElementsAre(Pair(999'999, 1)));
  EXPECT_EQ(one_->Drop("bad_source"), dropped + 3);
}

// Random frames from an interface: nothing crashes, and every frame is accounted for (TearDown
// checks it).
TEST_F(LimitsTest, RandomFramesFromPortAreAccountedFor) {
  std::mt19937_64 random;  // the same numbers in every run
  const uint16_t ethertypes[] = {0x0800, 0x0806, 0x8100, 0x86dd, 0x88a8, 0x88b5, 0x8919, 0x0003};
  one_->WaitUntilAnnounced();
  const uint64_t in = one_->Stat("from_ports");
  constexpr int kFrames = 3000;
  for (int i = 0; i < kFrames; ++i) {
    Bytes frame(14 + random() % 600);
    for (uint8_t& byte : frame) byte = static_cast<uint8_t>(random());
    if (i % 4 != 0) {
      const uint16_t ethertype = ethertypes[random() % 8];
      frame[12] = ethertype >> 8;
      frame[13] = ethertype & 0xff;
    }
    a_->Send(frame);
    if (i % 100 == 99) Flush(1000 + i);  // in bursts that fit the queues on the way
  }
  EXPECT_EQ(one_->Stat("from_ports") - in, kFrames + kFrames / 100u)
      << one_->MustCtl({"stats"}) << two_->MustCtl({"stats"});
  EXPECT_TRUE(two_->Alive());
}

}  // namespace
}  // namespace eoib::lab
