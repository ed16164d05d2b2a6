// AgentView: the state that an agent announces (capabilities, addresses, vPorts, MACs), as far as we know it.
//
// Each change makes a new version. A message carries a change from one version to another, or the whole state in parts.
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

    friend bool operator==(const Mac&, const Mac&) = default;
  };

  uint32_t version = 0;  // 0: nothing is known
  AgentCapabilities capabilities;
  std::string host;
  std::map<PeerAddress, bool> addresses;  // and whether each receives groups
  std::map<uint16_t, AnnouncedVPort> vports;
  std::map<FdbKey, Mac> macs;  // to change with SetMac and RemoveMac
  absl::btree_set<std::pair<uint16_t, FdbKey>> macs_by_vport;
  size_t ranges = 0;  // of VLANs, in all vPorts

  // Whether that is a change. SetMac does not care for kMaxMacs.
  bool SetMac(FdbKey key, const Mac& mac);
  bool RemoveMac(FdbKey key);
  std::vector<FdbKey> MacsOf(uint16_t vport) const;

  // Applies what `message` adds and removes, and takes its version. Sets *changed_macs, if given, to the keys that were added,
  // changed or removed.
  void Apply(const VPortMessage& message, std::vector<FdbKey>* changed_macs = nullptr);

  // MACs, vPorts and ranges of VLANs: what takes memory.
  size_t size() const { return macs.size() + vports.size() + ranges; }

  // Adds the whole state to a message.
  void AddTo(VPortMessage* message) const;

  friend bool operator==(const AgentView&, const AgentView&) = default;
};

// The size that a view grows by at most if it takes `message`.
size_t SizeOf(const VPortMessage& message);

// Cuts a message into messages of at most `largest` bytes: copies of it, each with a part of its lists; the first one has its
// capabilities and host name. Requires room for these and for a vPort's longest TLV.
std::vector<VPortMessage> Split(VPortMessage message, size_t largest);

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_AGENT_VIEW_H_
