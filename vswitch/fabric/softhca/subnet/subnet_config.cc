#include "vswitch/fabric/softhca/subnet/subnet_config.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "vswitch/base/toml.h"
#include "vswitch/fabric/softhca/port_name.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {
namespace {

// Collects all mistakes of a file, so that an operator can correct them together.
class Parser {
 public:
  explicit Parser(absl::string_view source) : source_(source) {}

  absl::StatusOr<SubnetConfig> Parse(const toml::table& root) {
    for (const auto& [key, value] : root) {
      if (key != "partition")
        Mistake(key.source(),
                absl::StrCat("unknown key \"", View(key), "\"; expected [[partition]]"));
    }
    if (const toml::node* node = root.get("partition")) ReadPartitions(*node);
    if (!mistakes_.empty()) return absl::InvalidArgumentError(absl::StrJoin(mistakes_, "\n"));
    return std::move(config_);
  }

 private:
  static absl::string_view View(const toml::key& key) {
    return absl::string_view(key.str().data(), key.str().size());
  }

  void Mistake(const toml::source_region& where, const std::string& what) {
    mistakes_.push_back(absl::StrCat(source_, ":", where.begin.line, ": ", what));
  }

  void ReadPartitions(const toml::node& node) {
    const toml::array* tables = node.as_array();
    if (tables == nullptr || !tables->is_homogeneous(toml::node_type::table)) {
      Mistake(node.source(), "\"partition\" must be an array of tables; write [[partition]]");
      return;
    }
    for (const toml::node& table : *tables) ReadPartition(*table.as_table());
    // Keep one entry for the default partition.
    if (tables->size() >= kMaxPKeys)
      Mistake(node.source(), absl::StrCat("more than ", kMaxPKeys - 1, " partitions"));
  }

  void ReadPartition(const toml::table& table) {
    Partition partition;
    bool has_pkey = false;
    for (const auto& [key, value] : table) {
      if (key == "pkey") {
        has_pkey = true;
        ReadPKey(value, &partition);
      } else if (key == "full") {
        ReadMembers(View(key), value, Membership::kFull, &partition);
      } else if (key == "limited") {
        ReadMembers(View(key), value, Membership::kLimited, &partition);
      } else if (key == "excluded") {
        ReadMembers(View(key), value, Membership::kNone, &partition);
      } else {
        Mistake(key.source(),
                absl::StrCat("unknown key \"", View(key),
                             "\" in [[partition]]; expected pkey, full, limited or excluded"));
      }
    }
    if (!has_pkey) Mistake(table.source(), "[[partition]] without a pkey; write pkey = 0x8001");
    config_.partitions.push_back(std::move(partition));
  }

  void ReadPKey(const toml::node& node, Partition* partition) {
    const auto value = node.value_exact<int64_t>();
    if (!value || *value < 1 || *value > 0xffff || !PKey(static_cast<uint16_t>(*value)).IsValid()) {
      Mistake(node.source(),
              "pkey must be an integer from 0x0001 to 0x7fff or from 0x8001 to 0xffff");
      return;
    }
    const bool hexadecimal = (node.as_integer()->flags() &
                              toml::value_flags::format_as_hexadecimal) != toml::value_flags::none;
    if (!hexadecimal && *value >= 8000 && *value <= 9999) {
      Mistake(node.source(), absl::StrCat("pkey is ", *value, "; did you mean 0x", *value,
                                          "? For the decimal number write 0x",
                                          absl::Hex(*value, absl::kZeroPad4)));
    }
    const PKey pkey = PKey(static_cast<uint16_t>(*value)).Full();
    for (const Partition& other : config_.partitions) {
      if (other.pkey == pkey)
        Mistake(node.source(), absl::StrCat("partition ", pkey.ToString(), " is configured twice"));
    }
    partition->pkey = pkey;
  }

  void ReadMembers(absl::string_view key, const toml::node& node, Membership membership,
                   Partition* partition) {
    const toml::array* names = node.as_array();
    if (names == nullptr) {
      Mistake(node.source(), absl::StrCat("\"", key, "\" must be an array of port names; write ",
                                          key, " = [\"h1\", \"h2\"]"));
      return;
    }
    for (const toml::node& name : *names) ReadMember(name, membership, partition);
  }

