// VSwitchTest: a test with vSwitches, which it stops at its end.
#ifndef EOIB_TESTS_OVS_VSWITCH_TEST_FIXTURE_H_
#define EOIB_TESTS_OVS_VSWITCH_TEST_FIXTURE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/lab/switch_test.h"
#include "tests/ovs/vswitch.h"

namespace eoib::lab {

class VSwitchTest : public SwitchTest {
 protected:
  void TearDown() override {
    for (const auto& vswitch : vswitches_) vswitch->Stop();
    SwitchTest::TearDown();
  }
  VSwitch* Add(const std::string& name, const HostOptions& options = {},
               const std::string& other_config = "",
               const std::vector<std::string>& environment = {}) {
    vswitches_.push_back(std::make_unique<VSwitch>(
        &lab(), &soft_fabric(), lab().AddHost(name, options), other_config, environment));
    return vswitches_.back().get();
  }
  // With bridge br0, address 10.0.0.N, and its port eoib0.
  VSwitch* AddNumbered(int number, const std::string& more = "",
                       const std::string& other_config = "") {
    VSwitch* const vswitch = Add(absl::StrCat("ovs", number), {.ipv6 = true}, other_config);
    vswitch->AddBridge("br0", number);
    vswitch->AddPort("br0", "eoib0", more);
    return vswitch;
  }
  bool Becomes(VSwitch* vswitch, const std::string& column, const std::string& value) {
    return EventuallyTrue(kPatience, [&] { return vswitch->Of("eoib0", column) == value; });
  }
  // A column of eoib0 with a number.
  int64_t Count(VSwitch* vswitch, const std::string& column) {
    int64_t count = -1;
    EXPECT_TRUE(absl::SimpleAtoi(vswitch->Of("eoib0", column), &count)) << column;
    return count;
  }
  bool Counts(VSwitch* vswitch, const std::string& column, int64_t value) {
    return EventuallyTrue(kPatience, [&] { return Count(vswitch, column) == value; });
  }
  // Sets the link of the host's port of the subnet up or down.
  void SetLink(VSwitch* vswitch, const std::string& state) {
    const RunResult set = soft_fabric().Ctl({"link", vswitch->host()->name(), state});
    EXPECT_TRUE(set.ok()) << set.ToString();
  }

 private:
  std::vector<std::unique_ptr<VSwitch>> vswitches_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_OVS_VSWITCH_TEST_FIXTURE_H_
