#include "control/daemon/command_registry.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "control/daemon/nearest_name.h"
#include "vswitch/base/check.h"

namespace eoib {
namespace {

// The most words in a command's name.
constexpr size_t kMaxWords = 4;

// In the format of Open vSwitch, because its users' scripts parse it.
std::string ListCommands(const std::map<std::string, CommandRegistry::Command>& commands) {
  std::string text = "The available commands are:\n";
  for (const auto& [name, command] : commands) {
    std::string line = absl::StrFormat("  %-23s %s", name, command.usage);
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

// Suggestions for an unknown command: the nearest spelling, or all names below `method` ("fdb/show" for "fdb").
std::vector<std::string> Resembling(const std::map<std::string, CommandRegistry::Command>& commands, const std::string& method,
                                    const std::string& first_argument) {
  std::vector<std::string> names, below;
  for (const auto& [name, command] : commands) {
    names.push_back(name);
    if (!method.empty() && absl::StartsWith(name, absl::StrCat(method, "/"))) below.push_back(name);
  }
  const std::string joined = absl::StrCat(method, "/", first_argument);
  const std::string nearest = NearestName(first_argument.empty() ? method : joined, names);
  if (!nearest.empty()) return {nearest};
  if (!below.empty()) return below;
  const std::string near_method = NearestName(method, names);
  return near_method.empty() ? below : std::vector<std::string>{near_method};
}

std::string WrongArguments(const CommandRegistry::Command& command, size_t given) {
  std::string range = absl::StrCat(command.min_arguments);
  if (command.max_arguments != command.min_arguments) absl::StrAppend(&range, " to ", command.max_arguments);
  return absl::StrCat("\"", command.name, "\" takes ", range, " arguments, not ", given, "; usage: ", command.name,
                      command.usage.empty() ? "" : " ", command.usage);
}

}  // namespace

CommandRegistry::CommandRegistry() {
  Register({.name = "list-commands",
            .help = "Lists the commands that this program understands.",
            .handler = [this](const Arguments&) { return ListCommands(commands_); }});
}

void CommandRegistry::Register(Command command) {
  EOIB_CHECK(command.handler != nullptr);
  EOIB_CHECK(command.min_arguments <= command.max_arguments);
  std::string name = command.name;
  EOIB_CHECK(commands_.emplace(std::move(name), std::move(command)).second);
}

void CommandRegistry::RegisterText(std::string name, std::string help, std::function<std::string()> text) {
  Register({std::move(name), "", std::move(help), 0, 0,
            [text = std::move(text)](const Arguments&) -> absl::StatusOr<std::string> { return text(); }});
}

void CommandRegistry::Unregister(const std::string& name) { commands_.erase(name); }

absl::StatusOr<std::string> CommandRegistry::Run(const std::string& method, const Arguments& arguments) const {
  // From the longest name down, so that "fdb show" is found before a command "fdb" with an argument "show".
  for (size_t words = std::min(arguments.size(), kMaxWords - 1) + 1; words-- > 0;) {
    const Arguments rest(arguments.begin() + words, arguments.end());
    std::string name = method;
    for (size_t i = 0; i < words; ++i) absl::StrAppend(&name, "/", arguments[i]);
    const auto found = commands_.find(name);
    if (found == commands_.end()) continue;
    const Command& command = found->second;
    if (rest.size() < command.min_arguments || rest.size() > command.max_arguments) {
      return absl::InvalidArgumentError(WrongArguments(command, rest.size()));
    }
    // A copy: the handler may unregister its own command.
    const Handler handler = command.handler;
    return handler(rest);
  }
  return Unknown(method, arguments);
}

absl::Status CommandRegistry::Unknown(const std::string& method, const Arguments& arguments) const {
  const auto resembling = Resembling(commands_, method, arguments.empty() ? "" : arguments.front());
  const std::string hint = resembling.empty() ? "" : absl::StrCat("; did you mean ", absl::StrJoin(resembling, ", "), "?");
  return absl::InvalidArgumentError(absl::StrCat("\"", method, "\" is not a valid command", hint,
                                                 " (use \"list-commands\" to see a list of valid commands)"));
}

}  // namespace eoib
