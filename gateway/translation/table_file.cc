#include "gateway/translation/table_file.h"

#include <cstdio>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "vswitch/base/file.h"

namespace eoib::gateway {
namespace {

using nlohmann::json;
using translation::SavedIp;
using translation::SavedNeighbor;
using translation::SavedPrefix;
using translation::SavedRouter;
using translation::SavedStation;
using translation::SavedTables;

constexpr int kTableVersion = 1;
constexpr char kForEver[] = "for ever";

std::string TimeOf(absl::Duration age, absl::Time now) {
  return absl::FormatTime(absl::RFC3339_sec, now - age, absl::UTCTimeZone());
}
std::string EndOf(absl::Duration left, absl::Time now) {
  return left == absl::InfiniteDuration() ? kForEver : TimeOf(-left, now);
}

json ToObject(const SavedIp& ip, absl::Time now) {
  json object = {
      {"ip", ip.ip.ToString()}, {"heard", TimeOf(ip.age, now)}, {"confirmed", ip.confirmed}};
  if (ip.router) object["router"] = true;
  return object;
}

json ToObject(const SavedStation& station, absl::Time now) {
  json ips = json::array();
  for (const SavedIp& ip : station.ips) ips.push_back(ToObject(ip, now));
  return {{"gid", station.gid.ToString()},
          {"ordinal", station.ordinal},
          {"qpn", station.qpn.ToString()},
          {"mac", station.mac.ToString()},
          {"heard", TimeOf(station.age, now)},
          {"confirmed", station.confirmed},
          {"ips", std::move(ips)}};
}

json ToObject(const SavedNeighbor& neighbor, absl::Time now) {
  json object = ToObject(neighbor.ip, now);
  object["mac"] = neighbor.mac.ToString();
  return object;
}

json ToObject(const SavedPrefix& prefix, absl::Time now) {
  return {{"ip", prefix.address.ToString()},
          {"length", prefix.length},
          {"until", EndOf(prefix.left, now)}};
}

json ToObject(const SavedRouter& router, absl::Time now) {
  return {{"ip", router.ip.ToString()},
          {"preference", router.preference},
          {"until", EndOf(router.left, now)}};
}

// Reads the members of one object. status() is the first error.
class TableReader {
 public:
  TableReader(const json& object, std::string where, absl::Time now)
      : object_(object), where_(std::move(where)), now_(now) {}

  template <typename Value>
  Value Get(const char* key) {
    const json* const found = Find(key);
    if (found == nullptr) return Fail<Value>(key, "is missing");
    if constexpr (std::is_same_v<Value, bool>) {
      return found->is_boolean() ? found->get<bool>()
                                 : Fail<bool>(key, "is neither true nor false");
    } else if constexpr (std::is_same_v<Value, std::string>) {
      return found->is_string() ? found->get<std::string>() : Fail<std::string>(key, "is no text");
    } else {
      const bool fits = found->is_number_unsigned() &&
                        found->get<uint64_t>() <= std::numeric_limits<Value>::max();
      return fits ? found->get<Value>() : Fail<Value>(key, "is no such number");
    }
  }
  // A member that files of older versions do not have.
  bool Flag(const char* key) { return Find(key) != nullptr && Get<bool>(key); }
  int Preference() {
    const json* const found = Find("preference");
    // 2 is invalid.
    const int64_t number =
        found != nullptr && found->is_number_integer() ? found->get<int64_t>() : 2;
    return number >= -1 && number <= 1 ? static_cast<int>(number)
                                       : Fail<int>("preference", "is none of -1, 0, 1");
  }
  // The time left until "until"; zero if it has passed.
  absl::Duration Left() {
    if (Get<std::string>("until") == kForEver) return absl::InfiniteDuration();
    return std::max(Time("until") - now_, absl::ZeroDuration());
  }
  // A member whose text Value::Parse reads.
  template <typename Value>
  Value Parse(const char* key) {
    const std::string text = Get<std::string>(key);
    const absl::StatusOr<Value> value = Value::Parse(text);
    return value.ok() ? *value : Fail<Value>(key, value.status().message());
  }
  // A time in the future (the clock was set back) counts as now.
  absl::Duration Age() { return std::max(now_ - Time("heard"), absl::ZeroDuration()); }
  SavedIp ReadIp() { return {Parse<IpAddr>("ip"), Age(), Get<bool>("confirmed"), Flag("router")}; }
  const json& Array(const char* key, bool required = true) {
    static const auto* const empty = new json(json::array());
    const json* const found = Find(key);
    if (found != nullptr && found->is_array()) return *found;
    if (required || found != nullptr) Fail<int>(key, "is no list");
    return *empty;
  }
  // Reads each object of an array by `read(&reader)`; `what` names one in messages.
  template <typename Value, typename Read>
  void ReadAll(const char* key, const char* what, Read read, std::vector<Value>* values,
               bool required = true) {
    for (const json& object : Array(key, required)) {
      TableReader reader(object, absl::StrCat(what, " ", values->size() + 1), now_);
      values->push_back(read(&reader));
      status_.Update(reader.status());
    }
  }
  const absl::Status& status() const { return status_; }

