// PortNotifier: tells the ports of a software subnet what concerns them: configurations, rings,
// groups, MADs.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_PORT_NOTIFIER_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_PORT_NOTIFIER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "vswitch/base/address.h"
#include "vswitch/fabric/softhca/subnet/mad_agents.h"
#include "vswitch/fabric/softhca/subnet/outgoing_mad.h"
#include "vswitch/fabric/softhca/subnet/port_call_queue.h"
#include "vswitch/fabric/softhca/subnet/port_table.h"
#include "vswitch/fabric/softhca/subnet/ring_table.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {

// Queues the calls; the Subnet delivers them without its mutex. Not thread-safe: the Subnet calls
// it under its mutex.
class PortNotifier {
 public:
  // All four outlive the notifier.
  PortNotifier(const PortTable* ports, const RingTable* rings, MadAgents* agents,
               PortCallQueue* queue)
      : ports_(ports), rings_(rings), agents_(agents), queue_(queue) {}

  // To all processes of the port, or to all ports.
  void TellConfig(const SubnetPort& port);
  void TellAllConfigs();
  // Tells the consumers of the port's rings its identity.
  void TellIdentity(const SubnetPort& port);
  void TellRingClosed(const SubnetPort& port, uint64_t ring);
  // Tells the port all groups.
  void TellGroups(const SubnetPort& port);
  // Tells all ports what the agents produced: changed groups and MADs.
  void TellAgentOutput();

  static SourceIdentity IdentityOf(const SubnetPort& port);

 private:
  using Lids = std::shared_ptr<const std::vector<Lid>>;

  void TellMad(const OutgoingMad& outgoing);
  void TellGroup(const SubnetPort& port, Mlid mlid, Lids members);
  Lids ReceiversOf(Mlid mlid) const;

  const PortTable* const ports_;
  const RingTable* const rings_;
  MadAgents* const agents_;
  PortCallQueue* const queue_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_PORT_NOTIFIER_H_
