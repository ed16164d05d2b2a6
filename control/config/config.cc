#include "control/config/config.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "vswitch/base/file.h"
#include "vswitch/wire/ib/sa_mad.h"

// After everything else.
#include "control/config/config_reader.h"
#include "control/config/netdev_config.h"
#include "control/config/vhost_config.h"

namespace eoib {

// As the kernel's dev_valid_name. Also excludes '%', which the kernel expands as a pattern, and
// "all" and "default", which are directories in /proc/sys/net/ipv4/conf.
bool IsNetdevName(absl::string_view name) {
  constexpr size_t kMaxNetdevName = 15;  // IFNAMSIZ - 1
  if (name.empty() || name.size() > kMaxNetdevName || name == "." || name == ".." ||
      name == "all" || name == "default")
    return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isgraph(c) && c != '/' && c != ':' && c != '%';
  });
}

namespace {

constexpr char kExample[] =
    "[[ves]]\n"
    "name = \"blue\"\n"
    "pkey = 0x8001\n"
    "\n"
    "[[vport]]\n"
    "name = \"eoib0\"\n"
    "ves = \"blue\"\n";

constexpr size_t kMaxVesName = 32;
constexpr int64_t kMaxAgeing = 1'000'000;  // seconds (IEEE 802.1Q-2018 §8.8.3)
constexpr int64_t kMaxFdbLimit = 10'000'000;
constexpr int64_t kMaxDamping = 86'400;  // seconds
constexpr int64_t kMinMtu = 68;          // RFC 791 §3.2
constexpr int64_t kMaxMtu = 9000;        // jumbo frames; above the VES MTU in segments
constexpr size_t kMostAgents = 4096;     // AgentTable::kMaxAgents
constexpr size_t kMaxFileSize = 4 << 20;

bool IsVesName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxVesName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '-';
         });
}

// Reads "name". Keeps a wrong one, for further messages.
void ReadName(const TableReader& reader, bool (*is_right)(absl::string_view),
              absl::string_view right, std::string* name) {
  const auto text = reader.String("name", right);
  if (!text.has_value()) return;
  *name = *text;
  if (!is_right(*name)) reader.Wrong("name", right);
}

// Reads one [[ves]]. Keeps a VES that has mistakes but a valid name, so that its vPorts are not
// reported, too.
class VesReader {
 public:
  VesReader(const toml::table& table, Mistakes* mistakes) : reader_(table, "ves", mistakes) {
    CheckKeys(table, " in [[ves]]", ToKeys(kVesKeys), mistakes);
    reader_.Require("name", "\"blue\"");
    reader_.Require("pkey", "0x8001, the P_Key of its partition");
  }

  VesConfig Read() {
    VesConfig ves;
    ves.line = reader_.line();
    ReadName(reader_, IsVesName, "a name is 1 to 32 of the characters A-Z a-z 0-9 _ . -",
             &ves.name);
    ReadKeys(&ves);
    ReadGroup(&ves.group);
    if (const auto vlans = reader_.Vlans("vlans")) ves.vlans = *vlans;
    if (reader_.OneOf("header", {"eoib", "xve"}) == 1u) ves.header = HeaderForm::kAlternative;
    ReadGroupForwardMask(&ves.group_fwd_mask);
    if (const auto ageing = reader_.Integer("ageing", 0, kMaxAgeing, " seconds (0: never)"))
      ves.ageing = absl::Seconds(*ageing);
    if (const auto limit = reader_.Integer("fdb_limit", 1, kMaxFdbLimit, " MAC addresses"))
      ves.fdb_limit = *limit;
    if (const auto limit = reader_.Integer("vport_fdb_limit", 1, kMaxFdbLimit, " MAC addresses"))
      ves.vport_fdb_limit = *limit;
    ves.announce = reader_.Bool("announce").value_or(true);
    ves.agents = reader_.Gids("agents", kMostAgents);
    if (ves.agents.has_value() && !ves.announce) {
      reader_.Mistake("agents",
                      "agents says whose messages count, and announce = false ignores all; remove "
                      "one of the two");
    }
    if (reader_.OneOf("flood", {"group", "replicate"}) == 1u) ves.flood = FloodMode::kReplicate;
    if (ves.flood == FloodMode::kReplicate && !ves.announce) {
      reader_.Mistake("flood",
                      "flood = \"replicate\" sends floods to the agents that announce themselves; "
                      "remove announce = false");
    }
    ReadDamping(&ves.damping);
    return ves;
  }

