#include "control/operator/fdb_rows.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

namespace eoib {
namespace {

// The entries in an answer, more or less. They take the control thread some milliseconds.
constexpr size_t kRows = 1000;

// An entry in the operator's words. Text and JSON are made from it.
struct Row {
  FdbKey key;
  const char* origin = "?";
  absl::optional<int64_t> age;  // in seconds; absent: it does not age
  std::string place;            // "GID fe80::1 QPN 0x48", "vPort web0"
  std::string host, vport;      // empty: not known
  absl::optional<uint64_t> sequence;
};

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

bool Ages(const Fdb::Entry& entry) {
  return !entry.sticky && !entry.frozen && entry.origin < FdbOrigin::kAnnounced;
}

// What its agent announces of the MAC: the vPort there, and the sequence number of the claim.
void AddClaim(const AgentView& view, Row* row) {
  const auto mac = view.macs.find(row->key);
  if (mac == view.macs.end()) return;
  row->sequence = mac->second.sequence;
  if (const auto vport = view.vports.find(mac->second.vport); vport != view.vports.end())
    row->vport = vport->second.name;
}

Row RowOf(const Ves& ves, const Fdb::Entry& entry) {
  Row row;
  row.key = entry.key;
  row.origin = OriginName(entry);
  if (Ages(entry)) row.age = absl::ToInt64Seconds(entry.age);
  row.place = ves.Place(entry.vport);
  if (const Route route = ves.directory().Get(entry.vport); route.kind == Route::Kind::kLocal) {
    AddClaim(ves.protocol().engine().own().current(), &row);
    row.host = ves.host();
    row.vport = ves.vports().NameAt(route.local_port);
  } else if (const RemoteAgent* const agent = ves.protocol().AgentBehind(entry.vport);
             agent != nullptr) {
    AddClaim(agent->view(), &row);
    row.host = VesProtocol::HostOf(*agent);
  }
  return row;
}

// "GID fe80::1 QPN 0x48 (h2/web1, sequence 3)"
std::string PlaceText(const Row& row) {
  if (row.host.empty()) return row.place;
  return absl::StrCat(row.place, " (", row.host, row.vport.empty() ? "" : "/", row.vport,
                      row.sequence.has_value() ? absl::StrCat(", sequence ", *row.sequence) : "",
                      ")");
}

std::string RowText(const std::string& ves, const Row& row) {
  return absl::StrFormat("%-10s %5s  %-17s  %-9s  %6s  %s\n", ves, row.key.vid().ToString(),
                         row.key.mac().ToString(), row.origin,
                         row.age.has_value() ? absl::StrCat(*row.age) : "-", PlaceText(row));
}

Json KeyJson(FdbKey key) { return {{"vlan", key.vid().value()}, {"mac", key.mac().ToString()}}; }

Json RowJson(const std::string& ves, const Row& row) {
  Json json = {{"ves", ves}};
  json.update(KeyJson(row.key));
  json["origin"] = row.origin;
  if (row.age.has_value()) json["age_s"] = *row.age;
  json["behind"] = row.place;
  if (!row.host.empty()) json["host"] = row.host;
  if (!row.vport.empty()) json["vport"] = row.vport;
  if (row.sequence.has_value()) json["sequence"] = *row.sequence;
  return json;
}

std::string PartText(const FdbPart& part) {
  const std::string& ves = part.ves->config().name;
  std::string text;
  for (const Fdb::Entry& entry : part.rows.entries) text += RowText(ves, RowOf(*part.ves, entry));
  if (!part.rows.next.has_value()) return text;
  return absl::StrCat(text, "more: fdb show ", ves, " ", part.rows.next->ToString(), "\n");
}

Json PartJson(const FdbPart& part) {
  Json json = {{"name", part.ves->config().name}, {"entries", Json::array()}};
  for (const Fdb::Entry& entry : part.rows.entries) {
    json["entries"].push_back(RowJson(part.ves->config().name, RowOf(*part.ves, entry)));
  }
  if (part.rows.next.has_value()) json["next"] = KeyJson(*part.rows.next);
  return json;
}

}  // namespace

std::vector<FdbPart> ReadFdb(const std::vector<Ves*>& veses, absl::optional<FdbKey> after) {
  std::vector<FdbPart> parts;
  const size_t rows = kRows / veses.size() + 1;
  for (const Ves* ves : veses) parts.push_back({ves, ves->fdb().DumpPart(after, rows)});
  return parts;
}

Answer FdbAnswer(std::vector<FdbPart> parts, bool has_head) {
  const auto shared = std::make_shared<const std::vector<FdbPart>>(std::move(parts));
  return Answer(
      [shared, has_head] {
        std::string text;
        if (has_head) {
          text = absl::StrFormat("%-10s %5s  %-17s  %-9s  %6s  %s\n", "VES", "VLAN", "MAC",
                                 "origin", "age", "behind");
        }
        for (const FdbPart& part : *shared) text += PartText(part);
        return text;
      },
      [shared] {
        Json veses = Json::array();
        for (const FdbPart& part : *shared) veses.push_back(PartJson(part));
        return Json{{"veses", std::move(veses)}};
      });
}

Answer FdbRowAnswer(const Ves& ves, const Fdb::Entry& entry) {
  const std::string& name = ves.config().name;
  const Row row = RowOf(ves, entry);
  return Answer([name, row] { return RowText(name, row); },
                [name, row] { return RowJson(name, row); });
}

}  // namespace eoib
