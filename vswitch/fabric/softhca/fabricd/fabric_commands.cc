#include "vswitch/fabric/softhca/fabricd/fabric_commands.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "vswitch/fabric/softhca/fabricd/fault_commands.h"
#include "vswitch/fabric/softhca/subnet/subnet_config.h"

namespace eoib::softhca {
namespace {

using eoib::TextOf;  // not TextOf of fabric_protocol.h
using Arguments = CommandRegistry::Arguments;
using Result = absl::StatusOr<Answer>;

Result Done(const absl::Status& status) {
  if (!status.ok()) return status;
  return "ok\n";
}

// ---- show ---------------------------------------------------------------------------------------

const char* StateOf(const Subnet::PortStatus& port) {
  return !port.link_up        ? "link down"
         : port.alive         ? "active"
         : port.config.active ? "managed only"
                              : "no process";
}

Json TrafficJson(const SoftPortCounters& counters) {
  return {
      {"sent", counters.xmit_packets},           {"not_sent", counters.Sum(Part::kDroppedBefore)},
      {"received", counters.rcv_packets},        {"delivered", counters.rcv_delivered},
      {"corrupt_rings", counters.corrupt_rings}, {"ring_failures", counters.ring_failures}};
}

Json PortJson(const Subnet::PortStatus& port) {
  Json json = {{"name", port.name},
               {"lid", port.config.lid.ToString()},
               {"state", StateOf(port)},
               {"guid", port.config.port_guid.ToString()},
               {"first_qpn", port.config.qpns.first.ToString()},
               {"qpn_count", port.config.qpns.count},
               {"pkeys", Json::array()}};
  for (const PKey pkey : port.config.pkeys)
    json["pkeys"].push_back(pkey.IsValid() ? pkey.ToString() : "-");
  json.update({{"registrations", port.registrations},
               {"mads", port.mads},
               {"rings_out", port.rings_out},
               {"rings_in", port.rings_in},
               {"rings_opened", port.rings_made},
               {"rings_refused", port.rings_refused}});
  if (port.counters.has_value()) json["traffic"] = TrafficJson(*port.counters);
  return json;
}

std::string TrafficText(const Json& traffic) {
  std::string text = absl::StrCat(
      "  sent ", TextOf(traffic, "sent"), " datagrams, copies not sent ",
      TextOf(traffic, "not_sent"), "; received ", TextOf(traffic, "received"), ", delivered ",
      TextOf(traffic, "delivered"), ", corrupt rings ", TextOf(traffic, "corrupt_rings"), "\n");
  if (traffic["ring_failures"] == 0) return text;
  return absl::StrCat(text, "  rings that failed for want of descriptors or memory ",
                      TextOf(traffic, "ring_failures"), ": raise its process's LimitNOFILE\n");
}

std::string PortText(const Json& port) {
  std::string text =
      absl::StrFormat("%-16s lid %-6s %-12s guid %s qpns %s+%s\n  pkeys", TextOf(port, "name"),
                      TextOf(port, "lid"), TextOf(port, "state"), TextOf(port, "guid"),
                      TextOf(port, "first_qpn"), TextOf(port, "qpn_count"));
  for (const Json& pkey : port["pkeys"]) absl::StrAppend(&text, " ", pkey.get<std::string>());
  absl::StrAppend(&text, "\n  registrations ", TextOf(port, "registrations"), ", MADs ",
                  TextOf(port, "mads"), ", rings out ", TextOf(port, "rings_out"), ", in ",
                  TextOf(port, "rings_in"), ", opened ", TextOf(port, "rings_opened"), ", refused ",
                  TextOf(port, "rings_refused"), "\n");
  return text + (port.contains("traffic") ? TrafficText(port["traffic"]) : "");
}

Json SmJson(const Subnet& subnet) {
  const Subnet::MadCounters mads = subnet.mad_counters();
  return {{"present", !subnet.sm_absent()},
          {"lid", subnet.sm_lid().ToString()},
          {"mads", mads.sa.requests},
          {"mad_errors", mads.sa.errors},
          {"mad_tables", mads.sa.tables},
          {"mads_malformed", mads.sa.malformed},
          {"reports", mads.notices.reports},
          {"reports_repeated", mads.notices.repeated},
          {"reports_confirmed", mads.notices.confirmed},
          {"reports_given_up", mads.notices.given_up},
          {"smps", mads.smp.requests},
          {"smps_lost", mads.smp.lost},
          {"pma_requests", mads.pma.requests}};
}

std::string SmText(const Json& sm) {
  return absl::StrCat("SM ", sm["present"] == true ? "present" : "absent", ", lid ",
                      TextOf(sm, "lid"), ": ", TextOf(sm, "mads"), " MADs answered (",
                      TextOf(sm, "mad_errors"), " with an error, ", TextOf(sm, "mad_tables"),
                      " with a table), ", TextOf(sm, "mads_malformed"), " malformed\n  reports ",
                      TextOf(sm, "reports"), ": repeated ", TextOf(sm, "reports_repeated"),
                      ", confirmed ", TextOf(sm, "reports_confirmed"), ", given up ",
                      TextOf(sm, "reports_given_up"), "\nagents of ports: SMPs answered ",
                      TextOf(sm, "smps"), ", lost ", TextOf(sm, "smps_lost"),
                      "; counters asked for ", TextOf(sm, "pma_requests"), "\n");
}

Json ServerJson(const FabricServer& server) {
  const FabricServer::Counters& counters = server.counters();
  Json json = {{"connections", server.clients()},
               {"accepted", counters.accepted},
               {"refused", counters.refused},
               {"malformed", counters.malformed},
               {"stuck", counters.stuck}};
  if (!server.last_error().empty()) json["last_error"] = server.last_error();
  return json;
}

std::string ServerText(const Json& server) {
  std::string text = absl::StrCat(
      "connections ", TextOf(server, "connections"), ": accepted ", TextOf(server, "accepted"),
      ", refused ", TextOf(server, "refused"), ", dropped for bad messages ",
      TextOf(server, "malformed"), ", for not reading ", TextOf(server, "stuck"), "\n");
  if (!HasValue(server, "last_error")) return text;
  return absl::StrCat(text, "last dropped for: ", TextOf(server, "last_error"), "\n");
}

std::string ShowText(const Json& shown) {
  std::string text;
  for (const Json& port : shown["ports"]) text += PortText(port);
  text += SmText(shown["sm"]);
  if (HasValue(shown, "lids_error")) {
    absl::StrAppend(&text, "LIDs will not survive a restart: ", TextOf(shown, "lids_error"), "\n");
  }
  text += ServerText(shown["server"]);
  for (const Json& fault : shown["faults"])
    absl::StrAppend(&text, "fault ", fault.get<std::string>(), "\n");
  return text;
}

Result Show(const Subnet& subnet, const FabricServer& server, const LidFile* lids) {
  Json json = {{"ports", Json::array()},
               {"sm", SmJson(subnet)},
               {"server", ServerJson(server)},
               {"faults", Json::array()}};
  for (const Subnet::PortStatus& port : subnet.Ports()) json["ports"].push_back(PortJson(port));
  if (lids != nullptr && !lids->status().ok())
    json["lids_error"] = std::string(lids->status().message());
  for (const Fault& fault : subnet.Faults()) json["faults"].push_back(FormatFault(fault));
  return Answer(json, ShowText);
}

// ---- Groups, subscriptions, services, rings -----------------------------------------------------

Json JoinStates(uint8_t bits) {
  Json states = Json::array();
  if ((bits & kFullMember) != 0) states.push_back("full");
  if ((bits & kNonMember) != 0) states.push_back("non-member");
  if ((bits & kSendOnlyNonMember) != 0) states.push_back("send-only");
  return states;
}

Json GroupJson(const Subnet::GroupStatus& group) {
  const McMemberRecord& record = group.record;
  Json json = {{"mgid", record.mgid.ToString()}, {"mlid", record.mlid.ToString()},
               {"pkey", record.pkey.ToString()}, {"qkey", record.qkey.ToString()},
               {"mtu", MtuBytes(record.mtu)},    {"rate", record.rate},
               {"sl", record.sl.value()},        {"members", Json::array()}};
  for (const Subnet::GroupMember& member : group.members) {
    json["members"].push_back({{"port", member.port},
                               {"lid", member.lid.ToString()},
                               {"join_states", JoinStates(member.join_state)}});
  }
  return json;
}

std::string GroupText(const Json& group) {
  std::string text = absl::StrCat(TextOf(group, "mgid"), " mlid ", TextOf(group, "mlid"), " pkey ",
                                  TextOf(group, "pkey"), " qkey ", TextOf(group, "qkey"), " mtu ",
                                  TextOf(group, "mtu"), " rate ", TextOf(group, "rate"), " sl ",
                                  TextOf(group, "sl"), "\n");
  for (const Json& member : group["members"]) {
    absl::StrAppend(&text, "  ", TextOf(member, "port"), " lid ", TextOf(member, "lid"));
    for (const Json& state : member["join_states"])
      absl::StrAppend(&text, " ", state.get<std::string>());
    text += "\n";
  }
  return text;
}

std::string OrAll(uint32_t value, uint32_t all) {
  return value == all ? "all" : absl::StrCat(value);
}

Json SubscriptionJson(const std::string& port, const InformInfo& info) {
  std::string from =
      absl::StrCat("LIDs ", info.lid_begin, " to ", std::max(info.lid_begin, info.lid_end));
  if (info.lid_begin == InformInfo::kAllLids) from = "all LIDs";
  if (!info.gid.IsZero()) from = info.gid.ToString();
  return {{"port", port},
          {"kind", info.generic ? "generic" : "vendor"},
          {"traps", OrAll(info.trap, InformInfo::kAllTraps)},
          {"types", OrAll(info.type, InformInfo::kAllTypes)},
          {"producers", OrAll(info.producer, InformInfo::kAllProducers)},
          {"from", from}};
}

std::string SubscriptionText(const Json& row) {
  return absl::StrCat(TextOf(row, "port"), ": ", TextOf(row, "kind"), " traps ",
                      TextOf(row, "traps"), ", types ", TextOf(row, "types"), ", producers ",
                      TextOf(row, "producers"), ", from ", TextOf(row, "from"), "\n");
}

Json ServiceJson(const Subnet::ServiceStatus& service) {
  const ServiceRecord& record = service.record;
  Json json = {{"port", service.port},
               {"id", absl::StrFormat("0x%016x", record.id)},
               {"name", absl::CHexEscape(record.name)},
               {"pkey", record.pkey.ToString()}};
  if (record.lease != ServiceRecord::kForever) json["lease_s"] = record.lease;
  return json;
}

std::string ServiceText(const Json& service) {
  const std::string lease =
      service.contains("lease_s") ? TextOf(service, "lease_s") + " s" : "forever";
  return absl::StrCat(TextOf(service, "port"), ": ", TextOf(service, "id"), " \"",
                      TextOf(service, "name"), "\" pkey ", TextOf(service, "pkey"), " lease ",
                      lease, "\n");
}

Json RingJson(const Subnet::RingStatus& ring) {
  return {{"id", absl::StrFormat("0x%x", ring.ring)},
          {"source", ring.source},
          {"destination", ring.destination},
          {"bytes", ring.capacity}};
}

std::string RingText(const Json& ring) {
  return absl::StrCat(TextOf(ring, "id"), " ", TextOf(ring, "source"), " -> ",
                      TextOf(ring, "destination"), ", ", TextOf(ring, "bytes"), " bytes\n");
}

// {KEY: rows}, and the text of all rows.
Answer Rows(const char* key, Json rows, std::string (*text)(const Json& row)) {
  return Answer({{key, std::move(rows)}}, [key, text](const Json& answer) {
    std::string all;
    for (const Json& row : answer[key]) all += text(row);
    return all;
  });
}

Result Groups(const Subnet& subnet) {
  Json rows = Json::array();
  for (const Subnet::GroupStatus& group : subnet.Groups()) rows.push_back(GroupJson(group));
  return Rows("groups", std::move(rows), GroupText);
}

Result ShowSubscriptions(const Subnet& subnet) {
  Json rows = Json::array();
  for (const Subnet::Subscriptions& port : subnet.AllSubscriptions()) {
    for (const InformInfo& info : port.infos) rows.push_back(SubscriptionJson(port.port, info));
  }
  return Rows("subscriptions", std::move(rows), SubscriptionText);
}

Result Services(const Subnet& subnet) {
  Json rows = Json::array();
  for (const Subnet::ServiceStatus& service : subnet.Services())
    rows.push_back(ServiceJson(service));
  return Rows("services", std::move(rows), ServiceText);
}

Result Rings(const Subnet& subnet) {
  Json rows = Json::array();
  for (const Subnet::RingStatus& ring : subnet.Rings()) rows.push_back(RingJson(ring));
  return Rows("rings", std::move(rows), RingText);
}

// ---- Changes ------------------------------------------------------------------------------------

Result Link(const Arguments& arguments, Subnet* subnet) {
  if (arguments[1] != "up" && arguments[1] != "down") {
    return absl::InvalidArgumentError(
        absl::StrCat("link ", arguments[0], " ", arguments[1], ": must be up or down"));
  }
  return Done(subnet->SetLink(arguments[0], arguments[1] == "up"));
}

Result SetLid(const Arguments& arguments, Subnet* subnet) {
  const absl::StatusOr<Lid> lid = Lid::Parse(arguments[1]);
  if (!lid.ok()) return lid.status();
  return Done(subnet->SetLid(arguments[0], *lid));
}

Result PartitionAdd(const Arguments& arguments, Subnet* subnet) {
  const absl::StatusOr<PKey> pkey = PKey::Parse(arguments[0]);
  if (!pkey.ok()) return pkey.status();
  if (arguments.size() == 3 && arguments[2] != "limited" && arguments[2] != "full") {
    return absl::InvalidArgumentError(
        absl::StrCat("membership ", arguments[2], ": must be limited or full"));
  }
  const bool limited = arguments.size() == 3 && arguments[2] == "limited";
  const absl::Status status = subnet->AddToPartition(
      *pkey, arguments[1], limited ? Membership::kLimited : Membership::kFull);
  if (!status.ok()) return status;
  const std::vector<Subnet::PortStatus> ports = subnet->Ports();
  const bool is_known =
      std::any_of(ports.begin(), ports.end(),
                  [&](const Subnet::PortStatus& port) { return port.name == arguments[1]; });
  return is_known || arguments[1] == "ALL"
             ? "ok\n"
             : absl::StrCat("ok; no port ", arguments[1], " has registered yet\n");
}

Result PartitionRemove(const Arguments& arguments, Subnet* subnet) {
  const absl::StatusOr<PKey> pkey = PKey::Parse(arguments[0]);
  if (!pkey.ok()) return pkey.status();
  return Done(subnet->RemoveFromPartition(*pkey, arguments[1]));
}

Result Sm(const Arguments& arguments, Subnet* subnet) {
  if (arguments[0] != "on" && arguments[0] != "off") {
    return absl::InvalidArgumentError(
        absl::StrCat("sm ", arguments[0], ": must be on, off, restart or move"));
  }
  subnet->SetSmAbsent(arguments[0] == "off");
  return Done(absl::OkStatus());
}

Result MoveSm(const Arguments& arguments, Subnet* subnet) {
  const absl::StatusOr<Lid> lid = Lid::Parse(arguments[0]);
  if (!lid.ok()) return lid.status();
  return Done(subnet->MoveSm(*lid));
}

}  // namespace

void RegisterFabricCommands(Subnet* subnet, const FabricServer* server, const LidFile* lids,
                            CommandRegistry* registry) {
  using enum CommandRegistry::Access;
  registry->Register({
      {"show", "", "ports, their LIDs, P_Keys and counters", kReadOnly, "fabric_show",
       [=](const Arguments&) { return Show(*subnet, *server, lids); }},
      {"groups", "", "multicast groups and their members", kReadOnly, "fabric_groups",
       [=](const Arguments&) { return Groups(*subnet); }},
      {"subscriptions", "", "subscriptions of ports to notices", kReadOnly, "fabric_subscriptions",
       [=](const Arguments&) { return ShowSubscriptions(*subnet); }},
      {"services", "", "services that ports have registered (ServiceRecords)", kReadOnly,
       "fabric_services", [=](const Arguments&) { return Services(*subnet); }},
      {"rings", "", "rings between ports", kReadOnly, "fabric_rings",
       [=](const Arguments&) { return Rings(*subnet); }},
      {"link", "PORT up|down", "set a port's link up or down", kReadWrite, "message",
       [=](const Arguments& a) { return Link(a, subnet); }},
      {"lid", "PORT LID", "change a port's LID", kReadWrite, "message",
       [=](const Arguments& a) { return SetLid(a, subnet); }},
      {"partition/add", "PKEY PORT|ALL [limited]", "make a port a member of a partition",
       kReadWrite, "message", [=](const Arguments& a) { return PartitionAdd(a, subnet); }},
      {"partition/remove", "PKEY PORT|ALL", "withdraw a P_Key from a port", kReadWrite, "message",
       [=](const Arguments& a) { return PartitionRemove(a, subnet); }},
      {"reregister", "PORT|ALL", "ask a port to join and subscribe again", kReadWrite, "message",
       [=](const Arguments& a) { return Done(subnet->Reregister(a[0])); }},
      {"sm", "on|off", "start or stop answering as subnet manager and administrator", kReadWrite,
       "message", [=](const Arguments& a) { return Sm(a, subnet); }},
      {"sm/restart", "", "forget groups, subscriptions and services, and have all ports reregister",
       kReadWrite, "message",
       [=](const Arguments&) {
         subnet->RestartSm();
         return Done(absl::OkStatus());
       }},
      {"sm/move", "LID", "change the subnet manager's LID", kReadWrite, "message",
       [=](const Arguments& a) { return MoveSm(a, subnet); }},
  });
}

}  // namespace eoib::softhca
