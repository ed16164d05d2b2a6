// What hosts say about the multicast groups they want, and what routers ask them: IGMP (RFC 1112, RFC 2236, RFC 3376) and MLD
// (RFC 2710, RFC 3810).
//
// For who has to be a member where a host behind it is one. Groups alone count here: from whom a host wants to hear (source
// filters) is for routers and hosts, which see the same messages. A report is read as a list of groups, each wanted or not
// wanted any more.
#ifndef EOIB_VSWITCH_WIRE_GROUP_REPORT_H_
#define EOIB_VSWITCH_WIRE_GROUP_REPORT_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "vswitch/wire/ip_address.h"
#include "vswitch/wire/ip_packet.h"

namespace eoib {

enum class GroupVerdict : uint8_t {
  kOther,   // not a message about groups
  kBad,     // would be, and nobody is to act on it
  kReport,  // see ForEachGroup: also leaves ("done" in MLD)
  kQuery,   // see `query`
};

// What a router asks.
template <typename Address>
struct GroupQuery {
  Address group;                // zero: for all groups (general query)
  bool about_sources = false;   // about a group's sources only
  absl::Duration max_response;  // within which to answer
  // Of IGMPv3 and MLDv2 (RFC 3376 §4.1.5 to §4.1.7): other routers are not to lower their timers; and the querier's own
  // numbers, 0 where it does not say.
  bool suppress = false;
  uint8_t robustness = 0;
  absl::Duration interval;

  friend bool operator==(const GroupQuery&, const GroupQuery&) = default;
};

// A message. A view of the packet it was read from.
template <typename Address>
struct GroupMessage {
  Address source;  // of the IP header
  Address destination;
  int version = 0;                    // of IGMP, 1 to 3; of MLD, 1 or 2
  GroupQuery<Address> query;          // of a query
  uint8_t type = 0;                   // of IGMP or ICMPv6
  absl::Span<const uint8_t> message;  // from its type on
};
using IgmpMessage = GroupMessage<Ipv4Addr>;
using MldMessage = GroupMessage<Ipv6Addr>;

// Read a message; kReport and kQuery set *message. Asked for in both: a whole packet, a right checksum, TTL or hop limit 1
// (messages are of one link; what has another comes from beyond), groups and sources that fit into the message. What follows
// them there is of later versions (RFC 3376 §4.1.10, RFC 3810 §5.1.12).
//
// IGMP without the router alert option is taken: IGMPv1 has none, and the option is for routers that would not look otherwise.
// From where (0.0.0.0 of hosts without an address, RFC 3376 §4.2.13; of switches that ask, RFC 4541 §2.1.1) and to where (RFC
// 3376 §4.2.14) it is sent does not matter.
//
// MLD needs the router alert option and a link-local source, or :: in reports of hosts without an address yet: RFC 3810
// §5.1.14, §5.2.13, §6.2 and §7.4.
GroupVerdict ParseGroupMessage(const Ipv4Packet& packet, IgmpMessage* message) noexcept;
GroupVerdict ParseGroupMessage(const Ipv6Packet& packet, MldMessage* message) noexcept;

// Calls `visit` for each group that a report says something about, in its order; a group may come twice. Wanted: reports of the
// first versions, a filter "exclude", sources to include or allowed. Not wanted: leaves, and to include no source. Sources
// blocked say nothing, nor do records of unknown type (RFC 3376 §4.2.12), of an address that is no group's, or of one that
// does not leave its host (ff00::/16, ff01::/16 and the like: RFC 2710 §5). Requires a message that was read as kReport.
void ForEachGroup(const IgmpMessage& report, absl::FunctionRef<void(Ipv4Addr group, bool wanted)> visit) noexcept;
void ForEachGroup(const MldMessage& report, absl::FunctionRef<void(const Ipv6Addr& group, bool wanted)> visit) noexcept;

// What a querier says of itself, in the RFCs' defaults (RFC 3376 §8, RFC 3810 §9).
struct QuerySettings {
  absl::Duration max_response = absl::Seconds(10);
  uint8_t robustness = 2;  // up to 7; more is sent as 0
  absl::Duration interval = absl::Seconds(125);
};

using IgmpQueryBuffer = std::array<uint8_t, 24 + 12>;
using MldQueryBuffer = std::array<uint8_t, 40 + 8 + 28>;

// Write a query of IGMPv3 or MLDv2, a whole packet that hosts of all versions answer: to all hosts, or for one `group` to that.
// Times are rounded down to what can be said. `source` of MLD has to be link-local, or nobody will listen.
void BuildQuery(Ipv4Addr source, Ipv4Addr group, const QuerySettings& settings, IgmpQueryBuffer* out) noexcept;
void BuildQuery(const Ipv6Addr& source, const Ipv6Addr& group, const QuerySettings& settings, MldQueryBuffer* out) noexcept;
inline void BuildGeneralQuery(Ipv4Addr source, const QuerySettings& settings, IgmpQueryBuffer* out) noexcept {
  BuildQuery(source, Ipv4Addr(), settings, out);
}
inline void BuildGeneralQuery(const Ipv6Addr& source, const QuerySettings& settings, MldQueryBuffer* out) noexcept {
  BuildQuery(source, Ipv6Addr(), settings, out);
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_GROUP_REPORT_H_
