// SourceTable: who sends datagrams without a GRH.
//
// Unicast within a subnet may come without one (RFC 4391 §6), and from Linux it does. All there is of its sender then is a LID
// and a QPN. The sender's link-layer address, and with it its GID, is in the ARP and neighbour discovery that it sends itself
// (§9.1.1), where the QPN must be the one that the datagram came from: so nobody speaks for another queue pair.
//
// Bounded: of two halves the older one goes when the younger is full, and who is looked up moves to the younger.
//
// One thread.
#ifndef EOIB_GATEWAY_IPOIB_SOURCE_TABLE_H_
#define EOIB_GATEWAY_IPOIB_SOURCE_TABLE_H_

#include <cstddef>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "fdb/address.h"
#include "vswitch/wire/ipoib_address.h"
#include "vswitch/wire/ipoib_header.h"

namespace eoib::ipoib {

// The sender's link-layer address in ARP, RARP (the sender's) or neighbour discovery (a source link-layer address option of
// solicitations and router advertisements, the target's of neighbour advertisements). Nothing if `packet` is something else,
// says nothing of it, or is malformed.
absl::optional<IpoibAddress> SenderOf(IpoibType type, absl::Span<const uint8_t> packet);

class SourceTable {
 public:
  // Of either half.
  explicit SourceTable(size_t limit = 4096) : limit_(limit) {}

  // The sender at `lid` says who it is. Not believed, and false, if its QPN is not the one it sends from.
  bool Learn(Lid lid, Qpn qpn, const IpoibAddress& address);
  absl::optional<IpoibAddress> Find(Lid lid, Qpn qpn);
  // LIDs have changed.
  void Clear();

 private:
  using Key = std::pair<Lid, Qpn>;
  void Insert(const Key& key, const IpoibAddress& address);

  const size_t limit_;
  absl::flat_hash_map<Key, IpoibAddress> young_, old_;
};

}  // namespace eoib::ipoib

#endif  // EOIB_GATEWAY_IPOIB_SOURCE_TABLE_H_
