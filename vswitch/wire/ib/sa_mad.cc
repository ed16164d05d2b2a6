#include "vswitch/wire/ib/sa_mad.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ib/attribute_codec.h"

namespace eoib {
namespace {

constexpr int kSelectorShift = 6;
constexpr uint8_t kCodeMask = 0x3f;  // MTU, rate or lifetime below a selector
constexpr uint8_t kScopeShift = 4;
constexpr uint8_t kJoinStateMask = 0xf;
constexpr uint8_t kProxyJoin = 0x80;
constexpr int kSlShift = 28;
constexpr int kFlowLabelShift = 8;
constexpr uint32_t kFlowLabelMask = 0xf'ffff;
constexpr uint8_t kReversible = 0x80;
constexpr uint8_t kNumbPathMask = 0x7f;
constexpr uint16_t kQosSlMask = 0xf;
constexpr int kCapabilityMask2Shift = 5;
constexpr uint32_t kResponseTimeMask = 0x1f;

using GidWire = std::array<uint8_t, Gid::kSize>;

// §13.6.2.1, after the common header.
struct RmppHeaderWire {
  uint8_t version = 1;
  uint8_t type = 1;  // DATA
  uint8_t response_time_flags = 0;
  uint8_t status = 0;
  be32 segment;
  be32 payload_length;
};
static_assert(sizeof(RmppHeaderWire) == 12);
constexpr size_t kRmppHeaderOffset = 24;
constexpr uint8_t kRmppActive = 0x01, kRmppFirst = 0x02, kRmppLast = 0x04, kRmppNoResponseTime = 0xf8;

// §15.2.1.1, after the RMPP header.
struct SaHeaderWire {
  be64 sm_key;
  be16 attribute_offset;  // distance between records, in units of 8 bytes
  be16 reserved;
  be64 component_mask;
};
static_assert(sizeof(SaHeaderWire) == 20);
constexpr size_t kSaHeaderOffset = 36;
static_assert(kRmppHeaderOffset + sizeof(RmppHeaderWire) == kSaHeaderOffset);
static_assert(kSaHeaderOffset + sizeof(SaHeaderWire) == kSaRecordOffset);

// §15.2.5.17.
struct McMemberRecordWire {
  GidWire mgid{};
  GidWire port_gid{};
  be32 qkey;
  be16 mlid;
  uint8_t mtu = 0;  // selector 2 | code 6; rate and life alike
  uint8_t traffic_class = 0;
  be16 pkey;
  uint8_t rate = 0;
  uint8_t life = 0;
  be32 sl_flow_hop;        // SL 4 | flow label 20 | hop limit 8
  uint8_t scope_join = 0;  // scope 4 | join state 4
  uint8_t proxy_join = 0;  // 1 | reserved 7
  be16 reserved;
};
static_assert(sizeof(McMemberRecordWire) == kMcMemberRecordSize);

// §15.2.5.16.
struct PathRecordWire {
  be64 service_id;
  GidWire dgid{};
  GidWire sgid{};
  be16 dlid;
  be16 slid;
  be32 raw_flow_hop;  // raw traffic 1 | reserved 3 | flow label 20 | hop limit 8
  uint8_t traffic_class = 0;
  uint8_t reversible_numb_path = 0;  // 1 | 7
  be16 pkey;
  be16 qos_sl;  // QoS class 12 | SL 4
  uint8_t mtu = 0;
  uint8_t rate = 0;
  uint8_t life = 0;
  uint8_t preference = 0;
  std::array<uint8_t, 6> reserved{};
};
static_assert(sizeof(PathRecordWire) == kPathRecordSize);

// §13.4.8.1.
struct ClassPortInfoWire {
  uint8_t base_version = 0;
  uint8_t class_version = 0;
  be16 capability_mask;
  be32 capability_mask2_response_time;  // 27 | 5
  std::array<uint8_t, 32> redirection{};
  std::array<uint8_t, 32> trap_destination{};
};
static_assert(sizeof(ClassPortInfoWire) == kClassPortInfoSize);

// §15.2.5.2, §15.2.5.3, §15.2.5.11.
struct NodeRecordWire {
  be16 lid;
  be16 reserved;
  std::array<uint8_t, kNodeInfoSize> node{};
  std::array<uint8_t, kNodeDescriptionSize> description{};
};
static_assert(sizeof(NodeRecordWire) == kNodeRecordSize);
struct PortInfoRecordWire {
  be16 lid;
  uint8_t port = 0;
  uint8_t options = 0;
  std::array<uint8_t, kPortInfoSize> info{};
};
static_assert(sizeof(PortInfoRecordWire) == kPortInfoRecordSize);
struct PKeyTableRecordWire {
  be16 lid;
  be16 block;
  uint8_t port = 0;
  std::array<uint8_t, 3> reserved{};
  std::array<uint8_t, kPKeyTableSize> pkeys{};
};
static_assert(sizeof(PKeyTableRecordWire) == kPKeyTableRecordSize);

uint8_t PackSelector(Selector selector, uint8_t code) {
  return static_cast<uint8_t>(static_cast<uint8_t>(selector) << kSelectorShift | (code & kCodeMask));
}
Selector UnpackSelector(uint8_t packed) { return static_cast<Selector>(packed >> kSelectorShift); }
uint8_t UnpackCode(uint8_t packed) { return packed & kCodeMask; }

uint32_t PackFlowHop(uint32_t flow_label, uint8_t hop_limit) {
  return (flow_label & kFlowLabelMask) << kFlowLabelShift | hop_limit;
}
uint32_t UnpackFlowLabel(uint32_t packed) { return packed >> kFlowLabelShift & kFlowLabelMask; }
uint8_t UnpackHopLimit(uint32_t packed) { return static_cast<uint8_t>(packed); }

constexpr size_t RoundUp(size_t size) { return (size + 7) / 8 * 8; }

const char* StatusText(SaStatus status) {
  switch (status) {
    case SaStatus::kOk:
      return "ok";
    case SaStatus::kBusy:
      return "busy";
    case SaStatus::kUnsupportedVersion:
      return "class or base version not supported";
    case SaStatus::kUnsupportedMethod:
      return "method not supported";
    case SaStatus::kUnsupportedMethodAttribute:
      return "method and attribute not supported";
    case SaStatus::kInvalidField:
      return "invalid field value";
    case SaStatus::kNoResources:
      return "no resources";
    case SaStatus::kRequestInvalid:
      return "request invalid";
    case SaStatus::kNoRecords:
      return "no records";
    case SaStatus::kTooManyRecords:
      return "too many records";
    case SaStatus::kInvalidGid:
      return "invalid GID";
    case SaStatus::kInsufficientComponents:
      return "insufficient components";
  }
  return "unknown status";
}

}  // namespace

std::string SaStatusName(uint16_t status) {
  return absl::StrCat(StatusText(static_cast<SaStatus>(status)), " (0x", absl::Hex(status, absl::kZeroPad4), ")");
}

int MtuBytes(uint8_t code) {
  // The code is log2(bytes) - 7.
  const bool valid = code >= static_cast<uint8_t>(IbMtu::k256) && code <= static_cast<uint8_t>(IbMtu::k4096);
  return valid ? 128 << code : 0;
}

uint8_t MtuCode(int bytes) {
  for (uint8_t code = static_cast<uint8_t>(IbMtu::k256); MtuBytes(code) != 0; ++code) {
    if (MtuBytes(code) == bytes) return code;
  }
  return 0;
}

size_t SaRecordStride(SaAttribute attribute) {
  switch (attribute) {
    case SaAttribute::kNodeRecord:
      return RoundUp(kNodeRecordSize);
    case SaAttribute::kPortInfoRecord:
      return RoundUp(kPortInfoRecordSize);
    case SaAttribute::kPKeyTableRecord:
      return RoundUp(kPKeyTableRecordSize);
    case SaAttribute::kPathRecord:
      return RoundUp(kPathRecordSize);
    case SaAttribute::kMcMemberRecord:
      return RoundUp(kMcMemberRecordSize);
    case SaAttribute::kClassPortInfo:
    case SaAttribute::kNotice:
    case SaAttribute::kInformInfo:
      return 0;
  }
  return 0;
}

void EncodeSaHeader(const SaHeader& header, Mad* mad) {
  mad->fill(0);
  EncodeMadHeader({.mgmt_class = MgmtClass::kSubnAdm,
                   .class_version = kSaClassVersion,
                   .method = header.method,
                   .status = header.status,
                   .tid = header.tid,
                   .attribute = static_cast<uint16_t>(header.attribute),
                   .attribute_modifier = header.attribute_modifier},
                  mad);
  SaHeaderWire wire;
  wire.sm_key = header.sm_key;
  wire.attribute_offset =
      header.attribute_offset != 0 ? header.attribute_offset : static_cast<uint16_t>(SaRecordStride(header.attribute) / 8);
  wire.component_mask = header.component_mask;
  WriteWire(wire, mad->data() + kSaHeaderOffset);
}

absl::StatusOr<SaHeader> DecodeSaHeader(absl::Span<const uint8_t> mad) {
  const absl::StatusOr<MadHeader> common = DecodeMadHeader(mad);
  if (!common.ok()) return common.status();
  if (common->mgmt_class != MgmtClass::kSubnAdm || common->class_version != kSaClassVersion) {
    return absl::InvalidArgumentError(absl::StrCat("decode MAD: class 0x", absl::Hex(static_cast<uint8_t>(common->mgmt_class)),
                                                   ", class version ", common->class_version,
                                                   ": expected 0x3 (subnet administration), 2"));
  }
  if (mad.size() < kSaRecordOffset) return absl::InvalidArgumentError(absl::StrCat("decode SA MAD: ", mad.size(), " bytes"));
  const auto wire = ReadWire<SaHeaderWire>(mad.data() + kSaHeaderOffset);
  SaHeader header;
  header.method = common->method;
  header.status = common->status;
  header.tid = common->tid;
  header.attribute = static_cast<SaAttribute>(common->attribute);
  header.attribute_modifier = common->attribute_modifier;
  header.sm_key = wire.sm_key.value();
  header.attribute_offset = wire.attribute_offset.value();
  header.component_mask = wire.component_mask.value();
  return header;
}

std::vector<uint8_t> EncodeSaTable(const SaHeader& header, absl::Span<const uint8_t> records) {
  Mad first;
  EncodeSaHeader(header, &first);
  const size_t segments = std::max<size_t>(1, (records.size() + kMaxSaRecord - 1) / kMaxSaRecord);
  RmppHeaderWire rmpp;
  rmpp.response_time_flags = kRmppNoResponseTime | kRmppActive | kRmppFirst | (segments == 1 ? kRmppLast : 0);
  rmpp.segment = 1;
  rmpp.payload_length = static_cast<uint32_t>(segments * sizeof(SaHeaderWire) + records.size());
  WriteWire(rmpp, first.data() + kRmppHeaderOffset);
  std::vector<uint8_t> mad(first.begin(), first.begin() + kSaRecordOffset);
  mad.insert(mad.end(), records.begin(), records.end());
  return mad;
}

bool IsSaTable(absl::Span<const uint8_t> mad) {
  constexpr size_t kFlagsOffset = kRmppHeaderOffset + offsetof(RmppHeaderWire, response_time_flags);
  return DecodeSaHeader(mad).ok() && (mad[kFlagsOffset] & kRmppActive) != 0;
}

void EncodeMcMemberRecord(const McMemberRecord& record, absl::Span<uint8_t> bytes) {
  McMemberRecordWire wire;
  wire.mgid = record.mgid.gid().bytes();
  wire.port_gid = record.port_gid.bytes();
  wire.qkey = record.qkey.value();
  wire.mlid = record.mlid.value();
  wire.mtu = PackSelector(record.mtu_selector, record.mtu);
  wire.traffic_class = record.traffic_class;
  wire.pkey = record.pkey.value();
  wire.rate = PackSelector(record.rate_selector, record.rate);
  wire.life = PackSelector(record.life_selector, record.life);
  wire.sl_flow_hop = uint32_t{record.sl.value()} << kSlShift | PackFlowHop(record.flow_label, record.hop_limit);
  wire.scope_join = static_cast<uint8_t>(record.scope << kScopeShift | (record.join_state & kJoinStateMask));
  wire.proxy_join = record.proxy_join ? kProxyJoin : 0;
  WriteAttribute(wire, bytes);
}

absl::StatusOr<McMemberRecord> DecodeMcMemberRecord(absl::Span<const uint8_t> bytes) {
  const auto wire = ReadAttribute<McMemberRecordWire>(bytes, "MCMemberRecord");
  if (!wire.ok()) return wire.status();
  const Gid mgid(wire->mgid);
  if (!mgid.IsMulticast()) {
    return absl::InvalidArgumentError(absl::StrCat("decode MCMemberRecord: MGID ", mgid.ToString(), " is not a multicast GID"));
  }
  McMemberRecord record;
  record.mgid = Mgid(mgid);
  record.port_gid = Gid(wire->port_gid);
  record.qkey = QKey(wire->qkey.value());
  record.mlid = Mlid(wire->mlid.value());
  record.mtu_selector = UnpackSelector(wire->mtu);
  record.mtu = UnpackCode(wire->mtu);
  record.traffic_class = wire->traffic_class;
  record.pkey = PKey(wire->pkey.value());
  record.rate_selector = UnpackSelector(wire->rate);
  record.rate = UnpackCode(wire->rate);
  record.life_selector = UnpackSelector(wire->life);
  record.life = UnpackCode(wire->life);
  record.sl = Sl(static_cast<uint8_t>(wire->sl_flow_hop.value() >> kSlShift));
  record.flow_label = UnpackFlowLabel(wire->sl_flow_hop.value());
  record.hop_limit = UnpackHopLimit(wire->sl_flow_hop.value());
  record.scope = wire->scope_join >> kScopeShift;
  record.join_state = wire->scope_join & kJoinStateMask;
  record.proxy_join = (wire->proxy_join & kProxyJoin) != 0;
  return record;
}

void EncodePathRecord(const PathRecord& record, absl::Span<uint8_t> bytes) {
  PathRecordWire wire;
  wire.dgid = record.dgid.bytes();
  wire.sgid = record.sgid.bytes();
  wire.dlid = record.dlid.value();
  wire.slid = record.slid.value();
  wire.raw_flow_hop = PackFlowHop(record.flow_label, record.hop_limit);
  wire.traffic_class = record.traffic_class;
  wire.reversible_numb_path = static_cast<uint8_t>((record.reversible ? kReversible : 0) | (record.numb_path & kNumbPathMask));
  wire.pkey = record.pkey.value();
  wire.qos_sl = record.sl.value() & kQosSlMask;
  wire.mtu = PackSelector(record.mtu_selector, record.mtu);
  wire.rate = PackSelector(record.rate_selector, record.rate);
  wire.life = PackSelector(record.life_selector, record.life);
  wire.preference = record.preference;
  WriteAttribute(wire, bytes);
}

absl::StatusOr<PathRecord> DecodePathRecord(absl::Span<const uint8_t> bytes) {
  const auto wire = ReadAttribute<PathRecordWire>(bytes, "PathRecord");
  if (!wire.ok()) return wire.status();
  PathRecord record;
  record.dgid = Gid(wire->dgid);
  record.sgid = Gid(wire->sgid);
  record.dlid = Lid(wire->dlid.value());
  record.slid = Lid(wire->slid.value());
  record.flow_label = UnpackFlowLabel(wire->raw_flow_hop.value());
  record.hop_limit = UnpackHopLimit(wire->raw_flow_hop.value());
  record.traffic_class = wire->traffic_class;
  record.reversible = (wire->reversible_numb_path & kReversible) != 0;
  record.numb_path = wire->reversible_numb_path & kNumbPathMask;
  record.pkey = PKey(wire->pkey.value());
  record.sl = Sl(static_cast<uint8_t>(wire->qos_sl.value() & kQosSlMask));
  record.mtu_selector = UnpackSelector(wire->mtu);
  record.mtu = UnpackCode(wire->mtu);
  record.rate_selector = UnpackSelector(wire->rate);
  record.rate = UnpackCode(wire->rate);
  record.life_selector = UnpackSelector(wire->life);
  record.life = UnpackCode(wire->life);
  record.preference = wire->preference;
  return record;
}

void EncodeClassPortInfo(const ClassPortInfo& info, absl::Span<uint8_t> bytes) {
  ClassPortInfoWire wire;
  wire.base_version = info.base_version;
  wire.class_version = info.class_version;
  wire.capability_mask = info.capability_mask;
  wire.capability_mask2_response_time =
      info.capability_mask2 << kCapabilityMask2Shift | (info.response_time_value & kResponseTimeMask);
  WriteAttribute(wire, bytes);
}

absl::StatusOr<ClassPortInfo> DecodeClassPortInfo(absl::Span<const uint8_t> bytes) {
  const auto wire = ReadAttribute<ClassPortInfoWire>(bytes, "ClassPortInfo");
  if (!wire.ok()) return wire.status();
  ClassPortInfo info;
  info.base_version = wire->base_version;
  info.class_version = wire->class_version;
  info.capability_mask = wire->capability_mask.value();
  info.capability_mask2 = wire->capability_mask2_response_time.value() >> kCapabilityMask2Shift;
  info.response_time_value = static_cast<uint8_t>(wire->capability_mask2_response_time.value() & kResponseTimeMask);
  return info;
}

void EncodeNodeRecord(const NodeRecord& record, absl::Span<uint8_t> bytes) {
  NodeRecordWire wire;
  wire.lid = record.lid.value();
  EncodeNodeInfo(record.node, absl::MakeSpan(wire.node));
  EncodeNodeDescription(record.description, absl::MakeSpan(wire.description));
  WriteAttribute(wire, bytes);
}

absl::StatusOr<NodeRecord> DecodeNodeRecord(absl::Span<const uint8_t> bytes) {
  const auto wire = ReadAttribute<NodeRecordWire>(bytes, "NodeRecord");
  if (!wire.ok()) return wire.status();
  return NodeRecord{Lid(wire->lid.value()), *DecodeNodeInfo(wire->node), *DecodeNodeDescription(wire->description)};
}

void EncodePortInfoRecord(const PortInfoRecord& record, absl::Span<uint8_t> bytes) {
  PortInfoRecordWire wire;
  wire.lid = record.lid.value();
  wire.port = record.port;
  EncodePortInfo(record.info, absl::MakeSpan(wire.info));
  WriteAttribute(wire, bytes);
}

absl::StatusOr<PortInfoRecord> DecodePortInfoRecord(absl::Span<const uint8_t> bytes) {
  const auto wire = ReadAttribute<PortInfoRecordWire>(bytes, "PortInfoRecord");
  if (!wire.ok()) return wire.status();
  return PortInfoRecord{Lid(wire->lid.value()), wire->port, *DecodePortInfo(wire->info)};
}

void EncodePKeyTableRecord(const PKeyTableRecord& record, absl::Span<uint8_t> bytes) {
  PKeyTableRecordWire wire;
  wire.lid = record.lid.value();
  wire.block = record.block;
  wire.port = record.port;
  EncodePKeyTable(record.pkeys, absl::MakeSpan(wire.pkeys));
  WriteAttribute(wire, bytes);
}

absl::StatusOr<PKeyTableRecord> DecodePKeyTableRecord(absl::Span<const uint8_t> bytes) {
  const auto wire = ReadAttribute<PKeyTableRecordWire>(bytes, "P_KeyTableRecord");
  if (!wire.ok()) return wire.status();
  return PKeyTableRecord{Lid(wire->lid.value()), wire->block.value(), wire->port, *DecodePKeyTable(wire->pkeys)};
}

}  // namespace eoib
