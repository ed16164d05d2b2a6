// The command check: goes through what a ping through a VES needs, in the order in which to look,
// and says what to do about each thing that is missing.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "control/operator/port_commands.h"
#include "control/operator/ves_commands.h"
#include "control/operator/vport_commands.h"

namespace eoib {
namespace {

// How a check came out. kNote: it works, or may be meant so, and explains a ping that fails.
enum class Verdict { kOk, kNote, kFail };

Json CheckRow(const char* what, Verdict verdict, const std::string& found,
              const std::string& advice = "") {
  constexpr const char* kNames[] = {"ok", "note", "fail"};
  Json row = {{"what", what}, {"verdict", kNames[static_cast<size_t>(verdict)]}, {"found", found}};
  if (!advice.empty()) row["advice"] = advice;
  return row;
}

Json CheckPort(const Json& hca) {
  const std::string name = absl::StrCat("HCA ", TextOf(hca, "name"), ": ", TextOf(hca, "state"));
  if (hca["active"] != true) {
    return CheckRow("port", Verdict::kFail, name,
                    "the port needs a cable and a subnet manager; see ibstat(8)");
  }
  if (HasValue(hca, "subnet")) return CheckRow("port", Verdict::kFail, TextOf(hca, "subnet"));
  return CheckRow(
      "port", Verdict::kOk,
      absl::StrCat(name, HasValue(hca, "sm_lid") ? ", SM LID " : "", TextOf(hca, "sm_lid")));
}

Json CheckMembership(const Ves& ves) {
  const std::string pkey = absl::StrCat("P_Key ", ves.config().pkey.ToString());
  if (!ves.checks_pkey())
    return CheckRow("membership", Verdict::kOk, pkey + " is a name only (RoCE)");
  if (!ves.has_queue_pair()) {
    return CheckRow("membership", Verdict::kFail,
                    absl::StrCat(pkey, " is not in the port's table: ", ves.group().trouble()),
                    "make this port a member of the partition at the subnet manager (OpenSM: "
                    "partitions.conf), or correct pkey of the VES");
  }
  if (ves.queue_pair().pkey().IsFullMember())
    return CheckRow("membership", Verdict::kOk, pkey + ", full member");
  return CheckRow("membership", Verdict::kNote,
                  pkey + ", limited member: reaches full members only",
                  "hosts that shall reach each other need one full member among any two");
}

Json CheckGroup(const Ves& ves) {
  const bool replicates = ves.discovery() != nullptr;
  if (ves.vports().empty() && !replicates)
    return CheckRow("group", Verdict::kNote, "not a member, as long as there is no vPort");
  if (ves.group().joined().has_value()) {
    return CheckRow(
        "group", Verdict::kOk,
        replicates ? "floods go to each agent" : "joined " + ves.group().mgid().ToString());
  }
  return CheckRow(
      "group", Verdict::kFail, "not joined: " + ves.group().trouble(),
      "without its group the VES has no carrier; the subnet manager's log has the reason of a "
      "refusal");
}

// The trouble of a vPort's interface, and the advice; empty: there is none.
std::pair<std::string, std::string> TroubleOf(const Json& vport) {
  const std::string name = TextOf(vport, "name");
  if (HasValue(vport, "trouble")) return {absl::StrCat(name, ": ", TextOf(vport, "trouble")), ""};
  if (!HasValue(vport, "interface")) return {};
  const Json& interface = vport["interface"];
  if (HasValue(interface, "error"))
    return {absl::StrCat(name, ": ", TextOf(interface, "error")), ""};
  if (TextOf(interface, "admin") == "down") {
    return {name + ": the interface is down",
            absl::StrCat("ip link set ", TextOf(interface, "name"), " up")};
  }
  if (HasValue(interface, "largest_mtu")) {
    return {absl::StrCat(name, ": another program has set MTU ", TextOf(interface, "mtu"),
                         "; packets above ", TextOf(interface, "largest_mtu"), " are dropped"),
            absl::StrCat("set mtu of the vPort, or ip link set ", TextOf(interface, "name"),
                         " mtu ", TextOf(interface, "largest_mtu"))};
  }
  return {};
}

void CheckVPorts(const Json& vports, Json* rows) {
  size_t good = 0;
  for (const Json& vport : vports) {
    const auto [trouble, advice] = TroubleOf(vport);
    if (trouble.empty()) {
      ++good;
    } else {
      rows->push_back(CheckRow("interface", Verdict::kFail, trouble, advice));
    }
  }
  if (vports.empty()) {
    rows->push_back(CheckRow("interface", Verdict::kNote, "this host has no vPort here",
                             "eoibctl vport add NAME ves=VES"));
  } else if (good != 0) {
    rows->push_back(CheckRow("interface", Verdict::kOk,
                             absl::StrCat(good, " of ", vports.size(), " vPorts are up")));
  }
}

void CheckPeers(const Ves& ves, Json* rows) {
  std::vector<std::string> lost, other_mtus, not_heard;
  size_t reachable = 0;
  const uint32_t mtu = ves.forwarder().mtu();
  for (const auto& [id, agent] : ves.protocol().engine().agents()) {
    const std::string name = VesProtocol::NameOf(*agent);
    if (agent->view().version == 0) continue;  // it has told nothing yet
    agent->IsReachable() ? void(++reachable) : lost.push_back(name);
    if (agent->view().capabilities.mtu != mtu)
      other_mtus.push_back(absl::StrCat(name, " has ", agent->view().capabilities.mtu));
    if (agent->group.theirs() == GroupWatch::Verdict::kMissing ||
        agent->group.ours() == GroupWatch::Verdict::kMissing)
      not_heard.push_back(name);
  }
  if (reachable == 0 && lost.empty()) {
    rows->push_back(CheckRow("peers", Verdict::kNote, "no other agent is known",
                             "does one run on another host, in the same subnet, with this P_Key?"));
  } else {
    rows->push_back(
        CheckRow("peers", Verdict::kOk, absl::StrCat(reachable, " other agents are reachable")));
  }
  if (!lost.empty()) {
    const bool limited =
        ves.checks_pkey() && ves.has_queue_pair() && !ves.queue_pair().pkey().IsFullMember();
    rows->push_back(
        CheckRow("peers", Verdict::kFail, "lost: " + absl::StrJoin(lost, ", "),
                 limited ? "two limited members do not reach each other: make one of the two "
                           "a full member"
                         : "do they run? Their log and `neigh` here say more; an agent that "
                           "was stopped for good is forgotten after a while"));
  }
  if (!other_mtus.empty()) {
    rows->push_back(
        CheckRow("MTU", Verdict::kNote,
                 absl::StrCat("the MTU is ", mtu, " here, and ", absl::StrJoin(other_mtus, ", ")),
                 "larger frames to a peer travel in segments, and larger ones in floods are "
                 "dropped: give all ports and the group one MTU"));
  } else {
    rows->push_back(CheckRow("MTU", Verdict::kOk, absl::StrCat(mtu, ", as all other agents have")));
  }
  if (!not_heard.empty()) {
    rows->push_back(CheckRow(
        "multicast", Verdict::kFail,
        "group messages do not pass from or to " + absl::StrJoin(not_heard, ", "), kGroupAdvice));
  }
}

void CheckVlans(const Json& vports, Json* rows) {
  std::vector<std::string> alone;
  for (const Json& vport : vports) {
    if (vport["peers"] != 0) continue;
    alone.push_back(absl::StrCat(TextOf(vport, "name"), " (",
                                 TextOf(vport, "mode") == "access"
                                     ? absl::StrCat("VLAN ", TextOf(vport, "access_vlan"))
                                     : absl::StrCat("VLANs ", TextOf(vport, "trunk_vlans")),
                                 ")"));
  }
  if (alone.empty()) {
    if (!vports.empty())
      rows->push_back(
          CheckRow("VLANs", Verdict::kOk, "each vPort shares a VLAN with another agent"));
    return;
  }
  rows->push_back(
      CheckRow("VLANs", Verdict::kNote,
               "no other agent that is reachable has a VLAN of " + absl::StrJoin(alone, ", "),
               "`vport list` shows the VLANs of all agents"));
}

Json CheckJson(const Ves& ves, const Json& port) {
  Json rows = Json::array({CheckPort(port["hca"]), CheckMembership(ves), CheckGroup(ves)});
  const Json vports = VesJson(ves)["vports"];
  CheckVPorts(vports, &rows);
  CheckPeers(ves, &rows);
  CheckVlans(vports, &rows);
  if (const size_t conflicts = ves.protocol().engine().conflicts().size(); conflicts != 0) {
    rows.push_back(
        CheckRow("MACs", Verdict::kFail,
                 absl::StrCat(conflicts, " of our MACs are claimed by another agent, too"),
                 "`show` names them"));
  }
  return {{"name", ves.config().name}, {"checks", std::move(rows)}};
}

std::string CheckText(const Json& ves) {
  std::string text = absl::StrCat("VES ", TextOf(ves, "name"), "\n");
  for (const Json& row : ves["checks"]) {
    absl::StrAppendFormat(&text, "  %-4s  %-10s  %s\n", TextOf(row, "verdict"), TextOf(row, "what"),
                          TextOf(row, "found"));
    if (HasValue(row, "advice"))
      absl::StrAppendFormat(&text, "  %-4s  %-10s  -> %s\n", "", "", TextOf(row, "advice"));
  }
  return text;
}

}  // namespace

void RegisterCheckCommand(const VesFinder& finder, const FabricPort* port,
                          CommandRegistry* registry) {
  registry->Register(
      {{"check", "[VES]", "what a ping through a VES needs, and what to do about what is missing",
        CommandRegistry::Access::kReadOnly, "check",
        ForVeses(
            finder, [port](const Ves& ves) { return CheckJson(ves, PortJson(*port)); },
            CheckText)}});
}

}  // namespace eoib