  void ReadMember(const toml::node& node, Membership membership, Partition* partition) {
    const auto name = node.value_exact<std::string>();
    if (!name) {
      Mistake(node.source(), "a member must be a port's name in quotes, or \"ALL\"");
    } else if (*name == kAllPorts && membership == Membership::kNone) {
      Mistake(node.source(), "\"ALL\" cannot be excluded; leave it out of full and limited");
    } else if (*name == kAllPorts) {
      if (partition->all != Membership::kNone)
        Mistake(node.source(), "\"ALL\" is listed twice in this partition");
      partition->all = membership;
    } else if (absl::Status status = CheckPortName(*name); !status.ok()) {
      Mistake(node.source(), std::string(status.message()));
    } else if (!partition->listed.emplace(*name, membership).second) {
      Mistake(node.source(),
              absl::StrCat("port \"", *name, "\" is listed twice in this partition"));
    }
  }

  const std::string source_;
  std::vector<std::string> mistakes_;
  SubnetConfig config_;
};

}  // namespace

Membership Partition::Of(const std::string& name) const {
  const auto found = listed.find(name);
  return found != listed.end() ? found->second : all;
}

absl::optional<PKey> Partition::PKeyOf(const std::string& name) const {
  const Membership membership = Of(name);
  if (membership == Membership::kNone) return absl::nullopt;
  return membership == Membership::kFull ? pkey.Full() : pkey.Limited();
}

std::string Partition::ToString() const {
  const auto print = [](absl::string_view name, Membership membership) {
    const char* const words[] = {" excluded", " limited", " full"};
    return absl::StrCat(name, words[static_cast<size_t>(membership)]);
  };
  std::vector<std::string> members;
  if (all != Membership::kNone) members.push_back(print("ALL", all));
  for (const auto& [name, membership] : listed) members.push_back(print(name, membership));
  return absl::StrCat(pkey.ToString(), ": ",
                      members.empty() ? "no members" : absl::StrJoin(members, ", "));
}

std::string DiffPartitions(const std::vector<Partition>& before,
                           const std::vector<Partition>& after) {
  const auto find = [](const std::vector<Partition>& partitions, PKey pkey) -> const Partition* {
    const auto at = std::find_if(partitions.begin(), partitions.end(),
                                 [pkey](const Partition& one) { return one.pkey == pkey; });
    return at == partitions.end() ? nullptr : &*at;
  };
  std::string text;
  for (const Partition& partition : before) {
    if (find(after, partition.pkey) == nullptr)
      absl::StrAppend(&text, "remove partition ", partition.ToString(), "\n");
  }
  for (const Partition& partition : after) {
    const Partition* const old = find(before, partition.pkey);
    if (old == nullptr) {
      absl::StrAppend(&text, "add partition ", partition.ToString(), "\n");
    } else if (*old != partition) {
      absl::StrAppend(&text, "change partition ", old->ToString(), " to ", partition.ToString(),
                      "\n");
    }
  }
  return text;
}

SubnetConfig SubnetConfig::Default() {
  Partition partition;
  partition.pkey = kDefaultPKey;
  partition.all = Membership::kFull;
  return SubnetConfig{{partition}};
}

absl::StatusOr<SubnetConfig> ParsePartitions(absl::string_view toml, absl::string_view source) {
  const toml::parse_result result = toml::parse(std::string_view(toml.data(), toml.size()));
  if (result) return Parser(source).Parse(result.table());
  const std::string_view text = result.error().description();
  return absl::InvalidArgumentError(absl::StrCat(source, ":", result.error().source().begin.line,
                                                 ": ",
                                                 absl::string_view(text.data(), text.size())));
}

absl::StatusOr<SubnetConfig> ParseSubnetConfig(absl::string_view toml, absl::string_view source) {
  absl::StatusOr<SubnetConfig> config = ParsePartitions(toml, source);
  if (config.ok()) AddDefaultPartition(&*config);
  return config;
}

void AddDefaultPartition(SubnetConfig* config) {
  for (const Partition& partition : config->partitions) {
    if (partition.pkey == kDefaultPKey) return;
  }
  config->partitions.insert(config->partitions.begin(), SubnetConfig::Default().partitions.front());
}

std::string ToToml(const std::vector<Partition>& partitions) {
  std::string text;
  for (const Partition& partition : partitions) {
    absl::StrAppend(&text, "[[partition]]\npkey = ", partition.pkey.ToString(), "\n");
    for (const auto& [key, membership] : {std::make_pair("full", Membership::kFull),
                                          std::make_pair("limited", Membership::kLimited),
                                          std::make_pair("excluded", Membership::kNone)}) {
      std::vector<std::string> names;
      if (partition.all == membership && membership != Membership::kNone)
        names.push_back(std::string(kAllPorts));
      for (const auto& [name, listed] : partition.listed) {
        if (listed == membership) names.push_back(name);
      }
      if (!names.empty())
        absl::StrAppend(&text, key, " = [\"", absl::StrJoin(names, "\", \""), "\"]\n");
    }
  }
  return text;
}

}  // namespace eoib::softhca
