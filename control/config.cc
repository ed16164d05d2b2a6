#include "control/config.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "control/nearest_name.h"
#include "vswitch/wire/sa_mad.h"

// After everything else, since it changes how headers behave.
#include "vswitch/fabric/toml.h"

namespace eoib {
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
constexpr size_t kMaxNetdevName = 15;      // IFNAMSIZ - 1
constexpr int64_t kMaxAgeing = 1'000'000;  // seconds (IEEE 802.1Q-2018 §8.8.3)
constexpr int64_t kMaxFdbLimit = 10'000'000;
constexpr int64_t kMinMtu = 68;    // RFC 791 §3.2
constexpr int64_t kMaxMtu = 4074;  // of an InfiniBand MTU of 4096
constexpr std::streamsize kMaxFileSize = 4 << 20;

// Text of the operator's, as messages quote it.
std::string Quote(absl::string_view text) {
  constexpr size_t kLongest = 60;
  const bool cut = text.size() > kLongest;
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kLongest)), cut ? "..." : "", "\"");
}

// What is written at `node`, as messages quote it.
std::string Describe(const toml::node& node) {
  if (const auto* text = node.as_string()) return Quote(text->get());
  if (const auto* number = node.as_integer()) return absl::StrCat(number->get());
  if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
  if (node.is_floating_point()) return "a number with a fraction";
  if (node.is_array()) return "an array";
  return node.is_table() ? "a table" : "a date or time";
}

int LineOf(const toml::source_region& region) { return static_cast<int>(region.begin.line); }
int LineOf(const toml::node& node) { return LineOf(node.source()); }

// The mistakes found so far. They are reported in the order of the file.
class Mistakes {
 public:
  explicit Mistakes(absl::string_view source) : source_(source) {}

  void Add(int line, absl::string_view message) { found_.emplace(std::max(line, 1), message); }
  bool empty() const { return found_.empty(); }
  absl::Status ToStatus() const {
    std::vector<std::string> lines;
    for (const auto& [line, message] : found_) lines.push_back(absl::StrCat(source_, ":", line, ": ", message));
    return lines.empty() ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrJoin(lines, "\n"));
  }

 private:
  const std::string source_;
  std::multimap<int, std::string> found_;
};

void CheckKeys(const toml::table& table, absl::string_view where, const std::vector<std::string>& known, Mistakes* mistakes) {
  for (const auto& [key, value] : table) {
    const std::string name(key.str());
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string nearest = NearestName(name, known);
    mistakes->Add(LineOf(key.source()), absl::StrCat("unknown key ", Quote(name), where, "; ",
                                                     nearest.empty() ? absl::StrCat("there are ", absl::StrJoin(known, ", "))
                                                                     : absl::StrCat("did you mean \"", nearest, "\"?")));
  }
}

// Reads the values of one table. Each read returns nullopt if the key is missing or its value is a mistake, which it reports.
class TableReader {
 public:
  // `name` is what messages call the table: "ves".
  TableReader(const toml::table& table, absl::string_view name, Mistakes* mistakes)
      : table_(table), name_(name), mistakes_(mistakes) {}

  int line() const { return LineOf(table_); }
  bool Has(absl::string_view key) const { return Find(key) != nullptr; }
  int LineOfKey(absl::string_view key) const { return Has(key) ? LineOf(*Find(key)) : line(); }
  void Mistake(absl::string_view key, absl::string_view message) const { mistakes_->Add(LineOfKey(key), message); }

  // The value is not what it should be: "mtu is "big"; it is ...".
  void Wrong(absl::string_view key, absl::string_view right) const {
    Mistake(key, absl::StrCat(key, " is ", Describe(*Find(key)), "; ", right));
  }

  void Require(absl::string_view key, absl::string_view example) const {
    if (!Has(key)) mistakes_->Add(line(), absl::StrCat("[[", name_, "]] has no ", key, "; add ", key, " = ", example));
  }

  absl::optional<std::string> String(absl::string_view key, absl::string_view right) const {
    if (!Has(key)) return absl::nullopt;
    if (const auto* text = Find(key)->as_string()) return text->get();
    Wrong(key, right);
    return absl::nullopt;
  }

