// Tests of the program eoibd without its HCA. EOIBD and EOIBCTL are the paths of the programs. No
// test machine has a device of that name.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/daemon/notify_socket_for_test.h"
#include "vswitch/base/daemon/running_server_for_test.h"

namespace eoib {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr absl::Duration kPatience = absl::Seconds(20);

class EoibdTest : public ::testing::Test {
 protected:
  EoibdTest() : directory_(MakeTemporaryDirectory()) {
    std::ofstream(directory_ + "/eoibd.toml") << "[[ves]]\nname = \"blue\"\npkey = 0x8001\n";
  }
  std::string Command(const std::string& arguments) const {
    return absl::StrCat(EOIBD " --config=", directory_, "/eoibd.toml --rundir=", directory_,
                        " --statedir=", directory_, " ", arguments);
  }
  ProgramResult Eoibd(const std::string& arguments) const { return RunProgram(Command(arguments)); }
  ProgramResult Eoibctl(const std::string& arguments) const {
    return RunProgram(absl::StrCat(EOIBCTL " --rundir=", directory_, " ", arguments));
  }
  // Polls `show` until it contains `part`.
  bool Shows(const std::string& part) const {
    const MonotonicClock clock;
    const absl::Time deadline = clock.Now() + kPatience;
    while (clock.Now() < deadline) {
      if (absl::StrContains(Eoibctl("show").out, part)) return true;
      std::this_thread::yield();
    }
    return false;
  }

  const std::string directory_;
};

TEST_F(EoibdTest, AMissingDeviceIsAnError) {
  const ProgramResult result = Eoibd("--hca=verbs:nosuchdevice/1");
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("eoibd: "), HasSubstr("InfiniBand device")));
}

TEST_F(EoibdTest, AnswersAndStopsWhileItWaitsForItsHca) {
  ProgramResult result;
  std::thread program([&] { result = Eoibd("--hca=verbs:nosuchdevice/1 --wait_for_hca"); });
  EXPECT_TRUE(Shows("waiting for the HCA: "));
  EXPECT_EQ(Eoibctl("exit").out, "stopping\n");
  program.join();
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("InfiniBand device"));
}

TEST_F(EoibdTest, MakesRemovedControlSocketsAgain) {
  ProgramResult result;
  std::thread program([&] { result = Eoibd("--hca=verbs:nosuchdevice/1 --wait_for_hca"); });
  EXPECT_TRUE(Shows("waiting for the HCA: "));
  for (const char* socket : {"/eoibd.ctl", "/eoibd.ro.ctl"})
    EXPECT_EQ(unlink((directory_ + socket).c_str()), 0);
  EXPECT_TRUE(Shows("waiting for the HCA: "));
  EXPECT_EQ(RunProgram(absl::StrCat(EOIBCTL " -t ", directory_, "/eoibd.ro.ctl show")).exit_status,
            0);
  EXPECT_EQ(Eoibctl("exit").out, "stopping\n");
  program.join();
  EXPECT_THAT(result.err, HasSubstr(absl::StrCat("removed the control socket ", directory_,
                                                 "/eoibd.ctl: made it again")));
}

// A unit that never became ready would hold up the boot, and one without signs of life would be
// restarted.
TEST_F(EoibdTest, IsReadyForItsServiceManagerWhileItWaitsForItsHca) {
  const NotifySocket socket(directory_ + "/notify");
  ProgramResult result;
  std::thread program([&] {
    result = RunProgram(absl::StrCat("WATCHDOG_USEC=3000000 NOTIFY_SOCKET=", socket.path(), " ",
                                     Command("--hca=verbs:nosuchdevice/1 --wait_for_hca")));
  });
  EXPECT_TRUE(Shows("waiting for the HCA: "));
  std::vector<std::string> messages;
  const MonotonicClock clock;
  const absl::Time deadline = clock.Now() + kPatience;
  while (std::count(messages.begin(), messages.end(), "WATCHDOG=1") < 2 && clock.Now() < deadline) {
    for (std::string& message : socket.Take()) messages.push_back(std::move(message));
    std::this_thread::yield();
  }
  Eoibctl("exit");
  program.join();
  for (std::string& message : socket.Take()) messages.push_back(std::move(message));
  ASSERT_THAT(messages, SizeIs(Ge(5u)));
  EXPECT_EQ(messages[0], "READY=1");
  EXPECT_THAT(messages, Contains(StartsWith("STATUS=waiting for the HCA: ")));
  EXPECT_THAT(messages, Contains("WATCHDOG=1").Times(Ge(2)));
  EXPECT_EQ(messages.back(), "STOPPING=1");
}