 private:
  void ReadKeys(VesConfig* ves) {
    if (const auto pkey = reader_.IntegerOrString(
            "pkey", 1, 0xffff, "it is a P_Key from 0x0001 to 0xffff such as 0x8001")) {
      ves->pkey = PKey(static_cast<uint16_t>(*pkey));
      reader_.CheckPKeyPrefix("pkey", *pkey);
      if (!ves->pkey.IsValid())
        reader_.Wrong("pkey", "0x8000 names no partition; its low 15 bits must not be 0");
    }
    if (const auto qkey =
            reader_.IntegerOrString("qkey", 0x8000'0000, 0xffff'ffff,
                                    "it is a controlled Q_Key, from 0x80000000 to 0xffffffff")) {
      ves->qkey = QKey(static_cast<uint32_t>(*qkey));
    }
  }

  void ReadGroupForwardMask(uint16_t* mask) {
    const auto value = reader_.IntegerOrString(
        "group_fwd_mask", 0, 0xffff,
        "it is a number from 0x0000 to 0xffff, in which bit x passes frames to "
        "01:80:c2:00:00:0x; the default, 0xfff9, is all but pause and LACP");
    if (!value.has_value()) return;
    *mask = static_cast<uint16_t>(*value);
    if ((*mask & kPauseGroupBit) == 0) return;
    reader_.Wrong(
        "group_fwd_mask",
        absl::StrCat("bit 1 is 01:80:c2:00:00:01: pause frames are for the two ends of a link and ",
                     "never pass a switch; without that bit it is 0x",
                     absl::Hex(*mask & ~kPauseGroupBit, absl::kZeroPad4)));
  }

  void ReadDamping(MoveDamper::Options* damping) {
    using Action = MoveDamper::Action;
    constexpr Action kActions[] = {Action::kFreeze, Action::kFreezeUntilThawed, Action::kWarn,
                                   Action::kOff};
    if (const auto action =
            reader_.OneOf("move_damping", {"freeze", "freeze_until_thawed", "warn", "off"})) {
      damping->action = kActions[*action];
    } else if (reader_.Has("move_damping")) {
      return;
    }
    if (const auto moves = reader_.Integer("damping_moves", 2, MoveDamper::kMostMoves, "")) {
      damping->moves = static_cast<int>(*moves);
    }
    for (const auto& [key, seconds] : {std::make_pair("damping_window", &damping->window),
                                       {"damping_freeze", &damping->freeze}}) {
      if (const auto value = reader_.Integer(key, 1, kMaxDamping, " seconds"))
        *seconds = absl::Seconds(*value);
    }
    if (reader_.Has("damping_freeze") && damping->action != Action::kFreeze) {
      reader_.Mistake("damping_freeze",
                      "damping_freeze is for move_damping = \"freeze\"; remove one of the two");
    }
  }

  void ReadGroup(GroupParameters* group) {
    if (const auto bytes = reader_.Integer("mtu", 256, 4096, " bytes")) {
      group->mtu = static_cast<int>(*bytes);
      if (MtuCode(*group->mtu) == 0)
        reader_.Wrong("mtu", "InfiniBand has 256, 512, 1024, 2048 and 4096");
    }
    if (const auto sl = reader_.Integer("sl", 0, Sl::kMax, ""))
      group->sl = Sl(static_cast<uint8_t>(*sl));
    if (const auto traffic_class = reader_.Integer("traffic_class", 0, 255, "")) {
      group->traffic_class = static_cast<uint8_t>(*traffic_class);
    }
    if (const auto hops = reader_.Integer("hop_limit", 0, 255, ""))
      group->hop_limit = static_cast<uint8_t>(*hops);
  }

