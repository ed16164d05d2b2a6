// TableReader reads the values of a TOML table. Mistakes collects the errors that it finds, for a
// message to the operator.
//
// Include it after everything else, since the TOML library changes how later headers behave.
#ifndef EOIB_CONTROL_CONFIG_TABLE_READER_H_
#define EOIB_CONTROL_CONFIG_TABLE_READER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "control/config/config_text.h"
#include "vswitch/base/address.h"
#include "vswitch/forwarder/vlan_policy.h"

// After everything else.
#include "vswitch/base/toml.h"

namespace eoib {

// For messages. Quote: the operator's text, quoted, escaped and shortened.
std::string Quote(absl::string_view text);
// The value at a node: "big", 7, "an array".
std::string Describe(const toml::node& node);
// The line in the file.
inline int LineOf(const toml::source_region& region) { return static_cast<int>(region.begin.line); }
inline int LineOf(const toml::node& node) { return LineOf(node.source()); }

// The mistakes found so far, reported in the order of their lines.
class Mistakes {
 public:
  // `sources` are the files in messages.
  explicit Mistakes(const SourceLines& sources) : sources_(sources) {}

  void Add(int line, absl::string_view message);
  // For a message about another line: "line 12".
  std::string Mention(int line) const { return sources_.Mention(line); }
  bool empty() const { return found_.empty(); }
  absl::Status ToStatus() const;

 private:
  const SourceLines sources_;
  std::multimap<int, std::string> found_;
};

// Reports the keys of `table` that are not in `known`. `where`: " in [[ves]]". `advice` may say
// what to do with such a key, or "".
using KeyAdvice = std::function<std::string(absl::string_view key)>;
void CheckKeys(
    const toml::table& table, absl::string_view where, const std::vector<std::string>& known,
    Mistakes* mistakes, const KeyAdvice& advice = [](absl::string_view) { return ""; });

// All tables [[name]]. Any other form, such as [name], is a mistake.
std::vector<const toml::table*> Tables(const toml::table& root, absl::string_view name,
                                       Mistakes* mistakes);

// Reads the values of one table. Each read returns nullopt if the key is missing or its value is a
// mistake, which it reports.
class TableReader {
 public:
  // `name` is the table's name in messages: "ves".
  TableReader(const toml::table& table, absl::string_view name, Mistakes* mistakes)
      : table_(table), name_(name), mistakes_(mistakes) {}

  int line() const { return LineOf(table_); }
  bool Has(absl::string_view key) const { return Find(key) != nullptr; }
  // Reports `message` at the line of the key, or of the table if the key is missing.
  void Mistake(absl::string_view key, absl::string_view message) const;
  // Reports a wrong value: "mtu is "big"; HINT". The hint says which values are right: "it is an
  // integer from 256 to 4096".
  void Wrong(absl::string_view key, absl::string_view hint) const;
  // Reports the key if it is missing, and a value as an example.
  void Require(absl::string_view key, absl::string_view example) const;

  absl::optional<std::string> String(absl::string_view key, absl::string_view hint) const;
  // The index of the string among `choices`.
  absl::optional<size_t> OneOf(absl::string_view key,
                               const std::vector<absl::string_view>& choices) const;
  absl::optional<int64_t> Integer(absl::string_view key, int64_t min, int64_t max,
                                  absl::string_view unit = "") const;
  // An integer, or a string such as "0x8001".
  absl::optional<int64_t> IntegerOrString(absl::string_view key, int64_t min, int64_t max,
                                          absl::string_view hint) const;
  // Reports a P_Key that IntegerOrString has read, if its 0x seems to be forgotten: pkey = 8001.
  void CheckPKeyPrefix(absl::string_view key, int64_t pkey) const;
  absl::optional<bool> Bool(absl::string_view key) const;
  absl::optional<Vid> Vlan(absl::string_view key) const;
  absl::optional<VlanSet> Vlans(absl::string_view key) const;
  absl::optional<MacAddr> Mac(absl::string_view key) const {
    return Has(key) ? Mac(key, *Find(key)) : absl::nullopt;
  }
  absl::optional<std::vector<MacAddr>> Macs(absl::string_view key) const;
  // An array of at most `most` GIDs of ports. Mistakes in it are reported, and left out.
  absl::optional<std::vector<Gid>> Gids(absl::string_view key, size_t most) const;
  // An array of strings; a mistake suggests `example`.
  std::vector<std::string> Texts(absl::string_view key, absl::string_view example) const;

 protected:
  const toml::node* Find(absl::string_view key) const {
    return table_.get(std::string_view(key.data(), key.size()));
  }
  // At the line of `node`.
  void Report(const toml::node& node, absl::string_view message) const {
    mistakes_->Add(LineOf(node), message);
  }

 private:
  bool AddVlans(absl::string_view key, const toml::node& element, VlanSet* vlans) const;
  absl::optional<MacAddr> Mac(absl::string_view key, const toml::node& node) const;
  absl::optional<Gid> PortGid(absl::string_view key, const toml::node& node) const;

  const toml::table& table_;
  const std::string name_;
  Mistakes* const mistakes_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_CONFIG_TABLE_READER_H_
