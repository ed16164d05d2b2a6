// RingTable: the rings between the ports of a software subnet.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_RING_TABLE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_RING_TABLE_H_

#include <cstdint>
#include <map>

#include "absl/types/optional.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {

struct SubnetPort;

// Not thread-safe: the Subnet calls it under its mutex.
class RingTable {
 public:
  struct Ring {
    SubnetPort* source;
    SubnetPort* destination;
    uint64_t capacity;
  };

  // `run` identifies this run of the subnet: identifiers must not repeat those of a former one,
  // whose rings ports may hold.
  explicit RingTable(uint64_t run) : next_((run << 32) + 1) {}

  uint64_t Add(const Ring& ring) {
    rings_[next_] = ring;
    return next_++;
  }
  // Removes a ring that has `port` at one end; nullopt if there is none.
  absl::optional<Ring> Remove(uint64_t id, const SubnetPort* port);
  // Removes all rings from and to `port`, and returns them by identifier.
  std::map<uint64_t, Ring> RemoveAllOf(const SubnetPort* port);

  const std::map<uint64_t, Ring>& rings() const { return rings_; }
  // SubnetOfRing of all identifiers.
  uint64_t subnet() const { return SubnetOfRing(next_); }

 private:
  std::map<uint64_t, Ring> rings_;  // by identifier
  uint64_t next_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_RING_TABLE_H_
