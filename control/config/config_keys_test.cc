#include "control/config/config_keys.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "control/config/config_diff.h"
#include "control/config/key_documents_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace eoib {
namespace {

using ::testing::Contains;
using ::testing::UnorderedElementsAreArray;

const std::vector<KeyRow>& HostRows() {
  static const std::vector<KeyRow> rows = {EOIB_HOST_KEYS(EOIB_KEY_ROW)};
  return rows;
}
const std::vector<KeyRow>& VesRows() {
  static const std::vector<KeyRow> rows = {EOIB_VES_KEYS(EOIB_KEY_ROW)};
  return rows;
}
const std::vector<KeyRow>& VPortRows() {
  static const std::vector<KeyRow> rows = {EOIB_VPORT_KEYS(EOIB_KEY_ROW)};
  return rows;
}

constexpr KeyTable kTables[] = {{"host",
                                 HostRows,
                                 {"man/eoibd.toml.5", ".SS Of the file", ".SS"},
                                 {"manual.md", "Above all tables are the keys of the host:", "**"},
                                 "eoibd.toml"},
                                {"ves",
                                 VesRows,
                                 {"man/eoibd.toml.5", ".SS Of [[ves]]", ".SS"},
                                 {"manual.md", "**`[[ves]]`**", "**"},
                                 "eoibd.toml"},
                                {"vport",
                                 VPortRows,
                                 {"man/eoibd.toml.5", ".SS Of [[vport]]", ".SH"},
                                 {"manual.md", "**`[[vport]]`**", "## "},
                                 "eoibd.toml"}};

class ConfigKeysTest : public testing::TestWithParam<KeyTable> {};

TEST_P(ConfigKeysTest, TheManPageHasTheRows) { CheckManPage(GetParam()); }
TEST_P(ConfigKeysTest, TheManualHasTheRows) { CheckManual(GetParam()); }
TEST_P(ConfigKeysTest, TheExampleHasTheKeys) { CheckExample(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Tables, ConfigKeysTest, testing::ValuesIn(kTables),
                         [](const auto& table) { return std::string(table.param.name); });

// The keys, one after another, that the manual's table of changes has in the row with this effect.
std::string KeysWithEffect(absl::string_view of, absl::string_view effect) {
  for (const std::string& line :
       LinesBetween("manual.md", "| Changed | Effect |", "A VES without vPorts")) {
    const std::vector<std::string> cells = CellsOf(line);
    if (cells.size() >= 2 && absl::EndsWith(cells[0], of) && absl::StartsWith(cells[1], effect))
      return std::string(absl::StripSuffix(cells[0], of));
  }
  return "no row";
}

std::vector<std::string> KeysWithEffect(const std::vector<KeyRow>& rows, Effect effect) {
  std::vector<std::string> keys;
  for (const KeyRow& row : rows) {
    if (row.effect == effect && row.key != "name") keys.push_back(row.key);
  }
  return keys;
}

TEST(ConfigKeysEffectTest, TheManualSaysWhatAChangeDoes) {
  const struct {
    const std::vector<KeyRow>& rows;
    Effect effect;
    const char* of;
    const char* text;
  } kCases[] = {
      {HostRows(), Effect::kRestart, " of the host", "when the agent restarts"},
      {VesRows(), Effect::kInPlace, " of a VES", "in place"},
      {VPortRows(), Effect::kInPlace, " of a vPort", "in place"},
      {VPortRows(), Effect::kReplaced, " of a vPort", "the vPort is made again"},
  };
  for (const auto& c : kCases) {
    const std::vector<std::string> keys = absl::StrSplit(KeysWithEffect(c.of, c.text), ", ");
    EXPECT_THAT(keys, UnorderedElementsAreArray(KeysWithEffect(c.rows, c.effect))) << c.text;
  }
  EXPECT_EQ(KeysWithEffect(" of a VES", "the VES is made again"), "another key");
  EXPECT_EQ(KeysWithEffect(" of a vPort", "the interface stays"), "another key");
}

// Whether a configuration with the key at its documented default is that without the key. Absent:
// the default is in words, or the key is for other vPorts.
absl::optional<bool> IsDefault(const KeyRow& row, const std::string& before,
                               const std::string& behind) {
  const std::string line = absl::StrCat(row.key, " = ", row.by_default, "\n");
  const auto with = ParseConfig(absl::StrCat(before, line, behind), "f");
  if (!with.ok()) return absl::nullopt;
  return ConfigDiff::Between(*with, *ParseConfig(absl::StrCat(before, behind), "f")).empty();
}

TEST(ConfigKeysDefaultTest, DefaultsAreThoseOfTheCode) {
  const std::string kVes = "[[ves]]\nname = 'blue'\npkey = 0x8001\n";
  const std::string kVPort = "[[vport]]\nname = 'p1'\nves = 'blue'\n";
  std::vector<std::string> checked;
  const auto check = [&checked](const std::vector<KeyRow>& rows, const std::string& before,
                                const std::string& behind) {
    for (const KeyRow& row : rows) {
      const absl::optional<bool> is_default = IsDefault(row, before, behind);
      EXPECT_NE(is_default, false) << row.key;
      if (is_default.has_value()) checked.push_back(row.key);
    }
  };
  check(HostRows(), "", kVes);
  check(VesRows(), kVes, kVPort);
  check(VPortRows(), kVes + kVPort, "");
  check(VPortRows(), absl::StrCat(kVes, kVPort, "mode = 'trunk'\n"), "");
  check(VPortRows(), absl::StrCat(kVes, kVPort, "type = 'vhost-user'\nsocket = '/s'\n"), "");
  for (const char* key : {"workers", "group_fwd_mask", "ageing", "damping_freeze", "announce",
                          "type", "native_vlan", "socket_mode", "static_macs", "pin_mac"})
    EXPECT_THAT(checked, Contains(key));
}

}  // namespace
}  // namespace eoib
