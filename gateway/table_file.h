// TableFile: where a gateway keeps what it has to know again after a restart (SavedTables): GATEWAY.json in its state
// directory.
//
// It is replaced as a whole (written beside, synced, renamed), so a crash leaves the old one or the new one. Ages are kept as
// times of day: what was heard a minute before the gateway stopped is older by the time that it was away. A file that cannot be
// read is set aside and never lost (GATEWAY.json.bad); the gateway then learns anew.
#ifndef EOIB_GATEWAY_TABLE_FILE_H_
#define EOIB_GATEWAY_TABLE_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gateway/translation/options.h"
#include "gateway/translation/saved_tables.h"

namespace eoib::gateway {

// The text of such a file, and back. `now` is the time of day. kInvalidArgument says what is wrong, and where.
std::string ToJson(const translation::SavedTables& tables, absl::Time now);
absl::StatusOr<translation::SavedTables> FromJson(absl::string_view text, absl::Time now);

class TableFile {
 public:
  // Bytes; above it a file is none of this program's. What the largest tables take, with room for the few routers and prefixes.
  static constexpr size_t kMaxSize = translation::Options::kMostNeighbors * 256 + translation::Options::kMostStations * 512 +
                                     translation::Options::kMostStationIps * 256 + (1 << 20);

  explicit TableFile(std::string path) : path_(std::move(path)) {}

  // Empty tables if there is no file. An error if it cannot be read, or is not one; it has been set aside then.
  absl::StatusOr<translation::SavedTables> Load(absl::Time now) const;
  absl::Status Save(const translation::SavedTables& tables, absl::Time now) const;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_TABLE_FILE_H_
