#include "vswitch/wire/ib/sa_mad.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ib/attribute_codec.h"
#include "vswitch/wire/ib/service_record.h"

namespace eoib {
namespace {

using GidWire = std::array<uint8_t, Gid::kSize>;

// §15.2.1.1, after the common header and the RMPP header.
struct SaHeaderWire {
  be64 sm_key;
  be16 attribute_offset;  // distance between records, in units of 8 bytes
  be16 reserved;
  be64 component_mask;
};
static_assert(sizeof(SaHeaderWire) == 20);
constexpr size_t kSaHeaderOffset = 36;
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

// A selector and a code of MTU, rate or lifetime share a byte.
template <typename Copy, typename S, typename Code>
void CopySelected(Copy copy, uint8_t& field, S& selector, Code& code) {
  copy(field, selector, 6, 2);
  copy(field, code, 0, 6);
}

// All but the MGID, which the decoder checks.
template <typename Copy, typename Record>
void Fields(Copy copy, McMemberRecordWire& wire, Record& record) {
  copy(wire.port_gid, record.port_gid);
  copy(wire.qkey, record.qkey);
  copy(wire.mlid, record.mlid);
  CopySelected(copy, wire.mtu, record.mtu_selector, record.mtu);
  copy(wire.traffic_class, record.traffic_class);
  copy(wire.pkey, record.pkey);
  CopySelected(copy, wire.rate, record.rate_selector, record.rate);
  CopySelected(copy, wire.life, record.life_selector, record.life);
  copy(wire.sl_flow_hop, record.sl, 28, 4);
  copy(wire.sl_flow_hop, record.flow_label, 8, 20);
  copy(wire.sl_flow_hop, record.hop_limit, 0, 8);
  copy(wire.scope_join, record.scope, 4, 4);
  copy(wire.scope_join, record.join_state, 0, 4);
  copy(wire.proxy_join, record.proxy_join, 7, 1);
}

template <typename Copy, typename Record>
void Fields(Copy copy, PathRecordWire& wire, Record& record) {
  copy(wire.dgid, record.dgid);
  copy(wire.sgid, record.sgid);
  copy(wire.dlid, record.dlid);
  copy(wire.slid, record.slid);
  copy(wire.raw_flow_hop, record.flow_label, 8, 20);
  copy(wire.raw_flow_hop, record.hop_limit, 0, 8);
  copy(wire.traffic_class, record.traffic_class);
  copy(wire.reversible_numb_path, record.reversible, 7, 1);
  copy(wire.reversible_numb_path, record.numb_path, 0, 7);
  copy(wire.pkey, record.pkey);
  copy(wire.qos_sl, record.sl, 0, 4);
  CopySelected(copy, wire.mtu, record.mtu_selector, record.mtu);
  CopySelected(copy, wire.rate, record.rate_selector, record.rate);
  CopySelected(copy, wire.life, record.life_selector, record.life);
  copy(wire.preference, record.preference);
}

template <typename Copy, typename Info>
void Fields(Copy copy, ClassPortInfoWire& wire, Info& info) {
  copy(wire.base_version, info.base_version);
  copy(wire.class_version, info.class_version);
  copy(wire.capability_mask, info.capability_mask);
  copy(wire.capability_mask2_response_time, info.capability_mask2, 5, 27);
  copy(wire.capability_mask2_response_time, info.response_time_value, 0, 5);
}

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
  return absl::StrCat(StatusText(static_cast<SaStatus>(status)), " (0x",
                      absl::Hex(status, absl::kZeroPad4), ")");
}

int MtuBytes(uint8_t code) {
  // The code is log2(bytes) - 7.
  const bool valid =
      code >= static_cast<uint8_t>(IbMtu::k256) && code <= static_cast<uint8_t>(IbMtu::k4096);
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
    case SaAttribute::kServiceRecord:
      return RoundUp(kServiceRecordSize);
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
  wire.attribute_offset = header.attribute_offset != 0
                              ? header.attribute_offset
                              : static_cast<uint16_t>(SaRecordStride(header.attribute) / 8);
  wire.component_mask = header.component_mask;
  WriteWire(wire, mad->data() + kSaHeaderOffset);
}

absl::StatusOr<SaHeader> DecodeSaHeader(absl::Span<const uint8_t> mad) {
  const absl::StatusOr<MadHeader> common = DecodeMadHeader(mad);
  if (!common.ok()) return common.status();
  if (common->mgmt_class != MgmtClass::kSubnAdm || common->class_version != kSaClassVersion) {
    return absl::InvalidArgumentError(absl::StrCat(
        "decode MAD: class 0x", absl::Hex(static_cast<uint8_t>(common->mgmt_class)),
        ", class version ", common->class_version, ": expected 0x3 (subnet administration), 2"));
  }
  if (mad.size() < kSaRecordOffset)
    return absl::InvalidArgumentError(absl::StrCat("decode SA MAD: ", mad.size(), " bytes"));
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

void EncodeMcMemberRecord(const McMemberRecord& record, absl::Span<uint8_t> bytes) {
  McMemberRecordWire wire;
  wire.mgid = record.mgid.gid().bytes();
  Fields(ToWire(), wire, record);
  WriteAttribute(wire, bytes);
}

absl::StatusOr<McMemberRecord> DecodeMcMemberRecord(absl::Span<const uint8_t> bytes) {
  auto wire = ReadAttribute<McMemberRecordWire>(bytes, "MCMemberRecord");
  if (!wire.ok()) return wire.status();
  const Gid mgid(wire->mgid);
  if (!mgid.IsMulticast()) {
    return absl::InvalidArgumentError(
        absl::StrCat("decode MCMemberRecord: MGID ", mgid.ToString(), " is not a multicast GID"));
  }
  McMemberRecord record;
  record.mgid = Mgid(mgid);
  Fields(FromWire(), *wire, record);
  return record;
}

void EncodePathRecord(const PathRecord& record, absl::Span<uint8_t> bytes) {
  EncodeFields<PathRecordWire>(record, bytes);
}
absl::StatusOr<PathRecord> DecodePathRecord(absl::Span<const uint8_t> bytes) {
  return DecodeFields<PathRecordWire, PathRecord>(bytes, "PathRecord");
}

void EncodeClassPortInfo(const ClassPortInfo& info, absl::Span<uint8_t> bytes) {
  EncodeFields<ClassPortInfoWire>(info, bytes);
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
  return NodeRecord{Lid(wire->lid.value()), *DecodeNodeInfo(wire->node),
                    *DecodeNodeDescription(wire->description)};
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
  return PKeyTableRecord{Lid(wire->lid.value()), wire->block.value(), wire->port,
                         *DecodePKeyTable(wire->pkeys)};
}

}  // namespace eoib
