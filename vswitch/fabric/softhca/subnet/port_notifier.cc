#include "vswitch/fabric/softhca/subnet/port_notifier.h"

#include <algorithm>
#include <utility>

namespace eoib::softhca {

SourceIdentity PortNotifier::IdentityOf(const SubnetPort& port) {
  return SourceIdentity{port.config.lid, port.config.gid, port.config.pkeys, port.config.qpns};
}

void PortNotifier::TellConfig(const SubnetPort& port) {
  const auto tell = [config = port.config](PortSink* to) { to->OnPortConfig(config); };
  queue_->Push(port.owner, tell);
  for (const auto& guest : port.guests) queue_->Push(guest, tell);
}

void PortNotifier::TellAllConfigs() {
  for (const auto& [name, port] : ports_->by_name()) TellConfig(*port);
}

void PortNotifier::TellIdentity(const SubnetPort& port) {
  for (const auto& [id, ring] : rings_->rings()) {
    if (ring.source != &port) continue;
    queue_->Push(ring.destination->owner, [id = id, identity = IdentityOf(port)](PortSink* to) {
      to->OnSourceChanged(id, identity);
    });
  }
}

void PortNotifier::TellRingClosed(const SubnetPort& port, uint64_t ring) {
  queue_->Push(port.owner, [ring](PortSink* to) { to->OnRingClosed(ring); });
}

void PortNotifier::TellGroups(const SubnetPort& port) {
  for (const auto& [mgid, group] : agents_->groups().groups()) {
    TellGroup(port, group.record.mlid, ReceiversOf(group.record.mlid));
  }
}

// Groups first, so that a port whose join is confirmed can already reach the other members.
void PortNotifier::TellAgentOutput() {
  for (const Mlid mlid : agents_->groups().TakeChanged()) {
    const Lids members = ReceiversOf(mlid);
    for (const auto& [name, port] : ports_->by_name()) TellGroup(*port, mlid, members);
  }
  for (const OutgoingMad& outgoing : agents_->TakeOutgoing()) TellMad(outgoing);
}

void PortNotifier::TellMad(const OutgoingMad& outgoing) {
  const Lid from = outgoing.from == Lid() ? ports_->Switch().lid : outgoing.from;
  const auto tell = [&](const std::shared_ptr<PortSession>& session) {
    if (session == nullptr || session->use == PortUse::kQuery) return;
    if (outgoing.to.process != 0 && outgoing.to.process != session->process) return;
    queue_->Push(session, [from, mad = outgoing.mad](PortSink* to) { to->OnMad(from, mad); });
  };
  const SubnetPort& port = *ports_->AtGid(outgoing.to.port);
  tell(port.owner);
  for (const auto& guest : port.guests) tell(guest);
}

// A port outside the group's partition gets an empty list, because it may just have left the
// partition.
void PortNotifier::TellGroup(const SubnetPort& port, Mlid mlid, Lids members) {
  const MulticastGroup* group = agents_->groups().FindByMlid(mlid);
  if (group != nullptr && !IsMemberOfPartition(port.config, group->record.pkey)) {
    members = std::make_shared<const std::vector<Lid>>();
  }
  queue_->Push(port.owner,
               [mlid, members = std::move(members)](PortSink* to) { to->OnGroup(mlid, *members); });
}

PortNotifier::Lids PortNotifier::ReceiversOf(Mlid mlid) const {
  auto lids = std::make_shared<std::vector<Lid>>();
  if (const MulticastGroup* group = agents_->groups().FindByMlid(mlid)) {
    for (const Gid& member : group->Receivers()) {
      // A member that lost the P_Key stays a member, as with OpenSM. Senders must leave it out
      // themselves, because no switch does.
      const PortConfig& config = ports_->AtGid(member)->config;
      if (IsMemberOfPartition(config, group->record.pkey)) lids->push_back(config.lid);
    }
  }
  std::sort(lids->begin(), lids->end());
  return lids;
}

}  // namespace eoib::softhca
