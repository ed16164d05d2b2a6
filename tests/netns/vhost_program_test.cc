// The program behind a vhost-user socket is hostile: vhost_front_end.py, without a virtual machine.
// It reaches nothing but its own vPort: the agent lives on, other machines and the control socket
// are served, and the next honest machine is, too.
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

constexpr char kGuest[] = "52:54:00:00:00:aa";  // of vhost_front_end.py

class VhostProgramTest : public SwitchTest {
 protected:
  // Agent h1 has `machines` vPorts for machines.
  void Start(int machines) {
    AgentSpec spec;
    spec.vports.clear();
    for (int i = 1; i <= machines; ++i)
      spec.vports.push_back({absl::StrCat("vm", i), "red", Vhost(i)});
    LaunchAgent("h1", spec).WaitUntil({"show"}, [](const std::string& show) {
      return absl::StrContains(show, ": joined, ");
    });
    AddAgent("h2");
    host(2)->AddAddress("v1", "10.0.0.2/24");
  }
  std::string Socket(int number) { return lab().Path(absl::StrCat("vm", number, ".sock")); }
  std::string Vhost(int number) {
    return absl::StrCat("type = \"vhost-user\"\nsocket = \"", Socket(number), "\"\n");
  }
  Argv Command(const std::string& name) {
    const std::string control = absl::StrCat(Binary("eoibctl"), " -t ", agent(1).ctl_path());
    const std::string pid = absl::StrCat("EOIB_AGENT=", agent(1).pid());
    return {"/usr/bin/env", pid, "/usr/bin/python3", EOIB_VHOST_FRONT_END, Socket(1), Socket(2),
            control,        name};
  }
};

class HostileProgramTest : public VhostProgramTest,
                           public ::testing::WithParamInterface<const char*> {};

TEST_P(HostileProgramTest, ReachesItsOwnVPortOnly) {
  Start(2);
  const pid_t before = agent(1).pid();
  const RunResult result = host(1)->Run(Command(GetParam()), "", absl::Minutes(4));
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(agent(1).Alive());
  EXPECT_EQ(agent(1).pid(), before);
  ExpectConservation(&agent(1));
}

INSTANTIATE_TEST_SUITE_P(
    All, HostileProgramTest,
    ::testing::Values("reset_owner", "log_after_reset", "repeated_resets", "socket_with_our_name",
                      "lost_pages", "every_message", "wrong_sizes", "rings_outside",
                      "sizes_changed", "features_changed", "refused_messages", "memory_replaced",
                      "half_messages", "deleted_with_a_half_message", "unread_answers",
                      "blocking_interrupts", "foreign_descriptors", "closes_that_wait",
                      "all_queues", "short_announcement", "many_connections", "random_messages"),
    [](const auto& info) { return std::string(info.param); });

// Messages come as when a guest masks interrupts or migrates, and frames for it at the same time.
// It stays reachable.
TEST_F(VhostProgramTest, MessagesDoNotTakeThePortDown) {
  Start(1);
  host(2)->MustIp(absl::StrCat("neigh add 10.0.0.9 lladdr ", kGuest, " dev v1"));
  const std::unique_ptr<Process> storm = host(1)->Start(Command("message_storm"));
  ASSERT_TRUE(EventuallyTrue(kPatience, [this] { return agent(2).Knows(kGuest); }));
  const uint64_t frames = agent(1).Stat("frames_in"), down = agent(1).Drop("port_down");
  host(2)->Run({"ping", "-c", "300", "-i", "0.002", "-W", "1", "10.0.0.9"});
  EXPECT_TRUE(storm->Alive()) << storm->Log();
  EXPECT_GE(agent(1).Stat("frames_in"), frames + 300);
  EXPECT_GT(agent(1).Drop("port_full"), 0u) << "no frame met a message";
  EXPECT_EQ(agent(1).Drop("port_down"), down);
  EXPECT_TRUE(agent(2).Knows(kGuest));
}

}  // namespace
}  // namespace eoib::lab
