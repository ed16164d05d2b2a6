#include "control/fdb_commands.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "fdb/fdb_event.h"

namespace eoib {
namespace {

using Arguments = CommandRegistry::Arguments;
using Text = absl::StatusOr<std::string>;

// The most entries of one VES in an answer to `fdb/show`: the control thread must not be busy with one command for long.
constexpr size_t kMostRows = 50'000;
// The most events in an answer to `fdb/monitor`.
constexpr size_t kMostEvents = 2000;
// The number of past events in the first answer to `fdb/monitor`.
constexpr uint64_t kHistory = 20;
static_assert(kHistory <= FdbEventLog::kRecentEvents);
constexpr size_t kMostHolders = 50;

const char* OriginName(const Fdb::Entry& entry) {
  if (entry.frozen) return "frozen";
  if (entry.sticky) return "sticky";
  switch (entry.origin) {
    case FdbOrigin::kRemoteLearned:
    case FdbOrigin::kLocalLearned:
    case FdbOrigin::kClaimed:
      return "learned";
    case FdbOrigin::kAnnounced:
      return "announced";
    case FdbOrigin::kStatic:
      return "static";
  }
  return "?";
}

bool Ages(const Fdb::Entry& entry) { return !entry.sticky && !entry.frozen && entry.origin < FdbOrigin::kAnnounced; }

std::string Name(FdbKey key) { return absl::StrCat(key.mac().ToString(), " in VLAN ", key.vid().ToString()); }
std::string Seconds(absl::Duration duration) { return absl::StrCat(absl::ToInt64Seconds(duration), " s"); }

absl::StatusOr<Vid> ParseVid(const std::string& text) {
  int value;
  if (absl::SimpleAtoi(text, &value) && value >= 0 && value <= Vid::kMax) return Vid(static_cast<uint16_t>(value));
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is no VLAN; it is a number from 0 (untagged) to ", Vid::kMax));
}

absl::StatusOr<FdbKey> ParseKey(const std::string& vlan, const std::string& mac) {
  const absl::StatusOr<Vid> vid = ParseVid(vlan);
  if (!vid.ok()) return vid.status();
  const absl::StatusOr<MacAddr> address = MacAddr::Parse(mac);
  if (!address.ok()) return address.status();
  return FdbKey(*vid, *address);
}

VPortId IdOf(const Ves& ves, const VPort& vport) { return ves.forwarder().ports()[vport.index].vport; }

absl::StatusOr<const VPort*> FindVPort(const Ves& ves, const std::string& name) {
  std::vector<std::string> names;
  for (const VPort& vport : ves.vports()) {
    if (vport.config.name == name) return &vport;
    names.push_back(vport.config.name);
  }
  return absl::NotFoundError(
      absl::StrCat("VES ", ves.config().name, " has no vPort \"", name, "\" here; there is: ", absl::StrJoin(names, ", ")));
}

// The port gets no frame of a VLAN that it does not carry, so an entry there would black-hole its frames.
absl::Status CheckCarries(const Ves& ves, const VPort& vport, Vid vid) {
  VlanSet carried;
  for (uint16_t i = 0; i <= Vid::kMax; ++i) {
    bool strip;
    if (ves.config().vlans.Contains(Vid(i)) && vport.config.vlan.Egress(Vid(i), &strip)) carried.Add(Vid(i));
  }
  if (carried.Contains(vid)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("vPort ", vport.config.name, " carries no VLAN ", vid.ToString(), " of VES ",
                                                 ves.config().name, "; it carries: ", carried.ToString()));
}

// The other agents' claims hold, so their entries are made again at once.
std::string Flushed(Ves* ves, size_t count) {
  ves->protocol()->Restore();
  return absl::StrCat("VES ", ves->config().name, ": ", count, " addresses flushed\n");
}

Text Flush(Ves* ves, const Arguments& arguments) {
  constexpr char kWhat[] = "flush VES, or flush VES with: vlan VID, vport NAME, sticky NAME";
  if (arguments.size() == 1) return Flushed(ves, ves->fdb()->Flush());
  if (arguments.size() == 2) return absl::InvalidArgumentError(kWhat);
  if (arguments[1] == "vlan") {
    const absl::StatusOr<Vid> vid = ParseVid(arguments[2]);
    if (!vid.ok()) return vid.status();
    return Flushed(ves, ves->fdb()->FlushVlan(*vid));
  }
  if (arguments[1] != "vport" && arguments[1] != "sticky") return absl::InvalidArgumentError(kWhat);
  const absl::StatusOr<const VPort*> vport = FindVPort(*ves, arguments[2]);
  if (!vport.ok()) return vport.status();
  const VPortId id = IdOf(*ves, **vport);
  return Flushed(ves, arguments[1] == "vport" ? ves->fdb()->FlushLearned(id) : ves->fdb()->FlushSticky(id));
}

// The place of a MAC; if it is announced or claimed, also its vPort and sequence number: "GID fe80::1 QPN 0x48
// (h2/web1, sequence 3)", "vPort web0 (sequence 4)".
std::string PlaceOf(const Ves& ves, const Fdb::Entry& entry) {
  const RemoteAgent* const agent = ves.protocol().AgentBehind(entry.vport);
  const AgentView& view = agent == nullptr ? ves.protocol().engine().own().current() : agent->view();
  const auto mac = view.macs.find(entry.key);
  const bool is_here = ves.directory().Get(entry.vport).kind == Route::Kind::kLocal;
  if (mac == view.macs.end() || (agent == nullptr && !is_here)) return ves.Behind(entry.vport);
  const std::string sequence = absl::StrCat("sequence ", mac->second.sequence);
  if (agent == nullptr) return absl::StrCat(ves.Place(entry.vport), " (", sequence, ")");
  const auto vport = view.vports.find(mac->second.vport);
  return absl::StrCat(ves.Place(entry.vport), " (", VesProtocol::HostOf(*agent), vport == view.vports.end() ? "" : "/",
                      vport == view.vports.end() ? "" : vport->second.name, ", ", sequence, ")");
}

// From the start, or after the last entry of the previous answer.
Text ShowFrom(Ves* ves, const Arguments& arguments) {
  if (arguments.size() == 1) return ShowFdb(*ves);
  if (arguments.size() == 2)
    return absl::InvalidArgumentError("show all entries, or those after a VLAN and a MAC: VES [VLAN MAC]");
  const absl::StatusOr<FdbKey> key = ParseKey(arguments[1], arguments[2]);
  if (!key.ok()) return key.status();
  return ShowFdb(*ves, *key);
}

Text Thaw(Ves* ves, const Arguments& arguments) {
  const absl::StatusOr<FdbKey> key = ParseKey(arguments[1], arguments[2]);
  if (!key.ok()) return key.status();
  if (ves->fdb()->Thaw(*key)) return absl::StrCat(Name(*key), " may move again\n");
  return absl::NotFoundError(absl::StrCat(Name(*key), " is not frozen; `fdb frozen` lists those that are"));
}

Text Add(Ves* ves, const Arguments& arguments) {
  const absl::StatusOr<FdbKey> key = ParseKey(arguments[1], arguments[2]);
  if (!key.ok()) return key.status();
  const absl::StatusOr<const VPort*> vport = FindVPort(*ves, arguments[3]);
  if (!vport.ok()) return vport.status();
  absl::Status status = CheckCarries(*ves, **vport, key->vid());
  if (status.ok()) status = ves->fdb()->AddStatic(*key, IdOf(*ves, **vport));
  if (!status.ok()) return status;
  return absl::StrCat(Name(*key), " is at vPort ", arguments[3], " until it is deleted or the agent ends\n");
}

Text Delete(Ves* ves, const Arguments& arguments) {
  const absl::StatusOr<FdbKey> key = ParseKey(arguments[1], arguments[2]);
  if (!key.ok()) return key.status();
  absl::Status status = ves->fdb()->RemoveStatic(*key);
  if (!status.ok()) return status;
  ves->protocol()->Restore();
  return absl::StrCat(Name(*key), " is learned again where it is heard\n");
}

std::string ShowFdbStats(const Ves& ves) {
  const Fdb& fdb = ves.fdb();
  std::string text = absl::StrCat("VES ", ves.config().name, ": ", fdb.size(), " of ", fdb.options().limit, " addresses, ",
                                  fdb.memory_bytes(), " bytes");
  if (const FdbBudget* budget = fdb.options().budget) {
    absl::StrAppend(&text, "; all VESes: ", budget->used(), " of ", budget->limit());
  }
  text += "\n";
  const FdbCounters counters = fdb.counters();
#define EOIB_X(member, help) absl::StrAppendFormat(&text, "  %-16s %10d  %s\n", #member, counters.member, help);
  EOIB_FDB_COUNTERS(EOIB_X)
#undef EOIB_X
  const std::vector<Fdb::Holding> holdings = fdb.Holdings();
  absl::StrAppendFormat(&text, "  %8s  %8s  %8s  %8s  %s\n", "learned", "pinned", "static", "limit", "vPort");
  for (size_t i = 0; i < std::min(holdings.size(), kMostHolders); ++i) {
    const Fdb::Holding& row = holdings[i];
    absl::StrAppendFormat(&text, "  %8d  %8d  %8d  %8d  %s\n", row.dynamic, row.pinned, row.fixed, row.limit,
                          ves.Behind(row.vport));
  }
  if (holdings.size() > kMostHolders) absl::StrAppend(&text, "  and ", holdings.size() - kMostHolders, " more vPorts\n");
  return text;
}

std::string ShowFrozen(const Ves& ves) {
  std::string text =
      absl::StrFormat("VES %s\n%5s  %-17s  %6s  %6s  %s\n", ves.config().name, "VLAN", "MAC", "since", "left", "at");
  const absl::Time now = ves.clock().Now();
  for (const auto& [key, frozen] : ves.fdb().frozen()) {
    const bool ends = frozen.until != absl::InfiniteFuture();
    absl::StrAppendFormat(&text, "%5s  %-17s  %6s  %6s  %s, and was heard from %s\n", key.vid().ToString(),
                          key.mac().ToString(), Seconds(now - frozen.since), ends ? Seconds(frozen.until - now) : "-",
                          ves.Behind(frozen.at), ves.Behind(frozen.claimant));
  }
  return text;
}

std::string Describe(const FdbEvent& event, const Ves& ves) {
  const std::string name = Name(event.key), from = ves.Behind(event.from), to = ves.Behind(event.to);
  switch (event.kind) {
    case FdbEvent::Kind::kLearned:
      return absl::StrCat("learned    ", name, " at ", to);
    case FdbEvent::Kind::kMoved:
      return absl::StrCat("moved      ", name, " from ", from, " to ", to);
    case FdbEvent::Kind::kAged:
      return absl::StrCat("aged       ", name, " at ", from);
    case FdbEvent::Kind::kEvicted:
      return absl::StrCat("evicted    ", name, " at ", from, event.to.IsNone() ? "" : absl::StrCat(", for one at ", to));
    case FdbEvent::Kind::kFlushed:
      switch (event.scope) {
        case FdbEvent::Scope::kEntry:
          return absl::StrCat("withdrawn  ", name, " at ", from);
        case FdbEvent::Scope::kVPort:
          return absl::StrCat("flushed    ", event.count, " addresses at ", from);
        case FdbEvent::Scope::kVlan:
          return absl::StrCat("flushed    ", event.count, " addresses in VLAN ", event.key.vid().ToString());
        case FdbEvent::Scope::kAll:
          return absl::StrCat("flushed    ", event.count, " addresses");
      }
      break;
    case FdbEvent::Kind::kFrozen:
      return absl::StrCat("frozen     ", name, " at ", from, ", its home: it moved too often, and was heard from ", to);
    case FdbEvent::Kind::kThawed:
      return absl::StrCat("thawed     ", name, " at ", from);
    case FdbEvent::Kind::kFlapping:
      return absl::StrCat("flapping   ", name, " moved too often, the last time from ", from, " to ", to);
    case FdbEvent::Kind::kRefused:
      return absl::StrCat("refused    ", name, " from ", to, ": it is kept at ", from);
    case FdbEvent::Kind::kFixed:
      return absl::StrCat("fixed      ", name, " at ", to);
    case FdbEvent::Kind::kUnfixed:
      return absl::StrCat("unfixed    ", name, " at ", from);
    case FdbEvent::Kind::kAnnounced:
      if (!event.from.IsNone()) return absl::StrCat("moved      ", name, " from ", from, " to ", to);
      return absl::StrCat("announced  ", name, " at ", to);
    case FdbEvent::Kind::kNote:
      return ves.journal().TextOf(event.count);
  }
  return "?";
}

// The first line gives the number of the next event and whether there are more already; the rest is text to print.
Text Monitor(Ves* ves, const Arguments& arguments) {
  ves->fdb()->Watch();  // makes the ring large, so take the ring afterwards
  const FdbEvents& events = ves->fdb()->events();
  uint64_t next = events.end() - std::min(events.end(), kHistory);
  if (arguments.size() == 2 && !absl::SimpleAtoi(arguments[1], &next)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", arguments[1],
                                                   "\" is no number of an event; the first line of the "
                                                   "answer before says which is next"));
  }
  std::vector<FdbEvent> some;
  const uint64_t lost = events.Read(&next, kMostEvents, &some);
  std::string text = absl::StrCat(some.size() == kMostEvents ? "more " : "next ", next, "\n");
  if (lost != 0) absl::StrAppend(&text, lost, " events before these were lost: they came faster than they were read\n");
  // Events have the time of the monotonic clock; the operator wants the time of day.
  const absl::Time now = ves->clock().Now(), date = absl::Now();
  for (const FdbEvent& event : some) {
    const absl::Time at = date - (now - absl::FromUnixNanos(static_cast<int64_t>(event.nanoseconds)));
    absl::StrAppend(&text, absl::FormatTime("%H:%M:%E3S ", at, absl::LocalTimeZone()), Describe(event, *ves), "\n");
  }
  return text;
}

}  // namespace

