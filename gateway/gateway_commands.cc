#include "gateway/gateway_commands.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "vswitch/base/daemon/counter_text.h"

namespace eoib::gateway {
namespace {

using Reader = std::function<absl::StatusOr<Json>(Gateway*, absl::Time deadline)>;
using Renderer = std::string (*)(const Json& gateway);

// A command blocks the control thread for at most this long. A worker answers between two batches.
constexpr absl::Duration kTracePatience = absl::Seconds(1);

// Handles "[GATEWAY]": {"gateways": [...]} with the gateway that the first argument names, or all
// of them.
CommandRegistry::Handler ForGateways(const Gateways* gateways, Reader read, Renderer text) {
  return [gateways, read = std::move(read),
          text](const CommandRegistry::Arguments& arguments) -> absl::StatusOr<Answer> {
    const absl::StatusOr<std::vector<Gateway*>> found =
        gateways->Find(arguments.empty() ? "" : arguments[0]);
    if (!found.ok()) return found.status();
    Json json = {{"gateways", Json::array()}};
    const absl::Time deadline = absl::Now() + kTracePatience;
    for (Gateway* gateway : *found) {
      absl::StatusOr<Json> one = read(gateway, deadline);
      if (!one.ok()) return one.status();
      json["gateways"].push_back(*std::move(one));
    }
    return Answer(json, [text](const Json& answer) {
      std::string all;
      for (const Json& gateway : answer["gateways"]) all += text(gateway);
      return all;
    });
  };
}

std::string PeersText(const Json& gateway) {
  if (!gateway.contains("peers")) return absl::StrCat("  warning: ", kNoPeers, "\n");
  std::string text = gateway["peers"].empty() ? "  peers none" : "  peers";
  for (const Json& gid : gateway["peers"]) absl::StrAppend(&text, " ", gid.get<std::string>());
  return absl::StrCat(text, "; ", TextOf(gateway, "unlisted_hellos"),
                      " hellos of other GIDs were ignored\n");
}

std::string ShowText(const Json& gateway) {
  std::string text =
      absl::StrCat("gateway ", TextOf(gateway, "name"), ": VES ", TextOf(gateway, "ves"), ", VLAN ",
                   TextOf(gateway, "vlan"), ", priority ", TextOf(gateway, "priority"), ", ",
                   TextOf(gateway, "state"));
  if (gateway.contains("trouble")) absl::StrAppend(&text, ": ", TextOf(gateway, "trouble"));
  if (gateway.contains("other")) absl::StrAppend(&text, ": ", TextOf(gateway, "other"), " works");
  absl::StrAppend(&text, "\n  IPoIB hosts ", TextOf(gateway, "ipoib_hosts"),
                  ", Ethernet addresses ", TextOf(gateway, "ethernet_addresses"), "\n",
                  PeersText(gateway));
  if (gateway.contains("hello_group")) {
    const bool own = TextOf(gateway, "hello_group") == "own";
    absl::StrAppend(&text, "  hellos go through ",
                    own ? "their own group\n" : "the broadcast group: their own is not joined\n");
  }
  return text + ipoib::LinkText(gateway["link"]);
}

std::string NeighborsText(const Json& gateway) {
  std::string text = absl::StrCat("gateway ", TextOf(gateway, "name"), ": ",
                                  gateway["addresses"].size(), " addresses\n");
  for (const Json& row : gateway["addresses"]) {
    absl::StrAppendFormat(&text, "  %-39s  %-8s  %s  %s  %6ss  %s\n", TextOf(row, "ip"),
                          TextOf(row, "side"), TextOf(row, "mac"), TextOf(row, "ipoib"),
                          TextOf(row, "age_s"), TextOf(row, "state"));
  }
  return text;
}

std::string RoutesText(const Json& gateway) {
  std::string text = absl::StrCat("gateway ", TextOf(gateway, "name"), ": ",
                                  gateway["routes"].size(), " routes\n");
  for (const Json& row : gateway["routes"]) {
    const std::string via =
        row.contains("via") ? absl::StrCat("default via ", TextOf(row, "via")) : TextOf(row, "to");
    absl::StrAppendFormat(&text, "  %-51s  %s", via, TextOf(row, "source"));
    if (row.contains("left_s")) absl::StrAppend(&text, ", expires in ", TextOf(row, "left_s"), "s");
    text += "\n";
  }
  return text;
}

std::string GroupsText(const Json& gateway) { return ipoib::GroupsText(gateway["groups"]); }

std::string FlushText(const Json& gateway) {
  return absl::StrCat("gateway ", TextOf(gateway, "name"), ": ", TextOf(gateway, "flushed"),
                      " routes flushed\n");
}

// Of the gateway, and of its IPoIB link.
std::string TwoParts(const Json& gateway, const std::string& own, const std::string& link) {
  const std::string name = TextOf(gateway, "name");
  return absl::StrCat("gateway ", name, "\n", own, "IPoIB link of gateway ", name, "\n", link);
}

std::string StatsText(const Json& gateway) {
  return TwoParts(gateway, CountersText(gateway["counters"]),
                  CountersText(gateway["link_counters"]));
}

std::string DropsText(const Json& gateway) {
  return TwoParts(gateway, ExplainedText(gateway["drops"]), ExplainedText(gateway["link_drops"]));
}

std::string TraceText(const Json& trace) {
  std::string text = absl::StrCat("gateway ", TextOf(trace, "name"), ": ");
  for (const Json& line : trace["trace"]) absl::StrAppend(&text, line.get<std::string>(), "\n");
  return text;
}

absl::StatusOr<Answer> Trace(const Gateways& gateways,
                             const CommandRegistry::Arguments& arguments) {
  const absl::StatusOr<std::vector<Gateway*>> found = gateways.Find(arguments[0]);
  if (!found.ok()) return found.status();
  absl::StatusOr<TracedPacket> packet =
      TracedPacket::Parse(absl::MakeConstSpan(arguments).subspan(1));
  if (!packet.ok()) return packet.status();
  const absl::StatusOr<Json> trace =
      found->front()->Trace(*std::move(packet), absl::Now() + kTracePatience);
  if (!trace.ok()) return trace.status();
  return Answer(*trace, TraceText);
}

}  // namespace

void RegisterGatewayCommands(const Gateways* gateways, CommandRegistry* registry) {
  using enum CommandRegistry::Access;
  registry->Register({
      {"gateway/show", "[GATEWAY]", "gateways and their IPoIB links", kReadOnly, "gateway_show",
       ForGateways(gateways, &Gateway::Show, ShowText)},
      {"gateway/neigh/show", "[GATEWAY]",
       "the hosts of both sides, with the addresses under which the other side knows them",
       kReadOnly, "gateway_neigh_show",
       ForGateways(gateways, &Gateway::ShowNeighbors, NeighborsText)},
      {"gateway/route/show", "[GATEWAY]",
       "the prefixes of the subnet and the routers to other networks, configured and learned",
       kReadOnly, "gateway_route_show", ForGateways(gateways, &Gateway::ShowRoutes, RoutesText)},
      {"gateway/route/flush", "GATEWAY", "forget learned prefixes and routers", kReadWrite,
       "gateway_route_flush", ForGateways(gateways, &Gateway::FlushRoutes, FlushText)},
      {"gateway/groups", "[GATEWAY]", "multicast groups of the IPoIB link that the gateway is in",
       kReadOnly, "gateway_groups",
       ForGateways(
           gateways, [](Gateway* gateway, absl::Time) { return gateway->Groups(); }, GroupsText)},
      {"gateway/stats", "[GATEWAY]", "counters of translation and IPoIB links", kReadOnly,
       "gateway_stats", ForGateways(gateways, &Gateway::Stats, StatsText)},
      {"gateway/drops", "[GATEWAY]", "what a gateway dropped and why", kReadOnly, "gateway_drops",
       ForGateways(gateways, &Gateway::Drops, DropsText)},
      // Not read-only: the worker copies all its tables for it.
      {"gateway/trace", "GATEWAY ethernet FRAME | GATEWAY ipoib DATAGRAM SOURCE|- [group]",
       "what the gateway would do with a packet, which is given in hexadecimal, without doing it",
       kReadWrite, "gateway_trace",
       [gateways](const CommandRegistry::Arguments& arguments) {
         return Trace(*gateways, arguments);
       }},
  });
}

}  // namespace eoib::gateway
