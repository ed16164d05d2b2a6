// ConfigCommands: an operator's changes of the configuration while the program runs: `ves`,
// `vport`, `gateway` and `uplink` `add|set|del`, `reload` (also SIGHUP), and `config
// diff|save|show`. Each change is checked as a whole file would be, then applied as a whole or not
// at all, then saved. A change that cannot be saved, or shall not (--temporary), stays in effect:
// the answer says so, and a reload applies it to the new files again.
//
// Control thread.
#ifndef EOIB_CONTROL_OPERATOR_CONFIG_COMMANDS_H_
#define EOIB_CONTROL_OPERATOR_CONFIG_COMMANDS_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/agent.h"
#include "control/config/config.h"
#include "control/config/config_text.h"
#include "control/operator/config_edit.h"
#include "vswitch/base/daemon/command_registry.h"
#include "vswitch/base/daemon/metric_set.h"
#include "vswitch/base/unique_fd.h"

namespace eoib {

class ConfigCommands {
 public:
  struct Kind {
    std::string name;  // "ves", "vport", "gateway", "uplink"
    std::vector<std::string> keys;
  };
  struct Source {
    std::string path;                                  // of the main file
    std::function<absl::StatusOr<ConfigText>()> load;  // the files, as they are now
    std::function<absl::StatusOr<AgentConfig>(const ConfigText&)> parse;
    std::vector<Kind> kinds;  // of tables that have commands
    std::string statedir;     // keeps what is not saved, for TakeUnsaved
  };

  // `text` is what the agent runs with, or will start with.
  ConfigCommands(ConfigText text, Source source);
  ConfigCommands(const ConfigCommands&) = delete;
  ConfigCommands& operator=(const ConfigCommands&) = delete;

  const ConfigText& text() const { return text_; }
  std::vector<UnsavedCommand> unsaved() const;
  void Collect(MetricSet* metrics) const;
  void WarnOfUnsaved() const;  // in the log, before the program ends
  // Applies the files, and what is not saved on top of them; while there is no agent, it only takes
  // them over into text(). Returns what changed, for the operator.
  absl::StatusOr<Answer> Reload();
  // The command reload. The registry must not run the commands after the object is gone.
  void RegisterReload(CommandRegistry* registry);
  // The other commands. `agent` runs with text(), and outlives the object; null in tests.
  void Register(Agent* agent, CommandRegistry* registry);

 private:
  void RegisterEdits(const std::string& kind, CommandRegistry* registry);
  absl::StatusOr<AgentConfig> Present() const;
  absl::StatusOr<std::string> Apply(ConfigText next);
  absl::StatusOr<std::string> ReloadFiles(std::vector<std::string>* dropped);
  absl::StatusOr<Answer> Run(const std::string& kind, const std::string& verb,
                             std::vector<std::string> arguments);
  static absl::Status CompleteRename(const AgentConfig& present, std::vector<ConfigEdit>* edits);
  absl::StatusOr<std::string> ApplyEdit(const ConfigEdit& edit, ConfigText next);
  bool IsNewName(const ConfigText::Table& table) const;
  std::string SaveEdits(const std::vector<ConfigEdit>& edits);
  ConfigText WithUnsaved(const ConfigText& files, std::vector<ConfigEdit>* kept,
                         std::vector<std::string>* dropped) const;
  void TakeFiles(ConfigText files);
  absl::StatusOr<Answer> Diff() const;
  absl::StatusOr<Answer> Keys(const std::string& kind) const;
  absl::StatusOr<Answer> Save(const std::vector<std::string>& arguments);
  absl::StatusOr<Answer> SaveOurs();
  absl::StatusOr<Answer> TakeTheirs();

  ConfigText files_;                 // as they were read or written last
  std::vector<ConfigEdit> unsaved_;  // in the order in which they were made
  ConfigText text_;                  // files_ with the edits of unsaved_
  UniqueFd reader_lock_;             // of the main file
  const Source source_;
  Agent* agent_ = nullptr;  // null: it waits for its HCA
};

}  // namespace eoib

#endif  // EOIB_CONTROL_OPERATOR_CONFIG_COMMANDS_H_
