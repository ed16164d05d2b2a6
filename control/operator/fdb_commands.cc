#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "control/operator/fdb_rows.h"
#include "control/operator/fdb_target.h"
#include "control/operator/ves_commands.h"
#include "fdb/fdb_event.h"
#include "vswitch/base/daemon/counter_text.h"

namespace eoib {
namespace {

using Arguments = CommandRegistry::Arguments;

// The most events in an answer to `fdb/monitor`.
constexpr size_t kMostEvents = 2000;
// The number of past events in the first answer to `fdb/monitor`.
constexpr uint64_t kHistory = 20;
static_assert(kHistory <= FdbEventLog::kRecentEvents);
constexpr size_t kMostHolders = 50;

std::string Name(FdbKey key) {
  return absl::StrCat(key.mac().ToString(), " in VLAN ", key.vid().ToString());
}

VPortId IdOf(const Ves& ves, const VPort& vport) {
  return ves.forwarder().ports()[vport.index].vport;
}

// The port gets no frame of a VLAN that it does not carry, so an entry there would black-hole its
// frames.
absl::Status CheckCarries(const Ves& ves, const VPort& vport, Vid vid) {
  VlanSet carried;
  for (uint16_t i = 0; i <= Vid::kMax; ++i) {
    bool strip;
    if (ves.config().vlans.Contains(Vid(i)) && vport.config.vlan.Egress(Vid(i), &strip))
      carried.Add(Vid(i));
  }
  if (carried.Contains(vid)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("vPort ", vport.config.name, " carries no VLAN ",
                                                 vid.ToString(), " of VES ", ves.config().name,
                                                 "; it carries: ", carried.ToString()));
}

// The other agents' claims hold, so their entries are made again at once.
Answer Flushed(Ves* ves, size_t count) {
  ves->protocol()->Restore();
  return Answer({{"ves", ves->config().name}, {"flushed", count}}, [](const Json& json) {
    return absl::StrCat("VES ", TextOf(json, "ves"), ": ", TextOf(json, "flushed"),
                        " addresses flushed\n");
  });
}

absl::StatusOr<Answer> Flush(Ves* ves, const Arguments& arguments) {
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
  return Flushed(
      ves, arguments[1] == "vport" ? ves->fdb()->FlushLearned(id) : ves->fdb()->FlushSticky(id));
}

// The first part of the entries, or the one behind that of the previous answer.
absl::StatusOr<Answer> Show(const VesFinder& finder, const Arguments& arguments) {
  if (arguments.size() == 2) {
    return absl::InvalidArgumentError(
        "show the first entries, or the next ones as the answer before says: VES [VLAN MAC]");
  }
  const absl::StatusOr<std::vector<Ves*>> veses = finder(arguments.empty() ? "" : arguments[0]);
  if (!veses.ok()) return veses.status();
  absl::optional<FdbKey> after;
  if (arguments.size() == 3) {
    const absl::StatusOr<FdbKey> key = ParseFdbKey(arguments[1], arguments[2]);
    if (!key.ok()) return key.status();
    after = *key;
  }
  return FdbAnswer(ReadFdb(*veses, after), !after.has_value());
}

absl::StatusOr<Answer> GetTarget(const FdbTarget& target) {
  const Ves& ves = *target.ves;
  const absl::optional<Fdb::Entry> entry = ves.fdb().Get(target.key);
  if (entry.has_value()) return FdbRowAnswer(ves, *entry);
  return absl::NotFoundError(absl::StrCat("VES ", ves.config().name, " does not know ",
                                          Name(target.key), ": frames for it flood"));
}

// The entries of a MAC, in all VLANs.
std::vector<FdbPart> FindMac(const std::vector<Ves*>& veses, MacAddr mac) {
  std::vector<FdbPart> parts;
  for (const Ves* ves : veses) {
    FdbPart part{ves, {}};
    for (uint16_t vid = 0; vid <= Vid::kMax; ++vid) {
      if (auto entry = ves->fdb().Get(FdbKey(Vid(vid), mac))) part.rows.entries.push_back(*entry);
    }
    if (!part.rows.entries.empty()) parts.push_back(std::move(part));
  }
  return parts;
}

absl::StatusOr<Answer> Find(const VesFinder& finder, const Arguments& arguments) {
  const absl::StatusOr<MacAddr> mac = MacAddr::Parse(arguments[0]);
  if (!mac.ok()) return mac.status();
  const absl::StatusOr<std::vector<Ves*>> veses = finder("");
  if (!veses.ok()) return veses.status();
  std::vector<FdbPart> parts = FindMac(*veses, *mac);
  if (parts.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no VES knows ", mac->ToString(), " in any VLAN: frames for it flood"));
  }
  return FdbAnswer(std::move(parts), true);
}

// A MAC alone is looked for everywhere, and most are at one place.
absl::StatusOr<Answer> Get(const VesFinder& finder, const Arguments& arguments) {
  const absl::StatusOr<MacAddr> mac = MacAddr::Parse(arguments[0]);
  if (arguments.size() > 1 || !mac.ok()) {
    const absl::StatusOr<FdbTarget> target = FdbTarget::Parse(finder, arguments);
    return target.ok() ? GetTarget(*target) : target.status();
  }
  const absl::StatusOr<std::vector<Ves*>> veses = finder("");
  if (!veses.ok()) return veses.status();
  const std::vector<FdbPart> parts = FindMac(*veses, *mac);
  if (parts.size() == 1 && parts[0].rows.entries.size() == 1)
    return FdbRowAnswer(*parts[0].ves, parts[0].rows.entries[0]);
  if (parts.empty()) return Find(finder, arguments);
  std::vector<std::string> places;
  for (const FdbPart& part : parts) {
    for (const Fdb::Entry& entry : part.rows.entries)
      places.push_back(
          absl::StrCat("VLAN ", entry.key.vid().ToString(), " of VES ", part.ves->config().name));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(mac->ToString(), " is known in ", absl::StrJoin(places, ", "),
                   "; name one (`fdb get VES VLAN MAC`), or see all by `fdb find`"));
}

absl::StatusOr<Answer> Thaw(const FdbTarget& target) {
  if (target.ves->fdb()->Thaw(target.key))
    return absl::StrCat(Name(target.key), " may move again\n");
  return absl::NotFoundError(
      absl::StrCat(Name(target.key), " is not frozen; `fdb frozen` lists those that are"));
}

absl::StatusOr<Answer> Add(const FdbTarget& target) {
  if (target.vport == nullptr)
    return absl::InvalidArgumentError("name the vPort: VES VLAN MAC VPORT, or MAC dev VPORT");
  absl::Status status = CheckCarries(*target.ves, *target.vport, target.key.vid());
  if (status.ok())
    status = target.ves->fdb()->AddStatic(target.key, IdOf(*target.ves, *target.vport));
  if (!status.ok()) return status;
  return absl::StrCat(Name(target.key), " is at vPort ", target.vport->config.name,
                      " until it is deleted or the agent ends\n");
}

absl::StatusOr<Answer> Delete(const FdbTarget& target) {
  absl::Status status = target.ves->fdb()->RemoveStatic(target.key);
  if (!status.ok()) return status;
  target.ves->protocol()->Restore();
  return absl::StrCat(Name(target.key), " is learned again where it is heard\n");
}

// ---- fdb/stats ----------------------------------------------------------------------------------

Json FdbStatsJson(const Ves& ves) {
  const Fdb& fdb = ves.fdb();
  Json json = {{"name", ves.config().name},
               {"entries", fdb.size()},
               {"limit", fdb.options().limit},
               {"memory_bytes", fdb.memory_bytes()}};
  json["counters"] = ExplainedCounters(fdb.counters());
  const std::vector<Fdb::Holding> holdings = fdb.Holdings();
  json["vports"] = Json::array();
  for (size_t i = 0; i < std::min(holdings.size(), kMostHolders); ++i) {
    const Fdb::Holding& row = holdings[i];
    json["vports"].push_back({{"learned", row.dynamic},
                              {"pinned", row.pinned},
                              {"static", row.fixed},
                              {"limit", row.limit},
                              {"vport", ves.Behind(row.vport)}});
  }
  json["more_vports"] = holdings.size() - std::min(holdings.size(), kMostHolders);
  return json;
}

std::string FdbStatsText(const Json& ves) {
  std::string text =
      absl::StrCat("VES ", TextOf(ves, "name"), ": ", TextOf(ves, "entries"), " of ",
                   TextOf(ves, "limit"), " addresses, ", TextOf(ves, "memory_bytes"), " bytes\n");
  text += ExplainedText(ves["counters"], {16, 10});
  absl::StrAppendFormat(&text, "  %8s  %8s  %8s  %8s  %s\n", "learned", "pinned", "static", "limit",
                        "vPort");
  for (const Json& row : ves["vports"]) {
    absl::StrAppendFormat(&text, "  %8s  %8s  %8s  %8s  %s\n", TextOf(row, "learned"),
                          TextOf(row, "pinned"), TextOf(row, "static"), TextOf(row, "limit"),
                          TextOf(row, "vport"));
  }
  if (ves["more_vports"] != 0)
    absl::StrAppend(&text, "  and ", TextOf(ves, "more_vports"), " more vPorts\n");
  return text;
}

// ---- fdb/frozen ---------------------------------------------------------------------------------

Json FrozenJson(const Ves& ves) {
  Json rows = Json::array();
  const absl::Time now = ves.clock().Now();
  for (const auto& [key, frozen] : ves.fdb().frozen()) {
    Json row = {{"vlan", key.vid().value()}, {"mac", key.mac().ToString()}};
    row["since_s"] = absl::ToInt64Seconds(now - frozen.since);
    if (frozen.until != absl::InfiniteFuture())
      row["left_s"] = absl::ToInt64Seconds(frozen.until - now);
    row["home"] = ves.Behind(frozen.at);
    row["heard_at"] = ves.Behind(frozen.claimant);
    rows.push_back(std::move(row));
  }
  return {{"name", ves.config().name}, {"frozen", std::move(rows)}};
}

std::string FrozenText(const Json& ves) {
  std::string text = absl::StrFormat("VES %s\n%5s  %-17s  %6s  %6s  %s\n", TextOf(ves, "name"),
                                     "VLAN", "MAC", "since", "left", "at");
  for (const Json& row : ves["frozen"]) {
    absl::StrAppendFormat(&text, "%5s  %-17s  %6s  %6s  %s, and was heard from %s\n",
                          TextOf(row, "vlan"), TextOf(row, "mac"), TextOf(row, "since_s") + " s",
                          row.contains("left_s") ? TextOf(row, "left_s") + " s" : "-",
                          TextOf(row, "home"), TextOf(row, "heard_at"));
  }
  return text;
}

// ---- fdb/monitor --------------------------------------------------------------------------------

std::string Describe(const FdbEvent& event, const Ves& ves) {
  const std::string name = Name(event.key), from = ves.Behind(event.from),
                    to = ves.Behind(event.to);
  switch (event.kind) {
    case FdbEvent::Kind::kLearned:
      return absl::StrCat("learned    ", name, " at ", to);
    case FdbEvent::Kind::kMoved:
      return absl::StrCat("moved      ", name, " from ", from, " to ", to);
    case FdbEvent::Kind::kAged:
      return absl::StrCat("aged       ", name, " at ", from);
    case FdbEvent::Kind::kEvicted:
      return absl::StrCat("evicted    ", name, " at ", from,
                          event.to.IsNone() ? "" : absl::StrCat(", for one at ", to));
    case FdbEvent::Kind::kFlushed:
      switch (event.scope) {
        case FdbEvent::Scope::kEntry:
          return absl::StrCat("withdrawn  ", name, " at ", from);
        case FdbEvent::Scope::kVPort:
          return absl::StrCat("flushed    ", event.count, " addresses at ", from);
        case FdbEvent::Scope::kVlan:
          return absl::StrCat("flushed    ", event.count, " addresses in VLAN ",
                              event.key.vid().ToString());
        case FdbEvent::Scope::kAll:
          return absl::StrCat("flushed    ", event.count, " addresses");
      }
      break;
    case FdbEvent::Kind::kFrozen:
      return absl::StrCat("frozen     ", name, " at ", from,
                          ", its home: it moved too often, and was heard from ", to);
    case FdbEvent::Kind::kThawed:
      return absl::StrCat("thawed     ", name, " at ", from);
    case FdbEvent::Kind::kFlapping:
      return absl::StrCat("flapping   ", name, " moved too often, the last time from ", from,
                          " to ", to);
    case FdbEvent::Kind::kRefused:
      return absl::StrCat("refused    ", name, " from ", to, ": it is kept at ", from);
    case FdbEvent::Kind::kFixed:
      return absl::StrCat("fixed      ", name, " at ", to);
    case FdbEvent::Kind::kUnfixed:
      return absl::StrCat("unfixed    ", name, " at ", from);
    case FdbEvent::Kind::kAnnounced:
      if (!event.from.IsNone())
        return absl::StrCat("moved      ", name, " from ", from, " to ", to);
      return absl::StrCat("announced  ", name, " at ", to);
    case FdbEvent::Kind::kNote:
      return ves.journal().TextOf(event.count);
  }
  return "?";
}

// {"event": "learned", "text": "02:00:00:00:00:0a in VLAN 0 at vPort web0"}
Json EventJson(const FdbEvent& event, const Ves& ves, absl::Time at) {
  const std::pair<std::string, std::string> words =
      absl::StrSplit(Describe(event, ves), absl::MaxSplits(' ', 1));
  Json json = {{"time", absl::FormatTime("%Y-%m-%dT%H:%M:%E3S%Ez", at, absl::LocalTimeZone())},
               {"event", words.first}};
  if (event.kind != FdbEvent::Kind::kNote && event.scope == FdbEvent::Scope::kEntry) {
    json["vlan"] = event.key.vid().value();
    json["mac"] = event.key.mac().ToString();
  }
  json["text"] = std::string(absl::StripLeadingAsciiWhitespace(words.second));
  return json;
}

// The first line gives the number of the next event and whether there are more already; the rest is
// text to print.
std::string EventsText(const Json& answer) {
  std::string text =
      absl::StrCat(answer["more"] == true ? "more " : "next ", TextOf(answer, "next"), "\n");
  if (answer["lost"] != 0) {
    absl::StrAppend(&text, TextOf(answer, "lost"),
                    " events before these were lost: they came faster than they were read\n");
  }
  for (const Json& event : answer["events"]) {
    const std::string time = TextOf(event, "time").substr(0, sizeof("2026-01-01T12:00:00.000") - 1);
    absl::StrAppendFormat(&text, "%s %-10s %s\n", time, TextOf(event, "event"),
                          TextOf(event, "text"));
  }
  return text;
}

absl::StatusOr<Answer> Monitor(Ves* ves, const Arguments& arguments) {
  ves->fdb()->Watch();  // makes the ring large, so take the ring afterwards
  const FdbEvents& events = ves->fdb()->events();
  uint64_t next = events.end() - std::min(events.end(), kHistory);
  if (arguments.size() == 2 && !absl::SimpleAtoi(arguments[1], &next)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", arguments[1],
                     "\" is no number of an event; the first line of the "
                     "answer before says which is next"));
  }
  std::vector<FdbEvent> some;
  const uint64_t lost = events.Read(&next, kMostEvents, &some);
  Json rows = Json::array();
  // Events have the time of the monotonic clock; the operator wants the time of day.
  const absl::Time now = ves->clock().Now(), date = absl::Now();
  for (const FdbEvent& event : some) {
    rows.push_back(EventJson(
        event, *ves, date - (now - absl::FromUnixNanos(static_cast<int64_t>(event.nanoseconds)))));
  }
  return Answer({{"next", next},
                 {"more", some.size() == kMostEvents},
                 {"lost", lost},
                 {"events", std::move(rows)}},
                EventsText);
}

}  // namespace

