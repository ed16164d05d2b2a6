#include "control/operator/config_commands.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "control/config/config_diff.h"
#include "vswitch/base/daemon/log.h"
#include "vswitch/base/file.h"

namespace eoib {
namespace {

// The lines of a text, each without its end.
Json ToJsonLines(absl::string_view text) {
  Json lines = Json::array();
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty()))
    lines.push_back(std::string(line));
  return lines;
}

std::string InOneLine(absl::string_view text) {
  return absl::StrReplaceAll(absl::StripSuffix(text, "\n"), {{"\n", "; "}});
}

std::string TextOfLines(const Json& lines) {
  std::string text;
  for (const Json& line : lines) absl::StrAppend(&text, line.get<std::string>(), "\n");
  return text;
}

// `dropped`: the commands that were not saved, and have no effect any more.
Answer ChangesAnswer(const std::string& changes, const std::vector<std::string>& dropped) {
  Json json = {{"changes", ToJsonLines(changes)}};
  if (!dropped.empty()) json["dropped"] = dropped;
  return Answer(std::move(json), [](const Json& shown) {
    std::string text =
        shown["changes"].empty() ? "nothing to change\n" : TextOfLines(shown["changes"]);
    if (HasValue(shown, "dropped")) {
      for (const Json& line : shown["dropped"])
        absl::StrAppend(&text, "no longer in effect: ", line.get<std::string>(), "\n");
    }
    return text;
  });
}

Answer EditAnswer(const std::string& changes, const std::string& why_unsaved) {
  Json json = {{"changes", ToJsonLines(changes)}};
  if (!why_unsaved.empty()) json["unsaved"] = why_unsaved;
  return Answer(std::move(json), [](const Json& shown) {
    const std::string text =
        shown["changes"].empty() ? "nothing to change\n" : TextOfLines(shown["changes"]);
    return HasValue(shown, "unsaved")
               ? absl::StrCat(text, "unsaved: ", TextOf(shown, "unsaved"), "\n")
               : text;
  });
}

Answer SavedAnswer(const std::string& saved) {
  return Answer({{"saved", ToJsonLines(saved)}}, [](const Json& json) {
    return json["saved"].empty() ? "nothing to save\n"
                                 : absl::StrCat("saved:\n", TextOfLines(json["saved"]));
  });
}

// An operator who typed a command knows no line of a file: "eoibd.toml:12: mac is ..." becomes "mac
// is ...".
absl::Status WithoutPlaces(const absl::Status& status) {
  static const std::regex kPlace("(^|\\n)[^ \\n]+:[0-9]+: "),
      kMention(" on (line [0-9]+|[^ ;,]+:[0-9]+)");
  const std::string message = std::regex_replace(std::string(status.message()), kPlace, "$1");
  return absl::Status(status.code(), std::regex_replace(message, kMention, ""));
}

absl::Status CheckUnused(const AgentConfig& config, const std::string& ves) {
  std::vector<std::string> names;
  for (const VPortConfig& vport : config.vports) {
    if (vport.ves == ves) names.push_back(vport.name);
  }
  if (names.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("VES ", ves, " has the vPorts ", absl::StrJoin(names, ", "),
                   "; remove them first (`vport del ", absl::StrJoin(names, " "), "`)"));
}

std::string DiffText(const Json& diff) {
  std::string text = diff["reload"].empty()
                         ? "a reload would change nothing\n"
                         : absl::StrCat("a reload would:\n", TextOfLines(diff["reload"]),
                                        "because of:\n", TextOfLines(diff["lines"]));
  if (diff["not_saved"].empty()) return text;
  return absl::StrCat(text, "not saved (`config save`):\n", TextOfLines(diff["not_saved"]));
}

