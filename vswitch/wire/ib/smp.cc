#include "vswitch/wire/ib/smp.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ib/attribute_codec.h"

namespace eoib {
namespace {

constexpr uint16_t kReturning = 0x8000;  // the D bit, in place of the highest bit of the status
constexpr uint16_t kDirectedStatusMask = 0x7fff;

// IBA 1.4 §14.2.1.1 and §14.2.1.2, after the common header. In a LID-routed SMP the LIDs are
// reserved.
struct SmpKeyWire {
  be64 m_key;
  be16 dr_slid;
  be16 dr_dlid;
};
static_assert(sizeof(SmpKeyWire) == 12);
constexpr size_t kSmpKeyOffset = 24;
constexpr size_t kInitialPathOffset = 128;
constexpr size_t kReturnPathOffset = 192;

// §14.2.5.3.
struct NodeInfoWire {
  uint8_t base_version = 0;
  uint8_t class_version = 0;
  uint8_t type = 0;
  uint8_t ports = 0;
  be64 system_image_guid;
  be64 node_guid;
  be64 port_guid;
  be16 partition_cap;
  be16 device_id;
  be32 revision;
  uint8_t local_port = 0;
  be24 vendor_id;
};
static_assert(sizeof(NodeInfoWire) == kNodeInfoSize);

// §14.2.5.6.
struct PortInfoWire {
  be64 m_key;
  be64 gid_prefix;
  be16 lid;
  be16 sm_lid;
  be32 capability_mask;
  be16 diag_code;
  be16 m_key_lease_period;
  uint8_t local_port = 0;
  uint8_t width_enabled = 0;
  uint8_t width_supported = 0;
  uint8_t width_active = 0;
  uint8_t speed_supported_state = 0;  // 4 | 4, as all pairs below unless noted
  uint8_t physical_state_down_default = 0;
  uint8_t protect_lmc = 0;  // M_Key protection 2 | reserved 3 | LMC 3
  uint8_t speed_active_enabled = 0;
  uint8_t neighbor_mtu_sm_sl = 0;
  uint8_t vl_cap_init_type = 0;
  uint8_t vl_high_limit = 0;
  uint8_t vl_arbitration_high_cap = 0;
  uint8_t vl_arbitration_low_cap = 0;
  uint8_t init_type_reply_mtu_cap = 0;
  uint8_t vl_stall_hoq_life = 0;
  uint8_t operational_vls_enforcement = 0;
  be16 m_key_violations;
  be16 pkey_violations;
  be16 qkey_violations;
  uint8_t guid_cap = 0;
  // Client reregister 1 | multicast P_Key trap suppression 2 | subnet timeout 5.
  uint8_t reregister_timeout = 0;
  uint8_t response_time_value = 0;  // reserved 3 | 5
  uint8_t error_thresholds = 0;
  be16 max_credit_hint;
  uint8_t reserved = 0;
  be24 link_round_trip_latency;
  be16 capability_mask2;
  uint8_t speed_ext_active_supported = 0;
  uint8_t speed_ext_enabled = 0;
};
static_assert(sizeof(PortInfoWire) == kPortInfoSize);

// §14.2.5.7.
using PKeyTableWire = std::array<be16, std::tuple_size_v<PKeyTableBlock>>;
static_assert(sizeof(PKeyTableWire) == kPKeyTableSize);

using NodeDescriptionWire = std::array<char, kNodeDescriptionSize>;

// §14.2.5.13.
struct SmInfoWire {
  be64 guid;
  be64 sm_key;
  be32 activity;
  uint8_t priority_state = 0;
};
static_assert(sizeof(SmInfoWire) == kSmInfoSize);

template <typename Copy, typename Info>
void Fields(Copy copy, NodeInfoWire& wire, Info& info) {
  copy(wire.base_version, info.base_version);
  copy(wire.class_version, info.class_version);
  copy(wire.type, info.type);
  copy(wire.ports, info.ports);
  copy(wire.system_image_guid, info.system_image_guid);
  copy(wire.node_guid, info.node_guid);
  copy(wire.port_guid, info.port_guid);
  copy(wire.partition_cap, info.partition_cap);
  copy(wire.device_id, info.device_id);
  copy(wire.revision, info.revision);
  copy(wire.local_port, info.local_port);
  copy(wire.vendor_id, info.vendor_id);
}

template <typename Copy, typename Info>
void Fields(Copy copy, PortInfoWire& wire, Info& info) {
  copy(wire.m_key, info.m_key);
  copy(wire.gid_prefix, info.gid_prefix);
  copy(wire.lid, info.lid);
  copy(wire.sm_lid, info.sm_lid);
  copy(wire.capability_mask, info.capability_mask);
  copy(wire.local_port, info.local_port);
  copy(wire.width_enabled, info.width_enabled);
  copy(wire.width_supported, info.width_supported);
  copy(wire.width_active, info.width_active);
  copy(wire.speed_supported_state, info.speed_supported, 4, 4);
  copy(wire.speed_supported_state, info.state, 0, 4);
  copy(wire.physical_state_down_default, info.physical_state, 4, 4);
  copy(wire.protect_lmc, info.lmc, 0, 3);
  copy(wire.speed_active_enabled, info.speed_active, 4, 4);
  copy(wire.speed_active_enabled, info.speed_enabled, 0, 4);
  copy(wire.neighbor_mtu_sm_sl, info.neighbor_mtu, 4, 4);
  copy(wire.neighbor_mtu_sm_sl, info.sm_sl, 0, 4);
  copy(wire.vl_cap_init_type, info.vl_cap, 4, 4);
  copy(wire.init_type_reply_mtu_cap, info.mtu_cap, 0, 4);
  copy(wire.operational_vls_enforcement, info.operational_vls, 4, 4);
  copy(wire.pkey_violations, info.pkey_violations);
  copy(wire.qkey_violations, info.qkey_violations);
  copy(wire.guid_cap, info.guid_cap);
  copy(wire.reregister_timeout, info.client_reregister, 7, 1);
  copy(wire.reregister_timeout, info.subnet_timeout, 0, 5);
  copy(wire.response_time_value, info.response_time_value, 0, 5);
}

template <typename Copy, typename Info>
void Fields(Copy copy, SmInfoWire& wire, Info& info) {
  copy(wire.guid, info.guid);
  copy(wire.sm_key, info.sm_key);
  copy(wire.activity, info.activity);
  copy(wire.priority_state, info.priority, 4, 4);
  copy(wire.priority_state, info.state, 0, 4);
}

void EncodeRoute(const SmpHeader& header, Mad* mad) {
  std::copy(header.initial_path.begin(), header.initial_path.end(),
            mad->begin() + kInitialPathOffset);
  std::copy(header.return_path.begin(), header.return_path.end(), mad->begin() + kReturnPathOffset);
}

// A hop pointer more than one beyond the last hop is not on the route (§14.2.2).
absl::Status CheckHops(uint8_t pointer, uint8_t count) {
  if (count <= SmpHeader::kMaxHops && pointer <= count + 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("decode SMP: at hop ", pointer, " of ", count,
                                                 ", expected at most ", SmpHeader::kMaxHops,
                                                 " hops and a pointer among them"));
}

// Decodes the fields that only a directed-route SMP has.
absl::Status DecodeRoute(const MadHeader& common, const SmpKeyWire& wire, const Mad& mad,
                         SmpHeader* header) {
  header->returning = (common.status & kReturning) != 0;
  header->status = common.status & kDirectedStatusMask;
  header->hop_pointer = static_cast<uint8_t>(common.class_specific >> 8);
  header->hop_count = static_cast<uint8_t>(common.class_specific);
  header->dr_slid = wire.dr_slid.value();
  header->dr_dlid = wire.dr_dlid.value();
  std::copy_n(mad.begin() + kInitialPathOffset, header->initial_path.size(),
              header->initial_path.begin());
  std::copy_n(mad.begin() + kReturnPathOffset, header->return_path.size(),
              header->return_path.begin());
  return CheckHops(header->hop_pointer, header->hop_count);
}

}  // namespace

void EncodeSmpHeader(const SmpHeader& header, Mad* mad) {
  mad->fill(0);
  MadHeader common{.mgmt_class = MgmtClass::kSubnLid,
                   .class_version = kSmpClassVersion,
                   .method = header.method,
                   .status = header.status,
                   .tid = header.tid,
                   .attribute = static_cast<uint16_t>(header.attribute),
                   .attribute_modifier = header.attribute_modifier};
  SmpKeyWire wire;
  wire.m_key = header.m_key;
  if (header.directed) {
    common.mgmt_class = MgmtClass::kSubnDirected;
    common.status = static_cast<uint16_t>((header.status & kDirectedStatusMask) |
                                          (header.returning ? kReturning : 0));
    common.class_specific = static_cast<uint16_t>(header.hop_pointer << 8 | header.hop_count);
    wire.dr_slid = header.dr_slid;
    wire.dr_dlid = header.dr_dlid;
    EncodeRoute(header, mad);
  }
  EncodeMadHeader(common, mad);
  WriteWire(wire, mad->data() + kSmpKeyOffset);
}

absl::StatusOr<SmpHeader> DecodeSmpHeader(const Mad& mad) {
  const absl::StatusOr<MadHeader> common = DecodeMadHeader(mad);
  if (!common.ok()) return common.status();
  SmpHeader header;
  header.directed = common->mgmt_class == MgmtClass::kSubnDirected;
  if ((!header.directed && common->mgmt_class != MgmtClass::kSubnLid) ||
      common->class_version != kSmpClassVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("decode MAD: class 0x", absl::Hex(static_cast<uint8_t>(common->mgmt_class)),
                     ", class version ", common->class_version,
                     ": expected 0x1 or 0x81 (subnet management), 1"));
  }
  header.method = common->method;
  header.status = common->status;
  header.tid = common->tid;
  header.attribute = static_cast<SmpAttribute>(common->attribute);
  header.attribute_modifier = common->attribute_modifier;
  const auto wire = ReadWire<SmpKeyWire>(mad.data() + kSmpKeyOffset);
  header.m_key = wire.m_key.value();
  if (header.directed) {
    if (absl::Status status = DecodeRoute(*common, wire, mad, &header); !status.ok()) return status;
  }
  return header;
}

