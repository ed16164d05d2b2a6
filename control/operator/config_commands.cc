#include "control/operator/config_commands.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "control/config/config_diff.h"
#include "vswitch/base/daemon/log.h"

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

Answer ChangesAnswer(const std::string& changes, const char* if_none) {
  return Answer({{"changes", ToJsonLines(changes)}}, [if_none](const Json& json) {
    return json["changes"].empty() ? std::string(if_none) : TextOfLines(json["changes"]);
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
  return absl::StrCat(text, "not saved yet (`config save`):\n", TextOfLines(diff["not_saved"]));
}

}  // namespace

absl::StatusOr<std::string> ConfigCommands::Apply(ConfigText next) {
  const absl::StatusOr<AgentConfig> config = source_.parse(next);
  if (!config.ok()) return config.status();
  const absl::StatusOr<AgentConfig> former =
      agent_ != nullptr ? agent_->config() : source_.parse(text_);
  if (!former.ok()) return former.status();
  const std::string changes = ConfigDiff::Between(*former, *config).text;
  if (absl::Status status = agent_ != nullptr ? agent_->Apply(*config) : absl::OkStatus();
      !status.ok())
    return status;
  text_ = std::move(next);
  if (!changes.empty()) LogInfo(absl::StrCat("configuration changed: ", InOneLine(changes)));
  return changes;
}

absl::StatusOr<Answer> ConfigCommands::Reload() {
  absl::StatusOr<ConfigText> files = source_.load();
  absl::StatusOr<std::string> changes = files.ok() ? Apply(*std::move(files)) : files.status();
  if (!changes.ok()) {
    LogWarning(absl::StrCat("reload: nothing is changed: ", InOneLine(changes.status().message())));
    return changes.status();
  }
  if (changes->empty()) LogInfo("reload: nothing to change");
  return ChangesAnswer(*changes, "nothing to change\n");
}

absl::StatusOr<Answer> ConfigCommands::ApplyEdit(const Edit& edit) {
  ConfigText next = text_;
  if (absl::Status status = edit(&next); !status.ok()) return status;
  const absl::StatusOr<std::string> changes = Apply(std::move(next));
  if (!changes.ok()) return WithoutPlaces(changes.status());
  return ChangesAnswer(*changes, "nothing to change\n");
}

absl::StatusOr<Answer> ConfigCommands::Diff() const {
  const absl::StatusOr<ConfigText> files = source_.load();
  if (!files.ok()) return files.status();
  const absl::StatusOr<AgentConfig> config = source_.parse(*files);
  if (!config.ok()) return config.status();
  const std::string changes = ConfigDiff::Between(agent_->config(), *config).text;
  return Answer({{"reload", ToJsonLines(changes)},
                 {"lines", ToJsonLines(changes.empty() ? "" : files->ChangesFrom(text_))},
                 {"not_saved", ToJsonLines(text_.IsChanged() ? text_.Changes() : "")}},
                DiffText);
}

absl::StatusOr<Answer> ConfigCommands::Save() {
  const std::string changes = text_.IsChanged() ? text_.Changes() : "";
  if (absl::Status status = changes.empty() ? absl::OkStatus() : text_.Save(); !status.ok())
    return status;
  return Answer({{"saved", ToJsonLines(changes)}}, [](const Json& json) {
    return json["saved"].empty() ? "nothing to save\n"
                                 : absl::StrCat("saved:\n", TextOfLines(json["saved"]));
  });
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
      {"config/save", "", "write the changes of commands into the files", kReadWrite, "saved",
       [this](const Arguments&) { return Save(); }},
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
  using Arguments = CommandRegistry::Arguments;
  using enum CommandRegistry::Access;
  registry->Register({
      {kind + "/add", "NAME [KEY=VALUE...]", absl::StrCat("add a ", kind, " to the configuration"),
       kReadWrite, "changes",
       [this, kind](const Arguments& arguments) {
         return ApplyEdit([&](ConfigText* text) {
           return text->Add({kind, arguments[0]}, absl::MakeConstSpan(arguments).subspan(1));
         });
       }},
      {kind + "/set", "NAME KEY=VALUE...",
       absl::StrCat("change keys of a ", kind, "; KEY= removes one"), kReadWrite, "changes",
       [this, kind](const Arguments& arguments) {
         return ApplyEdit([&](ConfigText* text) {
           return text->Set({kind, arguments[0]}, absl::MakeConstSpan(arguments).subspan(1));
         });
       }},
      {kind + "/del", "NAME...", absl::StrCat("remove a ", kind, ", or several"), kReadWrite,
       "changes",
       [this, kind](const Arguments& arguments) {
         return ApplyEdit([&](ConfigText* text) {
           absl::Status status;
           for (const std::string& name : arguments) {
             if (status.ok() && kind == "ves") status = CheckUnused(agent_->config(), name);
             if (status.ok()) status = text->Remove({kind, name});
           }
           return status;
         });
       }},
  });
}

}  // namespace eoib
