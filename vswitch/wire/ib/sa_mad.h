// MADs of the subnet administrator, SA (IBA 1.4 §15.2): header and records.
//
// MCMemberRecord: §15.2.5.17. PathRecord: §15.2.5.16. Notices and subscriptions to them
// (InformInfo) are in notice.h, ServiceRecords in service_record.h.
#ifndef EOIB_VSWITCH_WIRE_IB_SA_MAD_H_
#define EOIB_VSWITCH_WIRE_IB_SA_MAD_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ib/mad.h"
#include "vswitch/wire/ib/smp.h"

namespace eoib {

enum class SaAttribute : uint16_t {
  kClassPortInfo = 0x0001,
  kNotice = 0x0002,
  kInformInfo = 0x0003,
  kNodeRecord = 0x0011,
  kPortInfoRecord = 0x0012,
  kServiceRecord = 0x0031,
  kPKeyTableRecord = 0x0033,
  kPathRecord = 0x0035,
  kMcMemberRecord = 0x0038,
};

// The status field of a response. The low byte is common to all classes (§13.4.7), the high byte
// belongs to the SA (§15.2.7, table 185).
enum class SaStatus : uint16_t {
  kOk = 0x0000,
  kBusy = 0x0001,
  kUnsupportedVersion = 0x0004,
  kUnsupportedMethod = 0x0008,
  kUnsupportedMethodAttribute = 0x000c,
  kInvalidField = 0x001c,
  kNoResources = 0x0100,
  kRequestInvalid = 0x0200,
  kNoRecords = 0x0300,
  kTooManyRecords = 0x0400,
  kInvalidGid = 0x0500,
  kInsufficientComponents = 0x0600,
};
std::string SaStatusName(uint16_t status);  // "no records (0x0300)"

// The common MAD header, and the SA header that follows the RMPP header.
struct SaHeader {
  MadMethod method = MadMethod::kGet;
  uint16_t status = 0;
  uint64_t tid = 0;
  SaAttribute attribute = SaAttribute::kPathRecord;
  uint32_t attribute_modifier = 0;
  uint64_t sm_key = 0;
  // Distance between records, in units of 8 bytes; 0: Encode fills it in.
  uint16_t attribute_offset = 0;
  uint64_t component_mask = 0;

  bool IsResponse() const { return (static_cast<uint8_t>(method) & 0x80) != 0; }
  friend bool operator==(const SaHeader&, const SaHeader&) = default;
};

// Writes a whole MAD with that header, an inactive RMPP header and no record.
void EncodeSaHeader(const SaHeader& header, Mad* mad);
// kInvalidArgument if there is no room for the headers, or unless base version 1, class SubnAdm,
// class version 2. Ignores the RMPP header.
absl::StatusOr<SaHeader> DecodeSaHeader(absl::Span<const uint8_t> mad);

// A record's place in a MAD: the last 200 bytes.
inline constexpr size_t kSaRecordOffset = 56;
inline constexpr size_t kMaxSaRecord = kMadSize - kSaRecordOffset;
inline absl::Span<uint8_t> SaRecord(Mad* mad) {
  return absl::MakeSpan(*mad).subspan(kSaRecordOffset);
}
// The records of a MAD that DecodeSaHeader accepts.
inline absl::Span<const uint8_t> SaRecord(absl::Span<const uint8_t> mad) {
  return mad.subspan(kSaRecordOffset);
}
// Distance in bytes between the records of a table: their size, rounded up to 8 (§15.2.3,
// AttributeOffset). 0 for an attribute that is never in a table.
size_t SaRecordStride(SaAttribute attribute);

// The record codecs below write and read at the start of a span of at least the record's size:
// SaRecord(mad), or a piece of a table. Encoders zero reserved fields. Decoders return
// kInvalidArgument if the span is too short.

enum class IbMtu : uint8_t { k256 = 1, k512 = 2, k1024 = 3, k2048 = 4, k4096 = 5 };
// 256 to 4096; 0 for an invalid code.
int MtuBytes(uint8_t code);
// The reverse; 0 for a number of bytes without a code.
uint8_t MtuCode(int bytes);

// True for a rate code: 2 (2.5 Gb/s) to 24 (1,200 Gb/s); the higher ones come from later releases
// of the IBA. 0 is not a rate in a record; here it means "the port's rate".
constexpr bool IsRateCode(uint8_t code) { return code >= 2 && code <= 24; }

// A selector of MTU, rate or packet lifetime (§15.2.5.16).
enum class Selector : uint8_t { kGreaterThan = 0, kLessThan = 1, kExactly = 2, kLargest = 3 };

enum JoinState : uint8_t { kFullMember = 1, kNonMember = 2, kSendOnlyNonMember = 4 };

// Component mask bits of MCMemberRecord (§15.2.5.17, table 210).
namespace mcm {
inline constexpr uint64_t kMgid = 1ull << 0, kPortGid = 1ull << 1, kQKey = 1ull << 2,
                          kMlid = 1ull << 3, kMtuSelector = 1ull << 4, kMtu = 1ull << 5,
                          kTrafficClass = 1ull << 6, kPKey = 1ull << 7, kRateSelector = 1ull << 8,
                          kRate = 1ull << 9, kLifeSelector = 1ull << 10, kLife = 1ull << 11,
                          kSl = 1ull << 12, kFlowLabel = 1ull << 13, kHopLimit = 1ull << 14,
                          kScope = 1ull << 15, kJoinState = 1ull << 16, kProxyJoin = 1ull << 17;
}  // namespace mcm

struct McMemberRecord {
  Mgid mgid;
  Gid port_gid;
  QKey qkey;
  Mlid mlid;
  Selector mtu_selector = Selector::kExactly;
  uint8_t mtu = 0;  // IbMtu's code
  uint8_t traffic_class = 0;
  PKey pkey;
  Selector rate_selector = Selector::kExactly;
  uint8_t rate = 0;  // IBA rate code: 2 is 2.5 Gb/s, 3 is 10 ...
  Selector life_selector = Selector::kExactly;
  uint8_t life = 0;  // 4.096 us * 2^life
  Sl sl;
  uint32_t flow_label = 0;  // 20 bits
  uint8_t hop_limit = 0;
  uint8_t scope = 0;       // 4 bits
  uint8_t join_state = 0;  // JoinState bits, 4 bits
  bool proxy_join = false;

