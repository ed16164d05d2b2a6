// What an operator can ask of and do to the forwarding databases of an agent: fdb/show, stats, frozen, flush, thaw, add, del,
// monitor.
#ifndef EOIB_CONTROL_FDB_COMMANDS_H_
#define EOIB_CONTROL_FDB_COMMANDS_H_

#include <string>

#include "absl/types/optional.h"
#include "control/command_registry.h"
#include "control/ves.h"
#include "fdb/fdb_event.h"

namespace eoib {

// VESes by name; an error says which there are. All of them with an empty name.
class VesFinder {
 public:
  virtual ~VesFinder() = default;
  virtual absl::StatusOr<std::vector<Ves*>> FindVeses(const std::string& name) const = 0;
};

// `finder` outlives the commands.
void RegisterFdbCommands(const VesFinder* finder, CommandRegistry* registry);

// Text for the operator: limits, counters and who holds how much; an event in words; a table of the entries.
std::string ShowFdbStats(const Ves& ves);
std::string Describe(const FdbEvent& event, const Ves& ves);
// Of the entries behind `after`; if there are many, the last line is the command for the next ones, "more: fdb show blue 7
// 02:00:00:00:00:0a": an agent is not to be busy with one question for long.
std::string ShowFdb(const Ves& ves, absl::optional<FdbKey> after = absl::nullopt);

}  // namespace eoib

#endif  // EOIB_CONTROL_FDB_COMMANDS_H_
