#include "vswitch/fabric/softhca/subnet/lid_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "vswitch/base/temp_dir_for_test.h"

namespace eoib::softhca {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

class LidFileTest : public ::testing::Test {
 protected:
  void Write(const std::string& text) { std::ofstream(path_) << text; }
  std::string Read() const {
    std::stringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

  TempDir directory_;
  const std::string path_ = directory_.path() + "/lids";
};

TEST_F(LidFileTest, SavedPortsAreLoaded) {
  const KeptPort h1{Lid(2), Guid(0x0200'0000'0000'0001)}, h2{Lid(0xbfff), Guid(7)};
  {
    const auto file = LidFile::Open(directory_.path());
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_THAT((*file)->ports(), IsEmpty());
    (*file)->Keep("h1", KeptPort{Lid(9), h1.guid});
    ASSERT_TRUE((*file)->Save().ok());
    EXPECT_THAT(Read(), HasSubstr("h1 0x9 "));
    EXPECT_EQ((*file)->NextDeadline(), absl::InfiniteFuture());
    (*file)->Keep("h1", h1);
    (*file)->Keep("h2", h2);
    EXPECT_LT((*file)->NextDeadline(), absl::InfiniteFuture()) << "and saved at its end";
  }
  EXPECT_THAT(LidFile::Open(directory_.path()).value()->ports(),
              ElementsAre(Pair("h1", h1), Pair("h2", h2)));
  EXPECT_NE(access((path_ + ".new").c_str(), F_OK), 0);
}

TEST_F(LidFileTest, AnOperatorMayEditIt) {
  for (const char* text : {"# a comment\n\n  h1   2 0x0200000000000001  # the first\n",
                           "\xef\xbb\xbfh1\t2 0x0200000000000001\r\n\r\n"}) {
    Write(text);
    EXPECT_THAT(LidFile::Open(directory_.path()).value()->ports(),
                ElementsAre(Pair("h1", KeptPort{Lid(2), Guid(0x0200'0000'0000'0001)})));
  }
}

TEST_F(LidFileTest, AMalformedFileIsRefusedAndLeftAlone) {
  const char* const kGood = "h1 0x2 0x0200000000000001\n";
  const struct {
    const char* line;
    const char* why;
  } kRows[] = {
      {"{\"h2\": 3}\n", "is not NAME LID GUID"},
      {"h2 0x3\n", "is not NAME LID GUID"},
      {"h2 0x3 0x1 0x1\n", "is not NAME LID GUID"},
      {"\x7f"
       "ELF\x02\n",
       "is not NAME LID GUID"},
      {"ALL 0x3 0x0200000000000002\n", "port name"},
      {"h2 0xc000 0x0200000000000002\n", "0xc000"},
      {"h2 0x1 0x0200000000000002\n", "the subnet manager's"},
      {"h2 0x3 guid\n", "guid"},
      {"h2 0x2 0x0200000000000002\n", "of port h1"},
      {"h2 0x3 0x0200000000000001\n", "of port h1"},
      {"h1 0x3 0x0200000000000003\n", "of port h1"},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.line);
    Write(std::string(kGood) + row.line);
    const absl::Status status = LidFile::Open(directory_.path()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(path_ + ":2: "), HasSubstr(row.why), HasSubstr("move it away")));
    EXPECT_EQ(Read(), std::string(kGood) + row.line);
  }
}

TEST_F(LidFileTest, ADirectoryInPlaceOfTheFileIsAnError) {
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  EXPECT_FALSE(LidFile::Open(directory_.path()).ok());
}

TEST_F(LidFileTest, ADirectoryHasOneSubnet) {
  auto first = LidFile::Open(directory_.path());
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status second = LidFile::Open(directory_.path()).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.message()), HasSubstr("--statedir"));
  first->reset();
  EXPECT_TRUE(LidFile::Open(directory_.path()).ok());
  EXPECT_FALSE(LidFile::Open(directory_.path() + "/nowhere").ok());
}

TEST_F(LidFileTest, AFailedWriteIsRetried) {
  const auto file = LidFile::Open(directory_.path());
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(mkdir((path_ + ".new").c_str(), 0700), 0);  // makes the write fail
  (*file)->Keep("h1", KeptPort{Lid(2), Guid(1)});
  EXPECT_FALSE((*file)->Save().ok());
  EXPECT_FALSE((*file)->status().ok());
  EXPECT_LT((*file)->NextDeadline(), absl::InfiniteFuture());
  ASSERT_EQ(rmdir((path_ + ".new").c_str()), 0);
  (*file)->Keep("h2", KeptPort{Lid(3), Guid(2)});
  EXPECT_TRUE((*file)->Save().ok());
  EXPECT_TRUE((*file)->status().ok());
  EXPECT_THAT(Read(), AllOf(HasSubstr("h1 0x2 "), HasSubstr("h2 0x3 ")));
}

}  // namespace
}  // namespace eoib::softhca
