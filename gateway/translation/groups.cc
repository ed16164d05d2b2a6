#include "gateway/translation/groups.h"

#include <algorithm>

#include "gateway/election/hello.h"

namespace eoib::translation {
namespace {

constexpr uint32_t kSolicited = 1u << 24;
constexpr Ipv6Addr kMldv2Reports(std::array<uint8_t, 16>{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                                         0, 0, 0x16});

// Groups that the gateway always listens to. IPv4: all hosts (queries of an IPoIB querier), all
// routers (IGMPv2 leaves, and packets for groups that do not exist, RFC 4391 §10), IGMPv3 reports.
// IPv6: all nodes (advertisements), all routers (solicitations, MLDv1 "done"), MLDv2 reports.
const IpAddr kFixed[] = {kAllHosts, kAllRouters4, Ipv4Addr(0xe000'0016),
                         kAllNodes, kAllRouters6, kMldv2Reports};

// The last byte of groups of 224.0.0.0/24 that hosts and routers listen to without a report (RFC
// 4541 §2.1.2 (2)), and that a host may send to without being in them, so it drops its packets
// unless the gateway makes them exist. It always listens to these as well: OSPF, RIP, EIGRP, PIM,
// VRRP, HSRP and GLBP, mDNS, LLMNR. Others are joined when an IPoIB host has created them
// (ipoib/link_groups.h).
constexpr uint8_t kLocalGroups[] = {5, 6, 9, 10, 13, 18, 102, 251, 252};
constexpr uint32_t kLocalPrefix = 0xe000'0000;

// The link in a key of members_. Any value will do, because it is the same in all keys.
constexpr IpoibLink kNoLink{PKey(0xffff), MulticastScope(2)};

absl::optional<IpoibGroup> GroupOf(const IpAddr& ip) { return eoib::GroupOf(kNoLink, ip); }

std::vector<IpoibGroup> FixedGroups() {
  std::vector<IpoibGroup> groups;
  for (const IpAddr& ip : kFixed) groups.push_back(*GroupOf(ip));
  for (const uint8_t last : kLocalGroups) groups.push_back(*GroupOf(Ipv4Addr(kLocalPrefix | last)));
  return groups;
}

bool IsFixed(const IpoibGroup& group) {
  static const auto& fixed = *new std::vector<IpoibGroup>(FixedGroups());
  return std::find(fixed.begin(), fixed.end(), group) != fixed.end();
}

// HelloProtocol manages the membership of the hello group.
bool IsHelloGroup(const IpoibGroup& group) {
  static const IpoibGroup hello = *GroupOf(gateway::kHelloGroup);
  return group == hello;
}

uint32_t SolicitedBits(const Ipv6Addr& address) {
  const auto& bytes = address.bytes();
  return kSolicited | uint32_t{bytes[13]} << 16 | uint32_t{bytes[14]} << 8 | bytes[15];
}

// The last 24 bits of a solicited-node group, and kSolicited; 0 for another address.
uint32_t SolicitedOf(const IpAddr& group) {
  if (!group.is_ipv6() || SolicitedNodeGroup(group.ipv6()) != group.ipv6()) return 0;
  return SolicitedBits(group.ipv6());
}

}  // namespace

Groups::Groups(const Options& options, Counters* counters, Sink* sink, absl::Time now)
    : options_(options),
      counters_(counters),
      sink_(sink),
      listens_(options.listens_per_second, options.listen_burst, now),
      members_(options.max_groups) {}

void Groups::SetLink(const absl::optional<IpoibLink>& link) {
  if (!link.has_value() || link == link_) return;
  const auto each = [this](auto change) {
    for (const IpoibGroup& group : FixedGroups()) (this->*change)(group);
    members_.ForEach([&](const auto& entry) { (this->*change)(entry.value.group); });
  };
  if (link_.has_value()) each(&Groups::Unlisten);
  link_ = link;
  each(&Groups::Listen);
}

bool Groups::Report(const IpAddr& ip, bool wanted, absl::Time now) {
  const absl::optional<IpoibGroup> group = GroupOf(ip);
  if (!group.has_value() || group->IsBroadcast() || IsFixed(*group) || IsHelloGroup(*group))
    return false;
  const Mgid key = ToMgid(*group);
  auto* const known = wanted ? members_.Confirm(key, now) : members_.Find(key);
  const absl::Time until =
      now + (wanted ? options_.membership_interval : options_.last_member_time);
  if (known != nullptr) {
    known->value.until = wanted ? until : std::min(until, known->value.until);
    next_ = std::min(next_, known->value.until);
    return !wanted;
  }
  if (wanted) Add(key, {*group, until, SolicitedOf(ip)}, now);
  return false;
}

void Groups::Suppressed(const IpAddr& ip, absl::Time now) {
  const absl::optional<IpoibGroup> group = GroupOf(ip);
  if (group.has_value() && members_.Find(ToMgid(*group)) != nullptr) Report(ip, true, now);
}

void Groups::AddNeighbor(const Ipv6Addr& address, absl::Time now) {
  ++neighbors_[SolicitedBits(address)];
  Report(SolicitedNodeGroup(address), true, now);
}

void Groups::RemoveNeighbor(const Ipv6Addr& address) {
  const auto known = neighbors_.find(SolicitedBits(address));
  if (known != neighbors_.end() && --known->second == 0) neighbors_.erase(known);
}

void Groups::CopyFrom(const Groups& other) {
  link_ = other.link_;  // SetLink does not clear it while the link is down
  listens_ = other.listens_;
  members_.CopyFrom(other.members_);
  next_ = other.next_;
}

void Groups::Tick(absl::Time now) {
  if (now < next_) return;
  std::vector<Mgid> over;
  next_ = absl::InfiniteFuture();
  members_.ForEach([&](auto& entry) {
    auto& member = entry.value;
    if (member.until <= now && !IsNeeded(member)) return over.push_back(entry.key);
    if (member.until <= now) member.until = now + options_.membership_interval;
    next_ = std::min(next_, member.until);
  });
  for (const Mgid& key : over) Forget(key);
}

void Groups::Add(const Mgid& key, const Member& member, absl::Time now) {
  if (!listens_.Take(now)) return counters_->Add(Event::kListenLimited);
  if (const auto* const victim = members_.Victim()) {
    Forget(Mgid(victim->key));
    counters_->Add(Event::kEvicted);
  }
  members_.Add(key, member, now);
  next_ = std::min(next_, member.until);
  if (link_.has_value()) Listen(member.group);
}

void Groups::Forget(const Mgid& key) {
  if (link_.has_value()) Unlisten(members_.Find(key)->value.group);
  members_.Erase(key);
}

void Groups::Listen(IpoibGroup group) {
  group.link = *link_;
  sink_->Listen(group);
}

void Groups::Unlisten(IpoibGroup group) {
  group.link = *link_;
  sink_->Unlisten(group);
}

}  // namespace eoib::translation