  absl::optional<int64_t> Integer(absl::string_view key, int64_t min, int64_t max, absl::string_view unit) const {
    if (!Has(key)) return absl::nullopt;
    const auto* number = Find(key)->as_integer();
    if (number != nullptr && number->get() >= min && number->get() <= max) return number->get();
    Wrong(key, absl::StrCat("it is an integer from ", min, " to ", max, unit));
    return absl::nullopt;
  }

  // An integer, or a string such as "0x8001".
  absl::optional<int64_t> IntegerOrString(absl::string_view key, int64_t min, int64_t max, absl::string_view right) const {
    if (!Has(key)) return absl::nullopt;
    const toml::node& node = *Find(key);
    int64_t value = -1;
    if (const auto* number = node.as_integer()) value = number->get();
    if (const auto* text = node.as_string(); text != nullptr && !ParseNumber(text->get(), &value)) value = -1;
    if (value >= min && value <= max) return value;
    Wrong(key, right);
    return absl::nullopt;
  }

  absl::optional<Vid> Vlan(absl::string_view key) const {
    const absl::optional<int64_t> value = Integer(key, 0, Vid::kMax, " (0: untagged)");
    if (!value.has_value()) return absl::nullopt;
    return Vid(static_cast<uint16_t>(*value));
  }

  absl::optional<VlanSet> Vlans(absl::string_view key) const {
    if (!Has(key)) return absl::nullopt;
    const toml::node& node = *Find(key);
    if (const auto* text = node.as_string(); text != nullptr && text->get() == "all") return VlanSet::All();
    const auto* array = node.as_array();
    if (array == nullptr || array->empty()) {
      Mistake(key, absl::StrCat(key, " is ", array == nullptr ? Describe(node) : "an empty array", "; ", VlansExample(key)));
      return absl::nullopt;
    }
    VlanSet vlans = VlanSet::None();
    bool good = true;
    for (const toml::node& element : *array) good = AddVlans(key, element, &vlans) && good;
    return good ? absl::make_optional(vlans) : absl::nullopt;
  }

  absl::optional<MacAddr> Mac(absl::string_view key) const { return Has(key) ? Mac(key, *Find(key)) : absl::nullopt; }

  std::vector<MacAddr> Macs(absl::string_view key) const {
    if (!Has(key)) return {};
    const auto* array = Find(key)->as_array();
    if (array == nullptr) Wrong(key, absl::StrCat("write ", key, " = [\"02:00:5e:10:00:01\"]"));
    if (array == nullptr) return {};
    std::vector<MacAddr> macs;
    for (const toml::node& element : *array) {
      const absl::optional<MacAddr> mac = Mac(key, element);
      if (!mac.has_value()) continue;
      if (std::find(macs.begin(), macs.end(), *mac) == macs.end()) {
        macs.push_back(*mac);
      } else {
        mistakes_->Add(LineOf(element), absl::StrCat(key, " names ", mac->ToString(), " twice; remove one"));
      }
    }
    return macs;
  }

 private:
  const toml::node* Find(absl::string_view key) const { return table_.get(std::string_view(key.data(), key.size())); }

  static bool ParseNumber(absl::string_view text, int64_t* value) {
    if (absl::StartsWithIgnoreCase(text, "0x")) return absl::SimpleHexAtoi(text, value);
    return absl::SimpleAtoi(text, value);
  }

  static std::string VlansExample(absl::string_view key) {
    return absl::StrCat("write ", key, " = [0, 10, \"100-199\"] (0: untagged), or \"all\"");
  }

  static absl::optional<Vid> OneVid(absl::string_view text) {
    int value;
    if (!absl::SimpleAtoi(text, &value) || value < 0 || value > Vid::kMax) return absl::nullopt;
    return Vid(static_cast<uint16_t>(value));
  }

  static bool AddVlanText(absl::string_view text, VlanSet* vlans) {
    const std::pair<absl::string_view, absl::string_view> ends = absl::StrSplit(text, absl::MaxSplits('-', 1));
    const absl::optional<Vid> first = OneVid(ends.first);
    const absl::optional<Vid> last = absl::StrContains(text, '-') ? OneVid(ends.second) : first;
    if (!first.has_value() || !last.has_value() || *last < *first) return false;
    vlans->AddRange(*first, *last);
    return true;
  }

