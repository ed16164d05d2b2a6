// CommandRegistry: the commands of the control socket. Each component's owner registers the
// commands of that component.
#ifndef EOIB_VSWITCH_BASE_DAEMON_COMMAND_REGISTRY_H_
#define EOIB_VSWITCH_BASE_DAEMON_COMMAND_REGISTRY_H_

#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "vswitch/base/daemon/answer.h"

namespace eoib {

// Control thread only.
class CommandRegistry {
 public:
  using Arguments = std::vector<std::string>;
  // Returns text and JSON for the operator. The message of an error is shown as it is.
  using Handler = std::function<absl::StatusOr<Answer>(const Arguments&)>;

  // What a client may do, and what a command needs. kReadOnly shows, and changes nothing: for
  // monitoring users, too.
  enum class Access { kReadOnly, kReadWrite };
  // A row of a component's table of commands.
  struct Command {
    std::string name;  // "fdb/show"; the operator may also type "fdb show"
    // "VES [vlan VID | vport NAME]": printed by list-commands after the name. The number of
    // arguments follows from it: those in brackets are optional, one with "..." may be repeated,
    // and " | " is between alternatives.
    std::string usage;
    std::string help;  // one line for the manual
    Access access = Access::kReadWrite;
    std::string schema = "message";  // the answer's definition in control/operator/schema
    Handler handler;
  };

  // Starts with "list-commands", as unixctl does, and "help", which explains one command.
  CommandRegistry();
  CommandRegistry(const CommandRegistry&) = delete;
  CommandRegistry& operator=(const CommandRegistry&) = delete;

  // CHECKs that the names are new. A name has at most four words, separated by slashes.
  void Register(std::initializer_list<Command> table);
  void Unregister(const std::string& name);

  // Calls `observer` with each command that succeeded and may have changed something, as an
  // operator types it.
  void OnChange(std::function<void(const std::string& command)> observer) {
    observer_ = std::move(observer);
  }

  // While the program starts, unknown commands are answered with `why`, because it has more later.
  // Empty: no longer.
  void SetStarting(std::string why) { starting_ = std::move(why); }

  // Runs `method` with `arguments`. Accepts both "fdb/show" and "fdb" with a first argument "show";
  // the longest matching name wins. kInvalidArgument for an unknown command (the message suggests
  // similar ones) or a wrong number of arguments (the message gives the usage). kPermissionDenied
  // for a command that is not read-only, with that access.
  absl::StatusOr<Answer> Call(const std::string& method, const Arguments& arguments,
                              Access access = Access::kReadWrite) const;
  // The text of the answer.
  absl::StatusOr<std::string> Run(const std::string& method, const Arguments& arguments,
                                  Access access = Access::kReadWrite) const;

 private:
  absl::StatusOr<Answer> Help(const Arguments& words) const;
  absl::Status Unknown(const std::string& method, const Arguments& arguments) const;

  std::map<std::string, Command> commands_;
  std::string starting_;
  std::function<void(const std::string& command)> observer_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_DAEMON_COMMAND_REGISTRY_H_
