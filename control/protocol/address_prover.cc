#include "control/protocol/address_prover.h"

namespace eoib {

bool AddressProver::Hear(const VPortMessage& message, const PeerAddress& source, bool by_group,
                         size_t agents, std::vector<Kept>* earlier) {
  const Key key(source, message.agent);
  auto sender = senders_.find(key);
  if (sender != senders_.end() && message.kind == VPortMessage::Kind::kAlive &&
      message.token == sender->second.token) {
    *earlier = std::move(sender->second.kept);
    kept_ -= earlier->size();
    Drop(sender);
    return true;
  }
  if (sender == senders_.end()) {
    absl::Time probe_at = clock_->Now();
    if (by_group && agents > kAtOnce)
      probe_at += RandomTime(random_, kSpread * static_cast<int64_t>(agents - kAtOnce));
    sender = Add(key, probe_at);
  }
  const bool is_empty =
      message.kind == VPortMessage::Kind::kProbe || message.kind == VPortMessage::Kind::kAlive;
  std::vector<Kept>& kept = sender->second.kept;
  if (is_empty || kept.size() >= kMostKept || kept_ >= kMostKeptInAll) return false;
  kept.push_back({message, by_group});
  ++kept_;
  return false;
}

std::map<AddressProver::Key, AddressProver::Sender>::iterator AddressProver::Add(
    const Key& key, absl::Time probe_at) {
  MakeRoomAt(key.first.gid);
  if (senders_.size() >= kMost) Drop(senders_.find(by_order_.begin()->second));
  const auto sender =
      senders_.emplace(key, Sender{random_(), 0, probe_at, next_order_++, {}}).first;
  by_order_.emplace(sender->second.order, key);
  due_.emplace(probe_at, key);
  return sender;
}

void AddressProver::MakeRoomAt(const Gid& gid) {
  size_t there = 0;
  auto oldest = senders_.end();
  for (auto at = senders_.lower_bound({{gid, Qpn()}, AgentId()});
       at != senders_.end() && at->first.first.gid == gid; ++at) {
    ++there;
    if (oldest == senders_.end() || at->second.order < oldest->second.order) oldest = at;
  }
  if (there >= kMostAtPort) Drop(oldest);
}

void AddressProver::Drop(std::map<Key, Sender>::iterator sender) {
  kept_ -= sender->second.kept.size();
  due_.erase({sender->second.probe_at, sender->first});
  by_order_.erase(sender->second.order);
  senders_.erase(sender);
}

void AddressProver::Schedule(const Key& key, Sender* sender, absl::Time probe_at) {
  due_.erase({sender->probe_at, key});
  sender->probe_at = probe_at;
  due_.emplace(probe_at, key);
}

void AddressProver::Run() {
  const absl::Time now = clock_->Now();
  while (!due_.empty() && due_.begin()->first <= now) {
    const auto at = senders_.find(due_.begin()->second);
    Sender& sender = at->second;
    if (sender.probes == kPauses.size()) {
      Drop(at);
      continue;
    }
    if (!budget_.Take(now)) {
      Schedule(at->first, &sender, now + kPauses.front());
      continue;
    }
    Schedule(at->first, &sender, now + kPauses[sender.probes++]);
    probe_(at->first.first, sender.token);
  }
}

}  // namespace eoib
