#include "vswitch/forwarder/vlan_policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace eoib {

VlanSet VlanSet::All() {
  VlanSet set;
  set.vids_.set();
  return set;
}

void VlanSet::AddRange(Vid first, Vid last) {
  const uint16_t end = std::min(last.value(), Vid::kMax);
  for (uint16_t vid = first.value(); vid <= end; ++vid) vids_.set(vid);
}

std::string VlanSet::ToString() const {
  if (vids_.all()) return "all";
  if (vids_.none()) return "none";
  std::string text;
  for (size_t first = 0; first < vids_.size(); ++first) {
    if (!vids_[first]) continue;
    size_t last = first;
    while (last + 1 < vids_.size() && vids_[last + 1]) ++last;
    absl::StrAppend(&text, text.empty() ? "" : ",", first);
    if (last != first) absl::StrAppend(&text, "-", last);
    first = last;
  }
  return text;
}

bool VlanPolicy::Egress(Vid vid, bool* strip) const {
  if (mode == PortMode::kAccess) {
    *strip = true;
    return vid == access_vlan;
  }
  // VLAN 0 of a trunk stays as it is: a tag there is the sender's priority tag.
  *strip = vid == native_vlan && !vid.IsUntagged();
  return trunk_vlans.Contains(vid);
}

}  // namespace eoib
