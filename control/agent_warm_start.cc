// Agent: the MACs that it keeps over an orderly restart.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/agent.h"
#include "control/state/saved_fdb.h"
#include "control/state/warm_start.h"
#include "vswitch/base/daemon/log.h"

namespace eoib {

// Nothing here is a reason not to start or not to stop: without the file MACs are learned again.
void Agent::SaveMacs() const {
  const absl::StatusOr<BootTime> boot_time = ReadBootTime();
  absl::Status status = boot_time.status();
  SavedFdb saved;
  if (status.ok()) {
    saved = {identity_, boot_time->boot, boot_time->now, {}};
    for (const std::unique_ptr<Ves>& ves : veses_) {
      saved.veses.push_back(CollectMacs(*ves, SavedFdb::kMostMacs - saved.size()));
    }
    status = WriteSavedFdb(state_->path(), saved);
  }
  if (status.ok()) {
    LogInfo(absl::StrCat("saved ", saved.size(), " MACs for the next start"));
  } else {
    LogWarning(absl::StrCat("save the MACs for the next start: ", status.message(),
                            "; they will be learned again"));
  }
}

void Agent::RestoreSavedMacs() {
  const absl::StatusOr<BootTime> boot_time = ReadBootTime();
  const absl::StatusOr<SavedFdb> saved = boot_time.ok()
                                             ? TakeSavedFdb(state_->path(), identity_, *boot_time)
                                             : absl::StatusOr<SavedFdb>(boot_time.status());
  if (absl::IsNotFound(saved.status())) return;
  if (!saved.ok()) {
    LogWarning(absl::StrCat("the MACs that the last run saved in ", state_->path(),
                            "/fdb.json are not used: ", saved.status().message(),
                            "; they will be learned again"));
    return;
  }
  const absl::Duration away = boot_time->now - saved->saved_at;
  size_t restored = 0;
  for (const SavedVes& one : saved->veses) {
    Ves* const ves = FindVes(one.name);
    if (ves != nullptr && ves->config().pkey.SamePartition(one.pkey))
      restored += RestoreMacs(one, away, ves);
  }
  LogInfo(absl::StrCat("restored ", restored, " of the ", saved->size(),
                       " MACs that the last run saved ",
                       absl::FormatDuration(absl::Floor(away, absl::Milliseconds(1))), " ago"));
}

}  // namespace eoib
