#include "gateway/uplink/vlan_map.h"

#include "absl/strings/str_cat.h"

namespace eoib::gateway {

VlanMap::VlanMap() {
  to_wire_.fill(kNone);
  to_ves_.fill(kNone);
}

VlanMap VlanMap::Same(const VlanSet& vlans) {
  VlanMap map;
  for (uint16_t value = 0; value <= Vid::kMax; ++value) {
    if (vlans.Contains(Vid(value))) map.Add(Vid(value), Vid(value));
  }
  return map;
}

bool VlanMap::Add(Vid ves, Vid wire) {
  if (ToWire(ves).has_value() || ToVes(wire).has_value()) return false;
  to_wire_[ves.value()] = wire.value();
  to_ves_[wire.value()] = ves.value();
  vlans_.Add(ves);
  return true;
}

std::string VlanMap::ToString() const {
  std::string text;
  for (size_t first = 0; first < to_wire_.size(); ++first) {
    if (to_wire_[first] == kNone) continue;
    size_t last = first;
    while (last + 1 < to_wire_.size() && to_wire_[last + 1] == to_wire_[last] + 1) ++last;
    absl::StrAppend(&text, text.empty() ? "" : ",", first);
    if (last != first) absl::StrAppend(&text, "-", last);
    if (to_wire_[first] != first) absl::StrAppend(&text, ":", to_wire_[first]);
    first = last;
  }
  return text.empty() ? "none" : text;
}

}  // namespace eoib::gateway
