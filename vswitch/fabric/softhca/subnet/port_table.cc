#include "vswitch/fabric/softhca/subnet/port_table.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace eoib::softhca {
namespace {

// FNV-1a. A port's GUID depends on its name only, so it survives every restart.
uint64_t HashName(absl::string_view name, uint64_t salt) {
  uint64_t hash = 0xcbf2'9ce4'8422'2325ull ^ salt;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100'0000'01b3ull;
  hash ^= hash >> 32;
  return hash * 0x9e37'79b9'7f4a'7c15ull;
}

// A locally administered EUI-64 without the group bit.
Guid LocalGuid(uint64_t hash) {
  return Guid((hash & 0x00ff'ffff'ffff'ffffull) | 0x0200'0000'0000'0000ull);
}

}  // namespace

PortTable::PortTable(const PortConfig& defaults, const std::vector<Partition>& partitions,
                     LidFile* lids, uint64_t seed)
    : defaults_(defaults), lids_(lids), random_(seed), partitions_(partitions) {
  switch_.guid = LocalGuid(HashName("", 0));  // a name that no port has
  switch_.gid = Gid::FromPrefixAndGuid(defaults.gid.prefix(), switch_.guid);
  if (lids == nullptr) return;
  for (const auto& [name, kept] : lids->ports()) Make(name, kept);
}

const ManagedPort* PortTable::FindByGid(const Gid& gid) const {
  const auto found = by_gid_.find(gid);
  return found != by_gid_.end() && found->second->config.active ? found->second : nullptr;
}

const ManagedPort* PortTable::FindByLid(Lid lid) const {
  const SubnetPort* port = AtLid(lid);
  return port != nullptr && port->config.active ? port : nullptr;
}

std::vector<const ManagedPort*> PortTable::Active() const {
  std::vector<const ManagedPort*> active;
  for (const auto& [lid, port] : by_lid_) {
    if (port->config.active) active.push_back(port);
  }
  return active;
}

SubnetPort* PortTable::Find(const std::string& name) const {
  const auto found = ports_.find(name);
  return found == ports_.end() ? nullptr : found->second.get();
}

SubnetPort* PortTable::AtLid(Lid lid) const {
  const auto found = by_lid_.find(lid);
  return found == by_lid_.end() ? nullptr : found->second;
}

SubnetPort* PortTable::Add(const std::string& name, Lid wanted) {
  const Lid lid = AllocateLid(wanted);
  if (!lid.IsValid()) return nullptr;
  SubnetPort* port = Make(name, KeptPort{lid, MakeGuid(name)});
  Keep(*port);
  return port;
}

SubnetPort* PortTable::Make(const std::string& name, const KeptPort& kept) {
  auto port = std::make_unique<SubnetPort>();
  port->name = name;
  port->switch_port = FreeSwitchPort();
  PortConfig& config = port->config;
  config = defaults_;
  config.node_guid = config.port_guid = kept.guid;
  config.gid = Gid::FromPrefixAndGuid(defaults_.gid.prefix(), kept.guid);
  config.lid = kept.lid;
  config.sm_lid = switch_.lid;
  UpdatePKeys(port.get());
  by_lid_[config.lid] = port.get();
  by_gid_[config.gid] = port.get();
  return (ports_[name] = std::move(port)).get();
}

uint8_t PortTable::FreeSwitchPort() const {
  std::array<bool, ManagedSwitch::kPorts + 1> taken{};
  for (const auto& [name, port] : ports_) taken[port->switch_port] = true;
  const auto free = std::find(taken.begin() + 1, taken.end(), false);
  return free == taken.end() ? 0 : static_cast<uint8_t>(free - taken.begin());
}

void PortTable::Keep(const SubnetPort& port) {
  if (lids_ != nullptr) lids_->Keep(port.name, KeptPort{port.config.lid, port.config.port_guid});
}

bool PortTable::LidIsFree(Lid lid) const {
  return lid != ManagedSwitch::kDefaultLid && lid != switch_.lid && by_lid_.count(lid) == 0;
}

// Returns an invalid LID if none is left.
Lid PortTable::AllocateLid(Lid wanted) const {
  if (wanted.IsValid() && LidIsFree(wanted)) return wanted;
  Lid candidate(ManagedSwitch::kDefaultLid.value() + 1);
  while (candidate.IsValid() && !LidIsFree(candidate)) candidate = Lid(candidate.value() + 1);
  return candidate;
}

Guid PortTable::MakeGuid(const std::string& name) const {
  for (uint64_t salt = 0;; ++salt) {
    const Guid guid = LocalGuid(HashName(name, salt));
    const Gid gid = Gid::FromPrefixAndGuid(defaults_.gid.prefix(), guid);
    if (gid != switch_.gid && by_gid_.count(gid) == 0) return guid;
  }
}

absl::Status PortTable::SetLid(SubnetPort* port, Lid lid) {
  const std::string what =
      absl::StrCat("set the LID of port ", port->name, " to ", lid.ToString(), ": ");
  if (!lid.IsValid()) return absl::InvalidArgumentError(what + "must be 0x2 to 0xbfff");
  if (!LidIsFree(lid)) return absl::AlreadyExistsError(what + "another port has it");
  by_lid_.erase(port->config.lid);
  by_lid_[lid] = port;
  port->config.lid = lid;
  Keep(*port);
  return absl::OkStatus();
}

// Ranges are aligned, so two of them are equal or disjoint. The first and the last are reserved,
// since they contain the special QPNs 0, 1 and 0xffffff.
absl::Status PortTable::AssignQpns(SubnetPort* port, const QpnRange& wanted) {
  constexpr uint32_t kSlots = (Qpn::kMax + 1) / kQpnsPerPort;
  const uint32_t first_wanted = wanted.first.value();
  const bool in_order = wanted.count == kQpnsPerPort && first_wanted % kQpnsPerPort == 0 &&
                        first_wanted >= kQpnsPerPort && first_wanted < (kSlots - 1) * kQpnsPerPort;
  QpnRange& qpns = port->config.qpns;
  if (in_order && QpnsAreFree(first_wanted)) {
    qpns = wanted;
    return absl::OkStatus();
  }
  uint32_t slot = static_cast<uint32_t>(random_() % (kSlots - 2));
  for (uint32_t tried = 0; tried < kSlots - 2; ++tried, ++slot) {
    const uint32_t first = (1 + slot % (kSlots - 2)) * kQpnsPerPort;
    // A new process must not get the range of its predecessor, for which datagrams may still
    // arrive.
    const bool is_former = qpns.count != 0 && qpns.first.value() == first;
    if (is_former || !QpnsAreFree(first)) continue;
    qpns = QpnRange{Qpn(first), kQpnsPerPort};
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError("register a port: no range of QPNs is left");
}

bool PortTable::QpnsAreFree(uint32_t first) const {
  return std::none_of(ports_.begin(), ports_.end(), [first](const auto& entry) {
    return entry.second->owner != nullptr && entry.second->config.qpns.first.value() == first;
  });
}

absl::Status PortTable::MoveSm(Lid lid) {
  const std::string what = absl::StrCat("move the subnet manager to LID ", lid.ToString(), ": ");
  if (!lid.IsValid()) return absl::InvalidArgumentError(what + "must be 0x1 to 0xbfff");
  if (by_lid_.count(lid) != 0) return absl::AlreadyExistsError(what + "a port has it");
  switch_.lid = lid;
  for (const auto& [name, port] : ports_) port->config.sm_lid = lid;
  return absl::OkStatus();
}

}  // namespace eoib::softhca