std::string ShowFdb(const Ves& ves, absl::optional<FdbKey> after) {
  std::string text;
  if (!after.has_value()) {
    text = absl::StrFormat("VES %s\n%5s  %-17s  %-9s  %6s  %s\n", ves.config().name, "VLAN", "MAC", "origin", "age", "behind");
  }
  const std::vector<Fdb::Entry> rows = ves.fdb().Dump(after, kMostRows);
  for (const Fdb::Entry& entry : rows) {
    absl::StrAppendFormat(&text, "%5s  %-17s  %-9s  %6s  %s\n", entry.key.vid().ToString(), entry.key.mac().ToString(),
                          OriginName(entry), Ages(entry) ? absl::StrCat(absl::ToInt64Seconds(entry.age)) : "-",
                          PlaceOf(ves, entry));
  }
  if (rows.size() == kMostRows) {
    const FdbKey last = rows.back().key;
    absl::StrAppend(&text, "more: fdb show ", ves.config().name, " ", last.vid().ToString(), " ", last.mac().ToString(), "\n");
  }
  return text;
}

void RegisterFdbCommands(const VesFinder& finder, CommandRegistry* registry) {
  using ChangeOne = Text (*)(Ves*, const Arguments&);
  const auto change = [&finder](ChangeOne one) {
    return [finder, one](const Arguments& arguments) -> Text {
      const absl::StatusOr<std::vector<Ves*>> veses = finder(arguments[0]);
      return veses.ok() ? one(veses->front(), arguments) : veses.status();
    };
  };
  registry->Register({"fdb/show", "[VES [VLAN MAC]]", "all MACs and their places, or those after VLAN MAC", 0, 3,
                      [all = ForVeses(finder, [](const Ves& ves) { return ShowFdb(ves); }), one = change(ShowFrom)](
                          const Arguments& arguments) { return arguments.empty() ? all(arguments) : one(arguments); }});
  registry->Register(
      {"fdb/stats", "[VES]", "limits, counters, and the number of MACs of each vPort", 0, 1, ForVeses(finder, ShowFdbStats)});
  registry->Register(
      {"fdb/frozen", "[VES]", "MACs that moved too often and are held at their homes", 0, 1, ForVeses(finder, ShowFrozen)});
  registry->Register({"fdb/flush", "VES [vlan VID | vport NAME | sticky NAME]", "flush learned MACs", 1, 3, change(Flush)});
  registry->Register({"fdb/thaw", "VES VLAN MAC", "let a frozen MAC move again", 3, 3, change(Thaw)});
  registry->Register({"fdb/add", "VES VLAN MAC VPORT", "add a static entry", 4, 4, change(Add)});
  registry->Register({"fdb/del", "VES VLAN MAC", "remove a static entry", 3, 3, change(Delete)});
  registry->Register(
      {"fdb/monitor", "VES [NEXT]", "events of MACs; eoibctl follows them until it is interrupted", 1, 2, change(Monitor)});
}

}  // namespace eoib
