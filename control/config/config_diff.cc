#include "control/config/config_diff.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/config/config_keys.h"
#include "fdb/fdb_ticks.h"

namespace eoib {
namespace {

template <typename Config>
const Config* Find(const std::vector<Config>& configs, const std::string& name) {
  const auto found = std::find_if(configs.begin(), configs.end(),
                                  [&name](const Config& one) { return one.name == name; });
  return found == configs.end() ? nullptr : &*found;
}

// Equal but for their places in the file.
template <typename Config>
bool Same(Config a, const Config& b) {
  a.line = b.line;
  return a == b;
}

#define EOIB_X(key, member, its_effect, ...) \
  if (before.member != after.member) effect = std::max(effect, Effect::its_effect);

// The FDB has ages in ticks, whose length follows from the ageing time.
Effect EffectOf(const VesConfig& before, const VesConfig& after) {
  const bool same_ticks = FdbTicks(before.ageing).tick() == FdbTicks(after.ageing).tick();
  Effect effect = same_ticks ? Effect::kInPlace : Effect::kReplaced;
  EOIB_VES_KEYS(EOIB_X)
  return effect;
}

Effect EffectOf(const VPortConfig& before, const VPortConfig& after) {
  Effect effect = before.details.MayBecome(after.details) ? Effect::kInPlace : Effect::kReplaced;
  EOIB_VPORT_KEYS(EOIB_X)
  return effect;
}
#undef EOIB_X

std::vector<std::string>* ListOf(Effect effect, ConfigDiff::Names* names) {
  if (effect == Effect::kInPlace) return &names->changed;
  return effect == Effect::kReattached ? &names->reattached : &names->replaced;
}

template <typename Config>
ConfigDiff::Names Compare(const std::vector<Config>& before, const std::vector<Config>& after) {
  ConfigDiff::Names names;
  for (const Config& config : before) {
    if (Find(after, config.name) == nullptr) names.removed.push_back(config.name);
  }
  for (const Config& config : after) {
    const Config* const old = Find(before, config.name);
    if (old == nullptr) {
      names.added.push_back(config.name);
    } else if (!Same(*old, config)) {
      ListOf(EffectOf(*old, config), &names)->push_back(config.name);
    }
  }
  return names;
}

absl::string_view NounOf(const VesConfig&) { return "VES"; }
absl::string_view NounOf(const VPortConfig& vport) { return vport.kind->noun; }
absl::string_view IfReplaced(const VesConfig&) {
  return "its vPorts lose traffic until it has joined its group";
}
absl::string_view IfReplaced(const VPortConfig& vport) { return vport.kind->if_replaced; }

// A line for each of `names`, which are of `configs`.
template <typename Config>
void Describe(const std::vector<Config>& configs, const ConfigDiff::Names& names,
              std::string* text) {
  const auto line = [&](const std::vector<std::string>& list, absl::string_view verb,
                        auto consequence) {
    for (const std::string& name : list) {
      const Config& config = *Find(configs, name);
      absl::StrAppend(text, verb, " ", NounOf(config), " ", name, consequence(config), "\n");
    }
  };
  line(names.added, "add", [](const Config&) { return ""; });
  line(names.changed, "change", [](const Config&) { return ", in place"; });
  line(names.reattached, "change",
       [](const Config&) { return ": its interface stays, the MACs behind it are learned again"; });
  line(names.replaced, "replace",
       [](const Config& config) { return absl::StrCat(": ", IfReplaced(config)); });
}

template <typename Config>
void DescribeRemoved(const std::vector<Config>& configs, const ConfigDiff::Names& names,
                     std::string* text) {
  for (const std::string& name : names.removed) {
    absl::StrAppend(text, "remove ", NounOf(*Find(configs, name)), " ", name, "\n");
  }
}

}  // namespace

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const VesConfig* FindVes(const AgentConfig& config, const std::string& name) {
  return Find(config.veses, name);
}
const VPortConfig* FindVPort(const AgentConfig& config, const std::string& name) {
  return Find(config.vports, name);
}

ConfigDiff ConfigDiff::Between(const AgentConfig& before, const AgentConfig& after) {
  ConfigDiff diff;
  diff.veses = Compare(before.veses, after.veses);
  diff.vports = Compare(before.vports, after.vports);
  for (const VPortConfig& vport : after.vports) {
    const bool stays = Find(before.vports, vport.name) != nullptr &&
                       !Contains(diff.vports.reattached, vport.name) &&
                       !Contains(diff.vports.replaced, vport.name);
    if (!stays || !Contains(diff.veses.replaced, vport.ves)) continue;
    std::erase(diff.vports.changed, vport.name);
    diff.vports.reattached.push_back(vport.name);
  }
  if (before.workers != after.workers) {
    absl::StrAppend(&diff.text, "keep workers = ", before.workers,
                    ": restart the agent for workers = ", after.workers, "\n");
  }
  DescribeRemoved(before.veses, diff.veses, &diff.text);
  Describe(after.veses, diff.veses, &diff.text);
  DescribeRemoved(before.vports, diff.vports, &diff.text);
  Describe(after.vports, diff.vports, &diff.text);
  return diff;
}

}  // namespace eoib
