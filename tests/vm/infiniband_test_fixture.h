// InfinibandTest: the fixture for tests that change the subnet under agents on the kernel's
// InfiniBand stack, with Debian's OpenSM.
//
// The scenarios of tests/netns run on this fabric, too (scenarios.sh). All tests of a program share
// one subnet, whose manager runs on the port of host h1. Each test leaves the subnet as it found
// it.
#ifndef EOIB_TESTS_VM_INFINIBAND_TEST_FIXTURE_H_
#define EOIB_TESTS_VM_INFINIBAND_TEST_FIXTURE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/lab/ib_fabric.h"
#include "tests/lab/ib_subnet.h"
#include "tests/lab/steady_ping.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {

// Adapters of hosts.
inline constexpr int kH1 = 0, kH2 = 1, kH4 = 3;

// Runs saquery on an adapter that no agent uses, with the SM_Key: without it the SA does not list
// group members.
inline std::string Saquery(const Argv& arguments) {
  Argv argv = {"saquery", "--smkey", "1", "-C", IbSubnet::Device(IbFabric::kAdapters - 1)};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return RunOnMachine(argv).ToString();
}

class InfinibandTest : public SwitchTest {
 protected:
  static IbSubnet& subnet() { return IbFabric::subnet(); }

  // Adds three hosts that know each other.
  void StartHosts() {
    AddNumberedAgents(3);
    ExpectPing(host(1), Address(2));
    ExpectPing(host(2), Address(3));
    ExpectPing(host(3), Address(1));
  }

  bool HasCarrier(int number) {
    return absl::StrContains(host(number)->MustIp("-o link show dev v1"), "LOWER_UP");
  }
  bool Shows(int number, const std::string& text) {
    return absl::StrContains(agent(number).Ctl({"show"}).out, text);
  }
  // Waits until `show` contains the text.
  void ExpectShows(int number, const std::string& text) {
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return Shows(number, text); }))
        << "not \"" << text << "\" in " << agent(number).Ctl({"show"}).out;
  }
  void ExpectReaches(int from, int to) {
    EXPECT_TRUE(Reaches(host(from), Address(to))) << "h" << from << " to h" << to;
  }
  // With a frame that floods, so this checks the group's members.
  void ExpectFloodsReach(int from, int to) {
    host(from)->MustIp("neighbour flush dev v1");
    ExpectReaches(from, to);
  }

  // The partitions are in force when it returns.
  void SetPartitions(const std::vector<PartitionSpec>& partitions) {
    subnet().SetPartitions(ib_fabric().Translate(partitions));
    subnet().Wait();
  }
  IbFabric& ib_fabric() { return dynamic_cast<IbFabric&>(fabric()); }

  // Pings from h1 to h2 and from h2 to h3, ten times a second, until ExpectNoLoss.
  void StartPings() {
    StartPing(1, Address(2));
    StartPing(2, Address(3));
  }
  void StartPing(int from, const std::string& to) {
    pings_.push_back(std::make_unique<SteadyPing>(host(from), to, "0.1"));
  }
  void ExpectNoLoss() {
    for (const auto& ping : pings_) ping->ExpectNoLoss();
    pings_.clear();
  }

  // The members of h1's flood group according to OpenSM, as host numbers.
  std::vector<int> Members() {
    const std::string answer = Saquery({"-m", MlidOf(1)});
    std::vector<int> members;
    for (int number = 1; number <= IbFabric::kAdapters; ++number) {
      if (absl::StrContains(answer, absl::StrCat("(", IbSubnet::Device(number - 1), ")")))
        members.push_back(number);
    }
    return members;
  }
  void ExpectMembers(const std::vector<int>& expected) {
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return Members() == expected; }))
        << Saquery({"-m", MlidOf(1)});
  }
  std::string MlidOf(int number) {
    const std::string show = agent(number).MustCtl({"show"});
    const size_t at = show.find("MLID ");
    return at == std::string::npos ? "no MLID" : show.substr(at + 5, 6);
  }

 private:
  std::vector<std::unique_ptr<SteadyPing>> pings_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_VM_INFINIBAND_TEST_FIXTURE_H_
