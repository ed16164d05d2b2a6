#include "vswitch/fabric/softhca/fabricd/fabric_commands.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "vswitch/fabric/softhca/fabricd/fault_commands.h"
#include "vswitch/fabric/softhca/subnet/subnet_config.h"

namespace eoib::softhca {
namespace {

using Arguments = CommandRegistry::Arguments;
using Answer = absl::StatusOr<std::string>;

Answer Done(const absl::Status& status) {
  if (!status.ok()) return status;
  return std::string("ok\n");
}

std::string JoinStates(uint8_t bits) {
  std::string text;
  if ((bits & kFullMember) != 0) text += " full";
  if ((bits & kNonMember) != 0) text += " non-member";
  if ((bits & kSendOnlyNonMember) != 0) text += " send-only";
  return text;
}

std::string ShowPort(const Subnet::PortStatus& port) {
  const char* state = !port.link_up ? "link down" : port.alive ? "active" : port.config.active ? "managed only" : "no process";
  std::string text =
      absl::StrFormat("%-16s lid %-6s %-12s guid %s qpns %s+%u\n", port.name, port.config.lid.ToString(), state,
                      port.config.port_guid.ToString(), port.config.qpns.first.ToString(), port.config.qpns.count);
  absl::StrAppend(&text, "  pkeys");
  for (const PKey pkey : port.config.pkeys) absl::StrAppend(&text, " ", pkey.IsValid() ? pkey.ToString() : "-");
  absl::StrAppendFormat(&text, "\n  registrations %u, MADs %u, rings out %u, in %u, opened %u, refused %u\n",
                        port.registrations, port.mads, port.rings_out, port.rings_in, port.rings_made, port.rings_refused);
  if (port.counters.has_value()) {
    const SoftPortCounters& counters = *port.counters;
    absl::StrAppendFormat(&text, "  sent %u datagrams, copies not sent %u; received %u, delivered %u, corrupt rings %u\n",
                          counters.xmit_packets, counters.Sum(Part::kDroppedBefore), counters.rcv_packets,
                          counters.rcv_delivered, counters.corrupt_rings);
    if (counters.ring_failures != 0) {
      absl::StrAppendFormat(&text,
                            "  rings that failed for want of descriptors or memory %u: raise its process's LimitNOFILE\n",
                            counters.ring_failures);
    }
  }
  return text;
}

std::string OrAll(uint32_t value, uint32_t all) { return value == all ? "all" : absl::StrCat(value); }

std::string ShowSubscription(const InformInfo& info) {
  std::string from = absl::StrCat("LIDs ", info.lid_begin, " to ", std::max(info.lid_begin, info.lid_end));
  if (info.lid_begin == InformInfo::kAllLids) from = "all LIDs";
  if (!info.gid.IsZero()) from = info.gid.ToString();
  return absl::StrFormat("%s traps %s, types %s, producers %s, from %s", info.generic ? "generic" : "vendor",
                         OrAll(info.trap, InformInfo::kAllTraps), OrAll(info.type, InformInfo::kAllTypes),
                         OrAll(info.producer, InformInfo::kAllProducers), from);
}

Answer Show(const Subnet& subnet, const FabricServer& server, const LidFile* lids) {
  std::string text;
  for (const Subnet::PortStatus& port : subnet.Ports()) text += ShowPort(port);
  const Subnet::MadCounters mads = subnet.mad_counters();
  absl::StrAppendFormat(&text, "SM %s, lid %s: %u MADs answered (%u with an error, %u with a table), %u malformed\n",
                        subnet.sm_absent() ? "absent" : "present", subnet.sm_lid().ToString(), mads.sa.requests, mads.sa.errors,
                        mads.sa.tables, mads.sa.malformed);
  absl::StrAppendFormat(&text, "  reports %u: repeated %u, confirmed %u, given up %u\n", mads.notices.reports,
                        mads.notices.repeated, mads.notices.confirmed, mads.notices.given_up);
  absl::StrAppendFormat(&text, "agents of ports: SMPs answered %u, lost %u; counters asked for %u\n", mads.smp.requests,
                        mads.smp.lost, mads.pma.requests);
  if (lids != nullptr && !lids->status().ok()) {
    absl::StrAppend(&text, "LIDs will not survive a restart: ", absl::string_view(lids->status().message()), "\n");
  }
  const FabricServer::Counters& counters = server.counters();
  absl::StrAppendFormat(&text, "connections %u: accepted %u, refused %u, dropped for bad messages %u, for not reading %u\n",
                        server.clients(), counters.accepted, counters.refused, counters.malformed, counters.stuck);
  if (!server.last_error().empty()) absl::StrAppend(&text, "last dropped for: ", server.last_error(), "\n");
  for (const Fault& fault : subnet.Faults()) absl::StrAppend(&text, "fault ", FormatFault(fault), "\n");
  return text;
}

Answer Groups(const Subnet& subnet) {
  std::string text;
  for (const Subnet::GroupStatus& group : subnet.Groups()) {
    const McMemberRecord& record = group.record;
    absl::StrAppendFormat(&text, "%s mlid %s pkey %s qkey %s mtu %d rate %u sl %s\n", record.mgid.ToString(),
                          record.mlid.ToString(), record.pkey.ToString(), record.qkey.ToString(), MtuBytes(record.mtu),
                          record.rate, record.sl.ToString());
    for (const Subnet::GroupMember& member : group.members) {
      absl::StrAppend(&text, "  ", member.port, " lid ", member.lid.ToString(), JoinStates(member.join_state), "\n");
    }
  }
  return text;
}

Answer ShowSubscriptions(const Subnet& subnet) {
  std::string text;
  for (const Subnet::Subscriptions& port : subnet.AllSubscriptions()) {
    for (const InformInfo& info : port.infos) absl::StrAppend(&text, port.port, ": ", ShowSubscription(info), "\n");
  }
  return text;
}

Answer Services(const Subnet& subnet) {
  std::string text;
  for (const Subnet::ServiceStatus& service : subnet.Services()) {
    const ServiceRecord& record = service.record;
    const std::string lease = record.lease == ServiceRecord::kForever ? "forever" : absl::StrCat(record.lease, " s");
    absl::StrAppendFormat(&text, "%s: 0x%016x \"%s\" pkey %s lease %s\n", service.port, record.id,
                          absl::CHexEscape(record.name), record.pkey.ToString(), lease);
  }
  return text;
}

Answer Rings(const Subnet& subnet) {
  std::string text;
  for (const Subnet::RingStatus& ring : subnet.Rings()) {
    absl::StrAppendFormat(&text, "0x%x %s -> %s, %u bytes\n", ring.ring, ring.source, ring.destination, ring.capacity);
  }
  return text;
}

Answer Link(const Arguments& arguments, Subnet* subnet) {
  if (arguments[1] != "up" && arguments[1] != "down") {
    return absl::InvalidArgumentError(absl::StrCat("link ", arguments[0], " ", arguments[1], ": must be up or down"));
  }
  return Done(subnet->SetLink(arguments[0], arguments[1] == "up"));
}

Answer SetLid(const Arguments& arguments, Subnet* subnet) {
  const absl::StatusOr<Lid> lid = Lid::Parse(arguments[1]);
  if (!lid.ok()) return lid.status();
  return Done(subnet->SetLid(arguments[0], *lid));
}

Answer PartitionAdd(const Arguments& arguments, Subnet* subnet) {
  const absl::StatusOr<PKey> pkey = PKey::Parse(arguments[0]);
  if (!pkey.ok()) return pkey.status();
  if (arguments.size() == 3 && arguments[2] != "limited" && arguments[2] != "full") {
    return absl::InvalidArgumentError(absl::StrCat("membership ", arguments[2], ": must be limited or full"));
  }
  const bool limited = arguments.size() == 3 && arguments[2] == "limited";
  return Done(subnet->AddToPartition(*pkey, arguments[1], limited ? Membership::kLimited : Membership::kFull));
}

Answer PartitionRemove(const Arguments& arguments, Subnet* subnet) {
  const absl::StatusOr<PKey> pkey = PKey::Parse(arguments[0]);
  if (!pkey.ok()) return pkey.status();
  return Done(subnet->RemoveFromPartition(*pkey, arguments[1]));
}

Answer Sm(const Arguments& arguments, Subnet* subnet) {
  if (arguments[0] != "on" && arguments[0] != "off") {
    return absl::InvalidArgumentError(absl::StrCat("sm ", arguments[0], ": must be on, off, restart or move"));
  }
  subnet->SetSmAbsent(arguments[0] == "off");
  return Done(absl::OkStatus());
}

Answer MoveSm(const Arguments& arguments, Subnet* subnet) {
  const absl::StatusOr<Lid> lid = Lid::Parse(arguments[0]);
  if (!lid.ok()) return lid.status();
  return Done(subnet->MoveSm(*lid));
}

}  // namespace

void RegisterFabricCommands(Subnet* subnet, const FabricServer* server, const LidFile* lids, CommandRegistry* registry) {
  const auto add = [registry](const char* name, const char* usage, const char* help, size_t min, size_t max,
                              CommandRegistry::Handler handler) {
    registry->Register({name, usage, help, min, max, std::move(handler)});
  };
  add("show", "", "ports, their LIDs, P_Keys and counters", 0, 0,
      [=](const Arguments&) { return Show(*subnet, *server, lids); });
  add("groups", "", "multicast groups and their members", 0, 0, [=](const Arguments&) { return Groups(*subnet); });
  add("subscriptions", "", "subscriptions of ports to notices", 0, 0,
      [=](const Arguments&) { return ShowSubscriptions(*subnet); });
  add("services", "", "services that ports have registered (ServiceRecords)", 0, 0,
      [=](const Arguments&) { return Services(*subnet); });
  add("rings", "", "rings between ports", 0, 0, [=](const Arguments&) { return Rings(*subnet); });
  add("link", "PORT up|down", "set a port's link up or down", 2, 2, [=](const Arguments& a) { return Link(a, subnet); });
  add("lid", "PORT LID", "change a port's LID", 2, 2, [=](const Arguments& a) { return SetLid(a, subnet); });
  add("partition/add", "PKEY PORT|ALL [limited]", "make a port a member of a partition", 2, 3,
      [=](const Arguments& a) { return PartitionAdd(a, subnet); });
  add("partition/remove", "PKEY PORT|ALL", "withdraw a P_Key from a port", 2, 2,
      [=](const Arguments& a) { return PartitionRemove(a, subnet); });
  add("reregister", "PORT|ALL", "ask a port to join and subscribe again", 1, 1,
      [=](const Arguments& a) { return Done(subnet->Reregister(a[0])); });
  add("sm", "on|off", "start or stop answering as subnet manager and administrator", 1, 1,
      [=](const Arguments& a) { return Sm(a, subnet); });
  add("sm/restart", "", "forget groups, subscriptions and services, and have all ports reregister", 0, 0,
      [=](const Arguments&) {
        subnet->RestartSm();
        return Done(absl::OkStatus());
      });
  add("sm/move", "LID", "change the subnet manager's LID", 1, 1, [=](const Arguments& a) { return MoveSm(a, subnet); });
}

}  // namespace eoib::softhca
