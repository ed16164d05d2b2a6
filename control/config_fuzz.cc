// Any bytes as a configuration: no crash, the same answer twice, and what is accepted keeps the promises of config.h.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "control/config.h"
#include "fdb/check.h"

namespace eoib {
namespace {

void CheckAccepted(const AgentConfig& config) {
  EOIB_CHECK(!config.veses.empty());
  std::set<std::string> veses, vports;
  std::set<uint16_t> partitions;
  for (const VesConfig& ves : config.veses) {
    EOIB_CHECK(!ves.name.empty() && veses.insert(ves.name).second);
    EOIB_CHECK(ves.pkey.IsValid() && partitions.insert(ves.pkey.base()).second);
    EOIB_CHECK(!ves.vlans.empty() && (!ves.qkey.has_value() || ves.qkey->IsControlled()));
  }
  for (const VPortConfig& vport : config.vports) {
    EOIB_CHECK(!vport.name.empty() && vport.name.size() <= 15 && vports.insert(vport.name).second);
    EOIB_CHECK(veses.count(vport.ves) == 1);
    EOIB_CHECK(!vport.mac.has_value() || (!vport.mac->IsGroup() && !vport.mac->IsZero()));
    EOIB_CHECK(!vport.mtu.has_value() || (*vport.mtu >= 68 && *vport.mtu <= 4074));
    EOIB_CHECK(vport.vlan.Untagged().IsValid() && !vport.vlan.trunk_vlans.empty());
  }
}

}  // namespace
}  // namespace eoib

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto first = eoib::ParseConfig(text, "f"), second = eoib::ParseConfig(text, "f");
  EOIB_CHECK(first.status() == second.status());
  if (first.ok()) {
    eoib::CheckAccepted(*first);
  } else {
    EOIB_CHECK(absl::StartsWith(first.status().message(), "f:"));
  }
  return 0;
}