std::string FirstLine(absl::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

ConfigCommands::ConfigCommands(ConfigText text, Source source)
    : files_(std::move(text)), text_(files_), source_(std::move(source)) {
  reader_lock_ = LockAsReader(source_.path);
}

std::vector<UnsavedCommand> ConfigCommands::unsaved() const {
  std::vector<UnsavedCommand> all;
  for (const ConfigEdit& edit : unsaved_) all.push_back({edit.ToString(), edit.why_unsaved});
  return all;
}

void ConfigCommands::Collect(MetricSet* metrics) const {
  metrics->Gauge("unsaved_changes",
                 "changes by commands that the files do not have: the next start will not know of "
                 "them",
                 {}, static_cast<double>(unsaved_.size()));
}

void ConfigCommands::WarnOfUnsaved() const {
  for (const ConfigEdit& edit : unsaved_)
    LogWarning(absl::StrCat("unsaved, so the next start will not know of it: ", edit.ToString(),
                            " (", InOneLine(edit.why_unsaved), ")"));
}

void ConfigCommands::TakeFiles(ConfigText files) {
  files_ = std::move(files);
  reader_lock_ = LockAsReader(source_.path);  // the file may have been replaced
}

absl::StatusOr<AgentConfig> ConfigCommands::Present() const {
  return agent_ != nullptr ? agent_->config() : source_.parse(text_);
}

absl::StatusOr<std::string> ConfigCommands::Apply(ConfigText next) {
  const absl::StatusOr<AgentConfig> config = source_.parse(next);
  if (!config.ok()) return config.status();
  const absl::StatusOr<AgentConfig> former = Present();
  if (!former.ok()) return former.status();
  const std::string changes = ConfigDiff::Between(*former, *config).text;
  if (absl::Status status = agent_ != nullptr ? agent_->Apply(*config) : absl::OkStatus();
      !status.ok())
    return status;
  text_ = std::move(next);
  if (!changes.empty()) LogInfo(absl::StrCat("configuration changed: ", InOneLine(changes)));
  return changes;
}

// The files with each edit that still has an effect there. Requires that the files are right.
ConfigText ConfigCommands::WithUnsaved(const ConfigText& files, std::vector<ConfigEdit>* kept,
                                       std::vector<std::string>* dropped) const {
  ConfigText text = files;
  for (const ConfigEdit& edit : unsaved_) {
    ConfigText next = text;
    absl::Status status = edit.ApplyTo(&next);
    if (status.ok()) status = source_.parse(next).status();
    if (!status.ok()) {
      dropped->push_back(
          absl::StrCat(edit.ToString(), " (", FirstLine(WithoutPlaces(status).message()), ")"));
    } else if (next.text() != text.text()) {  // else the files have it
      kept->push_back(edit);
      text = std::move(next);
    }
  }
  return text;
}

absl::StatusOr<std::string> ConfigCommands::ReloadFiles(std::vector<std::string>* dropped) {
  absl::StatusOr<ConfigText> files = source_.load();
  absl::Status status = files.ok() ? source_.parse(*files).status() : files.status();
  std::vector<ConfigEdit> kept;
  const absl::StatusOr<std::string> changes = status.ok()
                                                  ? Apply(WithUnsaved(*files, &kept, dropped))
                                                  : absl::StatusOr<std::string>(status);
  if (!changes.ok()) {
    LogWarning(absl::StrCat("reload: nothing is changed: ", InOneLine(changes.status().message())));
    return changes;
  }
  TakeFiles(*std::move(files));
  unsaved_ = std::move(kept);
  WriteUnsaved(source_.statedir, unsaved_);
  for (const std::string& one : *dropped)
    LogWarning(absl::StrCat("reload: no longer in effect: ", one));
  if (changes->empty()) LogInfo("reload: nothing to change");
  return changes;
}

absl::StatusOr<Answer> ConfigCommands::Reload() {
  std::vector<std::string> dropped;
  const absl::StatusOr<std::string> changes = ReloadFiles(&dropped);
  if (!changes.ok()) return changes.status();
  return ChangesAnswer(*changes, dropped);
}

// Whether the files know the table by another name, since its renaming is not saved.
bool ConfigCommands::IsNewName(const ConfigText::Table& table) const {
  return std::any_of(unsaved_.begin(), unsaved_.end(), [&table](const ConfigEdit& edit) {
    return edit.table.kind == table.kind && edit.NewName() == table.name;
  });
}

// Returns why it cannot be saved; empty if it is.
std::string ConfigCommands::SaveEdits(const std::vector<ConfigEdit>& edits) {
  ConfigText files = files_;
  for (const ConfigEdit& edit : edits) {
    const absl::Status status = edit.ApplyTo(&files);
    if (absl::IsNotFound(status) && edit.verb == "del" && !IsNewName(edit.table))
      continue;  // it never was in the files
    if (!status.ok()) return absl::StrCat("in the files, ", status.message());
  }
  if (!files.IsChanged()) return "";
  if (const absl::Status status = source_.parse(files).status(); !status.ok()) {
    return absl::StrCat("without other unsaved changes it is wrong: ",
                        FirstLine(WithoutPlaces(status).message()));
  }
  if (files.IsSharedChanged() && HasOtherReaders(reader_lock_)) {
    return absl::StrCat("other programs read ", source_.path,
                        ", too; `config save` changes it for all of them");
  }
  if (absl::Status status = files.Save(); !status.ok()) return std::string(status.message());
  TakeFiles(std::move(files));
  return "";
}

// A name is a key like others, but its change is that of the thing that it names.
absl::Status ConfigCommands::CompleteRename(const AgentConfig& present,
                                            std::vector<ConfigEdit>* edits) {
  const ConfigEdit edit = edits->front();
  const std::string name = edit.NewName();
  if (name.empty() || name == edit.table.name || edit.table.kind == "vport")
    return absl::OkStatus();
  if (edit.table.kind != "ves") {
    return absl::FailedPreconditionError(absl::StrCat(
        "a running ", edit.table.kind, " keeps its name; `", edit.table.kind, " add ", name,
        " ...` and `", edit.table.kind, " del ", edit.table.name, "` replace it"));
  }
  for (const VPortConfig& vport : present.vports) {
    if (vport.ves != edit.table.name) continue;
    const std::string kind = absl::AsciiStrToLower(vport.kind->noun);
    edits->push_back({{kind, vport.name}, "set", {absl::StrCat("ves=\"", name, "\"")}, ""});
  }
  return absl::OkStatus();
}

// Renames a vPort's interface first, since the rest of the change knows it by its new name.
absl::StatusOr<std::string> ConfigCommands::ApplyEdit(const ConfigEdit& edit, ConfigText next) {
  const std::string &before = edit.table.name, after = edit.NewName();
  if (edit.table.kind != "vport" || after.empty() || after == before || agent_ == nullptr)
    return Apply(std::move(next));
  if (absl::Status status = source_.parse(next).status(); !status.ok()) return status;
  if (absl::Status status = agent_->RenameVPort(before, after); !status.ok()) return status;
  const std::string renamed = absl::StrCat("rename vPort ", before, " to ", after, "\n");
  absl::StatusOr<std::string> changes = Apply(std::move(next));
  if (!changes.ok()) {
    if (absl::Status status = agent_->RenameVPort(after, before); !status.ok())
      LogWarning(status.message());
    return changes;
  }
  LogInfo(InOneLine(renamed));
  return absl::StrCat(renamed, *changes);
}

absl::StatusOr<Answer> ConfigCommands::Run(const std::string& kind, const std::string& verb,
                                           std::vector<std::string> arguments) {
  const auto flag = std::remove(arguments.begin(), arguments.end(), "--temporary");
  const bool temporary = flag != arguments.end();
  arguments.erase(flag, arguments.end());
  if (arguments.empty()) return absl::InvalidArgumentError(absl::StrCat("which ", kind, "?"));
  std::vector<ConfigEdit> edits;
  if (verb == "del") {
    for (const std::string& name : arguments) edits.push_back({{kind, name}, verb, {}, ""});
  } else {
    edits.push_back({{kind, arguments[0]}, verb, {arguments.begin() + 1, arguments.end()}, ""});
  }
  const absl::StatusOr<AgentConfig> present = Present();
  if (!present.ok()) return present.status();
  if (absl::Status status = CompleteRename(*present, &edits); !status.ok()) return status;
  ConfigText next = text_;
  for (const ConfigEdit& edit : edits) {
    absl::Status status =
        verb == "del" && kind == "ves" ? CheckUnused(*present, edit.table.name) : absl::OkStatus();
    if (status.ok()) status = edit.ApplyTo(&next);
    if (!status.ok()) return status;
  }
  const absl::StatusOr<std::string> changes = ApplyEdit(edits[0], std::move(next));
  if (!changes.ok()) return WithoutPlaces(changes.status());
  const std::string why_unsaved = temporary ? "temporary" : SaveEdits(edits);
  for (ConfigEdit& edit : edits) {
    const bool is_new_name = IsNewName(edit.table);
    if (verb == "del" && !is_new_name) {
      const auto former =
          std::remove_if(unsaved_.begin(), unsaved_.end(), [&edit](const ConfigEdit& other) {
            return other.table.kind == edit.table.kind && other.table.name == edit.table.name;
          });
      unsaved_.erase(former, unsaved_.end());
      ConfigText files = files_;
      if (!edit.ApplyTo(&files).ok()) continue;  // it never was in the files
    }
    edit.why_unsaved = why_unsaved;
    if (!why_unsaved.empty()) unsaved_.push_back(std::move(edit));
  }
  WriteUnsaved(source_.statedir, unsaved_);
  return EditAnswer(*changes, why_unsaved);
}

absl::StatusOr<Answer> ConfigCommands::Diff() const {
  const absl::StatusOr<ConfigText> files = source_.load();
  if (!files.ok()) return files.status();
  if (absl::Status status = source_.parse(*files).status(); !status.ok()) return status;
  std::vector<ConfigEdit> kept;
  std::vector<std::string> dropped;
  const absl::StatusOr<AgentConfig> config = source_.parse(WithUnsaved(*files, &kept, &dropped));
  if (!config.ok()) return config.status();
  const absl::StatusOr<AgentConfig> present = Present();
  if (!present.ok()) return present.status();
  const std::string changes = ConfigDiff::Between(*present, *config).text;
  return Answer({{"reload", ToJsonLines(changes)},
                 {"lines", ToJsonLines(changes.empty() ? "" : files->ChangesFrom(files_))},
                 {"not_saved", ToJsonLines(text_.ChangesFrom(files_))}},
                DiffText);
}

absl::StatusOr<Answer> ConfigCommands::Save(const std::vector<std::string>& arguments) {
  if (!arguments.empty()) {
    if (arguments[0] == "--ours") return SaveOurs();
    if (arguments[0] == "--theirs") return TakeTheirs();
    return absl::InvalidArgumentError(
        absl::StrCat("\"", arguments[0], "\" is neither --ours nor --theirs"));
  }
  if (unsaved_.empty()) return SavedAnswer("");
  const absl::StatusOr<ConfigText> files = source_.load();
  if (!files.ok()) return files.status();
  if (const std::string theirs = files->ChangesFrom(files_); !theirs.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the files were changed by somebody since they were read:\n", theirs,
        "and these commands are not saved:\n", text_.ChangesFrom(files_),
        "`config save --ours` applies and saves both, the commands after the files' changes; "
        "`config save --theirs` applies the files, and undoes the commands"));
  }
  return SaveOurs();
}

