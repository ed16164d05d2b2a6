#include "control/state_dir.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/temp_dir_for_test.h"

namespace eoib {
namespace {

using ::testing::HasSubstr;

class StateDirTest : public ::testing::Test {
 protected:
  std::string File() const { return path_ + "/vports.json"; }
  std::string Content() const {
    std::ifstream file(File());
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void Write(const std::string& content) const {
    { ASSERT_TRUE(StateDir::Open(path_).ok()); }
    std::ofstream(File()) << content;
  }
  // A random source that returns `values`, then zeros.
  static StateDir::RandomSource Values(std::vector<uint64_t> values) {
    return [values = std::move(values), at = size_t{0}]() mutable { return at < values.size() ? values[at++] : 0; };
  }

  const TempDir temporary_;
  const std::string path_ = temporary_.path() + "/lib/eoib";
};

TEST_F(StateDirTest, KeepsTheMacOverARestart) {
  absl::StatusOr<MacAddr> first;
  {
    auto state = StateDir::Open(path_);
    ASSERT_TRUE(state.ok()) << state.status();
    first = (*state)->MacFor("web1");
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(*first, *(*state)->MacFor("web1"));
    EXPECT_NE(*first, *(*state)->MacFor("web2"));
  }
  auto state = StateDir::Open(path_);
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(*first, *(*state)->MacFor("web1"));
}

TEST_F(StateDirTest, MakesLocallyAdministeredUnicastAddresses) {
  auto state = StateDir::Open(path_, Values({0xffff'ffff'ffff'ffff, 0, 0x1234'0100'0000'0001}));
  ASSERT_TRUE(state.ok());
  EXPECT_EQ("fe:ff:ff:ff:ff:ff", (*state)->MacFor("ones")->ToString());
  EXPECT_EQ("02:00:00:00:00:00", (*state)->MacFor("zeros")->ToString());
  EXPECT_EQ("02:00:00:00:00:01", (*state)->MacFor("group bit")->ToString());
}

TEST_F(StateDirTest, NeverGivesAnAddressTwice) {
  auto state = StateDir::Open(path_, Values({7, 7, 7, 8}));
  ASSERT_TRUE(state.ok());
  EXPECT_EQ("02:00:00:00:00:07", (*state)->MacFor("a")->ToString());
  EXPECT_EQ("02:00:00:00:00:08", (*state)->MacFor("b")->ToString());
  EXPECT_EQ("02:00:00:00:00:00", (*state)->MacFor("c")->ToString());
  EXPECT_EQ(absl::StatusCode::kInternal, (*state)->MacFor("d").status().code()) << "a source that repeats itself for ever";
}

TEST_F(StateDirTest, FileIsPrivateJson) {
  auto state = StateDir::Open(path_, Values({1, 2}));
  ASSERT_TRUE(state.ok());
  ASSERT_TRUE((*state)->MacFor("web1").ok());
  ASSERT_TRUE((*state)->MacFor("db1").ok());
  EXPECT_EQ("{\n  \"db1\": \"02:00:00:00:00:02\",\n  \"web1\": \"02:00:00:00:00:01\"\n}\n", Content());
  struct stat info;
  ASSERT_EQ(0, ::stat(path_.c_str(), &info));
  EXPECT_EQ(0700u, info.st_mode & 07777);
  EXPECT_NE(0, ::stat((File() + ".new").c_str(), &info)) << "nothing is left behind";
}

TEST_F(StateDirTest, RefusesABrokenFileAndKeepsIt) {
  const struct {
    const char* description;
    const char* content;
    const char* expected;
  } kCases[] = {
      {"empty, as after a crash of a lesser program", "", "it is not JSON"},
      {"cut off", "{\"web1\": \"02:00", "it is not JSON"},
      {"not an object", "[]", "it is not an object {\"NAME\": \"MAC\", ...}"},
      {"a value that is no string", "{\"web1\": 1}", "vPort \"web1\" has no unicast MAC address"},
      {"a value that is no address", "{\"web1\": \"x\"}", "vPort \"web1\" has no unicast MAC address"},
      {"a group address", "{\"web1\": \"ff:ff:ff:ff:ff:ff\"}", "vPort \"web1\" has no unicast MAC address"},
  };
  for (const auto& c : kCases) {
    Write(c.content);
    const auto state = StateDir::Open(path_);
    EXPECT_EQ(absl::StatusCode::kDataLoss, state.status().code()) << c.description;
    EXPECT_EQ("read the kept MAC addresses in " + File() + ": " + c.expected +
                  "; correct the file, or move it away to have new addresses made for all vPorts",
              state.status().message())
        << c.description;
    EXPECT_EQ(c.content, Content()) << c.description;
    ASSERT_EQ(0, ::unlink(File().c_str()));
  }
}

TEST_F(StateDirTest, ReadsAnEditedFile) {
  Write("{ \"web1\" : \"0:2:c9:E:b:72\" }");
  const auto state = StateDir::Open(path_);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ("00:02:c9:0e:0b:72", (*state)->MacFor("web1")->ToString());
}

TEST_F(StateDirTest, TwoProgramsDoNotShareADirectory) {
  auto first = StateDir::Open(path_);
  ASSERT_TRUE(first.ok());
  const auto second = StateDir::Open(path_);
  EXPECT_EQ(absl::StatusCode::kAlreadyExists, second.status().code());
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("another program uses it"));
  first->reset();
  EXPECT_TRUE(StateDir::Open(path_).ok());
}

// On a full disk.
TEST_F(StateDirTest, AnAddressThatCannotBeKeptHoldsForOneRun) {
  auto state = StateDir::Open(path_, Values({1, 2}));
  ASSERT_TRUE(state.ok());
  // A directory with the name of the temporary file makes the write fail even for root.
  ASSERT_EQ(0, ::mkdir((File() + ".new").c_str(), 0700));
  testing::internal::CaptureStderr();
  const auto mac = (*state)->MacFor("web1");
  ASSERT_TRUE(mac.ok()) << mac.status();
  EXPECT_EQ(*mac, MacAddr::FromUint64(0x020000000001));
  EXPECT_EQ(*(*state)->MacFor("web1"), *mac);
  EXPECT_EQ(*(*state)->MacFor("web2"), MacAddr::FromUint64(0x020000000002));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, testing::AllOf(HasSubstr("keep the MAC address of vPort web1: write " + File() + ".new: "),
                                  HasSubstr("until the next start only"), HasSubstr("make room in " + path_)));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << "once: " << log;
  ASSERT_EQ(0, ::rmdir((File() + ".new").c_str()));
  EXPECT_TRUE((*state)->MacFor("web3").ok());
  EXPECT_THAT(Content(), HasSubstr("\"web1\": \"02:00:00:00:00:01\"")) << "it is kept with the next one";
}

TEST_F(StateDirTest, WithoutADirectoryAddressesHoldForOneRun) {
  testing::internal::CaptureStderr();
  const auto state = StateDir::Open("/proc/eoib-nowhere");  // nobody can make a directory there
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(HasSubstr("make directory /proc/eoib-nowhere: "), HasSubstr("nothing survives this run")));
  const auto mac = (*state)->MacFor("web1");
  ASSERT_TRUE(mac.ok()) << mac.status();
  EXPECT_EQ(*(*state)->MacFor("web1"), *mac);
}

TEST_F(StateDirTest, ReportsAFileInPlaceOfTheDirectory) {
  std::ofstream(temporary_.path() + "/state_dir_test.file") << "x";
  EXPECT_FALSE(StateDir::Open(temporary_.path() + "/state_dir_test.file").ok());
  EXPECT_FALSE(StateDir::Open(temporary_.path() + "/state_dir_test.file/below").ok());
}

}  // namespace
}  // namespace eoib
