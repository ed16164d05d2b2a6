// SourceTable: identifies the senders of datagrams without a GRH (RFC 4391 §6; Linux sends unicast
// so) by source LID and QPN.
//
// The HCA writes a GRH, so its GID is trusted. A GID in ARP or neighbour discovery (§9.1.1) is only
// claimed, and each new one costs a vPort and a path. So its QPN must be the sender's, a queue pair
// may claim another GID only after kClaimHold (its LID may belong to another port by then), and new
// claims are rate-limited.
//
// Bounded: when the younger half is full, the older half is dropped. A lookup moves an entry into
// the younger half. One thread.
#ifndef EOIB_GATEWAY_LINK_SOURCE_TABLE_H_
#define EOIB_GATEWAY_LINK_SOURCE_TABLE_H_

#include <cstddef>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/token_bucket.h"
#include "vswitch/wire/ip/ipoib_address.h"
#include "vswitch/wire/ip/neighbor_discovery.h"
#include "vswitch/wire/ipoib_header.h"

namespace eoib::ipoib {

// The option with the sender's link-layer address. RFC 4861 §4.4: an advertisement has the
// target's, which is the sender's own unless a proxy sent it.
inline NdOptionType SenderOption(NdType type) {
  return type == NdType::kNeighborAdvertisement ? NdOptionType::kTargetLinkAddress
                                                : NdOptionType::kSourceLinkAddress;
}

// The sender's link-layer address: the sender hardware address of ARP and RARP, the target
// link-layer address option of a neighbour advertisement, the source link-layer address option of
// other neighbour discovery. Absent if `packet` is something else, has no such address, or is
// malformed.
absl::optional<IpoibAddress> SenderOf(IpoibType type, absl::Span<const uint8_t> packet);

class SourceTable {
 public:
  static constexpr int kNewPerSecond = 50;  // claims without a GRH
  static constexpr int kNewAtOnce = 500;
  static constexpr absl::Duration kClaimHold = absl::Seconds(30);

  struct Source {
    IpoibAddress address;
    bool by_grh = false;  // else only claimed
    absl::Time since;     // when the entry was made
  };

  // `clock` outlives it. `limit` holds for each half.
  explicit SourceTable(const Clock* clock, size_t limit = 4096);

  // A GRH from `lid` named the sender.
  void Learn(Lid lid, const IpoibAddress& address);
  // The sender claims an address. False, and ignored, if its QPN is not the one it sends from or a
  // limit above applies.
  bool LearnClaim(Lid lid, Qpn qpn, const IpoibAddress& address);
  absl::optional<Source> Find(Lid lid, Qpn qpn);
  // Forgets all senders: LIDs may have changed.
  void Clear();

 private:
  using Key = std::pair<Lid, Qpn>;
  void Insert(const Key& key, const Source& source);

  const Clock* const clock_;
  const size_t limit_;
  TokenBucket new_claims_;
  absl::flat_hash_map<Key, Source> young_, old_;
};

}  // namespace eoib::ipoib

#endif  // EOIB_GATEWAY_LINK_SOURCE_TABLE_H_