  bool AddVlans(absl::string_view key, const toml::node& element, VlanSet* vlans) const {
    const auto* number = element.as_integer();
    const auto* text = element.as_string();
    if (number != nullptr && number->get() >= 0 && number->get() <= Vid::kMax) {
      vlans->Add(Vid(static_cast<uint16_t>(number->get())));
      return true;
    }
    if (text != nullptr && AddVlanText(text->get(), vlans)) return true;
    mistakes_->Add(LineOf(element), absl::StrCat(key, " has ", Describe(element), "; a VLAN is an integer from 0 to ",
                                                 Vid::kMax, ", a range of them a string such as \"100-199\""));
    return false;
  }

  absl::optional<MacAddr> Mac(absl::string_view key, const toml::node& node) const {
    const auto* text = node.as_string();
    const absl::StatusOr<MacAddr> mac = text == nullptr ? MacAddr() : MacAddr::Parse(text->get());
    absl::string_view right;
    if (text == nullptr || !mac.ok()) {
      right = "a MAC address is written \"02:00:5e:10:00:01\"";
    } else if (mac->IsGroup()) {
      right = "that is a group address; the first byte of a port's own is even, as in \"02:00:5e:10:00:01\"";
    } else if (mac->IsZero()) {
      right = "that is no address; write one such as \"02:00:5e:10:00:01\"";
    } else {
      return *mac;
    }
    mistakes_->Add(LineOf(node), absl::StrCat(key, " is ", Describe(node), "; ", right));
    return absl::nullopt;
  }

  const toml::table& table_;
  const std::string name_;
  Mistakes* const mistakes_;
};

bool IsVesName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxVesName && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '-';
  });
}

// What the kernel takes for a netdev (dev_valid_name), and no '%', which it takes for a pattern, nor a folder of
// /proc/sys/net/ipv4/conf.
bool IsNetdevName(absl::string_view name) {
  if (name.empty() || name.size() > kMaxNetdevName || name == "." || name == ".." || name == "all" || name == "default")
    return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isgraph(c) && c != '/' && c != ':' && c != '%'; });
}

// Reads one [[ves]]. A VES whose name is good is kept with its mistakes, so that its vPorts are not reported as well.
class VesReader {
 public:
  VesReader(const toml::table& table, Mistakes* mistakes) : reader_(table, "ves", mistakes) {
    CheckKeys(table, " in [[ves]]",
              {"name", "pkey", "vlans", "qkey", "mtu", "sl", "traffic_class", "hop_limit", "ageing", "fdb_limit"}, mistakes);
    reader_.Require("name", "\"blue\"");
    reader_.Require("pkey", "0x8001, the P_Key of its partition");
  }

  VesConfig Read() {
    VesConfig ves;
    ves.line = reader_.line();
    ReadName(&ves);
    ReadKeys(&ves);
    ReadGroup(&ves.group);
    if (const auto vlans = reader_.Vlans("vlans")) ves.vlans = *vlans;
    if (const auto ageing = reader_.Integer("ageing", 0, kMaxAgeing, " seconds (0: never)"))
      ves.ageing = absl::Seconds(*ageing);
    if (const auto limit = reader_.Integer("fdb_limit", 1, kMaxFdbLimit, " MAC addresses")) ves.fdb_limit = *limit;
    return ves;
  }

 private:
  void ReadName(VesConfig* ves) {
    constexpr char kRight[] = "a name is 1 to 32 of the characters A-Z a-z 0-9 _ . -";
    const auto name = reader_.String("name", kRight);
    if (!name.has_value()) return;
    ves->name = *name;
    if (!IsVesName(*name)) reader_.Wrong("name", kRight);
  }

  void ReadKeys(VesConfig* ves) {
    if (const auto pkey = reader_.IntegerOrString("pkey", 1, 0xffff, "it is a P_Key from 0x0001 to 0xffff such as 0x8001")) {
      ves->pkey = PKey(static_cast<uint16_t>(*pkey));
      if (!ves->pkey.IsValid()) reader_.Wrong("pkey", "0x8000 names no partition; its low 15 bits must not be 0");
    }
    if (const auto qkey = reader_.IntegerOrString("qkey", 0x8000'0000, 0xffff'ffff,
                                                  "it is a controlled Q_Key, from 0x80000000 to 0xffffffff")) {
      ves->qkey = QKey(static_cast<uint32_t>(*qkey));
    }
  }

