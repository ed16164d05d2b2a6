// ConfigDiff: what has to change so that an agent with one configuration gets another. Pure; any
// thread.
#ifndef EOIB_CONTROL_CONFIG_CONFIG_DIFF_H_
#define EOIB_CONTROL_CONFIG_CONFIG_DIFF_H_

#include <string>
#include <vector>

#include "control/config/config.h"

namespace eoib {

// The names of VESes and vPorts, in the order of the configurations.
struct ConfigDiff {
  struct Names {
    std::vector<std::string> removed, added;
    std::vector<std::string> changed;  // in place
    // A vPort that keeps its interface and its counters, but not the MACs learned there.
    std::vector<std::string> reattached;
    // Made again: a VES with another partition, a vPort with another interface.
    std::vector<std::string> replaced;
  };

  static ConfigDiff Between(const AgentConfig& before, const AgentConfig& after);

  bool empty() const { return text.empty(); }

  Names veses;
  Names vports;      // those of a replaced VES that stay are reattached
  std::string text;  // for the operator, a line for each change; empty: nothing changes
};

bool Contains(const std::vector<std::string>& names, const std::string& name);
const VesConfig* FindVes(const AgentConfig& config, const std::string& name);  // or null
const VPortConfig* FindVPort(const AgentConfig& config, const std::string& name);

}  // namespace eoib

#endif  // EOIB_CONTROL_CONFIG_CONFIG_DIFF_H_
