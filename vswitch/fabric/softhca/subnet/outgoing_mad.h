// OutgoingMad: a MAD that an agent of the subnet sends, and the MadEndpoint that gets it.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_OUTGOING_MAD_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_OUTGOING_MAD_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "vswitch/base/address.h"

namespace eoib::softhca {

// The sender of a MAD, which gets the answer: a process of a port.
struct MadEndpoint {
  // Implicit, because most MADs are for all processes of a port.
  MadEndpoint(const Gid& port, uint64_t process = 0) : port(port), process(process) {}  // NOLINT

  Gid port;
  uint64_t process;  // 0: all processes of the port

  friend bool operator==(const MadEndpoint&, const MadEndpoint&) = default;
  friend auto operator<=>(const MadEndpoint&, const MadEndpoint&) = default;
};

// A MAD to deliver to a port.
struct OutgoingMad {
  OutgoingMad(const MadEndpoint& to, absl::Span<const uint8_t> mad, Lid from = Lid())
      : to(to), mad(mad.begin(), mad.end()), from(from) {}

  MadEndpoint to;
  std::vector<uint8_t> mad;
  Lid from;  // invalid: the subnet manager's
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_OUTGOING_MAD_H_
