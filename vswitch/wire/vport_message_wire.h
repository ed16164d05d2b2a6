// The wire structs of messages of the vPort protocol, for their encoder and decoder. wire_format.md
// describes them.
#ifndef EOIB_VSWITCH_WIRE_VPORT_MESSAGE_WIRE_H_
#define EOIB_VSWITCH_WIRE_VPORT_MESSAGE_WIRE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "vswitch/base/address.h"
#include "vswitch/base/agent_id.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/wire/vport_message.h"

namespace eoib {

inline constexpr uint8_t kVPortMessageVersion = 1;
inline constexpr size_t kTlvHeaderSize = 4;
inline constexpr size_t kTlvAlignment = 4;

enum class Tlv : uint16_t {
  kBase = 1,
  kWantsFullState = 3,
  kLeaves = 4,
  kGroupHeard = 5,
  kCapabilities = 6,
  kHost = 7,
  kAddresses = 8,
  kVPort = 9,
  kMacs = 10,
  kGoneAddresses = 11,
  kGoneVPorts = 12,
  kGoneMacs = 13,
  kWantedMacs = 14,
  kRanges = 15,
  kIdHeld = 16,
  kHeldMacs = 17,
};

struct HeaderWire {
  uint8_t version = 0;
  uint8_t kind = 0;
  be16 length;  // of the message, header included
  std::array<uint8_t, AgentId::kSize> agent{};
  be32 incarnation;
  be32 state_version;
  std::array<uint8_t, Gid::kSize> gid{};
  uint8_t reserved = 0;
  be24 qpn;
  be64 token;
};
static_assert(sizeof(HeaderWire) == VPortMessage::kHeaderSize);

struct TlvWire {
  be16 type;
  be16 length;  // of the value, without padding
};
static_assert(sizeof(TlvWire) == kTlvHeaderSize);

struct StateRangeWire {
  be64 first, last;
};
static_assert(sizeof(StateRangeWire) == 16);

inline constexpr uint8_t kFlagEoibHeader = 1, kFlagAlternativeHeader = 2, kFlagChecksums = 4;
struct CapabilitiesWire {
  uint8_t flags = 0;
  uint8_t segments = 0;
  be16 reserved;
  be32 mtu;
};
static_assert(sizeof(CapabilitiesWire) == 8);

inline constexpr uint8_t kFlagReceivesGroups = 1;
inline constexpr uint8_t kFlagSticky = 1, kFlagTentative = 2, kFlagStandby = 4;
struct AddressWire {
  std::array<uint8_t, Gid::kSize> gid{};
  uint8_t flags = 0;
  be24 qpn;
};
static_assert(sizeof(AddressWire) == VPortMessage::kAddressSize);

// The name follows the ranges, to the end of the TLV.
struct VPortWire {
  be16 id;
  be16 ranges;
};
static_assert(sizeof(VPortWire) == 4);
struct VlanRangeWire {
  be16 first, last;
};
static_assert(sizeof(VlanRangeWire) == 4);

struct KeyWire {
  be16 vid;
  std::array<uint8_t, MacAddr::kSize> mac{};
};
static_assert(sizeof(KeyWire) == 8);

struct MacWire {
  KeyWire key;
  be16 vport;
  uint8_t flags = 0;
  uint8_t reserved = 0;
  be32 sequence;
};
static_assert(sizeof(MacWire) == VPortMessage::kMacSize &&
              kTlvHeaderSize == VPortMessage::kListHeaderSize);

inline size_t Padded(size_t size) {
  return (size + kTlvAlignment - 1) / kTlvAlignment * kTlvAlignment;
}
inline size_t TlvSize(size_t value) { return kTlvHeaderSize + Padded(value); }
inline size_t ListSize(size_t count, size_t element) {
  return count == 0 ? 0 : TlvSize(count * element);
}
inline size_t ValueSize(const AnnouncedVPort& vport) {
  return sizeof(VPortWire) + vport.vlans.size() * sizeof(VlanRangeWire) + vport.name.size();
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_VPORT_MESSAGE_WIRE_H_
