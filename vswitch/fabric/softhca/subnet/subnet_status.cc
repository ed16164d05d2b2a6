// Subnet: what an operator or a test inspects.
#include <algorithm>

#include "vswitch/fabric/softhca/subnet/subnet.h"

namespace eoib::softhca {

std::vector<Subnet::PortStatus> Subnet::Ports() const {
  absl::MutexLock lock(&mutex_);
  std::vector<PortStatus> ports;
  for (const auto& [lid, port] : ports_.by_lid()) {
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
    for (const auto& [ring, ends] : rings_.rings()) {
      status.rings_out += ends.source == port;
      status.rings_in += ends.destination == port;
    }
  }
  return ports;
}

std::vector<Partition> Subnet::Partitions() const {
  absl::MutexLock lock(&mutex_);
  return ports_.partitions()->partitions();
}

std::vector<Subnet::GroupStatus> Subnet::Groups() const {
  absl::MutexLock lock(&mutex_);
  std::vector<GroupStatus> groups;
  for (const auto& [mgid, group] : agents_.groups().groups()) {
    GroupStatus& status = groups.emplace_back();
    status.record = group.record;
    for (const auto& [gid, bits] : group.members) {
      const SubnetPort* port = ports_.AtGid(gid);
      status.members.push_back(GroupMember{port->name, port->config.lid, bits});
    }
  }
  std::sort(groups.begin(), groups.end(),
            [](const auto& a, const auto& b) { return a.record.mlid < b.record.mlid; });
  return groups;
}

std::vector<Subnet::ServiceStatus> Subnet::Services() const {
  absl::MutexLock lock(&mutex_);
  std::vector<ServiceStatus> services;
  for (const ServiceRecord& record : agents_.services().All())
    services.push_back({ports_.AtGid(record.gid)->name, record});
  return services;
}

std::vector<Subnet::RingStatus> Subnet::Rings() const {
  absl::MutexLock lock(&mutex_);
  std::vector<RingStatus> rings;
  for (const auto& [ring, ends] : rings_.rings()) {
    rings.push_back(RingStatus{ring, ends.source->name, ends.destination->name, ends.capacity});
  }
  return rings;
}

std::vector<Subnet::Subscriptions> Subnet::AllSubscriptions() const {
  absl::MutexLock lock(&mutex_);
  std::vector<Subscriptions> all;
  for (const auto& [gid, infos] : agents_.notices().subscriptions())
    all.push_back({ports_.AtGid(gid)->name, infos});
  return all;
}

Subnet::MadCounters Subnet::mad_counters() const {
  absl::MutexLock lock(&mutex_);
  return MadCounters{agents_.sa().counters(), agents_.notices().counters(),
                     agents_.smp().counters(), agents_.pma().counters()};
}

bool Subnet::sm_absent() const {
  absl::MutexLock lock(&mutex_);
  return !ports_.Switch().runs_sm;
}

Lid Subnet::sm_lid() const {
  absl::MutexLock lock(&mutex_);
  return ports_.Switch().lid;
}

std::vector<Fault> Subnet::Faults() const {
  absl::MutexLock lock(&mutex_);
  return faults_.All();
}

absl::optional<SoftPortCounters> Subnet::CountersOf(const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  const SubnetPort* port = ports_.Find(name);
  if (port == nullptr || port->counters == nullptr) return absl::nullopt;
  return port->counters->Load();
}

Conservation Subnet::GetConservation() const {
  absl::MutexLock lock(&mutex_);
  return ledger_.Sum();
}

}  // namespace eoib::softhca