  void ReadGroup(GroupParameters* group) {
    if (const auto bytes = reader_.Integer("mtu", 256, 4096, " bytes")) {
      group->mtu = static_cast<int>(*bytes);
      if (MtuCode(*group->mtu) == 0) reader_.Wrong("mtu", "InfiniBand has 256, 512, 1024, 2048 and 4096");
    }
    if (const auto sl = reader_.Integer("sl", 0, Sl::kMax, "")) group->sl = Sl(static_cast<uint8_t>(*sl));
    if (const auto traffic_class = reader_.Integer("traffic_class", 0, 255, "")) {
      group->traffic_class = static_cast<uint8_t>(*traffic_class);
    }
    if (const auto hops = reader_.Integer("hop_limit", 0, 255, "")) group->hop_limit = static_cast<uint8_t>(*hops);
  }

  const TableReader reader_;
};

// Reads one [[vport]]; `ves` is the VES that it names, nullptr if there is none such.
class VPortReader {
 public:
  VPortReader(const toml::table& table, Mistakes* mistakes) : reader_(table, "vport", mistakes) {
    CheckKeys(table, " in [[vport]]",
              {"name", "ves", "type", "mac", "mode", "access_vlan", "trunk_vlans", "native_vlan", "static_macs", "mtu"},
              mistakes);
    reader_.Require("name", "\"eoib0\", which is also its interface's name");
    reader_.Require("ves", "the name of a [[ves]]");
  }

  VPortConfig Read(const std::vector<VesConfig>& veses) {
    VPortConfig vport;
    vport.line = reader_.line();
    ReadName(&vport);
    ReadType(&vport);
    vport.mac = reader_.Mac("mac");
    vport.static_macs = reader_.Macs("static_macs");
    if (const auto mtu = reader_.Integer("mtu", kMinMtu, kMaxMtu, " bytes")) vport.mtu = static_cast<int>(*mtu);
    const VesConfig* ves = ReadVes(veses, &vport);
    if (ReadMode(&vport)) ReadVlans(ves, &vport.vlan);
    return vport;
  }

 private:
  void ReadName(VPortConfig* vport) {
    constexpr char kRight[] =
        "it is an interface's name: 1 to 15 bytes, without spaces, '/', ':' and '%', and not \"all\" or \"default\"";
    const auto name = reader_.String("name", kRight);
    if (!name.has_value()) return;
    vport->name = *name;
    if (!IsNetdevName(*name)) reader_.Wrong("name", kRight);
  }

  void ReadType(VPortConfig* vport) {
    constexpr char kRight[] = "it is \"tap\" or \"test\"";
    const auto type = reader_.String("type", kRight);
    if (!type.has_value()) return;
    vport->type = *type;
    if (*type != "tap" && *type != "test") reader_.Wrong("type", kRight);
  }

  const VesConfig* ReadVes(const std::vector<VesConfig>& veses, VPortConfig* vport) {
    const auto name = reader_.String("ves", "it is the name of a [[ves]]");
    if (!name.has_value()) return nullptr;
    vport->ves = *name;
    std::vector<std::string> names;
    for (const VesConfig& ves : veses) {
      if (ves.name == *name) return &ves;
      if (!ves.name.empty()) names.push_back(ves.name);
    }
    reader_.Mistake("ves",
                    absl::StrCat("there is no VES ", Quote(*name), "; there ",
                                 names.empty() ? "is none: add a [[ves]]" : absl::StrCat("are: ", absl::StrJoin(names, ", "))));
    return nullptr;
  }

  // False if the mode is a mistake, and the keys that depend on it say nothing.
  bool ReadMode(VPortConfig* vport) {
    constexpr char kRight[] = "it is \"access\" or \"trunk\"";
    const auto mode = reader_.String("mode", kRight);
    if (!mode.has_value()) return !reader_.Has("mode");
    if (*mode == "trunk") vport->vlan.mode = PortMode::kTrunk;
    if (*mode == "trunk" || *mode == "access") return true;
    reader_.Wrong("mode", kRight);
    return false;
  }

