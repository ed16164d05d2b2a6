// PmaResponder: answers performance management MADs (IBA 1.4 §16.1) for the ports of a software
// subnet: ClassPortInfo, PortCounters and PortCountersExtended.
//
// Only a port's process can change its counters. So a Set clears a counter by remembering its
// value, which is subtracted from then on. The two attributes are cleared separately.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_PMA_RESPONDER_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_PMA_RESPONDER_H_

#include <functional>
#include <map>
#include <utility>

#include "absl/types/optional.h"
#include "vswitch/base/address.h"
#include "vswitch/fabric/softhca/soft_port_counters.h"
#include "vswitch/fabric/softhca/subnet/managed_ports.h"
#include "vswitch/wire/ib/perf_mad.h"

namespace eoib::softhca {

// Not thread-safe: the Subnet calls it under its mutex.
class PmaResponder {
 public:
  using CountersOf = std::function<SoftPortCounters(const ManagedPort& port)>;
  struct Counters {
    uint64_t requests = 0;  // answered, with whatever status
  };

  explicit PmaResponder(CountersOf counters_of) : counters_of_(std::move(counters_of)) {}

  // Returns the answer of `port` to `mad`, or nullopt if `mad` is no request of this class.
  absl::optional<Mad> Respond(const ManagedPort& port, const Mad& mad);
  // The port has a new process, whose counters start from zero.
  void ForgetPort(const Gid& port) { baselines_.erase(port); }
  const Counters& counters() const { return counters_; }

  // Converts to the attribute, before baselines are subtracted.
  static PortCountersAttribute ToAttribute(const SoftPortCounters& counters);

 private:
  struct Baselines {
    PortCountersAttribute plain, extended;
  };

  MadStatus Answer(const ManagedPort& port, const MadHeader& request, const Mad& mad, Mad* reply);
  MadStatus AnswerCounters(const ManagedPort& port, bool extended, const MadHeader& request,
                           const Mad& mad, Mad* reply);

  const CountersOf counters_of_;
  std::map<Gid, Baselines> baselines_;
  Counters counters_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_PMA_RESPONDER_H_
