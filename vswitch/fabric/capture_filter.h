// CaptureFilter: which packets a capture records, by the Ethernet frame in them.
#ifndef EOIB_VSWITCH_FABRIC_CAPTURE_FILTER_H_
#define EOIB_VSWITCH_FABRIC_CAPTURE_FILTER_H_

#include <bitset>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/ib/ib_headers.h"

namespace eoib {

// Without a condition every packet passes. Else only packets with a frame pass for which all
// conditions hold. One thread at a time.
class CaptureFilter {
 public:
  // The frames of a vPort: in its partition and VLANs, with a source or destination among its MACs
  // or to a group address.
  struct VPort {
    PKey pkey;
    std::bitset<Vid::kMax + 1> vlans;
    absl::flat_hash_set<MacAddr> macs;
  };

  absl::optional<MacAddr> mac;  // of source or destination
  absl::optional<Vid> vlan;     // 0: untagged or priority-tagged
  absl::optional<VPort> vport;

  bool IsEmpty() const { return !mac.has_value() && !vlan.has_value() && !vport.has_value(); }

  // `payload` begins with the EoIB header. Only the first segment of a large frame has its Ethernet
  // header: the others pass if it did. They are sent in order.
  bool Passes(const UdHeaders& headers, absl::Span<const uint8_t> payload);

 private:
  // Large frames whose last segment is still to come, one for each sender.
  static constexpr size_t kMaxLarge = 4096;
  struct Sender {
    uint16_t lid;
    uint32_t qpn;
    friend bool operator==(const Sender&, const Sender&) = default;
    template <typename H>
    friend H AbslHashValue(H state, const Sender& sender) {
      return H::combine(std::move(state), sender.lid, sender.qpn);
    }
  };

  bool FramePasses(const UdHeaders& headers, absl::Span<const uint8_t> frame) const;
  bool VPortPasses(const UdHeaders& headers, const EthernetInfo& info) const;

  // The segment id of the last large frame that passed.
  absl::flat_hash_map<Sender, uint16_t> passed_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_CAPTURE_FILTER_H_
