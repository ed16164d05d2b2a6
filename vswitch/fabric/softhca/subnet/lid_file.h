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
  // Saves what is not saved yet.
  ~LidFile();
  // The directory exists. kAlreadyExists if another subnet uses it; kDataLoss: "DIRECTORY/lids:3: ...".
  static absl::StatusOr<std::unique_ptr<LidFile>> Open(const std::string& directory);

  const std::map<std::string, KeptPort>& ports() const { return ports_; }
  // Known here, and on disk with the next Save.
  void Keep(const std::string& name, const KeptPort& port);
  void Forget(const std::string& name);
  // There is something to save.
  bool changed() const { return changed_; }
  // On disk when this returns; if not, there still is something to save.
  absl::Status Save();
  // The last one's.
  const absl::Status& status() const { return status_; }

 private:
  explicit LidFile(const std::string& directory) : directory_(directory), path_(directory + "/lids") {}
  absl::Status Lock();
  absl::Status Load();
  absl::Status ParseLine(const std::string& line, int number);
  absl::Status Write() const;

  const std::string directory_;
  const std::string path_;
  UniqueFd lock_;  // of the directory
  std::map<std::string, KeptPort> ports_;
  bool changed_ = false;
  absl::Status status_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_LID_FILE_H_
