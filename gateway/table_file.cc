#include "gateway/table_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "vswitch/base/atomic_file.h"

namespace eoib::gateway {
namespace {

using nlohmann::json;
using translation::SavedIp;
using translation::SavedNeighbor;
using translation::SavedPrefix;
using translation::SavedRouter;
using translation::SavedStation;
using translation::SavedTables;

constexpr int kVersion = 1;

constexpr char kForEver[] = "for ever";

std::string TimeOf(absl::Duration age, absl::Time now) {
  return absl::FormatTime(absl::RFC3339_sec, now - age, absl::UTCTimeZone());
}
std::string EndOf(absl::Duration left, absl::Time now) {
  return left == absl::InfiniteDuration() ? kForEver : TimeOf(-left, now);
}

json ToObject(const SavedIp& ip, absl::Time now) {
  json object = {{"ip", ip.ip.ToString()}, {"heard", TimeOf(ip.age, now)}, {"confirmed", ip.confirmed}};
  if (ip.router) object["router"] = true;
  return object;
}

json ToObject(const SavedStation& station, absl::Time now) {
  json ips = json::array();
  for (const SavedIp& ip : station.ips) ips.push_back(ToObject(ip, now));
  return {{"gid", station.gid.ToString()}, {"ordinal", station.ordinal},        {"qpn", station.qpn.ToString()},
          {"mac", station.mac.ToString()}, {"heard", TimeOf(station.age, now)}, {"confirmed", station.confirmed},
          {"ips", std::move(ips)}};
}

json ToObject(const SavedNeighbor& neighbor, absl::Time now) {
  json object = ToObject(neighbor.ip, now);
  object["mac"] = neighbor.mac.ToString();
  return object;
}

json ToObject(const SavedPrefix& prefix, absl::Time now) {
  return {{"ip", prefix.address.ToString()}, {"length", prefix.length}, {"until", EndOf(prefix.left, now)}};
}

json ToObject(const SavedRouter& router, absl::Time now) {
  return {{"ip", router.ip.ToString()}, {"preference", router.preference}, {"until", EndOf(router.left, now)}};
}

// Reads the members of one object. status() is the first error.
class Reader {
 public:
  Reader(const json& object, std::string where, absl::Time now) : object_(object), where_(std::move(where)), now_(now) {}

  template <typename Value>
  Value Get(const char* key) {
    const auto found = object_.is_object() ? object_.find(key) : object_.end();
    if (!object_.is_object() || found == object_.end()) return Fail<Value>(key, "is missing");
    if constexpr (std::is_same_v<Value, bool>) {
      return found->is_boolean() ? found->get<bool>() : Fail<bool>(key, "is neither true nor false");
    } else if constexpr (std::is_same_v<Value, std::string>) {
      return found->is_string() ? found->get<std::string>() : Fail<std::string>(key, "is no text");
    } else {
      const bool fits = found->is_number_unsigned() && found->get<uint64_t>() <= std::numeric_limits<Value>::max();
      return fits ? found->get<Value>() : Fail<Value>(key, "is no such number");
    }
  }
  // A member that files of older versions do not have.
  bool Flag(const char* key) { return object_.is_object() && object_.contains(key) && Get<bool>(key); }
  int Preference() {
    const auto found = object_.is_object() ? object_.find("preference") : object_.end();
    const bool is_one = object_.is_object() && found != object_.end() && found->is_number_integer();
    const int64_t number = is_one ? found->get<int64_t>() : 2;  // 2 is invalid
    return number >= -1 && number <= 1 ? static_cast<int>(number) : Fail<int>("preference", "is none of -1, 0, 1");
  }
  // The time left until "until"; zero if it has passed.
  absl::Duration Left() {
    const std::string text = Get<std::string>("until");
    if (text == kForEver) return absl::InfiniteDuration();
    absl::Time until;
    std::string error;
    if (!absl::ParseTime(absl::RFC3339_sec, text, &until, &error)) return Fail<absl::Duration>("until", error);
    return std::max(until - now_, absl::ZeroDuration());
  }
  // A member whose text Value::Parse reads.
  template <typename Value>
  Value Parse(const char* key) {
    const std::string text = Get<std::string>(key);
    const absl::StatusOr<Value> value = Value::Parse(text);
    return value.ok() ? *value : Fail<Value>(key, value.status().message());
  }
  IpAddr Ip() {
    const std::string text = Get<std::string>("ip");
    if (const auto ipv4 = Ipv4Addr::Parse(text); ipv4.ok()) return IpAddr(*ipv4);
    const auto ipv6 = Ipv6Addr::Parse(text);
    return ipv6.ok() ? IpAddr(*ipv6) : Fail<IpAddr>("ip", "is no address");
  }
  // A time in the future (the clock was set back) counts as now.
  absl::Duration Age() {
    absl::Time heard;
    std::string error;
    if (absl::ParseTime(absl::RFC3339_sec, Get<std::string>("heard"), &heard, &error)) {
      return std::max(now_ - heard, absl::ZeroDuration());
    }
    return Fail<absl::Duration>("heard", error);
  }
  SavedIp ReadIp() { return {Ip(), Age(), Get<bool>("confirmed"), Flag("router")}; }
  // Files of older versions have no "prefixes" and "routers": those are not required.
  const json& Array(const char* key, bool required = true) {
    static const auto* const empty = new json(json::array());
    const auto found = object_.is_object() ? object_.find(key) : object_.end();
    if (object_.is_object() && found != object_.end() && found->is_array()) return *found;
    if (required || (object_.is_object() && found != object_.end())) Fail<int>(key, "is no list");
    return *empty;
  }
  void Take(const absl::Status& status) { status_.Update(status); }
  const absl::Status& status() const { return status_; }

