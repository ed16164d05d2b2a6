// Reads the configuration of a program that has VESes, vPorts and further tables of its own, such
// as eoib-gateway.
//
// Include it after everything else, for the reason that table_reader.h gives.
#ifndef EOIB_CONTROL_CONFIG_CONFIG_READER_H_
#define EOIB_CONTROL_CONFIG_CONFIG_READER_H_

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "control/config/config.h"
#include "control/config/config_text.h"
#include "vswitch/wire/ip/ip_address.h"

// After everything else.
#include "control/config/table_reader.h"

namespace eoib {

struct ConfigExtension {
  std::vector<std::string> tables;  // the names of its tables: "gateway"
  std::string example;              // a minimal file, for the message that there is none
  // Reads those tables. The VESes and vPorts of `config` have been read; it may add vPorts.
  std::function<void(const toml::table& root, AgentConfig* config, Mistakes* mistakes)> read;
  bool has_workers = false;  // the program may have several workers
};

// As ParseConfig.
absl::StatusOr<AgentConfig> ParseConfigWith(const ConfigText& config,
                                            const ConfigExtension& extension);
// The text of a configuration file. kNotFound if there is none: the message has `example`.
absl::StatusOr<std::string> ReadConfigFile(const std::string& path, absl::string_view example);

template <typename From, typename To>
void Assign(const From& from, To* to) {
  *to = static_cast<To>(from);
}
template <typename From, typename To>
void Assign(const From& from, absl::optional<To>* to) {
  *to = static_cast<To>(from);
}
inline void Assign(int64_t seconds, absl::Duration* to) { *to = absl::Seconds(seconds); }
inline void Assign(size_t choice, MoveDamper::Action* to) {
  using Action = MoveDamper::Action;
  *to =
      std::array{Action::kFreeze, Action::kFreezeUntilThawed, Action::kWarn, Action::kOff}[choice];
}

// Reads a table by its rows of keys, as config_keys.h has them.
class RowReader : public TableReader {
 public:
  using TableReader::TableReader;

  // Keeps a wrong text, for further messages.
  absl::optional<std::string> Text(absl::string_view key, bool (*is_right)(absl::string_view),
                                   absl::string_view hint) const {
    const auto text = String(key, hint);
    if (text.has_value() && !is_right(*text)) Wrong(key, hint);
    return text;
  }
  absl::optional<const VPortKind*> Kind(absl::string_view key) const {
    std::vector<absl::string_view> names;
    for (const VPortKind* kind : kVPortKinds) names.push_back(kind->name);
    const auto index = OneOf(key, names);
    return index.has_value() ? absl::make_optional(kVPortKinds[*index]) : absl::nullopt;
  }
  // An array of strings such as `example`. Reports those that `parse` refuses, with `hint`, and
  // leaves them out.
  template <typename Value>
  absl::optional<std::vector<Value>> List(absl::string_view key, absl::string_view example,
                                          absl::string_view hint,
                                          absl::optional<Value> (*parse)(absl::string_view)) const {
    if (!Has(key)) return absl::nullopt;
    std::vector<Value> values;
    for (const std::string& text : Texts(key, example)) {
      const absl::optional<Value> value = parse(text);
      value.has_value() ? values.push_back(*value)
                        : Mistake(key, absl::StrCat(key, " has ", Quote(text), "; ", hint));
    }
    return values;
  }
  // An array of IP addresses that hosts can have.
  absl::optional<std::vector<IpAddr>> Hosts(absl::string_view key, absl::string_view example) const;
  // Leaves the member as it is if `value` is absent.
  template <typename Value, typename Member>
  void Store(absl::string_view key, const absl::optional<Value>& value, Member* member) {
    if (value.has_value()) Assign(*value, member);
    if (Has(key) && !value.has_value()) wrong_.insert(key);
  }
  bool IsWrong(absl::string_view key) const { return wrong_.contains(key); }
  bool IsRead(absl::string_view key) const { return Has(key) && !IsWrong(key); }

 private:
  absl::flat_hash_set<absl::string_view> wrong_;
};

// Reads a row of keys with a RowReader `reader` into `config`.
#define EOIB_READ_ROW(name, member, effect, by_default, value, help) \
  {                                                                  \
    constexpr absl::string_view key = #name;                         \
    reader.Store(key, reader.value, &config.member);                 \
  }

}  // namespace eoib

#endif  // EOIB_CONTROL_CONFIG_CONFIG_READER_H_