  const TableReader reader_;
};

// Reports keys that a vPort of this kind does not have.
void CheckKind(const TableReader& reader, const VPortKind& kind) {
  for (const VPortKind* other : kVPortKinds) {
    for (const auto& [key, example] : other->own) {
      if (other != &kind && reader.Has(key)) {
        reader.Mistake(key, absl::StrCat(key, " is for type = \"", other->name,
                                         "\"; add that, or remove ", key));
      }
      if (other == &kind && !example.empty()) reader.Require(key, example);
    }
  }
  for (const auto& [key, why] : kind.lacks) {
    if (!reader.Has(key)) continue;
    reader.Mistake(
        key, absl::StrCat(key, " is not for type = \"", kind.name, "\": ", why, "; remove it"));
  }
}

// Reads one [[vport]].
class VPortReader {
 public:
  VPortReader(const toml::table& table, Mistakes* mistakes) : reader_(table, "vport", mistakes) {
    CheckKeys(table, " in [[vport]]", ToKeys(kVPortKeys), mistakes);
    reader_.Require("name", "\"eoib0\", which is also its interface's name");
    reader_.Require("ves", "the name of a [[ves]]");
  }

  VPortConfig Read(const std::vector<VesConfig>& veses) {
    VPortConfig vport;
    vport.line = reader_.line();
    ReadName(reader_, IsNetdevName,
             "it is an interface's name: 1 to 15 bytes, without spaces, '/', ':' and '%', and not "
             "\"all\" or \"default\"",
             &vport.name);
    std::vector<absl::string_view> types;
    for (const VPortKind* kind : kVPortKinds) types.push_back(kind->name);
    if (const auto type = reader_.OneOf("type", types)) vport.kind = kVPortKinds[*type];
    CheckKind(reader_, *vport.kind);
    ReadNetdev(reader_, &vport);
    ReadVhost(reader_, &vport);
    vport.mac = reader_.Mac("mac");
    vport.static_macs = reader_.Macs("static_macs");
    if (const auto mtu = reader_.Integer("mtu", kMinMtu, kMaxMtu, " bytes"))
      vport.mtu = static_cast<int>(*mtu);
    if (const auto limit = reader_.Integer("fdb_limit", 1, kMaxFdbLimit, " MAC addresses"))
      vport.fdb_limit = *limit;
    vport.sticky = reader_.Bool("sticky").value_or(false);
    vport.pin_mac = reader_.Bool("pin_mac").value_or(true);
    vport.up = reader_.Bool("up").value_or(true);
    const VesConfig* ves = ReadVes(veses, &vport);
    if (ReadMode(&vport))
      vport.vlan.mode == PortMode::kTrunk ? ReadTrunk(ves, &vport.vlan)
                                          : ReadAccess(ves, &vport.vlan);
    const bool is_limited =
        vport.fdb_limit.has_value() || (ves != nullptr && ves->vport_fdb_limit.has_value());
    if (vport.sticky && !is_limited) vport.fdb_limit = VPortConfig::kStickyLimit;
    return vport;
  }

 private:
  const VesConfig* ReadVes(const std::vector<VesConfig>& veses, VPortConfig* vport) {
    const auto name = reader_.String("ves", "it is the name of a [[ves]]");
    if (!name.has_value()) return nullptr;
    vport->ves = *name;
    std::vector<std::string> names;
    for (const VesConfig& ves : veses) {
      if (ves.name == *name) return &ves;
      if (!ves.name.empty()) names.push_back(ves.name);
    }
    reader_.Mistake(
        "ves", absl::StrCat("there is no VES ", Quote(*name), "; there ",
                            names.empty() ? "is none: add a [[ves]]"
                                          : absl::StrCat("are: ", absl::StrJoin(names, ", "))));
    return nullptr;
  }

