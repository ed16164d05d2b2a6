#include "gateway/gateways_config.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/config/config_keys.h"

// After everything else.
#include "control/config/config_reader.h"
#include "gateway/uplink/uplink_reader.h"

namespace eoib::gateway {
namespace {

constexpr char kExample[] =
    "[[ves]]\n"
    "name = \"blue\"\n"
    "pkey = 0x8001\n"
    "\n"
    "[[gateway]]\n"
    "name = \"gw0\"\n"
    "ves = \"blue\"\n";

// Checks the keys of a gateway against each other and against its VES, and fills in what follows
// from them.
void CompleteGateway(const RowReader& reader, const std::vector<VesConfig>& veses,
                     GatewayConfig* config) {
  const auto ves = std::find_if(veses.begin(), veses.end(),
                                [config](const VesConfig& one) { return one.name == config->ves; });
  if (ves != veses.end()) {
    config->ves_pkey = ves->pkey;
    if (!ves->vlans.Contains(config->vlan)) {
      reader.Mistake(
          "vlan", absl::StrCat("VES ", ves->name, " does not carry VLAN ", config->vlan.ToString(),
                               "; its vlans are ", ves->vlans.ToString()));
    }
  } else if (!config->ves.empty()) {
    reader.Wrong("ves", "there is no [[ves]] of that name");
  }
  if (reader.IsRead("pkey")) {
    reader.CheckPKeyPrefix("pkey", config->pkey.value());
    if (!config->pkey.IsValid())
      reader.Wrong("pkey", "0x8000 names no partition; its low 15 bits must not be 0");
    config->pkey = config->pkey.Full();
  } else {
    config->pkey = config->ves_pkey;
  }
  translation::Options& options = config->translation;
  if (reader.IsRead("stations")) {
    options.max_station_ips = options.max_stations * (translation::Options::kMostStationIps /
                                                      translation::Options::kMostStations);
  }
  if (reader.IsRead("asks_per_second")) {
    options.ask_burst = options.asks_per_second;
    // The ratio of the defaults in options.h.
    options.asks_per_second_each = options.asks_per_second * 0.4;
    options.ask_burst_each = std::max(1.0, options.asks_per_second_each);
  }
}

GatewayConfig ReadGateway(const toml::table& table, const std::vector<VesConfig>& veses,
                          Mistakes* mistakes) {
  CheckKeys(table, " in [[gateway]]", ToKeys(kGatewayKeys), mistakes);
  RowReader reader(table, "gateway", mistakes);
  reader.Require("name", "\"gw0\"");
  reader.Require("ves", "\"blue\"");
  GatewayConfig config;
  config.line = reader.line();
  EOIB_GATEWAY_KEYS(EOIB_READ_ROW)
  CompleteGateway(reader, veses, &config);
  return config;
}

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
          read->gateways.push_back(ReadGateway(*table, config->veses, mistakes));
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

absl::StatusOr<ConfigText> LoadGatewaysConfigText(const std::string& path,
                                                  absl::string_view program) {
  return ConfigText::Load(path, kExample, program);
}

absl::StatusOr<GatewaysConfig> LoadGatewaysConfig(const std::string& path) {
  const absl::StatusOr<ConfigText> text = LoadGatewaysConfigText(path);
  return text.ok() ? ParseGatewaysConfig(*text) : text.status();
}

}  // namespace eoib::gateway
