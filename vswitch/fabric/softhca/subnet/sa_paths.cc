#include "vswitch/fabric/softhca/subnet/sa_paths.h"

#include <algorithm>

#include "absl/types/optional.h"
#include "vswitch/fabric/softhca/subnet/sa_demand.h"

namespace eoib::softhca {
namespace {

// Returns the port that a GID, or else a LID, names; null if there is none or the two disagree.
const ManagedPort* FindPort(const ManagedPorts& ports, bool has_gid, const Gid& gid, bool has_lid,
                            Lid lid) {
  const ManagedPort* port = has_gid ? ports.FindByGid(gid) : ports.FindByLid(lid);
  return port != nullptr && has_lid && port->config.lid != lid ? nullptr : port;
}

// The source's P_Keys that reach the destination, in the order of its table.
std::vector<PKey> CommonPKeys(const PortConfig& source, const PortConfig& destination,
                              absl::optional<PKey> wanted) {
  std::vector<PKey> common;
  for (const PKey own : source.pkeys) {
    if (wanted.has_value() && !own.SamePartition(*wanted)) continue;
    if (ShareAPartition({own}, destination.pkeys)) common.push_back(own);
  }
  return common;
}

// The path between two ports, without its P_Key; nullopt if it does not meet the demands.
absl::optional<PathRecord> PathBetween(const PortConfig& source, const PortConfig& destination,
                                       uint64_t mask, const PathRecord& wanted) {
  const uint8_t mtu_limit =
      MtuOrder(source.mtu) < MtuOrder(destination.mtu) ? source.mtu : destination.mtu;
  const uint8_t rate_limit =
      RateMbps(source.rate) < RateMbps(destination.rate) ? source.rate : destination.rate;
  const auto mtu =
      Best(Demand(mask, path::kMtuSelector, path::kMtu, wanted.mtu_selector, wanted.mtu), mtu_limit,
           MtuOrder);
  const auto rate =
      Best(Demand(mask, path::kRateSelector, path::kRate, wanted.rate_selector, wanted.rate),
           rate_limit, RateMbps);
  const Demand life(mask, path::kLifeSelector, path::kLife, wanted.life_selector, wanted.life);
  if (!mtu.has_value() || !rate.has_value() || !Accepts(life, kPacketLife, LifeOrder))
    return absl::nullopt;

  PathRecord record;
  record.sgid = source.gid;
  record.dgid = destination.gid;
  record.slid = source.lid;
  record.dlid = destination.lid;
  record.flow_label = (mask & path::kFlowLabel) != 0 ? wanted.flow_label : 0;
  record.traffic_class = (mask & path::kTrafficClass) != 0 ? wanted.traffic_class : 0;
  record.mtu = *mtu;
  record.rate = *rate;
  record.life = kPacketLife;
  return record;
}

// The ports at one end of the paths: the named one, or else all, without those that the requester
// may not know.
std::vector<const ManagedPort*> FindEnds(const ManagedPorts& ports, const PortConfig& requester,
                                         bool has_gid, const Gid& gid, bool has_lid, Lid lid) {
  std::vector<const ManagedPort*> ends;
  if (has_gid || has_lid) {
    if (const ManagedPort* port = FindPort(ports, has_gid, gid, has_lid, lid)) ends.push_back(port);
  } else {
    ends = ports.Active();
  }
  std::erase_if(
      ends, [&requester](const ManagedPort* port) { return !MayKnow(requester, port->config); });
  return ends;
}

// Adds the paths between two ports, one for each partition that they share.
void AddPaths(const PortConfig& source, const PortConfig& destination, uint64_t mask,
              const PathRecord& wanted, size_t per_pair, std::vector<PathRecord>* found) {
  absl::optional<PathRecord> record = PathBetween(source, destination, mask, wanted);
  if (!record.has_value()) return;
  const bool wants_pkey = (mask & path::kPKey) != 0;
  std::vector<PKey> pkeys = CommonPKeys(
      source, destination, wants_pkey ? absl::optional<PKey>(wanted.pkey) : absl::nullopt);
  pkeys.resize(std::min(pkeys.size(), per_pair));
  for (const PKey pkey : pkeys) {
    // Use the P_Key of the request: a limited member may know the partition by its full P_Key.
    record->pkey = wants_pkey ? wanted.pkey : pkey;
    found->push_back(*record);
  }
}

// The path to a group has the group's parameters; members had to support them in order to join.
absl::optional<PathRecord> PathToGroup(const PortConfig& source, const McMemberRecord& group,
                                       uint64_t mask, const PathRecord& wanted) {
  const Demand mtu(mask, path::kMtuSelector, path::kMtu, wanted.mtu_selector, wanted.mtu);
  const Demand rate(mask, path::kRateSelector, path::kRate, wanted.rate_selector, wanted.rate);
  const Demand life(mask, path::kLifeSelector, path::kLife, wanted.life_selector, wanted.life);
  const bool good = Accepts(mtu, group.mtu, MtuOrder) && Accepts(rate, group.rate, RateMbps) &&
                    Accepts(life, group.life, LifeOrder) && IsMemberOfPartition(source, group.pkey);
  const Lid mlid(group.mlid.value());
  const bool other_address = (mask & path::kDlid) != 0 && wanted.dlid != mlid;
  const bool other_partition = (mask & path::kPKey) != 0 && !wanted.pkey.SamePartition(group.pkey);
  const bool other_sl = (mask & path::kSl) != 0 && wanted.sl != group.sl;
  if (!good || other_address || other_partition || other_sl) return absl::nullopt;
  PathRecord record;
  record.sgid = source.gid;
  record.dgid = group.mgid.gid();
  record.slid = source.lid;
  record.dlid = mlid;
  record.flow_label = group.flow_label;
  record.traffic_class = group.traffic_class;
  record.hop_limit = group.hop_limit;
  record.reversible = false;
  record.pkey = (mask & path::kPKey) != 0 ? wanted.pkey : group.pkey;
  record.sl = group.sl;
  record.mtu = group.mtu;
  record.rate = group.rate;
  record.life = group.life;
  return record;
}

}  // namespace

SaStatus FindPaths(const ManagedPorts& ports, const MulticastGroups& groups,
                   const PortConfig& requester, uint64_t mask, const PathRecord& wanted,
                   size_t per_pair, std::vector<PathRecord>* found) {
  const bool has_dgid = (mask & path::kDgid) != 0;
  const auto sources = FindEnds(ports, requester, (mask & path::kSgid) != 0, wanted.sgid,
                                (mask & path::kSlid) != 0, wanted.slid);
  if (has_dgid && wanted.dgid.IsMulticast()) {
    const auto group = groups.groups().find(Mgid(wanted.dgid));
    if (group == groups.groups().end()) return SaStatus::kOk;
    for (const ManagedPort* source : sources) {
      const auto path = PathToGroup(source->config, group->second.record, mask, wanted);
      if (path.has_value()) found->push_back(*path);
    }
    return SaStatus::kOk;
  }
  if ((mask & path::kSl) != 0 && wanted.sl != Sl()) return SaStatus::kOk;
  const auto destinations =
      FindEnds(ports, requester, has_dgid, wanted.dgid, (mask & path::kDlid) != 0, wanted.dlid);
  for (const ManagedPort* source : sources) {
    for (const ManagedPort* destination : destinations) {
      AddPaths(source->config, destination->config, mask, wanted, per_pair, found);
      if (found->size() > kMaxPaths) return SaStatus::kNoResources;
    }
  }
  return SaStatus::kOk;
}

}  // namespace eoib::softhca
