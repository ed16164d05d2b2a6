#include "control/config/config_text.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "vswitch/base/file.h"

// After everything else.
#include "control/config/config_reader.h"

namespace eoib {
namespace {

std::vector<std::string> LinesOf(absl::string_view text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

std::string Joined(const std::vector<std::string>& lines) {
  return lines.empty() ? "" : absl::StrCat(absl::StrJoin(lines, "\n"), "\n");
}

// A key that is no table would belong to the last table of the file before.
absl::Status CheckDropIn(const std::string& path, const std::string& text) {
  const toml::parse_result parsed = toml::parse(std::string_view(text));
  Mistakes mistakes((SourceLines(path)));
  if (!parsed) return absl::OkStatus();  // ParseConfig reports it
  for (const auto& [key, value] : parsed.table()) {
    if (value.is_array_of_tables()) continue;
    mistakes.Add(LineOf(key.source()),
                 absl::StrCat(std::string(key.str()),
                              " is not in a table; write it into the main file, above all tables"));
  }
  return mistakes.ToStatus();
}

bool IsTomlValue(const std::string& text) {
  const toml::parse_result parsed = toml::parse(absl::StrCat("x = ", text));
  return static_cast<bool>(parsed) && parsed.table().size() == 1;
}

// A line "key = value", or an empty one if the value is.
absl::StatusOr<std::pair<std::string, std::string>> ParseAssignment(absl::string_view assignment) {
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(assignment, absl::MaxSplits('=', 1));
  const auto is_key = [](char c) { return absl::ascii_isalnum(c) || c == '_'; };
  if (!absl::StrContains(assignment, '=') || parts.first.empty() ||
      !std::all_of(parts.first.begin(), parts.first.end(), is_key)) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quote(assignment), " is no assignment; write KEY=VALUE, or KEY= to remove KEY"));
  }
  if (parts.second.empty()) return std::make_pair(parts.first, std::string());
  if (absl::StrContains(parts.second, '\n')) {
    return absl::InvalidArgumentError(
        absl::StrCat("the value of ", parts.first, " has several lines; write one"));
  }
  if (IsTomlValue(parts.second))
    return std::make_pair(parts.first, absl::StrCat(parts.first, " = ", parts.second));
  const std::string quoted = absl::StrCat("\"", parts.second, "\"");
  if (IsTomlValue(quoted))
    return std::make_pair(parts.first, absl::StrCat(parts.first, " = ", quoted));
  return absl::InvalidArgumentError(absl::StrCat(
      Quote(parts.second), " is no value of TOML; write ", parts.first, "='\"text\"'"));
}