void EncodeNodeInfo(const NodeInfo& info, absl::Span<uint8_t> bytes) {
  EncodeFields<NodeInfoWire>(info, bytes);
}
absl::StatusOr<NodeInfo> DecodeNodeInfo(absl::Span<const uint8_t> bytes) {
  return DecodeFields<NodeInfoWire, NodeInfo>(bytes, "NodeInfo");
}

void EncodeNodeDescription(const std::string& text, absl::Span<uint8_t> bytes) {
  NodeDescriptionWire wire{};
  std::copy_n(text.begin(), std::min(text.size(), wire.size()), wire.begin());
  WriteAttribute(wire, bytes);
}

absl::StatusOr<std::string> DecodeNodeDescription(absl::Span<const uint8_t> bytes) {
  const auto wire = ReadAttribute<NodeDescriptionWire>(bytes, "NodeDescription");
  if (!wire.ok()) return wire.status();
  return std::string(wire->begin(), std::find(wire->begin(), wire->end(), '\0'));
}

void EncodePortInfo(const PortInfo& info, absl::Span<uint8_t> bytes) {
  EncodeFields<PortInfoWire>(info, bytes);
}
absl::StatusOr<PortInfo> DecodePortInfo(absl::Span<const uint8_t> bytes) {
  return DecodeFields<PortInfoWire, PortInfo>(bytes, "PortInfo");
}

void EncodePKeyTable(const PKeyTableBlock& block, absl::Span<uint8_t> bytes) {
  PKeyTableWire wire;
  std::transform(block.begin(), block.end(), wire.begin(),
                 [](PKey pkey) { return be16(pkey.value()); });
  WriteAttribute(wire, bytes);
}

absl::StatusOr<PKeyTableBlock> DecodePKeyTable(absl::Span<const uint8_t> bytes) {
  const auto wire = ReadAttribute<PKeyTableWire>(bytes, "P_KeyTable");
  if (!wire.ok()) return wire.status();
  PKeyTableBlock block;
  std::transform(wire->begin(), wire->end(), block.begin(),
                 [](be16 pkey) { return PKey(pkey.value()); });
  return block;
}

void EncodeSmInfo(const SmInfo& info, absl::Span<uint8_t> bytes) {
  EncodeFields<SmInfoWire>(info, bytes);
}

}  // namespace eoib
