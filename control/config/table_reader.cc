#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "vswitch/base/daemon/nearest_name.h"

// After everything else.
#include "control/config/table_reader.h"

namespace eoib {
namespace {

bool ParseNumber(absl::string_view text, int64_t* value) {
  if (absl::StartsWithIgnoreCase(text, "0x")) return absl::SimpleHexAtoi(text, value);
  return absl::SimpleAtoi(text, value);
}

absl::optional<Vid> ReadVid(absl::string_view text) {
  int value;
  if (!absl::SimpleAtoi(text, &value) || value < 0 || value > Vid::kMax) return absl::nullopt;
  return Vid(static_cast<uint16_t>(value));
}

// "10" or "100-199".
bool AddVlanRange(absl::string_view text, VlanSet* vlans) {
  const std::pair<absl::string_view, absl::string_view> ends =
      absl::StrSplit(text, absl::MaxSplits('-', 1));
  const absl::optional<Vid> first = ReadVid(ends.first);
  const absl::optional<Vid> last = absl::StrContains(text, '-') ? ReadVid(ends.second) : first;
  if (!first.has_value() || !last.has_value() || *last < *first) return false;
  vlans->AddRange(*first, *last);
  return true;
}

// VLANs as VlanSet prints them: "10,100-199".
bool AddVlanRanges(absl::string_view text, VlanSet* vlans) {
  for (const absl::string_view range : absl::StrSplit(text, ',')) {
    if (!AddVlanRange(range, vlans)) return false;
  }
  return true;
}

}  // namespace

std::string Quote(absl::string_view text) {
  constexpr size_t kLongest = 60;
  const bool cut = text.size() > kLongest;
  // Escaped: the text may contain control characters for the operator's terminal.
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kLongest)), cut ? "..." : "", "\"");
}

std::string Describe(const toml::node& node) {
  if (const auto* text = node.as_string()) return Quote(text->get());
  if (const auto* number = node.as_integer()) return absl::StrCat(number->get());
  if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
  if (node.is_floating_point()) return "a number with a fraction";
  if (node.is_array()) return "an array";
  return node.is_table() ? "a table" : "a date or time";
}

void Mistakes::Add(int line, absl::string_view message) {
  found_.emplace(std::max(line, 1), message);
}

absl::Status Mistakes::ToStatus() const {
  if (found_.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrJoin(found_, "\n", [this](std::string* out, const auto& mistake) {
        absl::StrAppend(out, sources_.At(mistake.first), ": ", mistake.second);
      }));
}

void CheckKeys(const toml::table& table, absl::string_view where,
               const std::vector<std::string>& known, Mistakes* mistakes, const KeyAdvice& advice) {
  for (const auto& [key, value] : table) {
    const std::string name(key.str());
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string what_to_do = advice(name);
    const std::string nearest = NearestName(name, known);
    if (what_to_do.empty() && !nearest.empty())
      what_to_do = absl::StrCat("did you mean \"", nearest, "\"?");
    if (what_to_do.empty()) what_to_do = absl::StrCat("there are ", absl::StrJoin(known, ", "));
    mistakes->Add(LineOf(key.source()),
                  absl::StrCat("unknown key ", Quote(name), where, "; ", what_to_do));
  }
}