// The lines that were removed ("-") and added ("+"): a longest common subsequence of lines is left
// out, if that takes no more than 16 MiB.
std::string DiffLines(absl::Span<const std::string> before, absl::Span<const std::string> after) {
  while (!before.empty() && !after.empty() && before.front() == after.front())
    before.remove_prefix(1), after.remove_prefix(1);
  while (!before.empty() && !after.empty() && before.back() == after.back())
    before.remove_suffix(1), after.remove_suffix(1);
  constexpr size_t kMostPairs = 4 << 20;
  if (before.size() * after.size() > kMostPairs)
    return absl::StrCat(DiffLines(before, {}), DiffLines({}, after));
  const size_t width = after.size() + 1;
  // The length of that of the lines from (i, j) on.
  std::vector<uint32_t> common((before.size() + 1) * width);
  for (size_t i = before.size(); i-- > 0;) {
    for (size_t j = after.size(); j-- > 0;) {
      common[i * width + j] =
          before[i] == after[j] ? common[(i + 1) * width + j + 1] + 1
                                : std::max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  std::string diff;
  size_t i = 0, j = 0;
  while (i < before.size() || j < after.size()) {
    if (i < before.size() && j < after.size() && before[i] == after[j]) {
      ++i, ++j;
    } else if (j == after.size() ||
               (i < before.size() && common[(i + 1) * width + j] >= common[i * width + j + 1])) {
      absl::StrAppend(&diff, "-", before[i++], "\n");
    } else {
      absl::StrAppend(&diff, "+", after[j++], "\n");
    }
  }
  return diff;
}

constexpr char kLiveHeader[] =
    "# Tables that were added while the program ran, as by `eoibctl vport add`.\n";

// "eoibd.d/live.toml", "eoibd.d/live-NAME.toml".
bool IsLiveFile(absl::string_view path) {
  const absl::string_view name = path.substr(path.rfind('/') + 1);
  return name == "live.toml" || absl::StartsWith(name, "live-");
}

std::string LiveFileOf(const std::string& path, absl::string_view program) {
  const std::string directory = DropInDirectoryOf(path);
  if (directory.empty()) return "";
  return absl::StrCat(directory, "/live", program.empty() ? "" : "-", program, ".toml");
}

bool IsComment(const std::string& line) {
  return absl::StartsWith(absl::StripLeadingAsciiWhitespace(line), "#");
}

}  // namespace

void SourceLines::Add(absl::string_view name, int lines) {
  sources_.push_back({std::string(name), lines_});
  lines_ += lines;
}

std::string SourceLines::At(int line) const {
  auto source = std::find_if(sources_.rbegin(), sources_.rend(),
                             [line](const Source& one) { return one.before < line; });
  if (source == sources_.rend()) --source;
  return absl::StrCat(source->name, ":", line - source->before);
}

std::string SourceLines::Mention(int line) const {
  return sources_.size() == 1 ? absl::StrCat("line ", line) : At(line);
}

absl::StatusOr<ConfigText> ConfigText::Load(const std::string& path, absl::string_view example,
                                            absl::string_view program) {
  const absl::StatusOr<std::string> main = ReadConfigFile(path, example);
  if (!main.ok()) return main.status();
  ConfigText config;
  config.files_.push_back({path, *main, *main});
  config.live_ = LiveFileOf(path, program);
  const absl::StatusOr<std::vector<std::string>> drop_ins = DropInsOf(path);
  if (!drop_ins.ok()) return drop_ins.status();
  for (const std::string& drop_in : *drop_ins) {
    if (IsLiveFile(drop_in) && drop_in != config.live_) continue;  // of another program
    const absl::StatusOr<std::string> text = ReadConfigFile(drop_in, example);
    if (!text.ok()) return text.status();
    if (absl::Status status = CheckDropIn(drop_in, *text); !status.ok()) return status;
    config.files_.push_back({drop_in, *text, *text});
  }
  return config;
}

ConfigText ConfigText::Of(absl::string_view text, absl::string_view source) {
  ConfigText config;
  config.files_.push_back({std::string(source), std::string(text), std::string(text)});
  return config;
}

std::string ConfigText::text() const {
  if (files_.size() == 1) return files_[0].text;
  std::string all;
  for (const File& file : files_) absl::StrAppend(&all, Joined(LinesOf(file.text)));
  return all;
}

SourceLines ConfigText::lines() const {
  SourceLines lines;
  for (const File& file : files_) lines.Add(file.path, static_cast<int>(LinesOf(file.text).size()));
  return lines;
}

// A table ends where the next one begins, with the comment above that.
absl::optional<ConfigText::Place> ConfigText::Find(const Table& wanted) {
  for (File& file : files_) {
    const toml::parse_result parsed = toml::parse(std::string_view(file.text));
    if (!parsed) continue;
    const std::vector<std::string> lines = LinesOf(file.text);
    std::vector<int> starts = {static_cast<int>(lines.size())};
    const toml::table* found = nullptr;
    for (const auto& [key, node] : parsed.table()) {
      if (!node.is_array_of_tables()) continue;
      for (const toml::node& element : *node.as_array()) {
        const toml::table& table = *element.as_table();
        if (table.is_inline()) continue;
        starts.push_back(LineOf(table) - 1);
        if (key.str() == wanted.kind && table["name"].value<std::string>() == wanted.name)
          found = &table;
      }
    }
    if (found == nullptr) continue;
    const int first = LineOf(*found) - 1;
    int end = static_cast<int>(lines.size());
    for (const int start : starts) {
      if (start > first) end = std::min(end, start);
    }
    if (end < static_cast<int>(lines.size())) {
      while (end > first + 1 && IsComment(lines[static_cast<size_t>(end) - 1])) --end;
    }
    Place place{&file, first, end, {}};
    for (const auto& [key, value] : *found) {
      place.keys.emplace_back(
          std::string(key.str()),
          std::make_pair(LineOf(value) - 1, static_cast<int>(value.source().end.line)));
    }
    return place;
  }
  return absl::nullopt;
}

ConfigText::File* ConfigText::FileForAdditions() {
  if (live_.empty()) return &files_.front();
  const auto at = std::find_if(files_.begin() + 1, files_.end(),
                               [this](const File& file) { return file.path >= live_; });
  if (at != files_.end() && at->path == live_) return &*at;
  return &*files_.insert(at, {live_, absl::nullopt, kLiveHeader});
}

absl::Status ConfigText::Add(const Table& table, absl::Span<const std::string> assignments) {
  if (Find(table).has_value()) {
    return absl::AlreadyExistsError(absl::StrCat("there is a ", table.kind, " ", Quote(table.name),
                                                 " already; use `", table.kind,
                                                 " set` to change it"));
  }
  std::vector<std::string> lines = {absl::StrCat("[[", table.kind, "]]"),
                                    absl::StrCat("name = \"", table.name, "\"")};
  if (!IsTomlValue(absl::StrCat("\"", table.name, "\""))) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quote(table.name), " is no name; write letters, digits, '_', '.' and '-'"));
  }
  for (const std::string& assignment : assignments) {
    const auto parsed = ParseAssignment(assignment);
    if (!parsed.ok()) return parsed.status();
    if (!parsed->second.empty()) lines.push_back(parsed->second);
  }
  File& file = *FileForAdditions();
  absl::StrAppend(&file.text, file.text.empty() || absl::EndsWith(file.text, "\n") ? "" : "\n",
                  "\n", Joined(lines));
  return absl::OkStatus();
}

