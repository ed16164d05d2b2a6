// ConfigEdit: an operator's command on one table of the configuration, and the list of those that
// the files do not have.
#ifndef EOIB_CONTROL_OPERATOR_CONFIG_EDIT_H_
#define EOIB_CONTROL_OPERATOR_CONFIG_EDIT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "control/config/config_text.h"
#include "control/operator/agent_commands.h"

namespace eoib {

struct ConfigEdit {
  ConfigText::Table table;
  std::string verb;                      // "add", "set", "del"
  std::vector<std::string> assignments;  // not of "del"
  std::string why_unsaved;               // empty: it is in the files

  std::string ToString() const;  // "vport add db0 ves=blue"
  std::string NewName() const;   // that "set" gives the table; empty: none
  absl::Status ApplyTo(ConfigText* text) const;
};

// Keeps the commands in the state directory, for the next run.
void WriteUnsaved(const std::string& statedir, const std::vector<ConfigEdit>& edits);
// Returns the commands that the last run with that state directory did not save. Logs them, and
// forgets them.
std::vector<UnsavedCommand> TakeUnsaved(const std::string& statedir);

}  // namespace eoib

#endif  // EOIB_CONTROL_OPERATOR_CONFIG_EDIT_H_
