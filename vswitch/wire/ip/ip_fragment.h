// Fragments IPv4 packets for links with a smaller MTU (RFC 791 §3.2). Only sources fragment IPv6
// packets (RFC 8200 §4.5).
#ifndef EOIB_VSWITCH_WIRE_IP_IP_FRAGMENT_H_
#define EOIB_VSWITCH_WIRE_IP_IP_FRAGMENT_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "vswitch/wire/ip/ip_packet.h"

namespace eoib {

enum class FragmentVerdict : uint8_t {
  kDone,          // all fragments were emitted, or the packet itself if it fits
  kDontFragment,  // too large, with "don't fragment": tell the sender (BuildFragmentationNeeded)
  kBad,           // malformed options, or an MTU below 68, which no IPv4 link has
};

// Calls `emit` for each fragment of `packet`, none larger than `mtu`, in order; its bytes are valid
// until `emit` returns. The first has all options, the others those with the copied flag (RFC 791
// §3.1). A fragment is cut into smaller fragments of the same datagram. Emits nothing unless it
// returns kDone. Allocates nothing.
FragmentVerdict FragmentIpv4(const Ipv4Packet& packet, size_t mtu,
                             absl::FunctionRef<void(absl::Span<const uint8_t> part)> emit) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IP_IP_FRAGMENT_H_
