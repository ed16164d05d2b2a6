// Compares tables of configuration keys (config_keys.h) with the documents: man page, manual and
// example file.
//
// Requires EOIB_EXAMPLES, the path of deploy/examples.
#ifndef EOIB_CONTROL_CONFIG_KEY_DOCUMENTS_FOR_TEST_H_
#define EOIB_CONTROL_CONFIG_KEY_DOCUMENTS_FOR_TEST_H_

#include <cstdint>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "control/config/config_keys.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/file.h"

namespace eoib {

// A row of keys, as of config_keys.h.
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
  template <typename... Arguments>
  RightValues List(const Arguments&...) const {
    return {};
  }
  RightValues Hosts(absl::string_view, const char*) const { return {}; }
  RightValues VlanPairs(absl::string_view) const { return {}; }
};

// Makes the KeyRow of a row of keys.
#define EOIB_KEY_ROW(name, member, its_effect, its_default, value, help) \
  [] {                                                                   \
    constexpr absl::string_view key = #name;                             \
    const RightValues values = RightValuesReader().value;                \
    return KeyRow{std::string(key), Effect::its_effect, its_default,     \
                  absl::StrCat(help, values.range), values.choices};     \
  }(),

inline std::vector<std::string> KeysOf(const std::vector<KeyRow>& rows) {
  std::vector<std::string> keys;
  for (const KeyRow& row : rows) keys.push_back(row.key);
  return keys;
}

// The lines of a file, by its path from deploy/, from the one behind `begin` to the one before
// `end`.
inline std::vector<std::string> LinesBetween(absl::string_view file, absl::string_view begin,
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

inline std::vector<std::string> KeysOf(const Entries& entries) {
  std::vector<std::string> keys;
  for (const auto& [key, entry] : entries) keys.push_back(key);
  return keys;
}

// The items of a man page behind this line: .TP, .BR KEY " = VALUE", and text.
inline Entries ManPageItems(absl::string_view file, absl::string_view begin,
                            absl::string_view end) {
  Entries items;
  Entry* item = nullptr;
  for (const std::string& line : LinesBetween(file, begin, end)) {
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
inline std::vector<std::string> CellsOf(const std::string& line) {
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

// The rows of a manual's table of keys behind this line.
inline Entries ManualRows(absl::string_view file, absl::string_view begin, absl::string_view end) {
  Entries rows;
  for (const std::string& line : LinesBetween(file, begin, end)) {
    const std::vector<std::string> cells = CellsOf(line);
    if (cells.size() < 3 || absl::StartsWith(cells[0], "Key")) continue;
    rows[cells[0]] = {cells[1], "", cells[2]};
  }
  return rows;
}

// A table of keys, and where the documents have it.
struct KeyTable {
  struct Place {
    const char* file;   // from deploy/
    const char* begin;  // the lines around the keys
    const char* end;
  };

  const char* name;
  const std::vector<KeyRow>& (*rows)();
  Place man_page, manual;
  const char* example;
};

inline void CheckManPage(const KeyTable& table) {
  const Entries items = ManPageItems(table.man_page.file, table.man_page.begin, table.man_page.end);
  EXPECT_THAT(KeysOf(items), testing::UnorderedElementsAreArray(KeysOf(table.rows())));
  for (const KeyRow& row : table.rows()) {
    const auto item = items.find(row.key);
    if (item == items.end()) continue;
    const std::string& text = item->second.text;
    EXPECT_THAT(text, testing::StartsWith(
                          row.required() ? absl::StrCat(row.by_default, ": ", row.text) : row.text))
        << row.key;
    if (!row.required()) {
      const std::string by_default = absl::StrCat("Default: ", row.by_default);
      EXPECT_THAT(text, testing::AnyOf(testing::HasSubstr(by_default + "."),
                                       testing::HasSubstr(by_default + ", ")))
          << row.key;
    }
    for (const absl::string_view choice : row.choices) {
      EXPECT_THAT(absl::StrCat(item->second.example, text),
                  testing::HasSubstr(absl::StrCat("\"", choice, "\"")))
          << row.key;
    }
  }
}

inline void CheckManual(const KeyTable& table) {
  const Entries manual = ManualRows(table.manual.file, table.manual.begin, table.manual.end);
  EXPECT_THAT(KeysOf(manual), testing::UnorderedElementsAreArray(KeysOf(table.rows())));
  for (const KeyRow& row : table.rows()) {
    const auto found = manual.find(row.key);
    if (found == manual.end()) continue;
    const Entry& entry = found->second;
    EXPECT_EQ(entry.by_default, row.by_default) << row.key;
    EXPECT_THAT(entry.text, testing::StartsWith(row.text)) << row.key;
    for (const absl::string_view choice : row.choices) {
      EXPECT_THAT(absl::StrCat(entry.by_default, entry.text),
                  testing::HasSubstr(absl::StrCat("\"", choice, "\"")))
          << row.key;
    }
  }
}

inline void CheckExample(const KeyTable& table) {
  const std::string text =
      ReadFile(absl::StrCat(EOIB_EXAMPLES "/", table.example), 1 << 20).value();
  for (const KeyRow& row : table.rows()) {
    EXPECT_TRUE(std::regex_search(text, std::regex(absl::StrCat("\n(# )?", row.key, " = "))))
        << row.key;
  }
}

}  // namespace eoib

#endif  // EOIB_CONTROL_CONFIG_KEY_DOCUMENTS_FOR_TEST_H_
