#include "vswitch/base/file.h"

#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/temp_dir_for_test.h"

namespace eoib {
namespace {

using ::testing::HasSubstr;

class FileTest : public ::testing::Test {
 protected:
  TempDir directory_;
  const std::string path_ = directory_.path() + "/file";
};

TEST_F(FileTest, ReadsWhatItWrote) {
  for (const bool sync : {true, false}) {
    const std::string text = sync ? std::string("a\0b\n", 4) : "";
    ASSERT_TRUE(ReplaceFile(path_, text, sync).ok());
    EXPECT_EQ(ReadFile(path_, 4).value(), text);
    EXPECT_NE(access((path_ + ".new").c_str(), F_OK), 0);
  }
}

TEST_F(FileTest, RefusesFilesThatAreMissingLongOrNotRegular) {
  EXPECT_EQ(ReadFile(path_, 10).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(ReplaceFile(path_, "12345", /*sync=*/false).ok());
  EXPECT_THAT(std::string(ReadFile(path_, 4).status().message()), HasSubstr("at most 4 bytes"));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadFile(path_, 4).status()));
  const std::string pipe = path_ + ".pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(ReadFile(pipe, 4).status()))
      << "and does not wait for a writer";
}

TEST_F(FileTest, LeavesOutAByteOrderMark) {
  const struct {
    const char* description;
    std::string written, read;
  } kRows[] = {{"before text",
                "\xef\xbb\xbf"
                "a = 1\r\n",
                "a = 1\r\n"},
               {"alone", "\xef\xbb\xbf", ""},
               {"two, of which the second is text", "\xef\xbb\xbf\xef\xbb\xbf", "\xef\xbb\xbf"},
               {"the begin of one", "\xef\xbb", "\xef\xbb"},
               {"not at the begin", "a\xef\xbb\xbf", "a\xef\xbb\xbf"}};
  for (const auto& row : kRows) {
    ASSERT_TRUE(ReplaceFile(path_, row.written, /*sync=*/false).ok());
    EXPECT_EQ(ReadFile(path_, 10).value(), row.read) << row.description;
  }
  for (const char* text : {"\xff\xfe"
                           "a",
                           "\xfe\xff"
                           "a"}) {
    ASSERT_TRUE(ReplaceFile(path_, text, /*sync=*/false).ok());
    EXPECT_THAT(std::string(ReadFile(path_, 10).status().message()),
                HasSubstr("UTF-16 text; write it as UTF-8"));
  }
}

TEST_F(FileTest, AFileKeepsItsModeAndOwnerAndTheLinkToIt) {
  ASSERT_TRUE(ReplaceFile(path_, "old").ok());
  struct stat status;
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u) << "a new file";
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  const gid_t group = geteuid() == 0 ? 100 : getegid();
  ASSERT_EQ(chown(path_.c_str(), geteuid(), group), 0);
  const std::string link = directory_.path() + "/link";
  ASSERT_EQ(symlink("file", link.c_str()), 0);
  ASSERT_TRUE(ReplaceFile(link, "new").ok());
  EXPECT_EQ(ReadFile(path_, 10).value(), "new");
  ASSERT_EQ(lstat(link.c_str(), &status), 0);
  EXPECT_TRUE(S_ISLNK(status.st_mode));
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0644u);
  EXPECT_EQ(status.st_gid, group);
}

// Ends with 0 if a program that may not change groups replaces the file.
void ReplaceWithoutPrivileges(const std::string& path) {
  constexpr id_t kNobody = 65534;
  if (setgroups(0, nullptr) != 0 || setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(2);
  const absl::Status status = ReplaceFile(path, "new");
  std::fputs(status.ToString().c_str(), stderr);
  _exit(status.ok() ? 0 : 1);
}

TEST_F(FileTest, AGroupThatCannotBeKeptMattersIfItHasRightsOfItsOwn) {
  ASSERT_EQ(geteuid(), 0u) << "the tests run as root";
  ASSERT_TRUE(ReplaceFile(path_, "old").ok());
  for (const std::string& name : {directory_.path(), path_})
    ASSERT_EQ(chown(name.c_str(), 65534, 0), 0);
  ASSERT_EQ(chmod(path_.c_str(), 0640), 0);
  EXPECT_EXIT(ReplaceWithoutPrivileges(path_), ::testing::ExitedWithCode(1), "chown 65534:65534");
  EXPECT_EQ(ReadFile(path_, 10).value(), "old");
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  EXPECT_EXIT(ReplaceWithoutPrivileges(path_), ::testing::ExitedWithCode(0), "OK");
  EXPECT_EQ(ReadFile(path_, 10).value(), "new");
  struct stat status;
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0644u);
}

TEST_F(FileTest, AFailedWriteKeepsTheOldContent) {
  ASSERT_TRUE(ReplaceFile(path_, "old").ok());
  ASSERT_EQ(mkdir((path_ + ".new").c_str(), 0700), 0);
  EXPECT_FALSE(ReplaceFile(path_, "new").ok());
  EXPECT_EQ(ReadFile(path_, 10).value(), "old");
}