  // False if the mode is a mistake: then the keys that depend on it cannot be checked.
  bool ReadMode(VPortConfig* vport) {
    const auto mode = reader_.OneOf("mode", {"access", "trunk"});
    if (mode == 1u) vport->vlan.mode = PortMode::kTrunk;
    return mode.has_value() || !reader_.Has("mode");
  }

  void ReadAccess(const VesConfig* ves, VlanPolicy* policy) {
    for (const char* key : {"trunk_vlans", "native_vlan"}) {
      if (reader_.Has(key))
        reader_.Mistake(
            key, absl::StrCat(key, " is for trunks; add mode = \"trunk\", or use access_vlan"));
    }
    const auto vlan = reader_.Vlan("access_vlan");
    if (!vlan.has_value() && reader_.Has("access_vlan")) return;
    policy->access_vlan = vlan.value_or(Vid());
    CheckInVes("access_vlan", policy->access_vlan, ves);
  }

  void ReadTrunk(const VesConfig* ves, VlanPolicy* policy) {
    if (reader_.Has("access_vlan")) {
      reader_.Mistake(
          "access_vlan",
          "access_vlan is for mode = \"access\"; a trunk has trunk_vlans and native_vlan");
    }
    const auto vlans = reader_.Vlans("trunk_vlans");
    if (vlans.has_value()) policy->trunk_vlans = *vlans;
    const bool vlans_known = vlans.has_value() || !reader_.Has("trunk_vlans");
    if (vlans_known) CheckTrunkCarries(ves, policy->trunk_vlans);
    const auto native = reader_.Vlan("native_vlan");
    if (!native.has_value()) return;
    policy->native_vlan = *native;
    if (vlans_known && !policy->trunk_vlans.Contains(*native)) {
      reader_.Mistake("native_vlan",
                      absl::StrCat("native_vlan ", native->value(), " is not in trunk_vlans (",
                                   policy->trunk_vlans.ToString(), "); add it there"));
    } else {
      CheckInVes("native_vlan", *native, ves);
    }
  }

  void CheckInVes(absl::string_view key, Vid vlan, const VesConfig* ves) {
    if (ves == nullptr || ves->vlans.Contains(vlan)) return;
    reader_.Mistake(
        key,
        absl::StrCat(key, " ", vlan.value(), reader_.Has(key) ? "" : " (untagged, the default)",
                     " is not in the vlans of VES \"", ves->name, "\" (", ves->vlans.ToString(),
                     "); choose one of them, or add it there"));
  }

  void CheckTrunkCarries(const VesConfig* ves, const VlanSet& vlans) {
    if (ves == nullptr) return;
    for (uint16_t vid = 0; vid <= Vid::kMax; ++vid) {
      if (vlans.Contains(Vid(vid)) && ves->vlans.Contains(Vid(vid))) return;
    }
    reader_.Mistake(
        "trunk_vlans",
        absl::StrCat("no VLAN of trunk_vlans (", vlans.ToString(), ") is in the vlans of VES \"",
                     ves->name, "\" (", ves->vlans.ToString(), "); the trunk would carry nothing"));
  }

  const TableReader reader_;
};

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

