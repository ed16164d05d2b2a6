#include "gateway/uplink/uplink_commands.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/base/daemon/counter_text.h"

namespace eoib::gateway {
namespace {

std::string PeerText(const Json& peer) {
  std::string text = absl::StrCat("  peer ", TextOf(peer, "gid"), ": ");
  const bool heard = peer.contains("heard_ms");
  absl::StrAppend(
      &text, heard ? absl::StrCat("heard ", TextOf(peer, "heard_ms"), " ms ago") : "not heard");
  if (peer.contains("heard_on_wire_ms"))
    absl::StrAppend(&text, ", on the wire ", TextOf(peer, "heard_on_wire_ms"), " ms ago");
  if (heard) {
    absl::StrAppend(&text, ", active in VLANs ", TextOf(peer, "active_vlans"), ", standing by in ",
                    TextOf(peer, "standby_vlans"));
  }
  return text + "\n";
}

std::string ShowText(const Json& answer) {
  std::string text;
  for (const Json& uplink : answer["uplinks"]) {
    absl::StrAppend(&text, "uplink ", TextOf(uplink, "name"), ": VES ", TextOf(uplink, "ves"),
                    ", netdev ", TextOf(uplink, "netdev"));
    if (uplink.contains("mtu")) absl::StrAppend(&text, ", MTU ", TextOf(uplink, "mtu"));
    absl::StrAppend(&text, ", VLANs ", TextOf(uplink, "vlans"), ", priority ",
                    TextOf(uplink, "priority"));
    if (uplink.contains("trouble")) absl::StrAppend(&text, ", down: ", TextOf(uplink, "trouble"));
    absl::StrAppend(&text, "\n  active in VLANs ", TextOf(uplink, "active_vlans"));
    if (uplink.contains("standby_vlans"))
      absl::StrAppend(&text, ", stands by in ", TextOf(uplink, "standby_vlans"));
    if (uplink.contains("last_failover_ms")) {
      absl::StrAppend(&text, ", the last failover to it took ", TextOf(uplink, "last_failover_ms"),
                      " ms");
    }
    text += uplink["peers"].empty() ? "; no other gateways are configured (peers)\n" : "\n";
    for (const Json& peer : uplink["peers"]) text += PeerText(peer);
  }
  return text;
}

std::string StatsText(const Json& answer) {
  std::string text;
  for (const Json& uplink : answer["uplinks"]) {
    absl::StrAppend(&text, "uplink ", TextOf(uplink, "name"), "\n",
                    CountersText(uplink["counters"]));
  }
  return text;
}

}  // namespace

void RegisterUplinkCommands(const Uplinks* uplinks, CommandRegistry* registry) {
  using enum CommandRegistry::Access;
  const auto of = [uplinks](Json (Uplink::*read)() const, std::string (*text)(const Json&)) {
    return [=](const CommandRegistry::Arguments& arguments) -> absl::StatusOr<Answer> {
      const auto found = uplinks->Find(arguments.empty() ? "" : arguments[0]);
      if (!found.ok()) return found.status();
      Json json = {{"uplinks", Json::array()}};
      for (const Uplink* uplink : *found) json["uplinks"].push_back((uplink->*read)());
      return Answer(json, text);
    };
  };
  registry->Register({
      {"uplink/show", "[UPLINK]", "uplinks to physical networks, and the other gateways there",
       kReadOnly, "uplink_show", of(&Uplink::Show, ShowText)},
      {"uplink/stats", "[UPLINK]", "counters of uplinks", kReadOnly, "uplink_stats",
       of(&Uplink::Counters, StatsText)},
  });
}

void CollectUplinks(const Uplinks& uplinks, MetricSet* metrics) {
  for (const Uplink* uplink : uplinks.all()) uplink->Collect({{"uplink", uplink->name()}}, metrics);
}

}  // namespace eoib::gateway
