#include "vswitch/base/daemon/command_registry.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "vswitch/base/check.h"
#include "vswitch/base/daemon/nearest_name.h"

namespace eoib {
namespace {

// The most words in a command's name.
constexpr size_t kMaxWords = 4;
// Of arguments: more than a request may have.
constexpr size_t kUnlimited = 1'000'000;

Json ToJson(const CommandRegistry::Command& command) {
  return {{"name", command.name},
          {"usage", command.usage},
          {"help", command.help},
          {"read_only", command.access == CommandRegistry::Access::kReadOnly},
          {"schema", command.schema}};
}

struct ArgumentCount {
  size_t fewest, most;
};

// The number of arguments of a usage, which is consumed up to its end or a closing bracket.
ArgumentCount CountArguments(absl::string_view* usage) {
  ArgumentCount all = {kUnlimited, 0}, form = {0, 0};
  for (;;) {
    *usage = absl::StripLeadingAsciiWhitespace(*usage);
    if (absl::ConsumePrefix(usage, "[")) {
      form.most += CountArguments(usage).most;
      continue;
    }
    const bool ends = usage->empty() || absl::ConsumePrefix(usage, "]");
    if (ends || absl::ConsumePrefix(usage, "| ")) {
      all = {std::min(all.fewest, form.fewest), std::max(all.most, form.most)};
      if (ends) return all;
      form = {0, 0};
      continue;
    }
    const absl::string_view word = usage->substr(0, usage->find_first_of(" ]"));
    ++form.fewest;
    form.most += absl::EndsWith(word, "...") ? kUnlimited : 1;
    usage->remove_prefix(word.size());
  }
}

// In the format of Open vSwitch, because its users' scripts parse it.
std::string ListText(const Json& list) {
  std::string text = "The available commands are:\n";
  for (const Json& command : list["commands"]) {
    std::string line =
        absl::StrFormat("  %-23s %s", TextOf(command, "name"), TextOf(command, "usage"));
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string HelpText(const Json& list) {
  std::string text;
  for (const Json& command : list["commands"]) {
    const std::string usage = TextOf(command, "usage");
    const std::string name = absl::StrReplaceAll(TextOf(command, "name"), {{"/", " "}});
    absl::StrAppend(&text, name, usage.empty() ? "" : " ", usage, "\n    ", TextOf(command, "help"),
                    "\n");
  }
  return text;
}

// The commands whose names `wanted` selects.
Json List(const std::map<std::string, CommandRegistry::Command>& commands,
          absl::FunctionRef<bool(const std::string& name)> wanted) {
  Json list = Json::array();
  for (const auto& [name, command] : commands) {
    if (wanted(name)) list.push_back(ToJson(command));
  }
  return {{"commands", std::move(list)}};
}

Answer ListCommands(const std::map<std::string, CommandRegistry::Command>& commands) {
  return Answer(List(commands, [](const std::string&) { return true; }), ListText);
}

// Suggestions for an unknown command: the nearest spelling, or all names below `method` ("fdb/show"
// for "fdb").
std::vector<std::string> Resembling(const std::map<std::string, CommandRegistry::Command>& commands,
                                    const std::string& method, const std::string& first_argument) {
  std::vector<std::string> names, below;
  for (const auto& [name, command] : commands) {
    names.push_back(name);
    if (!method.empty() && absl::StartsWith(name, absl::StrCat(method, "/"))) below.push_back(name);
  }
  if (first_argument.empty() && !below.empty()) return below;
  const std::string joined = absl::StrCat(method, "/", first_argument);
  const std::string nearest = NearestName(first_argument.empty() ? method : joined, names);
  if (!nearest.empty()) return {nearest};
  if (!below.empty()) return below;
  const std::string near_method = NearestName(method, names);
  return near_method.empty() ? below : std::vector<std::string>{near_method};
}

absl::Status CheckArguments(const CommandRegistry::Command& command, size_t given) {
  absl::string_view usage = command.usage;
  const auto [fewest, most] = CountArguments(&usage);
  if (given >= fewest && given <= most) return absl::OkStatus();
  const std::string range = most >= kUnlimited ? absl::StrCat("at least ", fewest)
                            : most != fewest   ? absl::StrCat(fewest, " to ", most)
                                               : absl::StrCat(most);
  return absl::InvalidArgumentError(
      absl::StrCat("\"", command.name, "\" takes ", range, " arguments, not ", given,
                   "; usage: ", command.name, command.usage.empty() ? "" : " ", command.usage));
}

}  // namespace

CommandRegistry::CommandRegistry() {
  using enum Access;
  Register({
      {"list-commands", "", "Lists the commands that this program understands.", kReadOnly,
       "commands", [this](const Arguments&) { return ListCommands(commands_); }},
      {"help", "[COMMAND...]", "all commands, or what one does", kReadOnly, "commands",
       [this](const Arguments& words) { return Help(words); }},
  });
}

void CommandRegistry::Register(std::initializer_list<Command> table) {
  for (const Command& command : table) {
    EOIB_CHECK(command.handler != nullptr);
    EOIB_CHECK(commands_.emplace(command.name, command).second);
  }
}

void CommandRegistry::Unregister(const std::string& name) { commands_.erase(name); }

absl::StatusOr<Answer> CommandRegistry::Call(const std::string& method, const Arguments& arguments,
                                             Access access) const {
  // From the longest name down, so that "fdb show" is found before a command "fdb" with an argument
  // "show".
  for (size_t words = std::min(arguments.size(), kMaxWords - 1) + 1; words-- > 0;) {
    const Arguments rest(arguments.begin() + words, arguments.end());
    std::string name = method;
    for (size_t i = 0; i < words; ++i) absl::StrAppend(&name, "/", arguments[i]);
    const auto found = commands_.find(name);
    if (found == commands_.end()) continue;
    const Command& command = found->second;
    if (access < command.access) {
      return absl::PermissionDeniedError(
          absl::StrCat("\"", name, "\" may change something, and this socket is read-only"));
    }
    if (absl::Status status = CheckArguments(command, rest.size()); !status.ok()) return status;
    // Copies: the handler may unregister its own command.
    const Handler handler = command.handler;
    const bool reports = observer_ != nullptr && command.access != Access::kReadOnly;
    absl::StatusOr<Answer> answer = handler(rest);
    if (reports && answer.ok()) {
      observer_(absl::StrCat(absl::StrReplaceAll(name, {{"/", " "}}), rest.empty() ? "" : " ",
                             absl::StrJoin(rest, " ")));
    }
    return answer;
  }
  return Unknown(method, arguments);
}

absl::StatusOr<std::string> CommandRegistry::Run(const std::string& method,
                                                 const Arguments& arguments, Access access) const {
  const absl::StatusOr<Answer> answer = Call(method, arguments, access);
  if (!answer.ok()) return answer.status();
  return answer->Text();
}

// Of one command, or of all below a name ("help fdb").
absl::StatusOr<Answer> CommandRegistry::Help(const Arguments& words) const {
  if (words.empty()) return ListCommands(commands_);
  const std::string wanted = absl::StrReplaceAll(absl::StrJoin(words, "/"), {{" ", "/"}});
  const Json list = List(commands_, [&wanted](const std::string& name) {
    return name == wanted || absl::StartsWith(name, wanted + "/");
  });
  if (!list["commands"].empty()) return Answer(list, HelpText);
  return Unknown(words[0], Arguments(words.begin() + 1, words.end()));
}

absl::Status CommandRegistry::Unknown(const std::string& method, const Arguments& arguments) const {
  if (!starting_.empty())
    return absl::UnavailableError(
        absl::StrCat("\"", method, "\" is not available yet: ", starting_));
  const std::string first = arguments.empty() ? "" : arguments.front();
  const auto resembling = Resembling(commands_, method, first);
  // As an operator types it.
  const std::string nearest = absl::StrReplaceAll(absl::StrJoin(resembling, ", "), {{"/", " "}});
  const std::string hint = resembling.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?");
  const auto begins = [&method](const auto& command) {
    return absl::StartsWith(command.first, method + "/");
  };
  const bool is_half = !first.empty() && std::any_of(commands_.begin(), commands_.end(), begins);
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", method, is_half ? " " : "", is_half ? first : "", "\" is not a valid command", hint,
      " (use \"list-commands\" to see a list of valid commands)"));
}

}  // namespace eoib
