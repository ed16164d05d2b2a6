// VlanMap: the VLANs of an uplink: which VLAN of the VES is which one on the wire.
#ifndef EOIB_GATEWAY_UPLINK_VLAN_MAP_H_
#define EOIB_GATEWAY_UPLINK_VLAN_MAP_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/types/optional.h"
#include "vswitch/base/address.h"
#include "vswitch/forwarder/vlan_policy.h"

namespace eoib::gateway {

// One-to-one. VLAN 0 is untagged, on either side.
class VlanMap {
 public:
  VlanMap();
  // All VLANs of `vlans`, each as itself.
  static VlanMap Same(const VlanSet& vlans);

  // False, without a change, if one of the two has a partner already.
  bool Add(Vid ves, Vid wire);
  absl::optional<Vid> ToWire(Vid ves) const { return At(to_wire_, ves); }
  absl::optional<Vid> ToVes(Vid wire) const { return At(to_ves_, wire); }
  // The VLANs of the VES that have a partner.
  const VlanSet& vlans() const { return vlans_; }
  // The VLAN of the VES that is untagged on the wire; 0 if there is none but the untagged one.
  Vid native() const { return ToVes(Vid(0)).value_or(Vid(0)); }
  // "0,10,100-199", "20-29:120" (the VES's 20 to 29 are 120 to 129 on the wire), "none".
  std::string ToString() const;

  friend bool operator==(const VlanMap&, const VlanMap&) = default;

 private:
  static constexpr uint16_t kNone = 0xffff;
  using Table = std::array<uint16_t, Vid::kMax + 1>;

  static absl::optional<Vid> At(const Table& table, Vid vid) {
    if (!vid.IsValid() || table[vid.value()] == kNone) return absl::nullopt;
    return Vid(table[vid.value()]);
  }

  Table to_wire_, to_ves_;
  VlanSet vlans_;
};

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_UPLINK_VLAN_MAP_H_
