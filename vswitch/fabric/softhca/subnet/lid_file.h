// LidFile: keeps the LID and GUID of every port over a restart of the subnet, so that a new port
// does not take the LID of one that has not come back yet.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_LID_FILE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_LID_FILE_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

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

// Locks the directory: a second subnet that opens it is refused. Not thread-safe: the Subnet calls
// it under its mutex.
//
// The file `lids` has a line "NAME LID GUID" for each port, and comments after "#". A file that
// cannot be read is never overwritten. Writes are not synced, so that a busy disk delays no port:
// the file survives the death of this process, and a crash of the machine ends all ports, too.
class LidFile {
 public:
  // Saves all changes.
  ~LidFile() { Save().IgnoreError(); }
  // `directory` must exist. kAlreadyExists if another subnet uses it; kDataLoss: "DIRECTORY/lids:3:
  // ...".
  static absl::StatusOr<std::unique_ptr<LidFile>> Open(const std::string& directory);

  const std::map<std::string, KeptPort>& ports() const { return ports_; }
  // Records a port; Run or Save writes it.
  void Keep(const std::string& name, const KeptPort& port);
  // Writes unsaved changes. At most each 100 ms, since any process that registers can cause a
  // write; after an error a second later. NextDeadline says when to call it.
  void Run(absl::Time now);
  absl::Time NextDeadline() const { return unsaved_ ? next_run_ : absl::InfiniteFuture(); }
  // Writes the present state if it is not written yet.
  absl::Status Save();
  // The result of the last write.
  const absl::Status& status() const { return status_; }

 private:
  LidFile(const std::string& directory, UniqueFd lock)
      : path_(directory + "/lids"), lock_(std::move(lock)) {}
  absl::Status Load();
  absl::Status ParseLine(const std::string& line, int number);
  std::string Text() const;

  const std::string path_;
  const UniqueFd lock_;  // the directory's
  std::map<std::string, KeptPort> ports_;
  bool unsaved_ = false;
  absl::Status status_;
  absl::Time next_run_ = absl::InfinitePast();
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_LID_FILE_H_