  void ReadVlans(const VesConfig* ves, VlanPolicy* policy) {
    if (policy->mode == PortMode::kTrunk) {
      ReadTrunk(ves, policy);
    } else {
      ReadAccess(ves, policy);
    }
  }

  void ReadAccess(const VesConfig* ves, VlanPolicy* policy) {
    for (const char* key : {"trunk_vlans", "native_vlan"}) {
      if (reader_.Has(key)) reader_.Mistake(key, absl::StrCat(key, " is for trunks; add mode = \"trunk\", or use access_vlan"));
    }
    const auto vlan = reader_.Vlan("access_vlan");
    if (!vlan.has_value() && reader_.Has("access_vlan")) return;
    policy->access_vlan = vlan.value_or(Vid());
    CheckInVes("access_vlan", policy->access_vlan, ves);
  }

  void ReadTrunk(const VesConfig* ves, VlanPolicy* policy) {
    if (reader_.Has("access_vlan")) {
      reader_.Mistake("access_vlan", "access_vlan is for mode = \"access\"; a trunk has trunk_vlans and native_vlan");
    }
    const auto vlans = reader_.Vlans("trunk_vlans");
    if (vlans.has_value()) policy->trunk_vlans = *vlans;
    const bool vlans_known = vlans.has_value() || !reader_.Has("trunk_vlans");
    if (vlans_known) CheckTrunkCarries(ves, policy->trunk_vlans);
    const auto native = reader_.Vlan("native_vlan");
    if (!native.has_value()) return;
    policy->native_vlan = *native;
    if (vlans_known && !policy->trunk_vlans.Contains(*native)) {
      reader_.Mistake("native_vlan", absl::StrCat("native_vlan ", native->value(), " is not in trunk_vlans (",
                                                  policy->trunk_vlans.ToString(), "); add it there"));
    } else {
      CheckInVes("native_vlan", *native, ves);
    }
  }

  void CheckInVes(absl::string_view key, Vid vlan, const VesConfig* ves) {
    if (ves == nullptr || ves->vlans.Contains(vlan)) return;
    reader_.Mistake(key, absl::StrCat(key, " ", vlan.value(), reader_.Has(key) ? "" : " (untagged, the default)",
                                      " is not in the vlans of VES \"", ves->name, "\" (", ves->vlans.ToString(),
                                      "); choose one of them, or add it there"));
  }

  void CheckTrunkCarries(const VesConfig* ves, const VlanSet& vlans) {
    if (ves == nullptr) return;
    for (uint16_t vid = 0; vid <= Vid::kMax; ++vid) {
      if (vlans.Contains(Vid(vid)) && ves->vlans.Contains(Vid(vid))) return;
    }
    reader_.Mistake("trunk_vlans", absl::StrCat("no VLAN of trunk_vlans (", vlans.ToString(), ") is in the vlans of VES \"",
                                                ves->name, "\" (", ves->vlans.ToString(), "); the trunk would carry nothing"));
  }

  const TableReader reader_;
};

// The tables of [[name]]; written in another way, that is the mistake.
std::vector<const toml::table*> Tables(const toml::table& root, absl::string_view name, Mistakes* mistakes) {
  std::vector<const toml::table*> tables;
  const toml::node* node = root.get(std::string_view(name.data(), name.size()));
  if (node == nullptr) return tables;
  const toml::array* array = node->as_array();
  const auto mistake = [&](const toml::node& at) {
    mistakes->Add(LineOf(at),
                  absl::StrCat(name, " is ", Describe(at), "; write [[", name, "]], with two brackets, above its keys"));
  };
  if (array == nullptr) {
    mistake(*node);
    return tables;
  }
  for (const toml::node& element : *array) {
    if (element.is_table()) {
      tables.push_back(element.as_table());
    } else {
      mistake(element);
    }
  }
  return tables;
}

