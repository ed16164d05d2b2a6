// MadAgents: everything that answers MADs in a software subnet, behind one door: the subnet administrator with its tables and
// notices, the subnet management agents of ports and switch, the performance management agents of ports.
//
// A MAD that a port sends goes to the agent of its class at its destination. Answers, reports and segments are put out one by
// one: the Subnet takes them and tells them to their ports.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_MAD_AGENTS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_MAD_AGENTS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "fdb/address.h"
#include "fdb/clock.h"
#include "vswitch/fabric/softhca/subnet/managed_ports.h"
#include "vswitch/fabric/softhca/subnet/multicast_groups.h"
#include "vswitch/fabric/softhca/subnet/notice_forwarder.h"
#include "vswitch/fabric/softhca/subnet/pma_responder.h"
#include "vswitch/fabric/softhca/subnet/rmpp_sender.h"
#include "vswitch/fabric/softhca/subnet/sa_responder.h"
#include "vswitch/fabric/softhca/subnet/smp_responder.h"

namespace eoib::softhca {

// Not thread-safe: the Subnet calls it under its mutex.
class MadAgents {
 public:
  // `ports` and `clock` outlive the agents. `first_tid` is of reports: one at random, since ports take a report with a number
  // that they know for a repeated one, also of a subnet manager's predecessor.
  MadAgents(const ManagedPorts* ports, PmaResponder::CountersOf counters_of, const Clock* clock, Mlid last_mlid,
            uint64_t first_tid)
      : ports_(ports),
        clock_(clock),
        groups_(last_mlid),
        notices_(ports, {.first_tid = first_tid}),
        sa_(ports, &groups_, &notices_),
        smp_(ports),
        pma_(std::move(counters_of)) {}
  MadAgents(const MadAgents&) = delete;
  MadAgents& operator=(const MadAgents&) = delete;

  // `from` is active; `process` is the one of its processes that asks, and hears the answer. A destination of 0 is the subnet
  // manager's LID. While the switch runs no subnet manager, nothing of an
  // SA happens; agents of ports answer all the same.
  void Receive(const ManagedPort& from, uint64_t process, Lid destination, const Mad& mad);
  // The port became active: trap 64.
  void PortInService(const ManagedPort& port);
  // The port, whose configuration says so already, was active and is no more: its memberships, its subscriptions and what it
  // was being told end. Trap 65.
  void PortOutOfService(const ManagedPort& port);
  // A process has taken the port, whose counters are that process's from now on.
  void CountersBegin(const ManagedPort& port) { pma_.ForgetPort(port.config.gid); }
  // Groups, subscriptions and tables under way are forgotten.
  void RestartSm();

  // Repeats what was not confirmed in time. NextDeadline says when; InfiniteFuture if never.
  void Run();
  absl::Time NextDeadline() const;
  // MADs to be told to their ports, in this order.
  std::vector<OutgoingMad> TakeOutgoing() { return std::exchange(outgoing_, {}); }

  MulticastGroups& groups() { return groups_; }
  const MulticastGroups& groups() const { return groups_; }
  const NoticeForwarder& notices() const { return notices_; }
  const RmppSender& tables() const { return tables_; }
  const SaResponder& sa() const { return sa_; }
  const SmpResponder& smp() const { return smp_; }
  const PmaResponder& pma() const { return pma_; }

 private:
  void ReceiveAtSma(const ManagedPort& from, const MadEndpoint& sender, Lid destination, const Mad& mad, bool directed);
  void ReceiveAtPma(const ManagedPort& from, const MadEndpoint& sender, Lid destination, const Mad& mad);
  void ReceiveAtSa(const ManagedPort& from, const MadEndpoint& sender, const Mad& mad);
  void Answer(const MadEndpoint& to, SaAnswer answer);
  void ReportGroupEvents();

  const ManagedPorts* const ports_;
  const Clock* const clock_;
  MulticastGroups groups_;
  NoticeForwarder notices_;
  RmppSender tables_;
  SaResponder sa_;
  SmpResponder smp_;
  PmaResponder pma_;
  std::vector<OutgoingMad> outgoing_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_MAD_AGENTS_H_
