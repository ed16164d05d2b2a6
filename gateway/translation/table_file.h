// The JSON file in which a gateway keeps its tables (SavedTables) over a restart: gateway-NAME.json
// in the state directory.
//
// A save replaces the whole file (write beside it, sync, rename), so a crash leaves the old file or
// the new one. Ages are saved as times of day, so they include the time that the gateway was down.
// A file that cannot be parsed is renamed to gateway-NAME.json.bad; the gateway then starts with
// empty tables.
#ifndef EOIB_GATEWAY_TRANSLATION_TABLE_FILE_H_
#define EOIB_GATEWAY_TRANSLATION_TABLE_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gateway/translation/options.h"
#include "gateway/translation/saved_tables.h"

namespace eoib::gateway {

// Converts tables to the text of such a file, and back. `now` is the time of day. kInvalidArgument
// names the faulty member.
std::string ToJson(const translation::SavedTables& tables, absl::Time now);
absl::StatusOr<translation::SavedTables> FromJson(absl::string_view text, absl::Time now);

// Bytes. The largest possible tables fit, with 1 MiB for routers and prefixes; a longer file is not
// this program's.
inline constexpr size_t kMaxTableFile = translation::Options::kMostNeighbors * 256 +
                                        translation::Options::kMostStations * 512 +
                                        translation::Options::kMostStationIps * 256 + (1 << 20);

// Empty tables if there is no file. An error if the file cannot be read; a faulty file has then
// been renamed to *.bad.
absl::StatusOr<translation::SavedTables> LoadTables(const std::string& path, absl::Time now);
absl::Status SaveTables(const std::string& path, const translation::SavedTables& tables,
                        absl::Time now);

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_TRANSLATION_TABLE_FILE_H_
