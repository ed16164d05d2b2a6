#include "vswitch/fabric/softhca/subnet/mad_agents.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"

namespace eoib::softhca {

void MadAgents::Receive(const ManagedPort& from, uint64_t process, Lid destination,
                        const Mad& mad) {
  const absl::StatusOr<MadHeader> header = DecodeMadHeader(mad);
  const MadEndpoint sender(from.config.gid, process);
  if (destination == Lid()) destination = ports_->Switch().lid;
  if (header.ok() && (header->mgmt_class == MgmtClass::kSubnLid ||
                      header->mgmt_class == MgmtClass::kSubnDirected)) {
    ReceiveAtSma(from, sender, destination, mad, header->mgmt_class == MgmtClass::kSubnDirected);
  } else if (header.ok() && header->mgmt_class == MgmtClass::kPerf) {
    ReceiveAtPma(from, sender, destination, mad);
  } else if (destination == ports_->Switch().lid && ports_->Switch().runs_sm) {
    ReceiveAtSa(from, sender, mad);
  }
  Run();
}

void MadAgents::ReceiveAtSma(const ManagedPort& from, const MadEndpoint& sender, Lid destination,
                             const Mad& mad, bool directed) {
  const absl::optional<Mad> reply = smp_.Respond(from, destination, mad);
  if (reply.has_value())
    outgoing_.push_back(OutgoingMad{sender, *reply, directed ? kPermissiveLid : destination});
}

// General management MADs pass the P_Key check of queue pair 1 (§10.9.8). The switch has no
// counters.
void MadAgents::ReceiveAtPma(const ManagedPort& from, const MadEndpoint& sender, Lid destination,
                             const Mad& mad) {
  const ManagedPort* port = ports_->FindByLid(destination);
  if (port == nullptr || !MayKnow(from.config, port->config)) return;
  if (absl::optional<Mad> reply = pma_.Respond(*port, mad))
    outgoing_.push_back(OutgoingMad{sender, *reply, destination});
}

void MadAgents::ReceiveAtSa(const ManagedPort& from, const MadEndpoint& sender, const Mad& mad) {
  const absl::StatusOr<SaHeader> header = DecodeSaHeader(mad);
  if (header.ok() && header->method == MadMethod::kReportResp) {
    notices_.Confirm(from.config.gid, header->tid);
  } else if (const absl::optional<std::vector<uint8_t>> answer = sa_.Respond(from.config, mad)) {
    outgoing_.push_back(OutgoingMad{sender, *answer});
    ReportGroupEvents();
  }
}

void MadAgents::ReportGroupEvents() {
  for (const MulticastGroups::Event& event : groups_.TakeEvents()) {
    notices_.Forward(event.trap, event.mgid.gid(), {event.pkey}, clock_->Now());
  }
}

void MadAgents::PortInService(const ManagedPort& port) {
  notices_.Forward(SmTrap::kGidInService, port.config.gid, port.config.pkeys, clock_->Now());
  Run();
}

void MadAgents::PortOutOfService(const ManagedPort& port) {
  const Gid& gid = port.config.gid;
  notices_.RemovePort(gid);
  groups_.RemovePort(gid);
  services_.RemovePort(gid);
  notices_.Forward(SmTrap::kGidOutOfService, gid, port.config.pkeys, clock_->Now());
  ReportGroupEvents();
  Run();
}

void MadAgents::RestartSm() {
  groups_.Clear();
  notices_.Clear();
  services_.Clear();
}

void MadAgents::Run() {
  if (!ports_->Switch().runs_sm) return;
  notices_.Run(clock_->Now(), &outgoing_);
  services_.Run();
}

absl::Time MadAgents::NextDeadline() const {
  if (!ports_->Switch().runs_sm) return absl::InfiniteFuture();
  return std::min(notices_.NextDeadline(), services_.NextDeadline());
}

}  // namespace eoib::softhca
