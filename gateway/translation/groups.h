// Groups: the IPoIB groups that the gateway listens to, because Ethernet hosts want what is sent there.
//
// On Ethernet a group needs no subscription that the gateway would have to make; on IPoIB nothing arrives that the port has not
// joined, and a group that nobody joined does not exist (RFC 4391 §10). So what IGMP and MLD report on Ethernet becomes full
// membership, aged as a router would age it (RFC 3376 §8.4, RFC 3810 §9.4), and ended by a leave a little later, unless another
// host says that it wants the group still (RFC 3376 §6.4.2).
//
// An IPv6 address is asked for at its solicited-node group, so for each known address of an Ethernet host that group is kept,
// and joined before anybody reports it: the first question would be lost otherwise.
//
// To listen is a question to the subnet administrator, so who reports groups without end is slowed down: what was reported too
// fast is listened to when it is reported again.
//
// Several IPv6 addresses share a group of the link (see GroupOf); it is listened to once.
//
// Owned by the translation, on its thread.
#ifndef EOIB_GATEWAY_TRANSLATION_GROUPS_H_
#define EOIB_GATEWAY_TRANSLATION_GROUPS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "fdb/address.h"
#include "fdb/token_bucket.h"
#include "gateway/translation/aged_table.h"
#include "gateway/translation/counters.h"
#include "gateway/translation/options.h"
#include "gateway/translation/sink.h"
#include "vswitch/wire/ip_addr.h"
#include "vswitch/wire/ipoib_group.h"

namespace eoib::translation {

// ff12::e01b:6777, transient and of the link: to whom gateways say hello (gateway/hello.h), and nobody else.
inline constexpr Ipv6Addr kHelloGroup(std::array<uint8_t, 16>{0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xe0, 0x1b, 0x67,
                                                              0x77});

class Groups {
 public:
  Groups(const Options& options, Counters* counters, Sink* sink, absl::Time now);

  // Listens on this link from now on, to what was wanted on the last one; nothing: the link is down, and the interface keeps
  // what it was told. A link that is the last one again changes nothing.
  void SetLink(const absl::optional<IpoibLink>& link);

  // An Ethernet host wants the group, or has left it. True if it was a leave of a group that is listened to: who is a querier
  // asks whether others want it still. Requires a multicast address.
  bool Report(const IpAddr& group, bool wanted, absl::Time now);
  // An IPoIB host reported the group where Ethernet hosts hear it, and those may then keep silent (RFC 2236 §3, RFC 2710 §4):
  // so if one of them wanted it, it wants it still.
  void Suppressed(const IpAddr& group, absl::Time now);
  // An Ethernet host has this IPv6 address, or has it no more.
  void AddNeighbor(const Ipv6Addr& address, absl::Time now);
  void RemoveNeighbor(const Ipv6Addr& address);
  // See Translator. Requires the same neighbors.
  void Imitate(const Groups& other);

  void Tick(absl::Time now);
  absl::Time NextDeadline() const { return members_.size() == 0 ? absl::InfiniteFuture() : next_; }
  size_t size() const { return members_.size(); }

 private:
  struct Member {
    IpoibGroup group;  // of no link in particular
    absl::Time until;
    uint32_t solicited = 0;  // of a solicited-node group: its last 24 bits, and kSolicited
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
  absl::flat_hash_map<uint32_t, size_t> neighbors_;  // how many known addresses have a solicited-node group
  absl::Time next_ = absl::InfiniteFuture();         // none ends before
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_GROUPS_H_
