#include "control/protocol/agent_view.h"

#include <utility>

namespace eoib {
namespace {

size_t BytesOf(const AnnouncedVPort& vport) {
  return AgentView::kBytesOfVPort + vport.name.size() + vport.vlans.size() * sizeof(VlanRange);
}

// Adds or replaces an element, as long as there is room for it.
template <typename Map>
bool Set(const typename Map::key_type& key, typename Map::mapped_type value, size_t most,
         Map* map) {
  const auto at = map->find(key);
  if (at == map->end() && map->size() >= most) return false;
  if (at != map->end() && at->second == value) return false;
  map->insert_or_assign(key, std::move(value));
  return true;
}

// Collects elements in messages of limited size.
class Packer {
 public:
  Packer(VPortMessage first, VPortMessage others, size_t largest)
      : others_(std::move(others)), largest_(largest), messages_{std::move(first)} {}

  template <typename Element>
  void Add(std::vector<Element> VPortMessage::*list, std::vector<Element> elements) {
    for (Element& element : elements) {
      (messages_.back().*list).push_back(std::move(element));
      if (EncodedSize(messages_.back()) <= largest_) continue;
      messages_.push_back(others_);
      std::vector<Element>& full = messages_[messages_.size() - 2].*list;
      (messages_.back().*list).push_back(std::move(full.back()));
      full.pop_back();
    }
  }
  std::vector<VPortMessage> Take() { return std::move(messages_); }

 private:
  const VPortMessage others_;
  const size_t largest_;
  std::vector<VPortMessage> messages_;
};

// Moves the lists out of a message.
VPortMessage TakeLists(VPortMessage* message) {
  VPortMessage lists;
  std::swap(lists.addresses, message->addresses);
  std::swap(lists.vports, message->vports);
  std::swap(lists.macs, message->macs);
  std::swap(lists.gone_addresses, message->gone_addresses);
  std::swap(lists.gone_vports, message->gone_vports);
  std::swap(lists.gone_macs, message->gone_macs);
  std::swap(lists.wanted_macs, message->wanted_macs);
  std::swap(lists.held_macs, message->held_macs);
  return lists;
}

}  // namespace

bool AgentView::SetMac(FdbKey key, const Mac& mac) {
  const auto [at, is_new] = macs.try_emplace(key, mac);
  if (!is_new) {
    if (at->second == mac) return false;
    macs_by_vport.erase({at->second.vport, key});
    at->second = mac;
  }
  macs_by_vport.insert({mac.vport, key});
  return true;
}

bool AgentView::RemoveMac(FdbKey key) {
  const auto at = macs.find(key);
  if (at == macs.end()) return false;
  macs_by_vport.erase({at->second.vport, key});
  macs.erase(at);
  return true;
}

AnnouncedMac AgentView::ToAnnounced(FdbKey key, const Mac& mac) {
  return {key, mac.vport, mac.sequence, mac.sticky, mac.stage};
}

std::vector<FdbKey> AgentView::MacsOf(uint16_t vport) const {
  std::vector<FdbKey> keys;
  for (auto at = macs_by_vport.lower_bound({vport, FdbKey()});
       at != macs_by_vport.end() && at->first == vport; ++at) {
    keys.push_back(at->second);
  }
  return keys;
}

void AgentView::Apply(const VPortMessage& message, std::vector<FdbKey>* changed_macs) {
  const auto note = [changed_macs](FdbKey key) {
    if (changed_macs != nullptr) changed_macs->push_back(key);
  };
  for (const PeerAddress& gone : message.gone_addresses) addresses.erase(gone);
  for (const uint16_t gone : message.gone_vports) {
    if (const auto vport = vports.find(gone); vport != vports.end()) {
      vport_bytes -= BytesOf(vport->second);
      vports.erase(vport);
    }
  }
  gone_vports = message.gone_vports;
  RemoveSome(changed_macs);
  for (const FdbKey gone : message.gone_macs) {
    if (RemoveMac(gone)) note(gone);
  }
  if (message.capabilities) capabilities = *message.capabilities;
  if (!message.host.empty()) host = message.host;
  for (const AgentAddress& address : message.addresses)
    Set(address.peer, address.receives_groups, kMaxAddresses, &addresses);
  for (const AnnouncedVPort& vport : message.vports) {
    const auto old = vports.find(vport.id);
    const size_t replaced = old == vports.end() ? 0 : BytesOf(old->second);
    if (Set(vport.id, vport, kMaxVPorts, &vports)) vport_bytes += BytesOf(vport) - replaced;
  }
  for (const AnnouncedMac& mac : message.macs) {
    const bool has_room = macs.size() < kMaxMacs || macs.contains(mac.key);
    if (has_room && SetMac(mac.key, {mac.vport, mac.sequence, mac.sticky, mac.stage}))
      note(mac.key);
  }
  version = message.version;
}

void AgentView::RemoveSome(std::vector<FdbKey>* changed_macs) {
  size_t removed = 0;
  while (!gone_vports.empty()) {
    const uint16_t vport = gone_vports.back();
    auto at = macs_by_vport.lower_bound({vport, FdbKey()});
    for (; at != macs_by_vport.end() && at->first == vport; ++removed) {
      if (removed == kMostRemoved) return;
      const FdbKey key = at->second;
      macs.erase(key);
      at = macs_by_vport.erase(at);
      if (changed_macs != nullptr) changed_macs->push_back(key);
    }
    gone_vports.pop_back();
  }
}

void AgentView::AddTo(VPortMessage* message) const {
  message->capabilities = capabilities;
  message->host = host;
  for (const auto& [peer, receives_groups] : addresses)
    message->addresses.push_back({peer, receives_groups});
  for (const auto& [id, vport] : vports) message->vports.push_back(vport);
  for (const auto& [key, mac] : macs) message->macs.push_back(ToAnnounced(key, mac));
}

size_t BytesOf(const VPortMessage& message) {
  size_t bytes = message.addresses.size() * AgentView::kBytesOfAddress +
                 message.macs.size() * AgentView::kBytesOfMac;
  for (const AnnouncedVPort& vport : message.vports) bytes += BytesOf(vport);
  return bytes;
}

std::vector<VPortMessage> Split(VPortMessage message, size_t largest) {
  if (EncodedSize(message) <= largest) return {std::move(message)};
  VPortMessage lists = TakeLists(&message);
  VPortMessage others = message;
  others.capabilities.reset();
  others.host.clear();
  Packer packer(std::move(message), std::move(others), largest);
  packer.Add(&VPortMessage::addresses, std::move(lists.addresses));
  packer.Add(&VPortMessage::vports, std::move(lists.vports));
  packer.Add(&VPortMessage::macs, std::move(lists.macs));
  packer.Add(&VPortMessage::gone_addresses, std::move(lists.gone_addresses));
  packer.Add(&VPortMessage::gone_vports, std::move(lists.gone_vports));
  packer.Add(&VPortMessage::gone_macs, std::move(lists.gone_macs));
  packer.Add(&VPortMessage::wanted_macs, std::move(lists.wanted_macs));
  packer.Add(&VPortMessage::held_macs, std::move(lists.held_macs));
  return packer.Take();
}

}  // namespace eoib
