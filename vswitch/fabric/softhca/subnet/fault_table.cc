#include "vswitch/fabric/softhca/subnet/fault_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/fabric/softhca/port_name.h"

namespace eoib::softhca {
namespace {

absl::Status CheckFaultEnd(const std::string& name) {
  return name == kAnyPort ? absl::OkStatus() : CheckPortName(name);
}

}  // namespace

absl::Status FaultTable::Set(const Fault& fault) {
  absl::Status status = CheckFaultRule(fault.rule);
  status.Update(CheckFaultEnd(fault.source));
  status.Update(CheckFaultEnd(fault.destination));
  if (!status.ok()) return status;
  const auto names = std::make_pair(fault.source, fault.destination);
  if (faults_.count(names) == 0 && faults_.size() >= kMaxFaultRules) {
    return absl::ResourceExhaustedError(absl::StrCat("simulate faults from ", fault.source, " to ",
                                                     fault.destination, ": there are ",
                                                     kMaxFaultRules, " rules"));
  }
  FaultRule& rule = faults_[names];
  rule = fault.rule;
  rule.source = absl::nullopt;
  for (const auto& [name, port] : ports_->by_name()) {
    // Tell even unchanged rules: the operator who repeats a rule wants its random sequence to
    // restart.
    if (fault.destination == kAnyPort || fault.destination == name) Tell(port.get());
  }
  return absl::OkStatus();
}

absl::Status FaultTable::Clear(const std::string& source, const std::string& destination) {
  if (faults_.erase({source, destination}) == 0) {
    return absl::NotFoundError(
        absl::StrCat("clear the faults from ", source, " to ", destination, ": there are none"));
  }
  TellChanged();
  return absl::OkStatus();
}

void FaultTable::ClearAll() {
  faults_.clear();
  TellChanged();
}

std::vector<Fault> FaultTable::All() const {
  std::vector<Fault> faults;
  for (const auto& [names, rule] : faults_)
    faults.push_back(Fault{names.first, names.second, rule});
  return faults;
}

void FaultTable::PortRegistered(SubnetPort* port) {
  Tell(port);
  TellChanged();
}

void FaultTable::TellChanged() {
  // Without faults this must cost nothing per new port: there may be thousands.
  if (faults_.empty() && !told_) return;
  told_ = false;
  for (const auto& [name, port] : ports_->by_name()) {
    told_ |= !port->faults.empty();
    if (port->owner != nullptr && port->faults != RulesTo(name)) Tell(port.get());
  }
}

void FaultTable::Tell(SubnetPort* port) {
  port->faults = RulesTo(port->name);
  told_ |= !port->faults.empty();
  queue_->Push(port->owner, [rules = port->faults](PortSink* to) { to->OnFaults(rules); });
}

const FaultRule* FaultTable::Find(const std::string& source, const std::string& destination) const {
  const auto found = faults_.find({source, destination});
  return found == faults_.end() ? nullptr : &found->second;
}

// Returns the rule for any source, if there is one, and one rule for each named source that has a
// GID already.
std::vector<FaultRule> FaultTable::RulesTo(const std::string& destination) const {
  std::vector<FaultRule> rules;
  const FaultRule* any = Find(kAnyPort, destination);
  if (any == nullptr) any = Find(kAnyPort, kAnyPort);
  if (any != nullptr) rules.push_back(*any);
  const std::string* before = nullptr;  // rules of one source follow one another
  for (const auto& [names, unused] : faults_) {
    const std::string& source = names.first;
    if (source == kAnyPort || (before != nullptr && *before == source)) continue;
    before = &source;
    const SubnetPort* port = ports_->Find(source);
    const FaultRule* rule = Find(source, destination);
    if (rule == nullptr) rule = Find(source, kAnyPort);
    if (port == nullptr || rule == nullptr) continue;
    rules.push_back(*rule);
    rules.back().source = port->config.gid;
  }
  return rules;
}

}  // namespace eoib::softhca