  friend bool operator==(const McMemberRecord&, const McMemberRecord&) = default;
};
inline constexpr size_t kMcMemberRecordSize = 52;
void EncodeMcMemberRecord(const McMemberRecord& record, absl::Span<uint8_t> bytes);
// kInvalidArgument if the MGID is not a multicast GID.
absl::StatusOr<McMemberRecord> DecodeMcMemberRecord(absl::Span<const uint8_t> bytes);

// Component mask bits of PathRecord (§15.2.5.16, table 205).
namespace path {
inline constexpr uint64_t kDgid = 1ull << 2, kSgid = 1ull << 3, kDlid = 1ull << 4,
                          kSlid = 1ull << 5, kRawTraffic = 1ull << 6, kFlowLabel = 1ull << 8,
                          kHopLimit = 1ull << 9, kTrafficClass = 1ull << 10,
                          kReversible = 1ull << 11, kNumbPath = 1ull << 12, kPKey = 1ull << 13,
                          kSl = 1ull << 15, kMtuSelector = 1ull << 16, kMtu = 1ull << 17,
                          kRateSelector = 1ull << 18, kRate = 1ull << 19,
                          kLifeSelector = 1ull << 20, kLife = 1ull << 21;
}  // namespace path

struct PathRecord {
  Gid dgid;
  Gid sgid;
  Lid dlid;
  Lid slid;
  uint32_t flow_label = 0;
  uint8_t hop_limit = 0;
  uint8_t traffic_class = 0;
  bool reversible = true;
  uint8_t numb_path = 1;  // 7 bits
  PKey pkey;
  Sl sl;
  Selector mtu_selector = Selector::kExactly;
  uint8_t mtu = 0;
  Selector rate_selector = Selector::kExactly;
  uint8_t rate = 0;
  Selector life_selector = Selector::kExactly;
  uint8_t life = 0;
  uint8_t preference = 0;

  friend bool operator==(const PathRecord&, const PathRecord&) = default;
};
inline constexpr size_t kPathRecordSize = 64;
void EncodePathRecord(const PathRecord& record, absl::Span<uint8_t> bytes);
absl::StatusOr<PathRecord> DecodePathRecord(absl::Span<const uint8_t> bytes);

// ClassPortInfo (§13.4.8.1): an SA's versions and capabilities.
struct ClassPortInfo {
  uint8_t base_version = 1;
  uint8_t class_version = kSaClassVersion;
  uint16_t capability_mask = 0;
  uint32_t capability_mask2 = 0;    // 27 bits
  uint8_t response_time_value = 0;  // 5 bits: 4.096 us * 2^value
};
inline constexpr size_t kClassPortInfoSize = 72;
void EncodeClassPortInfo(const ClassPortInfo& info, absl::Span<uint8_t> bytes);

// NodeRecord (§15.2.5.2), PortInfoRecord (§15.2.5.3), P_KeyTableRecord (§15.2.5.11): a key, and the
// attribute of smp.h.
struct NodeRecord {
  Lid lid;
  NodeInfo node;
  std::string description;  // at most 64 bytes

  friend bool operator==(const NodeRecord&, const NodeRecord&) = default;
};
struct PortInfoRecord {
  Lid lid;
  uint8_t port = 0;
  PortInfo info;

  friend bool operator==(const PortInfoRecord&, const PortInfoRecord&) = default;
};
struct PKeyTableRecord {
  Lid lid;
  uint16_t block = 0;
  uint8_t port = 0;
  PKeyTableBlock pkeys{};

  friend bool operator==(const PKeyTableRecord&, const PKeyTableRecord&) = default;
};
// Component mask bits of their keys.
namespace node {
inline constexpr uint64_t kLid = 1ull << 0, kNodeType = 1ull << 4, kNodeGuid = 1ull << 7,
                          kPortGuid = 1ull << 8, kNodeDescription = 1ull << 14;
}  // namespace node
namespace port_info {
inline constexpr uint64_t kLid = 1ull << 0, kPort = 1ull << 1, kCapabilityMask = 1ull << 7;
}  // namespace port_info
namespace pkey_table {
inline constexpr uint64_t kLid = 1ull << 0, kBlock = 1ull << 1, kPort = 1ull << 2;
}  // namespace pkey_table
inline constexpr size_t kNodeRecordSize = 108;
inline constexpr size_t kPortInfoRecordSize = 68;
inline constexpr size_t kPKeyTableRecordSize = 72;
void EncodeNodeRecord(const NodeRecord& record, absl::Span<uint8_t> bytes);
absl::StatusOr<NodeRecord> DecodeNodeRecord(absl::Span<const uint8_t> bytes);
void EncodePortInfoRecord(const PortInfoRecord& record, absl::Span<uint8_t> bytes);
absl::StatusOr<PortInfoRecord> DecodePortInfoRecord(absl::Span<const uint8_t> bytes);
void EncodePKeyTableRecord(const PKeyTableRecord& record, absl::Span<uint8_t> bytes);
absl::StatusOr<PKeyTableRecord> DecodePKeyTableRecord(absl::Span<const uint8_t> bytes);

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IB_SA_MAD_H_
