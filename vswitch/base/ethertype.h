// EtherTypes (IEEE 802 numbers) that the switch, ARP and IPoIB use.
#ifndef EOIB_VSWITCH_BASE_ETHERTYPE_H_
#define EOIB_VSWITCH_BASE_ETHERTYPE_H_

#include <cstdint>

namespace eoib {

inline constexpr uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr uint16_t kEtherTypeArp = 0x0806;
inline constexpr uint16_t kEtherTypeRarp = 0x8035;
inline constexpr uint16_t kEtherTypeVlan = 0x8100;
// Payload for this switch, which does not read provider tags.
inline constexpr uint16_t kEtherTypeServiceVlan = 0x88a8;
inline constexpr uint16_t kEtherTypeIpv6 = 0x86dd;
// IEEE 802 local experimental 1: our control messages.
inline constexpr uint16_t kEtherTypeControl = 0x88b5;
inline constexpr uint16_t kEtherTypeAlternative = 0x8919;

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_ETHERTYPE_H_
