#include "gateway/gateways_config.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "control/config/config_keys.h"

// After everything else.
#include "control/config/config_reader.h"
#include "gateway/uplink/uplink_reader.h"

namespace eoib::gateway {
namespace {

using translation::Prefix;

constexpr char kExample[] =
    "[[ves]]\n"
    "name = \"blue\"\n"
    "pkey = 0x8001\n"
    "\n"
    "[[gateway]]\n"
    "name = \"gw0\"\n"
    "ves = \"blue\"\n";
constexpr char kPeersExample[] = "[\"fe80::2:c903:e:b72\"]";
constexpr char kPKeyIs[] =
    "it is a partition of the subnet, 0x8001 to 0xffff (or without the membership bit, 0x1 to "
    "0x7fff)";

absl::optional<Prefix> ParsePrefix(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('/', 1));
  const absl::StatusOr<IpAddr> address = IpAddr::Parse(parts.first);
  int length = 0;
  if (!address.ok() || !absl::SimpleAtoi(parts.second, &length)) return absl::nullopt;
  if (length < 0 || length > (address->is_ipv6() ? 128 : 32)) return absl::nullopt;
  return Prefix{*address, static_cast<uint8_t>(length)};
}

absl::optional<Gid> ParsePeer(absl::string_view text) {
  const absl::StatusOr<Gid> gid = Gid::Parse(text);
  return gid.ok() && !gid->IsZero() && !gid->IsMulticast() ? absl::make_optional(*gid)
                                                           : absl::nullopt;
}

absl::optional<IpAddr> ParseHost(absl::string_view text) {
  const absl::StatusOr<IpAddr> address = IpAddr::Parse(text);
  return address.ok() && address->CanBeHost() ? absl::make_optional(*address) : absl::nullopt;
}

// Reads one [[gateway]].
class GatewayReader {
 public:
  GatewayReader(const toml::table& table, Mistakes* mistakes)
      : table_(table), reader_(table, "gateway", mistakes), mistakes_(mistakes) {}

  GatewayConfig Read(const std::vector<VesConfig>& veses) {
    CheckKeys(table_, " in [[gateway]]", ToKeys(kGatewayKeys), mistakes_);
    config_.line = reader_.line();
    ReadPlace(veses);
    ReadLink();
    ReadSubnet();
    ReadLimits();
    return std::move(config_);
  }

 private:
  void ReadPlace(const std::vector<VesConfig>& veses) {
    reader_.Require("name", "\"gw0\"");
    reader_.Require("ves", "\"blue\"");
    if (const auto name = reader_.String("name", "it is the gateway's name")) {
      if (IsNetdevName(*name)) config_.name = *name;
      if (config_.name.empty())
        reader_.Wrong("name", "it is 1 to 15 letters, digits and signs other than / : %");
    }
    if (const auto ves = reader_.String("ves", "it is the name of a [[ves]]")) config_.ves = *ves;
    const auto found = std::find_if(veses.begin(), veses.end(), [this](const VesConfig& ves) {
      return ves.name == config_.ves;
    });
    if (const auto vlan = reader_.Vlan("vlan")) config_.vlan = *vlan;
    if (found == veses.end()) {
      if (!config_.ves.empty()) reader_.Wrong("ves", "there is no [[ves]] of that name");
      return;
    }
    config_.pkey = config_.ves_pkey = found->pkey;
    if (!found->vlans.Contains(config_.vlan)) {
      reader_.Mistake("vlan", absl::StrCat("VES ", found->name, " does not carry VLAN ",
                                           config_.vlan.ToString(), "; its vlans are ",
                                           found->vlans.ToString()));
    }
  }

