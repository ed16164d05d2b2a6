// TableReader reads the values of a TOML table. Mistakes collects what is wrong with them, in the operator's words.
//
// Include it after everything else, since the TOML library changes how later headers behave.
#ifndef EOIB_CONTROL_TABLE_READER_H_
#define EOIB_CONTROL_TABLE_READER_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"
#include "control/daemon/nearest_name.h"
#include "vswitch/base/address.h"
#include "vswitch/vlan_policy.h"

// After everything else.
#include "vswitch/base/toml.h"

namespace eoib {

// The operator's text, quoted and shortened for a message.
inline std::string Quote(absl::string_view text) {
  constexpr size_t kLongest = 60;
  const bool cut = text.size() > kLongest;
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kLongest)), cut ? "..." : "", "\"");
}

// The value at `node`, for a message.
inline std::string Describe(const toml::node& node) {
  if (const auto* text = node.as_string()) return Quote(text->get());
  if (const auto* number = node.as_integer()) return absl::StrCat(number->get());
  if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
  if (node.is_floating_point()) return "a number with a fraction";
  if (node.is_array()) return "an array";
  return node.is_table() ? "a table" : "a date or time";
}

inline int LineOf(const toml::source_region& region) { return static_cast<int>(region.begin.line); }
inline int LineOf(const toml::node& node) { return LineOf(node.source()); }

// The mistakes found so far, reported in the order of their lines.
class Mistakes {
 public:
  explicit Mistakes(absl::string_view source) : source_(source) {}

  void Add(int line, absl::string_view message) { found_.emplace(std::max(line, 1), message); }
  bool empty() const { return found_.empty(); }
  absl::Status ToStatus() const {
    std::vector<std::string> lines;
    for (const auto& [line, message] : found_) lines.push_back(absl::StrCat(source_, ":", line, ": ", message));
    return lines.empty() ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrJoin(lines, "\n"));
  }

 private:
  const std::string source_;
  std::multimap<int, std::string> found_;
};

inline void CheckKeys(const toml::table& table, absl::string_view where, const std::vector<std::string>& known,
                      Mistakes* mistakes) {
  for (const auto& [key, value] : table) {
    const std::string name(key.str());
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string nearest = NearestName(name, known);
    mistakes->Add(LineOf(key.source()), absl::StrCat("unknown key ", Quote(name), where, "; ",
                                                     nearest.empty() ? absl::StrCat("there are ", absl::StrJoin(known, ", "))
                                                                     : absl::StrCat("did you mean \"", nearest, "\"?")));
  }
}

// Reads the values of one table. Each read returns nullopt if the key is missing or its value is a mistake, which it reports.
class TableReader {
 public:
  // `name` is the table's name in messages: "ves".
  TableReader(const toml::table& table, absl::string_view name, Mistakes* mistakes)
      : table_(table), name_(name), mistakes_(mistakes) {}

  int line() const { return LineOf(table_); }
  bool Has(absl::string_view key) const { return Find(key) != nullptr; }
  int LineOfKey(absl::string_view key) const { return Has(key) ? LineOf(*Find(key)) : line(); }
  void Mistake(absl::string_view key, absl::string_view message) const { mistakes_->Add(LineOfKey(key), message); }

  // Reports a wrong value: "mtu is "big"; it is ...".
  void Wrong(absl::string_view key, absl::string_view right) const {
    Mistake(key, absl::StrCat(key, " is ", Describe(*Find(key)), "; ", right));
  }

  void Require(absl::string_view key, absl::string_view example) const {
    if (!Has(key)) mistakes_->Add(line(), absl::StrCat("[[", name_, "]] has no ", key, "; add ", key, " = ", example));
  }

  absl::optional<std::string> String(absl::string_view key, absl::string_view right) const {
    if (!Has(key)) return absl::nullopt;
    if (const auto* text = Find(key)->as_string()) return text->get();
    Wrong(key, right);
    return absl::nullopt;
  }

  absl::optional<int64_t> Integer(absl::string_view key, int64_t min, int64_t max, absl::string_view unit) const {
    if (!Has(key)) return absl::nullopt;
    const auto* number = Find(key)->as_integer();
    if (number != nullptr && number->get() >= min && number->get() <= max) return number->get();
    Wrong(key, absl::StrCat("it is an integer from ", min, " to ", max, unit));
    return absl::nullopt;
  }

  absl::optional<bool> Bool(absl::string_view key) const {
    if (!Has(key)) return absl::nullopt;
    const auto* truth = Find(key)->as_boolean();
    if (truth != nullptr) return truth->get();
    Wrong(key, "it is true or false");
    return absl::nullopt;
  }

  // An integer, or a string such as "0x8001".
  absl::optional<int64_t> IntegerOrString(absl::string_view key, int64_t min, int64_t max, absl::string_view right) const {
    if (!Has(key)) return absl::nullopt;
    const toml::node& node = *Find(key);
    int64_t value = -1;
    if (const auto* number = node.as_integer()) value = number->get();
    if (const auto* text = node.as_string(); text != nullptr && !ParseNumber(text->get(), &value)) value = -1;
    if (value >= min && value <= max) return value;
    Wrong(key, right);
    return absl::nullopt;
  }

  absl::optional<Vid> Vlan(absl::string_view key) const {
    const absl::optional<int64_t> value = Integer(key, 0, Vid::kMax, " (0: untagged)");
    if (!value.has_value()) return absl::nullopt;
    return Vid(static_cast<uint16_t>(*value));
  }

