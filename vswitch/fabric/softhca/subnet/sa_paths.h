// The paths of a software subnet, as its SA tells them (IBA 1.4 §15.2.5.16).
//
// Between two ports there is one path in each partition that lets them talk. All paths have SL 0, both directions, and the MTU
// and rate of their worse end. A path to a multicast group has what the group has.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SA_PATHS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SA_PATHS_H_

#include <cstdint>
#include <vector>

#include "vswitch/fabric/softhca/subnet/managed_ports.h"
#include "vswitch/fabric/softhca/subnet/multicast_groups.h"
#include "vswitch/wire/sa_mad.h"

namespace eoib::softhca {

inline constexpr size_t kMaxPaths = 65536;  // in one answer: 4 MiB

// The paths that are what the components of `wanted` say, by LIDs of source and destination and index of the source's P_Key, at
// most `per_pair` of each pair of ports. Both ends may be left open, as OpenSM has it (table 205 requires the source). A
// requester learns of no port with which it shares no partition (§15.4.1.1): to it, there is no path there. Likewise there is
// none to a group of a partition that the source is not in. kNoResources above kMaxPaths.
SaStatus FindPaths(const ManagedPorts& ports, const MulticastGroups& groups, const PortConfig& requester, uint64_t mask,
                   const PathRecord& wanted, size_t per_pair, std::vector<PathRecord>* found);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SA_PATHS_H_
