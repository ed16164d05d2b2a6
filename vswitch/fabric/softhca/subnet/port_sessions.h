// PortSessions: the processes that use the ports of a software subnet. It carries out their
// requests: register, send a MAD, open or close a ring.
//
// A port is up while its link is up and a process wants it: its one owner, which sends and receives
// datagrams, or a guest that sends MADs. Other guests only read the configuration (PortUse).
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_PORT_SESSIONS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_PORT_SESSIONS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "vswitch/fabric/softhca/subnet/conservation.h"
#include "vswitch/fabric/softhca/subnet/fault_table.h"
#include "vswitch/fabric/softhca/subnet/mad_agents.h"
#include "vswitch/fabric/softhca/subnet/port_call_queue.h"
#include "vswitch/fabric/softhca/subnet/port_notifier.h"
#include "vswitch/fabric/softhca/subnet/port_table.h"
#include "vswitch/fabric/softhca/subnet/ring_table.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {

// The LID and QPNs that a port asks for when it registers with a restarted subnet. Granted if free.
struct RegistrationRequest {
  Lid lid;        // 0: any
  QpnRange qpns;  // count 0: a new range
};

// Not thread-safe: the Subnet calls it under its mutex.
class PortSessions {
 public:
  // All outlive the sessions.
  PortSessions(PortTable* ports, RingTable* rings, MadAgents* agents, PortCallQueue* queue,
               PortNotifier* notifier, FaultTable* faults, ConservationLedger* ledger)
      : ports_(ports),
        rings_(rings),
        agents_(agents),
        queue_(queue),
        notifier_(notifier),
        faults_(faults),
        ledger_(ledger) {}

  // Begins `session`, whose use, doorbell and sink are set.
  absl::Status Begin(const std::string& name, const PortResources& resources,
                     const RegistrationRequest& request,
                     const std::shared_ptr<PortSession>& session);
  void End(const std::shared_ptr<PortSession>& session);
  void SetLink(SubnetPort* port, bool up);
  // Closes all rings from and to the port, at both ends.
  void CloseRingsOf(const SubnetPort* port);

  // The calls of SubnetLink.
  absl::Status SendMad(const PortSession& session, Lid destination, const Mad& mad);
  absl::Status OpenRing(const std::shared_ptr<PortSession>& session, uint64_t request,
                        Lid destination, RingEnd end);
  void CloseRing(const PortSession& session, uint64_t ring);

 private:
  absl::Status BeginOwner(SubnetPort* port, const PortResources& resources,
                          const RegistrationRequest& request,
                          const std::shared_ptr<PortSession>& session);
  void BeginGuest(SubnetPort* port, const std::shared_ptr<PortSession>& session);
  void EndOwner(SubnetPort* port);
  void EndGuest(SubnetPort* port, const std::shared_ptr<PortSession>& session);
  // Call after link_up, owner or guests have changed. Returns true if the port went up or down.
  bool UpdateActive(SubnetPort* port);

  PortTable* const ports_;
  RingTable* const rings_;
  MadAgents* const agents_;
  PortCallQueue* const queue_;
  PortNotifier* const notifier_;
  FaultTable* const faults_;
  ConservationLedger* const ledger_;
  uint64_t next_process_ = 1;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_PORT_SESSIONS_H_
