#include "control/ves/vport_announcement.h"

#include <array>

namespace eoib {
namespace {

// More ranges of VLANs are announced as one that has them all, so that a vPort fits any message.
constexpr size_t kMaxRanges = 16;

std::vector<VlanRange> CarriedVlans(const VlanPolicy& policy) {
  std::vector<VlanRange> ranges;
  bool strip, carried_before = false;
  for (uint16_t value = 0; value <= Vid::kMax; ++value) {
    const Vid vid(value);
    const bool carried = policy.Egress(vid, &strip);
    if (carried && !carried_before) ranges.push_back({vid, vid});
    if (carried) ranges.back().last = vid;
    carried_before = carried;
  }
  if (ranges.size() > kMaxRanges) ranges = {{ranges.front().first, ranges.back().last}};
  return ranges;
}

}  // namespace

AnnouncedVPort ToAnnounced(const VPort& vport) {
  AnnouncedVPort announced;
  announced.id = static_cast<uint16_t>(vport.index + 1);
  announced.name = vport.config.name.substr(0, AnnouncedVPort::kMaxName);
  announced.vlans = CarriedVlans(vport.config.vlan);
  return announced;
}

std::vector<LocalClaims::ConfiguredMac> ConfiguredMacs(const VPort& vport) {
  const Vid vid = vport.config.vlan.Untagged();
  bool strip;
  if (!vport.config.vlan.Egress(vid, &strip)) return {};
  std::vector<LocalClaims::ConfiguredMac> macs;
  if (const MacAddr own = vport.port->mac(); !own.IsZero())
    macs.push_back({FdbKey(vid, own), vport.config.pin_mac});
  for (const MacAddr mac : vport.config.static_macs) macs.push_back({FdbKey(vid, mac), true});
  return macs;
}

VlanSet VlansOf(const AgentView& view) {
  if (view.version == 0 && view.vports.empty()) return VlanSet::All();
  // Ranges that begin at a VLAN, less those that end before it.
  std::array<int32_t, Vid::kMax + 2> begun{};
  const auto add = [&begun](Vid first, Vid last) {
    ++begun[first.value()], --begun[last.value() + 1];
  };
  for (const auto& [number, vport] : view.vports) {
    if (vport.vlans.size() > kMaxRanges) {
      add(vport.vlans.front().first, vport.vlans.back().last);
      continue;
    }
    for (const VlanRange& range : vport.vlans) add(range.first, range.last);
  }
  VlanSet vlans;
  int32_t open = 0;
  for (uint16_t vid = 0; vid <= Vid::kMax; ++vid) {
    open += begun[vid];
    if (open > 0) vlans.Add(Vid(vid));
  }
  return vlans;
}

}  // namespace eoib