  void ReadLink() {
    if (const auto pkey = reader_.IntegerOrString("pkey", 1, 0xffff, kPKeyIs)) {
      config_.pkey = PKey(static_cast<uint16_t>(*pkey)).Full();
      reader_.CheckPKeyPrefix("pkey", *pkey);
    }
    if (reader_.Has("pkey") && !config_.pkey.IsValid()) reader_.Wrong("pkey", kPKeyIs);
    if (const auto scope = reader_.IntegerOrString(
            "scope", 1, 14, "it is the scope of the broadcast group, 1 to 14 (2: link-local)")) {
      config_.scope = MulticastScope(static_cast<uint8_t>(*scope));
    }
    if (const auto priority =
            reader_.Integer("priority", 1, 255, "; of several gateways the highest works")) {
      config_.priority = static_cast<uint8_t>(*priority);
    }
    // The list may contain the port's own GID, so that all gateways of the pair can share one file.
    constexpr char kPeerIs[] =
        "a peer is the GID of another gateway's port, \"fe80::2:c903:e:b72\"";
    if (reader_.Has("peers")) config_.peers = List("peers", kPeersExample, kPeerIs, ParsePeer);
    if (const auto grh = reader_.Bool("grh")) config_.grh = *grh;
    if (const auto all = reader_.Bool("all_groups")) config_.all_groups = *all;
  }

  void ReadSubnet() {
    config_.translation.prefixes = List("prefixes", "[\"10.0.0.0/24\", \"fd00::/64\"]",
                                        "a prefix is written \"10.0.0.0/24\"", ParsePrefix);
    config_.translation.routers = List("routers", "[\"10.0.0.1\", \"fe80::1\"]",
                                       "a router is written \"10.0.0.1\"", ParseHost);
    for (const IpAddr& source : List("icmp_source", "[\"10.0.0.250\"]",
                                     "an address is written \"10.0.0.250\"", ParseHost)) {
      if (source.is_ipv6()) {
        config_.translation.icmp_source6 = source.ipv6();
      } else {
        config_.translation.icmp_source4 = source.ipv4();
      }
    }
  }

  void ReadLimits() {
    translation::Options& options = config_.translation;
    if (const auto limit = reader_.Integer("stations", 1, translation::Options::kMostStations,
                                           " IPoIB interfaces")) {
      options.max_stations = *limit;
      options.max_station_ips =
          *limit * (translation::Options::kMostStationIps / translation::Options::kMostStations);
    }
    if (const auto limit = reader_.Integer("neighbors", 1, translation::Options::kMostNeighbors,
                                           " addresses of Ethernet hosts"))
      options.max_neighbors = *limit;
    if (const auto rate =
            reader_.Integer("asks_per_second", 1, 1'000'000, " solicitations for unknown hosts")) {
      options.asks_per_second = options.ask_burst = static_cast<double>(*rate);
      // The ratio of the defaults in options.h.
      options.asks_per_second_each = static_cast<double>(*rate) * 0.4;
      options.ask_burst_each = std::max(1.0, options.asks_per_second_each);
    }
    if (const auto query = reader_.Bool("query_groups")) options.query_groups = *query;
  }

  // A list of texts that `parse` reads; it returns nothing for a faulty one.
  template <typename Value>
  std::vector<Value> List(absl::string_view key, absl::string_view example, absl::string_view hint,
                          absl::optional<Value> (*parse)(absl::string_view)) const {
    std::vector<Value> values;
    for (const std::string& text : reader_.Texts(key, example)) {
      const absl::optional<Value> value = parse(text);
      value.has_value() ? values.push_back(*value)
                        : reader_.Mistake(key, absl::StrCat(key, " has ", Quote(text), "; ", hint));
    }
    return values;
  }

