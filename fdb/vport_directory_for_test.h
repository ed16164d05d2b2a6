// Shared parts of the VPortDirectory tests.
#ifndef EOIB_FDB_VPORT_DIRECTORY_FOR_TEST_H_
#define EOIB_FDB_VPORT_DIRECTORY_FOR_TEST_H_

#include <cstdint>

#include "fdb/vport_directory.h"

namespace eoib {

inline constexpr auto kInUse = [](VPortId) { return true; };

inline PeerAddress Peer(uint64_t guid, uint32_t qpn) {
  return {Gid::FromPrefixAndGuid(0xfe80ull << 48, Guid(guid)), Qpn(qpn)};
}

}  // namespace eoib

#endif  // EOIB_FDB_VPORT_DIRECTORY_FOR_TEST_H_
