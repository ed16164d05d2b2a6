// The frames that tell a physical network, after a failover, on which port a station of the VES is
// now.
#ifndef EOIB_GATEWAY_UPLINK_STATION_ADVERTS_H_
#define EOIB_GATEWAY_UPLINK_STATION_ADVERTS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib::gateway {

// Frames from `station` in VLAN `vid` of the wire. For each address that it has a gratuitous ARP
// (RFC 5227 §3) or an unsolicited advertisement (RFC 4861 §7.2.6); without one a reverse ARP
// request, which any bridge learns from.
std::vector<std::vector<uint8_t>> MakeStationAdverts(MacAddr station, Vid vid,
                                                     absl::Span<const IpAddr> addresses);

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_UPLINK_STATION_ADVERTS_H_