absl::StatusOr<Answer> ConfigCommands::SaveOurs() {
  absl::StatusOr<ConfigText> files = source_.load();
  if (!files.ok()) return files.status();
  ConfigText next = *files;
  for (const ConfigEdit& edit : unsaved_) {
    if (absl::Status status = edit.ApplyTo(&next); !status.ok()) {
      return absl::Status(
          status.code(),
          absl::StrCat("save `", edit.ToString(), "`: ", status.message(), "; nothing is saved"));
    }
  }
  const std::string saved = next.Changes();
  if (const absl::StatusOr<std::string> changes = Apply(next); !changes.ok())
    return changes.status();
  if (absl::Status status = next.Save(); !status.ok()) return status;
  TakeFiles(std::move(next));
  unsaved_.clear();
  WriteUnsaved(source_.statedir, unsaved_);
  return SavedAnswer(saved);
}

absl::StatusOr<Answer> ConfigCommands::TakeTheirs() {
  std::vector<ConfigEdit> edits = std::exchange(unsaved_, {});
  std::vector<std::string> dropped;
  const absl::StatusOr<std::string> changes = ReloadFiles(&dropped);
  if (!changes.ok()) {
    unsaved_ = std::move(edits);
    return changes.status();
  }
  for (const ConfigEdit& edit : edits) dropped.push_back(edit.ToString());
  return ChangesAnswer(*changes, dropped);
}

