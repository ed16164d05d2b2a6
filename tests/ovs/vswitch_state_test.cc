// Open vSwitch tells the state of ports of type eoib: carrier, statistics, status, traces.
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/ovs/vswitch_test_fixture.h"

namespace eoib::lab {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

using VSwitchStateTest = VSwitchTest;

TEST_F(VSwitchStateTest, CarrierFollowsTheHcaPort) {
  VSwitch* const one = AddNumbered(1);
  AddNumbered(2);
  ASSERT_TRUE(Reaches(one->host(), Address(2)));
  const int64_t before = Count(one, "link_resets");
  for (int i = 1; i <= 2; ++i) {
    SetLink(one, "down");
    EXPECT_TRUE(Becomes(one, "link_state", "down")) << one->Log();
    SetLink(one, "up");
    EXPECT_TRUE(Becomes(one, "link_state", "up")) << one->Log();
    EXPECT_TRUE(Counts(one, "link_resets", before + i)) << Count(one, "link_resets");
  }
  EXPECT_TRUE(Reaches(one->host(), Address(2)));
}

// The flood group is made again by a member with a larger MTU.
TEST_F(VSwitchStateTest, TheMtuOfTheVesGrows) {
  AgentSpec small;
  small.veses[0].more = "mtu = 2048\n";
  Agent& first = AddAgent("h8", small);
  VSwitch* const one = AddNumbered(1);
  ASSERT_TRUE(Becomes(one, "status:max_mtu", "2022")) << one->Log();
  one->AddBridge("br1", 0);
  one->AddPort("br1", "eoib1");  // its receive queues have room for that MTU
  SetLink(one, "down");
  EXPECT_TRUE(Becomes(one, "link_state", "down"));
  EXPECT_EQ(first.Stop(), 0);
  SetLink(one, "up");
  EXPECT_TRUE(Becomes(one, "status:max_mtu", "4070")) << one->Log();
  one->Vsctl("set Interface br1 mtu_request=4070");
  PacketSocket sender(AddAgent("h9").host(), "v1"), receiver(one->host(), "br1");
  const Bytes frame =
      TestFrame(MacAddr::Broadcast(), MacAddr::FromUint64(0x02'aa'00'00'00'01), 1, 4000);
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    sender.Send(frame);
    return receiver.WaitFor(Marked(1), 1, absl::Milliseconds(200));
  })) << one->Log();
}

TEST_F(VSwitchStateTest, StatusAndStatistics) {
  VSwitch* const one = AddNumbered(1);
  AddNumbered(2);
  ASSERT_TRUE(Reaches(one->host(), Address(2)));
  EXPECT_EQ(one->Of("eoib0", "status:driver_name"), "eoib");
  EXPECT_EQ(one->Of("eoib0", "status:hca"), "soft:ovs1");
  EXPECT_EQ(one->Of("eoib0", "status:pkey"), "0x8001");
  // A frame that the VES refuses is one of its drops.
  one->Ofctl({"packet-out", "br0",
              "in_port=local, packet=020000000002020000000001"
              "88b5" +
                  std::string(92, '0') + ", actions=output:eoib0"});
  const auto counts = [&](const std::string& text) {
    return absl::StrContains(one->Ofctl({"dump-ports", "br0", "--protocols=OpenFlow14", "eoib0"}),
                             text);
  };
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return counts("drop_control_ethertype=1,"); }))
      << one->Ofctl({"dump-ports", "br0", "--protocols=OpenFlow14", "eoib0"});
  EXPECT_TRUE(counts("known_unicast="));
}

// Two VESes on one HCA port, each behind a bridge of its own.
TEST_F(VSwitchStateTest, SeveralBridges) {
  StartFabric({{.pkey = 0x8001}, {.pkey = 0x8002}});
  std::vector<VSwitch*> vswitches;
  for (int i = 1; i <= 2; ++i) {
    VSwitch* const vswitch = AddNumbered(i);
    vswitches.push_back(vswitch);
    vswitch->AddBridge("br1", 0);
    vswitch->host()->AddAddress("br1", absl::StrCat("10.1.0.", i, "/24"));
    vswitch->Vsctl(vswitch->PortWords("br1", "eoib1") + " options:ves=blue options:pkey=0x8002");
  }
  Host* const host = vswitches[0]->host();
  EXPECT_TRUE(Reaches(host, Address(2)));
  EXPECT_TRUE(Reaches(host, "10.1.0.2")) << vswitches[0]->Log();
  EXPECT_THAT(vswitches[0]->Appctl({"eoib/show"}),
              AllOf(HasSubstr("VES red"), HasSubstr("VES blue"), HasSubstr("vPort eoib1")));
  EXPECT_THAT(vswitches[0]->Appctl({"eoib/peers", "blue"}), ContainsRegex("1 vPorts"))
      << "one agent for both VESes";
  vswitches[1]->Vsctl("del-br br1");
  EXPECT_FALSE(Reaches(host, "10.1.0.2", absl::Seconds(1)));
  EXPECT_TRUE(Reaches(host, Address(2))) << "the other bridge goes on";
}

TEST_F(VSwitchStateTest, TracesLeadFromTheBridgeToThePeer) {
  VSwitch* const one = AddNumbered(1);
  VSwitch* const other = AddNumbered(2);
  ASSERT_TRUE(Reaches(one->host(), Address(2)));
  const std::string source = one->host()->Mac("br0"), destination = other->host()->Mac("br0");
  const std::string bridge =
      one->Appctl({"ofproto/trace", "br0",
                   absl::StrCat("in_port=LOCAL,dl_src=", source, ",dl_dst=", destination)});
  const std::string port = one->Of("eoib0", "ofport");
  EXPECT_THAT(bridge, HasSubstr("forwarding to learned port"));
  EXPECT_THAT(bridge, ContainsRegex("Datapath actions: [0-9]+\n"));
  EXPECT_THAT(
      one->Appctl({"ofproto/trace", "br0", absl::StrCat("in_port=", port, ",dl_dst=", source)}),
      HasSubstr("Datapath actions: "));
  const auto trace = [&] { return one->Appctl({"eoib/trace", "eoib0", source, destination}); };
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return absl::StrContains(trace(), " LID 0x"); }))
      << trace();
  EXPECT_THAT(trace(), AllOf(HasSubstr("source: known at vPort eoib0\n"),
                             ContainsRegex("\nto GID .* QPN 0x[0-9a-f]+ LID 0x[0-9a-f]+\n")));
  EXPECT_THAT(one->Appctl({"eoib/trace", "eoib0", source, "01:80:c2:00:00:01"}),
              HasSubstr("drop link_local_control"));
  EXPECT_THAT(one->TryAppctl({"eoib/trace", "eoib9", source, destination}).err,
              HasSubstr("this host has no vPort \"eoib9\"; there is: eoib0"));
}

}  // namespace
}  // namespace eoib::lab
