#include "gateway/gateway_commands.h"

#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace eoib::gateway {
namespace {

using Text = std::function<absl::StatusOr<std::string>(Gateway*, absl::Time deadline)>;

// A command blocks the control thread for at most this long. A worker answers between two batches.
constexpr absl::Duration kPatience = absl::Seconds(1);

// Handles "[GATEWAY]": the text of the gateway that the first argument names, or of all of them.
CommandRegistry::Handler ForGateways(const Gateways* gateways, Text text) {
  return [gateways, text = std::move(text)](const CommandRegistry::Arguments& arguments) -> absl::StatusOr<std::string> {
    const absl::StatusOr<std::vector<Gateway*>> found = gateways->Find(arguments.empty() ? "" : arguments[0]);
    if (!found.ok()) return found.status();
    std::string all;
    const absl::Time deadline = absl::Now() + kPatience;
    for (Gateway* gateway : *found) {
      const absl::StatusOr<std::string> one = text(gateway, deadline);
      if (!one.ok()) return one.status();
      all += *one;
    }
    return all;
  };
}

absl::StatusOr<std::string> Trace(const Gateways& gateways, const CommandRegistry::Arguments& arguments) {
  const absl::StatusOr<std::vector<Gateway*>> found = gateways.Find(arguments[0]);
  if (!found.ok()) return found.status();
  absl::StatusOr<TracedPacket> packet = TracedPacket::Parse(absl::MakeConstSpan(arguments).subspan(1));
  if (!packet.ok()) return packet.status();
  return found->front()->Trace(*std::move(packet), absl::Now() + kPatience);
}

}  // namespace

void RegisterGatewayCommands(const Gateways* gateways, CommandRegistry* registry) {
  const auto add = [&](const char* name, const char* help, Text text) {
    registry->Register({absl::StrCat("gateway/", name), "[GATEWAY]", help, 0, 1, ForGateways(gateways, std::move(text))});
  };
  add("show", "gateways and their IPoIB links", [](Gateway* gateway, absl::Time deadline) { return gateway->Show(deadline); });
  add("neigh/show", "the hosts of both sides, with the addresses under which the other side knows them",
      [](Gateway* gateway, absl::Time deadline) { return gateway->ShowNeighbors(deadline); });
  add("groups", "multicast groups of the IPoIB link that the gateway is in",
      [](Gateway* gateway, absl::Time) { return gateway->Groups(); });
  add("stats", "counters of translation and IPoIB links",
      [](Gateway* gateway, absl::Time deadline) { return gateway->Stats(deadline); });
  add("drops", "what a gateway dropped and why",
      [](Gateway* gateway, absl::Time deadline) { return gateway->Drops(deadline); });
  registry->Register({"gateway/trace", "GATEWAY ethernet FRAME | ipoib DATAGRAM SOURCE|- [group]",
                      "what the gateway would do with a packet, which is given in hexadecimal, without doing it", 3, 5,
                      [gateways](const CommandRegistry::Arguments& arguments) { return Trace(*gateways, arguments); }});
}

}  // namespace eoib::gateway
