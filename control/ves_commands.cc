#include "control/ves_commands.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace eoib {
namespace {

std::string Membership(const Ves& ves) {
  if (!ves.checks_pkey()) return "a name only: RoCE checks none";
  if (!ves.has_queue_pair()) return "not in use";
  return ves.queue_pair().pkey().IsFullMember() ? "full member" : "limited member";
}

// A VES without a multicast group: where its floods go.
std::string ShowReplication(const Ves& ves) {
  const absl::optional<GroupMembership::Joined>& ready = ves.group().joined();
  if (!ready.has_value()) return absl::StrCat("\n  flood by unicast copies: not joined: ", ves.group().trouble(), "\n");
  const std::string& trouble = ves.discovery()->trouble();
  return absl::StrCat("\n  flood by unicast copies: joined, to ", ves.protocol().agents(), " agents (",
                      ves.discovery()->listed(), " in the subnet administrator's list), Q_Key ", ready->qkey.ToString(),
                      ", MTU ", ready->mtu_bytes, "\n", trouble.empty() ? "" : absl::StrCat("  retrying: ", trouble, "\n"));
}

std::string ShowFloodGroup(const Ves& ves) {
  const GroupMembership& group = ves.group();
  const std::string text = absl::StrCat("\n  flood group ", group.mgid().ToString());
  const absl::optional<GroupMembership::Joined>& joined = group.joined();
  if (!joined.has_value()) return absl::StrCat(text, ": not joined: ", group.trouble(), "\n");
  return absl::StrCat(text, ": joined", joined->mlid.IsValid() ? ", MLID " + joined->mlid.ToString() : "", ", Q_Key ",
                      joined->qkey.ToString(), ", MTU ", joined->mtu_bytes, "\n",
                      group.trouble().empty() ? "" : absl::StrCat("  joining again: ", group.trouble(), "\n"));
}

std::string ShowVPort(const VPort& vport) {
  const VlanPolicy& vlan = vport.config.vlan;
  const std::string vlans = vlan.mode == PortMode::kAccess ? absl::StrCat(", access VLAN ", vlan.access_vlan.ToString())
                                                           : absl::StrCat(", trunk VLANs ", vlan.trunk_vlans.ToString(),
                                                                          ", native VLAN ", vlan.native_vlan.ToString());
  return absl::StrCat("  vPort ", vport.config.name, ": ", vport.config.type, ", MAC ", vport.port->mac().ToString(), vlans,
                      "\n");
}

// A warning about agents with which group messages do not pass, or nothing.
std::string GroupWarning(const Ves& ves) {
  size_t theirs = 0, ours = 0;
  for (const auto& [id, agent] : ves.protocol().engine().agents()) {
    theirs += agent->group.theirs() == GroupWatch::Verdict::kMissing;
    ours += agent->group.ours() == GroupWatch::Verdict::kMissing;
  }
  if (theirs + ours == 0) return "";
  return absl::StrCat("  warning: the group messages of ", theirs, " agents are not heard, and ", ours,
                      " agents do not hear ours (see peers); ", kGroupAdvice, "\n");
}

std::string Stats(const Ves& ves) {
  const ForwarderCounters& counters = ves.forwarder().counters();
  std::string text = absl::StrCat("VES ", ves.config().name, "\n");
  const auto line = [&text](absl::string_view name, uint64_t value) { absl::StrAppend(&text, "  ", name, " ", value, "\n"); };
#define EOIB_X(member, help) line(#member, counters.member.value());
  EOIB_FORWARDER_COUNTERS(EOIB_X)
#undef EOIB_X
  const FdbCounters fdb = ves.fdb().counters();
#define EOIB_X(member, help) line(#member, fdb.member);
  EOIB_FDB_COUNTERS(EOIB_X)
#undef EOIB_X
  const VPortProtocol::Counters& protocol = ves.protocol().engine().counters();
#define EOIB_X(member, help) line("protocol_" #member, protocol.member);
  EOIB_PROTOCOL_COUNTERS(EOIB_X)
#undef EOIB_X
  line("ingress_drops", counters.DropSum(DropSide::kIngress));
  line("egress_drops", counters.DropSum(DropSide::kEgress));
  line("under_way", counters.UnderWay());
  line("fdb_entries", ves.fdb().size());
  for (const VPort& vport : ves.vports()) {
    const PortCounters& port = *ves.forwarder().ports()[vport.index].counters;
    line(vport.config.name + ".received", port.received.value());
    line(vport.config.name + ".received_bytes", port.received_bytes.value());
    line(vport.config.name + ".transmitted", port.transmitted.value());
    line(vport.config.name + ".transmitted_bytes", port.transmitted_bytes.value());
    line(vport.config.name + ".dropped", port.dropped.value());
  }
  return text;
}

std::string Drops(const Ves& ves) {
  std::string text = absl::StrCat("VES ", ves.config().name, "\n");
  for (size_t i = 0; i < kDropReasons; ++i) {
    const uint64_t count = ves.forwarder().counters().drops[i].value();
    if (count == 0) continue;  // there are many reasons, and few of them occur
    absl::StrAppendFormat(&text, "  %-20s %10d  %s\n", kDropReasonInfo[i].label, count, kDropReasonInfo[i].help);
  }
  return text;
}

}  // namespace

CommandRegistry::Handler ForVeses(const VesFinder& finder, std::function<std::string(const Ves&)> text) {
  return [finder, text = std::move(text)](const CommandRegistry::Arguments& arguments) -> absl::StatusOr<std::string> {
    const absl::StatusOr<std::vector<Ves*>> veses = finder(arguments.empty() ? "" : arguments[0]);
    if (!veses.ok()) return veses.status();
    std::string all;
    for (const Ves* ves : *veses) all += text(*ves);
    return all;
  };
}

void RegisterVesCommands(const VesFinder& finder, CommandRegistry* registry) {
  registry->Register({"stats", "[VES]", "counters of VESes and vPorts", 0, 1, ForVeses(finder, Stats)});
  registry->Register({"drops", "[VES]", "dropped frames, by reason", 0, 1, ForVeses(finder, Drops)});
}

std::string ShowVes(const Ves& ves) {
  const Forwarder& forwarder = ves.forwarder();
  std::string text = absl::StrCat(
      "VES ", ves.config().name, ": P_Key ", ves.queue_pair().pkey().ToString(), " (", Membership(ves), "), QPN ",
      ves.queue_pair().QpnText(), ", VLANs ", ves.config().vlans.ToString(), ", MTU ", forwarder.mtu(),
      ves.config().header == HeaderForm::kAlternative ? ", header xve" : "", ", FDB ", ves.fdb().size(), " of ",
      ves.config().fdb_limit, ves.discovery() != nullptr ? ShowReplication(ves) : ShowFloodGroup(ves), GroupWarning(ves));
  for (const VPort& vport : ves.vports()) absl::StrAppend(&text, ShowVPort(vport));
  return text;
}

}  // namespace eoib
