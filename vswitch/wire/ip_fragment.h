// Cuts IPv4 packets for links with a smaller MTU (RFC 791 §3.2). IPv6 packets are cut by their sources only (RFC 8200 §4.5).
#ifndef EOIB_VSWITCH_WIRE_IP_FRAGMENT_H_
#define EOIB_VSWITCH_WIRE_IP_FRAGMENT_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "vswitch/wire/ip_packet.h"

namespace eoib {

enum class FragmentVerdict : uint8_t {
  kDone,          // all parts were emitted; a packet that fits, as it is
  kDontFragment,  // too large, and its sender does not want it cut: to be told so (BuildFragmentationNeeded)
  kBad,           // options that cannot be read, or an MTU below 68, which no link of IPv4 has
};

// Emits the parts of `packet`, none larger than `mtu`, in their order, each in bytes that last until `emit` returns. The first
// has all options, the others those that are to be copied (RFC 791 §3.1, "copied flag"). A packet that is a part already is cut
// into smaller ones of the same datagram. Unless kDone, nothing is emitted. Allocates nothing.
FragmentVerdict FragmentIpv4(const Ipv4Packet& packet, size_t mtu,
                             absl::FunctionRef<void(absl::Span<const uint8_t> part)> emit) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IP_FRAGMENT_H_
