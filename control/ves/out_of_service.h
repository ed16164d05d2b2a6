// OutOfService: flushes the MACs behind ports that the subnet reports out of service, as trap 65
// says.
//
// It waits for kGoneForGood first: a killed agent is back within a second with the same GID, and
// its new incarnation then takes over all its MACs at once. README.md ("What the subnet reports")
// has the rules.
#ifndef EOIB_CONTROL_VES_OUT_OF_SERVICE_H_
#define EOIB_CONTROL_VES_OUT_OF_SERVICE_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "control/subnet/path_resolver.h"
#include "control/ves/ves_protocol.h"
#include "fdb/fdb.h"
#include "fdb/vport_directory.h"
#include "vswitch/base/address.h"
#include "vswitch/base/clock.h"

namespace eoib {

// Control thread only.
class OutOfService {
 public:
  static constexpr absl::Duration kGoneForGood = absl::Seconds(3);

  // They outlive the object.
  struct Dependencies {
    Fdb* fdb;
    VPortDirectory* directory;
    PathResolver* resolver;
    VesProtocol* protocol;
    const Clock* clock;
  };
  // `ves` is the name of the VES, for the log.
  OutOfService(const std::string& ves, const Dependencies& dependencies)
      : ves_(ves), use_(dependencies) {}

  // Trap 64: the port is in service. Trap 65: it is not.
  void OnInService(const Gid& gid);
  void OnOutOfService(const Gid& gid);

  // Flushes the MACs behind the ports whose time is over and that were not heard meanwhile.
  void Run();
  absl::Time NextDeadline() const;

 private:
  using Ports = absl::flat_hash_map<Gid, absl::Time>;  // and the time of their trap 65
  using Behind = absl::flat_hash_map<VPortId, Gid>;    // vPorts at such ports

  Ports TakeDue();
  Behind VPortsBehind(const Ports& ports) const;
  absl::flat_hash_set<Gid> HeardSince(const Ports& ports, const Behind& behind) const;

  const std::string ves_;
  const Dependencies use_;
  Ports gone_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_VES_OUT_OF_SERVICE_H_
