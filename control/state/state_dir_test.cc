#include "control/state/state_dir.h"

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
using ::testing::MatchesRegex;
using ::testing::Not;

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
    return [values = std::move(values), at = size_t{0}]() mutable {
      return at < values.size() ? values[at++] : 0;
    };
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
  EXPECT_EQ(absl::StatusCode::kInternal, (*state)->MacFor("d").status().code())
      << "a source that repeats itself for ever";
}

TEST_F(StateDirTest, FileIsPrivateJson) {
  auto state = StateDir::Open(path_, Values({1, 2}));
  ASSERT_TRUE(state.ok());
  ASSERT_TRUE((*state)->MacFor("web1").ok());
  ASSERT_TRUE((*state)->MacFor("db1").ok());
  EXPECT_THAT(Content(), MatchesRegex("\\{\n  \"machine\": \"[^\"]*\",\n  \"vports\": \\{\n    "
                                      "\"db1\": \"02:00:00:00:00:02\",\n"
                                      "    \"web1\": \"02:00:00:00:00:01\"\n  \\}\n\\}\n"));
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
      {"a value that is no address", "{\"web1\": \"x\"}",
       "vPort \"web1\" has no unicast MAC address"},
      {"a machine that is no string", "{\"machine\": 1, \"vports\": {}}",
       "\"machine\" is no string"},
      {"a group address behind a machine",
       "{\"machine\": \"\", \"vports\": {\"web1\": \"ff:ff:ff:ff:ff:ff\"}}",
       "vPort \"web1\" has no unicast MAC address"},
      {"a group address", "{\"web1\": \"ff:ff:ff:ff:ff:ff\"}",
       "vPort \"web1\" has no unicast MAC address"},
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

// A golden image, or the copy of a disk: two hosts must not have one MAC.
class CopiedStateDirTest : public StateDirTest {
 protected:
  CopiedStateDirTest() {
    SetMachine("0123456789abcdef0123456789abcdef");
    auto state = Open({1, 2});
    EXPECT_EQ(Mac(*state, "web1"), "02:00:00:00:00:01");
  }
  void SetMachine(const std::string& id) const { std::ofstream(MachineIdPath()) << id << "\n"; }
  std::string MachineIdPath() const { return temporary_.path() + "/machine-id"; }
  std::unique_ptr<StateDir> Open(std::vector<uint64_t> random) const {
    return StateDir::Open(path_, Values(std::move(random)), MachineIdPath()).value();
  }
  static std::string Mac(StateDir& state, const std::string& vport) {
    return state.MacFor(vport)->ToString();
  }
};

TEST_F(CopiedStateDirTest, MakesNewAddressesOnAnotherMachineAndSaysSo) {
  SetMachine("fedcba9876543210fedcba9876543210");
  testing::internal::CaptureStderr();
  EXPECT_EQ(Mac(*Open({7, 8}), "web1"), "02:00:00:00:00:07");
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      testing::AllOf(HasSubstr(File() + " was made on a machine with another machine-id"),
                     HasSubstr("vPort web1"), HasSubstr("the new address 02:00:00:00:00:07"),
                     HasSubstr("set mac = \"02:00:00:00:00:01\"")));
  testing::internal::CaptureStderr();
  EXPECT_EQ(Mac(*Open({9}), "web1"), "02:00:00:00:00:07") << "it is kept";
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(CopiedStateDirTest, KeepsAddressesOnTheSameMachineAndWithoutAMachineId) {
  EXPECT_EQ(Mac(*Open({9}), "web1"), "02:00:00:00:00:01");
  for (const char* id : {"", "uninitialized"}) {
    SetMachine(id);
    EXPECT_EQ(Mac(*Open({9}), "web1"), "02:00:00:00:00:01") << id;
  }
  EXPECT_THAT(Content(), Not(HasSubstr("0123456789abcdef"))) << "the machine-id is confidential";
}

TEST_F(CopiedStateDirTest, AFileOfAnEarlierVersionIsBoundWithTheNextAddress) {
  std::ofstream(File()) << "{\"vports\": \"02:00:00:00:00:03\", \"web1\": \"02:00:00:00:00:04\"}";
  {
    auto state = Open({5});
    EXPECT_EQ(Mac(*state, "web1"), "02:00:00:00:00:04");
    EXPECT_EQ(Mac(*state, "vports"), "02:00:00:00:00:03");
    EXPECT_EQ(Mac(*state, "db1"), "02:00:00:00:00:05");
  }
  EXPECT_THAT(Content(), HasSubstr("\"machine\": \"$6$"));
  EXPECT_EQ(Mac(*Open({9}), "web1"), "02:00:00:00:00:04");
  SetMachine("fedcba9876543210fedcba9876543210");
  EXPECT_EQ(Mac(*Open({9}), "web1"), "02:00:00:00:00:09");
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
  EXPECT_THAT(log, testing::AllOf(
                       HasSubstr("keep the MAC address of vPort web1: write " + File() + ".new: "),
                       HasSubstr("until the next start only"), HasSubstr("make room in " + path_)));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << "once: " << log;
  ASSERT_EQ(0, ::rmdir((File() + ".new").c_str()));
  EXPECT_TRUE((*state)->MacFor("web3").ok());
  EXPECT_THAT(Content(), HasSubstr("\"web1\": \"02:00:00:00:00:01\""))
      << "it is kept with the next one";
}

TEST_F(StateDirTest, WithoutADirectoryAddressesHoldForOneRun) {
  testing::internal::CaptureStderr();
  const auto state = StateDir::Open("/proc/eoib-nowhere");  // nobody can make a directory there
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(HasSubstr("make directory /proc/eoib-nowhere: "),
                             HasSubstr("nothing survives this run")));
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
