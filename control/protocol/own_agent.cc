#include "control/protocol/own_agent.h"

#include <algorithm>
#include <map>
#include <utility>

namespace eoib {
namespace {

// Takes keys out of `changed` until they fill `*room` bytes. Those whose element differs between
// two maps go to `added` or `removed`, which return the bytes that it takes in a message.
template <typename Key, typename Value, typename Added, typename Removed>
void TakeChanged(std::set<Key>* changed, const std::map<Key, Value>& before,
                 const std::map<Key, Value>& after, size_t* room, Added added, Removed removed) {
  while (!changed->empty() && *room > 0) {
    const Key key = *changed->begin();
    changed->erase(changed->begin());
    const auto old = before.find(key), now = after.find(key);
    size_t size = 0;
    if (now == after.end()) {
      if (old != before.end()) size = removed(key);
    } else if (old == before.end() || !(old->second == now->second)) {
      size = added(key, now->second);
    }
    *room -= std::min(size, *room);
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
  log_.clear();
  announced_ = AgentView();
  announced_.version = ++*last_version_;
  MarkAllChanged();
}

void OwnAgent::TakeIdentity(const AgentId& id, uint32_t incarnation) {
  id_ = id;
  incarnation_ = incarnation;
  log_.clear();
  announced_ = AgentView();
  MarkAllChanged();
}

void OwnAgent::MarkAllChanged() {
  host_changed_ = true;
  for (const auto& [peer, receives_groups] : current_.addresses) changed_addresses_.insert(peer);
  for (const auto& [id, vport] : current_.vports) changed_vports_.insert(id);
  for (const auto& [key, mac] : current_.macs) changed_macs_.insert(key);
}

bool OwnAgent::receives_groups() const {
  return std::any_of(current_.addresses.begin(), current_.addresses.end(),
                     [](const auto& address) { return address.second; });
}

bool OwnAgent::has_changes() const {
  return host_changed_ || !changed_addresses_.empty() || !changed_vports_.empty() ||
         !changed_macs_.empty();
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
  while (announced_.IsRemoving()) announced_.RemoveSome(nullptr);
  log_.push_back(message);
  if (log_.size() > kMostLogged) log_.pop_front();
  out->push_back(std::move(message));
}

const VPortMessage* OwnAgent::ChangeAfter(uint32_t version) const {
  const auto at = std::lower_bound(
      log_.begin(), log_.end(), version,
      [](const VPortMessage& change, uint32_t base) { return *change.base < base; });
  return at != log_.end() && *at->base == version ? &*at : nullptr;
}

std::vector<VPortMessage> OwnAgent::TakeChanges() {
  VPortMessage withdraw = Header(VPortMessage::Kind::kWithdraw);
  VPortMessage announce = Header(VPortMessage::Kind::kAnnounce);
  if (host_changed_) {
    announce.host = current_.host;
    announce.capabilities = current_.capabilities;
  }
  size_t room =
      Room() - std::min(Room(), EncodedSize(announce) + 2 * VPortMessage::kListHeaderSize);
  TakeChanged(
      &changed_addresses_, announced_.addresses, current_.addresses, &room,
      [&](const PeerAddress& peer, bool groups) {
        announce.addresses.push_back({peer, groups});
        return VPortMessage::kAddressSize;
      },
      [&](const PeerAddress& peer) {
        withdraw.gone_addresses.push_back(peer);
        return VPortMessage::kAddressSize;
      });
  TakeChanged(
      &changed_vports_, announced_.vports, current_.vports, &room,
      [&](uint16_t, const AnnouncedVPort& vport) {
        announce.vports.push_back(vport);
        return EncodedSize(vport);
      },
      [&](uint16_t id) {
        withdraw.gone_vports.push_back(id);
        return sizeof(id);
      });
  TakeChanged(
      &changed_macs_, announced_.macs, current_.macs, &room,
      [&](FdbKey key, const AgentView::Mac& mac) {
        announce.macs.push_back(AgentView::ToAnnounced(key, mac));
        return VPortMessage::kMacSize;
      },
      [&](FdbKey key) {
        withdraw.gone_macs.push_back(key);
        return VPortMessage::kMacSize;
      });

  std::vector<VPortMessage> messages;
  // New addresses are announced before old ones are withdrawn, so the agent is never without one.
  if (host_changed_ || !announce.addresses.empty() || !announce.vports.empty() ||
      !announce.macs.empty()) {
    for (VPortMessage& piece : Split(std::move(announce), Room()))
      Finish(std::move(piece), &messages);
  }
  if (!withdraw.gone_addresses.empty() || !withdraw.gone_vports.empty() ||
      !withdraw.gone_macs.empty()) {
    for (VPortMessage& piece : Split(std::move(withdraw), Room()))
      Finish(std::move(piece), &messages);
  }
  host_changed_ = false;
  return messages;
}

VPortMessage OwnAgent::Announcement() const {
  VPortMessage whole = Header(VPortMessage::Kind::kAnnounce);
  const size_t least = announced_.macs.size() * VPortMessage::kMacSize +
                       announced_.vports.size() * EncodedSize(AnnouncedVPort());
  if (least > largest_) return whole;
  whole.base = 0;
  announced_.AddTo(&whole);
  return EncodedSize(whole) <= largest_ ? whole : Header(VPortMessage::Kind::kAnnounce);
}

}  // namespace eoib
