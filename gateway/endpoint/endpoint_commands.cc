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

absl::optional<IpoibGroup> GroupOn(const IpoibLink& link, const IpAddr& group) {
  return group.is_ipv4() ? GroupOf(link, group.ipv4()) : GroupOf(link, group.ipv6());
}

using Show = std::string (*)(const IpHost&);

void Register(const char* name, const char* help, const IpHost* host, Show show, CommandRegistry* registry) {
  registry->Register({name, "", help, 0, 0,
                      [host, show](const CommandRegistry::Arguments&) -> absl::StatusOr<std::string> { return show(*host); }});
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
      if (const auto at = GroupOn(host.link_state()->link, group)) absl::StrAppend(&text, " ", ToMgid(*at).ToString());
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

std::string ShowStats(const IpHost& host) {
  const HostCounters& counters = host.counters();
  std::string text;
  const auto line = [&text](const char* name, uint64_t value) { absl::StrAppend(&text, name, " ", value, "\n"); };
  line("from_tun", counters.from_tun);
  line("to_tun", counters.to_tun);
  line("from_link", counters.from_link);
  line("to_link", counters.to_link);
  line("said", host.said());
  line("answers", host.answers());
  line("waiting", host.neighbors().waiting());
  line("consumed", counters.consumed);
  line("errors", counters.errors);
  line("arp_received", counters.arp_received);
  line("nd_received", counters.nd_received);
  line("questions", counters.questions);
  line("neighbors", host.neighbors().size());
  line("groups", host.memberships().Groups().size());
  line("groups_refused", host.memberships().refused());
  const uint64_t to_link = counters.DropSum(EndpointSide::kToLink), to_tun = counters.DropSum(EndpointSide::kToTun);
  line("to_link_drops", to_link);
  line("to_tun_drops", to_tun);
  line("drops", to_link + to_tun);
  return text;
}

std::string ShowDrops(const IpHost& host) {
  std::string text;
  for (size_t i = 0; i < kEndpointDrops; ++i) {
    const uint64_t count = host.counters().drops[i];
    if (count != 0) {
      absl::StrAppendFormat(&text, "  %-20s %10d  %s\n", kEndpointDropInfo[i].label, count, kEndpointDropInfo[i].help);
    }
  }
  return text;
}

void RegisterHostCommands(const IpHost* host, std::function<std::string()> more, CommandRegistry* registry) {
  registry->Register({"show", "", "the IPoIB link, and the addresses of this host on it", 0, 0,
                      [host, more = std::move(more)](const CommandRegistry::Arguments&) -> absl::StatusOr<std::string> {
                        return absl::StrCat(ShowHost(*host), more());
                      }});
  Register("neigh", "the neighbours on the link, each with its IPoIB address", host, ShowNeighbors, registry);
  Register("groups", "the multicast groups that are listened to", host, ShowGroups, registry);
  Register("stats", "counters", host, ShowStats, registry);
  Register("drops", "what was dropped and why", host, ShowDrops, registry);
}

}  // namespace eoib::endpoint
