#include "control/config/config_keys.h"

#include <map>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "control/config/config_diff.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/file.h"

namespace eoib {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAreArray;

// A row of config_keys.h.
struct KeyRow {
  std::string key;
  Effect effect;
  std::string by_default;
  std::string text;  // the first words of the documents
  std::vector<absl::string_view> choices;

  bool required() const { return absl::StartsWith(by_default, "required"); }
};

// The right values, as the documents have them. Stands in for the reader of a file.
struct RightValues {
  std::string range;
  std::vector<absl::string_view> choices;
};
struct RightValuesReader {
  RightValues Integer(absl::string_view, int64_t min, int64_t max, absl::string_view = "") const {
    return {absl::StrCat(", ", min, " to ", max), {}};
  }
  RightValues OneOf(absl::string_view, const std::vector<absl::string_view>& choices) const {
    return {"", choices};
  }
  RightValues Kind(absl::string_view) const {
    RightValues values;
    for (const VPortKind* kind : kVPortKinds) values.choices.push_back(kind->name);
    return values;
  }
  RightValues IntegerOrString(absl::string_view, int64_t, int64_t, const char*) const { return {}; }
  RightValues Text(absl::string_view, bool (*)(absl::string_view), const char*) const { return {}; }
  RightValues String(absl::string_view, const char*) const { return {}; }
  RightValues Bool(absl::string_view) const { return {}; }
  RightValues Vlan(absl::string_view) const { return {}; }
  RightValues Vlans(absl::string_view) const { return {}; }
  RightValues Mac(absl::string_view) const { return {}; }
  RightValues Macs(absl::string_view) const { return {}; }
  RightValues Gids(absl::string_view, size_t) const { return {}; }
};

#define EOIB_X(name, member, effect, by_default, value, help)                                     \
  [] {                                                                                            \
    constexpr absl::string_view key = #name;                                                      \
    const RightValues values = RightValuesReader().value;                                         \
    return KeyRow{std::string(key), Effect::effect, by_default, absl::StrCat(help, values.range), \
                  values.choices};                                                                \
  }(),
const std::vector<KeyRow>& HostRows() {
  static const std::vector<KeyRow> rows = {EOIB_HOST_KEYS(EOIB_X)};
  return rows;
}
const std::vector<KeyRow>& VesRows() {
  static const std::vector<KeyRow> rows = {EOIB_VES_KEYS(EOIB_X)};
  return rows;
}
const std::vector<KeyRow>& VPortRows() {
  static const std::vector<KeyRow> rows = {EOIB_VPORT_KEYS(EOIB_X)};
  return rows;
}
#undef EOIB_X

std::vector<std::string> KeysOf(const std::vector<KeyRow>& rows) {
  std::vector<std::string> keys;
  for (const KeyRow& row : rows) keys.push_back(row.key);
  return keys;
}

// The lines of a file in deploy/, from the one behind `begin` to the one before `end`.
std::vector<std::string> LinesBetween(absl::string_view file, absl::string_view begin,
                                      absl::string_view end) {
  const std::string text = ReadFile(absl::StrCat(EOIB_EXAMPLES "/../", file), 1 << 20).value();
  const auto from = text.find(absl::StrCat("\n", begin, "\n"));
  const auto to = text.find(absl::StrCat("\n", end), from + 1);
  if (from == std::string::npos || to == std::string::npos) return {};
  return absl::StrSplit(text.substr(from, to - from), '\n');
}

// The texts of the documents about one key.
struct Entry {
  std::string by_default;  // in the manual
  std::string example;     // in the man page
  std::string text;
};
using Entries = std::map<std::string, Entry>;

std::vector<std::string> KeysOf(const Entries& entries) {
  std::vector<std::string> keys;
  for (const auto& [key, entry] : entries) keys.push_back(key);
  return keys;
}

// The items of eoibd.toml(5) behind this line: .TP, .BR KEY " = VALUE", and text.
Entries ManPageItems(absl::string_view begin, absl::string_view end) {
  Entries items;
  Entry* item = nullptr;
  for (const std::string& line : LinesBetween("man/eoibd.toml.5", begin, end)) {
    const std::string text = absl::StrReplaceAll(line, {{"\\-", "-"}, {"\\(dq", "\""}});
    if (absl::StartsWith(text, ".BR ")) {
      const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(' ', 2));
      item = &items[parts[1]];
      item->example = parts.back();
    } else if (absl::StartsWith(text, ".")) {
      item = nullptr;
    } else if (item != nullptr) {
      absl::StrAppend(&item->text, item->text.empty() ? "" : " ", text);
    }
  }
  return items;
}

