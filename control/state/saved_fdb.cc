#include "control/state/saved_fdb.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "vswitch/base/file.h"

namespace eoib {
namespace {

using nlohmann::json;

constexpr uint32_t kVersion = 1;
constexpr size_t kMaxFile = 32 << 20;
constexpr char kBootIdPath[] = "/proc/sys/kernel/random/boot_id";

std::string PathIn(const std::string& state_directory) { return state_directory + "/fdb.json"; }

// ---- To text.

json ToObject(const SavedPlace& place) {
  json macs = json::array();
  for (const SavedMac& mac : place.macs) {
    macs.push_back(
        {mac.key.vid().value(), mac.key.mac().ToString(), absl::ToInt64Seconds(mac.age)});
  }
  json object = {{"macs", std::move(macs)}};
  if (!place.vport.empty()) {
    object["vport"] = place.vport;
    return object;
  }
  object["gid"] = place.peer.gid.ToString();
  object["qpn"] = place.peer.qpn.ToString();
  if (place.agent.has_value()) object["agent"] = place.agent->ToString();
  return object;
}

json ToObject(const SavedVes& ves) {
  json places = json::array();
  for (const SavedPlace& place : ves.places) places.push_back(ToObject(place));
  return {{"name", ves.name}, {"pkey", ves.pkey.ToString()}, {"places", std::move(places)}};
}

// ---- From text.

// Reads JSON values, and keeps the first error.
class Reader {
 public:
  const absl::Status& status() const { return status_; }
  // More MACs than kMostMacs are an error.
  void CountMac() {
    if (++macs_ > SavedFdb::kMostMacs) Fail("it has too many MACs");
  }

  const json& Member(const json& object, const char* key) {
    static const auto* const nothing = new json();
    const auto found = object.is_object() ? object.find(key) : object.end();
    if (object.is_object() && found != object.end()) return *found;
    Fail(absl::StrCat(key, " is missing"));
    return *nothing;
  }
  static bool Has(const json& object, const char* key) {
    return object.is_object() && object.contains(key);
  }
  const json& List(const json& object, const char* key) {
    static const auto* const empty = new json(json::array());
    const json& list = Member(object, key);
    if (list.is_array()) return list;
    Fail(absl::StrCat(key, " is no list"));
    return *empty;
  }
  std::string Text(const json& value) {
    if (value.is_string()) return value.get<std::string>();
    Fail("a text is missing");
    return "";
  }
  uint64_t Number(const json& value, uint64_t most) {
    if (value.is_number_unsigned() && value.get<uint64_t>() <= most) return value.get<uint64_t>();
    Fail(absl::StrCat("a number up to ", most, " is missing"));
    return 0;
  }
  template <typename Value>
  Value Parse(const json& value) {
    const absl::StatusOr<Value> parsed = Value::Parse(Text(value));
    if (parsed.ok()) return *parsed;
    Fail(parsed.status().message());
    return Value();
  }
  void Fail(absl::string_view what) { status_.Update(absl::InvalidArgumentError(what)); }

