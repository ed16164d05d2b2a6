// MadAgents: everything in a software subnet that answers MADs: the subnet administrator with its
// tables and notices, the subnet management agents of ports and switch, and the performance
// management agents of ports.
//
// A MAD from a port goes to the agent of its class at its destination. Answers and reports are
// queued; the Subnet takes them and delivers them.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_MAD_AGENTS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_MAD_AGENTS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "vswitch/base/address.h"
#include "vswitch/base/clock.h"
#include "vswitch/fabric/softhca/subnet/managed_ports.h"
#include "vswitch/fabric/softhca/subnet/multicast_groups.h"
#include "vswitch/fabric/softhca/subnet/notice_forwarder.h"
#include "vswitch/fabric/softhca/subnet/outgoing_mad.h"
#include "vswitch/fabric/softhca/subnet/pma_responder.h"
#include "vswitch/fabric/softhca/subnet/sa_responder.h"
#include "vswitch/fabric/softhca/subnet/service_records.h"
#include "vswitch/fabric/softhca/subnet/smp_responder.h"

namespace eoib::softhca {

// Not thread-safe: the Subnet calls it under its mutex.
class MadAgents {
 public:
  // `ports` and `clock` outlive the agents. `first_tid` numbers the reports; it must be random,
  // because a port ignores a report whose transaction ID it knows, even from a former subnet
  // manager.
  MadAgents(const ManagedPorts* ports, PmaResponder::CountersOf counters_of, const Clock* clock,
            Mlid last_mlid, uint64_t first_tid)
      : ports_(ports),
        clock_(clock),
        groups_(last_mlid),
        notices_(ports, {.first_tid = first_tid}),
        services_(clock),
        sa_(ports, &groups_, &notices_, &services_),
        smp_(ports),
        pma_(std::move(counters_of)) {}
  MadAgents(const MadAgents&) = delete;
  MadAgents& operator=(const MadAgents&) = delete;

  // Handles a MAD of the active port `from`. The answer goes to `process`, one of its processes.
  // Destination 0 is the subnet manager's LID. While the switch runs no subnet manager, the SA does
  // nothing, but agents of ports still answer.
  void Receive(const ManagedPort& from, uint64_t process, Lid destination, const Mad& mad);
  // The port became active: trap 64.
  void PortInService(const ManagedPort& port);
  // The port is no longer active, and its configuration says so already. Its memberships,
  // subscriptions and services end: trap 65.
  void PortOutOfService(const ManagedPort& port);
  // A new process owns the port, and its counters start again.
  void CountersBegin(const ManagedPort& port) { pma_.ForgetPort(port.config.gid); }
  // Forgets groups, subscriptions and services.
  void RestartSm();

  // Retries what was not confirmed in time. NextDeadline says when to call it; InfiniteFuture if
  // never.
  void Run();
  absl::Time NextDeadline() const;
  // The MADs to deliver, in this order.
  std::vector<OutgoingMad> TakeOutgoing() { return std::exchange(outgoing_, {}); }

  MulticastGroups& groups() { return groups_; }
  const MulticastGroups& groups() const { return groups_; }
  const NoticeForwarder& notices() const { return notices_; }
  const ServiceRecords& services() const { return services_; }
  const SaResponder& sa() const { return sa_; }
  const SmpResponder& smp() const { return smp_; }
  const PmaResponder& pma() const { return pma_; }

 private:
  void ReceiveAtSma(const ManagedPort& from, const MadEndpoint& sender, Lid destination,
                    const Mad& mad, bool directed);
  void ReceiveAtPma(const ManagedPort& from, const MadEndpoint& sender, Lid destination,
                    const Mad& mad);
  void ReceiveAtSa(const ManagedPort& from, const MadEndpoint& sender, const Mad& mad);
  void ReportGroupEvents();

  const ManagedPorts* const ports_;
  const Clock* const clock_;
  MulticastGroups groups_;
  NoticeForwarder notices_;
  ServiceRecords services_;
  SaResponder sa_;
  SmpResponder smp_;
  PmaResponder pma_;
  std::vector<OutgoingMad> outgoing_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_MAD_AGENTS_H_
