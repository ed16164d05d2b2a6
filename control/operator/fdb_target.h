// FdbTarget: what a command on one MAC is about. The operator writes "VES VLAN MAC [VPORT]", or in
// the words of bridge(8) "MAC [dev VPORT] [vlan VLAN] [ves VES]".
#ifndef EOIB_CONTROL_OPERATOR_FDB_TARGET_H_
#define EOIB_CONTROL_OPERATOR_FDB_TARGET_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "control/operator/ves_commands.h"
#include "control/ves/ves.h"
#include "control/vport/vport.h"
#include "fdb/fdb_key.h"

namespace eoib {

struct FdbTarget {
  static constexpr char kUsage[] = "VES VLAN MAC | MAC [dev VPORT] [vlan VLAN] [ves VES]";
  static constexpr char kUsageWithVPort[] =
      "VES VLAN MAC VPORT | MAC dev VPORT [vlan VLAN] [ves VES]";

  Ves* ves = nullptr;
  FdbKey key;
  const VPort* vport = nullptr;  // null: not named

  // Without a VES that of the vPort is meant, or the only one; without a VLAN that of the vPort's
  // untagged frames, or 0.
  static absl::StatusOr<FdbTarget> Parse(const VesFinder& finder,
                                         absl::Span<const std::string> words);
};

absl::StatusOr<Vid> ParseVid(const std::string& text);
absl::StatusOr<FdbKey> ParseFdbKey(const std::string& vlan, const std::string& mac);
// The vPort of that name on this host.
absl::StatusOr<const VPort*> FindVPort(const Ves& ves, const std::string& name);

}  // namespace eoib

#endif  // EOIB_CONTROL_OPERATOR_FDB_TARGET_H_
