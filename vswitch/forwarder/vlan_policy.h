// VlanPolicy: which VLANs a port carries, and how its frames map to VLANs of the VES.
#ifndef EOIB_VSWITCH_FORWARDER_VLAN_POLICY_H_
#define EOIB_VSWITCH_FORWARDER_VLAN_POLICY_H_

#include <bitset>
#include <string>

#include "vswitch/base/address.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {

// A set of VIDs, 0 (untagged) included.
class VlanSet {
 public:
  static VlanSet All();
  static VlanSet None() { return VlanSet(); }
  bool Contains(Vid vid) const { return vid.IsValid() && vids_[vid.value()]; }
  void Add(Vid vid) { vids_.set(vid.value()); }
  void AddRange(Vid first, Vid last);
  bool empty() const { return vids_.none(); }
  std::string ToString() const;  // "0,10,100-199"; "all"; "none"
  VlanSet CommonWith(const VlanSet& other) const;
  friend bool operator==(const VlanSet&, const VlanSet&) = default;

 private:
  std::bitset<Vid::kMax + 1> vids_;
};

enum class PortMode : uint8_t {
  kAccess,  // one VLAN; frames are untagged at the port
  // A set of VLANs, tagged at the port; untagged frames belong to the native VLAN, if there is one.
  kTrunk,
};

struct VlanPolicy {
  PortMode mode = PortMode::kAccess;
  Vid access_vlan;                       // kAccess; 0: the VES's untagged VLAN
  VlanSet trunk_vlans = VlanSet::All();  // kTrunk; with 0 it carries the untagged VLAN too
  Vid native_vlan;                       // kTrunk; 0: untagged frames stay untagged, as VLAN 0

  // Sets *vid to the VLAN of a frame received at the port; false if the port does not carry it. An
  // access port takes untagged and priority-tagged frames, but no VLAN tag, not even its own, as in
  // Open vSwitch. A trunk takes untagged and priority-tagged frames into the native VLAN (IEEE
  // 802.1Q-2018 §6.9.1).
  bool Classify(const EthernetInfo& info, Vid* vid) const;
  // True if frames of `vid` leave at the port. Sets *strip if they leave without the tag.
  bool Egress(Vid vid, bool* strip) const;
  // The VLAN of untagged frames.
  Vid Untagged() const { return mode == PortMode::kAccess ? access_vlan : native_vlan; }
  friend bool operator==(const VlanPolicy&, const VlanPolicy&) = default;
};

inline VlanSet VlanSet::CommonWith(const VlanSet& other) const {
  VlanSet common = *this;
  common.vids_ &= other.vids_;
  return common;
}

inline bool VlanPolicy::Classify(const EthernetInfo& info, Vid* vid) const {
  // IEEE 802.1Q-2018 §6.9: a frame without a tag, or with a priority tag, belongs to the port's own
  // VLAN.
  *vid = info.vid.IsUntagged() ? Untagged() : info.vid;
  if (mode == PortMode::kTrunk) return trunk_vlans.Contains(*vid);
  // Refuses a tag behind a priority tag: at an egress that strips the outer tag the inner one would
  // show, and the frame would enter another VLAN.
  return info.vid.IsUntagged() && !(info.tagged && info.ethertype == kEtherTypeVlan);
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_FORWARDER_VLAN_POLICY_H_
