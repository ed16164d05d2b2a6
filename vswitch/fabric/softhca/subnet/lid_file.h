// LidFile: which port has which LID and GUID, for a subnet that is restarted: a newcomer must not take the LID of a port that
// has not come back yet.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_LID_FILE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_LID_FILE_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fdb/address.h"
#include "vswitch/fabric/unique_fd.h"

namespace eoib::softhca {

struct KeptPort {
  Lid lid;
  Guid guid;

  friend bool operator==(const KeptPort&, const KeptPort&) = default;
};

// Owns the directory for as long as it lives: a second subnet that opens it is refused. Not thread-safe: the Subnet calls it
// under its mutex.
//
// `lids` in the directory has a line "NAME LID GUID" for each port, and comments behind "#". It is replaced as a whole (written
// beside, synced, renamed), so a crash leaves the old one or the new one. One that cannot be read is never overwritten.
class LidFile {
 public:
  // The directory exists. kAlreadyExists if another subnet uses it; kDataLoss: "DIRECTORY/lids:3: ...".
  static absl::StatusOr<std::unique_ptr<LidFile>> Open(const std::string& directory);

  const std::map<std::string, KeptPort>& ports() const { return ports_; }
  // On disk when this returns; else, with the error, known only here, and tried again with the next one.
  absl::Status Keep(const std::string& name, const KeptPort& port);
  // The last one's.
  const absl::Status& status() const { return status_; }

 private:
  explicit LidFile(const std::string& directory) : directory_(directory), path_(directory + "/lids") {}
  absl::Status Lock();
  absl::Status Load();
  absl::Status ParseLine(const std::string& line, int number);
  absl::Status Save() const;

  const std::string directory_;
  const std::string path_;
  UniqueFd lock_;  // of the directory
  std::map<std::string, KeptPort> ports_;
  absl::Status status_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_LID_FILE_H_
