// LidFile: keeps the LID and GUID of every port over a restart of the subnet, so that a new port does not take the LID of one
// that has not come back yet.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_LID_FILE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_LID_FILE_H_

#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "vswitch/base/address.h"
#include "vswitch/base/unique_fd.h"

namespace eoib::softhca {

struct KeptPort {
  Lid lid;
  Guid guid;

  friend bool operator==(const KeptPort&, const KeptPort&) = default;
};

// Locks the directory: a second subnet that opens it is refused. Not thread-safe: the Subnet calls it under its mutex.
//
// The file `lids` has a line "NAME LID GUID" for each port, and comments after "#". A file that cannot be read is never
// overwritten. A separate thread writes it, because a sync on a busy disk can take seconds.
class LidFile {
 public:
  // Saves all changes and waits until they are on disk or the write has failed.
  ~LidFile();
  // `directory` must exist. kAlreadyExists if another subnet uses it; kDataLoss: "DIRECTORY/lids:3: ...".
  static absl::StatusOr<std::unique_ptr<LidFile>> Open(const std::string& directory);

  const std::map<std::string, KeptPort>& ports() const { return ports_; }
  // Records a port; Run or Save writes it.
  void Keep(const std::string& name, const KeptPort& port);
  // Starts a write of unsaved changes, or takes the result of one that has ended. At most each 100 ms, since any process that
  // registers can cause a write; after an error a second later. Never blocks. NextDeadline says when to call it.
  void Run(absl::Time now);
  absl::Time NextDeadline() const { return unsaved() ? next_run_ : absl::InfiniteFuture(); }
  // Writes the present state and waits until it is on disk. After an error unsaved() stays true.
  absl::Status Save();
  // True if changes are not known to be on disk.
  bool unsaved() const { return changes_ != saved_; }
  // The result of the last write that is known to have ended.
  const absl::Status& status() const { return status_; }

 private:
  explicit LidFile(const std::string& directory) : directory_(directory), path_(directory + "/lids") {}
  absl::Status Lock();
  absl::Status Load();
  absl::Status ParseLine(const std::string& line, int number);
  std::string Text() const;
  bool writing() const { return write_.valid(); }
  void StartWrite();
  // Waits for the write and takes its result.
  void AwaitWrite();

  const std::string directory_;
  const std::string path_;
  UniqueFd lock_;  // the directory's
  std::map<std::string, KeptPort> ports_;
  uint64_t changes_ = 0;
  uint64_t saved_ = 0;    // changes that are on disk
  uint64_t writing_ = 0;  // changes that are on disk when `write_` is done
  absl::Status status_;
  absl::Time next_run_ = absl::InfinitePast();
  std::future<absl::Status> write_;  // invalid: no write is running
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_LID_FILE_H_
