// CommandRegistry: the commands of the control socket. Each component's owner registers the commands of that component.
#ifndef EOIB_CONTROL_DAEMON_COMMAND_REGISTRY_H_
#define EOIB_CONTROL_DAEMON_COMMAND_REGISTRY_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace eoib {

// Control thread only.
class CommandRegistry {
 public:
  using Arguments = std::vector<std::string>;
  // Returns text for the operator. The message of an error is shown as it is.
  using Handler = std::function<absl::StatusOr<std::string>(const Arguments&)>;

  struct Command {
    std::string name;   // "fdb/show"; the operator may also type "fdb show"
    std::string usage;  // "[VES]": printed by list-commands after the name
    std::string help;   // one line for the manual
    size_t min_arguments = 0;
    size_t max_arguments = 0;
    Handler handler;
  };

  // Starts with one command, "list-commands", as unixctl does.
  CommandRegistry();
  CommandRegistry(const CommandRegistry&) = delete;
  CommandRegistry& operator=(const CommandRegistry&) = delete;

  // CHECKs that the name is new. A name has at most four words, separated by slashes.
  void Register(Command command);
  // A command without arguments that always succeeds.
  void RegisterText(std::string name, std::string help, std::function<std::string()> text);
  void Unregister(const std::string& name);

  // Runs `method` with `arguments`. Accepts both "fdb/show" and "fdb" with a first argument "show"; the longest matching name
  // wins. kInvalidArgument for an unknown command (the message suggests similar ones) or a wrong number of arguments (the
  // message gives the usage).
  absl::StatusOr<std::string> Run(const std::string& method, const Arguments& arguments) const;

 private:
  absl::Status Unknown(const std::string& method, const Arguments& arguments) const;

  std::map<std::string, Command> commands_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_DAEMON_COMMAND_REGISTRY_H_
