// Agents whose configuration changes while they run.
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "control/agent_test_fixture.h"
#include "gmock/gmock.h"

namespace eoib {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string BlueVes(const std::string& more = "") {
  return absl::StrCat("[[ves]]\nname = 'blue'\npkey = 0x8001\n", more);
}
std::string TestVPort(const std::string& name, const std::string& more = "",
                      const std::string& ves = "blue") {
  return absl::StrCat("[[vport]]\nname = '", name, "'\nves = '", ves, "'\ntype = 'test'\n", more);
}

class AgentApplyTest : public AgentTestOf<MonotonicClock> {
 protected:
  void AddTwo() {
    h1_ = AddHost("h1", BlueVes() + TestVPort("v1"));
    h2_ = AddHost("h2", BlueVes() + TestVPort("v1"));
    ASSERT_TRUE(AllJoined());
    ExpectTalk(h1_->port("v1"), h2_->port("v1"));
  }

  Host* h1_ = nullptr;
  Host* h2_ = nullptr;
};

TEST_F(AgentApplyTest, AddsAVPortThatTalksAtOnce) {
  AddTwo();
  ASSERT_TRUE(h1_->Apply(BlueVes() + TestVPort("v1") + TestVPort("v2")).ok());
  EXPECT_TRUE(h1_->carrier("v2"));
  EXPECT_EQ(h1_->mtu("v2"), h1_->mtu("v1"));
  h1_->port("v2")->Inject(MakeFrame(kB, kC));
  EXPECT_TRUE(Arrives(h2_->port("v1"), MakeFrame(kB, kC)));
  h2_->port("v1")->Inject(MakeFrame(kC, kB));
  EXPECT_TRUE(Arrives(h1_->port("v2"), MakeFrame(kC, kB)));
  EXPECT_TRUE(h1_->Knows(kA)) << "what was known stays";
}

TEST_F(AgentApplyTest, RemovesAVPortWithAllThatIsBehindIt) {
  AddTwo();
  ASSERT_TRUE(h1_->Apply(BlueVes() + TestVPort("v1") +
                         TestVPort("v2", "static_macs = ['02:00:00:00:00:0d']\n"))
                  .ok());
  h1_->port("v2")->Inject(MakeFrame(kB, kC));
  EXPECT_TRUE(Arrives(h2_->port("v1"), MakeFrame(kB, kC)));
  ASSERT_TRUE(
      Until([&] { return h2_->OriginOf(kC) == "announced" && h2_->OriginOf(kD) == "announced"; }));
  ASSERT_TRUE(h1_->Apply(BlueVes() + TestVPort("v1")).ok());
  EXPECT_THAT(h1_->removed_interfaces, ElementsAre("v2"));
  EXPECT_FALSE(h1_->Knows(kC));
  EXPECT_FALSE(h1_->Knows(kD));
  EXPECT_TRUE(h1_->Knows(kA));
  EXPECT_TRUE(Until([&] { return !h2_->Knows(kC) && !h2_->Knows(kD); }))
      << "the other agent is told";
  ExpectTalk(h1_->port("v1"), h2_->port("v1"));
}

// Regression: its versions began again, so the others took its announcements for late ones.
TEST_F(AgentApplyTest, AVesThatReturnsIsKnownAgain) {
  AddTwo();
  ASSERT_TRUE(Until([&] { return h2_->OriginOf(kA) == "announced"; }));
  ASSERT_TRUE(
      h1_->Apply("[[ves]]\nname = 'red'\npkey = 0x8002\n" + TestVPort("r1", "", "red")).ok());
  ASSERT_TRUE(Until([&] { return !h2_->Knows(kA); }));
  ASSERT_TRUE(
      h1_->Apply(BlueVes() + TestVPort("v1", "static_macs = ['02:00:00:00:00:0c']\n")).ok());
  EXPECT_TRUE(Until([&] { return h2_->OriginOf(kC) == "announced"; }));
}

TEST_F(AgentApplyTest, LastVPortLeavesTheGroupAndTheFirstJoinsIt) {
  AddTwo();
  const auto members = [this]() -> size_t {
    const auto groups = subnet_.Groups();
    return groups.empty() ? 0 : groups[0].members.size();
  };
  EXPECT_EQ(members(), 2u);
  ASSERT_TRUE(Until([&] { return h2_->OriginOf(kA) == "announced"; }))
      << "the other agent knows this one";
  ASSERT_TRUE(h1_->Apply(BlueVes()).ok());
  EXPECT_TRUE(Until([&] { return members() == 1; }));
  EXPECT_THAT(h1_->Command("show"), HasSubstr("no member without a vPort"));
  EXPECT_TRUE(Until([&] { return !h2_->Knows(kA); })) << "the agent has said that it leaves";
  ASSERT_TRUE(h1_->Apply(BlueVes() + TestVPort("v1")).ok());
  ASSERT_TRUE(AllJoined());
  EXPECT_EQ(members(), 2u);
  EXPECT_TRUE(ArrivesInTheEnd(h1_->port("v1"), h2_->port("v1"), MakeFrame(kB, kA)));
  EXPECT_TRUE(Until([&] { return h2_->OriginOf(kA) == "announced"; }))
      << "the other agent knows this one again";
}

TEST_F(AgentApplyTest, AddsAndRemovesAVes) {
  AddTwo();
  const std::string red = "[[ves]]\nname = 'red'\npkey = 0x8002\n" + TestVPort("r1", "", "red");
  ASSERT_TRUE(h1_->Apply(BlueVes() + red + TestVPort("v1")).ok());
  ASSERT_TRUE(h2_->Apply(BlueVes() + red + TestVPort("v1")).ok());
  ASSERT_TRUE(AllJoined());
  EXPECT_TRUE(ArrivesInTheEnd(h1_->port("r1"), h2_->port("r1"), MakeFrame(kD, kC)));
  EXPECT_FALSE(h1_->Knows(kD)) << "no station of h2 has sent";
  ASSERT_TRUE(Until([&] { return h2_->OriginOf(kC) == "announced"; }))
      << "the other agent knows this one";
  ASSERT_TRUE(h1_->Apply(BlueVes() + TestVPort("v1")).ok());
  EXPECT_THAT(h1_->Command("show"), Not(HasSubstr("VES red")));
  EXPECT_TRUE(Until([&] { return !h2_->Knows(kC); })) << "the agent has said that it leaves";
  ExpectTalk(h1_->port("v1"), h2_->port("v1"));
}

TEST_F(AgentApplyTest, ChangedVPortKeepsItsInterface) {
  AddTwo();
  TestPort* const port = h1_->port("v1");
  ASSERT_TRUE(h1_->Apply(BlueVes() + TestVPort("v1", "access_vlan = 10\n")).ok());
  EXPECT_EQ(h1_->port("v1"), port);
  EXPECT_THAT(h1_->removed_interfaces, IsEmpty());
  EXPECT_THAT(h1_->Command("show"), HasSubstr("access VLAN 10"));
  ASSERT_TRUE(h2_->Apply(BlueVes() + TestVPort("v1", "access_vlan = 10\n")).ok());
  EXPECT_TRUE(ArrivesInTheEnd(h1_->port("v1"), h2_->port("v1"), MakeFrame(kB, kA)));
  EXPECT_THAT(h2_->Command("fdb/show"), HasSubstr("   10  " + kA.ToString()));
}

TEST_F(AgentApplyTest, ChangesKeysOfAVesInPlace) {
  AddTwo();
  const std::string qpn = h1_->Qpn();
  ASSERT_TRUE(
      h1_->Apply(BlueVes("ageing = 1000\nfdb_limit = 99\nvlans = [0, 10]\n") + TestVPort("v1"))
          .ok());
  EXPECT_EQ(h1_->Qpn(), qpn);
  EXPECT_THAT(h1_->Command("show"), HasSubstr("VLANs 0,10"));
  EXPECT_THAT(h1_->Command("show"), HasSubstr("of 99"));
  EXPECT_TRUE(h1_->Knows(kB));
  ExpectTalk(h1_->port("v1"), h2_->port("v1"));
}

TEST_F(AgentApplyTest, VesThatMovesToAnotherPartitionTakesItsVPortsAlong) {
  AddTwo();
  TestPort* const port = h1_->port("v1");
  const std::string moved = "[[ves]]\nname = 'blue'\npkey = 0x8002\n" + TestVPort("v1");
  ASSERT_TRUE(h1_->Apply(moved).ok());
  EXPECT_EQ(h1_->port("v1"), port);
  ASSERT_TRUE(h2_->Apply(moved).ok());
  ASSERT_TRUE(AllJoined());
  EXPECT_TRUE(ArrivesInTheEnd(h1_->port("v1"), h2_->port("v1"), MakeFrame(kB, kA)));
  EXPECT_THAT(h1_->Command("show"), HasSubstr("P_Key 0x8002"));
}

TEST_F(AgentApplyTest, AppliesNothingIfAnInterfaceCannotBeMade) {
  AddTwo();
  h1_->is_broken = [](const VPortConfig& config) { return config.name == "v3"; };
  const absl::Status status =
      h1_->Apply(BlueVes("fdb_limit = 7\n") + TestVPort("v2") + TestVPort("v3"));
  EXPECT_THAT(status.message(), HasSubstr("v3: broken"));
  EXPECT_THAT(h1_->removed_interfaces, ElementsAre("v2")) << "it was new";
  EXPECT_THAT(h1_->Command("show"), Not(HasSubstr("of 7")));
  EXPECT_EQ(h1_->agent()->config().vports.size(), 1u);
  ExpectTalk(h1_->port("v1"), h2_->port("v1"));
}

TEST_F(AgentApplyTest, GoesBackIfAnInterfaceCannotBeMadeAgain) {
  AddTwo();
  ASSERT_TRUE(
      h1_->Apply(BlueVes() + TestVPort("v1") + TestVPort("v2", "mac = '02:00:00:00:00:0c'\n"))
          .ok());
  h1_->is_broken = [](const VPortConfig& config) { return config.mac == kD; };
  const absl::Status status = h1_->Apply(BlueVes("fdb_limit = 7\n") + TestVPort("v1") +
                                         TestVPort("v2", "mac = '02:00:00:00:00:0d'\n"));
  EXPECT_THAT(status.message(), HasSubstr("v2: broken"));
  EXPECT_THAT(h1_->Command("show"), Not(HasSubstr("of 7")));
  EXPECT_TRUE(h1_->carrier("v2"));
  EXPECT_EQ(h1_->port("v2")->mac(), kC);
  ExpectTalk(h1_->port("v1"), h2_->port("v1"));

  // If the former interface cannot be made again either, all but that goes back.
  h1_->is_broken = [](const VPortConfig& config) { return config.name == "v2"; };
  ASSERT_FALSE(h1_->Apply(BlueVes("fdb_limit = 7\n") + TestVPort("v1") +
                          TestVPort("v2", "mac = '02:00:00:00:00:0d'\n"))
                   .ok());
  EXPECT_THAT(h1_->Command("show"), Not(HasSubstr("of 7")));
  EXPECT_THAT(h1_->Command("show"), Not(HasSubstr("vPort v2")));
  ExpectTalk(h1_->port("v1"), h2_->port("v1"));
}

TEST_F(AgentApplyTest, RefusesAStaticMacThatAnOperatorHasElsewhere) {
  AddTwo();
  EXPECT_THAT(h1_->Command("fdb/add", {"blue", "0", kD.ToString(), "v1"}), Not(HasSubstr("error")));
  const absl::Status status = h1_->Apply(
      BlueVes() + TestVPort("v1") + TestVPort("v2", "static_macs = ['" + kD.ToString() + "']\n"));
  EXPECT_THAT(status.message(), HasSubstr("is behind vPort v1 by `fdb add`"));
  EXPECT_THAT(h1_->Command("show"), Not(HasSubstr("vPort v2")));
}

// Whatever the changes were, the agent is as one that started with the last configuration.
TEST_F(AgentApplyTest, ManyRandomChangesEndInTheLastConfiguration) {
  AddTwo();
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    std::string toml = BlueVes(random() % 2 == 0 ? "" : "ageing = 60\n");
    if (random() % 2 == 0)
      toml += absl::StrCat("[[ves]]\nname = 'red'\npkey = 0x8002\nheader = '",
                           random() % 2 ? "eoib" : "xve", "'\n",
                           random() % 2 ? TestVPort("r1", "", "red") : "");
    for (const char* name : {"v1", "v2", "v3", "v4"}) {
      if (random() % 3 == 0) continue;
      toml += TestVPort(name, random() % 3 == 0   ? "access_vlan = 10\n"
                              : random() % 2 == 0 ? "sticky = true\n"
                                                  : "");
    }
    ASSERT_TRUE(h1_->Apply(toml).ok()) << toml;
    ASSERT_TRUE(
        ConfigDiff::Between(h1_->agent()->config(), ParseConfig(toml, "test").value()).empty());
    h2_->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kB));
    PumpAll();
  }
  ASSERT_TRUE(h1_->Apply(BlueVes() + TestVPort("v1")).ok());
  ASSERT_TRUE(AllJoined());
  EXPECT_TRUE(ArrivesInTheEnd(h1_->port("v1"), h2_->port("v1"), MakeFrame(kB, kA)));
  h2_->port("v1")->TakeTransmitted();
  ExpectTalk(h1_->port("v1"), h2_->port("v1"));
}

}  // namespace
}  // namespace eoib
