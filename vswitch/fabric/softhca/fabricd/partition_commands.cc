#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "vswitch/base/daemon/log.h"
#include "vswitch/fabric/softhca/fabricd/fabric_commands.h"
#include "vswitch/fabric/softhca/subnet/subnet_config_files.h"

namespace eoib::softhca {
namespace {

using eoib::TextOf;  // not TextOf of fabric_protocol.h
using Arguments = CommandRegistry::Arguments;

absl::StatusOr<SubnetConfig> LoadFiles(const std::string& path) {
  if (!path.empty()) return LoadSubnetConfig(path);
  return absl::FailedPreconditionError(
      "eoib-fabricd has no file of partitions; start it with --config=FILE");
}

Json ToJsonLines(absl::string_view text) {
  Json lines = Json::array();
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty()))
    lines.push_back(std::string(line));
  return lines;
}

// `none`: the text if there are no lines. `head` stands above them.
Answer LinesAnswer(const char* key, absl::string_view lines, const char* none,
                   const std::string& head) {
  return Answer({{key, ToJsonLines(lines)}}, [key, none, head](const Json& json) {
    if (json[key].empty()) return std::string(none);
    std::string text = head;
    for (const Json& line : json[key]) absl::StrAppend(&text, line.get<std::string>(), "\n");
    return text;
  });
}

absl::StatusOr<Answer> Diff(const std::string& path, const Subnet& subnet) {
  const absl::StatusOr<SubnetConfig> config = LoadFiles(path);
  if (!config.ok()) return config.status();
  return LinesAnswer("reload", DiffPartitions(subnet.Partitions(), config->partitions),
                     "a reload would change nothing\n", "a reload would:\n");
}

absl::StatusOr<Answer> Save(const std::string& path, const Subnet& subnet) {
  const absl::StatusOr<SubnetConfig> before = LoadFiles(path);
  if (!before.ok()) return before.status();
  const std::string changes = DiffPartitions(before->partitions, subnet.Partitions());
  if (changes.empty()) return LinesAnswer("saved", "", "nothing to save\n", "");
  const absl::StatusOr<std::string> saved = SaveSubnetConfig(path, subnet.Partitions());
  if (!saved.ok()) return saved.status();
  LogInfo(absl::StrCat("saved the partitions to ", *saved));
  return LinesAnswer("saved", changes, "", absl::StrCat("saved to ", *saved, ":\n"));
}

}  // namespace

absl::StatusOr<Answer> ReloadPartitions(const std::string& path, Subnet* subnet) {
  const absl::StatusOr<SubnetConfig> config = LoadFiles(path);
  if (!config.ok()) {
    LogWarning(absl::StrCat("reload: nothing is changed: ", config.status().message()));
    return config.status();
  }
  const std::string changes = DiffPartitions(subnet->Partitions(), config->partitions);
  subnet->Reconfigure(*config);
  LogInfo(absl::StrCat("reloaded ", path, ": ", changes.empty() ? "nothing to change" : changes));
  return LinesAnswer("changes", changes, "nothing to change\n", "");
}

void RegisterPartitionCommands(const std::string& path, Subnet* subnet, CommandRegistry* registry) {
  using enum CommandRegistry::Access;
  registry->Register({
      {"reload", "", "apply the partitions of the --config file and its drop-ins", kReadWrite,
       "changes", [=](const Arguments&) { return ReloadPartitions(path, subnet); }},
      {"config/diff", "", "what a reload would change", kReadOnly, "fabric_config_diff",
       [=](const Arguments&) { return Diff(path, *subnet); }},
      {"config/save", "", "write the present partitions into a drop-in", kReadWrite, "saved",
       [=](const Arguments&) { return Save(path, *subnet); }},
      {"config/show", "", "the present partitions", kReadOnly, "config",
       [=](const Arguments&) {
         return Answer({{"config", ToToml(subnet->Partitions())}},
                       [](const Json& json) { return TextOf(json, "config"); });
       }},
  });
}

}  // namespace eoib::softhca
