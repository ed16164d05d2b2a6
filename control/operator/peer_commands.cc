#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "control/operator/ves_commands.h"
#include "vswitch/wire/ib/sa_mad.h"

namespace eoib {
namespace {

int64_t MillisecondsSince(absl::Time then, absl::Time now) {
  return absl::ToInt64Milliseconds(now - then);
}

// Of a number of milliseconds: "240ms ago".
std::string Ago(const Json& milliseconds) {
  return absl::StrCat(absl::FormatDuration(absl::Milliseconds(milliseconds.get<int64_t>())),
                      " ago");
}

Json AddressJson(const PeerAddress& peer, Lid lid) {
  Json json = {{"gid", peer.gid.ToString()}, {"qpn", peer.qpn.ToString()}};
  if (lid.IsValid()) json["lid"] = lid.ToString();
  return json;
}

std::string AddressText(const Json& address) {
  return absl::StrCat("GID ", TextOf(address, "gid"), " QPN ", TextOf(address, "qpn"),
                      HasValue(address, "lid") ? " LID " : "", TextOf(address, "lid"));
}

// ---- Agents -------------------------------------------------------------------------------------

bool IsProbed(const RemoteAgent::Address& address) {
  return address.confirmed && !address.lost && address.probes != 0;
}

const char* StateOf(const RemoteAgent::Address& address) {
  if (!address.confirmed) return "not heard yet";
  if (address.lost) return "lost";
  return IsProbed(address) ? "probing" : "up";
}

const char* StateOf(const RemoteAgent& agent) {
  if (agent.challenge) return "challenged";
  if (agent.view().version == 0) return "found";
  if (!agent.IsReachable()) return "lost";
  const auto is_quiet = [](const auto& address) {
    return IsProbed(address.second) || !address.second.confirmed || address.second.lost;
  };
  return std::all_of(agent.addresses().begin(), agent.addresses().end(), is_quiet) ? "probing"
                                                                                   : "up";
}

std::string RoundTripText(const Json& agent) {
  if (!agent.contains("round_trip_us")) return "not measured";
  return absl::FormatDuration(absl::Microseconds(agent["round_trip_us"].get<int64_t>()));
}

Json CapabilitiesJson(const AgentCapabilities& capabilities) {
  Json headers = Json::array();
  if (capabilities.eoib_header) headers.push_back("eoib");
  if (capabilities.alternative_header) headers.push_back("xve");
  return {{"headers", std::move(headers)},
          {"unfinished_checksums", capabilities.checksums},
          {"segments", capabilities.segments},
          {"mtu", capabilities.mtu}};
}

std::string CapabilitiesText(const Json& accepts) {
  const std::string headers =
      absl::StrJoin(accepts["headers"], " or ", [](std::string* out, const Json& header) {
        absl::StrAppend(out, header.get<std::string>());
      });
  return absl::StrCat(
      "header ", headers, ", ", accepts["unfinished_checksums"] == true ? "" : "no ",
      "unfinished checksums, ", TextOf(accepts, "segments"),
      accepts["segments"] == 1 ? " segment" : " segments", ", MTU ", TextOf(accepts, "mtu"));
}

const char* VerdictName(GroupWatch::Verdict verdict) {
  switch (verdict) {
    case GroupWatch::Verdict::kHeard:
      return "heard";
    case GroupWatch::Verdict::kMissing:
      return "not heard";
    default:
      return "unknown";
  }
}

Json GroupMessagesJson(const GroupWatch& group, absl::Time now) {
  Json json = {{"theirs", VerdictName(group.theirs())}, {"ours", VerdictName(group.ours())}};
  if (group.heard()) json["heard_ms"] = MillisecondsSince(*group.heard(), now);
  return json;
}

std::string GroupMessagesText(const Json& messages) {
  const bool missing = TextOf(messages, "theirs") == "not heard";
  std::string text = missing ? "not heard" : "heard";
  if (messages.contains("heard_ms")) {
    absl::StrAppend(&text, " ", Ago(messages["heard_ms"]));
  } else if (!missing) {
    text = "none yet";
  }
  if (TextOf(messages, "ours") == "heard") text += "; it hears ours";
  if (TextOf(messages, "ours") == "not heard") text += "; it does not hear ours";
  if (TextOf(messages, "ours") == "unknown") text += "; not known whether it hears ours";
  return text;
}

// The LID of each address of a vPort.
std::map<PeerAddress, Lid> LidsOf(const Ves& ves, VPortId vport) {
  std::map<PeerAddress, Lid> lids;
  for (const VPortAddress& address : ves.directory().Addresses(vport))
    lids[address.peer] = address.lid;
  return lids;
}

Json AddressesJson(const Ves& ves, const RemoteAgent& agent) {
  Json addresses = Json::array();
  std::map<PeerAddress, Lid> lids = LidsOf(ves, ves.protocol().VPortOf(agent.id()));
  for (const auto& [peer, address] : agent.addresses()) {
    Json json = AddressJson(peer, lids[peer]);
    json["state"] = StateOf(address);
    if (address.confirmed) json["heard_ms"] = MillisecondsSince(address.heard, ves.clock().Now());
    addresses.push_back(std::move(json));
  }
  return addresses;
}

Json AgentJson(const Ves& ves, const RemoteAgent& agent) {
  const AgentView& view = agent.view();
  const absl::Time now = ves.clock().Now();
  Json json = {{"id", agent.id().ToString()},
               {"short_id", agent.id().ToShortString()},
               {"host", view.host},
               {"state", StateOf(agent)},
               {"incarnation", agent.incarnation()},
               {"vports", view.vports.size()},
               {"macs", view.macs.size()},
               {"heard_ms", MillisecondsSince(agent.heard(), now)}};
  if (agent.round_trip()) json["round_trip_us"] = absl::ToInt64Microseconds(*agent.round_trip());
  if (view.version != 0) json["accepts"] = CapabilitiesJson(view.capabilities);
  json["group_messages"] = GroupMessagesJson(agent.group, now);
  json["addresses"] = AddressesJson(ves, agent);
  return json;
}

std::string AgentText(const Json& agent) {
  std::string text = absl::StrFormat(
      "  %s  %-20s %-10s incarnation %s, %s vPorts, %s MACs, heard %s, round trip %s\n    id %s\n",
      TextOf(agent, "short_id"), TextOf(agent, "host"), TextOf(agent, "state"),
      TextOf(agent, "incarnation"), TextOf(agent, "vports"), TextOf(agent, "macs"),
      Ago(agent["heard_ms"]), RoundTripText(agent), TextOf(agent, "id"));
  if (agent.contains("accepts"))
    absl::StrAppend(&text, "    accepts ", CapabilitiesText(agent["accepts"]), "\n");
  absl::StrAppend(&text, "    group messages: ", GroupMessagesText(agent["group_messages"]), "\n");
  for (const Json& address : agent["addresses"]) {
    absl::StrAppend(&text, "    ", AddressText(address), ": ", TextOf(address, "state"),
                    address.contains("heard_ms") ? ", heard " + Ago(address["heard_ms"]) : "",
                    "\n");
  }
  return text;
}

// ---- Data-only peers ----------------------------------------------------------------------------

// The FDB's figures about a peer that announces nothing.
struct Learned {
  size_t macs = 0;
  absl::Duration age = absl::InfiniteDuration();  // of the MAC that was heard last
};

Json DataOnlyJson(const VPortAddress& address, const Learned& learned) {
  Json json = AddressJson(address.peer, address.lid);
  json["state"] = address.state() == VPortState::kUp ? "up" : address.lost ? "lost" : "unresolved";
  json["macs"] = learned.macs;
  if (learned.macs != 0) json["heard_ms"] = absl::ToInt64Milliseconds(learned.age);
  return json;
}

std::string DataOnlyText(const Json& peer) {
  const std::string heard =
      peer.contains("heard_ms")
          ? absl::StrCat("heard ", peer["heard_ms"].get<int64_t>() / 1000, "s ago")
          : "not heard lately";
  return absl::StrCat("  data-only ", TextOf(peer, "state"), ": ", AddressText(peer), ", ",
                      TextOf(peer, "macs"), " MACs, ", heard, "\n");
}

Json AllDataOnlyJson(const Ves& ves) {
  std::vector<VPortDirectory::Row> rows;
  absl::flat_hash_map<VPortId, Learned> learned;
  for (VPortDirectory::Row& row : ves.directory().Dump()) {
    if (row.capabilities.announced || row.addresses.empty()) continue;
    if (ves.protocol().engine().AgentAt(row.addresses[0].peer) != nullptr) continue;
    learned[row.vport];
    rows.push_back(std::move(row));
  }
  Json peers = Json::array();
  if (rows.empty()) return peers;
  ves.fdb().Visit([&learned](const Fdb::Entry& entry) {
    const auto at = learned.find(entry.vport);
    if (at == learned.end()) return;
    ++at->second.macs;
    at->second.age = std::min(at->second.age, entry.age);
  });
  for (const VPortDirectory::Row& row : rows)
    peers.push_back(DataOnlyJson(row.addresses[0], learned[row.vport]));
  return peers;
}

// ---- peers --------------------------------------------------------------------------------------

Json PeersJson(const Ves& ves) {
  const VPortProtocol& engine = ves.protocol().engine();
  Json json = {{"name", ves.config().name},
               {"id", engine.own().id().ToString()},
               {"short_id", engine.own().id().ToShortString()},
               {"incarnation", engine.own().incarnation()},
               {"announces", ves.config().announce},
               {"agents", Json::array()}};
  if (const auto copy = ves.protocol().copy()) {
    json["copy"] = AddressJson(copy->peer, Lid());
    json["copy"]["heard_ms"] = MillisecondsSince(copy->heard, ves.clock().Now());
  }
  for (const auto& [id, agent] : engine.agents()) json["agents"].push_back(AgentJson(ves, *agent));
  json["data_only"] = AllDataOnlyJson(ves);
  return json;
}

std::string PeersText(const Json& ves) {
  std::string text = absl::StrCat(
      "VES ", TextOf(ves, "name"), ": this agent is ", TextOf(ves, "short_id"), ", incarnation ",
      TextOf(ves, "incarnation"), ves["announces"] == true ? "" : "; it announces nothing", "\n");
  if (ves.contains("copy")) {
    absl::StrAppend(&text, "  warning: ", AddressText(ves["copy"]), " has this agent's id, heard ",
                    Ago(ves["copy"]["heard_ms"]), "; ", kCopyAdvice, "\n");
  }
  for (const Json& agent : ves["agents"]) text += AgentText(agent);
  for (const Json& peer : ves["data_only"]) text += DataOnlyText(peer);
  return text;
}

// ---- neigh --------------------------------------------------------------------------------------

// Gb/s of a rate code (IBA 1.4, table 224, and its supplements); 0: no rate.
double GigabitsOf(uint8_t code) {
  constexpr double kRates[] = {0,   0,   2.5, 10,  30,  5,   20, 40, 60,  80,  120, 14,  56,
                               112, 168, 25,  100, 200, 300, 28, 50, 400, 600, 800, 1200};
  return code < std::size(kRates) ? kRates[code] : 0;
}

Json PathJson(const Ves& ves, const PathResolver::Row& row) {
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

std::string PathText(const Json& row) {
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
  for (const PathResolver::Row& row : ves.resolver().Dump()) rows.push_back(PathJson(ves, row));
  return {{"name", ves.config().name}, {"neighbors", std::move(rows)}};
}

std::string NeighborsText(const Json& ves) {
  std::string text = absl::StrCat("VES ", TextOf(ves, "name"), "\n");
  for (const Json& row : ves["neighbors"]) text += PathText(row);
  return text;
}

}  // namespace

void RegisterPeerCommands(const VesFinder& finder, CommandRegistry* registry) {
  using enum CommandRegistry::Access;
  registry->Register({
      {"peers", "[VES]", "the other agents, and peers that announce nothing", kReadOnly, "peers",
       ForVeses(finder, PeersJson, PeersText)},
      {"neigh", "[VES]",
       "the paths to the ports of other hosts, with their address handles' attributes", kReadOnly,
       "neigh", ForVeses(finder, NeighborsJson, NeighborsText)},
  });
}

}  // namespace eoib
