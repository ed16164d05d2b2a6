#include "vswitch/fabric/softhca/subnet/multicast_groups.h"

#include <algorithm>

#include "vswitch/fabric/softhca/subnet/managed_ports.h"
#include "vswitch/fabric/softhca/subnet/sa_demand.h"

namespace eoib::softhca {
namespace {

constexpr uint8_t kJoinStates = kFullMember | kNonMember | kSendOnlyNonMember;
constexpr uint8_t kReceives = kFullMember | kNonMember;

Demand MtuDemand(uint64_t mask, const McMemberRecord& r) {
  return Demand(mask, mcm::kMtuSelector, mcm::kMtu, r.mtu_selector, r.mtu);
}
Demand RateDemand(uint64_t mask, const McMemberRecord& r) {
  return Demand(mask, mcm::kRateSelector, mcm::kRate, r.rate_selector, r.rate);
}
Demand LifeDemand(uint64_t mask, const McMemberRecord& r) {
  return Demand(mask, mcm::kLifeSelector, mcm::kLife, r.life_selector, r.life);
}

// True if a group matches the components of a request (o15-0.2.4: else the join is refused).
bool GroupIs(const McMemberRecord& group, uint64_t mask, const McMemberRecord& wanted) {
  const auto is = [mask](uint64_t bit, bool equal) { return (mask & bit) == 0 || equal; };
  return is(mcm::kQKey, group.qkey == wanted.qkey) && is(mcm::kMlid, group.mlid == wanted.mlid) &&
         is(mcm::kTrafficClass, group.traffic_class == wanted.traffic_class) &&
         is(mcm::kPKey, group.pkey.SamePartition(wanted.pkey)) &&
         is(mcm::kSl, group.sl == wanted.sl) &&
         is(mcm::kFlowLabel, group.flow_label == wanted.flow_label) &&
         is(mcm::kHopLimit, group.hop_limit == wanted.hop_limit) &&
         is(mcm::kScope, group.scope == wanted.scope) &&
         Accepts(MtuDemand(mask, wanted), group.mtu, MtuOrder) &&
         Accepts(RateDemand(mask, wanted), group.rate, RateMbps) &&
         Accepts(LifeDemand(mask, wanted), group.life, LifeOrder);
}

// True if a port may join. A limited member may, since the group's traffic reaches it through full
// members (RFC 4391 §4). Its link must carry the group's MTU and rate.
bool PortFits(const PortConfig& port, const McMemberRecord& group) {
  return IsMemberOfPartition(port, group.pkey) && MtuOrder(group.mtu) <= MtuOrder(port.mtu) &&
         RateMbps(group.rate) <= RateMbps(port.rate);
}

}  // namespace

bool MulticastGroup::HasFullMember() const {
  return std::any_of(members.begin(), members.end(),
                     [](const auto& member) { return (member.second & kFullMember) != 0; });
}

std::vector<Gid> MulticastGroup::Receivers() const {
  std::vector<Gid> receivers;
  for (const auto& [port, bits] : members) {
    if ((bits & kReceives) != 0) receivers.push_back(port);
  }
  return receivers;
}

SaStatus MulticastGroups::Join(const PortConfig& requester, uint64_t mask, McMemberRecord* record) {
  constexpr uint64_t kNeeded = mcm::kMgid | mcm::kPortGid | mcm::kJoinState;
  if ((mask & kNeeded) != kNeeded) return SaStatus::kInsufficientComponents;
  if (record->port_gid != requester.gid) return SaStatus::kInvalidGid;
  const uint8_t bits = record->join_state;
  if (bits == 0 || (bits & ~kJoinStates) != 0) return SaStatus::kRequestInvalid;

  auto found = groups_.find(record->mgid);
  if (found == groups_.end()) {
    // o15-0.1.9: only a full member's join creates a group.
    if ((bits & kFullMember) == 0) return SaStatus::kRequestInvalid;
    const SaStatus status = CreateGroup(requester, mask, *record);
    if (status != SaStatus::kOk) return status;
    found = groups_.find(record->mgid);
  } else if (!GroupIs(found->second.record, mask, *record) ||
             !PortFits(requester, found->second.record)) {
    return SaStatus::kRequestInvalid;
  }
  MulticastGroup& group = found->second;
  uint8_t& membership = group.members[requester.gid];
  if ((membership & kReceives) == 0 && (bits & kReceives) != 0) changed_.insert(group.record.mlid);
  membership |= bits;
  *record = group.record;
  record->port_gid = requester.gid;
  record->join_state = membership;
  return SaStatus::kOk;
}

SaStatus MulticastGroups::CreateGroup(const PortConfig& requester, uint64_t mask,
                                      const McMemberRecord& wanted) {
  // §15.2.5.17.2: the components that only the creator can decide are mandatory.
  constexpr uint64_t kNeeded =
      mcm::kQKey | mcm::kPKey | mcm::kTrafficClass | mcm::kSl | mcm::kFlowLabel;
  if ((mask & kNeeded) != kNeeded) return SaStatus::kInsufficientComponents;
  if (!wanted.pkey.IsValid() || !IsMemberOfPartition(requester, wanted.pkey))
    return SaStatus::kRequestInvalid;
  const absl::optional<uint8_t> mtu = Best(MtuDemand(mask, wanted), requester.mtu, MtuOrder);
  const absl::optional<uint8_t> rate = Best(RateDemand(mask, wanted), requester.rate, RateMbps);
  if (!mtu.has_value() || !rate.has_value()) return SaStatus::kRequestInvalid;
  const absl::optional<Mlid> mlid =
      AllocateMlid((mask & mcm::kMlid) != 0 ? absl::optional<Mlid>(wanted.mlid) : absl::nullopt);
  if (!mlid.has_value()) return SaStatus::kNoResources;

  McMemberRecord group = wanted;
  group.port_gid = Gid();
  group.mlid = *mlid;
  // A group belongs to a partition, so its P_Key is in the full form.
  group.pkey = wanted.pkey.Full();
  group.mtu = *mtu;
  group.rate = *rate;
  const Demand life = LifeDemand(mask, wanted);
  group.life = life.given && life.selector == Selector::kExactly ? wanted.life : kPacketLife;
  group.mtu_selector = group.rate_selector = group.life_selector = Selector::kExactly;
  if ((mask & mcm::kHopLimit) == 0) group.hop_limit = 0;
  group.scope = wanted.mgid.gid().bytes()[1] & 0x0f;
  group.join_state = 0;
  group.proxy_join = false;
  groups_[wanted.mgid].record = group;
  mlids_[*mlid] = wanted.mgid;
  changed_.insert(*mlid);
  events_.push_back({SmTrap::kGroupCreated, wanted.mgid, group.pkey});
  return SaStatus::kOk;
}

void MulticastGroups::ReceiversChanged() {
  for (const auto& [mlid, mgid] : mlids_) changed_.insert(mlid);
}

// A creator may name the MLID that it would like, as with OpenSM, and gets it if it is free. After
// a restart of the subnet, groups so come back under the MLIDs that senders still use.
absl::optional<Mlid> MulticastGroups::AllocateMlid(absl::optional<Mlid> wanted) {
  if (wanted.has_value() && *wanted >= kFirstMlid && *wanted <= last_mlid_ &&
      mlids_.count(*wanted) == 0)
    return wanted;
  Mlid candidate = kFirstMlid;
  for (const auto& [used, mgid] : mlids_) {
    if (used != candidate) break;
    candidate = Mlid(candidate.value() + 1);
  }
  if (candidate > last_mlid_) return absl::nullopt;
  return candidate;
}

SaStatus MulticastGroups::Leave(const PortConfig& requester, uint64_t mask,
                                McMemberRecord* record) {
  constexpr uint64_t kNeeded = mcm::kMgid | mcm::kPortGid | mcm::kJoinState;
  if ((mask & kNeeded) != kNeeded) return SaStatus::kInsufficientComponents;
  if (record->port_gid != requester.gid) return SaStatus::kInvalidGid;
  const auto group = groups_.find(record->mgid);
  if (group == groups_.end()) return SaStatus::kRequestInvalid;
  const auto member = group->second.members.find(requester.gid);
  if (member == group->second.members.end()) return SaStatus::kRequestInvalid;
  const uint8_t bits = record->join_state & member->second;
  if (bits == 0) return SaStatus::kRequestInvalid;
  *record = group->second.record;
  record->port_gid = requester.gid;
  record->join_state = bits;  // the join states that were removed
  RemoveMembership(group, requester.gid, bits);
  return SaStatus::kOk;
}

void MulticastGroups::RemoveMembership(std::map<Mgid, MulticastGroup>::iterator group,
                                       const Gid& port, uint8_t bits) {
  const auto member = group->second.members.find(port);
  if (member == group->second.members.end()) return;
  const uint8_t left = member->second & ~bits;
  if ((member->second & kReceives) != 0 && (left & kReceives) == 0)
    changed_.insert(group->second.record.mlid);
  member->second = left;
  if (left == 0) group->second.members.erase(member);
  if (group->second.HasFullMember()) return;
  changed_.insert(group->second.record.mlid);
  events_.push_back({SmTrap::kGroupDeleted, group->first, group->second.record.pkey});
  mlids_.erase(group->second.record.mlid);
  groups_.erase(group);
}

void MulticastGroups::RemovePort(const Gid& port) {
  for (auto group = groups_.begin(); group != groups_.end();) {
    const auto current = group++;
    RemoveMembership(current, port, kJoinStates);
  }
}

// An untrusted port sees groups of its own partitions and its own membership in them, never other
// members (§15.2.5.17.1).
std::vector<McMemberRecord> MulticastGroups::Query(const PortConfig& requester, uint64_t mask,
                                                   const McMemberRecord& wanted) const {
  std::vector<McMemberRecord> found;
  for (const auto& [mgid, group] : groups_) {
    if ((mask & mcm::kMgid) != 0 && mgid != wanted.mgid) continue;
    if (!IsMemberOfPartition(requester, group.record.pkey) || !GroupIs(group.record, mask, wanted))
      continue;
    McMemberRecord record = group.record;
    const auto own = group.members.find(requester.gid);
    if (own != group.members.end()) {
      record.port_gid = requester.gid;
      record.join_state = own->second;
    }
    if ((mask & mcm::kPortGid) != 0 && record.port_gid != wanted.port_gid) continue;
    if ((mask & mcm::kJoinState) != 0 && record.join_state != wanted.join_state) continue;
    found.push_back(record);
  }
  return found;
}

void MulticastGroups::Clear() {
  for (const auto& [mlid, mgid] : mlids_) changed_.insert(mlid);
  mlids_.clear();
  groups_.clear();
}

const MulticastGroup* MulticastGroups::FindByMlid(Mlid mlid) const {
  const auto mgid = mlids_.find(mlid);
  return mgid == mlids_.end() ? nullptr : &groups_.at(mgid->second);
}

}  // namespace eoib::softhca
