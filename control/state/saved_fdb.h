// SavedFdb: the MACs that an agent had learned when it stopped in order. The next run loads them
// (warm_start.h), so that an upgrade does not make the switch flood. The file is STATEDIR/fdb.json.
#ifndef EOIB_CONTROL_STATE_SAVED_FDB_H_
#define EOIB_CONTROL_STATE_SAVED_FDB_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "control/state/saved_identity.h"
#include "fdb/fdb_key.h"
#include "vswitch/base/address.h"
#include "vswitch/base/agent_id.h"

namespace eoib {

struct SavedMac {
  FdbKey key;
  absl::Duration age;  // whole seconds, when it was saved

  friend bool operator==(const SavedMac&, const SavedMac&) = default;
};

// A vPort of this agent, or a peer: an agent, or one that announces nothing.
struct SavedPlace {
  std::string vport;  // its name; empty: a peer
  PeerAddress peer;
  absl::optional<AgentId> agent;
  std::vector<SavedMac> macs;

  friend bool operator==(const SavedPlace&, const SavedPlace&) = default;
};

struct SavedVes {
  std::string name;
  PKey pkey;
  std::vector<SavedPlace> places;

  friend bool operator==(const SavedVes&, const SavedVes&) = default;
};

struct SavedFdb {
  // All VESes together. 30 bytes each in the file.
  static constexpr size_t kMostMacs = 1 << 18;

  AgentIdentity run;        // the one that saved it
  std::string boot;         // boot_id of the machine then
  absl::Duration saved_at;  // since that boot, with the time in suspend (CLOCK_BOOTTIME)
  std::vector<SavedVes> veses;

  size_t size() const;  // MACs
};

// Converts to the text of the file, and back. kInvalidArgument says what is wrong with a text: it
// is taken whole or not at all.
std::string ToJson(const SavedFdb& saved);
absl::StatusOr<SavedFdb> ParseSavedFdb(absl::string_view text);

// The machine's boot_id and the time since then, as in SavedFdb.
struct BootTime {
  std::string boot;
  absl::Duration now;
};
absl::StatusOr<BootTime> ReadBootTime();

absl::Status WriteSavedFdb(const std::string& state_directory, const SavedFdb& saved);
// Removes the file, whatever it has, and returns its content. kNotFound if there is none. An error
// also if another run than the one before `run` saved it, or the machine has booted since.
absl::StatusOr<SavedFdb> TakeSavedFdb(const std::string& state_directory, const AgentIdentity& run,
                                      const BootTime& boot_time);

}  // namespace eoib

#endif  // EOIB_CONTROL_STATE_SAVED_FDB_H_
