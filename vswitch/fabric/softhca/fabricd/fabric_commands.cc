#include "vswitch/fabric/softhca/fabricd/fabric_commands.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "vswitch/fabric/softhca/fabricd/fault_commands.h"
#include "vswitch/fabric/softhca/subnet/subnet_config.h"

namespace eoib::softhca {
namespace {

absl::StatusOr<std::string> Done(const absl::Status& status) {
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

}  // namespace

void FabricCommands::Register(CommandRegistry* registry) {
  const auto add = [registry](const char* name, const char* usage, const char* help, size_t min, size_t max,
                              CommandRegistry::Handler handler) {
    registry->Register({name, usage, help, min, max, std::move(handler)});
  };
  add("show", "", "ports, their LIDs, P_Keys and counters", 0, 0, [this](const Arguments&) { return Show(); });
  add("groups", "", "multicast groups and their members", 0, 0, [this](const Arguments&) { return Groups(); });
  add("subscriptions", "", "subscriptions of ports to notices", 0, 0, [this](const Arguments&) { return ShowSubscriptions(); });
  add("rings", "", "rings between ports", 0, 0, [this](const Arguments&) { return Rings(); });
  add("link", "PORT up|down", "set a port's link up or down", 2, 2, [this](const Arguments& a) { return Link(a); });
  add("lid", "PORT LID", "change a port's LID", 2, 2, [this](const Arguments& a) { return SetLid(a); });
  add("partition/add", "PKEY PORT|ALL [limited]", "make a port a member of a partition", 2, 3,
      [this](const Arguments& a) { return PartitionAdd(a); });
  add("partition/remove", "PKEY PORT|ALL", "withdraw a P_Key from a port", 2, 2,
      [this](const Arguments& a) { return PartitionRemove(a); });
  add("reregister", "PORT|ALL", "ask a port to join and subscribe again", 1, 1,
      [this](const Arguments& a) { return Done(subnet_->Reregister(a[0])); });
  add("sm", "on|off", "start or stop answering as subnet manager and administrator", 1, 1,
      [this](const Arguments& a) { return Sm(a); });
  add("sm/restart", "", "forget groups and subscriptions, and have all ports reregister", 0, 0, [this](const Arguments&) {
    subnet_->RestartSm();
    return Done(absl::OkStatus());
  });
  add("sm/move", "LID", "change the subnet manager's LID", 1, 1, [this](const Arguments& a) { return MoveSm(a); });
}

FabricCommands::Answer FabricCommands::Show() const {
  std::string text;
  for (const Subnet::PortStatus& port : subnet_->Ports()) text += ShowPort(port);
  const Subnet::MadCounters mads = subnet_->mad_counters();
  absl::StrAppendFormat(&text, "SM %s, lid %s: %u MADs answered (%u with an error, %u with a table), %u malformed\n",
                        subnet_->sm_absent() ? "absent" : "present", subnet_->sm_lid().ToString(), mads.sa.requests,
                        mads.sa.errors, mads.sa.tables, mads.sa.malformed);
  absl::StrAppendFormat(&text, "  reports %u: repeated %u, confirmed %u, given up %u, not made %u\n", mads.notices.reports,
                        mads.notices.repeated, mads.notices.confirmed, mads.notices.given_up, mads.notices.overflows);
  absl::StrAppendFormat(&text, "agents of ports: SMPs answered %u, lost %u; counters asked for %u\n", mads.smp.requests,
                        mads.smp.lost, mads.pma.requests);
  if (lids_ != nullptr && !lids_->status().ok()) {
    absl::StrAppend(&text, "LIDs will not survive a restart: ", absl::string_view(lids_->status().message()), "\n");
  }
  const FabricServer::Counters& counters = server_->counters();
  absl::StrAppendFormat(&text, "connections %u: accepted %u, refused %u, dropped for bad messages %u, for not reading %u\n",
                        server_->clients(), counters.accepted, counters.refused, counters.malformed, counters.stuck);
  if (!server_->last_error().empty()) absl::StrAppend(&text, "last dropped for: ", server_->last_error(), "\n");
  for (const Fault& fault : subnet_->Faults()) absl::StrAppend(&text, "fault ", FormatFault(fault), "\n");
  return text;
}

FabricCommands::Answer FabricCommands::Groups() const {
  std::string text;
  for (const Subnet::GroupStatus& group : subnet_->Groups()) {
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

FabricCommands::Answer FabricCommands::ShowSubscriptions() const {
  std::string text;
  for (const Subnet::Subscriptions& port : subnet_->AllSubscriptions()) {
    for (const InformInfo& info : port.infos) absl::StrAppend(&text, port.port, ": ", ShowSubscription(info), "\n");
  }
  return text;
}

FabricCommands::Answer FabricCommands::Rings() const {
  std::string text;
  for (const Subnet::RingStatus& ring : subnet_->Rings()) {
    absl::StrAppendFormat(&text, "0x%x %s -> %s, %u bytes\n", ring.ring, ring.source, ring.destination, ring.capacity);
  }
  return text;
}

FabricCommands::Answer FabricCommands::Link(const Arguments& arguments) {
  if (arguments[1] != "up" && arguments[1] != "down") {
    return absl::InvalidArgumentError(absl::StrCat("link ", arguments[0], " ", arguments[1], ": must be up or down"));
  }
  return Done(subnet_->SetLink(arguments[0], arguments[1] == "up"));
}

FabricCommands::Answer FabricCommands::SetLid(const Arguments& arguments) {
  const absl::StatusOr<Lid> lid = Lid::Parse(arguments[1]);
  if (!lid.ok()) return lid.status();
  return Done(subnet_->SetLid(arguments[0], *lid));
}

FabricCommands::Answer FabricCommands::PartitionAdd(const Arguments& arguments) {
  const absl::StatusOr<PKey> pkey = PKey::Parse(arguments[0]);
  if (!pkey.ok()) return pkey.status();
  if (arguments.size() == 3 && arguments[2] != "limited" && arguments[2] != "full") {
    return absl::InvalidArgumentError(absl::StrCat("membership ", arguments[2], ": must be limited or full"));
  }
  const bool limited = arguments.size() == 3 && arguments[2] == "limited";
  return Done(subnet_->AddToPartition(*pkey, arguments[1], limited ? Membership::kLimited : Membership::kFull));
}

FabricCommands::Answer FabricCommands::PartitionRemove(const Arguments& arguments) {
  const absl::StatusOr<PKey> pkey = PKey::Parse(arguments[0]);
  if (!pkey.ok()) return pkey.status();
  return Done(subnet_->RemoveFromPartition(*pkey, arguments[1]));
}

FabricCommands::Answer FabricCommands::Sm(const Arguments& arguments) {
  if (arguments[0] != "on" && arguments[0] != "off") {
    return absl::InvalidArgumentError(absl::StrCat("sm ", arguments[0], ": must be on, off, restart or move"));
  }
  subnet_->SetSmAbsent(arguments[0] == "off");
  return Done(absl::OkStatus());
}

FabricCommands::Answer FabricCommands::MoveSm(const Arguments& arguments) {
  const absl::StatusOr<Lid> lid = Lid::Parse(arguments[0]);
  if (!lid.ok()) return lid.status();
  return Done(subnet_->MoveSm(*lid));
}

}  // namespace eoib::softhca
