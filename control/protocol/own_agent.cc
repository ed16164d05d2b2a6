#include "control/protocol/own_agent.h"

#include <algorithm>
#include <map>
#include <utility>

namespace eoib {
namespace {

// The keys in `changed` whose element differs between two maps go to `added` or `removed`.
template <typename Key, typename Value, typename Added, typename Removed>
void Compare(const std::set<Key>& changed, const std::map<Key, Value>& before, const std::map<Key, Value>& after, Added added,
             Removed removed) {
  for (const Key& key : changed) {
    const auto old = before.find(key), now = after.find(key);
    if (now == after.end()) {
      if (old != before.end()) removed(key);
    } else if (old == before.end() || !(old->second == now->second)) {
      added(key, now->second);
    }
  }
}

}  // namespace

void OwnAgent::SetHost(const std::string& host, const AgentCapabilities& capabilities) {
  current_.host = host;
  current_.capabilities = capabilities;
  host_changed_ = true;
}

void OwnAgent::SetAddresses(const std::vector<AgentAddress>& addresses) {
  for (const auto& [peer, receives_groups] : current_.addresses) changed_addresses_.insert(peer);
  current_.addresses.clear();
  for (const AgentAddress& address : addresses) {
    current_.addresses[address.peer] = address.receives_groups;
    changed_addresses_.insert(address.peer);
  }
  sender_ = addresses.empty() ? PeerAddress() : addresses.front().peer;
}

void OwnAgent::SetVPort(const AnnouncedVPort& vport) {
  current_.vports[vport.id] = vport;
  changed_vports_.insert(vport.id);
}

void OwnAgent::RemoveVPort(uint16_t id) {
  current_.vports.erase(id);
  changed_vports_.insert(id);
  for (const FdbKey key : current_.MacsOf(id)) RemoveMac(key);
}

void OwnAgent::SetMac(FdbKey key, const AgentView::Mac& mac) {
  current_.SetMac(key, mac);
  changed_macs_.insert(key);
}

void OwnAgent::RemoveMac(FdbKey key) {
  current_.RemoveMac(key);
  changed_macs_.insert(key);
}

void OwnAgent::NoteLeft() {
  announced_ = AgentView();
  announced_.version = ++*last_version_;
  host_changed_ = true;
  for (const auto& [peer, receives_groups] : current_.addresses) changed_addresses_.insert(peer);
  for (const auto& [id, vport] : current_.vports) changed_vports_.insert(id);
  for (const auto& [key, mac] : current_.macs) changed_macs_.insert(key);
}

bool OwnAgent::receives_groups() const {
  return std::any_of(current_.addresses.begin(), current_.addresses.end(), [](const auto& address) { return address.second; });
}

bool OwnAgent::has_changes() const {
  return host_changed_ || !changed_addresses_.empty() || !changed_vports_.empty() || !changed_macs_.empty();
}

VPortMessage OwnAgent::Header(VPortMessage::Kind kind) const {
  VPortMessage message;
  message.kind = kind;
  message.agent = id_;
  message.incarnation = incarnation_;
  message.version = announced_.version;
  message.sender = sender_;
  return message;
}

// Gives `message` the next version, and announces it.
void OwnAgent::Finish(VPortMessage message, std::vector<VPortMessage>* out) {
  message.base = announced_.version;
  message.version = ++*last_version_;
  announced_.Apply(message);
  out->push_back(std::move(message));
}

std::vector<VPortMessage> OwnAgent::TakeChanges() {
  VPortMessage withdraw = Header(VPortMessage::Kind::kWithdraw);
  VPortMessage announce = Header(VPortMessage::Kind::kAnnounce);
  if (host_changed_) {
    announce.host = current_.host;
    announce.capabilities = current_.capabilities;
  }
  Compare(
      changed_addresses_, announced_.addresses, current_.addresses,
      [&](const PeerAddress& peer, bool groups) {
        announce.addresses.push_back({peer, groups});
      },
      [&](const PeerAddress& peer) { withdraw.gone_addresses.push_back(peer); });
  Compare(
      changed_vports_, announced_.vports, current_.vports,
      [&](uint16_t, const AnnouncedVPort& vport) { announce.vports.push_back(vport); },
      [&](uint16_t id) { withdraw.gone_vports.push_back(id); });
  Compare(
      changed_macs_, announced_.macs, current_.macs,
      [&](FdbKey key, const AgentView::Mac& mac) {
        announce.macs.push_back({key, mac.vport, mac.sequence, mac.sticky});
      },
      [&](FdbKey key) { withdraw.gone_macs.push_back(key); });

  std::vector<VPortMessage> messages;
  // New addresses are announced before old ones are withdrawn, so the agent is never without one.
  if (host_changed_ || !announce.addresses.empty() || !announce.vports.empty() || !announce.macs.empty()) {
    for (VPortMessage& piece : Split(std::move(announce), Room())) Finish(std::move(piece), &messages);
  }
  if (!withdraw.gone_addresses.empty() || !withdraw.gone_vports.empty() || !withdraw.gone_macs.empty()) {
    for (VPortMessage& piece : Split(std::move(withdraw), Room())) Finish(std::move(piece), &messages);
  }
  host_changed_ = false;
  changed_addresses_.clear();
  changed_vports_.clear();
  changed_macs_.clear();
  return messages;
}

VPortMessage OwnAgent::Announcement() const {
  VPortMessage whole = Header(VPortMessage::Kind::kAnnounce);
  whole.base = 0;
  announced_.AddTo(&whole);
  return EncodedSize(whole) <= largest_ ? whole : Header(VPortMessage::Kind::kAnnounce);
}

std::vector<VPortMessage> OwnAgent::FullState(uint64_t token, uint32_t group_heard) const {
  VPortMessage reply = Header(VPortMessage::Kind::kReply);
  reply.token = token;
  reply.group_heard = group_heard;
  reply.part = VPortMessage::Part();
  announced_.AddTo(&reply);
  std::vector<VPortMessage> parts = Split(std::move(reply), largest_);
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i].part = VPortMessage::Part{static_cast<uint16_t>(i), static_cast<uint16_t>(parts.size())};
  }
  return parts;
}

}  // namespace eoib
