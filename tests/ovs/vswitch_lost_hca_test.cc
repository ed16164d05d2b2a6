// Ports of type eoib whose HCA is missing, or is lost and returns.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/ovs/vswitch_test_fixture.h"

namespace eoib::lab {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class VSwitchLostHcaTest : public VSwitchTest {
 protected:
  void KillSubnet() {
    soft_fabric().Kill(SIGKILL);
    ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return !soft_fabric().Alive(); }));
  }
  void TakeDeviceAway(VSwitch* vswitch) {
    std::ofstream(gone_) << "gone\n";
    SetLink(vswitch, "down");  // any event: the program learns then that the device is gone
  }
  void GiveDeviceBack(VSwitch* vswitch) {
    SetLink(vswitch, "up");
    ASSERT_EQ(unlink(gone_.c_str()), 0);
  }
  // A bridge with an HCA of libibverbs, for which the preload libraries of the software HCA stand
  // in.
  VSwitch* AddWithVerbs() {
    // Only matters with the address sanitizer: the preloaded libraries come before the sanitizer's.
    const char* asan = std::getenv("ASAN_OPTIONS");
    return Add(
        "ovs1", {}, "",
        {absl::StrCat("ASAN_OPTIONS=", asan == nullptr ? "" : asan, ":verify_asan_link_order=0"),
         "LD_PRELOAD=" VANISHING_LIBRARY ":" EOIB_VERBS_LIBRARY ":" EOIB_UMAD_LIBRARY,
         "EOIB_FABRIC=" + soft_fabric().socket(), "EOIB_PORT=ovs1", "EOIB_GONE=" + gone_});
  }

  // The frames that eoib0 has received.
  static int64_t Received(VSwitch* vswitch) {
    const std::string counts = vswitch->Ofctl({"dump-ports", "br0", "eoib0"});
    int64_t received = -1;  // also if it is no number
    const std::vector<std::string> parts = absl::StrSplit(counts, absl::ByAnyChar("=,"));
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      if (absl::EndsWith(parts[i], "rx pkts")) (void)absl::SimpleAtoi(parts[i + 1], &received);
    }
    return received;
  }

  const std::string gone_ = lab().Path("gone");
};

// As with a lost subnet manager, known peers need none.
TEST_F(VSwitchLostHcaTest, ASubnetThatWasLostReturns) {
  VSwitch* const one = AddNumbered(1);
  AddNumbered(2);
  ASSERT_TRUE(Reaches(one->host(), Address(2)));
  KillSubnet();
  ExpectPing(one->host(), Address(2));
  soft_fabric().Start();
  AddNumbered(3);
  EXPECT_TRUE(Reaches(one->host(), Address(3))) << one->Log();
  EXPECT_EQ(one->Of("eoib0", "link_state"), "up");
}

TEST_F(VSwitchLostHcaTest, APortWaitsForTheHcaThatItIsAddedWith) {
  VSwitch* const one = Add("ovs1");
  one->AddBridge("br0", 1);
  KillSubnet();
  EXPECT_THAT(one->TryVsctl(one->PortWords("br0", "eoib0")).err,
              HasSubstr("eoib0: waiting for the HCA: "));
  EXPECT_THAT(one->Of("eoib0", "error"), HasSubstr("eoib0: waiting for the HCA: "));
  EXPECT_THAT(one->Appctl({"eoib/show"}), HasSubstr("waiting for the HCA: "));
  soft_fabric().Start();
  EXPECT_TRUE(Becomes(one, "link_state", "up")) << one->Of("eoib0", "error") << one->Log();
  EXPECT_EQ(one->Of("eoib0", "error"), "[]");
  AddNumbered(2);
  EXPECT_TRUE(Reaches(one->host(), Address(2))) << one->Log();
}

TEST_F(VSwitchLostHcaTest, ADeviceIsLostAndReturnsUnderAPort) {
  VSwitch* const one = AddWithVerbs();
  one->AddBridge("br0", 1);
  one->Vsctl(one->PortWords("br0", "eoib0") + " options:hca=verbs:eoib0/1");
  AddNumbered(2);
  ASSERT_TRUE(Becomes(one, "link_state", "up")) << one->Log();
  const std::string number = one->Of("eoib0", "ofport");
  // Non-PMD, then polled by a thread.
  for (const std::string type : {"eoib", "eoib-pmd"}) {
    SCOPED_TRACE(type);
    one->Vsctl(absl::StrCat(
        "set Open_vSwitch . other_config:pmd-maxsleep=250 -- set Interface eoib0 type=", type));
    ASSERT_TRUE(Reaches(one->host(), Address(2))) << one->Log();
    const int64_t resets = Count(one, "link_resets"), mtu = Count(one, "mtu");
    const int64_t received = Received(one);
    EXPECT_GT(received, 0);
    TakeDeviceAway(one);
    EXPECT_TRUE(Becomes(one, "link_state", "down")) << one->Log();
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
      return absl::StrContains(one->Of("eoib0", "status"),
                               "failure=\"list the InfiniBand devices: ");
    })) << one->Of("eoib0", "status");
    EXPECT_THAT(one->Appctl({"eoib/show"}),
                HasSubstr("waiting for the HCA: list the InfiniBand devices: "));
    EXPECT_EQ(Count(one, "mtu"), mtu);
    EXPECT_EQ(one->Of("eoib0", "error"), "[]");
    GiveDeviceBack(one);
    EXPECT_TRUE(Becomes(one, "link_state", "up")) << one->Log();
    EXPECT_TRUE(Counts(one, "link_resets", resets + 1)) << Count(one, "link_resets");
    EXPECT_TRUE(Reaches(one->host(), Address(2))) << one->Log();
    EXPECT_THAT(one->Of("eoib0", "status"), Not(HasSubstr("failure")));
    EXPECT_GT(Received(one), received) << "counters go on";
  }
}

}  // namespace
}  // namespace eoib::lab
