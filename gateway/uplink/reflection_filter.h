// ReflectionFilter: recognises copies of broadcasts and multicasts that the uplink has just sent to
// the wire. A physical network that sends them back, such as a switch with two links to a bond that
// it takes for two hosts, would else move the MAC of their sender from the VES to the wire.
// README.md, "Reflected frames".
//
// Owned by the UplinkPort, on its worker's thread.
#ifndef EOIB_GATEWAY_UPLINK_REFLECTION_FILTER_H_
#define EOIB_GATEWAY_UPLINK_REFLECTION_FILTER_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ethernet.h"

namespace eoib::gateway {

class ReflectionFilter {
 public:
  static constexpr absl::Duration kWindow = absl::Seconds(1);
  // That are remembered at once; one that takes the place of another hides it.
  static constexpr size_t kFrames = 1024;

  // `frame`, or at least its first kCompared bytes of payload, was sent to the wire. Its VLAN in
  // the VES is `ves`.
  void Sent(absl::Span<const uint8_t> frame, const EthernetInfo& ethernet, Vid ves, absl::Time now);
  // True if `frame`, which came from the wire in VLAN `ves`, is a copy of one that was sent within
  // kWindow.
  bool IsReflection(absl::Span<const uint8_t> frame, const EthernetInfo& ethernet, Vid ves,
                    absl::Time now) const;

 private:
  // The digest covers this number of bytes of the payload: the sender in ARP, or the IPv4 header
  // with UDP's ports and length. A NIC may complete the checksum of UDP, which follows, so the
  // digest ends before it.
  static constexpr size_t kCompared = 26;
  struct Record {
    uint64_t digest = 0;
    absl::Time sent = absl::InfinitePast();
  };

  static uint64_t Digest(absl::Span<const uint8_t> frame, const EthernetInfo& ethernet, Vid ves);

  std::array<Record, kFrames> records_;
};

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_UPLINK_REFLECTION_FILTER_H_
