#include "vswitch/fabric/softhca/sa_responder.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace eoib::softhca {
namespace {

constexpr uint8_t kJoinStates = kFullMember | kNonMember | kSendOnlyNonMember;
constexpr uint8_t kReceives = kFullMember | kNonMember;
constexpr uint8_t kCodes = 64;  // MTU, rate and lifetime codes have 6 bits

// What a request demands of an MTU, a rate or a lifetime. It demands something only if both the selector and the value are
// present, except that "the largest" needs no value (§15.2.5.16).
struct Demand {
  bool given = false;
  Selector selector = Selector::kExactly;
  uint8_t value = 0;

  Demand(uint64_t mask, uint64_t selector_bit, uint64_t value_bit, Selector s, uint8_t v) : selector(s), value(v) {
    given = (mask & selector_bit) != 0 && ((mask & value_bit) != 0 || s == Selector::kLargest);
  }
};

// Codes of a kind in the order of what they stand for; 0 for a code that is none.
using Order = uint32_t (*)(uint8_t code);

uint32_t MtuOrder(uint8_t code) { return static_cast<uint32_t>(MtuBytes(code)); }
uint32_t LifeOrder(uint8_t code) { return code + 1u; }

bool Accepts(const Demand& demand, uint8_t actual, Order order) {
  if (!demand.given) return true;
  switch (demand.selector) {
    case Selector::kGreaterThan:
      return order(actual) > order(demand.value);
    case Selector::kLessThan:
      return order(actual) < order(demand.value);
    case Selector::kExactly:
      return order(actual) == order(demand.value);
    case Selector::kLargest:
      return true;
  }
  return false;
}

// The largest code up to `limit` that meets the demand.
absl::optional<uint8_t> Best(const Demand& demand, uint8_t limit, Order order) {
  absl::optional<uint8_t> best;
  for (uint8_t code = 0; code < kCodes; ++code) {
    if (order(code) == 0 || order(code) > order(limit) || !Accepts(demand, code, order)) continue;
    if (!best.has_value() || order(code) > order(*best)) best = code;
  }
  return best;
}

Demand MtuDemand(uint64_t mask, const McMemberRecord& r) {
  return Demand(mask, mcm::kMtuSelector, mcm::kMtu, r.mtu_selector, r.mtu);
}
Demand RateDemand(uint64_t mask, const McMemberRecord& r) {
  return Demand(mask, mcm::kRateSelector, mcm::kRate, r.rate_selector, r.rate);
}
Demand LifeDemand(uint64_t mask, const McMemberRecord& r) {
  return Demand(mask, mcm::kLifeSelector, mcm::kLife, r.life_selector, r.life);
}

bool IsMemberOfPartition(const PortConfig& port, PKey pkey) {
  return std::any_of(port.pkeys.begin(), port.pkeys.end(), [&](PKey own) { return own.IsValid() && own.SamePartition(pkey); });
}

// Whether a group is what the components present in a request say (o15-0.2.4: else the join is refused).
bool GroupIs(const McMemberRecord& group, uint64_t mask, const McMemberRecord& wanted) {
  const auto is = [mask](uint64_t bit, bool equal) { return (mask & bit) == 0 || equal; };
  return is(mcm::kQKey, group.qkey == wanted.qkey) && is(mcm::kMlid, group.mlid == wanted.mlid) &&
         is(mcm::kTrafficClass, group.traffic_class == wanted.traffic_class) &&
         is(mcm::kPKey, group.pkey.SamePartition(wanted.pkey)) && is(mcm::kSl, group.sl == wanted.sl) &&
         is(mcm::kFlowLabel, group.flow_label == wanted.flow_label) &&
         is(mcm::kHopLimit, group.hop_limit == wanted.hop_limit) && is(mcm::kScope, group.scope == wanted.scope) &&
         Accepts(MtuDemand(mask, wanted), group.mtu, MtuOrder) && Accepts(RateDemand(mask, wanted), group.rate, RateMbps) &&
         Accepts(LifeDemand(mask, wanted), group.life, LifeOrder);
}

// Whether a port can take part: a limited member may, since a group's traffic reaches it through the full members (RFC 4391
// §4), and its link must carry the group's MTU and rate.
bool PortFits(const PortConfig& port, const McMemberRecord& group) {
  return IsMemberOfPartition(port, group.pkey) && MtuOrder(group.mtu) <= MtuOrder(port.mtu) &&
         RateMbps(group.rate) <= RateMbps(port.rate);
}

// A pair of P_Keys by which two ports reach one another: the source's entry. Of several, the first of the source's table.
absl::optional<PKey> CommonPKey(const PortConfig& source, const PortConfig& destination, absl::optional<PKey> wanted) {
  for (PKey own : source.pkeys) {
    if (wanted.has_value() && !own.SamePartition(*wanted)) continue;
    for (PKey other : destination.pkeys) {
      if (own.Matches(other)) return own;
    }
  }
  return absl::nullopt;
}

}  // namespace

