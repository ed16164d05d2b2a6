#include "vswitch/fabric/softhca/subnet/port_sessions.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace eoib::softhca {
namespace {

// True if some process wants the port up.
bool IsUsed(const SubnetPort& port) {
  return port.owner != nullptr ||
         std::any_of(port.guests.begin(), port.guests.end(),
                     [](const auto& guest) { return guest->use == PortUse::kManage; });
}

// True if a ring can lead from `source` to `destination`, which may be null.
bool MayOpenRing(const SubnetPort& source, const SubnetPort* destination) {
  return source.config.active && destination != nullptr && destination->owner != nullptr &&
         destination->config.active;
}

}  // namespace

// ---- Registration.

absl::Status PortSessions::Begin(const std::string& name, const PortResources& resources,
                                 const RegistrationRequest& request,
                                 const std::shared_ptr<PortSession>& session) {
  SubnetPort* port = ports_->Find(name);
  if (port == nullptr && session->use == PortUse::kQuery) {
    return absl::NotFoundError(absl::StrCat("query port ", name, ": there is no such port"));
  }
  if (port == nullptr) port = ports_->Add(name, request.lid);
  if (port == nullptr)
    return absl::ResourceExhaustedError(absl::StrCat("register port ", name, ": no LID is left"));
  session->port = port;
  session->process = next_process_++;
  if (session->use == PortUse::kOwn) return BeginOwner(port, resources, request, session);
  BeginGuest(port, session);
  return absl::OkStatus();
}

absl::Status PortSessions::BeginOwner(SubnetPort* port, const PortResources& resources,
                                      const RegistrationRequest& request,
                                      const std::shared_ptr<PortSession>& session) {
  if (port->owner != nullptr) {
    return absl::AlreadyExistsError(
        absl::StrCat("register port ", port->name,
                     ": a living process has registered it; stop that one, or use another name"));
  }
  if (absl::Status status = ports_->AssignQpns(port, request.qpns); !status.ok()) return status;
  port->owner = session;
  ++port->registrations;
  ledger_->ReplaceCounters(port, resources.counters);
  agents_->CountersBegin(*port);
  // If guests kept the port up, trap 64 was sent before it could receive datagrams: send it again.
  if (!UpdateActive(port) && port->config.active) agents_->PortInService(*port);
  notifier_->TellConfig(*port);  // the first call that a new owner gets
  faults_->PortRegistered(port);
  notifier_->TellGroups(*port);
  return absl::OkStatus();
}

void PortSessions::BeginGuest(SubnetPort* port, const std::shared_ptr<PortSession>& session) {
  port->guests.insert(session);
  if (UpdateActive(port)) return notifier_->TellConfig(*port);
  queue_->Push(session, [config = port->config](PortSink* to) { to->OnPortConfig(config); });
}

bool PortSessions::UpdateActive(SubnetPort* port) {
  const bool active = port->link_up && IsUsed(*port);
  if (active == port->config.active) return false;
  port->config.active = active;
  active ? agents_->PortInService(*port) : agents_->PortOutOfService(*port);
  return true;
}

void PortSessions::End(const std::shared_ptr<PortSession>& session) {
  session->ended = true;
  session->use == PortUse::kOwn ? EndOwner(session->port) : EndGuest(session->port, session);
}

void PortSessions::EndOwner(SubnetPort* port) {
  CloseRingsOf(port);
  port->owner = nullptr;
  ledger_->OwnerEnded(*port);
  // Take the port down even if a guest wants it up: this ends the memberships of the owner.
  if (std::exchange(port->config.active, false)) agents_->PortOutOfService(*port);
  UpdateActive(port);
  notifier_->TellConfig(*port);  // for its guests
}

void PortSessions::EndGuest(SubnetPort* port, const std::shared_ptr<PortSession>& session) {
  port->guests.erase(session);
  if (UpdateActive(port)) notifier_->TellConfig(*port);
}

void PortSessions::SetLink(SubnetPort* port, bool up) {
  if (port->link_up == up) return;
  port->link_up = up;
  // Close the rings from here: a process that ignored the change would still send and receive
  // through them.
  if (!up) CloseRingsOf(port);
  UpdateActive(port);
  notifier_->TellConfig(*port);
}

// ---- MADs and rings.

absl::Status PortSessions::SendMad(const PortSession& session, Lid destination, const Mad& mad) {
  if (session.use == PortUse::kQuery) {
    return absl::PermissionDeniedError("send a MAD: the port is registered to be queried only");
  }
  SubnetPort* port = session.port;
  // As on a cable, a MAD without a receiver is lost, and the sender times out.
  if (session.ended || !port->config.active) return absl::OkStatus();
  ++port->mads;
  agents_->Receive(*port, session.process, destination, mad);
  return absl::OkStatus();
}

absl::Status PortSessions::OpenRing(const std::shared_ptr<PortSession>& session, uint64_t request,
                                    Lid destination, RingEnd end) {
  if (session->use != PortUse::kOwn)
    return absl::PermissionDeniedError("open a ring: this process does not own the port");
  if (session->ended)
    return absl::FailedPreconditionError("open a ring: the port is not registered");
  SubnetPort* source = session->port;
  SubnetPort* target = ports_->AtLid(destination);
  if (!MayOpenRing(*source, target)) {
    ++source->rings_refused;
    queue_->Push(session, [request](PortSink* to) { to->OnRingRefused(request); });
    return absl::OkStatus();
  }
  const uint64_t ring = rings_->Add({source, target, end.capacity});
  ++source->rings_made;
  const auto identity = PortNotifier::IdentityOf(*source);
  queue_->Push(target->owner, [ring, identity, end = std::move(end)](PortSink* to) mutable {
    to->OnRingOffered(ring, identity, std::move(end));
  });
  queue_->Push(session, [request, ring, doorbell = target->owner->doorbell](PortSink* to) {
    to->OnRingOpened(request, ring, doorbell);
  });
  return absl::OkStatus();
}

void PortSessions::CloseRing(const PortSession& session, uint64_t ring) {
  if (session.use != PortUse::kOwn || session.ended) return;
  const auto closed = rings_->Remove(ring, session.port);
  if (!closed.has_value()) return;
  notifier_->TellRingClosed(session.port == closed->source ? *closed->destination : *closed->source,
                            ring);
}

void PortSessions::CloseRingsOf(const SubnetPort* port) {
  for (const auto& [id, ring] : rings_->RemoveAllOf(port)) {
    notifier_->TellRingClosed(*ring.source, id);
    notifier_->TellRingClosed(*ring.destination, id);
  }
}

}  // namespace eoib::softhca
