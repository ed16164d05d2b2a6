#include "control/operator/vport_commands.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "control/ves/vport_announcement.h"
#include "vswitch/base/daemon/counter_text.h"

namespace eoib {
namespace {

const char* UpOrDown(bool up) { return up ? "up" : "down"; }

// ---- The interface ------------------------------------------------------------------------------

// `mtu` is what the agent sets.
Json InterfaceJson(const absl::StatusOr<InterfaceState>& state, int mtu) {
  if (!state.ok()) return {{"error", std::string(state.status().message())}};
  Json json = {{"name", state->name},
               {"namespace", state->network_namespace},
               {"admin", UpOrDown(state->up)},
               {"link", UpOrDown(state->up && state->carrier)},
               {"mtu", state->mtu}};
  if (static_cast<int>(state->mtu) > mtu) json["largest_mtu"] = mtu;
  return json;
}

// Its name and namespace only if they are not what the reader expects.
std::string InterfaceText(const Json& interface, const std::string& vport) {
  if (HasValue(interface, "error"))
    return absl::StrCat(", interface: ", TextOf(interface, "error"));
  std::string text;
  if (const std::string name = TextOf(interface, "name"); name != vport)
    absl::StrAppend(&text, ", interface ", name);
  if (HasValue(interface, "namespace"))
    absl::StrAppend(&text, ", in network namespace ", TextOf(interface, "namespace"));
  absl::StrAppend(&text, ", ", TextOf(interface, "admin"), ", link ", TextOf(interface, "link"),
                  ", MTU ", TextOf(interface, "mtu"));
  if (HasValue(interface, "largest_mtu")) {
    absl::StrAppend(&text, " (set by another program; packets above ",
                    TextOf(interface, "largest_mtu"), " are dropped)");
  }
  return text;
}

std::string VlansText(const Json& vport) {
  if (TextOf(vport, "mode") == "access")
    return absl::StrCat(", access VLAN ", TextOf(vport, "access_vlan"));
  return absl::StrCat(", trunk VLANs ", TextOf(vport, "trunk_vlans"),
                      HasValue(vport, "native_vlan")
                          ? absl::StrCat(", native VLAN ", TextOf(vport, "native_vlan"))
                          : ", no untagged frames");
}

// ---- vport/show ---------------------------------------------------------------------------------

// Those of that name, or all. Each has its counters, which the text shows on request.
Json VPortsNamed(const VesFinder& finder, const std::string& name) {
  Json vports = Json::array();
  const absl::StatusOr<std::vector<Ves*>> veses = finder("");
  if (!veses.ok()) return vports;
  for (const Ves* ves : *veses) {
    const VPortPeers peers(*ves);
    for (const VPort& vport : ves->vports()) {
      if (!name.empty() && vport.config.name != name) continue;
      vports.push_back(VPortJson(*ves, vport, peers));
      vports.back()["counters"] = VPortCounters(*ves, vport);
    }
  }
  return vports;
}

std::string ShowText(const Json& answer, bool with_counters) {
  std::string text;
  for (const Json& vport : answer["vports"]) {
    absl::StrAppend(&text, "VES ", TextOf(vport, "ves"), ", ", VPortText(vport),
                    with_counters ? CountersText(vport["counters"]) : "");
  }
  return text;
}

absl::StatusOr<Answer> ShowVPorts(const VesFinder& finder, CommandRegistry::Arguments arguments) {
  const bool with_counters = std::erase(arguments, "-s") != 0;
  if (arguments.size() > 1)
    return absl::InvalidArgumentError("show all vPorts or one: [NAME] [-s]");
  Json vports = VPortsNamed(finder, arguments.empty() ? "" : arguments[0]);
  if (vports.empty() && !arguments.empty()) {
    return absl::NotFoundError(
        absl::StrCat("this host has no vPort \"", arguments[0],
                     "\"; `vport show` has all, `vport list` those of other hosts, too"));
  }
  return Answer({{"vports", std::move(vports)}},
                [with_counters](const Json& answer) { return ShowText(answer, with_counters); });
}

// ---- vport/list ---------------------------------------------------------------------------------

std::string RangesText(const std::vector<VlanRange>& ranges) {
  if (ranges.empty()) return "none";
  return absl::StrJoin(ranges, ",", [](std::string* out, const VlanRange& range) {
    absl::StrAppend(out, range.first.ToString());
    if (range.last != range.first) absl::StrAppend(out, "-", range.last.ToString());
  });
}

Json RowJson(const AnnouncedVPort& vport, size_t macs, const std::string& host, const char* state) {
  return {{"id", vport.id}, {"name", vport.name}, {"macs", macs},
          {"host", host},   {"state", state},     {"vlans", RangesText(vport.vlans)}};
}

void AppendVPortsOf(const RemoteAgent& agent, Json* rows) {
  std::map<uint16_t, size_t> macs;
  for (const auto& [key, mac] : agent.view().macs) ++macs[mac.vport];
  for (const auto& [id, vport] : agent.view().vports) {
    rows->push_back(
        RowJson(vport, macs[id], VesProtocol::NameOf(agent), agent.IsReachable() ? "up" : "lost"));
  }
}

Json ListJson(const Ves& ves) {
  Json rows = Json::array();
  for (const VPort& vport : ves.vports()) {
    const size_t macs = ves.fdb().Held(ves.forwarder().ports()[vport.index].vport);
    rows.push_back(RowJson(ToAnnounced(vport), macs, ves.host(), "here"));
  }
  for (const auto& [id, agent] : ves.protocol().engine().agents()) AppendVPortsOf(*agent, &rows);
  return {{"name", ves.config().name}, {"vports", std::move(rows)}};
}

std::string HostText(const Json& row) {
  const std::string state = TextOf(row, "state");
  if (state == "here") return "this host";
  return absl::StrCat(TextOf(row, "host"), state == "lost" ? ", lost" : "");
}

std::string VPortListText(const Json& ves) {
  std::string text = absl::StrFormat("VES %s\n%5s  %-16s  %6s  %-24s  %s\n", TextOf(ves, "name"),
                                     "id", "name", "MACs", "host", "VLANs");
  for (const Json& row : ves["vports"]) {
    absl::StrAppendFormat(&text, "%5s  %-16s  %6s  %-24s  %s\n", TextOf(row, "id"),
                          TextOf(row, "name"), TextOf(row, "macs"), HostText(row),
                          TextOf(row, "vlans"));
  }
  return text;
}

}  // namespace

VPortPeers::VPortPeers(const Ves& ves) {
  for (const auto& [id, agent] : ves.protocol().engine().agents()) {
    VlanSet vlans;
    for (const auto& [vport_id, vport] : agent->view().vports) {
      for (const VlanRange& range : vport.vlans) vlans.AddRange(range.first, range.last);
    }
    peers_.push_back({vlans, agent->IsReachable()});
  }
}

VPortPeers::Count VPortPeers::CountOf(const VPort& vport) const {
  const std::vector<VlanRange> ranges = ToAnnounced(vport).vlans;
  const auto is_in = [&ranges](const VlanSet& vlans) {
    return std::any_of(ranges.begin(), ranges.end(), [&vlans](const VlanRange& range) {
      for (uint16_t vid = range.first.value(); vid <= range.last.value(); ++vid) {
        if (vlans.Contains(Vid(vid))) return true;
      }
      return false;
    });
  };
  Count count;
  for (const Peer& peer : peers_) {
    if (is_in(peer.vlans)) ++(peer.reachable ? count.reachable : count.lost);
  }
  return count;
}

Json VPortJson(const Ves& ves, const VPort& vport, const VPortPeers& peers) {
  const VlanPolicy& vlan = vport.config.vlan;
  Json json = {
      {"name", vport.config.name}, {"ves", ves.config().name}, {"type", vport.config.kind->name}};
  if (!vport.port->mac().IsZero()) json["mac"] = vport.port->mac().ToString();
  json["mode"] = vlan.mode == PortMode::kAccess ? "access" : "trunk";
  if (vlan.mode == PortMode::kAccess) {
    json["access_vlan"] = vlan.access_vlan.value();
  } else {
    const VlanSet carried = vlan.trunk_vlans.CommonWith(ves.config().vlans);
    json["trunk_vlans"] = carried.ToString();
    if (carried.Contains(vlan.native_vlan)) json["native_vlan"] = vlan.native_vlan.value();
  }
  if (const std::string netdev = vport.interface->Describe(ves.forwarder().mtu()); !netdev.empty())
    json["netdev"] = netdev;
  if (const auto state = vport.interface->Query())
    json["interface"] = InterfaceJson(*state, ves.vports().InterfaceMtu(vport.config));
  if (const std::string worker = ves.ReaderOf(vport); !worker.empty()) json["worker"] = worker;
  const VPortPeers::Count count = peers.CountOf(vport);
  json["peers"] = count.reachable;
  if (count.lost != 0) json["lost_peers"] = count.lost;
  json["macs"] = ves.fdb().Held(ves.forwarder().ports()[vport.index].vport);
  if (!vport.trouble.empty()) json["trouble"] = vport.trouble;
  return json;
}

std::string VPortText(const Json& vport) {
  const std::string name = TextOf(vport, "name");
  std::string type = TextOf(vport, HasValue(vport, "netdev") ? "netdev" : "type");
  if (!HasValue(vport, "netdev") && HasValue(vport, "mac"))
    absl::StrAppend(&type, ", MAC ", TextOf(vport, "mac"));
  return absl::StrCat("vPort ", name, ": ", type, VlansText(vport),
                      HasValue(vport, "interface") && !HasValue(vport, "trouble")
                          ? InterfaceText(vport["interface"], name)
                          : "",
                      ", ", TextOf(vport, "peers"), " peers",
                      HasValue(vport, "lost_peers")
                          ? absl::StrCat(" (", TextOf(vport, "lost_peers"), " lost)")
                          : "",
                      HasValue(vport, "worker") ? ", " : "", TextOf(vport, "worker"),
                      HasValue(vport, "trouble") ? ": " : "", TextOf(vport, "trouble"), "\n");
}

Json VPortCounters(const Ves& ves, const VPort& vport) {
  Json json;
  AddCounters(ves.queues().CountersOf(vport), &json);
  return json;
}

void RegisterVPortCommands(const VesFinder& finder, CommandRegistry* registry) {
  using enum CommandRegistry::Access;
  registry->Register({
      {"vport/list", "[VES]", "the vPorts of all agents", kReadOnly, "vport_list",
       ForVeses(finder, ListJson, VPortListText)},
      {"vport/show", "[NAME] [-s]", "vPorts of this host and their interfaces; -s: with counters",
       kReadOnly, "vport_show",
       [finder](const CommandRegistry::Arguments& arguments) {
         return ShowVPorts(finder, arguments);
       }},
  });
}

}  // namespace eoib
