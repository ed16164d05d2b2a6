// Commands that change the configuration, without an agent: what they save, and what the files look
// like when somebody else changes them, too.
#include "control/operator/config_commands.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/file.h"
#include "vswitch/base/temp_dir_for_test.h"

namespace eoib {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kFile[] =
    "[[ves]]\nname = \"blue\"\npkey = 0x8001\n\n"
    "[[vport]]\nname = \"web0\"\nves = \"blue\"\n";

class ConfigCommandsTest : public testing::Test {
 protected:
  ConfigCommandsTest() {
    mkdir(statedir_.c_str(), 0700);
    Write(path_, kFile);
    Start();
  }

  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }
  static std::string Read(const std::string& path) { return ReadFile(path, 1 << 20).value_or(""); }
  // A new run of the program.
  void Start() {
    registry_ = std::make_unique<CommandRegistry>();
    commands_ = std::make_unique<ConfigCommands>(
        LoadConfigText(path_).value(),
        ConfigCommands::Source{path_,
                               [this] { return LoadConfigText(path_); },
                               [](const ConfigText& text) { return ParseConfig(text); },
                               {{"ves", {}}, {"vport", {}}},
                               statedir_});
    commands_->RegisterReload(registry_.get());
    commands_->Register(nullptr, registry_.get());
  }
  // The answer, or the error.
  std::string Run(const std::string& command) {
    const std::vector<std::string> words = absl::StrSplit(command, ' ');
    const auto answer = registry_->Run(words[0], {words.begin() + 1, words.end()});
    return answer.ok() ? *answer : std::string(answer.status().message());
  }

  TempDir directory_;
  const std::string path_ = directory_.path() + "/eoibd.toml";
  const std::string live_ = directory_.path() + "/eoibd.d/live.toml";
  const std::string statedir_ = directory_.path() + "/state";
  std::unique_ptr<CommandRegistry> registry_;
  std::unique_ptr<ConfigCommands> commands_;
};

TEST_F(ConfigCommandsTest, ChangesAreSavedWhereTheirTableIs) {
  EXPECT_EQ(Run("vport add db0 ves=blue"), "add vPort db0\n");
  EXPECT_EQ(Read(path_), kFile);
  EXPECT_THAT(Read(live_), HasSubstr("name = \"db0\"\nves = \"blue\"\n"));
  Run("vport set web0 mtu=1400");
  Run("vport set db0 mtu=1300");
  EXPECT_EQ(Read(path_), absl::StrCat(kFile, "mtu = 1400\n"));
  EXPECT_THAT(Read(live_), HasSubstr("mtu = 1300\n"));
  Run("vport del web0 db0");
  EXPECT_THAT(Read(path_), Not(HasSubstr("web0")));
  EXPECT_THAT(Read(live_), Not(HasSubstr("db0")));
  EXPECT_THAT(commands_->unsaved(), IsEmpty());
}

TEST_F(ConfigCommandsTest, TemporaryChangesLiveUntilTheNextStart) {
  EXPECT_EQ(Run("vport add db0 ves=blue --temporary"), "add vPort db0\nunsaved: temporary\n");
  EXPECT_THAT(Run("vport set db0 mtu=1300"), HasSubstr("unsaved: in the files, there is no vport"));
  EXPECT_EQ(Read(live_), "");
  EXPECT_EQ(Run("reload"), "nothing to change\n") << "both stay in effect";
  EXPECT_EQ(commands_->unsaved().size(), 2u);
  EXPECT_THAT(Run("config diff"),
              AllOf(HasSubstr("a reload would change nothing"),
                    HasSubstr("not saved (`config save`):\n"), HasSubstr("+name = \"db0\"\n")));
  Start();
  const auto lost = TakeUnsaved(statedir_);
  ASSERT_EQ(lost.size(), 2u);
  EXPECT_EQ(lost[0].command, "vport add db0 ves=blue");
  EXPECT_EQ(lost[0].why, "temporary");
  EXPECT_THAT(TakeUnsaved(statedir_), IsEmpty()) << "said once";
}

TEST_F(ConfigCommandsTest, RemovingATemporaryTableLeavesNothing) {
  Run("vport add db0 ves=blue --temporary");
  Run("vport set db0 mtu=1300 --temporary");
  EXPECT_EQ(Run("vport del db0"), "remove vPort db0\n");
  EXPECT_THAT(commands_->unsaved(), IsEmpty());
  EXPECT_EQ(Read(path_), kFile);
}

