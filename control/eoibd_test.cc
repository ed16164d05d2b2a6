// The program eoibd as its operator sees it when its HCA is not there: EOIBD and EOIBCTL are the paths of those just built. No
// test machine has a device of that name.
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "control/running_server_for_test.h"
#include "fdb/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace eoib {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(20);

class EoibdTest : public ::testing::Test {
 protected:
  EoibdTest() : directory_(MakeTemporaryDirectory()) {
    std::ofstream(directory_ + "/eoibd.toml") << "[[ves]]\nname = \"blue\"\npkey = 0x8001\n";
  }
  ProgramResult Eoibd(const std::string& arguments) const {
    return RunProgram(absl::StrCat(EOIBD " --config=", directory_, "/eoibd.toml --rundir=", directory_,
                                   " --statedir=", directory_, " ", arguments));
  }
  ProgramResult Eoibctl(const std::string& arguments) const {
    return RunProgram(absl::StrCat(EOIBCTL " --rundir=", directory_, " ", arguments));
  }
  // Asks again and again until the answer has `part` in it.
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

TEST_F(EoibdTest, ADeviceThatIsNotThereIsAnErrorAtAFirstStart) {
  const ProgramResult result = Eoibd("--hca=verbs:nosuchdevice/1");
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("eoibd: "), HasSubstr("InfiniBand device")));
}

TEST_F(EoibdTest, AnAgentThatIsToWaitAnswersMeanwhileAndMayBeStopped) {
  ProgramResult result;
  std::thread program([&] { result = Eoibd("--hca=verbs:nosuchdevice/1 --wait_for_hca"); });
  EXPECT_TRUE(Shows("waiting for the HCA: "));
  EXPECT_EQ(Eoibctl("exit").out, "stopping\n");
  program.join();
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("InfiniBand device"));
}

TEST_F(EoibdTest, AnHcaThatCannotBeIsNotWaitedFor) {
  const ProgramResult result = Eoibd("--hca=verbs:nosuchdevice --wait_for_hca");
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.err, HasSubstr("verbs:DEVICE/PORT"));
}

}  // namespace
}  // namespace eoib
