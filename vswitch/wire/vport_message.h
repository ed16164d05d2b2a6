// Messages of the vPort protocol, by which the agents of a VES tell each other their addresses,
// vPorts and MACs.
//
// A message is the payload of an Ethernet frame of EtherType 0x88b5: a header, then TLVs.
// wire_format.md ("The vPort protocol") has the layout. An unknown TLV is skipped, so a later
// version may add some.
#ifndef EOIB_VSWITCH_WIRE_VPORT_MESSAGE_H_
#define EOIB_VSWITCH_WIRE_VPORT_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "fdb/fdb_key.h"
#include "vswitch/base/address.h"
#include "vswitch/base/agent_id.h"

namespace eoib {

// A queue pair at which an agent receives.
struct AgentAddress {
  PeerAddress peer;
  bool receives_groups = false;  // it is attached to the VES's groups

  friend auto operator<=>(const AgentAddress&, const AgentAddress&) = default;
};

// What an agent accepts from others.
struct AgentCapabilities {
  bool eoib_header = true;
  bool alternative_header = true;
  bool checksums = true;  // unfinished TCP and UDP checksums (wire_format.md, "Checksums")
  uint8_t segments = 1;   // segments of a frame, 1 to 32; 1: no segmentation
  uint32_t mtu = 0;       // bytes of a frame, from its destination MAC on

  friend bool operator==(const AgentCapabilities&, const AgentCapabilities&) = default;
};

struct VlanRange {
  Vid first, last;

  friend auto operator<=>(const VlanRange&, const VlanRange&) = default;
};

struct AnnouncedVPort {
  static constexpr size_t kMaxName = 63;

  uint16_t id = 0;   // unique within the agent; stays while the vPort exists
  std::string name;  // printable ASCII
  std::vector<VlanRange> vlans;

  friend auto operator<=>(const AnnouncedVPort&, const AnnouncedVPort&) = default;
};

// The stage of a claim. An established claim goes before a tentative one, and a tentative one
// before one on standby, if they are equal otherwise.
enum class ClaimStage : uint8_t {
  kEstablished,
  kTentative,  // it is new: another agent may hold the MAC already
  // Another agent holds the MAC; the sender has it configured, too, and holds it when the other one
  // gives it up.
  kStandby,
};

// A MAC that an agent claims. Of two claims a sticky one holds, else the one with the higher
// sequence number (RFC 7432 §15).
struct AnnouncedMac {
  FdbKey key;
  uint16_t vport = 0;  // AnnouncedVPort::id
  uint32_t sequence = 0;
  bool sticky = false;  // configured there, so it does not move (RFC 7432 §15.2)
  ClaimStage stage = ClaimStage::kEstablished;

  friend auto operator<=>(const AnnouncedMac&, const AnnouncedMac&) = default;
};

// A range of positions of an agent's state. The positions, in this order: 0, the agent itself
// (capabilities, host name and addresses); its vPorts, by id; its MACs, by VID and MAC.
struct StateRange {
  static constexpr uint64_t kAgent = 0;
  static constexpr uint64_t kLast = ~uint64_t{0};
  static constexpr uint64_t Of(uint16_t vport) { return uint64_t{1} << 60 | vport; }
  static constexpr uint64_t Of(FdbKey key) { return uint64_t{2} << 60 | key.packed(); }
  static constexpr StateRange Whole() { return {kAgent, kLast}; }

  uint64_t first = kAgent, last = kLast;  // both are within the range

  bool Contains(uint64_t position) const { return first <= position && position <= last; }
  friend auto operator<=>(const StateRange&, const StateRange&) = default;
};

struct VPortMessage {
  enum class Kind : uint8_t {
    kAnnounce = 1,  // what the sender has
    kWithdraw = 2,  // what the sender no longer has
    kRequest = 3,   // asks for MACs, or for the full state
    kReply = 4,     // answers a Request, or tells that a MAC is not behind the sender
    kProbe = 5,     // asks for an Alive
    kAlive = 6,     // answers a Probe
  };
  static constexpr size_t kHeaderSize = 56;
  static constexpr size_t kMaxHostName = 64;
  // Bytes of a list: in front, and for each address and MAC.
  static constexpr size_t kListHeaderSize = 4, kAddressSize = 20, kMacSize = 16;

  Kind kind = Kind::kAnnounce;
  AgentId agent;
  uint32_t incarnation = 0;  // grows with each start of the agent
  uint32_t version = 0;      // of the agent's state, after this message; grows with each change
  PeerAddress sender;        // must be the datagram's source
  uint64_t token = 0;        // chosen by who requests or probes; returned in the answer

  // kAnnounce, kWithdraw: the message turns the state of version `base` into that of `version`;
  // base 0 is the empty state. Without it the message only says which version is current. kRequest:
  // the version of the receiver's state that the sender knows.
  absl::optional<uint32_t> base;
  // kReply: one range, of which the message has the whole state. kRequest: the ranges that the
  // sender lacks.
  std::vector<StateRange> ranges;
  bool wants_full_state = false;  // kRequest: all that follows `base`, or lies in `ranges`
  bool leaves = false;            // kWithdraw: the whole agent goes
  // kReply, kProbe, kAlive: milliseconds since a group message of the receiver was heard.
  absl::optional<uint32_t> group_heard;
  // kProbe, kAlive: another agent has the receiver's id, in this incarnation.
  absl::optional<uint32_t> id_held;
  absl::optional<AgentCapabilities> capabilities;
  std::string host;  // empty: not said
  std::vector<AgentAddress> addresses;
  std::vector<AnnouncedVPort> vports;
  std::vector<AnnouncedMac> macs;
  std::vector<PeerAddress> gone_addresses;
  std::vector<uint16_t> gone_vports;  // with their MACs
  std::vector<FdbKey> gone_macs;      // kWithdraw: no longer claimed. kReply: not behind the sender
  std::vector<FdbKey> wanted_macs;    // kRequest: who has them; do you still have them
  // kReply: the receiver claims them, and another agent holds them for the sender.
  std::vector<FdbKey> held_macs;

  friend bool operator==(const VPortMessage&, const VPortMessage&) = default;
};

// The size of `message`, or of a vPort in it, when encoded.
size_t EncodedSize(const VPortMessage& message);
size_t EncodedSize(const AnnouncedVPort& vport);

// Requires that the message is one that DecodeVPortMessage accepts, and is not longer than 65,535
// bytes.
std::vector<uint8_t> EncodeVPortMessage(const VPortMessage& message);

// Decodes the payload of a frame; bytes behind the message are padding. kUnimplemented for another
// version or an unknown kind; kInvalidArgument, with the reason, for a malformed message. All of it
// is checked: no MAC of the result is a group address or zero, and no VID, name or number is out of
// its range.
absl::StatusOr<VPortMessage> DecodeVPortMessage(absl::Span<const uint8_t> payload);

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_VPORT_MESSAGE_H_
