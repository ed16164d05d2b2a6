#include "vswitch/base/daemon/program.h"

#include <gflags/gflags.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

DEFINE_bool(try_hard, false, "a switch");
DEFINE_string(place, "/run/eoib",
              "a value with a default, and with a description that is so long that it does not fit "
              "into one line of the usage");

namespace eoib {
namespace {

TEST(ProgramTest, UsageNamesTheFlagsOfTheProgram) {
  EXPECT_EQ(Usage({"prog", "a program for a test", "program_test"}),
            "usage: prog [FLAG...]\n\nprog is a program for a test.\n\n"
            "  --place=STRING      a value with a default, and with a description that is so long "
            "that it does\n"
            "                      not fit into one line of the usage (default: /run/eoib)\n"
            "  --try_hard          a switch\n"
            "  --version           print the version\n");
}

TEST(ProgramTest, RaisesTheDescriptorLimitToTheHardLimit) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few = {64, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  RaiseDescriptorLimit();
  rlimit now;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
  EXPECT_EQ(now.rlim_cur, before.rlim_max);
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace eoib
