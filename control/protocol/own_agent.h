// OwnAgent: our own announced state. Collects local changes and turns them into messages, each of
// which makes a new version.
//
// Not thread-safe.
#ifndef EOIB_CONTROL_PROTOCOL_OWN_AGENT_H_
#define EOIB_CONTROL_PROTOCOL_OWN_AGENT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "control/protocol/agent_view.h"
#include "fdb/fdb_key.h"
#include "vswitch/base/address.h"
#include "vswitch/base/agent_id.h"
#include "vswitch/wire/vport_message.h"

namespace eoib {

class OwnAgent {
 public:
  // `largest`: bytes of a message. `id` and `incarnation` are those of AgentIdentity. `incarnation`
  // is higher than that of every earlier run. `last_version`, if given, has the last version that
  // this incarnation used in the VES. The others refuse older ones, also after the VES was removed
  // and added again.
  OwnAgent(const AgentId& id, uint32_t incarnation, size_t largest,
           std::shared_ptr<uint32_t> last_version = nullptr)
      : id_(id),
        incarnation_(incarnation),
        largest_(largest),
        last_version_(last_version != nullptr ? std::move(last_version)
                                              : std::make_shared<uint32_t>(0)) {}

  const AgentId& id() const { return id_; }
  uint32_t incarnation() const { return incarnation_; }
  size_t largest() const { return largest_; }
  void SetLargest(size_t bytes) { largest_ = bytes; }
  // The state of the last version; changes that were not taken yet are not in it.
  const AgentView& announced() const { return announced_; }
  // The state with all changes.
  const AgentView& current() const { return current_; }

  void SetHost(const std::string& host, const AgentCapabilities& capabilities);
  // The first address is the one that messages come from.
  void SetAddresses(const std::vector<AgentAddress>& addresses);
  void SetVPort(const AnnouncedVPort& vport);
  void RemoveVPort(uint16_t id);  // with its MACs
  void SetMac(FdbKey key, const AgentView::Mac& mac);
  void RemoveMac(FdbKey key);
  // Another agent has our id, so we take a new one, which no other agent knows. The whole state is
  // a change.
  void TakeIdentity(const AgentId& id, uint32_t incarnation);
  // We have told the others that we leave, so they forget us. When we return, the whole state is a
  // change, in a later version than all that was sent before.
  void NoteLeft();

  bool has_address() const { return !sender_.gid.IsZero(); }
  const PeerAddress& sender() const { return sender_; }  // the address that messages come from
  bool receives_groups() const;                          // at one of its addresses
  bool has_changes() const;
  // The messages that tell the next pending changes, in the order of their versions: about one
  // message of additions, and one of removals.
  std::vector<VPortMessage> TakeChanges();
  // A message of the present version without content.
  VPortMessage Header(VPortMessage::Kind kind) const;
  // The whole state of the present version: an Announce from version 0 if it fits one message, else
  // an Announce that only says the version.
  VPortMessage Announcement() const;

  // So many of the last announced changes are kept, for agents that missed one.
  static constexpr size_t kMostLogged = 128;
  // The change that followed a version, or null if it is not kept, or if that version is the
  // present one.
  const VPortMessage* ChangeAfter(uint32_t version) const;
  // Whether all changes that followed a version are kept.
  bool KeepsChangesSince(uint32_t version) const {
    return version == announced_.version || ChangeAfter(version) != nullptr;
  }

 private:
  // Bytes of a message without the base that Finish adds.
  size_t Room() const { return largest_ - 8; }
  void Finish(VPortMessage message, std::vector<VPortMessage>* out);
  void MarkAllChanged();

  AgentId id_;
  uint32_t incarnation_;
  size_t largest_;
  const std::shared_ptr<uint32_t> last_version_;
  PeerAddress sender_;
  AgentView announced_, current_;
  std::deque<VPortMessage> log_;  // announced changes, each from the version of the one before it
  // What may differ between the two.
  bool host_changed_ = false;
  std::set<PeerAddress> changed_addresses_;
  std::set<uint16_t> changed_vports_;
  std::set<FdbKey> changed_macs_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_OWN_AGENT_H_
