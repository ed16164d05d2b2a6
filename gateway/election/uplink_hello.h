// The hello by which gateways elect the active one in each VLAN of an uplink. README.md, "Several
// gateways", has the format.
#ifndef EOIB_GATEWAY_ELECTION_UPLINK_HELLO_H_
#define EOIB_GATEWAY_ELECTION_UPLINK_HELLO_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/base/address.h"

namespace eoib::gateway {

struct UplinkHello {
  // kNone: stands by. kRelease: stopped forwarding, in order.
  enum class Claim : uint8_t {
    kNone = 0,
    kListening = 1,
    kCandidate = 2,
    kActive = 3,
    kRelease = 4
  };
  struct Run {  // VLANs of the VES
    Vid first, last;
    Claim claim = Claim::kNone;

    friend bool operator==(const Run&, const Run&) = default;
  };
  static constexpr size_t kMaxName = 15;
  static constexpr size_t kMaxRuns = 150;

  PKey ves;
  Gid from;
  uint8_t priority = 100;
  uint64_t sequence = 0;  // grows with each hello of its sender, also from run to run
  Gid successor;          // of a release: the gateway that takes over at once; zero: none
  std::string uplink;     // the sender's name for it
  std::vector<Run> runs;  // ascending and disjoint, so a hello has one claim at most for each VLAN

  friend bool operator==(const UplinkHello&, const UplinkHello&) = default;
};

// Requires names and runs within the limits, and runs in order. The first byte is
// VPortSpeaker::kFirstByte.
std::vector<uint8_t> EncodeUplinkHello(const UplinkHello& hello);
// Bytes behind the hello are padding. Nothing if it is malformed.
absl::optional<UplinkHello> DecodeUplinkHello(absl::Span<const uint8_t> payload);

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_ELECTION_UPLINK_HELLO_H_
