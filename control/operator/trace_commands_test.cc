// The command trace, on whole agents.
#include "absl/strings/escaping.h"
#include "control/agent_test_fixture.h"

namespace eoib {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// v1 carries VLAN 0, v2 VLAN 10 and t1 all VLANs.
constexpr char kThreeVPorts[] =
    "[[ves]]\nname = \"blue\"\npkey = 0x8001\n[[vport]]\nname = \"v1\"\nves = \"blue\"\ntype = "
    "\"test\"\n"
    "[[vport]]\nname = \"v2\"\nves = \"blue\"\ntype = \"test\"\naccess_vlan = 10\n"
    "[[vport]]\nname = \"t1\"\nves = \"blue\"\ntype = \"test\"\nmode = \"trunk\"\n";

class TraceCommandsTest : public AgentTestOf<MonotonicClock> {
 protected:
  static std::string Trace(Host* host, const std::vector<std::string>& words) {
    return host->Command("trace", words);
  }
  // Whether the host knows the MAC, and where it is, before long.
  bool Knows(Host* host, MacAddr mac, const std::string& text) {
    return Until([&] {
      return absl::StrContains(Trace(host, {"v1", kC.ToString(), mac.ToString()}), text);
    });
  }
};

TEST_F(TraceCommandsTest, AnUnknownDestinationFloods) {
  Host* h1 = AddHost("h1", kThreeVPorts);
  ASSERT_TRUE(AllJoined());
  const std::string trace = Trace(h1, {"v1", kA.ToString(), kB.ToString()});
  EXPECT_THAT(
      trace,
      HasSubstr(
          "frame 02:00:00:00:00:0a > 02:00:00:00:00:0b, no VLAN tag, EtherType 0x0800, 60 bytes\n"
          "vPort v1: VLAN 0 of VES blue\n"
          "source: unknown; the frame would teach it\n"
          "destination: unknown\n"));
  EXPECT_THAT(trace,
              ContainsRegex("flood to vPort t1, group ff12:[0-9a-f:]+, MLID 0x[0-9a-f]+\n$"));
  EXPECT_THAT(Trace(h1, {"v1", kA.ToString(), "ff:ff:ff:ff:ff:ff"}),
              HasSubstr("destination: a group\nflood to vPort t1, group"));
  EXPECT_THAT(h1->Command("fdb/show"), Not(HasSubstr(kA.ToString()))) << "a trace learns nothing";
}

TEST_F(TraceCommandsTest, ARemoteDestinationHasAQueuePairAndALid) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  h2->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  ASSERT_TRUE(Knows(h1, kB, absl::StrCat(" QPN ", h2->Qpn(), " LID 0x")));
  EXPECT_THAT(
      Trace(h1, {"v1", kA.ToString(), kB.ToString()}),
      ContainsRegex(absl::StrCat("destination: known at GID [0-9a-f:]+ QPN ", h2->Qpn(),
                                 ".*\nto GID [0-9a-f:]+ QPN ", h2->Qpn(), " LID 0x[0-9a-f]+\n$")));
}

TEST_F(TraceCommandsTest, LocalDestinations) {
  Host* h1 = AddHost("h1", kThreeVPorts);
  ASSERT_TRUE(AllJoined());
  h1->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  ASSERT_TRUE(Knows(h1, kB, "known at vPort v1"));
  EXPECT_THAT(Trace(h1, {"t1", kA.ToString(), kB.ToString()}),
              HasSubstr("destination: known at vPort v1\nto vPort v1\n"));
  EXPECT_THAT(Trace(h1, {"v1", kA.ToString(), kB.ToString()}), HasSubstr("\ndrop same_port: "));
  EXPECT_THAT(Trace(h1, {"t1", kA.ToString(), kB.ToString(), "vlan", "10"}),
              HasSubstr("destination: unknown\nflood to vPort v2,"))
      << "a MAC is known in its VLAN only";
}

