#include "control/operator/config_edit.h"

#include <unistd.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "vswitch/base/daemon/log.h"
#include "vswitch/base/file.h"

namespace eoib {
namespace {

std::string UnsavedPath(const std::string& statedir) { return statedir + "/unsaved"; }
constexpr absl::string_view kWhy = "  # ";  // between a command and why it is not saved

}  // namespace

std::string ConfigEdit::ToString() const {
  return absl::StrCat(table.kind, " ", verb, " ", table.name, assignments.empty() ? "" : " ",
                      absl::StrJoin(assignments, " "));
}

std::string ConfigEdit::NewName() const {
  std::string name;
  for (absl::string_view assignment : assignments) {
    if (!absl::ConsumePrefix(&assignment, "name=")) continue;
    const bool quoted = assignment.size() >= 2 && assignment.front() == assignment.back() &&
                        (assignment.front() == '"' || assignment.front() == '\'');
    name = std::string(quoted ? assignment.substr(1, assignment.size() - 2) : assignment);
  }
  return verb == "set" ? name : "";
}

absl::Status ConfigEdit::ApplyTo(ConfigText* text) const {
  if (verb == "add") return text->Add(table, assignments);
  return verb == "set" ? text->Set(table, assignments) : text->Remove(table);
}

void WriteUnsaved(const std::string& statedir, const std::vector<ConfigEdit>& edits) {
  const std::string path = UnsavedPath(statedir);
  if (edits.empty()) {
    ::unlink(path.c_str());
    return;
  }
  std::string text;
  for (const ConfigEdit& edit : edits) {
    absl::StrAppend(&text, edit.ToString(), kWhy,
                    absl::StrReplaceAll(edit.why_unsaved, {{"\n", "; "}}), "\n");
  }
  ReplaceFile(path, text, /*sync=*/false).IgnoreError();  // only for messages of the next run
}

std::vector<UnsavedCommand> TakeUnsaved(const std::string& statedir) {
  constexpr size_t kMost = 1 << 20;
  const std::string path = UnsavedPath(statedir);
  const absl::StatusOr<std::string> text = ReadFile(path, kMost);
  std::vector<UnsavedCommand> all;
  if (!text.ok()) return all;
  for (absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    const size_t at = line.rfind(kWhy);
    if (at == absl::string_view::npos) continue;
    all.push_back({std::string(line.substr(0, at)), std::string(line.substr(at + kWhy.size()))});
    LogWarning(absl::StrCat("the last run ended with `", absl::CHexEscape(all.back().command),
                            "` unsaved (", absl::CHexEscape(all.back().why),
                            "), so it is no longer in effect"));
  }
  ::unlink(path.c_str());
  return all;
}

}  // namespace eoib