  const toml::table& table_;
  const TableReader reader_;
  Mistakes* const mistakes_;
  GatewayConfig config_;
};

using Way = std::vector<const GatewayConfig*>;

// Names of the two sides that a gateway joins; equal names mean the same side.
std::pair<std::string, std::string> SidesOf(const GatewayConfig& gateway) {
  return {
      absl::StrCat("VLAN ", gateway.vlan.ToString(), " of VES ", gateway.ves),
      absl::StrCat("link ", gateway.pkey.Full().ToString(), " of scope ", gateway.scope.value())};
}

// Appends to `way` the gateways of `joined` that lead from side `from` to side `to`; false if there
// is no such path. `joined` has no loop, so the recursion ends.
bool FindWay(const std::string& from, const std::string& to, const Way& joined, Way* way) {
  if (from == to) return true;
  for (const GatewayConfig* const gateway : joined) {
    const auto [one, other] = SidesOf(*gateway);
    if ((one != from && other != from) || (!way->empty() && way->back() == gateway)) continue;
    way->push_back(gateway);
    if (FindWay(one == from ? other : one, to, joined, way)) return true;
    way->pop_back();
  }
  return false;
}

// The election prevents loops between processes only. So the configuration of one process must not
// have two gateways between the same sides, nor a longer cycle of gateways.
void CheckThereIsNoLoop(const std::vector<GatewayConfig>& gateways, Mistakes* mistakes) {
  Way joined;
  for (const GatewayConfig& gateway : gateways) {
    const auto [ethernet, ipoib] = SidesOf(gateway);
    Way way;
    if (!FindWay(ethernet, ipoib, joined, &way)) {
      joined.push_back(&gateway);
    } else if (way.size() == 1) {
      mistakes->Add(gateway.line,
                    absl::StrCat("gateway \"", gateway.name,
                                 "\" is between the same VES, VLAN, P_Key and scope as \"",
                                 way[0]->name, "\"; one of them is enough, two are a loop"));
    } else {
      const auto append_name = [](std::string* out, const GatewayConfig* other) {
        absl::StrAppend(out, "\"", other->name, "\"");
      };
      mistakes->Add(
          gateway.line,
          absl::StrCat(
              "gateway \"", gateway.name, "\" between ", ethernet, " and ", ipoib,
              " closes a loop with ", absl::StrJoin(way, ", ", append_name),
              ", in which every broadcast would go round for ever; leave one of them out"));
    }
  }
}

constexpr VPortKind kGatewayVPort{
    .name = "ipoib",
    .noun = "gateway",
    .if_replaced = "it leaves its IPoIB link and joins it again; no traffic for about 2 s"};

VPortConfig VPortOf(const GatewayConfig& gateway) {
  VPortConfig vport;
  vport.name = gateway.name;
  vport.ves = gateway.ves;
  vport.kind = &kGatewayVPort;
  vport.vlan.mode = PortMode::kAccess;
  vport.vlan.access_vlan = gateway.vlan;
  vport.details = VPortDetails::Of(gateway);
  vport.line = gateway.line;
  return vport;
}

ConfigExtension Extension(GatewaysConfig* read) {
  return {
      {"gateway", "uplink"},
      kExample,
      [read](const toml::table& root, AgentConfig* config, Mistakes* mistakes) {
        for (const VPortConfig& vport : config->vports) {
          mistakes->Add(
              vport.line,
              "a gateway has no vPorts of its own; interfaces are an agent's: run eoibd for them");
        }
        for (const toml::table* table : Tables(root, "gateway", mistakes)) {
          read->gateways.push_back(GatewayReader(*table, mistakes).Read(config->veses));
          config->vports.push_back(VPortOf(read->gateways.back()));
        }
        for (const toml::table* table : Tables(root, "uplink", mistakes)) {
          read->uplinks.push_back(ReadUplink(*table, config->veses, mistakes));
          config->vports.push_back(VPortOf(read->uplinks.back()));
        }
        if (config->vports.empty() && mistakes->empty()) {
          mistakes->Add(
              1, absl::StrCat("there is no gateway and no uplink; the least that works is:\n",
                              kExample));
        }
        CheckThereIsNoLoop(read->gateways, mistakes);
        CheckUplinksDiffer(read->uplinks, mistakes);
      }};
}

}  // namespace

absl::StatusOr<GatewaysConfig> ParseGatewaysConfig(absl::string_view toml,
                                                   absl::string_view source) {
  return ParseGatewaysConfig(ConfigText::Of(toml, source));
}

absl::StatusOr<GatewaysConfig> ParseGatewaysConfig(const ConfigText& text) {
  GatewaysConfig config;
  absl::StatusOr<AgentConfig> agent = ParseConfigWith(text, Extension(&config));
  if (!agent.ok()) return agent.status();
  config.agent = *std::move(agent);
  return config;
}

absl::StatusOr<ConfigText> LoadGatewaysConfigText(const std::string& path) {
  return ConfigText::Load(path, kExample);
}

absl::StatusOr<GatewaysConfig> LoadGatewaysConfig(const std::string& path) {
  const absl::StatusOr<ConfigText> text = LoadGatewaysConfigText(path);
  return text.ok() ? ParseGatewaysConfig(*text) : text.status();
}

}  // namespace eoib::gateway