 private:
  absl::Status status_;
  size_t macs_ = 0;
};

SavedMac ReadMac(const json& value, Reader* reader) {
  reader->CountMac();
  if (!value.is_array() || value.size() != 3) {
    reader->Fail("a MAC has not three members: VLAN, MAC, age");
    return {};
  }
  const Vid vid(static_cast<uint16_t>(reader->Number(value[0], Vid::kMax)));
  const MacAddr mac = reader->Parse<MacAddr>(value[1]);
  const uint64_t age = reader->Number(value[2], std::numeric_limits<uint32_t>::max());
  if (mac.IsGroup() || mac.IsZero()) reader->Fail("a group or zero address is behind no vPort");
  return {FdbKey(vid, mac), absl::Seconds(age)};
}

SavedPlace ReadPlace(const json& object, Reader* reader) {
  SavedPlace place;
  if (Reader::Has(object, "vport")) {
    place.vport = reader->Text(object["vport"]);
    if (place.vport.empty()) reader->Fail("a vPort has no name");
  } else {
    place.peer = {reader->Parse<Gid>(reader->Member(object, "gid")),
                  reader->Parse<Qpn>(reader->Member(object, "qpn"))};
    if (Reader::Has(object, "agent")) place.agent = reader->Parse<AgentId>(object["agent"]);
  }
  for (const json& mac : reader->List(object, "macs")) {
    place.macs.push_back(ReadMac(mac, reader));
    if (!reader->status().ok()) break;
  }
  return place;
}

SavedVes ReadVes(const json& object, Reader* reader) {
  SavedVes ves{reader->Text(reader->Member(object, "name")),
               reader->Parse<PKey>(reader->Member(object, "pkey")),
               {}};
  for (const json& place : reader->List(object, "places")) {
    ves.places.push_back(ReadPlace(place, reader));
    if (!reader->status().ok()) break;
  }
  return ves;
}

absl::Status CheckOrigin(const SavedFdb& saved, const AgentIdentity& run,
                         const BootTime& boot_time) {
  if (saved.run.id != run.id) return absl::FailedPreconditionError("another agent saved it");
  if (saved.run.incarnation + 1 != run.incarnation)
    return absl::FailedPreconditionError("it is not of the run before this one");
  if (saved.boot != boot_time.boot || saved.saved_at > boot_time.now) {
    return absl::FailedPreconditionError("the machine has booted since");
  }
  return absl::OkStatus();
}

}  // namespace

size_t SavedFdb::size() const {
  size_t size = 0;
  for (const SavedVes& ves : veses) {
    for (const SavedPlace& place : ves.places) size += place.macs.size();
  }
  return size;
}

std::string ToJson(const SavedFdb& saved) {
  json veses = json::array();
  for (const SavedVes& ves : saved.veses) veses.push_back(ToObject(ves));
  const json root = {{"version", kVersion},
                     {"agent", saved.run.id.ToString()},
                     {"incarnation", saved.run.incarnation},
                     {"boot", saved.boot},
                     {"saved_at_ms", absl::ToInt64Milliseconds(saved.saved_at)},
                     {"veses", std::move(veses)}};
  return root.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

absl::StatusOr<SavedFdb> ParseSavedFdb(absl::string_view text) {
  const json root = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return absl::InvalidArgumentError("it is not a JSON object");
  Reader reader;
  const uint64_t version =
      reader.Number(reader.Member(root, "version"), std::numeric_limits<uint32_t>::max());
  if (reader.status().ok() && version != kVersion)
    return absl::InvalidArgumentError("it is of another version of eoibd");
  SavedFdb saved;
  saved.run.id = reader.Parse<AgentId>(reader.Member(root, "agent"));
  saved.run.incarnation = static_cast<uint32_t>(
      reader.Number(reader.Member(root, "incarnation"), std::numeric_limits<uint32_t>::max()));
  saved.boot = reader.Text(reader.Member(root, "boot"));
  // A hundred years, so that it fits an absl::Duration.
  constexpr uint64_t kLongest = uint64_t{100} * 366 * 24 * 3600 * 1000;
  saved.saved_at = absl::Milliseconds(reader.Number(reader.Member(root, "saved_at_ms"), kLongest));
  for (const json& ves : reader.List(root, "veses")) {
    saved.veses.push_back(ReadVes(ves, &reader));
    if (!reader.status().ok()) break;
  }
  if (!reader.status().ok()) return reader.status();
  return saved;
}

absl::StatusOr<BootTime> ReadBootTime() {
  timespec now;
  const absl::StatusOr<std::string> boot = ReadFile(kBootIdPath, 4096);
  if (!boot.ok())
    return absl::Status(boot.status().code(),
                        absl::StrCat("read ", kBootIdPath, ": ", boot.status().message()));
  clock_gettime(CLOCK_BOOTTIME, &now);
  return BootTime{std::string(absl::StripAsciiWhitespace(*boot)), absl::DurationFromTimespec(now)};
}

absl::Status WriteSavedFdb(const std::string& state_directory, const SavedFdb& saved) {
  // A crash of the machine makes it useless, so it need not be on disk.
  return ReplaceFile(PathIn(state_directory), ToJson(saved), /*sync=*/false);
}

absl::StatusOr<SavedFdb> TakeSavedFdb(const std::string& state_directory, const AgentIdentity& run,
                                      const BootTime& boot_time) {
  const std::string path = PathIn(state_directory);
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxFile);
  if (absl::IsNotFound(text.status())) return text.status();
  unlink(path.c_str());  // before it is used: a run that ends early leaves nothing that is outdated
  if (!text.ok()) return text.status();
  absl::StatusOr<SavedFdb> saved = ParseSavedFdb(*text);
  if (!saved.ok()) return saved;
  if (absl::Status status = CheckOrigin(*saved, run, boot_time); !status.ok()) return status;
  return saved;
}

}  // namespace eoib