TEST_F(EoibdTest, LogsASignalThatMeansNothingOnce) {
  ProgramResult result;
  std::thread program([&] {
    result = RunProgram(absl::StrCat("{ ", Command("--hca=verbs:nosuchdevice/1 --wait_for_hca"),
                                     " & echo $! >", directory_, "/pid; wait $!; }"));
  });
  EXPECT_TRUE(Shows("waiting for the HCA: "));
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(RunProgram("kill -USR1 $(cat " + directory_ + "/pid)").exit_status, 0);
  EXPECT_EQ(Eoibctl("exit").out, "stopping\n");
  program.join();
  EXPECT_EQ(result.exit_status, 0) << result.err;
  const std::vector<std::string> parts = absl::StrSplit(result.err, " ignored: ");
  EXPECT_THAT(parts, SizeIs(2)) << result.err;
}

TEST_F(EoibdTest, NamesTheProcessThatServesItsSocket) {
  const CommandRegistry none;
  const RunningServer other(directory_ + "/eoibd.ctl", &none);
  const ProgramResult result = Eoibd("--hca=verbs:nosuchdevice/1");
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.err, HasSubstr(absl::StrCat("(process ", getpid(),
                                                 ") serves it already; stop that program first")));
}

// The agent first finds a living predecessor, which then ends as if killed: without an answer, and
// leaving its socket file.
TEST_F(EoibdTest, TakesOverTheSocketOfAKilledAgent) {
  const UniqueFd before(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (directory_ + "/eoibd.ctl").c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(before.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(before.get(), 100), 0);
  ProgramResult result;
  std::thread program([&] { result = Eoibd("--hca=verbs:nosuchdevice/1"); });
  pollfd probed = {before.get(), POLLIN, 0};
  EXPECT_EQ(poll(&probed, 1, 20'000), 1);
  shutdown(before.get(), SHUT_RDWR);
  program.join();
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("InfiniBand device"), Not(HasSubstr("serves it already"))));
}

TEST_F(EoibdTest, PointsToItsHelpAfterAWrongFlag) {
  const struct {
    const char* arguments;
    const char* error;
  } kCases[] = {
      {"--hcaa=soft:h1", "unknown command line flag 'hcaa'"},
      {"--wait_for_hca=perhaps", "illegal value 'perhaps' specified for bool flag 'wait_for_hca'"},
      {"soft:h1", "unexpected argument \"soft:h1\""},
  };
  for (const auto& c : kCases) {
    const ProgramResult result = Eoibd(c.arguments);
    EXPECT_EQ(result.exit_status, 1) << c.arguments;
    EXPECT_THAT(result.err, AllOf(HasSubstr(c.error), HasSubstr("see eoibd --help\n")))
        << c.arguments;
  }
  const ProgramResult version = Eoibd("--version");
  EXPECT_EQ(version.exit_status, 0);
  EXPECT_EQ(version.err, "");
}

TEST_F(EoibdTest, DoesNotWaitForAMalformedHcaName) {
  const ProgramResult result = Eoibd("--hca=verbs:nosuchdevice --wait_for_hca");
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.err, HasSubstr("verbs:DEVICE/PORT"));
}

}  // namespace
}  // namespace eoib
