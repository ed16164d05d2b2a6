#include "control/protocol/remote_agent.h"

#include <algorithm>
#include <utility>

namespace eoib {
namespace {

std::vector<FdbKey> Difference(const std::map<FdbKey, AgentView::Mac>& before, const std::map<FdbKey, AgentView::Mac>& after) {
  std::vector<FdbKey> keys;
  for (const auto& [key, mac] : before) {
    if (!after.contains(key)) keys.push_back(key);
  }
  for (const auto& [key, mac] : after) {
    const auto old = before.find(key);
    if (old == before.end() || !(old->second == mac)) keys.push_back(key);
  }
  return keys;
}

// What a full state has of a message: other lists would take memory that is not counted.
VPortMessage StateOf(const VPortMessage& message) {
  VPortMessage state;
  state.version = message.version;
  state.part = message.part;
  state.capabilities = message.capabilities;
  state.host = message.host;
  state.addresses = message.addresses;
  state.vports = message.vports;
  state.macs = message.macs;
  return state;
}

}  // namespace

bool RemoteAgent::MaySpeakFrom(const PeerAddress& peer) const {
  if (addresses_.contains(peer)) return true;
  if (addresses_.size() >= kMaxAddresses) return false;
  return std::any_of(addresses_.begin(), addresses_.end(),
                     [&](const auto& address) { return address.second.confirmed && address.first.gid == peer.gid; });
}

bool RemoteAgent::Hear(const PeerAddress& peer, bool by_group, absl::Time now) {
  heard_ = now;
  challenge.reset();
  if (by_group) group.Hear(now);
  Address& address = addresses_[peer];
  const bool changed = !address.confirmed || address.lost;
  address.confirmed = true;
  address.lost = false;
  address.heard = now;
  address.waiting_since = absl::InfiniteFuture();
  address.probes = 0;
  return changed;
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
}

void RemoteAgent::Restart(uint32_t incarnation, const PeerAddress& peer, absl::Time now) {
  group = GroupWatch(now);
  incarnation_ = incarnation;
  view_.version = 0;
  newest_ = 0;
  addresses_.clear();
  DropParts();
  challenge.reset();
  requests = 0;
  addresses_[peer].confirmed = true;
}

void RemoteAgent::NoteVersion(uint32_t version) { newest_ = std::max(newest_, version); }

bool RemoteAgent::Apply(const VPortMessage& message, std::vector<FdbKey>* changed_macs) {
  if (!message.base || message.version <= view_.version) return false;
  if (*message.base == 0) {
    AgentView view;
    view.Apply(message);
    *changed_macs = Difference(view_.macs, view.macs);
    view_ = std::move(view);
  } else if (view_.version != 0 && *message.base == view_.version) {
    view_.Apply(message, changed_macs);
  } else {
    return false;
  }
  AdoptAddresses();
  return true;
}

bool RemoteAgent::TakePart(const VPortMessage& message, std::vector<FdbKey>* changed_macs) {
  if (message.token != request_token || message.version <= view_.version || message.part->count > kMaxParts) return false;
  if (!parts_.empty() &&
      (parts_.begin()->second.version != message.version || parts_.begin()->second.part->count != message.part->count)) {
    DropParts();  // of an earlier answer
  }
  const auto [at, is_new] = parts_.try_emplace(message.part->index);
  if (is_new) {
    at->second = StateOf(message);
    size_of_parts_ += 1 + SizeOf(message);
  }
  if (parts_.size() < message.part->count) return false;
  AgentView view;
  for (const auto& [index, part] : parts_) view.Apply(part);
  DropParts();
  *changed_macs = Difference(view_.macs, view.macs);
  view_ = std::move(view);
  AdoptAddresses();
  return true;
}

void RemoteAgent::DropParts() {
  parts_.clear();
  size_of_parts_ = 0;
}

// The addresses that the agent lists are all that it has. New ones have to be confirmed.
void RemoteAgent::AdoptAddresses() {
  std::erase_if(addresses_, [this](const auto& address) { return !view_.addresses.contains(address.first); });
  for (const auto& [peer, receives_groups] : view_.addresses) addresses_.try_emplace(peer);
}

std::vector<PeerAddress> RemoteAgent::TakeProbes(absl::Time now, absl::FunctionRef<bool()> may_verify, bool* changed) {
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
  absl::Time next = challenge ? std::min({request_at, challenge->deadline, challenge->probe_at}) : request_at;
  for (const auto& [peer, address] : addresses_) {
    if (!address.confirmed) {
      if (address.verifications < kVerifications) next = std::min(next, address.verify_at);
      continue;
    }
    const absl::Duration after = address.probes < kProbeAfter.size() ? kProbeAfter[address.probes] : kLostAfter;
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
