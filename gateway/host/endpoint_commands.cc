#include "gateway/host/endpoint_commands.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "vswitch/base/daemon/counter_text.h"

namespace eoib::endpoint {
namespace {

// ---- show ---------------------------------------------------------------------------------------

Json AddressJson(const Addresses::Item& item) {
  Json json = {{"address", item.address.ToString()},
               {"state", ToString(item.state)},
               {"origin", ToString(item.origin)}};
  if (item.rival.has_value()) {
    json[item.state == AddressState::kDuplicate ? "used_by" : "contested_by"] =
        item.rival->ToString();
  }
  if (!item.refusal.empty()) json["refusal"] = item.refusal;
  return json;
}

std::string AddressText(const Json& address) {
  std::string text = absl::StrCat("  address ", TextOf(address, "address"), ": ",
                                  TextOf(address, "state"), ", ", TextOf(address, "origin"));
  if (address.contains("used_by")) absl::StrAppend(&text, ", used by ", TextOf(address, "used_by"));
  if (address.contains("contested_by"))
    absl::StrAppend(&text, ", contested by ", TextOf(address, "contested_by"));
  if (address.contains("refusal")) absl::StrAppend(&text, ", ", TextOf(address, "refusal"));
  return text + "\n";
}

Json LinkJson(const IpHost& host) {
  const auto& state = host.link_state();
  if (!state.has_value()) return {{"up", false}};
  return {{"up", true},
          {"pkey", state->link.pkey.ToString()},
          {"scope", state->link.scope.ToString()},
          {"mtu", state->mtu},
          {"own_address", state->own.ToString()}};
}

std::string LinkText(const Json& link) {
  if (link["up"] == false) return "IPoIB link: down\n";
  return absl::StrCat("IPoIB link: up, P_Key ", TextOf(link, "pkey"), ", scope ",
                      TextOf(link, "scope"), ", MTU ", TextOf(link, "mtu"), "\n  own address ",
                      TextOf(link, "own_address"), "\n");
}

std::string ListText(const char* name, const Json& list) {
  if (list.empty()) return "";
  std::string text = absl::StrCat("  ", name);
  for (const Json& item : list) absl::StrAppend(&text, " ", item.get<std::string>());
  return text + "\n";
}

std::string Left(const Json& dhcp, const char* key) {
  return dhcp.contains(key) ? absl::StrCat("in ", TextOf(dhcp, key), " s") : "never";
}

std::string DhcpText(const Json& dhcp) {
  std::string text = absl::StrCat("DHCP: ", TextOf(dhcp, "state"), "\n");
  if (!dhcp.contains("address")) return text;
  absl::StrAppend(&text, "  ", TextOf(dhcp, "address"), " of ", TextOf(dhcp, "server"),
                  ", renewed ", Left(dhcp, "renew_s"), ", ends ", Left(dhcp, "end_s"), "\n",
                  ListText("routers", dhcp["routers"]),
                  ListText("name servers", dhcp["name_servers"]));
  if (HasValue(dhcp, "domain")) absl::StrAppend(&text, "  domain ", TextOf(dhcp, "domain"), "\n");
  return text;
}

std::string ShowText(const Json& shown) {
  std::string text = LinkText(shown["link"]);
  for (const Json& address : shown["addresses"]) text += AddressText(address);
  if (shown.contains("netdev")) absl::StrAppend(&text, "  netdev ", TextOf(shown, "netdev"), "\n");
  return text + (shown.contains("dhcp") ? DhcpText(shown["dhcp"]) : "");
}

Answer Show(const IpHost& host, const Json& more) {
  Json json = {{"link", LinkJson(host)}, {"addresses", Json::array()}};
  for (const auto& [address, item] : host.addresses().items())
    json["addresses"].push_back(AddressJson(item));
  json.update(more);
  return Answer(json, ShowText);
}

// ---- neigh, groups ------------------------------------------------------------------------------

Json NeighborJson(const NeighborCache::Neighbor& neighbor) {
  Json json = {{"ip", neighbor.ip.ToString()},
               {"state", ToString(neighbor.state)},
               {"waiting_packets", neighbor.waiting}};
  if (neighbor.address.has_value()) json["address"] = neighbor.address->ToString();
  if (neighbor.heard != absl::InfiniteDuration())
    json["heard_ms"] = absl::ToInt64Milliseconds(neighbor.heard);
  return json;
}

std::string NeighborText(const Json& neighbor) {
  const std::string heard =
      neighbor.contains("heard_ms")
          ? absl::StrFormat("heard %.1f s ago", neighbor["heard_ms"].get<double>() / 1000)
          : "never heard";
  const bool waits = neighbor["waiting_packets"] != 0;
  return absl::StrCat(
      TextOf(neighbor, "ip"), " ", neighbor.contains("address") ? TextOf(neighbor, "address") : "-",
      " ", TextOf(neighbor, "state"), ", ", heard, waits ? ", " : "",
      waits ? TextOf(neighbor, "waiting_packets") : "", waits ? " packets wait" : "", "\n");
}

Answer ShowNeighbors(const IpHost& host) {
  Json rows = Json::array();
  for (const NeighborCache::Neighbor& neighbor : host.neighbors().All())
    rows.push_back(NeighborJson(neighbor));
  return Answer({{"neighbors", std::move(rows)}}, [](const Json& answer) {
    std::string text;
    for (const Json& row : answer["neighbors"]) text += NeighborText(row);
    return text;
  });
}

Json GroupJson(const IpHost& host, const IpAddr& group) {
  Json json = {{"ip", group.ToString()}};
  if (!host.link_state().has_value()) return json;
  if (const auto at = GroupOf(host.link_state()->link, group))
    json["mgid"] = ToMgid(*at).ToString();
  return json;
}

Answer ShowGroups(const IpHost& host) {
  Json rows = Json::array();
  for (const IpAddr& group : host.memberships().Groups()) rows.push_back(GroupJson(host, group));
  return Answer({{"groups", std::move(rows)}}, [](const Json& answer) {
    std::string text;
    for (const Json& row : answer["groups"]) {
      absl::StrAppend(&text, TextOf(row, "ip"), row.contains("mgid") ? " " : "",
                      TextOf(row, "mgid"), "\n");
    }
    return text;
  });
}

}  // namespace

Json StatsJson(const IpHost& host) {
  const HostCounters& c = host.counters();
  return {{"from_tun", c.from_tun},
          {"to_tun", c.to_tun},
          {"from_link", c.from_link},
          {"to_link", c.to_link},
          {"said", host.said()},
          {"answers", host.answers()},
          {"waiting", host.neighbors().waiting()},
          {"consumed", c.consumed},
          {"errors", c.errors},
          {"arp_received", c.arp_received},
          {"nd_received", c.nd_received},
          {"questions", c.questions},
          {"neighbors", host.neighbors().size()},
          {"groups", host.memberships().Groups().size()},
          {"groups_refused", host.memberships().refused()},
          {"to_link_drops", c.to_link_drops()},
          {"to_tun_drops", c.to_tun_drops()},
          {"drops", c.drops.Sum()}};
}

void RegisterHostCommands(const IpHost* host, std::function<Json()> more,
                          CommandRegistry* registry) {
  using Arguments = CommandRegistry::Arguments;
  using enum CommandRegistry::Access;
  registry->Register({
      {"show", "", "the IPoIB link, and the addresses of this host on it", kReadOnly, "ipoib_show",
       [host, more = std::move(more)](const Arguments&) { return Show(*host, more()); }},
      {"neigh", "", "the neighbours on the link, each with its IPoIB address", kReadOnly,
       "ipoib_neigh", [host](const Arguments&) { return ShowNeighbors(*host); }},
      {"groups", "", "the multicast groups that are listened to", kReadOnly, "ipoib_groups",
       [host](const Arguments&) { return ShowGroups(*host); }},
      {"stats", "", "counters", kReadOnly, "ipoib_stats",
       [host](const Arguments&) {
         return Answer({{"counters", StatsJson(*host)}}, CountersAnswerText);
       }},
      {"drops", "", "what was dropped and why", kReadOnly, "ipoib_drops",
       [host](const Arguments&) {
         return Answer({{"drops", ExplainedDrops(host->counters().drops)}}, DropsAnswerText);
       }},
  });
}

}  // namespace eoib::endpoint