std::vector<const toml::table*> Tables(const toml::table& root, absl::string_view name,
                                       Mistakes* mistakes) {
  std::vector<const toml::table*> tables;
  const toml::node* node = root.get(std::string_view(name.data(), name.size()));
  if (node == nullptr) return tables;
  const auto mistake = [&](const toml::node& at) {
    mistakes->Add(LineOf(at), absl::StrCat(name, " is ", Describe(at), "; write [[", name,
                                           "]], with two brackets, above its keys"));
  };
  const toml::array* array = node->as_array();
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

void TableReader::Mistake(absl::string_view key, absl::string_view message) const {
  mistakes_->Add(Has(key) ? LineOf(*Find(key)) : line(), message);
}

void TableReader::Wrong(absl::string_view key, absl::string_view hint) const {
  Mistake(key, absl::StrCat(key, " is ", Describe(*Find(key)), "; ", hint));
}

void TableReader::Require(absl::string_view key, absl::string_view example) const {
  if (!Has(key))
    mistakes_->Add(line(),
                   absl::StrCat("[[", name_, "]] has no ", key, "; add ", key, " = ", example));
}

absl::optional<std::string> TableReader::String(absl::string_view key,
                                                absl::string_view hint) const {
  if (!Has(key)) return absl::nullopt;
  if (const auto* text = Find(key)->as_string()) return text->get();
  Wrong(key, hint);
  return absl::nullopt;
}

absl::optional<size_t> TableReader::OneOf(absl::string_view key,
                                          const std::vector<absl::string_view>& choices) const {
  const auto quoted = [](std::string* out, absl::string_view choice) {
    absl::StrAppend(out, "\"", choice, "\"");
  };
  const std::string hint =
      absl::StrCat("it is ", absl::StrJoin(choices.begin(), choices.end() - 1, ", ", quoted),
                   " or \"", choices.back(), "\"");
  const absl::optional<std::string> text = String(key, hint);
  if (!text.has_value()) return absl::nullopt;
  const auto found = std::find(choices.begin(), choices.end(), *text);
  if (found != choices.end()) return found - choices.begin();
  Wrong(key, hint);
  return absl::nullopt;
}

absl::optional<int64_t> TableReader::Integer(absl::string_view key, int64_t min, int64_t max,
                                             absl::string_view unit) const {
  if (!Has(key)) return absl::nullopt;
  const auto* number = Find(key)->as_integer();
  if (number != nullptr && number->get() >= min && number->get() <= max) return number->get();
  Wrong(key, absl::StrCat("it is an integer from ", min, " to ", max, unit));
  return absl::nullopt;
}

absl::optional<int64_t> TableReader::IntegerOrString(absl::string_view key, int64_t min,
                                                     int64_t max, absl::string_view hint) const {
  if (!Has(key)) return absl::nullopt;
  const toml::node& node = *Find(key);
  int64_t value = -1;  // below every `min`
  if (const auto* number = node.as_integer()) value = number->get();
  if (const auto* text = node.as_string(); text != nullptr && !ParseNumber(text->get(), &value))
    value = -1;
  if (value >= min && value <= max) return value;
  Wrong(key, hint);
  return absl::nullopt;
}

void TableReader::CheckPKeyPrefix(absl::string_view key, int64_t pkey) const {
  const toml::node& node = *Find(key);
  bool hexadecimal = node.is_string() && absl::StartsWithIgnoreCase(node.as_string()->get(), "0x");
  if (const auto* number = node.as_integer()) {
    hexadecimal =
        (number->flags() & toml::value_flags::format_as_hexadecimal) != toml::value_flags::none;
  }
  if (hexadecimal || pkey < 8000 || pkey > 9999) return;
  Wrong(key, absl::StrCat("did you mean 0x", pkey, "? For the decimal number write 0x",
                          absl::Hex(pkey, absl::kZeroPad4)));
}

absl::optional<bool> TableReader::Bool(absl::string_view key) const {
  if (!Has(key)) return absl::nullopt;
  if (const auto* truth = Find(key)->as_boolean()) return truth->get();
  Wrong(key, "it is true or false");
  return absl::nullopt;
}

absl::optional<Vid> TableReader::Vlan(absl::string_view key) const {
  const absl::optional<int64_t> value = Integer(key, 0, Vid::kMax, " (0: untagged)");
  if (!value.has_value()) return absl::nullopt;
  return Vid(static_cast<uint16_t>(*value));
}

absl::optional<VlanSet> TableReader::Vlans(absl::string_view key) const {
  if (!Has(key)) return absl::nullopt;
  const toml::node& node = *Find(key);
  VlanSet vlans = VlanSet::None();
  const auto* text = node.as_string();
  const auto* number = node.as_integer();
  if (text != nullptr && text->get() == "all") return VlanSet::All();
  if (text != nullptr && AddVlanRanges(text->get(), &vlans)) return vlans;
  if (number != nullptr && AddVlanRanges(absl::StrCat(number->get()), &vlans)) return vlans;
  const auto* array = node.as_array();
  if (array == nullptr || array->empty()) {
    Mistake(key,
            absl::StrCat(key, " is ", array == nullptr ? Describe(node) : "an empty array",
                         "; write ", key, " = [0, 10, \"100-199\"] (0: untagged), or \"all\""));
    return absl::nullopt;
  }
  bool good = true;  // read on after a mistake, to report all of them
  for (const toml::node& element : *array) good = AddVlans(key, element, &vlans) && good;
  return good ? absl::make_optional(vlans) : absl::nullopt;
}

bool TableReader::AddVlans(absl::string_view key, const toml::node& element, VlanSet* vlans) const {
  const auto* number = element.as_integer();
  const auto* text = element.as_string();
  if (number != nullptr && number->get() >= 0 && number->get() <= Vid::kMax) {
    vlans->Add(Vid(static_cast<uint16_t>(number->get())));
    return true;
  }
  if (text != nullptr && AddVlanRange(text->get(), vlans)) return true;
  mistakes_->Add(LineOf(element),
                 absl::StrCat(key, " has ", Describe(element), "; a VLAN is an integer from 0 to ",
                              Vid::kMax, ", a range of them a string such as \"100-199\""));
  return false;
}

std::vector<std::string> TableReader::Texts(absl::string_view key,
                                            absl::string_view example) const {
  if (!Has(key)) return {};
  std::vector<std::string> texts;
  const toml::array* array = Find(key)->as_array();
  if (array != nullptr) {
    for (const toml::node& element : *array) {
      if (const auto* text = element.as_string()) texts.push_back(text->get());
    }
  }
  if (array == nullptr || texts.size() != array->size())
    Wrong(key, absl::StrCat("write ", key, " = ", example));
  return texts;
}

absl::optional<std::vector<MacAddr>> TableReader::Macs(absl::string_view key) const {
  if (!Has(key)) return absl::nullopt;
  const auto* array = Find(key)->as_array();
  if (array == nullptr) {
    Wrong(key, absl::StrCat("write ", key, " = [\"02:00:5e:10:00:01\"]"));
    return absl::nullopt;
  }
  std::vector<MacAddr> macs;
  for (const toml::node& element : *array) {
    const absl::optional<MacAddr> mac = Mac(key, element);
    if (!mac.has_value()) continue;
    if (std::find(macs.begin(), macs.end(), *mac) == macs.end()) {
      macs.push_back(*mac);
    } else {
      mistakes_->Add(LineOf(element),
                     absl::StrCat(key, " names ", mac->ToString(), " twice; remove one"));
    }
  }
  return macs;
}

absl::optional<MacAddr> TableReader::Mac(absl::string_view key, const toml::node& node) const {
  const auto* text = node.as_string();
  const absl::StatusOr<MacAddr> mac = text == nullptr ? MacAddr() : MacAddr::Parse(text->get());
  absl::string_view hint;
  if (text == nullptr || !mac.ok()) {
    hint = "a MAC address is written \"02:00:5e:10:00:01\"";
  } else if (mac->IsGroup()) {
    hint =
        "that is a group address; the first byte of a port's own is even, as in "
        "\"02:00:5e:10:00:01\"";
  } else if (mac->IsZero()) {
    hint = "that is no address; write one such as \"02:00:5e:10:00:01\"";
  } else {
    return *mac;
  }
  mistakes_->Add(LineOf(node), absl::StrCat(key, " is ", Describe(node), "; ", hint));
  return absl::nullopt;
}

absl::optional<std::vector<Gid>> TableReader::Gids(absl::string_view key, size_t most) const {
  if (!Has(key)) return absl::nullopt;
  const auto* array = Find(key)->as_array();
  if (array == nullptr) {
    Wrong(key, absl::StrCat("write ", key, " = [\"fe80::2:c903:e:b72\"]"));
    return absl::nullopt;
  }
  if (array->size() > most) {
    Mistake(key, absl::StrCat(key, " has ", array->size(), " GIDs; the most are ", most));
    return absl::nullopt;
  }
  std::vector<Gid> gids;
  absl::flat_hash_set<Gid> named;
  for (const toml::node& element : *array) {
    const absl::optional<Gid> gid = PortGid(key, element);
    if (!gid.has_value()) continue;
    if (named.insert(*gid).second) {
      gids.push_back(*gid);
    } else {
      mistakes_->Add(LineOf(element),
                     absl::StrCat(key, " names ", gid->ToString(), " twice; remove one"));
    }
  }
  return gids;
}

absl::optional<Gid> TableReader::PortGid(absl::string_view key, const toml::node& node) const {
  const auto* text = node.as_string();
  const absl::StatusOr<Gid> gid = text == nullptr ? Gid() : Gid::Parse(text->get());
  absl::string_view hint;
  if (text == nullptr || !gid.ok()) {
    hint =
        "the GID of a port is written \"fe80::2:c903:e:b72\", as `ibv_devinfo -v` shows it on its "
        "host";
  } else if (gid->IsMulticast()) {
    hint =
        "that is the GID of a multicast group; write that of a port, such as "
        "\"fe80::2:c903:e:b72\"";
  } else if (gid->IsZero()) {
    hint = "that is the GID of no port; write one such as \"fe80::2:c903:e:b72\"";
  } else {
    return *gid;
  }
  mistakes_->Add(LineOf(node), absl::StrCat(key, " has ", Describe(node), "; ", hint));
  return absl::nullopt;
}

}  // namespace eoib
