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

// Reads one [[uplink]].
class UplinkReader {
 public:
  UplinkReader(const toml::table& table, Mistakes* mistakes)
      : table_(table), reader_(table, "uplink", mistakes), mistakes_(mistakes) {}

  UplinkConfig Read(const std::vector<VesConfig>& veses) {
    CheckKeys(table_, " in [[uplink]]", ToKeys(kUplinkKeys), mistakes_);
    config_.line = reader_.line();
    ReadPlace(veses);
    ReadLimits();
    ReadElection();
    ReadSources();
    return std::move(config_);
  }

 private:
  void ReadPlace(const std::vector<VesConfig>& veses) {
    reader_.Require("name", "\"up0\"");
    reader_.Require("ves", "\"blue\"");
    reader_.Require("netdev", "\"eth1\", the interface to the physical network");
    config_.name = NetdevName("name", "it is 1 to 15 letters, digits and signs other than / : %");
    config_.netdev = NetdevName(
        "netdev",
        "it is the name of an interface of this host, such as \"eth1\": at most 15 bytes");
    if (const auto ves = reader_.String("ves", "it is the name of a [[ves]]")) config_.ves = *ves;
    const auto found = std::find_if(veses.begin(), veses.end(), [this](const VesConfig& ves) {
      return ves.name == config_.ves;
    });
    if (found == veses.end()) {
      if (!config_.ves.empty()) reader_.Wrong("ves", "there is no [[ves]] of that name");
      return;
    }
    config_.ves_pkey = found->pkey;
    ReadVlans(*found);
    ReadGroups(*found);
  }

  std::string NetdevName(absl::string_view key, absl::string_view hint) const {
    const auto name = reader_.String(key, hint);
    if (!name.has_value()) return "";
    if (!IsNetdevName(*name)) reader_.Wrong(key, hint);
    return *name;
  }

  void ReadVlans(const VesConfig& ves) {
    if (!reader_.Has("vlans")) {
      config_.vlans = VlanMap::Same(ves.vlans);
      return;
    }
    const toml::array* array = table_.get("vlans")->as_array();
    if (array == nullptr || array->empty()) {
      reader_.Wrong("vlans", "write vlans = [10, \"100-199\", \"20:120\"]");
      return;
    }
    for (const toml::node& element : *array) AddVlans(element, ves);
    if (config_.vlans.ToWire(Vid(0)).has_value() && !config_.vlans.native().IsUntagged()) {
      reader_.Mistake(
          "vlans",
          absl::StrCat("VLAN 0 of the VES is untagged, and so are frames of its VLAN ",
                       config_.vlans.native().ToString(), " on the wire; give up one of the two"));
    }
  }

  // One element: VES VLANs, and the first VLAN on the wire.
  void AddVlans(const toml::node& element, const VesConfig& ves) {
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
      mistakes_->Add(LineOf(element), absl::StrCat("vlans has ", Describe(element), kVlanIs));
      return;
    }
    for (uint16_t i = 0; i <= *last - *first; ++i) {
      const Vid inside(static_cast<uint16_t>(*first + i)),
          outside(static_cast<uint16_t>(*wire + i));
      if (!ves.vlans.Contains(inside)) {
        mistakes_->Add(LineOf(element),
                       absl::StrCat("VES ", ves.name, " does not carry VLAN ", inside.ToString(),
                                    "; its vlans are ", ves.vlans.ToString()));
        return;
      }
      if (config_.vlans.Add(inside, outside)) continue;
      mistakes_->Add(LineOf(element),
                     absl::StrCat("vlans has VLAN ", inside.ToString(), " of the VES or ",
                                  outside.ToString(), " of the wire twice; each has one partner"));
      return;
    }
  }

  // The VES drops protocols that its group_fwd_mask does not pass.
  void ReadGroups(const VesConfig& ves) {
    struct Row {
      const char* key;
      bool* pass;
      int bit;
    };
    for (const Row& row : {Row{"stp", &config_.pass_stp, 0},
                           {"lldp", &config_.pass_lldp, 14},
                           {"slow", &config_.pass_slow, 2}}) {
      if (const auto choice = reader_.OneOf(row.key, {"pass", "drop"})) *row.pass = *choice == 0;
      if (!reader_.Has(row.key) || !*row.pass || (ves.group_fwd_mask >> row.bit & 1) != 0) continue;
      reader_.Mistake(
          row.key,
          absl::StrCat(row.key, " = \"pass\" needs bit ", row.bit, " in group_fwd_mask of VES ",
                       ves.name, ", which ends these frames; set it on all hosts of the VES"));
    }
  }

  void ReadLimits() {
    if (const auto mtu = reader_.Integer("mtu", 68, 9000, " bytes"))
      config_.mtu = static_cast<int>(*mtu);
    if (const auto limit = reader_.Integer("fdb_limit", 1, 1 << 24, " MAC addresses"))
      config_.fdb_limit = *limit;
    if (const auto limit = reader_.Integer("ves_macs", 1, 1 << 24, " MAC addresses"))
      config_.ves_macs = *limit;
    if (const auto edge = reader_.Bool("edge")) config_.edge = *edge;
  }

  void ReadElection() {
    if (const auto priority =
            reader_.Integer("priority", 1, 255, "; of several gateways the highest works")) {
      config_.priority = static_cast<uint8_t>(*priority);
    }
    for (const std::string& text : reader_.Texts("peers", "[\"fe80::2:c903:e:b72\"]")) {
      const absl::StatusOr<Gid> gid = Gid::Parse(text);
      if (gid.ok() && !gid->IsZero() && !gid->IsMulticast()) {
        config_.peers.push_back(*gid);
      } else {
        reader_.Mistake(
            "peers",
            absl::StrCat("peers has ", Quote(text),
                         "; a peer is the GID of a gateway's port, \"fe80::2:c903:e:b72\""));
      }
    }
  }

  void ReadSources() {
    for (const std::string& text : reader_.Texts("icmp_source", "[\"10.0.0.250\"]")) {
      const absl::StatusOr<IpAddr> address = IpAddr::Parse(text);
      if (!address.ok() || !address->CanBeHost()) {
        reader_.Mistake("icmp_source", absl::StrCat("icmp_source has ", Quote(text),
                                                    "; an address is written \"10.0.0.250\""));
      } else if (address->is_ipv6()) {
        config_.icmp_source6 = address->ipv6();
      } else {
        config_.icmp_source4 = address->ipv4();
      }
    }
  }

  const toml::table& table_;
  const TableReader reader_;
  Mistakes* const mistakes_;
  UplinkConfig config_;
};

}  // namespace

UplinkConfig ReadUplink(const toml::table& table, const std::vector<VesConfig>& veses,
                        Mistakes* mistakes) {
  return UplinkReader(table, mistakes).Read(veses);
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
