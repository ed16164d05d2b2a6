// Reports and queries of multicast groups: IGMP (RFC 1112, RFC 2236, RFC 3376) and MLD (RFC 2710,
// RFC 3810).
//
// For a node that must join the groups of the hosts behind it. Only groups count here; source
// filters are for routers and hosts, which see the same messages. A report is read as a list of
// groups, each wanted or no longer wanted.
#ifndef EOIB_VSWITCH_WIRE_IP_GROUP_REPORT_H_
#define EOIB_VSWITCH_WIRE_IP_GROUP_REPORT_H_

#include <array>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "vswitch/wire/ip/ip_address.h"
#include "vswitch/wire/ip/ip_packet.h"

namespace eoib {

enum class GroupVerdict : uint8_t {
  kOther,   // not a message about groups
  kBad,     // an invalid message; ignore it
  kReport,  // a report or leave ("done" in MLD); see ForEachGroup
  kQuery,   // a router's query
};

// A parsed message: a view of its packet.
template <typename Address>
struct GroupMessage {
  Address source;  // from the IP header
  Address destination;
  int version = 0;                    // IGMP 1 to 3; MLD 1 or 2
  uint8_t type = 0;                   // IGMP or ICMPv6 type
  absl::Span<const uint8_t> message;  // from its type on
};
using IgmpMessage = GroupMessage<Ipv4Addr>;
using MldMessage = GroupMessage<Ipv6Addr>;

// Parses a message; sets *message for kReport and kQuery. Both protocols need a whole packet, a
// right checksum, TTL or hop limit 1 (another value means that it comes from beyond the link), and
// groups and sources that fit into the message. Further bytes belong to later versions and are
// ignored (RFC 3376 §4.1.10, RFC 3810 §5.1.12). MLD also needs the router alert option and a
// link-local source; wire_format.md ("Messages about groups") says why IGMP does not.
GroupVerdict ParseGroupMessage(const Ipv4Packet& packet, IgmpMessage* message) noexcept;
GroupVerdict ParseGroupMessage(const Ipv6Packet& packet, MldMessage* message) noexcept;

// Calls `visit` for the groups of a report, in order; a group may occur twice. A group is wanted in
// reports of the first versions, with filter "exclude", and with sources to include or allow. It is
// not wanted in leaves, and with no source to include. These records are skipped: blocked sources,
// unknown types (RFC 3376 §4.2.12), an address that is not a group, and a group that does not leave
// its host (ff00::/16, ff01::/16 and the like, RFC 2710 §5). Requires a message that was parsed as
// kReport.
void ForEachGroup(const IgmpMessage& report,
                  absl::FunctionRef<void(Ipv4Addr group, bool wanted)> visit) noexcept;
void ForEachGroup(const MldMessage& report,
                  absl::FunctionRef<void(const Ipv6Addr& group, bool wanted)> visit) noexcept;

// A querier's parameters, with the defaults of RFC 3376 §8 and RFC 3810 §9.
struct QuerySettings {
  absl::Duration max_response = absl::Seconds(10);
  uint8_t robustness = 2;  // up to 7; more is sent as 0
  absl::Duration interval = absl::Seconds(125);
};

using IgmpQueryBuffer = std::array<uint8_t, 24 + 12>;
using MldQueryBuffer = std::array<uint8_t, 40 + 8 + 28>;

// Writes a whole packet with an IGMPv3 or MLDv2 query, which hosts of all versions answer. A query
// for one `group` goes to that group, a general one (a zero group) to all hosts. Rounds times down
// to values that have a code. The `source` of an MLD query must be link-local, or hosts ignore it.
void BuildQuery(Ipv4Addr source, Ipv4Addr group, const QuerySettings& settings,
                IgmpQueryBuffer* out) noexcept;
void BuildQuery(const Ipv6Addr& source, const Ipv6Addr& group, const QuerySettings& settings,
                MldQueryBuffer* out) noexcept;
}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IP_GROUP_REPORT_H_