absl::StatusOr<Answer> ConfigCommands::Keys(const std::string& name) const {
  const auto found = std::find_if(source_.kinds.begin(), source_.kinds.end(),
                                  [&name](const Kind& kind) { return kind.name == name; });
  if (found != source_.kinds.end())
    return Answer({{"keys", found->keys}},
                  [](const Json& json) { return TextOfLines(json["keys"]); });
  const std::string kinds =
      absl::StrJoin(source_.kinds, ", ",
                    [](std::string* out, const Kind& kind) { absl::StrAppend(out, kind.name); });
  return absl::NotFoundError(absl::StrCat("there are no tables [[", name, "]]; there are ", kinds));
}

void ConfigCommands::RegisterReload(CommandRegistry* registry) {
  registry->Register({{"reload", "", "apply the configuration files, all of them or nothing",
                       CommandRegistry::Access::kReadWrite, "changes",
                       [this](const CommandRegistry::Arguments&) { return Reload(); }}});
}

void ConfigCommands::Register(Agent* agent, CommandRegistry* registry) {
  using Arguments = CommandRegistry::Arguments;
  using enum CommandRegistry::Access;
  agent_ = agent;
  registry->Register({
      {"config/diff", "", "what a reload would change, and what is not saved yet", kReadOnly,
       "config_diff", [this](const Arguments&) { return Diff(); }},
      {"config/save", "[--ours | --theirs]",
       "write unsaved changes into the files; --ours: also if somebody changed them, --theirs: "
       "undo "
       "what is not saved",
       kReadWrite, "saved", [this](const Arguments& arguments) { return Save(arguments); }},
      {"config/show", "", "the present configuration, also what is not saved yet", kReadOnly,
       "config",
       [this](const Arguments&) {
         return Answer({{"config", text_.text()}},
                       [](const Json& json) { return TextOf(json, "config"); });
       }},
      {"config/keys", "KIND", "the keys of a table, such as ves", kReadOnly, "config_keys",
       [this](const Arguments& arguments) { return Keys(arguments[0]); }},
  });
  for (const Kind& kind : source_.kinds) RegisterEdits(kind.name, registry);
}

void ConfigCommands::RegisterEdits(const std::string& kind, CommandRegistry* registry) {
  using enum CommandRegistry::Access;
  const auto handler = [this, kind](const char* verb) {
    return [this, kind, verb](const CommandRegistry::Arguments& arguments) {
      return Run(kind, verb, arguments);
    };
  };
  registry->Register({
      {kind + "/add", "NAME [KEY=VALUE...]",
       absl::StrCat("add a ", kind, ", and save it; --temporary: not into the files"), kReadWrite,
       "edited", handler("add")},
      {kind + "/set", "NAME KEY=VALUE...",
       absl::StrCat("change keys of a ", kind, ", and save it; KEY= removes one; --temporary"),
       kReadWrite, "edited", handler("set")},
      {kind + "/del", "NAME...",
       absl::StrCat("remove a ", kind, ", or several, and save it; --temporary"), kReadWrite,
       "edited", handler("del")},
  });
}

}  // namespace eoib
