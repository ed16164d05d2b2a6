#include "gateway/uplink/uplink_config.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "control/config/config_keys.h"

// After everything else.
#include "control/config/config_reader.h"
#include "gateway/uplink/uplink_reader.h"

namespace eoib::gateway {
namespace {

constexpr char kVlanIs[] =
    "; a VLAN is an integer from 0 to 4094 or a string: \"100-199\", \"20:120\" (the VES's 20 is "
    "120 on the wire), \"20-29:120\" (its 20 to 29 are 120 to 129)";

absl::optional<uint16_t> ParseVlan(absl::string_view text) {
  int value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < 0 || value > Vid::kMax) return absl::nullopt;
  return static_cast<uint16_t>(value);
}

class UplinkReader : public RowReader {
 public:
  using RowReader::RowReader;

  // An array of VLANs of the VES, and of the wire if they differ there.
  absl::optional<VlanMap> VlanPairs(absl::string_view key) const {
    if (!Has(key)) return absl::nullopt;
    const toml::array* const array = Find(key)->as_array();
    if (array == nullptr || array->empty()) {
      Wrong(key, "write vlans = [10, \"100-199\", \"20:120\"]");
      return absl::nullopt;
    }
    VlanMap vlans;
    bool right = true;
    for (const toml::node& element : *array) right &= AddPairs(element, &vlans);
    if (!right) return absl::nullopt;
    if (vlans.ToWire(Vid(0)).has_value() && !vlans.native().IsUntagged()) {
      Mistake(key, absl::StrCat("VLAN 0 of the VES is untagged, and so are frames of its VLAN ",
                                vlans.native().ToString(), " on the wire; give up one of the two"));
    }
    return vlans;
  }

 private:
  // One element: VES VLANs, and the first VLAN on the wire.
  bool AddPairs(const toml::node& element, VlanMap* vlans) const {
    std::string text;
    if (const auto* number = element.as_integer()) text = absl::StrCat(number->get());
    if (const auto* string = element.as_string()) text = string->get();
    const std::pair<absl::string_view, absl::string_view> sides =
        absl::StrSplit(text, absl::MaxSplits(':', 1));
    const std::pair<absl::string_view, absl::string_view> range =
        absl::StrSplit(sides.first, absl::MaxSplits('-', 1));
    const bool translated = text.find(':') != std::string::npos,
               ranged = text.find('-') != std::string::npos;
    const auto first = ParseVlan(range.first), last = ranged ? ParseVlan(range.second) : first;
    const auto wire = translated ? ParseVlan(sides.second) : first;
    if (!first || !last || !wire || *last < *first || *wire + (*last - *first) > Vid::kMax) {
      Report(element, absl::StrCat("vlans has ", Describe(element), kVlanIs));
      return false;
    }
    for (uint16_t i = 0; i <= *last - *first; ++i) {
      const Vid inside(static_cast<uint16_t>(*first + i)),
          outside(static_cast<uint16_t>(*wire + i));
      if (vlans->Add(inside, outside)) continue;
      Report(element, absl::StrCat("vlans has VLAN ", inside.ToString(), " of the VES or ",
                                   outside.ToString(), " of the wire twice; each has one partner"));
      return false;
    }
    return true;
  }
};

// The VES drops protocols that its group_fwd_mask does not pass.
void CheckGroups(const RowReader& reader, const VesConfig& ves, const UplinkConfig& config) {
  const struct {
    const char* key;
    bool pass;
    int bit;
  } kRows[] = {
      {"stp", config.pass_stp, 0}, {"lldp", config.pass_lldp, 14}, {"slow", config.pass_slow, 2}};
  for (const auto& row : kRows) {
    if (!reader.IsRead(row.key) || !row.pass || (ves.group_fwd_mask >> row.bit & 1) != 0) continue;
    reader.Mistake(
        row.key,
        absl::StrCat(row.key, " = \"pass\" needs bit ", row.bit, " in group_fwd_mask of VES ",
                     ves.name, ", which ends these frames; set it on all hosts of the VES"));
  }
}

// Checks the keys of an uplink against its VES, and fills in what follows from it.
void CompleteUplink(const RowReader& reader, const std::vector<VesConfig>& veses,
                    UplinkConfig* config) {
  const auto ves = std::find_if(veses.begin(), veses.end(),
                                [config](const VesConfig& one) { return one.name == config->ves; });
  if (ves == veses.end()) {
    if (!config->ves.empty()) reader.Wrong("ves", "there is no [[ves]] of that name");
    return;
  }
  config->ves_pkey = ves->pkey;
  if (!reader.Has("vlans")) config->vlans = VlanMap::Same(ves->vlans);
  CheckGroups(reader, *ves, *config);
  for (uint16_t vid = 0; vid <= Vid::kMax; ++vid) {
    if (!config->vlans.vlans().Contains(Vid(vid)) || ves->vlans.Contains(Vid(vid))) continue;
    return reader.Mistake("vlans", absl::StrCat("VES ", ves->name, " does not carry VLAN ", vid,
                                                "; its vlans are ", ves->vlans.ToString()));
  }
}

}  // namespace

UplinkConfig ReadUplink(const toml::table& table, const std::vector<VesConfig>& veses,
                        Mistakes* mistakes) {
  CheckKeys(table, " in [[uplink]]", ToKeys(kUplinkKeys), mistakes);
  UplinkReader reader(table, "uplink", mistakes);
  reader.Require("name", "\"up0\"");
  reader.Require("ves", "\"blue\"");
  reader.Require("netdev", "\"eth1\", the interface to the physical network");
  UplinkConfig config;
  config.line = reader.line();
  EOIB_UPLINK_KEYS(EOIB_READ_ROW)
  CompleteUplink(reader, veses, &config);
  return config;
}

// Two uplinks of a VES in one VLAN would be a loop if their wires are one network, and the election
// is between processes.
void CheckUplinksDiffer(const std::vector<UplinkConfig>& uplinks, Mistakes* mistakes) {
  for (auto one = uplinks.begin(); one != uplinks.end(); ++one) {
    for (auto other = uplinks.begin(); other != one; ++other) {
      if (one->netdev == other->netdev && !one->netdev.empty()) {
        mistakes->Add(one->line,
                      absl::StrCat("netdev ", Quote(one->netdev), " is also that of uplink ",
                                   Quote(other->name), "; one uplink can have several VLANs"));
      }
      if (one->ves != other->ves) continue;
      for (uint16_t vid = 0; vid <= Vid::kMax; ++vid) {
        if (!one->vlans.vlans().Contains(Vid(vid)) || !other->vlans.vlans().Contains(Vid(vid)))
          continue;
        mistakes->Add(
            one->line,
            absl::StrCat("uplink ", Quote(one->name), " has VLAN ", vid, " of VES ", one->ves,
                         ", and so has ", Quote(other->name),
                         ": two ways between two networks are a loop; use a bond for two wires"));
        break;
      }
    }
  }
}

VPortConfig VPortOf(const UplinkConfig& uplink) {
  VPortConfig vport;
  vport.name = uplink.name;
  vport.ves = uplink.ves;
  vport.kind = &kUplinkVPort;
  vport.vlan.mode = PortMode::kTrunk;
  vport.vlan.trunk_vlans = uplink.vlans.vlans();
  vport.vlan.native_vlan = uplink.vlans.native();
  vport.fdb_limit = uplink.fdb_limit;
  vport.pin_mac = false;
  vport.details = VPortDetails::Of(uplink);
  vport.line = uplink.line;
  return vport;
}

}  // namespace eoib::gateway