absl::Status ConfigText::Set(const Table& wanted, absl::Span<const std::string> assignments) {
  Table table = wanted;
  for (const std::string& assignment : assignments) {
    const auto parsed = ParseAssignment(assignment);
    if (!parsed.ok()) return parsed.status();
    const absl::optional<Place> place = Find(table);  // again, since lines have moved
    if (!place.has_value())
      return absl::NotFoundError(absl::StrCat("there is no ", table.kind, " ", Quote(table.name)));
    std::vector<std::string> lines = LinesOf(place->file->text);
    std::pair<int, int> at = {place->first + 1, place->first + 1};  // behind the last key
    for (const auto& [key, range] : place->keys)
      at = {std::max(at.first, range.second), std::max(at.first, range.second)};
    for (const auto& [key, range] : place->keys) {
      if (key == parsed->first) at = range;
    }
    lines.erase(lines.begin() + at.first, lines.begin() + at.second);
    if (!parsed->second.empty()) lines.insert(lines.begin() + at.first, parsed->second);
    place->file->text = Joined(lines);
    if (parsed->first == "name" && !parsed->second.empty())
      table.name = toml::parse(parsed->second)["name"].value_or(std::string());
  }
  return absl::OkStatus();
}

absl::Status ConfigText::Remove(const Table& table) {
  const absl::optional<Place> place = Find(table);
  if (!place.has_value())
    return absl::NotFoundError(absl::StrCat("there is no ", table.kind, " ", Quote(table.name)));
  std::vector<std::string> lines = LinesOf(place->file->text);
  int first = place->first;
  while (first > 0 && IsComment(lines[static_cast<size_t>(first) - 1])) --first;
  // As Add, which leaves a line empty above the table.
  if (place->end == static_cast<int>(lines.size())) {
    while (first > 0 && lines[static_cast<size_t>(first) - 1].empty()) --first;
  }
  lines.erase(lines.begin() + first, lines.begin() + place->end);
  File* const file = place->file;
  file->text = Joined(lines);
  if (!file->loaded.has_value() && file->text == kLiveHeader)
    files_.erase(files_.begin() + (file - files_.data()));
  return absl::OkStatus();
}

bool ConfigText::IsChanged() const {
  return std::any_of(files_.begin(), files_.end(),
                     [](const File& file) { return file.IsChanged(); });
}

bool ConfigText::IsSharedChanged() const {
  return std::any_of(files_.begin(), files_.end(),
                     [this](const File& file) { return file.IsChanged() && file.path != live_; });
}

std::string ConfigText::Changes() const {
  std::string changes;
  for (const File& file : files_) {
    if (!file.IsChanged()) continue;
    absl::StrAppend(&changes, file.path, "\n");
    absl::StrAppend(&changes, DiffLines(LinesOf(file.loaded.value_or("")), LinesOf(file.text)));
  }
  return changes;
}

std::string ConfigText::ChangesFrom(const ConfigText& before) const {
  // By path: the former and the present one.
  std::map<std::string, std::pair<std::string, std::string>> texts;
  for (const File& file : before.files_) texts[file.path].first = file.text;
  for (const File& file : files_) texts[file.path].second = file.text;
  std::string changes;
  for (const auto& [path, both] : texts) {
    if (both.first == both.second) continue;
    absl::StrAppend(&changes, path, "\n", DiffLines(LinesOf(both.first), LinesOf(both.second)));
  }
  return changes;
}

absl::Status ConfigText::CheckFiles() const {
  for (const File& file : files_) {
    if (!file.IsChanged()) continue;
    const absl::StatusOr<std::string> now = ReadConfigFile(file.path, "");
    if (!now.ok() && file.loaded.has_value() && !absl::IsNotFound(now.status()))
      return now.status();
    if (now.ok() ? *now != file.loaded : file.loaded.has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat(file.path,
                       " was changed by somebody since it was read; see `config diff`, "
                       "then `config save --ours` or `--theirs`"));
    }
  }
  return absl::OkStatus();
}

absl::Status ConfigText::Save() {
  if (absl::Status status = CheckFiles(); !status.ok()) return status;
  for (File& file : files_) {
    if (!file.IsChanged()) continue;
    if (!file.loaded.has_value()) mkdir(file.path.substr(0, file.path.rfind('/')).c_str(), 0755);
    if (absl::Status status = ReplaceFile(file.path, file.text); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat("save ", file.path, ": ", status.message()));
    }
    file.loaded = file.text;
  }
  return absl::OkStatus();
}

}  // namespace eoib
