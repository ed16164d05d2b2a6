// Groups: the IPoIB groups that the gateway joins on behalf of Ethernet hosts, because a group
// without members does not exist (RFC 4391 §10): the groups that hosts report, and the
// solicited-node groups of their IPv6 addresses. README.md, "Groups", says for how long.
//
// Each join is a query to the SA, so joins are rate-limited; a group over the limit is joined when
// it is reported again. Owned by the translation, on its thread.
#ifndef EOIB_GATEWAY_TRANSLATION_GROUPS_H_
#define EOIB_GATEWAY_TRANSLATION_GROUPS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gateway/link/aged_table.h"
#include "gateway/translation/counters.h"
#include "gateway/translation/options.h"
#include "gateway/translation/sink.h"
#include "vswitch/base/address.h"
#include "vswitch/base/token_bucket.h"
#include "vswitch/wire/ip/ip_address.h"
#include "vswitch/wire/ipoib_group.h"

namespace eoib::translation {

class Groups {
 public:
  Groups(const Options& options, Counters* counters, Sink* sink, absl::Time now);

  // Moves all memberships to this link. Nothing happens if it is absent (the link is down, and the
  // interface keeps its groups) or the same as before.
  void SetLink(const absl::optional<IpoibLink>& link);

  // An Ethernet host wants the group, or has left it. True if it left a group that is listened to:
  // a querier then asks whether other hosts still want it. Requires a multicast address.
  bool Report(const IpAddr& group, bool wanted, absl::Time now);
  // An IPoIB host reported the group, and Ethernet hosts that hear it may suppress their own
  // reports (RFC 2236 §3, RFC 2710 §4). So a membership for Ethernet hosts is renewed.
  void Suppressed(const IpAddr& group, absl::Time now);
  // An Ethernet host has this IPv6 address, or no longer has it.
  void AddNeighbor(const Ipv6Addr& address, absl::Time now);
  void RemoveNeighbor(const Ipv6Addr& address);
  // See Translator. Requires the same neighbors.
  void CopyFrom(const Groups& other);

  void Tick(absl::Time now);
  absl::Time NextDeadline() const { return members_.size() == 0 ? absl::InfiniteFuture() : next_; }
  size_t size() const { return members_.size(); }

 private:
  struct Member {
    IpoibGroup group;  // its link is a placeholder
    absl::Time until;
    uint32_t solicited = 0;  // for a solicited-node group, its last 24 bits and kSolicited; else 0
  };

  void Add(const Mgid& key, const Member& member, absl::Time now);
  void Forget(const Mgid& key);
  void Listen(IpoibGroup group);
  void Unlisten(IpoibGroup group);
  bool IsNeeded(const Member& member) const { return neighbors_.contains(member.solicited); }

  const Options options_;
  Counters* const counters_;
  Sink* const sink_;
  absl::optional<IpoibLink> link_;
  TokenBucket listens_;
  AgedTable<Mgid, Member> members_;
  // The number of known addresses of a solicited-node group.
  absl::flat_hash_map<uint32_t, size_t> neighbors_;
  absl::Time next_ = absl::InfiniteFuture();  // no membership ends before
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_GROUPS_H_
