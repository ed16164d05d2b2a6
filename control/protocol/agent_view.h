// AgentView: the state that an agent announces (capabilities, addresses, vPorts, MACs), as far as
// we know it.
//
// Each change makes a new version. A message carries a change from one version to another, or the
// whole state in parts.
//
// Not thread-safe.
#ifndef EOIB_CONTROL_PROTOCOL_AGENT_VIEW_H_
#define EOIB_CONTROL_PROTOCOL_AGENT_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "fdb/fdb_key.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/vport_message.h"

namespace eoib {

struct AgentView {
  // More than this is ignored, so that an agent cannot fill our memory.
  static constexpr size_t kMaxAddresses = 8;
  static constexpr size_t kMaxVPorts = 4096;
  static constexpr size_t kMaxMacs = 65536;

  struct Mac {
    uint16_t vport = 0;
    uint32_t sequence = 0;
    bool sticky = false;
    ClaimStage stage = ClaimStage::kEstablished;

    friend bool operator==(const Mac&, const Mac&) = default;
  };

  uint32_t version = 0;  // 0: nothing is known
  AgentCapabilities capabilities;
  std::string host;
  std::map<PeerAddress, bool> addresses;  // and whether each receives groups
  std::map<uint16_t, AnnouncedVPort> vports;
  std::map<FdbKey, Mac> macs;  // to change with SetMac and RemoveMac
  absl::btree_set<std::pair<uint16_t, FdbKey>> macs_by_vport;
  size_t vport_bytes = 0;             // of all vPorts
  std::vector<uint16_t> gone_vports;  // whose MACs are still to be removed

  // Whether that is a change. SetMac does not care for kMaxMacs.
  bool SetMac(FdbKey key, const Mac& mac);
  bool RemoveMac(FdbKey key);
  std::vector<FdbKey> MacsOf(uint16_t vport) const;
  // Removes all MACs, and returns them with their order by vPort, which takes its time to free.
  struct Macs {
    std::map<FdbKey, Mac> by_key;
    absl::btree_set<std::pair<uint16_t, FdbKey>> by_vport;
  };
  Macs TakeMacs() { return {std::move(macs), std::move(macs_by_vport)}; }
  static AnnouncedMac ToAnnounced(FdbKey key, const Mac& mac);

  // Applies what `message` adds and removes, and takes its version. Sets *changed_macs, if given,
  // to the keys that were added, changed or removed. It removes kMostRemoved of the MACs behind
  // vPorts that are gone; call RemoveSome for the others before another message is applied.
  void Apply(const VPortMessage& message, std::vector<FdbKey>* changed_macs = nullptr);
  static constexpr size_t kMostRemoved = 128;
  bool IsRemoving() const { return !gone_vports.empty(); }
  void RemoveSome(std::vector<FdbKey>* changed_macs);

  // Memory for the view, with the claims and FDB entries of its MACs.
  static constexpr size_t kBytesOfMac = 192, kBytesOfVPort = 192, kBytesOfAddress = 64;
  size_t bytes() const {
    return macs.size() * kBytesOfMac + vport_bytes + addresses.size() * kBytesOfAddress;
  }

  // Adds the whole state to a message.
  void AddTo(VPortMessage* message) const;

  friend bool operator==(const AgentView&, const AgentView&) = default;
};

// The bytes that a view grows by at most if it takes `message`.
size_t BytesOf(const VPortMessage& message);

// Cuts a message into messages of at most `largest` bytes: copies of it, each with a part of its
// lists; the first one has its capabilities and host name. Requires room for these and for a
// vPort's longest TLV.
std::vector<VPortMessage> Split(VPortMessage message, size_t largest);

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_AGENT_VIEW_H_
