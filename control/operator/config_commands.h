// ConfigCommands: an operator's changes of the configuration while the program runs: `ves`,
// `vport`, `gateway` and `uplink` `add|set|del`, `reload` (also SIGHUP), and `config
// diff|save|show`. Each change is checked as a whole file would be; then all of it is applied, or
// nothing.
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
#include "vswitch/base/daemon/command_registry.h"

namespace eoib {

class ConfigCommands {
 public:
  struct Kind {
    std::string name;  // "ves", "vport", "gateway", "uplink"
    std::vector<std::string> keys;
  };
  struct Source {
    std::function<absl::StatusOr<ConfigText>()> load;  // the files, as they are now
    std::function<absl::StatusOr<AgentConfig>(const ConfigText&)> parse;
    std::vector<Kind> kinds;  // of tables that have commands
  };

  // `text` is what the agent runs with, or will start with.
  ConfigCommands(ConfigText text, Source source)
      : text_(std::move(text)), source_(std::move(source)) {}
  ConfigCommands(const ConfigCommands&) = delete;
  ConfigCommands& operator=(const ConfigCommands&) = delete;

  const ConfigText& text() const { return text_; }
  // Applies the files; while there is no agent, it only takes them over into text(). Returns what
  // changed, for the operator. Changes that were not saved are lost.
  absl::StatusOr<Answer> Reload();
  // The command reload. The registry must not run the commands after the object is gone.
  void RegisterReload(CommandRegistry* registry);
  // The other commands. `agent` runs with text(), and outlives the object.
  void Register(Agent* agent, CommandRegistry* registry);

 private:
  using Edit = std::function<absl::Status(ConfigText*)>;

  void RegisterEdits(const std::string& kind, CommandRegistry* registry);
  absl::StatusOr<std::string> Apply(ConfigText next);
  absl::StatusOr<Answer> ApplyEdit(const Edit& edit);
  absl::StatusOr<Answer> Diff() const;
  absl::StatusOr<Answer> Keys(const std::string& kind) const;
  absl::StatusOr<Answer> Save();

  ConfigText text_;
  const Source source_;
  Agent* agent_ = nullptr;  // null: it waits for its HCA
};

}  // namespace eoib

#endif  // EOIB_CONTROL_OPERATOR_CONFIG_COMMANDS_H_
