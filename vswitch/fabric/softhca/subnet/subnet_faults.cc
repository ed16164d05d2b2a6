// Subnet: the faults that ports simulate, the ports' counters, and conservation.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/fabric/softhca/port_name.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"

namespace eoib::softhca {
namespace {

absl::Status CheckFaultEnd(const std::string& name) {
  return name == Subnet::kAnyPort ? absl::OkStatus() : CheckPortName(name);
}

}  // namespace

absl::Status Subnet::SetFault(const Fault& fault) {
  absl::Status status = CheckFaultRule(fault.rule);
  status.Update(CheckFaultEnd(fault.source));
  status.Update(CheckFaultEnd(fault.destination));
  if (!status.ok()) return status;
  {
    absl::MutexLock lock(&mutex_);
    const auto names = std::make_pair(fault.source, fault.destination);
    if (faults_.count(names) == 0 && faults_.size() >= kMaxFaultRules) {
      return absl::ResourceExhaustedError(absl::StrCat("simulate faults from ", fault.source, " to ", fault.destination,
                                                       ": there are ", kMaxFaultRules, " rules"));
    }
    FaultRule& rule = faults_[names];
    rule = fault.rule;
    rule.source = absl::nullopt;
    for (const auto& [name, port] : ports_) {
      // Tell even unchanged rules: the operator who repeats a rule wants its random sequence to restart.
      const bool meant = fault.destination == kAnyPort || fault.destination == name;
      if (meant) TellFaults(port.get());
    }
  }
  Deliver();
  return absl::OkStatus();
}

absl::Status Subnet::ClearFault(const std::string& source, const std::string& destination) {
  {
    absl::MutexLock lock(&mutex_);
    if (faults_.erase({source, destination}) == 0) {
      return absl::NotFoundError(absl::StrCat("clear the faults from ", source, " to ", destination, ": there are none"));
    }
    TellChangedFaults();
  }
  Deliver();
  return absl::OkStatus();
}

void Subnet::ClearFaults() {
  {
    absl::MutexLock lock(&mutex_);
    faults_.clear();
    TellChangedFaults();
  }
  Deliver();
}

std::vector<Subnet::Fault> Subnet::Faults() const {
  absl::MutexLock lock(&mutex_);
  std::vector<Fault> faults;
  for (const auto& [names, rule] : faults_) faults.push_back(Fault{names.first, names.second, rule});
  return faults;
}

void Subnet::TellChangedFaults() {
  // Without faults this must cost nothing per new port: there may be thousands.
  if (faults_.empty() && !told_faults_) return;
  told_faults_ = false;
  for (const auto& [name, port] : ports_) {
    told_faults_ |= !port->faults.empty();
    if (port->owner != nullptr && port->faults != FaultsTo(name)) TellFaults(port.get());
  }
}

void Subnet::TellFaults(Port* port) {
  port->faults = FaultsTo(port->name);
  told_faults_ |= !port->faults.empty();
  Tell(port->owner, [rules = port->faults](PortSink* to) { to->OnFaults(rules); });
}

const FaultRule* Subnet::FindFault(const std::string& source, const std::string& destination) const {
  const auto found = faults_.find({source, destination});
  return found == faults_.end() ? nullptr : &found->second;
}

// Returns the rule for any source, if there is one, and one rule for each named source that has a GID already.
std::vector<FaultRule> Subnet::FaultsTo(const std::string& destination) const {
  std::vector<FaultRule> rules;
  const FaultRule* any = FindFault(kAnyPort, destination);
  if (any == nullptr) any = FindFault(kAnyPort, kAnyPort);
  if (any != nullptr) rules.push_back(*any);
  const std::string* before = nullptr;  // rules of one source follow one another
  for (const auto& [names, unused] : faults_) {
    const std::string& source = names.first;
    if (source == kAnyPort || (before != nullptr && *before == source)) continue;
    before = &source;
    const Port* port = FindPort(source);
    const FaultRule* rule = FindFault(source, destination);
    if (rule == nullptr) rule = FindFault(source, kAnyPort);
    if (port == nullptr || rule == nullptr) continue;
    rules.push_back(*rule);
    rules.back().source = port->config.gid;
  }
  return rules;
}

// ---- Counters.

absl::optional<PortCounters> Subnet::CountersOf(const std::string& name) const {
  std::shared_ptr<const CountersPage> counters;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = ports_.find(name);
    if (found != ports_.end()) counters = found->second->counters;
  }
  if (counters == nullptr) return absl::nullopt;
  return counters->Load();
}

absl::optional<PortCounters> Subnet::CountersOf(Lid lid) const {
  std::string name;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = by_lid_.find(lid);
    if (found == by_lid_.end()) return absl::nullopt;
    name = found->second->name;
  }
  return CountersOf(name);
}

// ---- Conservation.

// A process that reconnects goes on counting on the same page.
void Subnet::SetCounters(Port* port, std::shared_ptr<const CountersPage> counters) {
  const bool goes_on = port->counters != nullptr && counters != nullptr && port->counters->IsSameAs(*counters);
  if (port->counters != nullptr && !goes_on) Account(port->counters->Load(), /*ended=*/true, &of_former_);
  port->counters = std::move(counters);
}

void Subnet::Account(const PortCounters& counters, bool ended, Conservation* sum) const {
  sum->copies += counters.xmit_copies + counters.Sum(Part::kMade);
  sum->delivered += counters.Sum(Part::kDelivered);
  sum->dropped += counters.Sum(Part::kDroppedBefore) + counters.Sum(Part::kDroppedBehind) + counters.xmit_lost;
  const auto loopback = static_cast<int64_t>(counters.loopback_queued);
  if (ended) {
    sum->died += counters.Sending() + counters.Receiving() + loopback;
  } else {
    sum->sending += counters.Sending();
    sum->receiving += counters.Receiving();
    sum->in_rings += loopback;
  }
  if (counters.ring_subnet != SubnetOfRing(next_ring_)) return;
  sum->in_rings += static_cast<int64_t>(counters.ring_sent - counters.ring_taken - counters.ring_lost);
}

// The surviving end of a ring counts the records in it. If a process dies and the other end has already ended, no port counts
// them.
void Subnet::CountEnd(const Port& ended) {
  if (ended.counters == nullptr || ended.counters->Load().ended != 0) return;
  of_former_.joint_deaths += std::any_of(ports_.begin(), ports_.end(), [&ended](const auto& entry) {
    const Port& other = *entry.second;
    return &other != &ended && other.owner == nullptr && other.registrations != 0;
  });
}

Subnet::Conservation Subnet::GetConservation() const {
  absl::MutexLock lock(&mutex_);
  Conservation sum = of_former_;
  for (const auto& [name, port] : ports_) {
    if (port->counters != nullptr) Account(port->counters->Load(), /*ended=*/port->owner == nullptr, &sum);
  }
  return sum;
}

}  // namespace eoib::softhca
