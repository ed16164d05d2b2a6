// StateDir: the state directory, which keeps what must survive a restart: the MAC addresses of the
// vPorts.
#ifndef EOIB_CONTROL_STATE_STATE_DIR_H_
#define EOIB_CONTROL_STATE_STATE_DIR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "control/state/machine_binding.h"
#include "vswitch/base/address.h"
#include "vswitch/base/system_random.h"
#include "vswitch/base/unique_fd.h"

namespace eoib {

// Holds a lock on the directory while it lives, and refuses a directory that another program has
// locked: otherwise two hosts that share a file system would give the same MAC to vPorts of the
// same name. Control thread only.
//
// Its file vports.json has a JSON object from vPort name to MAC, and the machine that it belongs
// to:
// {"machine": "$6$...", "vports": {"web1": "02:5e:10:00:00:01"}}. On another machine, which has a
// copy of the disk, new MACs are made: two hosts must not have one MAC. The object of vPorts alone,
// as earlier versions wrote it, belongs to the machine that reads it. The file is replaced
// atomically, so a crash leaves the old or the new one. Open fails if the file cannot be read; it
// is never overwritten then.
//
// A disk that is full or read-only stops no traffic: what cannot be written holds for this run, and
// a log line says so.
class StateDir {
 public:
  // Returns 64 random bits.
  using RandomSource = std::function<uint64_t()>;

  // Creates the directory (mode 0700) if it is missing; without it nothing is kept. kAlreadyExists:
  // another program has locked it. kFailedPrecondition: a file is in the way.
  static absl::StatusOr<std::unique_ptr<StateDir>> Open(
      const std::string& path, RandomSource random = SystemRandom,
      const std::string& machine_id_path = kMachineIdPath);

  const std::string& path() const { return path_; }
  // Returns the MAC of the vPort: the one in the file, or else a new one. A new MAC is random,
  // locally administered, unicast and unique in the file, and is on disk when this returns, if it
  // can be written. A warning says so if it takes the place of one that another machine has. Fails
  // only if `random` repeats itself.
  absl::StatusOr<MacAddr> MacFor(const std::string& vport_name);
  // The vPort keeps its MAC, if it has one here, under another name.
  void Rename(const std::string& before, const std::string& after);

 private:
  StateDir(std::string path, UniqueFd lock, RandomSource random, std::string machine_id)
      : path_(std::move(path)),
        lock_(std::move(lock)),
        random_(std::move(random)),
        machine_id_(std::move(machine_id)) {}
  std::string VportsPath() const { return path_ + "/vports.json"; }
  absl::Status Load();
  absl::Status Save();
  void WarnOfCopy(const std::string& vport_name, MacAddr made) const;
  absl::StatusOr<MacAddr> NewMac() const;

  const std::string path_;
  const UniqueFd lock_;  // the directory's, since Save replaces the file itself
  const RandomSource random_;
  const std::string machine_id_;           // empty: the machine has none
  std::string binding_;                    // of the file to this machine; empty: none yet
  std::map<std::string, MacAddr> macs_;    // the file's content, unless the last Save failed
  std::map<std::string, MacAddr> copied_;  // in a file of another machine
  bool save_failed_ = false;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_STATE_STATE_DIR_H_
