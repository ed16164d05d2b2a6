#include "vswitch/fabric/softhca/port_management.h"

#include <utility>

#include "absl/status/statusor.h"

namespace eoib::softhca {

void PortManagement::OnPortConfig(const PortConfig& config) {
  absl::MutexLock lock(mutex_);
  const PortConfig before = path_->queue_pairs().config();
  path_->queue_pairs().set_config(config);
  if (std::exchange(configured_, true)) ActOnChanges(before, config);
  path_->inbound().ForEach([identity = path_->Identity()](InboundRing* ring) {
    if (ring->loopback) ring->source = identity;
  });
}

void PortManagement::ActOnChanges(const PortConfig& before, const PortConfig& after) {
  if (before.lid != after.lid) MoveToLid(before.lid, after.lid);
  if (before.active && !after.active) events_->Raise(IBV_EVENT_PORT_ERR);
  if (!before.active && after.active) events_->Raise(IBV_EVENT_PORT_ACTIVE);
  if (before.lid != after.lid) events_->Raise(IBV_EVENT_LID_CHANGE);
  if (before.gid != after.gid) events_->Raise(IBV_EVENT_GID_CHANGE);
  if (before.pkeys != after.pkeys) events_->Raise(IBV_EVENT_PKEY_CHANGE);
  if (before.sm_lid != after.sm_lid) events_->Raise(IBV_EVENT_SM_CHANGE);
  if (before.qpns.first != after.qpns.first) {
    // Peers reject datagrams from QPNs outside the new range, so the old queue pairs are lost.
    path_->queue_pairs().ForEach(
        [events = events_](SoftQp* qp) { events->RaiseForQp(qp, IBV_EVENT_QP_FATAL); });
  }
  const bool restarted = std::exchange(subnet_lost_, false);
  if (restarted || before.reregistrations != after.reregistrations)
    events_->Raise(IBV_EVENT_CLIENT_REREGISTER);
  if (restarted) RenewRings();
}

// A restarted subnet does not know the port's rings, and would not report changes of identity for
// them.
void PortManagement::RenewRings() {
  path_->outbound().ForEach([](RingSender* sender) { sender->Renew(); });
  fds_->WakeBackground();
}

// Datagrams to the old LID, in existing rings, must not arrive here. Peers find the new LID and
// make rings to it.
void PortManagement::MoveToLid(Lid before, Lid after) {
  path_->outbound().Drop(before);
  path_->outbound().Drop(after);
  path_->inbound().ForEach([path = path_](InboundRing* ring) {
    path->inbound().Close(ring);
    if (!ring->loopback) path->outbound().RequestClose(ring->id);
  });
  fds_->WakeBackground();
}

void PortManagement::OnRingOffered(uint64_t ring, const SourceIdentity& source, RingEnd end) {
  std::shared_ptr<RingMemory> memory = end.local;
  if (memory == nullptr) {
    absl::StatusOr<std::shared_ptr<RingMemory>> mapped =
        RingMemory::Map(end.data.get(), end.index.get(), end.capacity);
    if (mapped.ok()) memory = *std::move(mapped);
  }
  absl::MutexLock lock(mutex_);
  if (memory == nullptr) {
    SoftPortCounters& counters = path_->counters();
    ++(end.data.valid() ? counters.corrupt_rings : counters.ring_failures);
    path_->outbound().RequestClose(ring);
    fds_->WakeBackground();
    return;
  }
  // A peer that is back often asks first (ARP), and needs an answer at once.
  if (RingSender* sender = path_->outbound().Find(source.lid)) sender->OnPeerSeen();
  auto inbound = std::make_unique<InboundRing>(ring, source, std::move(memory));
  inbound->space = std::move(end.space);
  inbound->liveness = std::move(end.liveness);
  path_->counters().OnRingOf(SubnetOfRing(ring));
  path_->AddInbound(std::move(inbound));
}

void PortManagement::OnSourceChanged(uint64_t ring, const SourceIdentity& source) {
  absl::MutexLock lock(mutex_);
  if (InboundRing* inbound = path_->inbound().Find(ring)) inbound->source = source;
}

void PortManagement::OnRingClosed(uint64_t ring) {
  absl::MutexLock lock(mutex_);
  if (InboundRing* inbound = path_->inbound().Find(ring)) path_->inbound().Close(inbound);
  if (RingSender* sender = path_->outbound().FindByRing(ring)) sender->OnClosed();
  fds_->WakeBackground();
}

void PortManagement::OnRingOpened(uint64_t request, uint64_t ring,
                                  std::shared_ptr<UniqueFd> doorbell) {
  absl::MutexLock lock(mutex_);
  RingSender* sender = path_->outbound().FindByRequest(request);
  if (sender != nullptr && doorbell != nullptr) {
    path_->counters().OnRingOf(SubnetOfRing(ring));
    sender->OnOpened(ring, std::move(doorbell));
  } else {
    path_->outbound().RequestClose(ring);  // the request was given up, or its destination dropped
    path_->counters().ring_failures += doorbell == nullptr;
    if (sender != nullptr) sender->OnRefused();
  }
  fds_->WakeBackground();
}

void PortManagement::OnRingRefused(uint64_t request) {
  absl::MutexLock lock(mutex_);
  if (RingSender* sender = path_->outbound().FindByRequest(request)) sender->OnRefused();
}

void PortManagement::OnGroup(Mlid mlid, const std::vector<Lid>& members) {
  absl::MutexLock lock(mutex_);
  path_->SetGroup(mlid, members);
}

void PortManagement::OnFaults(const std::vector<FaultRule>& rules) {
  absl::MutexLock lock(mutex_);
  path_->SetFaults(rules);
}

void PortManagement::OnSubnetLost() {
  absl::MutexLock lock(mutex_);
  subnet_lost_ = true;
  path_->outbound().ForEach([](RingSender* sender) {
    if (sender->opening()) sender->OnRefused();
  });
}

}  // namespace eoib::softhca