// The cells of a row of a Markdown table, as they look; none for another line.
std::vector<std::string> CellsOf(const std::string& line) {
  if (!absl::StartsWith(line, "| ")) return {};
  static const std::regex kLink("\\[([^\\]]*)\\]\\([^)]*\\)");
  std::vector<std::string> cells = absl::StrSplit(
      absl::StrReplaceAll(line.substr(2), {{"\\|", "\x01"}, {" | ", "|"}, {" |", "|"}}), '|');
  for (std::string& cell : cells) {
    cell = absl::StrReplaceAll(cell, {{"`[", "["}, {"]`", "]"}});
    cell = absl::StrReplaceAll(std::regex_replace(cell, kLink, "$1"), {{"`", ""}, {"\x01", "|"}});
  }
  return cells;
}

// The rows of the manual's table of keys behind this line.
Entries ManualRows(absl::string_view begin, absl::string_view end) {
  Entries rows;
  for (const std::string& line : LinesBetween("manual.md", begin, end)) {
    const std::vector<std::string> cells = CellsOf(line);
    if (cells.size() < 3 || cells[0] == "Key") continue;
    rows[cells[0]] = {cells[1], "", cells[2]};
  }
  return rows;
}

struct Place {
  const char* name;
  const std::vector<KeyRow>& (*rows)();
  const char* man_page;  // the lines around the items there
  const char* man_page_end;
  const char* manual;
  const char* manual_end;
};
constexpr Place kPlaces[] = {
    {"host", HostRows, ".SS Of the file", ".SS",
     "Above all tables are the keys of the host:", "**"},
    {"ves", VesRows, ".SS Of [[ves]]", ".SS", "**`[[ves]]`**", "**"},
    {"vport", VPortRows, ".SS Of [[vport]]", ".SH", "**`[[vport]]`**", "## "}};

class ConfigKeysTest : public testing::TestWithParam<Place> {};

TEST_P(ConfigKeysTest, TheManPageHasTheRows) {
  const Entries items = ManPageItems(GetParam().man_page, GetParam().man_page_end);
  EXPECT_THAT(KeysOf(items), UnorderedElementsAreArray(KeysOf(GetParam().rows())));
  for (const KeyRow& row : GetParam().rows()) {
    const auto item = items.find(row.key);
    if (item == items.end()) continue;
    const std::string& text = item->second.text;
    EXPECT_THAT(
        text, StartsWith(row.required() ? absl::StrCat(row.by_default, ": ", row.text) : row.text))
        << row.key;
    if (!row.required()) {
      const std::string by_default = absl::StrCat("Default: ", row.by_default);
      EXPECT_THAT(text, AnyOf(HasSubstr(by_default + "."), HasSubstr(by_default + ", ")))
          << row.key;
    }
    for (const absl::string_view choice : row.choices) {
      EXPECT_THAT(absl::StrCat(item->second.example, text),
                  HasSubstr(absl::StrCat("\"", choice, "\"")))
          << row.key;
    }
  }
}

TEST_P(ConfigKeysTest, TheManualHasTheRows) {
  const Entries manual = ManualRows(GetParam().manual, GetParam().manual_end);
  EXPECT_THAT(KeysOf(manual), UnorderedElementsAreArray(KeysOf(GetParam().rows())));
  for (const KeyRow& row : GetParam().rows()) {
    const auto found = manual.find(row.key);
    if (found == manual.end()) continue;
    const Entry& entry = found->second;
    EXPECT_EQ(entry.by_default, row.by_default) << row.key;
    EXPECT_THAT(entry.text, StartsWith(row.text)) << row.key;
    for (const absl::string_view choice : row.choices) {
      EXPECT_THAT(absl::StrCat(entry.by_default, entry.text),
                  HasSubstr(absl::StrCat("\"", choice, "\"")))
          << row.key;
    }
  }
}

TEST_P(ConfigKeysTest, TheExampleHasTheKeys) {
  const std::string text = ReadFile(EOIB_EXAMPLES "/eoibd.toml", 1 << 20).value();
  for (const KeyRow& row : GetParam().rows()) {
    EXPECT_TRUE(std::regex_search(text, std::regex(absl::StrCat("\n(# )?", row.key, " = "))))
        << row.key;
  }
}

INSTANTIATE_TEST_SUITE_P(Places, ConfigKeysTest, testing::ValuesIn(kPlaces),
                         [](const auto& place) { return std::string(place.param.name); });

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