 private:
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

SavedStation ReadStation(Reader* reader, absl::Time now) {
  SavedStation station;
  station.gid = reader->Parse<Gid>("gid");
  station.ordinal = reader->Get<uint16_t>("ordinal");
  station.qpn = reader->Parse<Qpn>("qpn");
  station.mac = reader->Parse<MacAddr>("mac");
  station.age = reader->Age();
  station.confirmed = reader->Flag("confirmed");
  for (const json& object : reader->Array("ips")) {
    Reader ip(object, absl::StrCat("address ", station.ips.size() + 1, " of ", station.mac.ToString()), now);
    station.ips.push_back(ip.ReadIp());
    reader->Take(ip.status());
  }
  return station;
}

SavedNeighbor ReadNeighbor(Reader* reader) { return {reader->ReadIp(), reader->Parse<MacAddr>("mac")}; }
SavedPrefix ReadPrefix(Reader* reader) { return {reader->Ip(), reader->Get<uint8_t>("length"), reader->Left()}; }
SavedRouter ReadRouter(Reader* reader) { return {reader->Ip(), reader->Preference(), reader->Left()}; }

}  // namespace

std::string ToJson(const SavedTables& tables, absl::Time now) {
  json root = {{"version", kVersion},
               {"stations", json::array()},
               {"neighbors", json::array()},
               {"prefixes", json::array()},
               {"routers", json::array()}};
  for (const SavedStation& station : tables.stations) root["stations"].push_back(ToObject(station, now));
  for (const SavedNeighbor& neighbor : tables.neighbors) root["neighbors"].push_back(ToObject(neighbor, now));
  for (const SavedPrefix& prefix : tables.prefixes) root["prefixes"].push_back(ToObject(prefix, now));
  for (const SavedRouter& router : tables.routers) root["routers"].push_back(ToObject(router, now));
  return root.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

absl::StatusOr<SavedTables> FromJson(absl::string_view text, absl::Time now) {
  const json root = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) return absl::InvalidArgumentError("it is not JSON");
  Reader reader(root, "the file", now);
  if (reader.Get<uint32_t>("version") != kVersion && reader.status().ok()) {
    return absl::InvalidArgumentError("it is of another version of this program");
  }
  SavedTables tables;
  for (const json& object : reader.Array("stations")) {
    Reader station(object, absl::StrCat("station ", tables.stations.size() + 1), now);
    tables.stations.push_back(ReadStation(&station, now));
    reader.Take(station.status());
  }
  for (const json& object : reader.Array("neighbors")) {
    Reader neighbor(object, absl::StrCat("neighbor ", tables.neighbors.size() + 1), now);
    tables.neighbors.push_back(ReadNeighbor(&neighbor));
    reader.Take(neighbor.status());
  }
  for (const json& object : reader.Array("prefixes", /*required=*/false)) {
    Reader prefix(object, absl::StrCat("prefix ", tables.prefixes.size() + 1), now);
    tables.prefixes.push_back(ReadPrefix(&prefix));
    reader.Take(prefix.status());
  }
  for (const json& object : reader.Array("routers", /*required=*/false)) {
    Reader router(object, absl::StrCat("router ", tables.routers.size() + 1), now);
    tables.routers.push_back(ReadRouter(&router));
    reader.Take(router.status());
  }
  if (!reader.status().ok()) return reader.status();
  return tables;
}

absl::StatusOr<SavedTables> TableFile::Load(absl::Time now) const {
  struct stat info;
  if (::stat(path_.c_str(), &info) != 0) {
    if (errno == ENOENT) return SavedTables();
    return absl::ErrnoToStatus(errno, absl::StrCat("read ", path_));
  }
  absl::StatusOr<SavedTables> tables = absl::InvalidArgumentError("it is no regular file");
  if (S_ISREG(info.st_mode) && static_cast<size_t>(info.st_size) > kMaxSize) {
    tables = absl::InvalidArgumentError(
        absl::StrCat("it has ", info.st_size, " bytes, and this program writes no more than ", size_t{kMaxSize}));
  } else if (S_ISREG(info.st_mode)) {
    std::ifstream file(path_, std::ios::binary);
    tables = FromJson(std::string(std::istreambuf_iterator<char>(file), {}), now);
  }
  if (tables.ok()) return tables;
  const std::string aside = path_ + ".bad";
  const bool moved = ::rename(path_.c_str(), aside.c_str()) == 0;
  return absl::InvalidArgumentError(
      absl::StrCat("read ", path_, ": ", tables.status().message(), moved ? absl::StrCat("; set aside as ", aside) : ""));
}

absl::Status TableFile::Save(const SavedTables& tables, absl::Time now) const {
  return ReplaceFile(path_, ToJson(tables, now));
}

}  // namespace eoib::gateway
