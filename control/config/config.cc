#include "control/config/config.h"

#include <sys/un.h>

#include <algorithm>
#include <array>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/config/config_keys.h"
#include "vswitch/base/file.h"
#include "vswitch/wire/ib/sa_mad.h"

// After everything else.
#include "control/config/config_conflicts.h"
#include "control/config/config_reader.h"

namespace eoib {

bool IsVesName(absl::string_view name) {
  constexpr size_t kMaxVesName = 32;
  return !name.empty() && name.size() <= kMaxVesName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '-';
         });
}

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

bool IsSocketPath(absl::string_view path) {
  return path.size() > 1 && path.front() == '/' && path.back() != '/' &&
         path.size() < sizeof(sockaddr_un::sun_path) &&
         std::none_of(path.begin(), path.end(),
                      [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); });
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

constexpr size_t kMaxFileSize = 4 << 20;

void CheckVes(const RowReader& reader, const VesConfig& ves) {
  if (reader.IsRead("pkey")) {
    reader.CheckPKeyPrefix("pkey", ves.pkey.value());
    if (!ves.pkey.IsValid())
      reader.Wrong("pkey", "0x8000 names no partition; its low 15 bits must not be 0");
  }
  if (ves.group.mtu.has_value() && MtuCode(*ves.group.mtu) == 0)
    reader.Wrong("mtu", "InfiniBand has 256, 512, 1024, 2048 and 4096");
  if ((ves.group_fwd_mask & kPauseGroupBit) != 0) {
    reader.Wrong("group_fwd_mask",
                 absl::StrCat("bit 1 is 01:80:c2:00:00:01: pause frames are for the two ends of a ",
                              "link and never pass a switch; without that bit it is 0x",
                              absl::Hex(ves.group_fwd_mask & ~kPauseGroupBit, absl::kZeroPad4)));
  }
  if (ves.agents.has_value() && !ves.announce) {
    reader.Mistake("agents",
                   "agents says whose messages count, and announce = false ignores all; remove one "
                   "of the two");
  }
  if (ves.flood == FloodMode::kReplicate && !ves.announce) {
    reader.Mistake("flood",
                   "flood = \"replicate\" sends floods to the agents that announce themselves; "
                   "remove announce = false");
  }
  if (reader.Has("damping_freeze") && ves.damping.action != MoveDamper::Action::kFreeze) {
    reader.Mistake("damping_freeze",
                   "damping_freeze is for move_damping = \"freeze\"; remove one of the two");
  }
}

// Returns a VES that has mistakes, too, so that those of its vPorts are found.
VesConfig ReadVesTable(const toml::table& table, Mistakes* mistakes) {
  CheckKeys(table, " in [[ves]]", ToKeys(kVesKeys), mistakes);
  RowReader reader(table, "ves", mistakes);
  reader.Require("name", "\"blue\"");
  reader.Require("pkey", "0x8001, the P_Key of its partition");
  VesConfig config;
  config.line = reader.line();
  EOIB_VES_KEYS(EOIB_READ_ROW)
  CheckVes(reader, config);
  return config;
}

