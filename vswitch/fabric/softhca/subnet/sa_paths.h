// FindPaths: the paths of a software subnet, as its SA reports them (IBA 1.4 §15.2.5.16).
//
// Two ports have one path in each partition that they share. It has SL 0, works in both directions,
// and has the smaller MTU and rate of the two. A path to a multicast group has the group's
// parameters.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SA_PATHS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SA_PATHS_H_

#include <cstdint>
#include <vector>

#include "vswitch/fabric/softhca/subnet/managed_ports.h"
#include "vswitch/fabric/softhca/subnet/multicast_groups.h"
#include "vswitch/wire/ib/sa_mad.h"

namespace eoib::softhca {

inline constexpr size_t kMaxPaths = 65536;  // in one answer: 4 MiB

// Finds the paths that match the components of `wanted`, at most `per_pair` for each pair of ports,
// ordered by source LID, destination LID and index of the source's P_Key. Both ends may be open, as
// with OpenSM (table 205 requires the source). There is no path to a port that shares no partition
// with the requester (§15.4.1.1), or to a group whose partition the source is not in. kNoResources
// above kMaxPaths.
SaStatus FindPaths(const ManagedPorts& ports, const MulticastGroups& groups,
                   const PortConfig& requester, uint64_t mask, const PathRecord& wanted,
                   size_t per_pair, std::vector<PathRecord>* found);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SA_PATHS_H_
