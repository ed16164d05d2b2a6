#include "control/config_diff.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "fdb/fdb_ticks.h"

namespace eoib {
namespace {

template <typename Config>
const Config* Find(const std::vector<Config>& configs, const std::string& name) {
  const auto found = std::find_if(configs.begin(), configs.end(), [&name](const Config& one) { return one.name == name; });
  return found == configs.end() ? nullptr : &*found;
}

// Equal but for their places in the file.
template <typename Config>
bool Same(Config a, const Config& b) {
  a.line = b.line;
  return a == b;
}

// The FDB has ages in ticks, whose length follows from the ageing time. The other keys make the queue pair and the group.
bool ChangesInPlace(VesConfig before, const VesConfig& after) {
  if (FdbTicks(before.ageing).tick() != FdbTicks(after.ageing).tick()) return false;
  before.vlans = after.vlans;
  before.group_fwd_mask = after.group_fwd_mask;
  before.ageing = after.ageing;
  before.fdb_limit = after.fdb_limit;
  before.vport_fdb_limit = after.vport_fdb_limit;
  before.damping = after.damping;
  before.queues = after.queues;
  return Same(before, after);
}

bool KeepsInterface(const VPortConfig& before, const VPortConfig& after) {
  return before.type == after.type && before.netdev == after.netdev && before.socket == after.socket &&
         before.connects == after.connects && before.mac == after.mac && before.details == after.details;
}

template <typename Config, typename InPlace>
ConfigDiff::Names Compare(const std::vector<Config>& before, const std::vector<Config>& after, InPlace in_place) {
  ConfigDiff::Names names;
  for (const Config& config : before) {
    if (Find(after, config.name) == nullptr) names.removed.push_back(config.name);
  }
  for (const Config& config : after) {
    const Config* const old = Find(before, config.name);
    if (old == nullptr) {
      names.added.push_back(config.name);
    } else if (!Same(*old, config)) {
      (in_place(*old, config) ? names.changed : names.replaced).push_back(config.name);
    }
  }
  return names;
}

void Describe(const char* what, const ConfigDiff::Names& names, absl::string_view changed, absl::string_view replaced,
              std::string* text) {
  const auto line = [&](const std::vector<std::string>& list, absl::string_view verb, absl::string_view consequence) {
    for (const std::string& name : list) absl::StrAppend(text, verb, " ", what, " ", name, consequence, "\n");
  };
  line(names.removed, "remove", "");
  line(names.added, "add", "");
  line(names.changed, "change", changed);
  line(names.replaced, "replace", replaced);
}

}  // namespace

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const VesConfig* FindVes(const AgentConfig& config, const std::string& name) { return Find(config.veses, name); }
const VPortConfig* FindVPort(const AgentConfig& config, const std::string& name) { return Find(config.vports, name); }

ConfigDiff ConfigDiff::Between(const AgentConfig& before, const AgentConfig& after) {
  ConfigDiff diff;
  diff.veses = Compare(before.veses, after.veses, ChangesInPlace);
  diff.vports = Compare(before.vports, after.vports, KeepsInterface);
  for (const VPortConfig& vport : after.vports) {
    const bool stays = Find(before.vports, vport.name) != nullptr && !Contains(diff.vports.changed, vport.name) &&
                       !Contains(diff.vports.replaced, vport.name);
    if (stays && Contains(diff.veses.replaced, vport.ves)) diff.vports.changed.push_back(vport.name);
  }
  diff.fdb_limit = before.fdb_limit != after.fdb_limit;
  if (diff.fdb_limit) absl::StrAppend(&diff.text, "change fdb_limit of the host\n");
  Describe("VES", diff.veses, ", in place", ": its vPorts lose traffic until it has joined its group", &diff.text);
  Describe("vPort", diff.vports, ": its interface stays, the MACs behind it are learned again", ": its interface is made again",
           &diff.text);
  return diff;
}

}  // namespace eoib
