#include "vswitch/fabric/softhca/subnet/ring_table.h"

namespace eoib::softhca {

absl::optional<RingTable::Ring> RingTable::Remove(uint64_t id, const SubnetPort* port) {
  const auto found = rings_.find(id);
  if (found == rings_.end() || (found->second.source != port && found->second.destination != port))
    return absl::nullopt;
  const Ring ring = found->second;
  rings_.erase(found);
  return ring;
}

std::map<uint64_t, RingTable::Ring> RingTable::RemoveAllOf(const SubnetPort* port) {
  std::map<uint64_t, Ring> removed;
  for (auto ring = rings_.begin(); ring != rings_.end();) {
    const auto current = ring++;
    if (current->second.source != port && current->second.destination != port) continue;
    removed.insert(rings_.extract(current));
  }
  return removed;
}

}  // namespace eoib::softhca