TEST_F(FileTest, AFailedRenameLeavesNothingBehind) {
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  EXPECT_THAT(std::string(ReplaceFile(path_, "new").message()),
              HasSubstr("replace " + path_ + ": Is a directory"));
  EXPECT_NE(access((path_ + ".new").c_str(), F_OK), 0);
}

// Ends with 0 if the file is replaced.
void ReplaceInWorkingDirectory(const std::string& directory) {
  if (chdir(directory.c_str()) != 0) _exit(2);
  const absl::Status status = ReplaceFile("file", "new");
  std::fputs(status.ToString().c_str(), stderr);
  _exit(status.ok() ? 0 : 1);
}

TEST_F(FileTest, ANameWithoutDirectoryIsOfTheWorkingDirectory) {
  EXPECT_EXIT(ReplaceInWorkingDirectory(directory_.path()), ::testing::ExitedWithCode(0), "OK");
  EXPECT_EQ(ReadFile(path_, 10).value(), "new");
}

// Mounts `source` over `path` in a mount namespace of this process. Ends with 0 if ReplaceFile
// writes `text`.
void ReplaceMountPoint(const std::string& source, const std::string& path,
                       const std::string& text) {
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    _exit(2);
  if (mount(source.c_str(), path.c_str(), nullptr, MS_BIND, nullptr) != 0) _exit(2);
  const absl::Status status = ReplaceFile(path, text);
  std::fputs(status.ToString().c_str(), stderr);
  _exit(status.ok() ? 0 : 1);
}

TEST_F(FileTest, AMountPointIsWrittenInPlace) {
  const std::string source = directory_.path() + "/source";
  ASSERT_TRUE(ReplaceFile(path_, "under the mount").ok());
  ASSERT_TRUE(ReplaceFile(source, "old").ok());
  for (const std::string text : {"longer than the old text", "short", ""}) {
    EXPECT_EXIT(ReplaceMountPoint(source, path_, text), ::testing::ExitedWithCode(0), "OK");
    EXPECT_EQ(ReadFile(source, 100).value(), text);
    EXPECT_NE(access((path_ + ".new").c_str(), F_OK), 0);
  }
  EXPECT_EQ(ReadFile(path_, 100).value(), "under the mount");
}

// As ReplaceMountPoint, for a file on a full file system. Ends with 0 if ReplaceFile fails and the
// file is as before.
void ReplaceOnFullDisk(const std::string& directory, const std::string& path) {
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    _exit(2);
  if (mount("none", directory.c_str(), "tmpfs", 0, "size=8k") != 0) _exit(2);
  const std::string file = directory + "/file";
  if (!ReplaceFile(file, "old").ok() ||
      mount(file.c_str(), path.c_str(), nullptr, MS_BIND, nullptr) != 0)
    _exit(2);
  const absl::Status status = ReplaceFile(path, std::string(20'000, 'x'));
  std::fputs(status.ToString().c_str(), stderr);
  _exit(!status.ok() && ReadFile(path, 10).value_or("") == "old" ? 0 : 1);
}

TEST_F(FileTest, AMountPointWithoutRoomKeepsTheOldContent) {
  const std::string directory = directory_.path() + "/small";
  ASSERT_EQ(mkdir(directory.c_str(), 0700), 0);
  ASSERT_TRUE(ReplaceFile(path_, "under the mount").ok());
  EXPECT_EXIT(ReplaceOnFullDisk(directory, path_), ::testing::ExitedWithCode(0),
              "a mount point, in place: No space left");
  EXPECT_NE(access((path_ + ".new").c_str(), F_OK), 0);
}

// /dev/full cannot reserve room, as some file systems.
TEST_F(FileTest, ATextThatIsWrittenInPartRemainsBesideTheMountPoint) {
  ASSERT_TRUE(ReplaceFile(path_, "under the mount").ok());
  EXPECT_EXIT(ReplaceMountPoint("/dev/full", path_, "new"), ::testing::ExitedWithCode(1),
              "No space left on device; .*the whole text is in " + path_ + ".new");
  EXPECT_EQ(ReadFile(path_ + ".new", 10).value(), "new");
}

TEST_F(FileTest, ADirectoryIsLockedOnce) {
  absl::StatusOr<UniqueFd> lock = LockStateDirectory(directory_.path());
  ASSERT_TRUE(lock.ok()) << lock.status();
  const absl::Status second = LockStateDirectory(directory_.path()).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.message()), HasSubstr("--statedir"));
  lock->reset();
  EXPECT_TRUE(LockStateDirectory(directory_.path()).ok());
  EXPECT_FALSE(LockStateDirectory(directory_.path() + "/nowhere").ok());
}

}  // namespace
}  // namespace eoib
