#include "gateway/endpoint/endpoint_commands.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace eoib::endpoint {
namespace {

std::string ShowAddress(const Addresses::Item& item) {
  std::string text =
      absl::StrCat("  address ", item.address.ToString(), ": ", ToString(item.state), ", ", ToString(item.origin));
  const char* const whose = item.state == AddressState::kDuplicate ? ", used by " : ", contested by ";
  if (item.rival.has_value()) absl::StrAppend(&text, whose, item.rival->ToString());
  if (!item.refusal.empty()) absl::StrAppend(&text, ", ", item.refusal);
  return text + "\n";
}

std::string ShowNeighbor(const NeighborCache::Neighbor& neighbor) {
  const std::string heard = neighbor.heard == absl::InfiniteDuration()
                                ? "never heard"
                                : absl::StrFormat("heard %.1f s ago", absl::ToDoubleSeconds(neighbor.heard));
  const std::string waiting = neighbor.waiting == 0 ? "" : absl::StrCat(", ", neighbor.waiting, " packets wait");
  return absl::StrCat(neighbor.ip.ToString(), " ", neighbor.address.has_value() ? neighbor.address->ToString() : "-", " ",
                      ToString(neighbor.state), ", ", heard, waiting, "\n");
}

}  // namespace

std::string ShowHost(const IpHost& host) {
  std::string text = "IPoIB link: down\n";
  if (const auto& state = host.link_state(); state.has_value()) {
    text = absl::StrCat("IPoIB link: up, P_Key ", state->link.pkey.ToString(), ", scope ", state->link.scope.ToString(),
                        ", MTU ", state->mtu, "\n  own address ", state->own.ToString(), "\n");
  }
  for (const auto& [address, item] : host.addresses().items()) absl::StrAppend(&text, ShowAddress(item));
  return text;
}

std::string ShowNeighbors(const IpHost& host) {
  std::string text;
  for (const NeighborCache::Neighbor& neighbor : host.neighbors().All()) absl::StrAppend(&text, ShowNeighbor(neighbor));
  return text;
}

std::string ShowGroups(const IpHost& host) {
  std::string text;
  for (const IpAddr& group : host.memberships().Groups()) {
    absl::StrAppend(&text, group.ToString());
    if (host.link_state().has_value()) {
      if (const auto at = GroupOf(host.link_state()->link, group)) absl::StrAppend(&text, " ", ToMgid(*at).ToString());
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

std::string ShowStats(const IpHost& host) {
  const HostCounters& c = host.counters();
  return absl::StrCat("from_tun ", c.from_tun, "\nto_tun ", c.to_tun, "\nfrom_link ", c.from_link, "\nto_link ", c.to_link,
                      "\nsaid ", host.said(), "\nanswers ", host.answers(), "\nwaiting ", host.neighbors().waiting(),
                      "\nconsumed ", c.consumed, "\nerrors ", c.errors, "\narp_received ", c.arp_received, "\nnd_received ",
                      c.nd_received, "\nquestions ", c.questions, "\nneighbors ", host.neighbors().size(), "\ngroups ",
                      host.memberships().Groups().size(), "\ngroups_refused ", host.memberships().refused(), "\nto_link_drops ",
                      c.to_link_drops(), "\nto_tun_drops ", c.to_tun_drops(), "\ndrops ", c.drops.Sum(), "\n");
}

void RegisterHostCommands(const IpHost* host, std::function<std::string()> more, CommandRegistry* registry) {
  registry->RegisterText("show", "the IPoIB link, and the addresses of this host on it",
                         [host, more = std::move(more)] { return ShowHost(*host) + more(); });
  registry->RegisterText("neigh", "the neighbours on the link, each with its IPoIB address",
                         [host] { return ShowNeighbors(*host); });
  registry->RegisterText("groups", "the multicast groups that are listened to", [host] { return ShowGroups(*host); });
  registry->RegisterText("stats", "counters", [host] { return ShowStats(*host); });
  registry->RegisterText("drops", "what was dropped and why", [host] { return host->counters().drops.DropsText(); });
}

}  // namespace eoib::endpoint
