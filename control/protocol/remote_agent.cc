#include "control/protocol/remote_agent.h"

#include <algorithm>
#include <utility>

namespace eoib {
namespace {

// Missing ranges in one request.
constexpr size_t kMostRanges = 64;

}  // namespace

bool RemoteAgent::MaySpeakFrom(const PeerAddress& peer) const {
  if (addresses_.contains(peer)) return true;
  if (addresses_.size() >= kMaxAddresses) return false;
  return std::any_of(addresses_.begin(), addresses_.end(), [&](const auto& address) {
    return address.second.confirmed && address.first.gid == peer.gid;
  });
}

bool RemoteAgent::Hear(const PeerAddress& peer, bool by_group, absl::Time now) {
  heard_ = now;
  if (by_group) group.Hear(now);
  const auto at = addresses_.find(peer);
  if (at == addresses_.end()) return false;
  Address& address = at->second;
  address.heard = now;
  if (!address.confirmed) {
    if (address.verifications >= kVerifications) address.verifications = 0;
    return false;
  }
  if (challenge) refuted_ = now;
  challenge.reset();
  address.waiting_since = absl::InfiniteFuture();
  address.probes = 0;
  return std::exchange(address.lost, false);
}

void RemoteAgent::NoteProbe(const PeerAddress& peer, uint64_t token) {
  const auto address = addresses_.find(peer);
  if (address != addresses_.end() && !address->second.confirmed) address->second.token = token;
}

bool RemoteAgent::IsProvenBy(const PeerAddress& peer, uint64_t token) const {
  const auto address = addresses_.find(peer);
  return address != addresses_.end() && !address->second.confirmed &&
         address->second.token == token;
}

bool RemoteAgent::Confirm(const PeerAddress& peer, absl::Time now) {
  Address& address = addresses_[peer];
  if (address.confirmed) return false;
  departure.reset();
  address = Address();
  address.confirmed = true;
  address.heard = now;
  return true;
}

void RemoteAgent::NoteSent(const PeerAddress& peer, absl::Time now) {
  const auto address = addresses_.find(peer);
  if (address == addresses_.end() || !address->second.confirmed || address->second.lost) return;
  address->second.waiting_since = std::min(address->second.waiting_since, now);
}

bool RemoteAgent::TakeAddress(const PeerAddress& peer) { return addresses_.erase(peer) != 0; }

void RemoteAgent::ReplaceAddressesAt(const PeerAddress& peer) {
  std::erase_if(addresses_, [&peer](const auto& address) { return address.first.gid == peer.gid; });
  addresses_[peer].confirmed = true;
  departure.reset();
}

void RemoteAgent::Restart(uint32_t incarnation, const PeerAddress& peer, absl::Time now) {
  group = GroupWatch(now);
  incarnation_ = incarnation;
  view_.version = 0;
  newest_ = 0;
  addresses_.clear();
  assembly_ = StateAssembly();
  challenge.reset();
  departure.reset();
  requests = 0;
  addresses_[peer].confirmed = true;
}

void RemoteAgent::NoteVersion(uint32_t version) { newest_ = std::max(newest_, version); }

bool RemoteAgent::Apply(const VPortMessage& message, ViewChange* change) {
  if (!message.base || message.version <= view_.version || IsChanging()) return false;
  if (*message.base == 0) {
    AgentView view;
    view.Apply(message);
    ReplaceView(std::move(view), change);
  } else if (view_.version != 0 && *message.base == view_.version) {
    view_.Apply(message, &change->macs);
    AdoptAddresses();
  } else {
    return false;
  }
  if (!IsBehind()) assembly_ = StateAssembly();
  return true;
}

RemoteAgent::Taken RemoteAgent::TakePart(const VPortMessage& message, ViewChange* change) {
  if (message.token != request_token || !IsBehind() || IsChanging() || !assembly_.Take(message))
    return Taken::kNothing;
  if (!assembly_.IsComplete()) return Taken::kPart;
  AgentView view = assembly_.Release();
  if (view.version <= view_.version) return Taken::kPart;  // a change that came meanwhile is newer
  ReplaceView(std::move(view), change);
  return Taken::kState;
}

void RemoteAgent::ReplaceView(AgentView view, ViewChange* change) {
  change->replaces = true;
  change->former = view_.TakeMacs();
  view_ = std::move(view);
  AdoptAddresses();
}

void RemoteAgent::FillRequest(VPortMessage* request) const {
  request->token = request_token;
  request->wants_full_state = true;
  if (view_.version != 0) request->base = view_.version;
  if (IsAssembling()) request->ranges = assembly_.Missing(kMostRanges);
}

// The addresses that the agent lists are all that it has. New ones have to be confirmed.
void RemoteAgent::AdoptAddresses() {
  std::erase_if(addresses_,
                [this](const auto& address) { return !view_.addresses.contains(address.first); });
  for (const auto& [peer, receives_groups] : view_.addresses) addresses_.try_emplace(peer);
}

std::vector<PeerAddress> RemoteAgent::TakeProbes(absl::Time now,
                                                 absl::FunctionRef<bool()> may_verify,
                                                 bool* changed) {
  std::vector<PeerAddress> probes;
  for (auto& [peer, address] : addresses_) {
    if (!address.confirmed) {
      if (address.verifications >= kVerifications || now < address.verify_at) continue;
      address.verify_at = now + absl::Seconds(1);
      if (!may_verify()) continue;
      ++address.verifications;
      probes.push_back(peer);
      continue;
    }
    const absl::Duration waited = now - address.waiting_since;
    if (waited >= kLostAfter) {
      address.lost = true;
      address.waiting_since = absl::InfiniteFuture();
      *changed = true;
    } else if (address.probes < kProbeAfter.size() && waited >= kProbeAfter[address.probes]) {
      ++address.probes;
      probes.push_back(peer);
    }
  }
  return probes;
}

absl::Time RemoteAgent::NextDeadline() const {
  if (IsChanging()) return absl::InfinitePast();
  absl::Time next = request_at;
  if (challenge) next = std::min({next, challenge->deadline, challenge->probe_at});
  if (departure) next = std::min({next, departure->deadline, departure->probe_at});
  for (const auto& [peer, address] : addresses_) {
    if (!address.confirmed) {
      if (address.verifications < kVerifications) next = std::min(next, address.verify_at);
      continue;
    }
    const absl::Duration after =
        address.probes < kProbeAfter.size() ? kProbeAfter[address.probes] : kLostAfter;
    next = std::min(next, address.waiting_since + after);
  }
  return next;
}

std::vector<PeerAddress> RemoteAgent::InUse() const {
  std::vector<PeerAddress> in_use;
  for (const auto& [peer, address] : addresses_) {
    if (address.confirmed && !address.lost) in_use.push_back(peer);
  }
  return in_use;
}

bool RemoteAgent::IsReachable() const { return !InUse().empty(); }

PeerAddress RemoteAgent::LastHeard() const {
  PeerAddress last;
  absl::Time heard = absl::InfinitePast();
  for (const auto& [peer, address] : addresses_) {
    if (!address.confirmed || address.heard < heard) continue;
    last = peer;
    heard = address.heard;
  }
  return last;
}

}  // namespace eoib
