// Test only.
#ifndef EOIB_GATEWAY_HOST_FIND_NEIGHBOR_FOR_TEST_H_
#define EOIB_GATEWAY_HOST_FIND_NEIGHBOR_FOR_TEST_H_

#include "gateway/host/neighbor_cache.h"

namespace eoib::endpoint {

inline absl::optional<NeighborCache::Neighbor> FindNeighbor(const NeighborCache& cache,
                                                            const IpAddr& ip) {
  for (const NeighborCache::Neighbor& neighbor : cache.All()) {
    if (neighbor.ip == ip) return neighbor;
  }
  return absl::nullopt;
}

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_FIND_NEIGHBOR_FOR_TEST_H_
