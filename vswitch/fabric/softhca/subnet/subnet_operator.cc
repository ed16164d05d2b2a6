// Subnet: what an operator or a test changes and inspects.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "vswitch/fabric/softhca/port_name.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"

namespace eoib::softhca {
namespace {

// Removes the ports that are excluded from "ALL".
void ForgetExclusions(Partition* partition) {
  std::erase_if(partition->listed, [](const auto& entry) { return entry.second == Membership::kNone; });
}

void AddMember(const std::string& name, Membership membership, Partition* partition) {
  if (name != kAllPorts) {
    partition->listed[name] = membership;
    return;
  }
  partition->all = membership;
  ForgetExclusions(partition);  // "ALL" includes ports that were removed by name
}

void RemoveMember(const std::string& name, Partition* partition) {
  (name == kAllPorts ? partition->all : partition->listed[name]) = Membership::kNone;
  if (partition->all == Membership::kNone) ForgetExclusions(partition);
}

}  // namespace

// ---- Changes.

absl::Status Subnet::SetLink(const std::string& name, bool up) {
  {
    absl::MutexLock lock(&mutex_);
    Port* port = FindPort(name);
    if (port == nullptr)
      return absl::NotFoundError(absl::StrCat("set the link of port ", name, ": there is no such port; \"show\" lists them"));
    if (port->link_up == up) return absl::OkStatus();
    port->link_up = up;
    // Not left to the port: as long as it has rings, datagrams pass.
    if (!up) CloseRingsOf(port);
    UpdateActive(port);
    TellConfig(port);
    TellNews();
  }
  Deliver();
  return absl::OkStatus();
}

absl::Status Subnet::SetLid(const std::string& name, Lid lid) {
  {
    absl::MutexLock lock(&mutex_);
    const std::string what = absl::StrCat("set the LID of port ", name, " to ", lid.ToString(), ": ");
    Port* port = FindPort(name);
    if (port == nullptr) return absl::NotFoundError(what + "there is no such port; \"show\" lists them");
    if (!lid.IsValid()) return absl::InvalidArgumentError(what + "must be 0x2 to 0xbfff");
    if (lid == port->config.lid) return absl::OkStatus();
    if (!LidIsFree(lid)) return absl::AlreadyExistsError(what + "another port has it");
    CloseRingsOf(port);
    by_lid_.erase(port->config.lid);
    by_lid_[lid] = port;
    port->config.lid = lid;
    Keep(*port);
    TellConfig(port);
    agents_.groups().ReceiversChanged();
    TellNews();
  }
  Deliver();
  return absl::OkStatus();
}

Partition* Subnet::FindPartition(PKey pkey) {
  const auto found = std::find_if(partitions_.begin(), partitions_.end(),
                                  [pkey](const Partition& partition) { return partition.pkey.SamePartition(pkey); });
  return found == partitions_.end() ? nullptr : &*found;
}

absl::Status Subnet::AddToPartition(PKey pkey, const std::string& name, Membership membership) {
  if (!pkey.IsValid()) return absl::InvalidArgumentError(absl::StrCat("P_Key ", pkey.ToString(), " is not valid"));
  if (name != kAllPorts) {
    if (absl::Status status = CheckPortName(name); !status.ok()) return status;
  }
  {
    absl::MutexLock lock(&mutex_);
    Partition* partition = FindPartition(pkey);
    if (partition == nullptr) {
      if (partitions_.size() >= kMaxPKeys) {
        return absl::ResourceExhaustedError(
            absl::StrCat("add partition ", pkey.Full().ToString(), ": there are ", kMaxPKeys, " already"));
      }
      partition = &partitions_.emplace_back();
      partition->pkey = pkey.Full();
    }
    AddMember(name, membership, partition);
    UpdateAllPKeys();
  }
  Deliver();
  return absl::OkStatus();
}

absl::Status Subnet::RemoveFromPartition(PKey pkey, const std::string& name) {
  {
    absl::MutexLock lock(&mutex_);
    Partition* partition = FindPartition(pkey);
    const Membership had = partition == nullptr ? Membership::kNone : name == kAllPorts ? partition->all : partition->Of(name);
    if (had == Membership::kNone) {
      return absl::NotFoundError(
          absl::StrCat("remove ", name, " from partition ", pkey.Full().ToString(), ": it is not a member"));
    }
    RemoveMember(name, partition);
    // The default partition stays, because it is the first entry of P_Key tables.
    std::erase_if(partitions_, [](const Partition& each) {
      return each.all == Membership::kNone && each.listed.empty() && each.pkey != kDefaultPKey;
    });
    UpdateAllPKeys();
  }
  Deliver();
  return absl::OkStatus();
}

void Subnet::UpdateAllPKeys() {
  for (const auto& [name, port] : ports_) {
    if (!UpdatePKeys(port.get())) continue;
    TellConfig(port.get());
    TellSource(port.get());
    agents_.groups().ReceiversChanged();
  }
  TellNews();
}

bool Subnet::UpdatePKeys(Port* port) {
  std::vector<PKey>& table = port->config.pkeys;
  const std::vector<PKey> before = table;
  for (PKey& entry : table) {
    const Partition* partition = entry.IsValid() ? FindPartition(entry) : nullptr;
    entry = partition == nullptr ? PKey() : partition->PKeyOf(port->name).value_or(PKey());
  }
  for (const Partition& partition : partitions_) {
    const absl::optional<PKey> pkey = partition.PKeyOf(port->name);
    if (!pkey.has_value() || std::find(table.begin(), table.end(), *pkey) != table.end()) continue;
    const auto hole = std::find(table.begin(), table.end(), PKey());
    hole == table.end() ? table.push_back(*pkey) : void(*hole = *pkey);
  }
  return table != before;
}

// ---- The subnet manager.

void Subnet::SetSmAbsent(bool absent) {
  {
    absl::MutexLock lock(&mutex_);
    switch_.runs_sm = !absent;
    agents_.Run();  // sends what waited for its return
    TellNews();
  }
  Deliver();
}

void Subnet::RestartSm() {
  {
    absl::MutexLock lock(&mutex_);
    agents_.RestartSm();
    TellNews();
    for (const auto& [name, port] : ports_) {
      ++port->config.reregistrations;
      TellConfig(port.get());
    }
  }
  Deliver();
}

absl::Status Subnet::MoveSm(Lid lid) {
  {
    absl::MutexLock lock(&mutex_);
    const std::string what = absl::StrCat("move the subnet manager to LID ", lid.ToString(), ": ");
    if (!lid.IsValid()) return absl::InvalidArgumentError(what + "must be 0x1 to 0xbfff");
    if (by_lid_.count(lid) != 0) return absl::AlreadyExistsError(what + "a port has it");
    switch_.lid = lid;
    for (const auto& [name, port] : ports_) {
      port->config.sm_lid = lid;
      TellConfig(port.get());
    }
  }
  Deliver();
  return absl::OkStatus();
}

absl::Status Subnet::Reregister(const std::string& name) {
  {
    absl::MutexLock lock(&mutex_);
    if (name != kAllPorts && FindPort(name) == nullptr) {
      return absl::NotFoundError(absl::StrCat("reregister port ", name, ": there is no such port; \"show\" lists them"));
    }
    for (const auto& [other, port] : ports_) {
      if (name != kAllPorts && name != other) continue;
      ++port->config.reregistrations;
      TellConfig(port.get());
    }
  }
  Deliver();
  return absl::OkStatus();
}

// ---- Status.

std::vector<Subnet::PortStatus> Subnet::Ports() const {
  absl::MutexLock lock(&mutex_);
  std::vector<PortStatus> ports;
  for (const auto& [lid, port] : by_lid_) {
    PortStatus& status = ports.emplace_back();
    status.name = port->name;
    status.config = port->config;
    status.alive = port->owner != nullptr;
    status.link_up = port->link_up;
    status.registrations = port->registrations;
    status.mads = port->mads;
    status.rings_made = port->rings_made;
    status.rings_refused = port->rings_refused;
    if (port->counters != nullptr) status.counters = port->counters->Load();
    for (const auto& [ring, ends] : rings_) {
      status.rings_out += ends.source == port;
      status.rings_in += ends.destination == port;
    }
  }
  return ports;
}

std::vector<Subnet::GroupStatus> Subnet::Groups() const {
  absl::MutexLock lock(&mutex_);
  std::vector<GroupStatus> groups;
  for (const auto& [mgid, group] : agents_.groups().groups()) {
    GroupStatus& status = groups.emplace_back();
    status.record = group.record;
    for (const auto& [gid, bits] : group.members) {
      const Port* port = by_gid_.at(gid);
      status.members.push_back(GroupMember{port->name, port->config.lid, bits});
    }
  }
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.record.mlid < b.record.mlid; });
  return groups;
}

std::vector<Subnet::RingStatus> Subnet::Rings() const {
  absl::MutexLock lock(&mutex_);
  std::vector<RingStatus> rings;
  for (const auto& [ring, ends] : rings_) {
    rings.push_back(RingStatus{ring, ends.source->name, ends.destination->name, ends.capacity});
  }
  return rings;
}

std::vector<Subnet::Subscriptions> Subnet::AllSubscriptions() const {
  absl::MutexLock lock(&mutex_);
  std::vector<Subscriptions> all;
  for (const auto& [gid, infos] : agents_.notices().subscriptions()) all.push_back({by_gid_.at(gid)->name, infos});
  return all;
}

Subnet::MadCounters Subnet::mad_counters() const {
  absl::MutexLock lock(&mutex_);
  return MadCounters{agents_.sa().counters(), agents_.notices().counters(), agents_.smp().counters(), agents_.pma().counters()};
}

bool Subnet::sm_absent() const {
  absl::MutexLock lock(&mutex_);
  return !switch_.runs_sm;
}

Lid Subnet::sm_lid() const {
  absl::MutexLock lock(&mutex_);
  return switch_.lid;
}

}  // namespace eoib::softhca
