// Agent: changes of its configuration.
//
// Steps that may fail for a reason outside the agent, such as making an interface, come first. Then
// the worker pauses, for a millisecond at a time; frames wait in the queues of interfaces and queue
// pairs meanwhile.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "control/agent.h"
#include "control/ves/worker_pause.h"
#include "vswitch/base/daemon/log.h"

namespace eoib {
namespace {

void RemoveInterface(const VPort& vport) {
  if (absl::Status status = vport.interface->Remove(); !status.ok()) LogWarning(status.message());
}

}  // namespace

Ves* Agent::FindVes(const std::string& name) const {
  const auto found = std::find_if(veses_.begin(), veses_.end(),
                                  [&name](const auto& ves) { return ves->config().name == name; });
  return found == veses_.end() ? nullptr : found->get();
}

Ves* Agent::FindVPort(const std::string& name, const VPort** vport) const {
  for (const std::unique_ptr<Ves>& ves : veses_) {
    for (const VPort& one : ves->vports()) {
      if (one.config.name != name) continue;
      *vport = &one;
      return ves.get();
    }
  }
  return nullptr;
}

absl::Status Agent::RenameVPort(const std::string& before, const std::string& after) {
  const VPort* vport = nullptr;
  Ves* const ves = FindVPort(before, &vport);
  if (absl::Status status = vport->interface->Rename(after); !status.ok()) return status;
  state_->Rename(before, after);
  ves->RenameVPort(before, after);
  for (VPortConfig& config : config_.vports) {
    if (config.name == before) config.name = after;
  }
  return absl::OkStatus();
}

// A queue of a VES cannot be given up, and a port that is open may be one for a single worker. So
// the number of workers stays.
absl::Status Agent::Apply(const AgentConfig& wanted) {
  const AgentConfig before = config_;
  AgentConfig next = wanted;
  next.workers = before.workers;
  const absl::Status status = ChangeTo(next);
  // It may have failed half-way, if the directory is full or an interface could not be made again.
  if (!status.ok() && !ConfigDiff::Between(config_, before).empty()) GoBackTo(before);
  return status;
}

// If an interface cannot be made again, without its vPort.
void Agent::GoBackTo(AgentConfig before) {
  const absl::Status status = ChangeTo(before);
  if (status.ok()) return;
  LogWarning(absl::StrCat("go back to the former configuration: ", status.message()));
  std::erase_if(before.vports, [this](const VPortConfig& vport) {
    return eoib::FindVPort(config_, vport.name) == nullptr;
  });
  if (absl::Status rest = ChangeTo(before); !rest.ok()) LogWarning(rest.message());
}

// After an error config_ says what there is now.
absl::Status Agent::ChangeTo(const AgentConfig& next) {
  const absl::Time begun = loop_->Now();
  Change change{&next, ConfigDiff::Between(config_, next), {}, {}, {}};
  if (change.diff.empty()) return absl::OkStatus();
  if (absl::Status status = CheckLinkLayer(next, fabric_->resources().hca); !status.ok())
    return status;
  if (absl::Status status = CheckMacs(change); !status.ok()) return status;
  if (absl::Status status = Prepare(&change); !status.ok()) return status;
  TellThatTheyLeave(change);
  WorkerPause pause(started_ ? worker_.get() : nullptr);
  const absl::Status status = Commit(&change, &pause);
  pause.End();
  Finish(&change);
  if (started_) {
    LogInfo(absl::StrCat("a change of the configuration took ",
                         absl::FormatDuration(loop_->Now() - begun), "; ", pause.ToString()));
  }
  config_ = status.ok() ? next : PresentConfig();
  return status;
}

// A static MAC of the configuration must not be one that an operator has put behind another vPort
// (fdb add).
absl::Status Agent::CheckMacs(const Change& change) const {
  for (const VPortConfig& config : change.next->vports) {
    const Ves* const ves = FindVes(config.ves);
    const VPort* own = nullptr;
    if (ves == nullptr || FindVPort(config.name, &own) == ves) continue;
    for (const MacAddr mac : config.static_macs) {
      const absl::optional<Fdb::Entry> entry = ves->fdb().Get(FdbKey(config.vlan.Untagged(), mac));
      if (!entry.has_value() || entry->origin != FdbOrigin::kStatic) continue;
      return absl::AlreadyExistsError(
          absl::StrCat("vPort ", config.name, ": static MAC ", mac.ToString(), " is behind ",
                       ves->Behind(entry->vport), " by `fdb add`; remove it there by `fdb del`"));
    }
  }
  return absl::OkStatus();
}

// Makes what does not exist yet. An interface that is made again has to go first, so it waits for
// Commit.
absl::Status Agent::Prepare(Change* change) {
  for (const VesConfig& config : change->next->veses) {
    if (!Contains(change->diff.veses.added, config.name) &&
        !Contains(change->diff.veses.replaced, config.name))
      continue;
    auto ves = MakeVes(config);
    if (!ves.ok()) return ves.status();
    change->new_veses.push_back(*std::move(ves));
  }
  absl::Status status = MakeNewVPorts(change);
  if (status.ok()) return status;
  for (const auto& [name, vport] : change->vports) {
    if (vport.is_new) RemoveInterface(vport);
  }
  return status;
}

absl::Status Agent::MakeNewVPorts(Change* change) {
  for (const std::string& name : change->diff.vports.added) {
    const VPortConfig& config = *eoib::FindVPort(*change->next, name);
    const auto fresh =
        std::find_if(change->new_veses.begin(), change->new_veses.end(),
                     [&config](const auto& ves) { return ves->config().name == config.ves; });
    const Ves* const ves = fresh != change->new_veses.end() ? fresh->get() : FindVes(config.ves);
    if (ves == nullptr)
      return absl::InvalidArgumentError(
          absl::StrCat("vPort ", name, ": there is no VES ", config.ves));
    absl::StatusOr<VPort> vport = MakeVPort(config, *ves);
    if (!vport.ok()) return vport.status();
    change->vports[name] = *std::move(vport);
  }
  return absl::OkStatus();
}

// To the other agents. The worker sends it before it pauses.
void Agent::TellThatTheyLeave(const Change& change) {
  for (const std::unique_ptr<Ves>& ves : veses_) {
    const std::string& name = ves->config().name;
    const bool goes =
        Contains(change.diff.veses.removed, name) || Contains(change.diff.veses.replaced, name);
    const bool is_used =
        std::any_of(change.next->vports.begin(), change.next->vports.end(),
                    [&name](const VPortConfig& vport) { return vport.ves == name; });
    if (!ves->vports().empty() && (goes || !is_used)) ves->Leave();
  }
}

// While the worker does not run, except between steps.
absl::Status Agent::Commit(Change* change, WorkerPause* pause) {
  const ConfigDiff& diff = change->diff;
  const auto names = {&diff.vports.removed, &diff.vports.reattached, &diff.vports.replaced};
  for (const auto* list : names) {
    // The last ones first: they are at the end of their VES's list.
    for (auto name = list->rbegin(); name != list->rend(); ++name) {
      Detach(*name, change);
      pause->BetweenSteps();
    }
  }
  ExchangeVeses(change);
  if (absl::Status status = AddQueues(*change); !status.ok()) return status;
  for (const std::string& name : diff.vports.changed) {
    const VPort* vport = nullptr;
    FindVPort(name, &vport)->ChangeVPort(*eoib::FindVPort(*change->next, name));
  }
  for (const auto* list : {&diff.vports.added, &diff.vports.reattached, &diff.vports.replaced}) {
    for (const std::string& name : *list) {
      if (absl::Status status = Attach(name, change); !status.ok()) return status;
      pause->BetweenSteps();
    }
  }
  return absl::OkStatus();
}

// An interface that is made again has its name free then.
void Agent::Detach(const std::string& name, Change* change) {
  const VPort* vport = nullptr;
  Ves* const ves = FindVPort(name, &vport);
  RemovePort(ves, vport->index);
  VPort detached = ves->RemoveVPort(name);
  if (!Contains(change->diff.vports.replaced, name)) change->vports[name] = std::move(detached);
}

void Agent::ExchangeVeses(Change* change) {
  for (auto ves = veses_.begin(); ves != veses_.end();) {
    const std::string& name = (*ves)->config().name;
    if (Contains(change->diff.veses.changed, name))
      (*ves)->Change(*eoib::FindVes(*change->next, name));
    if (!Contains(change->diff.veses.removed, name) &&
        !Contains(change->diff.veses.replaced, name)) {
      ++ves;
      continue;
    }
    Unwatch(ves->get());
    change->old_veses.push_back(std::move(*ves));
    ves = veses_.erase(ves);
  }
  for (std::unique_ptr<Ves>& ves : change->new_veses) {
    if (absl::Status status = Watch(ves.get()); !status.ok()) LogWarning(status.message());
    veses_.push_back(std::move(ves));
  }
  change->new_veses.clear();
}

// To VESes that go on.
absl::Status Agent::AddQueues(const Change& change) {
  for (const std::string& name : change.diff.veses.changed) {
    Ves* const ves = FindVes(name);
    while (ves->queues().size() < ves->WantedQueues()) {
      if (absl::Status status = ves->AddQueue(); !status.ok()) return status;
      if (absl::Status status = WatchQueue(ves, ves->queues().size() - 1); !status.ok())
        return status;
    }
  }
  return absl::OkStatus();
}

absl::Status Agent::Attach(const std::string& name, Change* change) {
  const VPortConfig& config = *eoib::FindVPort(*change->next, name);
  Ves* const ves = FindVes(config.ves);
  if (Contains(change->diff.vports.replaced, name)) {
    absl::StatusOr<VPort> vport = MakeVPort(config, *ves);
    if (!vport.ok()) return vport.status();
    change->vports[name] = *std::move(vport);
  }
  VPort& vport = change->vports[name];
  if (vport.config != config) vport.interface->Adjust(config);
  vport.config = config;
  if (absl::Status status = ves->AddVPort(&vport); !status.ok()) return status;
  change->vports.erase(name);
  const VPort* added = nullptr;
  FindVPort(name, &added);
  if (const auto trouble = added->interface->Check()) ves->NoteTrouble(added->index, *trouble);
  return AddPort(ves, added->index);
}

void Agent::SetUpTouched(const ConfigDiff::Names& names) {
  absl::flat_hash_set<std::string> touched;
  for (const auto* list : {&names.added, &names.changed, &names.reattached, &names.replaced})
    touched.insert(list->begin(), list->end());
  for (const std::unique_ptr<Ves>& ves : veses_) {
    ves->SetUpVPorts(
        [&touched](const VPort& vport) { return touched.contains(vport.config.name); });
  }
}

void Agent::Finish(Change* change) {
  for (const std::unique_ptr<Ves>& ves : change->old_veses) {
    ves->Stop([] {});
    fabric_->Remove(ves.get());
  }
  for (const std::unique_ptr<Ves>& ves : veses_) {
    if (!fabric_->Has(ves.get())) fabric_->Add(ves.get());
    ves->FollowVPorts();
  }
  SetUpTouched(change->diff.vports);
  for (const auto& [name, vport] : change->vports) RemoveInterface(vport);
  change->vports.clear();  // the ports, before the VESes that they were in
}

// An operator, or the end of a network namespace, may delete an interface of ours.
void Agent::RemakeLostInterfaces() {
  look_for_lost_at_ = loop_->Now() + absl::Seconds(1);
  for (const std::unique_ptr<Ves>& ves : veses_) {
    for (const VPort& vport : ves->vports()) {
      if (const auto trouble = vport.interface->Check()) ves->NoteTrouble(vport.index, *trouble);
      if (!vport.interface->IsLost()) continue;
      worker_->Stop(absl::ZeroDuration());
      RemovePort(ves.get(), vport.index);
      absl::Status status = vport.interface->Remake();
      status.Update(AddPort(ves.get(), vport.index));
      worker_->Start();
      const std::string trouble =
          status.ok() ? "" : absl::StrCat("its interface was deleted: ", status.message());
      if (status.ok()) {
        LogWarning(absl::StrCat("vPort ", vport.config.name,
                                ": its interface was deleted by another program; made it again, "
                                "without the addresses and the bridge that it had"));
      } else if (vport.trouble != trouble) {
        LogWarning(absl::StrCat("vPort ", vport.config.name, ": ", trouble, "; retrying"));
      }
      ves->NoteRemade(vport.index, trouble);
    }
  }
}

AgentConfig Agent::PresentConfig() const {
  AgentConfig config;
  config.workers = config_.workers;
  for (const std::unique_ptr<Ves>& ves : veses_) {
    config.veses.push_back(ves->config());
    for (const VPort& vport : ves->vports()) config.vports.push_back(vport.config);
  }
  return config;
}

}  // namespace eoib