TEST_F(ConfigCommandsTest, AReloadNamesWhatItDrops) {
  Run("vport set web0 mtu=1400 --temporary");
  Write(path_, "[[ves]]\nname = \"blue\"\npkey = 0x8001\n");
  EXPECT_EQ(Run("reload"),
            "remove vPort web0\n"
            "no longer in effect: vport set web0 mtu=1400 (there is no vport \"web0\")\n");
  EXPECT_THAT(commands_->unsaved(), IsEmpty());
}

TEST_F(ConfigCommandsTest, AMistakeInTheFilesDropsNothing) {
  Run("vport set web0 mtu=1400 --temporary");
  Write(path_, "nonsense");
  EXPECT_THAT(Run("reload"), HasSubstr("this is not TOML"));
  EXPECT_EQ(commands_->unsaved().size(), 1u);
  EXPECT_THAT(Run("config show"), HasSubstr("mtu = 1400"));
}

TEST_F(ConfigCommandsTest, AFileThatOthersReadIsLeftAlone) {
  const UniqueFd other = LockAsReader(path_);
  EXPECT_THAT(Run("vport set web0 mtu=1400"),
              HasSubstr(absl::StrCat("unsaved: other programs read ", path_, ", too")));
  EXPECT_EQ(Read(path_), kFile);
  EXPECT_EQ(Run("vport add db0 ves=blue"), "add vPort db0\n") << "only this one reads live.toml";
  EXPECT_THAT(Run("config save"), HasSubstr("+mtu = 1400"));
  EXPECT_EQ(Read(path_), absl::StrCat(kFile, "mtu = 1400\n"));
}

// A local user may read the file, and lock it as readers do.
TEST_F(ConfigCommandsTest, TheLocksOfAUserWhoMayOnlyReadCountForNothing) {
  const UniqueFd user(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  struct flock all = {};
  all.l_type = F_RDLCK;
  all.l_start = (off_t{1} << 40) + 1;  // behind the lock of the program
  ASSERT_EQ(fcntl(user.get(), F_OFD_SETLK, &all), 0);
  ASSERT_EQ(flock(user.get(), LOCK_EX), 0);
  EXPECT_EQ(Run("vport set web0 mtu=1400"), "change vPort web0, in place\n");
  EXPECT_EQ(Read(path_), absl::StrCat(kFile, "mtu = 1400\n"));
}

// The program that saves replaces the file. It holds the lock of the new one.
TEST_F(ConfigCommandsTest, AReplacedFileIsLockedAgain) {
  Run("vport set web0 mtu=1400");
  const UniqueFd other = LockAsReader(path_);
  EXPECT_TRUE(HasOtherReaders(other));
}

class ConfigConflictTest : public ConfigCommandsTest {
 protected:
  // Somebody's edit and an operator's, of one vPort.
  ConfigConflictTest() {
    Write(path_, absl::StrCat(kFile, "mtu = 1300\nup = false\n"));
    answer_ = Run("vport set web0 mtu=1400");
  }
  std::string answer_;
};

TEST_F(ConfigConflictTest, NeitherSideIsLost) {
  EXPECT_THAT(answer_, HasSubstr(absl::StrCat("unsaved: ", path_, " was changed by somebody")));
  EXPECT_THAT(Run("config save"),
              AllOf(HasSubstr("+mtu = 1300\n+up = false\n"), HasSubstr("not saved:\n"),
                    HasSubstr("+mtu = 1400\n"), HasSubstr("config save --ours")));
  EXPECT_EQ(Read(path_), absl::StrCat(kFile, "mtu = 1300\nup = false\n"));
}

TEST_F(ConfigConflictTest, OursIsAppliedToTheirs) {
  Run("config save --ours");
  EXPECT_EQ(Read(path_), absl::StrCat(kFile, "mtu = 1400\nup = false\n"));
  EXPECT_EQ(commands_->text().text(), Read(path_));
  EXPECT_THAT(commands_->unsaved(), IsEmpty());
}

TEST_F(ConfigConflictTest, TheirsUndoesOurs) {
  EXPECT_THAT(Run("config save --theirs"),
              HasSubstr("no longer in effect: vport set web0 mtu=1400\n"));
  EXPECT_EQ(commands_->text().text(), absl::StrCat(kFile, "mtu = 1300\nup = false\n"));
  EXPECT_THAT(commands_->unsaved(), IsEmpty());
}

TEST_F(ConfigCommandsTest, RefusesNonsense) {
  EXPECT_THAT(Run("config save --mine"), HasSubstr("neither --ours nor --theirs"));
  EXPECT_THAT(Run("vport del --temporary"), HasSubstr("which vport?"));
  EXPECT_THAT(Run("ves del blue"), HasSubstr("VES blue has the vPorts web0"));
  EXPECT_EQ(Read(path_), kFile);
}

}  // namespace
}  // namespace eoib
