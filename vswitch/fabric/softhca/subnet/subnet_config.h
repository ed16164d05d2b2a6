// SubnetConfig: the partitions of a software subnet, from a TOML file:
//
//       [[partition]]
//       pkey = 0x8001             # either membership form
//       full = ["h1", "h2"]       # names of ports, or "ALL"
//       limited = ["h3"]
//       excluded = ["h4"]         # from "ALL"
//
// A port's own name goes before "ALL". If the file does not mention the default partition, it comes
// first in every P_Key table, with every port as a full member.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SUBNET_CONFIG_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SUBNET_CONFIG_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "vswitch/base/address.h"

namespace eoib::softhca {

inline constexpr PKey kDefaultPKey{0xffff};

enum class Membership : uint8_t { kNone, kLimited, kFull };

struct Partition {
  PKey pkey;                                 // in the full form
  Membership all = Membership::kNone;        // ports that are not listed
  std::map<std::string, Membership> listed;  // by name; kNone excludes the port from "ALL"

  Membership Of(const std::string& name) const;
  // The P_Key of the port of that name, if it is a member.
  absl::optional<PKey> PKeyOf(const std::string& name) const;
  // For the operator: "0x8001: ALL full, h3 limited".
  std::string ToString() const;

  friend bool operator==(const Partition&, const Partition&) = default;
};

struct SubnetConfig {
  std::vector<Partition> partitions;  // in the order of P_Key tables; P_Keys are unique

  // Only the default partition, with every port as a full member.
  static SubnetConfig Default();
};

// What differs, for the operator, a line for each partition; empty if nothing does.
std::string DiffPartitions(const std::vector<Partition>& before,
                           const std::vector<Partition>& after);

// `source` names the file in messages. kInvalidArgument: "fabric.toml:12: ...", one line for each
// mistake.
absl::StatusOr<SubnetConfig> ParseSubnetConfig(absl::string_view toml, absl::string_view source);
// As ParseSubnetConfig, without the default partition that the file does not mention.
absl::StatusOr<SubnetConfig> ParsePartitions(absl::string_view toml, absl::string_view source);
// Adds the default partition if it is missing.
void AddDefaultPartition(SubnetConfig* config);
// The partitions as TOML, which parses to the same ones.
std::string ToToml(const std::vector<Partition>& partitions);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SUBNET_CONFIG_H_