TEST_F(TraceCommandsTest, DropsHaveTheirReasons) {
  Host* h1 = AddHost("h1", kThreeVPorts);
  ASSERT_TRUE(AllJoined());
  const std::string a = kA.ToString(), b = kB.ToString();
  EXPECT_THAT(Trace(h1, {"v1", a, b, "vlan", "10"}),
              AllOf(HasSubstr("vPort v1: an access port takes frames without a VLAN tag only"),
                    HasSubstr("drop vlan_not_allowed: ")));
  EXPECT_THAT(Trace(h1, {"v1", "01:00:00:00:00:01", b}), HasSubstr("drop bad_source: "));
  EXPECT_THAT(Trace(h1, {"v1", a, b, "type", "0x88b5"}), HasSubstr("drop control_ethertype: "));
  EXPECT_THAT(Trace(h1, {"v1", a, "01:80:c2:00:00:01"}), HasSubstr("drop link_local_control: "));
  EXPECT_THAT(Trace(h1, {"v1", "hex", "020000"}), HasSubstr("drop runt: "));
  EXPECT_THAT(Trace(h1, {"v1", "hex", std::string(2 * 70000, '2')}), HasSubstr("drop too_large: "));
}

// The switch does with the frame as trace says.
TEST_F(TraceCommandsTest, AgreesWithTheForwarder) {
  Host* h1 = AddHost("h1", kThreeVPorts);
  ASSERT_TRUE(AllJoined());
  const Bytes frame = MakeFrame(kB, kA);
  const std::string hex =
      absl::BytesToHexString({reinterpret_cast<const char*>(frame.data()), frame.size()});
  ASSERT_THAT(Trace(h1, {"v1", "hex", hex}), HasSubstr("flood to vPort t1, "));
  h1->port("v1")->Inject(frame);
  EXPECT_TRUE(Arrives(h1->port("t1"), frame));
}

// With a flood list only agents with a vPort in the VLAN get a copy.
TEST_F(TraceCommandsTest, AFloodListHasTheAgentsOfTheVlan) {
  const auto config = [](int vlan) {
    return absl::StrCat(
        "[[ves]]\nname = \"blue\"\npkey = 0x8001\nflood = \"replicate\"\n[[vport]]\nname = "
        "\"v1\"\nves = \"blue\"\ntype = \"test\"\naccess_vlan = ",
        vlan, "\n");
  };
  Host* h1 = AddHost("h1", config(10));
  Host* h2 = AddHost("h2", config(10));
  Host* h3 = AddHost("h3", config(20));
  const auto trace = [&] { return Trace(h1, {"v1", kA.ToString(), "ff:ff:ff:ff:ff:ff"}); };
  const auto place = [](Host* host) { return absl::StrCat(" QPN ", host->Qpn()); };
  EXPECT_THAT(trace(), HasSubstr("drop no_egress: "));
  ASSERT_TRUE(Until([&] { return absl::StrContains(h1->Command("peers"), h3->Qpn()); }));
  // Until the state of an agent is known, it counts as one with all VLANs.
  EXPECT_TRUE(Until([&] {
    const std::string targets = trace();
    return absl::StrContains(targets, place(h2)) && !absl::StrContains(targets, place(h3));
  })) << trace();
}

TEST_F(TraceCommandsTest, WrongWordsAreErrors) {
  Host* h1 = AddHost("h1", kThreeVPorts);
  const std::string a = kA.ToString(), b = kB.ToString();
  EXPECT_THAT(Trace(h1, {"v9", a, b}),
              HasSubstr("this host has no vPort \"v9\"; there is: v1, v2, t1"));
  EXPECT_THAT(Trace(h1, {"v1", "hex", "02 0"}), HasSubstr("' ' is no hexadecimal digit"));
  EXPECT_THAT(Trace(h1, {"v1", "hex", "020"}), HasSubstr("write two for each"));
  EXPECT_THAT(Trace(h1, {"v1", a, b, "vlan"}), HasSubstr("write VPORT hex BYTES"));
  EXPECT_THAT(Trace(h1, {"v1", a, b, "vlan", "4095"}), HasSubstr("is no VLAN"));
  EXPECT_THAT(Trace(h1, {"v1", a, b, "type", "7"}), HasSubstr("is no EtherType"));
  EXPECT_THAT(Trace(h1, {"v1", a, "b"}), HasSubstr("\"b\""));
}

}  // namespace
}  // namespace eoib
