// SourceTable: who sends datagrams without a GRH.
//
// Unicast within a subnet may come without one (RFC 4391 §6), and from Linux it does. All there is of its sender then is a LID
// and a QPN. The sender's link-layer address, and with it its GID, is in the ARP and neighbour discovery that it sends itself
// (§9.1.1), where the QPN must be the one that the datagram came from: so nobody speaks for another queue pair.
//
// What a GRH says is the HCA's word. A GID in a packet is the word of whoever made it, and each new one costs a vPort and a
// path: so by word a queue pair is at another GID only kRename after it was last at one (its LID may be another port's by
// then), and of senders that are known by word alone there are so many new ones a second. Linux's broadcasts have a GRH, so who
// asks by ARP is known by that.
//
// Bounded: of two halves the older one goes when the younger is full, and who is looked up moves to the younger.
//
// One thread.
#ifndef EOIB_GATEWAY_IPOIB_SOURCE_TABLE_H_
#define EOIB_GATEWAY_IPOIB_SOURCE_TABLE_H_

#include <cstddef>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "fdb/address.h"
#include "fdb/clock.h"
#include "fdb/token_bucket.h"
#include "vswitch/wire/ipoib_address.h"
#include "vswitch/wire/ipoib_header.h"

namespace eoib::ipoib {

// The sender's link-layer address in ARP, RARP (the sender's) or neighbour discovery (a source link-layer address option of
// solicitations and router advertisements, the target's of neighbour advertisements). Nothing if `packet` is something else,
// says nothing of it, or is malformed.
absl::optional<IpoibAddress> SenderOf(IpoibType type, absl::Span<const uint8_t> packet);

class SourceTable {
 public:
  static constexpr int kNewPerSecond = 50;  // by word alone
  static constexpr int kNewAtOnce = 500;
  static constexpr absl::Duration kRename = absl::Seconds(30);

  struct Source {
    IpoibAddress address;
    bool by_grh = false;  // else by its own word
    absl::Time since;
  };

  // `clock` outlives it. `limit` is of either half.
  explicit SourceTable(const Clock* clock, size_t limit = 4096);

  // A GRH says who the sender at `lid` is.
  void Learn(Lid lid, const IpoibAddress& address);
  // It says so itself. Not believed, and false, if its QPN is not the one it sends from, or see above.
  bool LearnByWord(Lid lid, Qpn qpn, const IpoibAddress& address);
  absl::optional<Source> Find(Lid lid, Qpn qpn);
  // LIDs have changed.
  void Clear();

 private:
  using Key = std::pair<Lid, Qpn>;
  void Insert(const Key& key, const Source& source);

  const Clock* const clock_;
  const size_t limit_;
  TokenBucket new_by_word_;
  absl::flat_hash_map<Key, Source> young_, old_;
};

}  // namespace eoib::ipoib

#endif  // EOIB_GATEWAY_IPOIB_SOURCE_TABLE_H_