  absl::optional<VlanSet> Vlans(absl::string_view key) const {
    if (!Has(key)) return absl::nullopt;
    const toml::node& node = *Find(key);
    if (const auto* text = node.as_string(); text != nullptr && text->get() == "all") return VlanSet::All();
    const auto* array = node.as_array();
    if (array == nullptr || array->empty()) {
      Mistake(key, absl::StrCat(key, " is ", array == nullptr ? Describe(node) : "an empty array", "; ", VlansExample(key)));
      return absl::nullopt;
    }
    VlanSet vlans = VlanSet::None();
    bool good = true;
    for (const toml::node& element : *array) good = AddVlans(key, element, &vlans) && good;
    return good ? absl::make_optional(vlans) : absl::nullopt;
  }

  absl::optional<MacAddr> Mac(absl::string_view key) const { return Has(key) ? Mac(key, *Find(key)) : absl::nullopt; }

  std::vector<MacAddr> Macs(absl::string_view key) const {
    if (!Has(key)) return {};
    const auto* array = Find(key)->as_array();
    if (array == nullptr) Wrong(key, absl::StrCat("write ", key, " = [\"02:00:5e:10:00:01\"]"));
    if (array == nullptr) return {};
    std::vector<MacAddr> macs;
    for (const toml::node& element : *array) {
      const absl::optional<MacAddr> mac = Mac(key, element);
      if (!mac.has_value()) continue;
      if (std::find(macs.begin(), macs.end(), *mac) == macs.end()) {
        macs.push_back(*mac);
      } else {
        mistakes_->Add(LineOf(element), absl::StrCat(key, " names ", mac->ToString(), " twice; remove one"));
      }
    }
    return macs;
  }

 private:
  const toml::node* Find(absl::string_view key) const { return table_.get(std::string_view(key.data(), key.size())); }

  static bool ParseNumber(absl::string_view text, int64_t* value) {
    if (absl::StartsWithIgnoreCase(text, "0x")) return absl::SimpleHexAtoi(text, value);
    return absl::SimpleAtoi(text, value);
  }

  static std::string VlansExample(absl::string_view key) {
    return absl::StrCat("write ", key, " = [0, 10, \"100-199\"] (0: untagged), or \"all\"");
  }

  static absl::optional<Vid> OneVid(absl::string_view text) {
    int value;
    if (!absl::SimpleAtoi(text, &value) || value < 0 || value > Vid::kMax) return absl::nullopt;
    return Vid(static_cast<uint16_t>(value));
  }

  static bool AddVlanText(absl::string_view text, VlanSet* vlans) {
    const std::pair<absl::string_view, absl::string_view> ends = absl::StrSplit(text, absl::MaxSplits('-', 1));
    const absl::optional<Vid> first = OneVid(ends.first);
    const absl::optional<Vid> last = absl::StrContains(text, '-') ? OneVid(ends.second) : first;
    if (!first.has_value() || !last.has_value() || *last < *first) return false;
    vlans->AddRange(*first, *last);
    return true;
  }

  bool AddVlans(absl::string_view key, const toml::node& element, VlanSet* vlans) const {
    const auto* number = element.as_integer();
    const auto* text = element.as_string();
    if (number != nullptr && number->get() >= 0 && number->get() <= Vid::kMax) {
      vlans->Add(Vid(static_cast<uint16_t>(number->get())));
      return true;
    }
    if (text != nullptr && AddVlanText(text->get(), vlans)) return true;
    mistakes_->Add(LineOf(element), absl::StrCat(key, " has ", Describe(element), "; a VLAN is an integer from 0 to ",
                                                 Vid::kMax, ", a range of them a string such as \"100-199\""));
    return false;
  }

  absl::optional<MacAddr> Mac(absl::string_view key, const toml::node& node) const {
    const auto* text = node.as_string();
    const absl::StatusOr<MacAddr> mac = text == nullptr ? MacAddr() : MacAddr::Parse(text->get());
    absl::string_view right;
    if (text == nullptr || !mac.ok()) {
      right = "a MAC address is written \"02:00:5e:10:00:01\"";
    } else if (mac->IsGroup()) {
      right = "that is a group address; the first byte of a port's own is even, as in \"02:00:5e:10:00:01\"";
    } else if (mac->IsZero()) {
      right = "that is no address; write one such as \"02:00:5e:10:00:01\"";
    } else {
      return *mac;
    }
    mistakes_->Add(LineOf(node), absl::StrCat(key, " is ", Describe(node), "; ", right));
    return absl::nullopt;
  }

  const toml::table& table_;
  const std::string name_;
  Mistakes* const mistakes_;
};

// All tables [[name]]. Any other form, such as [name], is a mistake.
inline std::vector<const toml::table*> Tables(const toml::table& root, absl::string_view name, Mistakes* mistakes) {
  std::vector<const toml::table*> tables;
  const toml::node* node = root.get(std::string_view(name.data(), name.size()));
  if (node == nullptr) return tables;
  const toml::array* array = node->as_array();
  const auto mistake = [&](const toml::node& at) {
    mistakes->Add(LineOf(at),
                  absl::StrCat(name, " is ", Describe(at), "; write [[", name, "]], with two brackets, above its keys"));
  };
  if (array == nullptr) {
    mistake(*node);
    return tables;
  }
  for (const toml::node& element : *array) {
    if (element.is_table()) {
      tables.push_back(element.as_table());
    } else {
      mistake(element);
    }
  }
  return tables;
}

}  // namespace eoib

#endif  // EOIB_CONTROL_TABLE_READER_H_
