// FlowHash: which flow a frame is of, as a number.
//
// To a vPort with several addresses each flow takes one of them, so that its frames stay in order. A flow is two MACs in a
// VLAN, and if they carry IP two addresses and a protocol, and if that is TCP or UDP two ports. The two directions of a
// conversation are two flows.
//
// No fragment shows its ports, not even the first one, which has them: all fragments of a datagram are of one flow. (Datagrams
// of a size that needs fragments may thus overtake the small ones of the same socket, and the other way round.)
#ifndef EOIB_VSWITCH_WIRE_FLOW_HASH_H_
#define EOIB_VSWITCH_WIRE_FLOW_HASH_H_

#include <cstdint>

#include "absl/types/span.h"

namespace eoib {

// Of `frame`, from its destination MAC on, in the fabric's form: the VLAN is that of its outer 802.1Q tag, and an untagged
// frame is of the flow of a priority-tagged one. IP is found behind up to eight tags, TCP and UDP behind eight IPv6 extension
// headers. Any bytes may be given. Who does not know `seed` cannot choose flows that meet; it is a secret, and the same as long
// as flows are to stay where they are. All bits of the result are equally good.
uint32_t FlowHash(uint64_t seed, absl::Span<const uint8_t> frame) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_FLOW_HASH_H_
