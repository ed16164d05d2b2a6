#include "vswitch/wire/ib/capture_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/temp_dir_for_test.h"
#include "vswitch/base/unique_fd.h"

namespace eoib {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A fifo that another user made at the path that the operator named, or that others can read.
TEST(CaptureFileTest, OpensNoFifoThatAnotherUserCanReadOrReplace) {
  constexpr uid_t kNobody = 65534;
  const struct {
    const char* description;
    mode_t mode;
    uid_t owner;
    bool opens;
  } kRows[] = {
      {"our own", 0600, ::geteuid(), true},
      {"another user's", 0600, kNobody, false},
      {"readable for the group", 0640, ::geteuid(), false},
      {"readable for others", 0604, ::geteuid(), false},
      {"writable for the group", 0620, ::geteuid(), false},
      {"writable for others", 0602, ::geteuid(), false},
  };
  for (const auto& row : kRows) {
    if (row.owner != ::geteuid() && ::geteuid() != 0) continue;  // only root can give a file away
    const TempDir directory;
    const std::string path = directory.path() + "/x.erf";
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    const UniqueFd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    ASSERT_EQ(::chmod(path.c_str(), row.mode), 0);
    ASSERT_EQ(::chown(path.c_str(), row.owner, static_cast<gid_t>(-1)), 0);
    const absl::StatusOr<int> fd = OpenCaptureFile(path);
    const UniqueFd closed(fd.value_or(-1));
    EXPECT_EQ(fd.ok(), row.opens) << row.description << ": " << fd.status();
    if (row.opens) continue;
    EXPECT_THAT(
        std::string(fd.status().message()),
        AllOf(HasSubstr("open capture " + path + ": "), HasSubstr("make it with `mkfifo -m 600`")))
        << row.description;
  }
}

}  // namespace
}  // namespace eoib
