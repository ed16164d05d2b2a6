#include "vswitch/fabric/error_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>

namespace eoib {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ErrnoWithAdvice, PutsAdviceBehindTheReason) {
  const absl::Status status = ErrnoWithAdvice(ENOENT, "open x", "make it");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "open x: No such file or directory; make it");
  EXPECT_EQ(ErrnoWithAdvice(ENOENT, "open x", "").message(), "open x: No such file or directory");
}

TEST(LockedMemoryAdvice, NamesTheLimit) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  const rlimit small = {64 * 1024, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &small), 0);
  EXPECT_THAT(LockedMemoryAdvice(ENOMEM), AllOf(HasSubstr("locked memory is 64 KiB"),
                                                HasSubstr("ulimit -l"), HasSubstr("LimitMEMLOCK")));
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &before), 0);
  EXPECT_EQ(LockedMemoryAdvice(EINVAL), "");
}

TEST(ControlledQKeyAdvice, IsForPrivilegeAndControlledQKeysOnly) {
  EXPECT_THAT(ControlledQKeyAdvice(EPERM, QKey(0x8000'8001)),
              AllOf(HasSubstr("0x80008001"), HasSubstr("CAP_NET_RAW")));
  EXPECT_EQ(ControlledQKeyAdvice(EINVAL, QKey(0x8000'8001)), "");
  EXPECT_EQ(ControlledQKeyAdvice(EPERM, QKey(0x1234)), "");
}

TEST(DeviceNodeAdvice, TellsWhatIsMissing) {
  struct Row {
    int error;
    const char* advice;  // a part of it; empty: none
  };
  const Row rows[] = {
      {ENOENT, "modprobe ib_umad"},
      {ENODEV, "modprobe ib_umad"},
      {ENXIO, "modprobe ib_umad"},
      {ENOSYS, "modprobe ib_umad"},
      {EACCES, "may not open"},
      {EPERM, "may not open"},
      {EIO, ""},
  };
  for (const Row& row : rows) {
    const std::string advice = DeviceNodeAdvice(row.error, "/dev/infiniband/umad0", "ib_umad");
    EXPECT_EQ(advice.empty(), *row.advice == '\0') << row.error;
    EXPECT_THAT(advice, HasSubstr(row.advice)) << row.error;
    EXPECT_EQ(advice.find("/dev/infiniband/umad0") == std::string::npos, advice.empty())
        << row.error;
  }
}

}  // namespace
}  // namespace eoib
