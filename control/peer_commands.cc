#include "control/peer_commands.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "control/vport_announcement.h"

namespace eoib {
namespace {

std::string Ago(absl::Time then, absl::Time now) {
  return absl::StrCat(absl::FormatDuration(absl::Trunc(now - then, absl::Milliseconds(1))), " ago");
}

std::string Name(const PeerAddress& peer) { return absl::StrCat("GID ", peer.gid.ToString(), " QPN ", peer.qpn.ToString()); }

// ---- peers ------------------------------------------------------------------------------------------------------------

bool IsProbed(const RemoteAgent::Address& address) { return address.confirmed && !address.lost && address.probes != 0; }

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
  return std::all_of(agent.addresses().begin(), agent.addresses().end(), is_quiet) ? "probing" : "up";
}

std::string RoundTrip(const RemoteAgent& agent) {
  if (!agent.round_trip()) return "not measured";
  return absl::FormatDuration(absl::Trunc(*agent.round_trip(), absl::Microseconds(1)));
}

std::string Capabilities(const AgentCapabilities& capabilities) {
  return absl::StrCat("header ", capabilities.eoib_header ? "eoib" : "",
                      capabilities.eoib_header && capabilities.alternative_header ? " or " : "",
                      capabilities.alternative_header ? "xve" : "", ", ", capabilities.checksums ? "" : "no ",
                      "unfinished checksums, ", capabilities.segments, capabilities.segments == 1 ? " segment" : " segments",
                      ", MTU ", capabilities.mtu);
}

std::string GroupMessages(const GroupWatch& group, absl::Time now) {
  std::string text = group.theirs() == GroupWatch::Verdict::kMissing ? "not heard" : "heard";
  if (group.heard()) {
    absl::StrAppend(&text, " ", Ago(*group.heard(), now));
  } else if (group.theirs() != GroupWatch::Verdict::kMissing) {
    text = "none yet";
  }
  if (group.ours() == GroupWatch::Verdict::kHeard) text += "; it hears ours";
  if (group.ours() == GroupWatch::Verdict::kMissing) text += "; it does not hear ours";
  return text;
}

// The LID of each address of a vPort.
std::map<PeerAddress, Lid> LidsOf(const Ves& ves, VPortId vport) {
  std::map<PeerAddress, Lid> lids;
  for (const VPortAddress& address : ves.directory().Addresses(vport)) lids[address.peer] = address.lid;
  return lids;
}

std::string ShowAgent(const Ves& ves, const RemoteAgent& agent) {
  const AgentView& view = agent.view();
  const absl::Time now = ves.clock().Now();
  std::string text = absl::StrFormat("  %s  %-20s %-10s incarnation %d, %d vPorts, %d MACs, heard %s, round trip %s\n",
                                     agent.id().ToShortString(), view.host, StateOf(agent), agent.incarnation(),
                                     view.vports.size(), view.macs.size(), Ago(agent.heard(), now), RoundTrip(agent));
  absl::StrAppend(&text, "    id ", agent.id().ToString(), "\n");
  if (view.version != 0) absl::StrAppend(&text, "    accepts ", Capabilities(view.capabilities), "\n");
  absl::StrAppend(&text, "    group messages: ", GroupMessages(agent.group, now), "\n");
  const std::map<PeerAddress, Lid> lids = LidsOf(ves, ves.protocol().VPortOf(agent.id()));
  for (const auto& [peer, address] : agent.addresses()) {
    const auto lid = lids.find(peer);
    absl::StrAppend(&text, "    ", Name(peer));
    if (lid != lids.end() && lid->second.IsValid()) absl::StrAppend(&text, " LID ", lid->second.ToString());
    absl::StrAppend(&text, ": ", StateOf(address), address.confirmed ? ", heard " + Ago(address.heard, now) : "", "\n");
  }
  return text;
}

// The FDB's figures about a peer that announces nothing.
struct Learned {
  size_t macs = 0;
  absl::Duration age = absl::InfiniteDuration();  // of the MAC that was heard last
};

std::string ShowDataOnly(const VPortAddress& address, const Learned& learned) {
  const char* const state = address.state() == VPortState::kUp ? "up" : address.lost ? "lost" : "unresolved";
  return absl::StrCat(
      "  data-only ", state, ": ", Name(address.peer), address.lid.IsValid() ? " LID " + address.lid.ToString() : "", ", ",
      learned.macs, " MACs, ",
      learned.macs == 0 ? "not heard lately" : absl::StrCat("heard ", absl::ToInt64Seconds(learned.age), "s ago"), "\n");
}

std::string ShowAllDataOnly(const Ves& ves) {
  std::vector<VPortDirectory::Row> rows;
  absl::flat_hash_map<VPortId, Learned> learned;
  for (VPortDirectory::Row& row : ves.directory().Dump()) {
    if (row.capabilities.announced || row.addresses.empty()) continue;
    if (ves.protocol().engine().AgentAt(row.addresses[0].peer) != nullptr) continue;
    learned[row.vport];
    rows.push_back(std::move(row));
  }
  if (rows.empty()) return "";
  ves.fdb().Visit([&learned](const Fdb::Entry& entry) {
    const auto at = learned.find(entry.vport);
    if (at == learned.end()) return;
    ++at->second.macs;
    at->second.age = std::min(at->second.age, entry.age);
  });
  std::string text;
  for (const VPortDirectory::Row& row : rows) text += ShowDataOnly(row.addresses[0], learned[row.vport]);
  return text;
}

std::string Peers(const Ves& ves) {
  const VPortProtocol& engine = ves.protocol().engine();
  std::string text =
      absl::StrCat("VES ", ves.config().name, ": this agent is ", engine.own().id().ToShortString(), ", incarnation ",
                   engine.own().incarnation(), ves.config().announce ? "" : "; it announces nothing", "\n");
  if (const auto copy = ves.protocol().copy()) {
    absl::StrAppend(&text, "  warning: ", Name(copy->peer), " has this agent's id, heard ", Ago(copy->heard, ves.clock().Now()),
                    "; ", kCopyAdvice, "\n");
  }
  for (const auto& [id, agent] : engine.agents()) text += ShowAgent(ves, *agent);
  return text + ShowAllDataOnly(ves);
}

// ---- vport/show -------------------------------------------------------------------------------------------------------

std::string Vlans(const std::vector<VlanRange>& ranges) {
  if (ranges.empty()) return "none";
  return absl::StrJoin(ranges, ",", [](std::string* out, const VlanRange& range) {
    absl::StrAppend(out, range.first.ToString());
    if (range.last != range.first) absl::StrAppend(out, "-", range.last.ToString());
  });
}

std::string ShowVPort(const AnnouncedVPort& vport, absl::string_view host, size_t macs) {
  return absl::StrFormat("%5d  %-16s  %6d  %-24s  %s\n", vport.id, vport.name, macs, host, Vlans(vport.vlans));
}

std::string ShowVPortsOf(const RemoteAgent& agent) {
  std::map<uint16_t, size_t> macs;
  for (const auto& [key, mac] : agent.view().macs) ++macs[mac.vport];
  const std::string host = absl::StrCat(VesProtocol::NameOf(agent), agent.IsReachable() ? "" : ", lost");
  std::string text;
  for (const auto& [id, vport] : agent.view().vports) text += ShowVPort(vport, host, macs[id]);
  return text;
}

std::string ShowVPorts(const Ves& ves) {
  std::string text =
      absl::StrFormat("VES %s\n%5s  %-16s  %6s  %-24s  %s\n", ves.config().name, "id", "name", "MACs", "host", "VLANs");
  for (const VPort& vport : ves.vports()) {
    text += ShowVPort(ToAnnounced(vport), "this host", ves.fdb().Held(ves.forwarder().ports()[vport.index].vport));
  }
  for (const auto& [id, agent] : ves.protocol().engine().agents()) text += ShowVPortsOf(*agent);
  return text;
}

}  // namespace

void RegisterPeerCommands(const VesFinder& finder, CommandRegistry* registry) {
  registry->Register({"peers", "[VES]", "the other agents, and peers that announce nothing", 0, 1, ForVeses(finder, Peers)});
  registry->Register({"vport/show", "[VES]", "the vPorts of all agents", 0, 1, ForVeses(finder, ShowVPorts)});
}

}  // namespace eoib