void RegisterFdbCommands(const VesFinder& finder, CommandRegistry* registry) {
  using enum CommandRegistry::Access;
  const auto with_ves = [&finder](absl::StatusOr<Answer> (*run)(Ves*, const Arguments&)) {
    return [finder, run](const Arguments& arguments) -> absl::StatusOr<Answer> {
      const absl::StatusOr<std::vector<Ves*>> veses = finder(arguments[0]);
      return veses.ok() ? run(veses->front(), arguments) : veses.status();
    };
  };
  const auto with_mac = [&finder](absl::StatusOr<Answer> (*run)(const FdbTarget&)) {
    return [finder, run](const Arguments& arguments) -> absl::StatusOr<Answer> {
      const absl::StatusOr<FdbTarget> target = FdbTarget::Parse(finder, arguments);
      return target.ok() ? run(*target) : target.status();
    };
  };
  registry->Register({
      {"fdb/show", "[VES [VLAN MAC]]",
       "all MACs and their places, in parts: behind VLAN MAC the next one", kReadOnly, "fdb_show",
       [finder](const Arguments& arguments) { return Show(finder, arguments); }},
      {"fdb/get", FdbTarget::kUsage, "the place of one MAC", kReadOnly, "fdb_entry",
       [finder](const Arguments& arguments) { return Get(finder, arguments); }},
      {"fdb/find", "MAC", "the places of one MAC, in all VESes and VLANs", kReadOnly, "fdb_show",
       [finder](const Arguments& arguments) { return Find(finder, arguments); }},
      {"fdb/stats", "[VES]", "limits, counters, and the number of MACs of each vPort", kReadOnly,
       "fdb_stats", ForVeses(finder, FdbStatsJson, FdbStatsText)},
      {"fdb/frozen", "[VES]", "MACs that moved too often and are held at their homes", kReadOnly,
       "fdb_frozen", ForVeses(finder, FrozenJson, FrozenText)},
      {"fdb/flush", "VES [vlan VID | vport NAME | sticky NAME]", "flush learned MACs", kReadWrite,
       "fdb_flush", with_ves(Flush)},
      {"fdb/thaw", FdbTarget::kUsage, "let a frozen MAC move again", kReadWrite, "message",
       with_mac(Thaw)},
      {"fdb/add", FdbTarget::kUsageWithVPort, "add a static entry", kReadWrite, "message",
       with_mac(Add)},
      {"fdb/del", FdbTarget::kUsage, "remove a static entry", kReadWrite, "message",
       with_mac(Delete)},
      {"fdb/monitor", "VES [NEXT]", "events of MACs; eoibctl follows them until it is interrupted",
       kReadOnly, "fdb_monitor", with_ves(Monitor)},
  });
}

}  // namespace eoib
