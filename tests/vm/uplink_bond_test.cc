// An uplink on a bond of the kernel (bonding(4)), whose legs lead to one bridge. Runs inside a
// virtual machine (boot.sh).
//
//      host h1: v1 --- VES --- eoib-gateway: e1, a bond --+-- ea --- pa --+
//                                                         |               br0 of host core --- host
//                                                         c1
//                                                         +-- eb --- pb --+
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/netns/uplink_test_fixture.h"

namespace eoib::lab {
namespace {

using ::testing::HasSubstr;

class UplinkBondTest : public UplinkTest {
 protected:
  // The one leg sends and receives, the other one waits.
  void StartOnABond() {
    c1_->AddAddress("eth0", "10.0.0.101/24");
    Host* const host = lab().AddHost("gw");
    host->MustIp("link add e1 type bond mode active-backup miimon 50");
    for (const std::string leg : {"a", "b"}) {
      host->AddVeth("e" + leg, core_, "p" + leg);
      host->MustIp("link set e" + leg + " down");  // the bond takes no other
      host->MustIp("link set e" + leg + " master e1");
      core_->MustIp("link set p" + leg + " master br0");
    }
    host->SetUp("e1");
    gateways_.push_back(std::make_unique<UplinkDaemon>(&lab(), &fabric(), host));
    gateway()->Configure("vlans = [0]\n");
    gateway()->Launch();
    EXPECT_TRUE(gateway()->Shows("active in VLANs 0")) << gateway()->Show();
  }
  UplinkDaemon* gateway() { return gateways_.front().get(); }
  // "a" or "b"; "" if both are down.
  std::string ActiveLeg() {
    const std::string bond = gateway()->host()->MustIp("-d link show e1");
    for (const std::string leg : {"a", "b"}) {
      if (absl::StrContains(bond, absl::StrCat(" active_slave e", leg, " "))) return leg;
    }
    return "";
  }
  // Whether the leg transmits before the deadline.
  bool Uses(const std::string& leg) {
    return EventuallyTrue(kPatience, [&] { return ActiveLeg() == leg; });
  }
  // At the bridge's end.
  void SetLeg(const std::string& leg, const std::string& state) {
    core_->MustIp(absl::StrCat("link set p", leg, " ", state));
  }
};

TEST_F(UplinkBondTest, TrafficGoesOnThroughTheOtherLeg) {
  StartOnABond();
  Host* const h1 = AddMember();
  ASSERT_TRUE(Reaches(c1_, "10.0.0.1", kPatience, "0.1"));
  const uint64_t changes = gateway()->Stat("vlan_changes");
  for (int i = 0; i < 2; ++i) {
    const std::string before = ActiveLeg(), after = before == "a" ? "b" : "a";
    SetLeg(before, "down");
    EXPECT_TRUE(Uses(after)) << gateway()->host()->MustIp("-d link show e1");
    EXPECT_TRUE(Reaches(c1_, "10.0.0.1", kPatience, "0.1")) << "through leg " << after;
    EXPECT_TRUE(Reaches(h1, "10.0.0.101", kPatience, "0.1")) << "through leg " << after;
    SetLeg(before, "up");
  }
  EXPECT_EQ(gateway()->Stat("vlan_changes"), changes) << "the gateway keeps its VLANs";
}

TEST_F(UplinkBondTest, ABondWithoutLegsWithdrawsItsVlans) {
  StartOnABond();
  AddMember();
  ASSERT_TRUE(Reaches(c1_, "10.0.0.1", kPatience, "0.1"));
  for (const char* leg : {"a", "b"}) SetLeg(leg, "down");
  EXPECT_TRUE(gateway()->Shows("down: netdev e1 has no carrier")) << gateway()->Show();
  EXPECT_THAT(gateway()->Show(), HasSubstr("active in VLANs none"));
  SetLeg("b", "up");
  EXPECT_TRUE(gateway()->Shows("active in VLANs 0")) << gateway()->Show();
  EXPECT_TRUE(Reaches(c1_, "10.0.0.1", kPatience, "0.1"));
}

}  // namespace
}  // namespace eoib::lab