// Finds MACs that two vPorts of a VES claim. Static entries are per VLAN; the MAC of a netdev is
// claimed in all of them.
class MacClaims {
 public:
  explicit MacClaims(Mistakes* mistakes) : mistakes_(mistakes) {}

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

void CheckVPortsDiffer(const std::vector<VPortConfig>& vports, Mistakes* mistakes) {
  std::map<std::string, int> lines;
  MacClaims claims(mistakes);
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
}

// What to do with a key that stands above the tables and belongs into one; "" for others.
std::string AdviceOnRootKey(absl::string_view key, bool has_vports) {
  std::vector<std::string> tables;
  if (absl::c_linear_search(kVesKeys, key)) tables.push_back("[[ves]]");
  if (has_vports && absl::c_linear_search(kVPortKeys, key)) tables.push_back("[[vport]]");
  if (tables.empty()) return "";
  return absl::StrCat("it is a key of ", absl::StrJoin(tables, " and "),
                      ": write it below one of these, or delete the line");
}

AgentConfig ReadRoot(const toml::table& root, const ConfigExtension& extension,
                     Mistakes* mistakes) {
  AgentConfig config;
  std::vector<std::string> keys = {"ves", "vport", "workers"};
  if (!extension.has_workers) keys.pop_back();
  keys.insert(keys.end(), extension.tables.begin(), extension.tables.end());
  CheckKeys(root, "", keys, mistakes, [&extension](absl::string_view key) {
    return AdviceOnRootKey(key, extension.has_workers);
  });
  const TableReader reader(root, "", mistakes);
  if (extension.has_workers) {
    config.workers = static_cast<size_t>(
        reader.Integer("workers", 1, AgentConfig::kMostWorkers, " threads").value_or(1));
  }
  for (const toml::table* table : Tables(root, "ves", mistakes))
    config.veses.push_back(VesReader(*table, mistakes).Read());
  CheckVesesDiffer(config.veses, mistakes);
  for (const toml::table* table : Tables(root, "vport", mistakes)) {
    config.vports.push_back(VPortReader(*table, mistakes).Read(config.veses));
  }
  extension.read(root, &config, mistakes);
  CheckVPortsDiffer(config.vports, mistakes);
  CheckNetdevsDiffer(config.vports, mistakes);
  CheckSocketsDiffer(config.vports, mistakes);
  if (config.veses.empty() && mistakes->empty()) {
    mistakes->Add(1,
                  absl::StrCat("there is no VES; the least that works is:\n", extension.example));
  }
  return config;
}

}  // namespace

absl::StatusOr<AgentConfig> ParseConfig(absl::string_view toml, absl::string_view source) {
  return ParseConfig(ConfigText::Of(toml, source));
}

absl::StatusOr<AgentConfig> ParseConfig(const ConfigText& config) {
  return ParseConfigWith(
      config,
      {{}, kExample, [](const toml::table&, AgentConfig*, Mistakes*) {}, /*has_workers=*/true});
}

absl::StatusOr<ConfigText> LoadConfigText(const std::string& path) {
  return ConfigText::Load(path, kExample);
}

absl::StatusOr<AgentConfig> LoadConfig(const std::string& path) {
  const absl::StatusOr<ConfigText> text = LoadConfigText(path);
  return text.ok() ? ParseConfig(*text) : text.status();
}

absl::StatusOr<AgentConfig> ParseConfigWith(const ConfigText& config_text,
                                            const ConfigExtension& extension) {
  Mistakes mistakes(config_text.lines());
  const std::string text = config_text.text();
  const toml::parse_result parsed = toml::parse(std::string_view(text));
  if (!parsed) {
    mistakes.Add(LineOf(parsed.error().source()),
                 absl::StrCat("this is not TOML: ", std::string(parsed.error().description())));
    return mistakes.ToStatus();
  }
  AgentConfig config = ReadRoot(parsed.table(), extension, &mistakes);
  if (!mistakes.empty()) return mistakes.ToStatus();
  return config;
}

absl::StatusOr<std::string> ReadConfigFile(const std::string& path, absl::string_view example) {
  absl::StatusOr<std::string> text = ReadFile(path, kMaxFileSize);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(
        absl::StrCat("read configuration ", path,
                     ": there is no such file; write it, the least that works is:\n", example));
  }
  if (text.ok()) return text;
  return absl::Status(text.status().code(),
                      absl::StrCat("read configuration ", path, ": ", text.status().message()));
}

}  // namespace eoib
