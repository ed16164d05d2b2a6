// Bridges with spanning tree at the switch: STP passes through it, so they detect a loop and block
// a port.
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

const MacAddr kGuest = MacAddr::FromUint64(0x02'aa'00'00'00'01);
const MacAddr kOtherGuest = MacAddr::FromUint64(0x02'aa'00'00'00'02);
const MacAddr kStation = MacAddr::FromUint64(0x02'aa'00'00'00'03);

// A port waits 6 s for a better BPDU, then listens for 2 s and learns for 2 s: the kernel's
// smallest values.
constexpr absl::Duration kConvergence = absl::Seconds(40);

class SpanningTreeTest : public SwitchTest {
 protected:
  static void AddBridge(Host* host, int priority, const std::vector<std::string>& members) {
    host->MustIp(
        absl::StrCat("link add br0 type bridge stp_state 1 mcast_snooping 0 forward_delay 200 "
                     "hello_time 100 max_age 600",
                     " priority ", priority));
    for (const std::string& member : members) host->MustIp("link set " + member + " master br0");
    host->SetUp("br0");
  }

  // The number of `ports` in `state` ("forwarding", "blocking").
  static int PortsIn(Host* host, const std::string& state, const std::vector<std::string>& ports) {
    int count = 0;
    for (const std::string& port : ports) {
      count += absl::StrContains(host->MustRun({"bridge", "link", "show", "dev", port}),
                                 "state " + state);
    }
    return count;
  }

  // Expects that broadcasts in both directions arrive exactly once: nothing loops.
  void ExpectOneCopyEach(PacketSocket* one, PacketSocket* other, uint32_t marker) {
    one->Clear();
    other->Clear();
    one->Send(TestFrame(MacAddr::Broadcast(), kGuest, marker));
    EXPECT_TRUE(other->WaitFor(Marked(marker)));
    other->Send(TestFrame(MacAddr::Broadcast(), kStation, marker + 1));
    EXPECT_TRUE(one->WaitFor(Marked(marker + 1)));
    // Also waits until the counters are at rest.
    for (const auto& agent : agents()) ExpectConservation(agent.get());
    EXPECT_THAT(Copies(other, marker), ElementsAre(Pair(marker, 1)));
    EXPECT_THAT(Copies(one, marker), ElementsAre(Pair(marker + 1, 1)));
  }

  // Copies of these two frames only: a bridge may still hold an earlier frame, which the agents'
  // counters do not show.
  static std::map<uint32_t, size_t> Copies(PacketSocket* socket, uint32_t marker) {
    std::map<uint32_t, size_t> copies;
    for (const auto& [seen, count] : socket->Markers()) {
      if (seen == marker || seen == marker + 1) copies[seen] = count;
    }
    return copies;
  }
};

TEST_F(SpanningTreeTest, OneOfTwoPortsBehindABridgeForwardsAndTheOtherTakesOver) {
  AgentSpec two_ports;
  two_ports.vports = {{"v1"}, {"v2"}};
  Agent& agent = AddAgent("h1", two_ports);
  Host* host = agent.host();
  PacketSocket station(AddAgent("h2").host(), "v1");
  Host* behind = lab().AddHost("guest");
  host->AddVeth("tap1", behind, "eth0", 4070);
  PacketSocket guest(behind, "eth0");
  AddBridge(host, 32768, {"tap1", "v1", "v2"});
  ASSERT_TRUE(EventuallyTrue(kConvergence, [&] {
    return PortsIn(host, "forwarding", {"tap1", "v1", "v2"}) == 2 &&
           PortsIn(host, "blocking", {"v2"}) == 1;
  })) << host->MustRun({"bridge", "link"});
  ExpectOneCopyEach(&guest, &station, 10);

  // From now on the guest is silent. Frames to it must arrive through the other port: the agent
  // flushes the MACs learned on a port that goes down.
  host->MustIp("link set v1 down");
  ASSERT_TRUE(EventuallyTrue(kConvergence, [&] {
    return PortsIn(host, "forwarding", {"v2"}) == 1;
  })) << host->MustRun({"bridge", "link"});
  station.Send(TestFrame(kGuest, kStation, 20));
  station.Send(TestFrame(kGuest, kStation, 21));
  EXPECT_TRUE(guest.WaitFor(Marked(21)))
      << agent.MustCtl({"fdb", "show"}) << agent.MustCtl({"drops"});
  ExpectOneCopyEach(&guest, &station, 30);
}

// h1 and h2 are bridges that are also connected by a cable; h3 observes. h1 is the root. For h2 the
// path through the switch costs more, so h2 blocks that port.
TEST_F(SpanningTreeTest, OneOfTwoPathsBetweenBridgesForwardsAndTheOtherTakesOver) {
  Host* root = AddAgent("h1").host();
  Host* other = AddAgent("h2").host();
  PacketSocket station(AddAgent("h3").host(), "v1");
  Host* behind_root = lab().AddHost("guest");
  Host* behind_other = lab().AddHost("other-guest");
  root->AddVeth("cable", other, "cable", 4070);
  root->AddVeth("tap1", behind_root, "eth0", 4070);
  other->AddVeth("tap1", behind_other, "eth0", 4070);
  PacketSocket guest(behind_root, "eth0"), other_guest(behind_other, "eth0");
  AddBridge(root, 4096, {"v1", "cable", "tap1"});
  AddBridge(other, 32768, {"v1", "cable", "tap1"});
  other->MustRun({"bridge", "link", "set", "dev", "v1", "cost", "100"});
  ASSERT_TRUE(EventuallyTrue(kConvergence,
                             [&] {
                               return PortsIn(root, "forwarding", {"v1", "cable", "tap1"}) == 3 &&
                                      PortsIn(other, "forwarding", {"cable", "tap1"}) == 2 &&
                                      PortsIn(other, "blocking", {"v1"}) == 1;
                             }))
      << root->MustRun({"bridge", "link"}) << other->MustRun({"bridge", "link"});
  ExpectOneCopyEach(&guest, &station, 10);
  ExpectOneCopyEach(&other_guest, &station, 20);
  ExpectOneCopyEach(&guest, &other_guest, 30);

  root->MustIp("link set cable down");
  ASSERT_TRUE(EventuallyTrue(kConvergence, [&] {
    return PortsIn(other, "forwarding", {"v1"}) == 1;
  })) << other->MustRun({"bridge", "link"});
  ExpectOneCopyEach(&other_guest, &station, 40);
  ExpectOneCopyEach(&other_guest, &guest, 50);
  // The switch learns that the guest is behind h2 now, not behind h1.
  other_guest.Send(TestFrame(MacAddr::Broadcast(), kOtherGuest, 60));
  ASSERT_TRUE(station.WaitFor(Marked(60)));
  station.Send(TestFrame(kOtherGuest, kStation, 61));
  EXPECT_TRUE(other_guest.WaitFor(Marked(61)));
}

}  // namespace
}  // namespace eoib::lab
