#include "control/operator/ves_commands.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "control/operator/vport_commands.h"
#include "vswitch/base/daemon/counter_text.h"

namespace eoib {
namespace {

std::string Membership(const Ves& ves) {
  if (!ves.checks_pkey()) return "a name only: RoCE checks none";
  if (!ves.has_queue_pair()) return "not in use";
  return ves.queue_pair().pkey().IsFullMember() ? "full member" : "limited member";
}

// ---- Flooding -----------------------------------------------------------------------------------

const char* FloodState(const Ves& ves) {
  if (ves.discovery() == nullptr && ves.vports().empty()) return "no member without a vPort";
  return ves.group().joined().has_value() ? "joined" : "not joined";
}

Json FloodJson(const Ves& ves) {
  const GroupMembership& group = ves.group();
  Json json = {{"mode", ves.discovery() != nullptr ? "replicate" : "group"}};
  if (ves.discovery() == nullptr) json["mgid"] = group.mgid().ToString();
  json["state"] = FloodState(ves);
  std::string trouble = group.trouble();
  if (const absl::optional<GroupMembership::Joined>& joined = group.joined()) {
    if (joined->mlid.IsValid()) json["mlid"] = joined->mlid.ToString();
    json["qkey"] = joined->qkey.ToString();
    json["mtu"] = joined->mtu_bytes;
  }
  if (ves.discovery() != nullptr) {
    json["agents"] = ves.protocol().agents();
    json["listed_agents"] = ves.discovery()->listed();
    if (group.joined().has_value()) trouble = ves.discovery()->trouble();
  }
  if (!trouble.empty()) json["trouble"] = trouble;
  return json;
}

std::string FloodText(const Json& flood) {
  const bool replicates = TextOf(flood, "mode") == "replicate";
  const bool joined = TextOf(flood, "state") == "joined";
  std::string text =
      absl::StrCat(replicates ? "  flood by unicast copies"
                              : absl::StrCat("  flood group ", TextOf(flood, "mgid")),
                   ": ", TextOf(flood, "state"));
  if (TextOf(flood, "state") == "not joined")
    absl::StrAppend(&text, ": ", TextOf(flood, "trouble"));
  if (joined && replicates) {
    absl::StrAppend(&text, ", to ", TextOf(flood, "agents"), " agents (",
                    TextOf(flood, "listed_agents"), " in the subnet administrator's list)");
  }
  if (HasValue(flood, "mlid")) absl::StrAppend(&text, ", MLID ", TextOf(flood, "mlid"));
  if (joined)
    absl::StrAppend(&text, ", Q_Key ", TextOf(flood, "qkey"), ", MTU ", TextOf(flood, "mtu"));
  text += "\n";
  if (!joined || !HasValue(flood, "trouble")) return text;
  return absl::StrCat(
      text, replicates ? "  retrying: " : "  joining again: ", TextOf(flood, "trouble"), "\n");
}

// Agents with which group messages do not pass.
Json GroupWarning(const Ves& ves) {
  size_t theirs = 0, ours = 0;
  for (const auto& [id, agent] : ves.protocol().engine().agents()) {
    theirs += agent->group.theirs() == GroupWatch::Verdict::kMissing;
    ours += agent->group.ours() == GroupWatch::Verdict::kMissing;
  }
  return {{"not_heard", theirs}, {"do_not_hear_us", ours}};
}

std::string GroupWarningText(const Json& warning) {
  return absl::StrCat("  warning: the group messages of ", TextOf(warning, "not_heard"),
                      " agents are not heard, and ", TextOf(warning, "do_not_hear_us"),
                      " agents do not hear ours (see peers); ", kGroupAdvice, "\n");
}

// ---- The list of agents -------------------------------------------------------------------------

Json AgentListJson(const VesProtocol& protocol) {
  return {{"gids", *protocol.listed()}, {"refused_messages", protocol.unlisted_messages()}};
}

std::string AgentListText(const Json& list) {
  return absl::StrCat("  agents: only those at the ", TextOf(list, "gids"),
                      " listed GIDs count; refused ", TextOf(list, "refused_messages"),
                      " messages of others\n");
}

// ---- Conflicts ----------------------------------------------------------------------------------

constexpr size_t kShownConflicts = 20;

// Configured MACs that another agent claims, too.
Json ConflictsJson(const Ves& ves) {
  Json json = {{"count", ves.protocol().engine().conflicts().size()}, {"first", Json::array()}};
  for (const VesProtocol::Conflict& conflict : ves.protocol().Conflicts(kShownConflicts)) {
    json["first"].push_back({{"mac", conflict.key.mac().ToString()},
                             {"vlan", conflict.key.vid().value()},
                             {"vport", conflict.vport},
                             {"agent", conflict.agent},
                             {"host", conflict.host},
                             {"held", conflict.held}});
  }
  return json;
}

std::string ConflictsText(const Json& conflicts) {
  std::string text;
  for (const Json& conflict : conflicts["first"]) {
    absl::StrAppend(
        &text, "  warning: MAC ", TextOf(conflict, "mac"), " in VLAN ", TextOf(conflict, "vlan"),
        " of vPort ", TextOf(conflict, "vport"), " is also claimed by ", TextOf(conflict, "host"),
        " (", TextOf(conflict, "agent"), "), and ",
        conflict["held"] == true ? "this host holds it" : "other hosts send its frames there", "; ",
        kConflictAdvice, "\n");
  }
  const size_t shown = conflicts["first"].size(), count = conflicts["count"].get<size_t>();
  if (count > shown)
    absl::StrAppend(&text, "  warning: ", count - shown,
                    " more MACs are claimed by other agents, too\n");
  return text;
}

// ---- ves/list, groups ---------------------------------------------------------------------------

// What a list has of a VES, and show, too.
Json VesSummary(const Ves& ves) {
  return {{"name", ves.config().name},
          {"pkey", ves.queue_pair().pkey().ToString()},
          {"membership", Membership(ves)},
          {"qpn", ves.queues().QpnText()},
          {"vlans", ves.config().vlans.ToString()},
          {"mtu", ves.forwarder().mtu()},
          {"header", ves.config().header == HeaderForm::kAlternative ? "xve" : "eoib"},
          {"fdb_entries", ves.fdb().size()},
          {"fdb_limit", ves.config().fdb_limit},
          {"state", FloodState(ves)},
          {"agents", ves.protocol().agents()},
          {"vport_count", ves.vports().size()}};
}

std::string VesListText(const Json& list) {
  std::string text = absl::StrFormat("%-16s  %-6s  %-10s  %5s  %6s  %6s  %8s  %s\n", "name",
                                     "P_Key", "QPN", "MTU", "vPorts", "agents", "FDB", "state");
  for (const Json& ves : list["veses"]) {
    absl::StrAppendFormat(&text, "%-16s  %-6s  %-10s  %5s  %6s  %6s  %8s  %s\n",
                          TextOf(ves, "name"), TextOf(ves, "pkey"), TextOf(ves, "qpn"),
                          TextOf(ves, "mtu"), TextOf(ves, "vport_count"), TextOf(ves, "agents"),
                          TextOf(ves, "fdb_entries"), TextOf(ves, "state"));
  }
  return text;
}

Json GroupJson(const Ves& ves) { return {{"name", ves.config().name}, {"flood", FloodJson(ves)}}; }

std::string GroupText(const Json& ves) {
  return absl::StrCat("VES ", TextOf(ves, "name"), "\n", FloodText(ves["flood"]));
}

// ---- stats, drops -------------------------------------------------------------------------------

Json Counters(const Ves& ves) {
  const ForwarderCounters counters = ves.queues().counters();
  Json json;
  AddCounters(counters, &json);
  AddCounters(ves.fdb().counters(), &json);
  AddCounters(ves.protocol().engine().counters(), &json, "protocol_");
  json["unlisted_messages"] = ves.protocol().unlisted_messages();
  AddCounters(ves.resolver().counters(), &json, "path_");
  json["ingress_drops"] = counters.DropSum(DropSide::kIngress);
  json["egress_drops"] = counters.DropSum(DropSide::kEgress);
  json["under_way"] = counters.UnderWay();
  json["fdb_entries"] = ves.fdb().size();
  return json;
}

Json StatsJson(const Ves& ves) {
  Json vports = Json::array();
  for (const VPort& vport : ves.vports()) {
    vports.push_back({{"name", vport.config.name}, {"counters", VPortCounters(ves, vport)}});
  }
  return {{"name", ves.config().name}, {"counters", Counters(ves)}, {"vports", std::move(vports)}};
}

std::string StatsText(const Json& ves) {
  std::string text = absl::StrCat("VES ", TextOf(ves, "name"), "\n", CountersText(ves["counters"]));
  for (const Json& vport : ves["vports"]) {
    for (const auto& [name, count] : vport["counters"].items()) {
      absl::StrAppend(&text, "  ", TextOf(vport, "name"), ".", name, " ", count.dump(), "\n");
    }
  }
  return text;
}

Json DropsJson(const Ves& ves) {
  return {{"name", ves.config().name}, {"drops", ExplainedDrops(ves.queues().counters().drops)}};
}

std::string DropsText(const Json& ves) {
  return absl::StrCat("VES ", TextOf(ves, "name"), "\n", ExplainedText(ves["drops"]));
}

absl::StatusOr<Answer> ListVeses(const VesFinder& finder) {
  Json veses = Json::array();
  // An agent without a VES has an empty list.
  if (const absl::StatusOr<std::vector<Ves*>> found = finder(""); found.ok()) {
    for (const Ves* ves : *found) veses.push_back(VesSummary(*ves));
  }
  return Answer({{"veses", std::move(veses)}}, VesListText);
}

}  // namespace

CommandRegistry::Handler ForVeses(const VesFinder& finder, std::function<Json(const Ves&)> json,
                                  std::function<std::string(const Json& ves)> text) {
  return [=](const CommandRegistry::Arguments& arguments) -> absl::StatusOr<Answer> {
    const absl::StatusOr<std::vector<Ves*>> found = finder(arguments.empty() ? "" : arguments[0]);
    if (!found.ok()) return found.status();
    Json veses = Json::array();
    for (const Ves* ves : *found) veses.push_back(json(*ves));
    return Answer({{"veses", std::move(veses)}}, [text](const Json& answer) {
      std::string all;
      for (const Json& ves : answer["veses"]) all += text(ves);
      return all;
    });
  };
}

void RegisterVesCommands(const VesFinder& finder, CommandRegistry* registry) {
  using enum CommandRegistry::Access;
  registry->Register({
      {"ves/list", "", "the VESes of this host, a line for each", kReadOnly, "ves_list",
       [finder](const CommandRegistry::Arguments&) { return ListVeses(finder); }},
      {"ves/show", "[VES]", "VESes with their flood groups and vPorts", kReadOnly, "ves_show",
       ForVeses(finder, VesJson, VesText)},
      {"groups", "[VES]", "the multicast groups of VESes", kReadOnly, "groups",
       ForVeses(finder, GroupJson, GroupText)},
      {"stats", "[VES]", "counters of VESes and vPorts", kReadOnly, "stats",
       ForVeses(finder, StatsJson, StatsText)},
      {"drops", "[VES]", "dropped frames, by reason", kReadOnly, "drops",
       ForVeses(finder, DropsJson, DropsText)},
  });
}

Json VesJson(const Ves& ves) {
  Json json = VesSummary(ves);
  json["flood"] = FloodJson(ves);
  if (ves.protocol().listed()) json["agent_list"] = AgentListJson(ves.protocol());
  json["group_messages"] = GroupWarning(ves);
  json["conflicts"] = ConflictsJson(ves);
  json["vports"] = Json::array();
  const VPortPeers peers(ves);
  for (const VPort& vport : ves.vports()) json["vports"].push_back(VPortJson(ves, vport, peers));
  return json;
}

std::string VesText(const Json& ves) {
  std::string text = absl::StrCat(
      "VES ", TextOf(ves, "name"), ": P_Key ", TextOf(ves, "pkey"), " (", TextOf(ves, "membership"),
      "), QPN ", TextOf(ves, "qpn"), ", VLANs ", TextOf(ves, "vlans"), ", MTU ", TextOf(ves, "mtu"),
      TextOf(ves, "header") == "xve" ? ", header xve" : "", ", FDB ", TextOf(ves, "fdb_entries"),
      " of ", TextOf(ves, "fdb_limit"), "\n", FloodText(ves["flood"]));
  if (TextOf(ves, "membership") == "limited member")
    text += "  limited member: reaches full members only\n";
  if (HasValue(ves, "agent_list")) text += AgentListText(ves["agent_list"]);
  const Json& messages = ves["group_messages"];
  if (messages["not_heard"] != 0 || messages["do_not_hear_us"] != 0)
    text += GroupWarningText(messages);
  text += ConflictsText(ves["conflicts"]);
  for (const Json& vport : ves["vports"]) absl::StrAppend(&text, "  ", VPortText(vport));
  return text;
}

}  // namespace eoib
