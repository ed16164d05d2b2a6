// ConservationLedger: the law of conservation (README.md) over all ports of a software subnet.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_CONSERVATION_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_CONSERVATION_H_

#include <cstdint>
#include <memory>

#include "vswitch/fabric/softhca/counters_page.h"
#include "vswitch/fabric/softhca/soft_port_counters.h"
#include "vswitch/fabric/softhca/subnet/port_table.h"

namespace eoib::softhca {

// The whereabouts of all datagram copies posted since the subnet started: copies = delivered +
// dropped + sending + receiving + in_rings + died, unless ports counted before the start.
struct Conservation {
  uint64_t copies = 0, delivered = 0, dropped = 0;
  int64_t sending = 0, receiving = 0;  // in queues of ports
  int64_t in_rings = 0;
  int64_t died = 0;  // in queues of ports whose processes ended
  // Deaths while another port had no process: copies between the two stay in in_rings.
  uint64_t joint_deaths = 0;
};

// Not thread-safe: the Subnet calls it under its mutex.
class ConservationLedger {
 public:
  // `ports` outlives the ledger. `subnet`: RingTable::subnet.
  ConservationLedger(const PortTable* ports, uint64_t subnet) : ports_(ports), subnet_(subnet) {}

  // A new process owns the port; keeps the counts of the former one.
  void ReplaceCounters(SubnetPort* port, std::shared_ptr<const CountersPage> counters);
  // The port's process has ended.
  void OwnerEnded(const SubnetPort& port);
  Conservation Sum() const;

 private:
  void Account(const SoftPortCounters& counters, bool ended, Conservation* sum) const;

  const PortTable* const ports_;
  const uint64_t subnet_;
  Conservation former_;  // of processes that a later one of the same port replaced
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_CONSERVATION_H_
