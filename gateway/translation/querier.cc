#include "gateway/translation/querier.h"

#include <algorithm>

#include "vswitch/base/ethertype.h"
#include "vswitch/wire/ip/group_report.h"

namespace eoib::translation {
namespace {

constexpr absl::Duration kMaxResponse = absl::Seconds(10);  // RFC 3376 §8.3
constexpr absl::Duration kLastMember = absl::Seconds(1);    // RFC 3376 §8.8

// fe80::/64 with the modified EUI-64 of a MAC address.
Ipv6Addr LinkLocalOf(MacAddr mac) {
  const uint64_t value = mac.ToUint64();
  const uint64_t eui64 = (value >> 24) << 40 | uint64_t{0xfffe} << 24 | (value & 0xff'ffff);
  return Ipv6Addr::LinkLocal(InterfaceId(eui64 ^ uint64_t{2} << 56));
}

}  // namespace

void Querier::Start(absl::Time now) {
  started_ = 0;
  next_ = now;
  other_igmp_ = other_mld_ = absl::InfinitePast();
}

void Querier::QueryGroup(const IpAddr& group, absl::Time now) {
  if (!options_.query_groups || output_->Obstacle() != Drop::kNone) return;
  if (group.is_ipv6() && IsMldQuerier(now)) SendMldQuery(group.ipv6(), kLastMember);
  if (!group.is_ipv6() && IsIgmpQuerier(now)) SendIgmpQuery(group.ipv4(), kLastMember);
}

void Querier::CopyFrom(const Querier& other) {
  started_ = other.started_;
  next_ = other.next_;
  other_igmp_ = other.other_igmp_;
  other_mld_ = other.other_mld_;
}

void Querier::Tick(absl::Time now) {
  if (!options_.query_groups || now < next_) return;
  const absl::Time next =
      now + (started_++ == 0 ? options_.query_interval / 4 : options_.query_interval);
  // RFC 3376 §6.6.2: if another querier is present, this one resumes when that has been silent for
  // OtherPresent().
  next_ = std::min(IsIgmpQuerier(now) ? next : other_igmp_ + OtherPresent(),
                   IsMldQuerier(now) ? next : other_mld_ + OtherPresent());
  if (output_->Obstacle() != Drop::kNone) return;
  // The first query after Start() collects earlier reports, even if another querier is present.
  if (started_ == 1 || IsIgmpQuerier(now)) SendIgmpQuery(Ipv4Addr(), kMaxResponse);
  if (started_ == 1 || IsMldQuerier(now)) SendMldQuery(Ipv6Addr(), kMaxResponse);
}

void Querier::SendIgmpQuery(Ipv4Addr group, absl::Duration max_response) {
  IgmpQueryBuffer query;
  BuildQuery(Ipv4Addr(), group, {max_response, 2, options_.query_interval}, &query);
  counters_->Add(Event::kQueries);
  output_->ToEthernet(GroupMac(group.IsZero() ? kAllHosts : group), own_mac_, kEtherTypeIpv4,
                      query);
}

void Querier::SendMldQuery(const Ipv6Addr& group, absl::Duration max_response) {
  MldQueryBuffer query;
  BuildQuery(LinkLocalOf(own_mac_), group, {max_response, 2, options_.query_interval}, &query);
  counters_->Add(Event::kQueries);
  output_->ToEthernet(GroupMac(group.IsUnspecified() ? kAllNodes : group), own_mac_, kEtherTypeIpv6,
                      query);
}

}  // namespace eoib::translation