// Reports keys that a vPort of this kind does not have.
void CheckKind(const RowReader& reader, const VPortKind& kind) {
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

// The VES of a vPort, or null.
const VesConfig* FindVesOf(const RowReader& reader, const VPortConfig& vport,
                           const std::vector<VesConfig>& veses) {
  if (!reader.IsRead("ves")) return nullptr;
  std::vector<std::string> names;
  for (const VesConfig& ves : veses) {
    if (ves.name == vport.ves) return &ves;
    if (!ves.name.empty()) names.push_back(ves.name);
  }
  reader.Mistake("ves",
                 absl::StrCat("there is no VES ", Quote(vport.ves), "; there ",
                              names.empty() ? "is none: add a [[ves]]"
                                            : absl::StrCat("are: ", absl::StrJoin(names, ", "))));
  return nullptr;
}

void CheckInVes(const RowReader& reader, absl::string_view key, Vid vlan, const VesConfig& ves) {
  if (reader.IsWrong(key) || ves.vlans.Contains(vlan)) return;
  reader.Mistake(
      key, absl::StrCat(key, " ", vlan.value(), reader.Has(key) ? "" : " (untagged, the default)",
                        " is not in the vlans of VES \"", ves.name, "\" (", ves.vlans.ToString(),
                        "); choose one of them, or add it there"));
}

void CheckAccess(const RowReader& reader, const VlanPolicy& policy, const VesConfig* ves) {
  for (const char* key : {"trunk_vlans", "native_vlan"}) {
    if (reader.Has(key))
      reader.Mistake(key,
                     absl::StrCat(key, " is for trunks; add mode = \"trunk\", or use access_vlan"));
  }
  if (ves != nullptr) CheckInVes(reader, "access_vlan", policy.access_vlan, *ves);
}

void CheckTrunk(const RowReader& reader, const VlanPolicy& policy, const VesConfig* ves) {
  if (reader.Has("access_vlan")) {
    reader.Mistake("access_vlan",
                   "access_vlan is for mode = \"access\"; a trunk has trunk_vlans and native_vlan");
  }
  const VlanSet& vlans = policy.trunk_vlans;
  const bool vlans_known = !reader.IsWrong("trunk_vlans");
  if (vlans_known && ves != nullptr && vlans.CommonWith(ves->vlans).empty()) {
    reader.Mistake(
        "trunk_vlans",
        absl::StrCat("no VLAN of trunk_vlans (", vlans.ToString(), ") is in the vlans of VES \"",
                     ves->name, "\" (", ves->vlans.ToString(), "); the trunk would carry nothing"));
  }
  if (!reader.IsRead("native_vlan")) return;
  if (vlans_known && !vlans.Contains(policy.native_vlan)) {
    reader.Mistake("native_vlan",
                   absl::StrCat("native_vlan ", policy.native_vlan.value(),
                                " is not in trunk_vlans (", vlans.ToString(), "); add it there"));
  } else if (ves != nullptr) {
    CheckInVes(reader, "native_vlan", policy.native_vlan, *ves);
  }
}

VPortConfig ReadVPortTable(const toml::table& table, const std::vector<VesConfig>& veses,
                           Mistakes* mistakes) {
  CheckKeys(table, " in [[vport]]", ToKeys(kVPortKeys), mistakes);
  RowReader reader(table, "vport", mistakes);
  reader.Require("name", "\"eoib0\", which is also its interface's name");
  reader.Require("ves", "the name of a [[ves]]");
  VPortConfig config;
  config.line = reader.line();
  EOIB_VPORT_KEYS(EOIB_READ_ROW)
  CheckKind(reader, *config.kind);
  const VesConfig* const ves = FindVesOf(reader, config, veses);
  if (!reader.IsWrong("mode")) {
    const auto check = config.vlan.mode == PortMode::kTrunk ? CheckTrunk : CheckAccess;
    check(reader, config.vlan, ves);
  }
  const bool is_limited =
      config.fdb_limit.has_value() || (ves != nullptr && ves->vport_fdb_limit.has_value());
  if (config.sticky && !is_limited) config.fdb_limit = VPortConfig::kStickyLimit;
  return config;
}

// Names the tables that a key above the tables belongs into. "" if it belongs into none.
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
  std::vector<std::string> keys = {"ves", "vport"};
  for (const absl::string_view key : kHostKeys) {
    if (extension.has_workers) keys.emplace_back(key);
  }
  keys.insert(keys.end(), extension.tables.begin(), extension.tables.end());
  CheckKeys(root, "", keys, mistakes, [&extension](absl::string_view key) {
    return AdviceOnRootKey(key, extension.has_workers);
  });
  RowReader reader(root, "", mistakes);
  if (extension.has_workers) EOIB_HOST_KEYS(EOIB_READ_ROW)
  for (const toml::table* table : Tables(root, "ves", mistakes))
    config.veses.push_back(ReadVesTable(*table, mistakes));
  CheckVesesDiffer(config.veses, mistakes);
  for (const toml::table* table : Tables(root, "vport", mistakes))
    config.vports.push_back(ReadVPortTable(*table, config.veses, mistakes));
  extension.read(root, &config, mistakes);
  CheckVPortsDiffer(config.vports, mistakes);
  if (config.veses.empty() && mistakes->empty()) {
    mistakes->Add(1,
                  absl::StrCat("there is no VES; the least that works is:\n", extension.example));
  }
  return config;
}

}  // namespace

absl::optional<std::vector<IpAddr>> RowReader::Hosts(absl::string_view key,
                                                     absl::string_view example) const {
  constexpr auto kParse = [](absl::string_view text) {
    const absl::StatusOr<IpAddr> address = IpAddr::Parse(text);
    return address.ok() && address->CanBeHost() ? absl::make_optional(*address) : absl::nullopt;
  };
  return List<IpAddr>(key, example, "the address of a host is written \"10.0.0.1\"", kParse);
}

absl::StatusOr<AgentConfig> ParseConfig(absl::string_view toml, absl::string_view source) {
  return ParseConfig(ConfigText::Of(toml, source));
}

absl::StatusOr<AgentConfig> ParseConfig(const ConfigText& config) {
  return ParseConfigWith(
      config,
      {{}, kExample, [](const toml::table&, AgentConfig*, Mistakes*) {}, /*has_workers=*/true});
}

absl::StatusOr<ConfigText> LoadConfigText(const std::string& path, absl::string_view agent) {
  return ConfigText::Load(path, kExample, agent);
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
