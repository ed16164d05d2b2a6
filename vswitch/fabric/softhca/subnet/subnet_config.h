// The partitions of a software subnet, from a TOML file:
//
//   [[partition]]
//   pkey = 0x8001             # either membership form
//   full = ["h1", "h2"]       # names of ports, or "ALL"
//   limited = ["h3"]
//
// A port listed by name is what its name says, whatever "ALL" says. A file that does not mention the default partition has it
// all the same, first in every P_Key table, with every port a full member.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SUBNET_CONFIG_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SUBNET_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "fdb/address.h"

namespace eoib::softhca {

inline constexpr PKey kDefaultPKey{0xffff};

enum class Membership : uint8_t { kNone, kLimited, kFull };

struct Partition {
  PKey pkey;                                 // in its full form
  Membership all = Membership::kNone;        // of ports that are not listed
  std::map<std::string, Membership> listed;  // by name; kNone excludes the port though "ALL" is a member

  Membership Of(const std::string& name) const;
  // The P_Key of a port of that name in this partition, if it is a member.
  absl::optional<PKey> PKeyOf(const std::string& name) const;
};

struct SubnetConfig {
  std::vector<Partition> partitions;  // in the order of P_Key tables; no P_Key twice

  // The default partition only, with every port a full member.
  static SubnetConfig Default();
};

// `source` is what messages call the file. kInvalidArgument: "fabric.toml:12: ...", one line for each mistake.
absl::StatusOr<SubnetConfig> ParseSubnetConfig(absl::string_view toml, absl::string_view source);
absl::StatusOr<SubnetConfig> LoadSubnetConfig(const std::string& path);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SUBNET_CONFIG_H_
