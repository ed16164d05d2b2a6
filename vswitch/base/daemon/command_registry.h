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

  struct Command {
    std::string name;   // "fdb/show"; the operator may also type "fdb show"
    std::string usage;  // "[VES]": printed by list-commands after the name
    std::string help;   // one line for the manual
    size_t min_arguments = 0;
    size_t max_arguments = 0;
    Handler handler;
    bool read_only = false;  // shows, and changes nothing: for monitoring users, too
  };
  // What a client may do.
  enum class Access { kAll, kReadOnly };

  // Starts with "list-commands", as unixctl does, and "help", which explains one command.
  CommandRegistry();
  CommandRegistry(const CommandRegistry&) = delete;
  CommandRegistry& operator=(const CommandRegistry&) = delete;

  // CHECKs that the name is new. A name has at most four words, separated by slashes.
  void Register(Command command);
  // A command without arguments that always succeeds.
  void RegisterText(std::string name, std::string help, std::function<Answer()> answer);
  void Unregister(const std::string& name);
  // CHECKs that the commands exist.
  void MarkReadOnly(std::initializer_list<const char*> names);

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
                              Access access = Access::kAll) const;
  // The text of the answer.
  absl::StatusOr<std::string> Run(const std::string& method, const Arguments& arguments,
                                  Access access = Access::kAll) const;

 private:
  absl::StatusOr<Answer> Help(const Arguments& words) const;
  absl::Status Unknown(const std::string& method, const Arguments& arguments) const;

  std::map<std::string, Command> commands_;
  std::string starting_;
  std::function<void(const std::string& command)> observer_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_DAEMON_COMMAND_REGISTRY_H_
