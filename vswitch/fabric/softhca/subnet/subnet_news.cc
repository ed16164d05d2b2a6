// Subnet: what it tells its ports, and in which order. The rest is in subnet.cc.
#include <algorithm>
#include <utility>

#include "vswitch/fabric/softhca/subnet/subnet.h"

namespace eoib::softhca {

SourceIdentity Subnet::IdentityOf(const Port& port) {
  return SourceIdentity{port.config.lid, port.config.gid, port.config.pkeys, port.config.qpns};
}

void Subnet::Tell(const std::shared_ptr<Session>& session, absl::AnyInvocable<void(PortSink*)> call) {
  if (session != nullptr) deliveries_.push_back(Delivery{session, std::move(call)});
}

void Subnet::TellConfig(Port* port) {
  const auto tell = [config = port->config](PortSink* to) { to->OnPortConfig(config); };
  Tell(port->owner, tell);
  for (const auto& guest : port->guests) Tell(guest, tell);
}

void Subnet::TellSource(Port* port) {
  for (const auto& [ring, ends] : rings_) {
    if (ends.source != port) continue;
    Tell(ends.destination->owner,
         [ring = ring, identity = IdentityOf(*port)](PortSink* to) { to->OnSourceChanged(ring, identity); });
  }
}

void Subnet::TellRingClosed(Port* port, uint64_t ring) {
  Tell(port->owner, [ring](PortSink* to) { to->OnRingClosed(ring); });
}

// Groups first, so that a port whose join is confirmed can already reach the other members.
void Subnet::TellNews() {
  for (const Mlid mlid : agents_.groups().TakeChanged()) {
    const auto members = ReceiverLids(mlid);
    for (const auto& [name, port] : ports_) TellGroup(*port, mlid, members);
  }
  for (const OutgoingMad& outgoing : agents_.TakeOutgoing()) TellMad(outgoing);
}

void Subnet::TellMad(const OutgoingMad& outgoing) {
  const Lid from = outgoing.from == Lid() ? switch_.lid : outgoing.from;
  const auto tell = [&](const std::shared_ptr<Session>& session) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (session == nullptr || session->use == PortUse::kQuery) return;
    if (outgoing.to.process != 0 && outgoing.to.process != session->process) return;
    Tell(session, [from, mad = outgoing.mad](PortSink* to) { to->OnMad(from, mad); });
  };
  const Port& port = *by_gid_.at(outgoing.to.port);
  tell(port.owner);
  for (const auto& guest : port.guests) tell(guest);
}

// A port outside the group's partition gets an empty list, because it may just have left the partition.
void Subnet::TellGroup(const Port& port, Mlid mlid, std::shared_ptr<const std::vector<Lid>> members) {
  const MulticastGroup* group = agents_.groups().FindByMlid(mlid);
  if (group != nullptr && !IsMemberOfPartition(port.config, group->record.pkey)) {
    members = std::make_shared<const std::vector<Lid>>();
  }
  Tell(port.owner, [mlid, members = std::move(members)](PortSink* to) { to->OnGroup(mlid, *members); });
}

std::shared_ptr<const std::vector<Lid>> Subnet::ReceiverLids(Mlid mlid) const {
  auto lids = std::make_shared<std::vector<Lid>>();
  if (const MulticastGroup* group = agents_.groups().FindByMlid(mlid)) {
    for (const Gid& member : group->Receivers()) {
      // A member that lost the P_Key stays a member, as with OpenSM. Senders must leave it out themselves, because no switch
      // does.
      const PortConfig& config = by_gid_.at(member)->config;
      if (IsMemberOfPartition(config, group->record.pkey)) lids->push_back(config.lid);
    }
  }
  std::sort(lids->begin(), lids->end());
  return lids;
}

void Subnet::Deliver() {
  {
    absl::MutexLock lock(&mutex_);
    // The other thread also makes the calls queued meanwhile.
    if (delivering_) return;
    delivering_ = true;
  }
  Delivery delivery;
  PortSink* sink = nullptr;
  while (TakeDelivery(&delivery, &sink)) delivery.call(sink);
}

bool Subnet::TakeDelivery(Delivery* delivery, PortSink** sink) {
  absl::MutexLock lock(&mutex_);
  while (!deliveries_.empty()) {
    *delivery = std::move(deliveries_.front());
    deliveries_.pop_front();
    *sink = delivery->session->sink;
    // Unregister waits for this call to end.
    being_told_ = delivery->session;
    if (*sink != nullptr) return true;
  }
  being_told_ = nullptr;
  delivering_ = false;
  return false;
}

}  // namespace eoib::softhca