 private:
  // Null if there is no such member.
  const json* Find(const char* key) const {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }
  absl::Time Time(const char* key) {
    absl::Time time;
    std::string error;
    return absl::ParseTime(absl::RFC3339_sec, Get<std::string>(key), &time, &error)
               ? time
               : Fail<absl::Time>(key, error);
  }
  template <typename Value>
  Value Fail(const char* key, absl::string_view what) {
    status_.Update(absl::InvalidArgumentError(absl::StrCat(where_, ": ", key, " ", what)));
    return Value();
  }

  const json& object_;
  const std::string where_;
  const absl::Time now_;
  absl::Status status_;
};

SavedStation ReadStation(TableReader* reader) {
  SavedStation station;
  station.gid = reader->Parse<Gid>("gid");
  station.ordinal = reader->Get<uint16_t>("ordinal");
  station.qpn = reader->Parse<Qpn>("qpn");
  station.mac = reader->Parse<MacAddr>("mac");
  station.age = reader->Age();
  station.confirmed = reader->Flag("confirmed");
  const std::string what = absl::StrCat(station.mac.ToString(), ": address");
  reader->ReadAll(
      "ips", what.c_str(), [](TableReader* ip) { return ip->ReadIp(); }, &station.ips);
  return station;
}

SavedNeighbor ReadNeighbor(TableReader* reader) {
  return {reader->ReadIp(), reader->Parse<MacAddr>("mac")};
}
SavedPrefix ReadPrefix(TableReader* reader) {
  return {reader->Parse<IpAddr>("ip"), reader->Get<uint8_t>("length"), reader->Left()};
}
SavedRouter ReadRouter(TableReader* reader) {
  return {reader->Parse<IpAddr>("ip"), reader->Preference(), reader->Left()};
}

}  // namespace

std::string ToJson(const SavedTables& tables, absl::Time now) {
  json root = {{"version", kTableVersion},
               {"stations", json::array()},
               {"neighbors", json::array()},
               {"prefixes", json::array()},
               {"routers", json::array()}};
  for (const SavedStation& station : tables.stations)
    root["stations"].push_back(ToObject(station, now));
  for (const SavedNeighbor& neighbor : tables.neighbors)
    root["neighbors"].push_back(ToObject(neighbor, now));
  for (const SavedPrefix& prefix : tables.prefixes)
    root["prefixes"].push_back(ToObject(prefix, now));
  for (const SavedRouter& router : tables.routers) root["routers"].push_back(ToObject(router, now));
  return root.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

absl::StatusOr<SavedTables> FromJson(absl::string_view text, absl::Time now) {
  const json root = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) return absl::InvalidArgumentError("it is not JSON");
  TableReader reader(root, "the file", now);
  if (reader.Get<uint32_t>("version") != kTableVersion && reader.status().ok()) {
    return absl::InvalidArgumentError("it is of another version of this program");
  }
  SavedTables tables;
  reader.ReadAll("stations", "station", ReadStation, &tables.stations);
  reader.ReadAll("neighbors", "neighbor", ReadNeighbor, &tables.neighbors);
  // Files of older versions do not have these two.
  reader.ReadAll("prefixes", "prefix", ReadPrefix, &tables.prefixes, /*required=*/false);
  reader.ReadAll("routers", "router", ReadRouter, &tables.routers, /*required=*/false);
  if (!reader.status().ok()) return reader.status();
  return tables;
}

absl::StatusOr<SavedTables> LoadTables(const std::string& path, absl::Time now) {
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxTableFile);
  if (absl::IsNotFound(text.status())) return SavedTables();
  const absl::StatusOr<SavedTables> tables = text.ok() ? FromJson(*text, now) : text.status();
  if (tables.ok()) return tables;
  const std::string aside = path + ".bad";
  const bool moved = ::rename(path.c_str(), aside.c_str()) == 0;
  return absl::InvalidArgumentError(
      absl::StrCat("read ", path, ": ", tables.status().message(),
                   moved ? absl::StrCat("; set aside as ", aside) : ""));
}

absl::Status SaveTables(const std::string& path, const SavedTables& tables, absl::Time now) {
  return ReplaceFile(path, ToJson(tables, now));
}

}  // namespace eoib::gateway