uint32_t RateMbps(uint8_t code) {
  static constexpr uint32_t kMbps[] = {0,      0,      2500,   10000, 30000, 5000,   20000,  40000,
                                       60000,  80000,  120000, 14000, 56000, 112000, 168000, 25000,
                                       100000, 200000, 300000, 28000, 50000, 400000, 600000};
  return code < std::size(kMbps) ? kMbps[code] : 0;
}

bool MulticastGroup::HasFullMember() const {
  return std::any_of(members.begin(), members.end(), [](const auto& member) { return (member.second & kFullMember) != 0; });
}

std::vector<Gid> MulticastGroup::Receivers() const {
  std::vector<Gid> receivers;
  for (const auto& [port, bits] : members) {
    if ((bits & kReceives) != 0) receivers.push_back(port);
  }
  return receivers;
}

absl::optional<Mad> SaResponder::Respond(const PortConfig& requester, const Mad& mad) {
  const absl::StatusOr<SaHeader> request = DecodeSaHeader(mad);
  if (!request.ok() || request->IsResponse()) {
    ++counters_.malformed;
    return absl::nullopt;
  }
  SaHeader header = *request;
  header.method = ResponseTo(request->method);
  Mad reply;
  EncodeSaHeader(header, &reply);
  const SaStatus status = Dispatch(requester, *request, mad, &reply);
  ++counters_.requests;
  if (status == SaStatus::kOk) return reply;
  ++counters_.errors;
  header.status = static_cast<uint16_t>(status);
  EncodeSaHeader(header, &reply);
  return reply;
}

SaStatus SaResponder::Dispatch(const PortConfig& requester, const SaHeader& header, const Mad& mad, Mad* reply) {
  const bool known_method = header.method == MadMethod::kGet || header.method == MadMethod::kSet ||
                            header.method == MadMethod::kDelete || header.method == MadMethod::kGetTable;
  if (!known_method) return SaStatus::kUnsupportedMethod;
  if (header.attribute == SaAttribute::kMcMemberRecord) return DispatchMcMember(requester, header, mad, reply);
  if (header.attribute != SaAttribute::kPathRecord || header.method != MadMethod::kGet) {
    return SaStatus::kUnsupportedMethodAttribute;
  }
  absl::StatusOr<PathRecord> record = DecodePathRecord(SaRecord(mad));
  if (!record.ok()) return SaStatus::kRequestInvalid;
  const SaStatus status = GetPath(header.component_mask, &*record);
  if (status == SaStatus::kOk) EncodePathRecord(*record, SaRecord(reply));
  return status;
}

SaStatus SaResponder::DispatchMcMember(const PortConfig& requester, const SaHeader& header, const Mad& mad, Mad* reply) {
  if (header.method == MadMethod::kGetTable) return SaStatus::kUnsupportedMethodAttribute;
  absl::StatusOr<McMemberRecord> record = DecodeMcMemberRecord(SaRecord(mad));
  if (!record.ok()) return SaStatus::kRequestInvalid;
  SaStatus status;
  if (header.method == MadMethod::kSet) {
    status = Join(requester, header.component_mask, &*record);
  } else if (header.method == MadMethod::kDelete) {
    status = Leave(requester, header.component_mask, &*record);
  } else {
    status = GetGroup(requester, header.component_mask, &*record);
  }
  if (status == SaStatus::kOk) EncodeMcMemberRecord(*record, SaRecord(reply));
  return status;
}

