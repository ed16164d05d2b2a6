#include "control/operator/neighbor_commands.h"

#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "vswitch/wire/ib/sa_mad.h"

namespace eoib {
namespace {

// Gb/s of a rate code (IBA 1.4, table 224, and its supplements); 0: no rate.
double GigabitsOf(uint8_t code) {
  constexpr double kRates[] = {0,   0,   2.5, 10,  30,  5,   20, 40, 60,  80,  120, 14,  56,
                               112, 168, 25,  100, 200, 300, 28, 50, 400, 600, 800, 1200};
  return code < std::size(kRates) ? kRates[code] : 0;
}

Json RowJson(const Ves& ves, const PathResolver::Row& row) {
  Json json = {{"gid", row.gid.ToString()}, {"state", row.state}};
  if (row.lid.IsValid()) json["lid"] = row.lid.ToString();
  json["sl"] = row.sl.value();
  if (const double rate = GigabitsOf(row.rate); rate != 0) json["rate_gbps"] = rate;
  if (row.mtu != 0) json["mtu"] = MtuBytes(row.mtu);
  if (row.asked < absl::InfiniteDuration()) json["asked_ms"] = absl::ToInt64Milliseconds(row.asked);
  const RemoteAgent* const agent =
      row.vport.IsNone() ? nullptr : ves.protocol().AgentBehind(row.vport);
  if (agent != nullptr) json["host"] = VesProtocol::HostOf(*agent);
  return json;
}

std::string RowText(const Json& row) {
  std::string text = absl::StrCat("  GID ", TextOf(row, "gid"), ": ", TextOf(row, "state"));
  const auto append = [&](const char* what, const char* key, const char* unit = "") {
    if (row.contains(key)) absl::StrAppend(&text, ", ", what, TextOf(row, key), unit);
  };
  append("host ", "host");
  append("LID ", "lid");
  append("SL ", "sl");
  append("rate ", "rate_gbps", " Gb/s");
  append("MTU ", "mtu");
  if (row.contains("asked_ms")) {
    absl::StrAppend(&text, ", asked ",
                    absl::FormatDuration(absl::Milliseconds(row["asked_ms"].get<int64_t>())),
                    " ago");
  }
  return text + "\n";
}

Json NeighborsJson(const Ves& ves) {
  Json rows = Json::array();
  for (const PathResolver::Row& row : ves.resolver().Dump()) rows.push_back(RowJson(ves, row));
  return {{"name", ves.config().name}, {"neighbors", std::move(rows)}};
}

std::string NeighborsText(const Json& ves) {
  std::string text = absl::StrCat("VES ", TextOf(ves, "name"), "\n");
  for (const Json& row : ves["neighbors"]) text += RowText(row);
  return text;
}

}  // namespace

void RegisterNeighborCommands(const VesFinder& finder, CommandRegistry* registry) {
  registry->Register(
      {"neigh", "[VES]",
       "the paths to the ports of other hosts, with their address handles' attributes", 0, 1,
       ForVeses(finder, NeighborsJson, NeighborsText)});
  registry->MarkReadOnly({"neigh"});
}

}  // namespace eoib
