// LidFile: which port has which LID and GUID, for a subnet that is restarted: a newcomer must not take the LID of a port that
// has not come back yet.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_LID_FILE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_LID_FILE_H_

#include <cstdint>
#include <future>
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
// beside, synced, renamed), so a crash leaves the old one or the new one. One that cannot be read is never overwritten. It is
// written in a thread of its own, because a busy disk can take seconds for a sync, and the subnet has only one.
class LidFile {
 public:
  // Saves what is not saved yet, and returns when that is on disk, or has failed.
  ~LidFile();
  // The directory exists. kAlreadyExists if another subnet uses it; kDataLoss: "DIRECTORY/lids:3: ...".
  static absl::StatusOr<std::unique_ptr<LidFile>> Open(const std::string& directory);

  const std::map<std::string, KeptPort>& ports() const { return ports_; }
  // Known here, and on disk with the next write.
  void Keep(const std::string& name, const KeptPort& port);
  // Begins to write what is kept now. Requires that no write is under way.
  void StartSave();
  // Whether a write is under way, or has ended and CollectWrite has not been called since.
  bool writing() const { return write_.valid(); }
  // Takes note of how the write has ended; nothing if none is under way, or if it has not ended.
  void CollectWrite();
  // Writes what is kept now, and returns when it is on disk; if not, there still is something to save.
  absl::Status Save();
  // Something is not on disk, as far as is known.
  bool unsaved() const { return changes_ != saved_; }
  // Of the last write whose end is known.
  const absl::Status& status() const { return status_; }

 private:
  explicit LidFile(const std::string& directory) : directory_(directory), path_(directory + "/lids") {}
  absl::Status Lock();
  absl::Status Load();
  absl::Status ParseLine(const std::string& line, int number);
  std::string Text() const;
  absl::Status Write(const std::string& text) const;
  // The end of the write under way, which has come or is waited for.
  void AwaitWrite();

  const std::string directory_;
  const std::string path_;
  UniqueFd lock_;  // of the directory
  std::map<std::string, KeptPort> ports_;
  uint64_t changes_ = 0;
  uint64_t saved_ = 0;    // of the changes, those on disk
  uint64_t writing_ = 0;  // those that will be when `write_` is done
  absl::Status status_;
  std::future<absl::Status> write_;  // invalid: none under way
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_LID_FILE_H_
