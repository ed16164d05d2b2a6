// Subnet management packets, SMPs (IBA 1.4 §14.2), LID-routed or directed-route, and their
// attributes.
#ifndef EOIB_VSWITCH_WIRE_IB_SMP_H_
#define EOIB_VSWITCH_WIRE_IB_SMP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ib/mad.h"

namespace eoib {

enum class SmpAttribute : uint16_t {
  kNodeDescription = 0x0010,
  kNodeInfo = 0x0011,
  kSwitchInfo = 0x0012,
  kGuidInfo = 0x0014,
  kPortInfo = 0x0015,
  kPKeyTable = 0x0016,
  kSmInfo = 0x0020,
};

// The header of both forms of an SMP, before the 64 bytes of data. A directed route (§14.2.1.2)
// lists the egress port of each hop, from path[1] on. hop_pointer is the current hop; the return
// path is filled in on the way.
struct SmpHeader {
  static constexpr size_t kMaxHops = 63;
  static constexpr uint16_t kPermissiveLid = 0xffff;

  bool directed = false;
  MadMethod method = MadMethod::kGet;
  uint16_t status = 0;  // 15 bits in a directed-route SMP
  uint64_t tid = 0;
  SmpAttribute attribute = SmpAttribute::kNodeInfo;
  uint32_t attribute_modifier = 0;
  uint64_t m_key = 0;
  // Directed route only.
  bool returning = false;  // the D bit
  uint8_t hop_pointer = 0;
  uint8_t hop_count = 0;
  uint16_t dr_slid = kPermissiveLid;
  uint16_t dr_dlid = kPermissiveLid;
  std::array<uint8_t, kMaxHops + 1> initial_path{};
  std::array<uint8_t, kMaxHops + 1> return_path{};

  bool IsResponse() const {
    return (static_cast<uint8_t>(method) & 0x80) != 0 || (directed && returning);
  }
  friend bool operator==(const SmpHeader&, const SmpHeader&) = default;
};

inline constexpr size_t kSmpDataOffset = 64;
inline constexpr size_t kSmpDataSize = 64;
// Writes a whole MAD with zeros for data.
void EncodeSmpHeader(const SmpHeader& header, Mad* mad);
// kInvalidArgument unless base version 1, one of the two classes, class version 1, and, for a
// directed route, at most 63 hops and a hop pointer at most one beyond the last.
absl::StatusOr<SmpHeader> DecodeSmpHeader(const Mad& mad);
inline absl::Span<uint8_t> SmpData(Mad* mad) {
  return absl::MakeSpan(*mad).subspan(kSmpDataOffset, kSmpDataSize);
}
inline absl::Span<const uint8_t> SmpData(const Mad& mad) {
  return absl::MakeSpan(mad).subspan(kSmpDataOffset, kSmpDataSize);
}

// Attributes. Each codec takes a span of at least the attribute's size: SmpData(mad), or its place
// in an SA record. Decoders: kInvalidArgument if the span is too short.

enum class NodeType : uint8_t { kChannelAdapter = 1, kSwitch = 2, kRouter = 3 };

struct NodeInfo {  // §14.2.5.3
  uint8_t base_version = 1;
  uint8_t class_version = kSmpClassVersion;
  NodeType type = NodeType::kChannelAdapter;
  uint8_t ports = 1;
  Guid system_image_guid;
  Guid node_guid;
  Guid port_guid;
  uint16_t partition_cap = 0;  // entries of the P_Key table
  uint16_t device_id = 0;
  uint32_t revision = 0;
  uint8_t local_port = 1;
  uint32_t vendor_id = 0;  // 24 bits

  friend bool operator==(const NodeInfo&, const NodeInfo&) = default;
};
inline constexpr size_t kNodeInfoSize = 40;
void EncodeNodeInfo(const NodeInfo& info, absl::Span<uint8_t> bytes);
absl::StatusOr<NodeInfo> DecodeNodeInfo(absl::Span<const uint8_t> bytes);

inline constexpr size_t kNodeDescriptionSize = 64;  // §14.2.5.2: text, padded with zeros
void EncodeNodeDescription(const std::string& text, absl::Span<uint8_t> bytes);
absl::StatusOr<std::string> DecodeNodeDescription(absl::Span<const uint8_t> bytes);

enum class PortState : uint8_t {
  kNoChange = 0,
  kDown = 1,
  kInitialize = 2,
  kArmed = 3,
  kActive = 4
};
enum class PhysicalState : uint8_t {
  kNoChange = 0,
  kSleep = 1,
  kPolling = 2,
  kDisabled = 3,
  kTraining = 4,
  kLinkUp = 5
};

struct PortInfo {  // §14.2.5.6; other fields are zero
  uint64_t m_key = 0;
  uint64_t gid_prefix = 0;
  uint16_t lid = 0;
  uint16_t sm_lid = 0;
  uint32_t capability_mask = 0;
  uint8_t local_port = 1;
  uint8_t width_enabled = 2, width_supported = 2, width_active = 2;  // 1x 1, 4x 2, 8x 4, 12x 8
  uint8_t speed_supported = 1, speed_active = 1, speed_enabled = 1;  // 2.5 Gb/s 1, 5 2, 10 4
  PortState state = PortState::kDown;
  PhysicalState physical_state = PhysicalState::kPolling;
  uint8_t lmc = 0;           // 3 bits
  uint8_t neighbor_mtu = 5;  // IbMtu's code
  uint8_t mtu_cap = 5;
  uint8_t sm_sl = 0;
  uint8_t vl_cap = 1;
  uint8_t operational_vls = 1;
  uint16_t pkey_violations = 0;
  uint16_t qkey_violations = 0;
  uint8_t guid_cap = 1;
  bool client_reregister = false;
  uint8_t subnet_timeout = 18;       // 5 bits
  uint8_t response_time_value = 16;  // 5 bits

  friend bool operator==(const PortInfo&, const PortInfo&) = default;
};
inline constexpr size_t kPortInfoSize = 64;
void EncodePortInfo(const PortInfo& info, absl::Span<uint8_t> bytes);
absl::StatusOr<PortInfo> DecodePortInfo(absl::Span<const uint8_t> bytes);

using PKeyTableBlock = std::array<PKey, 32>;  // §14.2.5.7
inline constexpr size_t kPKeyTableSize = 64;
void EncodePKeyTable(const PKeyTableBlock& block, absl::Span<uint8_t> bytes);
absl::StatusOr<PKeyTableBlock> DecodePKeyTable(absl::Span<const uint8_t> bytes);

struct SmInfo {  // §14.2.5.13
  Guid guid;
  uint64_t sm_key = 0;
  uint32_t activity = 0;
  uint8_t priority = 0;  // 4 bits
  uint8_t state = 3;     // 4 bits; master 3
};
inline constexpr size_t kSmInfoSize = 21;
void EncodeSmInfo(const SmInfo& info, absl::Span<uint8_t> bytes);

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IB_SMP_H_