SaStatus SaResponder::Join(const PortConfig& requester, uint64_t mask, McMemberRecord* record) {
  constexpr uint64_t kNeeded = mcm::kMgid | mcm::kPortGid | mcm::kJoinState;
  if ((mask & kNeeded) != kNeeded) return SaStatus::kInsufficientComponents;
  // Nobody joins for somebody else here: there are no trusted hosts.
  if (record->port_gid != requester.gid) return SaStatus::kInvalidGid;
  const uint8_t bits = record->join_state;
  if (bits == 0 || (bits & ~kJoinStates) != 0) return SaStatus::kRequestInvalid;

  auto found = groups_.find(record->mgid);
  if (found == groups_.end()) {
    // o15-0.1.9: only a full member's join makes a group.
    if ((bits & kFullMember) == 0) return SaStatus::kRequestInvalid;
    const SaStatus status = CreateGroup(requester, mask, *record);
    if (status != SaStatus::kOk) return status;
    found = groups_.find(record->mgid);
  } else if (!GroupIs(found->second.record, mask, *record) || !PortFits(requester, found->second.record)) {
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

SaStatus SaResponder::CreateGroup(const PortConfig& requester, uint64_t mask, const McMemberRecord& wanted) {
  // §15.2.5.17.2: what nobody but the creator can decide must be there.
  constexpr uint64_t kNeeded = mcm::kQKey | mcm::kPKey | mcm::kTrafficClass | mcm::kSl | mcm::kFlowLabel;
  if ((mask & kNeeded) != kNeeded) return SaStatus::kInsufficientComponents;
  if (!wanted.pkey.IsValid() || !IsMemberOfPartition(requester, wanted.pkey)) return SaStatus::kRequestInvalid;
  const absl::optional<uint8_t> mtu = Best(MtuDemand(mask, wanted), requester.mtu, MtuOrder);
  const absl::optional<uint8_t> rate = Best(RateDemand(mask, wanted), requester.rate, RateMbps);
  if (!mtu.has_value() || !rate.has_value()) return SaStatus::kRequestInvalid;
  const absl::optional<Mlid> mlid = AllocateMlid((mask & mcm::kMlid) != 0 ? absl::optional<Mlid>(wanted.mlid) : absl::nullopt);
  if (!mlid.has_value()) return SaStatus::kNoResources;

  McMemberRecord group = wanted;
  group.port_gid = Gid();
  group.mlid = *mlid;
  // A group belongs to a partition, not to a member of it, so its P_Key is the partition's, in the full form.
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
  return SaStatus::kOk;
}

// A creator may name the MLID it would like, as with OpenSM: after a restart of the subnet, groups come back under the MLIDs
// that senders still use. It gets it if it is free.
absl::optional<Mlid> SaResponder::AllocateMlid(absl::optional<Mlid> wanted) {
  if (wanted.has_value() && *wanted >= kFirstMlid && *wanted <= last_mlid_ && mlids_.count(*wanted) == 0) return wanted;
  Mlid candidate = kFirstMlid;
  for (const auto& [used, mgid] : mlids_) {
    if (used != candidate) break;
    candidate = Mlid(candidate.value() + 1);
  }
  if (candidate > last_mlid_) return absl::nullopt;
  return candidate;
}

SaStatus SaResponder::Leave(const PortConfig& requester, uint64_t mask, McMemberRecord* record) {
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
  record->join_state = bits;  // what was deleted
  RemoveMembership(group, requester.gid, bits);
  return SaStatus::kOk;
}

void SaResponder::RemoveMembership(std::map<Mgid, MulticastGroup>::iterator group, const Gid& port, uint8_t bits) {
  const auto member = group->second.members.find(port);
  if (member == group->second.members.end()) return;
  const uint8_t left = member->second & ~bits;
  if ((member->second & kReceives) != 0 && (left & kReceives) == 0) changed_.insert(group->second.record.mlid);
  member->second = left;
  if (left == 0) group->second.members.erase(member);
  if (group->second.HasFullMember()) return;
  changed_.insert(group->second.record.mlid);
  mlids_.erase(group->second.record.mlid);
  groups_.erase(group);
}

void SaResponder::RemovePort(const Gid& port) {
  for (auto group = groups_.begin(); group != groups_.end();) {
    const auto current = group++;
    RemoveMembership(current, port, kJoinStates);
  }
}

// Without trust, a query shows groups and one's own membership, never who else is in a group (§15.2.5.17.1), and only groups
// of one's own partitions.
SaStatus SaResponder::GetGroup(const PortConfig& requester, uint64_t mask, McMemberRecord* record) const {
  const MulticastGroup* match = nullptr;
  for (const auto& [mgid, group] : groups_) {
    if ((mask & mcm::kMgid) != 0 && mgid != record->mgid) continue;
    if (!IsMemberOfPartition(requester, group.record.pkey) || !GroupIs(group.record, mask, *record)) continue;
    if ((mask & mcm::kPortGid) != 0 && group.members.count(record->port_gid) == 0) continue;
    if (match != nullptr) return SaStatus::kTooManyRecords;
    match = &group;
  }
  if (match == nullptr) return SaStatus::kNoRecords;
  *record = match->record;
  const auto own = match->members.find(requester.gid);
  if (own != match->members.end()) {
    record->port_gid = requester.gid;
    record->join_state = own->second;
  }
  return SaStatus::kOk;
}

SaStatus SaResponder::GetPath(uint64_t mask, PathRecord* record) const {
  if ((mask & (path::kSgid | path::kSlid)) == 0 || (mask & (path::kDgid | path::kDlid)) == 0) {
    return SaStatus::kInsufficientComponents;
  }
  const PortConfig* source = (mask & path::kSgid) != 0 ? ports_->FindByGid(record->sgid) : ports_->FindByLid(record->slid);
  const PortConfig* destination = (mask & path::kDgid) != 0 ? ports_->FindByGid(record->dgid) : ports_->FindByLid(record->dlid);
  if (source == nullptr || destination == nullptr) return SaStatus::kNoRecords;
  if ((mask & path::kSlid) != 0 && record->slid != source->lid) return SaStatus::kNoRecords;
  if ((mask & path::kDlid) != 0 && record->dlid != destination->lid) return SaStatus::kNoRecords;
  if ((mask & path::kSl) != 0 && record->sl != Sl()) return SaStatus::kNoRecords;
  const bool wants_pkey = (mask & path::kPKey) != 0;
  const absl::optional<PKey> pkey =
      CommonPKey(*source, *destination, wants_pkey ? absl::optional<PKey>(record->pkey) : absl::nullopt);
  if (!pkey.has_value()) return SaStatus::kNoRecords;

  const uint8_t mtu_limit = MtuOrder(source->mtu) < MtuOrder(destination->mtu) ? source->mtu : destination->mtu;
  const uint8_t rate_limit = RateMbps(source->rate) < RateMbps(destination->rate) ? source->rate : destination->rate;
  const auto mtu = Best(Demand(mask, path::kMtuSelector, path::kMtu, record->mtu_selector, record->mtu), mtu_limit, MtuOrder);
  const auto rate =
      Best(Demand(mask, path::kRateSelector, path::kRate, record->rate_selector, record->rate), rate_limit, RateMbps);
  const Demand life(mask, path::kLifeSelector, path::kLife, record->life_selector, record->life);
  if (!mtu.has_value() || !rate.has_value() || !Accepts(life, kPacketLife, LifeOrder)) return SaStatus::kNoRecords;

  PathRecord answer;
  answer.sgid = source->gid;
  answer.dgid = destination->gid;
  answer.slid = source->lid;
  answer.dlid = destination->lid;
  answer.flow_label = (mask & path::kFlowLabel) != 0 ? record->flow_label : 0;
  answer.traffic_class = (mask & path::kTrafficClass) != 0 ? record->traffic_class : 0;
  answer.pkey = wants_pkey ? record->pkey : *pkey;
  answer.mtu = *mtu;
  answer.rate = *rate;
  answer.life = kPacketLife;
  *record = answer;
  return SaStatus::kOk;
}

const MulticastGroup* SaResponder::FindByMlid(Mlid mlid) const {
  const auto mgid = mlids_.find(mlid);
  return mgid == mlids_.end() ? nullptr : &groups_.at(mgid->second);
}

std::set<Mlid> SaResponder::TakeChanged() { return std::exchange(changed_, {}); }

}  // namespace eoib::softhca
