// FaultTable: the faults that the ports of a software subnet simulate, by the names of source and
// destination.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_FAULT_TABLE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_FAULT_TABLE_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "vswitch/fabric/softhca/fault_rule.h"
#include "vswitch/fabric/softhca/subnet/port_call_queue.h"
#include "vswitch/fabric/softhca/subnet/port_table.h"

namespace eoib::softhca {

inline constexpr char kAnyPort[] = "*";

// Names are those of ports, registered or not, or kAnyPort.
struct Fault {
  std::string source, destination;
  FaultRule rule;  // its `source` is not used
};

// Not thread-safe: the Subnet calls it under its mutex. Each change queues calls to the ports that
// it concerns.
class FaultTable {
 public:
  // Both outlive the table.
  FaultTable(const PortTable* ports, PortCallQueue* queue) : ports_(ports), queue_(queue) {}

  absl::Status Set(const Fault& fault);
  absl::Status Clear(const std::string& source, const std::string& destination);
  void ClearAll();
  std::vector<Fault> All() const;

  // Tells a newly registered port its rules, and other ports the rules that name it as a source.
  void PortRegistered(SubnetPort* port);

 private:
  void Tell(SubnetPort* port);
  // Tells the ports whose rules differ from the last ones sent.
  void TellChanged();
  const FaultRule* Find(const std::string& source, const std::string& destination) const;
  std::vector<FaultRule> RulesTo(const std::string& destination) const;

  const PortTable* const ports_;
  PortCallQueue* const queue_;
  std::map<std::pair<std::string, std::string>, FaultRule> faults_;  // by source, destination
  bool told_ = false;                                                // some port may have rules
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_FAULT_TABLE_H_