void CheckVesesDiffer(const std::vector<VesConfig>& veses, Mistakes* mistakes) {
  std::map<std::string, int> lines;
  std::map<uint16_t, const VesConfig*> partitions;
  for (const VesConfig& ves : veses) {
    if (const auto [first, fresh] = lines.emplace(ves.name, ves.line); !fresh && !ves.name.empty()) {
      mistakes->Add(ves.line, absl::StrCat("a second VES \"", ves.name, "\", the first is on line ", first->second,
                                           "; each needs a name of its own"));
    }
    if (!ves.pkey.IsValid()) continue;
    if (const auto [first, fresh] = partitions.emplace(ves.pkey.base(), &ves); !fresh) {
      mistakes->Add(ves.line, absl::StrCat("VES \"", ves.name, "\" has the partition of VES \"", first->second->name,
                                           "\" on line ", first->second->line, " (P_Key ", ves.pkey.ToString(),
                                           "); a partition is one VES: give it another pkey"));
    }
  }
}

// Where a MAC has been claimed: VES, and the VLAN for static entries, which are one for each VLAN.
class MacClaims {
 public:
  explicit MacClaims(Mistakes* mistakes) : mistakes_(mistakes) {}

  void Claim(const VPortConfig& vport) {
    const int untagged = vport.vlan.Untagged().value();
    if (vport.mac.has_value() && Claim(vport, *vport.mac, kNetdev, "mac ")) Claim(vport, *vport.mac, untagged, "mac ");
    for (MacAddr mac : vport.static_macs) Claim(vport, mac, untagged, "static MAC ");
  }

 private:
  static constexpr int kNetdev = -1;  // its netdev may send in every VLAN of the port

  // True if it is this vPort's.
  bool Claim(const VPortConfig& vport, MacAddr mac, int vlan, absl::string_view what) {
    const auto [first, fresh] = claims_.emplace(std::make_tuple(vport.ves, mac, vlan), &vport);
    if (fresh || first->second == &vport) return true;
    mistakes_->Add(vport.line,
                   absl::StrCat(what, mac.ToString(), " of vPort \"", vport.name, "\" is also at vPort \"", first->second->name,
                                "\" of the same VES on line ", first->second->line, "; each needs its own"));
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
    if (const auto [first, fresh] = lines.emplace(vport.name, vport.line); !fresh && !vport.name.empty()) {
      mistakes->Add(vport.line, absl::StrCat("a second vPort \"", vport.name, "\", the first is on line ", first->second,
                                             "; each needs a name of its own"));
    }
  }
}

AgentConfig ReadRoot(const toml::table& root, Mistakes* mistakes) {
  AgentConfig config;
  CheckKeys(root, "", {"ves", "vport"}, mistakes);
  for (const toml::table* table : Tables(root, "ves", mistakes)) config.veses.push_back(VesReader(*table, mistakes).Read());
  CheckVesesDiffer(config.veses, mistakes);
  for (const toml::table* table : Tables(root, "vport", mistakes)) {
    config.vports.push_back(VPortReader(*table, mistakes).Read(config.veses));
  }
  CheckVPortsDiffer(config.vports, mistakes);
  if (config.veses.empty() && mistakes->empty()) {
    mistakes->Add(1, absl::StrCat("there is no VES; the least that works is:\n", kExample));
  }
  return config;
}

}  // namespace

absl::StatusOr<AgentConfig> ParseConfig(absl::string_view toml, absl::string_view source) {
  Mistakes mistakes(source);
  const toml::parse_result parsed = toml::parse(std::string_view(toml.data(), toml.size()));
  if (!parsed) {
    mistakes.Add(LineOf(parsed.error().source()),
                 absl::StrCat("this is not TOML: ", std::string(parsed.error().description())));
    return mistakes.ToStatus();
  }
  AgentConfig config = ReadRoot(parsed.table(), &mistakes);
  if (!mistakes.empty()) return mistakes.ToStatus();
  return config;
}

absl::StatusOr<AgentConfig> LoadConfig(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) return absl::ErrnoToStatus(errno, absl::StrCat("read configuration ", path));
    return absl::NotFoundError(
        absl::StrCat("read configuration ", path, ": there is no such file; write it, the least that works is:\n", kExample));
  }
  if (!S_ISREG(info.st_mode) || info.st_size > kMaxFileSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("read configuration ", path, ": it is not a regular file of at most ", kMaxFileSize, " bytes"));
  }
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.is_open() || file.bad()) return absl::ErrnoToStatus(errno, absl::StrCat("read configuration ", path));
  return ParseConfig(text, path);
}

}  // namespace eoib
