#include "vswitch/fabric/softhca/subnet/sa_paths.h"

#include <algorithm>

#include "absl/types/optional.h"
#include "vswitch/fabric/softhca/subnet/sa_demand.h"

namespace eoib::softhca {
namespace {

// The port that a GID, or else a LID, names; null also if they contradict each other.
const ManagedPort* FindPort(const ManagedPorts& ports, bool has_gid, const Gid& gid, bool has_lid, Lid lid) {
  const ManagedPort* port = has_gid ? ports.FindByGid(gid) : ports.FindByLid(lid);
  return port != nullptr && has_lid && port->config.lid != lid ? nullptr : port;
}

// The source's P_Keys by which it reaches the destination, in the order of its table.
std::vector<PKey> CommonPKeys(const PortConfig& source, const PortConfig& destination, absl::optional<PKey> wanted) {
  std::vector<PKey> common;
  for (const PKey own : source.pkeys) {
    if (wanted.has_value() && !own.SamePartition(*wanted)) continue;
    if (ShareAPartition({own}, destination.pkeys)) common.push_back(own);
  }
  return common;
}

// The path between two ports but for its P_Key; nothing if it cannot be what is wanted.
absl::optional<PathRecord> PathBetween(const PortConfig& source, const PortConfig& destination, uint64_t mask,
                                       const PathRecord& wanted) {
  const uint8_t mtu_limit = MtuOrder(source.mtu) < MtuOrder(destination.mtu) ? source.mtu : destination.mtu;
  const uint8_t rate_limit = RateMbps(source.rate) < RateMbps(destination.rate) ? source.rate : destination.rate;
  const auto mtu = Best(Demand(mask, path::kMtuSelector, path::kMtu, wanted.mtu_selector, wanted.mtu), mtu_limit, MtuOrder);
  const auto rate =
      Best(Demand(mask, path::kRateSelector, path::kRate, wanted.rate_selector, wanted.rate), rate_limit, RateMbps);
  const Demand life(mask, path::kLifeSelector, path::kLife, wanted.life_selector, wanted.life);
  if (!mtu.has_value() || !rate.has_value() || !Accepts(life, kPacketLife, LifeOrder)) return absl::nullopt;

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

}  // namespace

SaStatus FindPaths(const ManagedPorts& ports, const PortConfig& requester, uint64_t mask, const PathRecord& wanted,
                   size_t per_pair, std::vector<PathRecord>* found) {
  const bool has_sgid = (mask & path::kSgid) != 0, has_slid = (mask & path::kSlid) != 0;
  const bool has_dgid = (mask & path::kDgid) != 0, has_dlid = (mask & path::kDlid) != 0;
  if (!has_sgid && !has_slid) return SaStatus::kInsufficientComponents;
  const ManagedPort* source = FindPort(ports, has_sgid, wanted.sgid, has_slid, wanted.slid);
  std::vector<const ManagedPort*> destinations;
  if (has_dgid || has_dlid) {
    const ManagedPort* destination = FindPort(ports, has_dgid, wanted.dgid, has_dlid, wanted.dlid);
    if (destination != nullptr) destinations.push_back(destination);
  } else {
    destinations = ports.Active();
  }
  if (source == nullptr || !MayKnow(requester, source->config)) return SaStatus::kOk;
  if ((mask & path::kSl) != 0 && wanted.sl != Sl()) return SaStatus::kOk;

  const bool wants_pkey = (mask & path::kPKey) != 0;
  for (const ManagedPort* destination : destinations) {
    if (!MayKnow(requester, destination->config)) continue;
    absl::optional<PathRecord> record = PathBetween(source->config, destination->config, mask, wanted);
    if (!record.has_value()) continue;
    std::vector<PKey> pkeys =
        CommonPKeys(source->config, destination->config, wants_pkey ? absl::optional<PKey>(wanted.pkey) : absl::nullopt);
    pkeys.resize(std::min(pkeys.size(), per_pair));
    for (const PKey pkey : pkeys) {
      // As it was asked for: a caller may know a partition by its full P_Key and be a limited member.
      record->pkey = wants_pkey ? wanted.pkey : pkey;
      found->push_back(*record);
    }
  }
  return SaStatus::kOk;
}

}  // namespace eoib::softhca
