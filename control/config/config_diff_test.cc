#include "control/config/config_diff.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace eoib {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

AgentConfig Parsed(const std::string& toml) { return ParseConfig(toml, "test").value(); }

constexpr char kVes[] = "[[ves]]\nname = 'blue'\npkey = 0x8001\n";
constexpr char kVPort[] = "[[vport]]\nname = 'v1'\nves = 'blue'\n";

TEST(ConfigDiffTest, NothingIfOnlyLinesMoved) {
  EXPECT_TRUE(ConfigDiff::Between(Parsed(absl::StrCat(kVes, kVPort)),
                                  Parsed(absl::StrCat("# x\n", kVes, "\n", kVPort)))
                  .empty());
}

TEST(ConfigDiffTest, NamesWhatIsAddedAndRemoved) {
  const auto diff =
      ConfigDiff::Between(Parsed(absl::StrCat(kVes, kVPort)),
                          Parsed(absl::StrCat(kVes, "[[vport]]\nname = 'v2'\nves = 'blue'\n")));
  EXPECT_THAT(diff.vports.removed, ElementsAre("v1"));
  EXPECT_THAT(diff.vports.added, ElementsAre("v2"));
  EXPECT_EQ(diff.text, "remove vPort v1\nadd vPort v2\n");
}

TEST(ConfigDiffTest, NumberOfWorkersWaitsForARestart) {
  const std::string rest = absl::StrCat(kVes, kVPort);
  const auto diff = ConfigDiff::Between(Parsed(rest), Parsed("workers = 2\n" + rest));
  EXPECT_EQ(diff.text, "keep workers = 1: restart the agent for workers = 2\n");
  EXPECT_THAT(diff.veses.changed, IsEmpty());
  EXPECT_THAT(diff.veses.replaced, IsEmpty());
}

struct Row {
  const char* description;
  const char* ves;    // more keys of the VES
  const char* vport;  // and of the vPort
  const char* text;
};

class ConfigDiffRowTest : public testing::TestWithParam<Row> {};

TEST_P(ConfigDiffRowTest, SaysWhatChanges) {
  const Row& row = GetParam();
  const auto diff = ConfigDiff::Between(Parsed(absl::StrCat(kVes, kVPort)),
                                        Parsed(absl::StrCat(kVes, row.ves, kVPort, row.vport)));
  EXPECT_EQ(diff.text, row.text) << row.description;
  EXPECT_THAT(diff.vports.removed, IsEmpty());
}

constexpr char kInPlace[] = "change VES blue, in place\n";
constexpr char kReplaced[] =
    "replace VES blue: its vPorts lose traffic until it has joined its group\n"
    "change vPort v1: its interface stays, the MACs behind it are learned again\n";
constexpr char kReattached[] =
    "change vPort v1: its interface stays, the MACs behind it are learned again\n";
INSTANTIATE_TEST_SUITE_P(
    Rows, ConfigDiffRowTest,
    testing::Values(Row{"ageing", "ageing = 60\n", "", kInPlace},
                    Row{"limits", "fdb_limit = 9\n", "", kInPlace},
                    Row{"damping", "move_damping = 'warn'\n", "", kInPlace},
                    Row{"agents", "agents = ['fe80::1']\n", "", kInPlace},
                    Row{"VLANs", "vlans = [0]\n", "", kInPlace},
                    Row{"ages in other ticks", "ageing = 100000\n", "", kReplaced},
                    Row{"header", "header = 'xve'\n", "", kReplaced},
                    Row{"Q_Key", "qkey = 0x80000009\n", "", kReplaced},
                    Row{"flood", "flood = 'replicate'\n", "", kReplaced},
                    Row{"VLAN", "", "access_vlan = 5\n", kReattached},
                    Row{"MTU", "", "mtu = 1000\n", "change vPort v1, in place\n"},
                    Row{"limit of the vPort", "", "fdb_limit = 9\n", "change vPort v1, in place\n"},
                    Row{"limit and header", "header = 'xve'\n", "fdb_limit = 9\n", kReplaced},
                    Row{"sticky", "", "sticky = true\n", kReattached},
                    Row{"MAC", "", "mac = '02:00:00:00:00:01'\n",
                        "replace vPort v1: its link goes down for a moment\n"},
                    Row{"type", "", "type = 'test'\n",
                        "replace vPort v1: its link goes down for a moment\n"}));

}  // namespace
}  // namespace eoib
