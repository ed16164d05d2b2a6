// Access ports, trunk ports and native VLANs: where frames arrive, and with which tag.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

const MacAddr kA = MacAddr::FromUint64(0x02'aa'00'00'00'01);
const MacAddr kB = MacAddr::FromUint64(0x02'aa'00'00'00'02);

// The tags of a frame as text: "untagged", "10", "10/5" with a priority, "10 20" for two tags.
std::string Tags(const Bytes& frame) {
  std::string text;
  for (size_t at = 12; frame.size() >= at + 4 && frame[at] == 0x81 && frame[at + 1] == 0; at += 4) {
    const int tci = frame[at + 2] << 8 | frame[at + 3];
    absl::StrAppend(&text, text.empty() ? "" : " ", tci & 0xfff);
    if (tci >> 13 != 0) absl::StrAppend(&text, "/", tci >> 13);
  }
  return text.empty() ? "untagged" : text;
}

// One VES with these ports on three hosts:
//   acc10, on h1 and again on h2   access VLAN 10
//   acc0, acc20                    access VLANs 0 and 20
//   every                          trunk of all VLANs, native 0
//   few                            trunk of 10 and 20, native 10
class VlanTest : public SwitchTest {
 protected:
  void SetUp() override {
    SwitchTest::SetUp();
    AddPorts("h1", {{"acc10", "red", "mode = \"access\"\naccess_vlan = 10\n"},
                    {"every", "red", "mode = \"trunk\"\n"}});
    AddPorts("h2", {{"acc10", "red", "mode = \"access\"\naccess_vlan = 10\n"},
                    {"acc20", "red", "mode = \"access\"\naccess_vlan = 20\n"},
                    {"every", "red", "mode = \"trunk\"\n"}});
    AddPorts("h3", {{"few", "red", "mode = \"trunk\"\ntrunk_vlans = [10, 20]\nnative_vlan = 10\n"},
                    {"acc0", "red", ""}});
    WaitUntilAllReceive({{agents()[0]->host(), "acc10"},
                         {agents()[1]->host(), "acc10"},
                         {agents()[2]->host(), "few"}});
  }

  void AddPorts(const std::string& host, const std::vector<VPortSpec>& vports) {
    AgentSpec spec;
    spec.vports = vports;
    Agent& agent = AddAgent(host, spec);
    for (const VPortSpec& vport : vports) {
      sockets_[absl::StrCat(host, " ", vport.name)] =
          std::make_unique<PacketSocket>(agent.host(), vport.name);
    }
  }

  // Where frames with `marker` have arrived once the switch is at rest: port -> tag ("2 copies" if
  // a port got two).
  std::map<std::string, std::string> Arrivals(uint32_t marker) {
    for (const auto& agent : agents()) ExpectConservation(agent.get());
    std::map<std::string, std::string> arrivals;
    for (auto& [port, socket] : sockets_) {
      for (const Bytes& frame : socket->received()) {
        if (MarkerOf(frame) == marker)
          arrivals[port] = arrivals.count(port) != 0 ? "2 copies" : Tags(frame);
      }
    }
    return arrivals;
  }

  std::map<std::string, std::unique_ptr<PacketSocket>> sockets_;
};

using Ports = std::map<std::string, std::string>;

TEST_F(VlanTest, FloodsReachPortsOfTheVlanWithThePortsTag) {
  const Bytes plain = TestFrame(MacAddr::Broadcast(), kA, 1);
  struct {
    const char* description;
    const char* sender;
    Bytes frame;
    Ports arrivals;
  } rows[] = {
      {"untagged into access 10",
       "h1 acc10",
       plain,
       {{"h1 every", "10"}, {"h2 acc10", "untagged"}, {"h2 every", "10"}, {"h3 few", "untagged"}}},
      {"its own tag into access 10: a port without tags takes none",
       "h1 acc10",
       WithTag(plain, 10),
       {}},
      {"a tag behind a priority tag into access 10",
       "h1 acc10",
       WithTag(WithTag(plain, 20), 0),
       {}},
      {"two tags, the outer one native to a trunk: the frame stays in its VLAN",
       "h1 every",
       WithTag(WithTag(plain, 20), 10),
       {{"h1 acc10", "20"}, {"h2 acc10", "20"}, {"h2 every", "10 20"}, {"h3 few", "10 20"}}},
      {"a foreign tag into access 10", "h1 acc10", WithTag(plain, 20), {}},
      {"priority tag into access 10: the priority stays",
       "h1 acc10",
       WithTag(plain, 0, 5),
       {{"h1 every", "10/5"},
        {"h2 acc10", "untagged"},
        {"h2 every", "10/5"},
        {"h3 few", "untagged"}}},
      {"untagged into access 0",
       "h3 acc0",
       plain,
       {{"h1 every", "untagged"}, {"h2 every", "untagged"}}},
      {"untagged into a trunk with native 0",
       "h1 every",
       plain,
       {{"h2 every", "untagged"}, {"h3 acc0", "untagged"}}},
      {"20 into a trunk, with priority",
       "h1 every",
       WithTag(plain, 20, 3),
       {{"h2 acc20", "untagged"}, {"h2 every", "20/3"}, {"h3 few", "20/3"}}},
      {"10 into a trunk: untagged where it is native",
       "h1 every",
       WithTag(plain, 10),
       {{"h1 acc10", "untagged"},
        {"h2 acc10", "untagged"},
        {"h2 every", "10"},
        {"h3 few", "untagged"}}},
      {"30 into a trunk: not where it is not carried",
       "h1 every",
       WithTag(plain, 30),
       {{"h2 every", "30"}}},
      {"untagged into a trunk with native 10",
       "h3 few",
       plain,
       {{"h1 acc10", "untagged"},
        {"h1 every", "10"},
        {"h2 acc10", "untagged"},
        {"h2 every", "10"}}},
      {"30 into a trunk of 10 and 20", "h3 few", WithTag(plain, 30), {}},
      {"20 into a trunk of 10 and 20",
       "h3 few",
       WithTag(plain, 20),
       {{"h1 every", "20"}, {"h2 acc20", "untagged"}, {"h2 every", "20"}}},
      {"two tags: the inner one is payload",
       "h1 every",
       WithTag(WithTag(plain, 99), 20),
       {{"h2 acc20", "99"}, {"h2 every", "20 99"}, {"h3 few", "20 99"}}},
      {"4095, which is reserved", "h1 every", WithTag(plain, 4095), {}},
      {"4094, the highest", "h1 every", WithTag(plain, 4094), {{"h2 every", "4094"}}},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.description);
    sockets_[row.sender]->Send(row.frame);
    for (const auto& [port, tags] : row.arrivals) {
      EXPECT_TRUE(sockets_[port]->WaitFor(Marked(1), 1, absl::Seconds(5))) << "nothing at " << port;
    }
    EXPECT_EQ(Arrivals(1), row.arrivals);
    for (auto& [port, socket] : sockets_) socket->Clear();
  }
  // The last row of each sender arrives somewhere, so all its earlier frames have been handled by
  // then.
  EXPECT_EQ(agents()[0]->Drop("vlan_not_allowed"), 3u);
  EXPECT_EQ(agents()[0]->Drop("reserved_vid"), 1u);
  EXPECT_EQ(agents()[0]->Stat("acc10.refused") + agents()[0]->Stat("every.refused"), 4u);
  EXPECT_EQ(agents()[2]->Drop("vlan_not_allowed"), 1u);
}

TEST_F(VlanTest, MacIsLearnedInItsVlanOnly) {
  // The same MAC in VLAN 10 behind h2 and in VLAN 20 behind h3: two stations.
  sockets_["h2 acc10"]->Send(TestFrame(MacAddr::Broadcast(), kB, 1));
  sockets_["h3 few"]->Send(WithTag(TestFrame(MacAddr::Broadcast(), kB, 2), 20));
  ASSERT_TRUE(sockets_["h1 every"]->WaitFor(Marked(1)));
  ASSERT_TRUE(sockets_["h1 every"]->WaitFor(Marked(2)));
  EXPECT_TRUE(agents()[0]->Knows(kB.ToString(), "QPN", 10));
  EXPECT_TRUE(agents()[0]->Knows(kB.ToString(), "QPN", 20));
  EXPECT_FALSE(agents()[0]->Knows(kB.ToString(), "", 0));

  sockets_["h1 every"]->Send(WithTag(TestFrame(kB, kA, 3), 10));
  sockets_["h1 every"]->Send(WithTag(TestFrame(kB, kA, 4), 20));
  ASSERT_TRUE(sockets_["h2 acc10"]->WaitFor(Marked(3)));
  ASSERT_TRUE(sockets_["h3 few"]->WaitFor(Marked(4)));
  EXPECT_EQ(Arrivals(3), (Ports{{"h2 acc10", "untagged"}}));
  EXPECT_EQ(Arrivals(4), (Ports{{"h3 few", "20"}}));
}

TEST_F(VlanTest, AccessPortsReachEachOtherWithinOneVlanOnly) {
  Host* first = agents()[0]->host();
  Host* second = agents()[1]->host();
  first->AddAddress("acc10", Address(1) + "/24");
  second->AddAddress("acc10", Address(2) + "/24");
  ExpectPing(first, Address(2));
  second->MustIp("address flush dev acc10");
  second->AddAddress("acc20", Address(2) + "/24");
  first->MustIp("neigh flush all");
  EXPECT_FALSE(first->Run({"ping", "-n", "-c", "2", "-i", "0.2", "-W", "1", Address(2)}).ok())
      << "VLANs 10 and 20 must not meet";
}

TEST_F(VlanTest, StrippedFramesAreStillPadded) {
  // 64 bytes with the tag on the fabric, 60 without it at the port.
  const Bytes frame = TestFrame(MacAddr::Broadcast(), kA, 5, 30);
  sockets_["h1 every"]->Send(WithTag(frame, 20));
  const auto stripped = sockets_["h2 acc20"]->Receive(Marked(5));
  ASSERT_TRUE(stripped.has_value());
  EXPECT_EQ(Hex(*stripped), Hex(Padded(frame)));
  const auto tagged = sockets_["h2 every"]->Receive(Marked(5));
  ASSERT_TRUE(tagged.has_value());
  EXPECT_EQ(Hex(*tagged), Hex(Padded(WithTag(frame, 20))));
}

}  // namespace
}  // namespace eoib::lab
