// FlowHash: maps a frame to its flow, as a number. A vPort with several addresses sends each flow
// through one of them, so its frames stay in order.
//
// A flow is two MACs in a VLAN; for IP also two addresses and a protocol; for TCP and UDP also two
// ports, except in fragments, where only the first has them. The two directions of a conversation
// are two flows.
#ifndef EOIB_VSWITCH_WIRE_FLOW_HASH_H_
#define EOIB_VSWITCH_WIRE_FLOW_HASH_H_

#include <cstdint>

#include "absl/types/span.h"

namespace eoib {

// Hashes `frame`, from its destination MAC on, in fabric form. The VLAN is that of the outer 802.1Q
// tag; an untagged frame and a priority-tagged one belong to the same flow. It finds IP behind up
// to eight tags, and TCP and UDP behind up to eight IPv6 extension headers. Accepts any bytes.
// `seed` is secret, so that a sender cannot choose colliding flows; with the same seed a flow keeps
// its hash. All bits of the result are equally good.
uint32_t FlowHash(uint64_t seed, absl::Span<const uint8_t> frame) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_FLOW_HASH_H_
