#include <map>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"

// After everything else.
#include "control/config/config_conflicts.h"

namespace eoib {
namespace {

// Finds MACs that two vPorts of a VES claim. Static entries are per VLAN; the MAC of a netdev is
// claimed in all of them.
class ClaimedMacs {
 public:
  explicit ClaimedMacs(Mistakes* mistakes) : mistakes_(mistakes) {}

  void Claim(const VPortConfig& vport) {
    const int untagged = vport.vlan.Untagged().value();
    if (vport.mac.has_value() && Claim(vport, *vport.mac, kNetdev, "mac "))
      Claim(vport, *vport.mac, untagged, "mac ");
    for (MacAddr mac : vport.static_macs) Claim(vport, mac, untagged, "static MAC ");
  }

 private:
  // Instead of a VLAN: a netdev may send in every VLAN of its port.
  static constexpr int kNetdev = -1;

  // True if no other vPort has claimed it.
  bool Claim(const VPortConfig& vport, MacAddr mac, int vlan, absl::string_view what) {
    const auto [first, fresh] = claims_.emplace(std::make_tuple(vport.ves, mac, vlan), &vport);
    if (fresh || first->second == &vport) return true;
    mistakes_->Add(
        vport.line,
        absl::StrCat(what, mac.ToString(), " of vPort \"", vport.name, "\" is also at vPort \"",
                     first->second->name, "\" of the same VES on ",
                     mistakes_->Mention(first->second->line), "; each needs its own"));
    return false;
  }

  Mistakes* const mistakes_;
  std::map<std::tuple<std::string, MacAddr, int>, const VPortConfig*> claims_;
};

void CheckNetdevsDiffer(const std::vector<VPortConfig>& vports, Mistakes* mistakes) {
  std::map<std::string, const VPortConfig*> first, taps;
  for (const VPortConfig& vport : vports) {
    if (vport.kind == &kTapVPort) taps.emplace(vport.name, &vport);
  }
  for (const VPortConfig& vport : vports) {
    if (vport.netdev.empty()) continue;
    const auto mistake = [&](const VPortConfig& other, absl::string_view of,
                             absl::string_view advice) {
      mistakes->Add(vport.line,
                    absl::StrCat("netdev ", Quote(vport.netdev), " of vPort ", Quote(vport.name),
                                 " is ", of, " vPort ", Quote(other.name), " on ",
                                 mistakes->Mention(other.line), "; ", advice));
    };
    const auto [before, fresh] = first.emplace(vport.netdev, &vport);
    if (!fresh)
      mistake(*before->second, "also that of",
              "each frame would enter twice: one vPort can be a trunk of several VLANs");
    const auto tap = taps.find(vport.netdev);
    if (tap != taps.end())
      mistake(*tap->second, "the TAP of", "give one of the two vPorts another name, or remove it");
  }
}

void CheckSocketsDiffer(const std::vector<VPortConfig>& vports, Mistakes* mistakes) {
  std::map<std::string, const VPortConfig*> first;
  for (const VPortConfig& vport : vports) {
    if (vport.socket.empty()) continue;
    const auto [before, fresh] = first.emplace(vport.socket, &vport);
    if (fresh) continue;
    mistakes->Add(
        vport.line,
        absl::StrCat(
            "socket ", Quote(vport.socket), " of vPort ", Quote(vport.name),
            " is also that of vPort ", Quote(before->second->name), " on ",
            mistakes->Mention(before->second->line),
            "; an interface of a virtual machine has one vPort: give each its own socket"));
  }
}

}  // namespace

void CheckVesesDiffer(const std::vector<VesConfig>& veses, Mistakes* mistakes) {
  std::map<std::string, int> lines;
  std::map<uint16_t, const VesConfig*> partitions;
  for (const VesConfig& ves : veses) {
    if (const auto [first, fresh] = lines.emplace(ves.name, ves.line);
        !fresh && !ves.name.empty()) {
      mistakes->Add(ves.line, absl::StrCat("a second VES \"", ves.name, "\", the first is on ",
                                           mistakes->Mention(first->second),
                                           "; each needs a name of its own"));
    }
    if (!ves.pkey.IsValid()) continue;
    if (const auto [first, fresh] = partitions.emplace(ves.pkey.base(), &ves); !fresh) {
      mistakes->Add(
          ves.line,
          absl::StrCat("VES \"", ves.name, "\" has the partition of VES \"", first->second->name,
                       "\" on ", mistakes->Mention(first->second->line), " (P_Key ",
                       ves.pkey.ToString(), "); a partition is one VES: give it another pkey"));
    }
  }
}

void CheckVPortsDiffer(const std::vector<VPortConfig>& vports, Mistakes* mistakes) {
  std::map<std::string, int> lines;
  ClaimedMacs claims(mistakes);
  for (const VPortConfig& vport : vports) {
    claims.Claim(vport);
    if (const auto [first, fresh] = lines.emplace(vport.name, vport.line);
        !fresh && !vport.name.empty()) {
      mistakes->Add(
          vport.line,
          absl::StrCat("a second vPort \"", vport.name, "\", the first is on ",
                       mistakes->Mention(first->second), "; each needs a name of its own"));
    }
  }
  CheckNetdevsDiffer(vports, mistakes);
  CheckSocketsDiffer(vports, mistakes);
}

}  // namespace eoib
