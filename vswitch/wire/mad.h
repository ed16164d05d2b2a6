// Management datagrams: 256 bytes, as a subnet administrator speaks them (IBA 1.4 §13.4, §15.2).
//
// A Mad is the bytes; the codecs below read and write the fields that a switch's SA client and a subnet administrator need.
// MCMemberRecord: §15.2.5.17. PathRecord: §15.2.5.16. Every field that is modelled here comes back from an encoder exactly as a
// decoder read it; reserved and unmodelled fields are ignored on receipt and sent as zero.
#ifndef EOIB_VSWITCH_WIRE_MAD_H_
#define EOIB_VSWITCH_WIRE_MAD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "fdb/address.h"

namespace eoib {

inline constexpr size_t kMadSize = 256;
using Mad = std::array<uint8_t, kMadSize>;

inline constexpr uint8_t kMgmtClassSubnAdm = 0x03;
inline constexpr uint8_t kSaClassVersion = 2;

enum class MadMethod : uint8_t {
  kGet = 0x01,
  kSet = 0x02,
  kTrap = 0x05,
  kReport = 0x06,
  kTrapRepress = 0x07,
  kGetTable = 0x12,
  kDelete = 0x15,
  kGetResp = 0x81,
  kReportResp = 0x86,
  kDeleteResp = 0x95,
};

enum class SaAttribute : uint16_t {
  kClassPortInfo = 0x0001,
  kNotice = 0x0002,
  kInformInfo = 0x0003,
  kPathRecord = 0x0035,
  kMcMemberRecord = 0x0038,
};

// The status field of a response. The low byte is common (§13.4.7), the high byte the SA's (§15.2.7, table 185).
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

// The common MAD header and the SA header behind the RMPP header.
struct SaHeader {
  MadMethod method = MadMethod::kGet;
  uint16_t status = 0;
  uint64_t tid = 0;
  SaAttribute attribute = SaAttribute::kPathRecord;
  uint32_t attribute_modifier = 0;
  uint64_t sm_key = 0;
  uint64_t component_mask = 0;

  bool IsResponse() const { return (static_cast<uint8_t>(method) & 0x80) != 0; }
  friend bool operator==(const SaHeader&, const SaHeader&) = default;
};

// Writes a whole MAD with that header and no record.
void EncodeSaHeader(const SaHeader& header, Mad* mad);
// kInvalidArgument unless base version 1, class SubnAdm, class version 2 (an RMPP response of one segment is accepted).
absl::StatusOr<SaHeader> DecodeSaHeader(const Mad& mad);

enum class IbMtu : uint8_t { k256 = 1, k512 = 2, k1024 = 3, k2048 = 4, k4096 = 5 };
// 256 to 4096; 0 for a code that is none.
int MtuBytes(uint8_t code);

// A selector of MTU, rate or packet lifetime (§15.2.5.16).
enum class Selector : uint8_t { kGreaterThan = 0, kLessThan = 1, kExactly = 2, kLargest = 3 };

enum JoinState : uint8_t { kFullMember = 1, kNonMember = 2, kSendOnlyNonMember = 4 };

// Component mask bits of MCMemberRecord (§15.2.5.17, table 210).
namespace mcm {
inline constexpr uint64_t kMgid = 1ull << 0, kPortGid = 1ull << 1, kQKey = 1ull << 2, kMlid = 1ull << 3,
                          kMtuSelector = 1ull << 4, kMtu = 1ull << 5, kTrafficClass = 1ull << 6, kPKey = 1ull << 7,
                          kRateSelector = 1ull << 8, kRate = 1ull << 9, kLifeSelector = 1ull << 10, kLife = 1ull << 11,
                          kSl = 1ull << 12, kFlowLabel = 1ull << 13, kHopLimit = 1ull << 14, kScope = 1ull << 15,
                          kJoinState = 1ull << 16, kProxyJoin = 1ull << 17;
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
void EncodeMcMemberRecord(const McMemberRecord& record, Mad* mad);
// kInvalidArgument if the MGID is not a multicast GID.
absl::StatusOr<McMemberRecord> DecodeMcMemberRecord(const Mad& mad);

// Component mask bits of PathRecord (§15.2.5.16, table 205).
namespace path {
inline constexpr uint64_t kDgid = 1ull << 2, kSgid = 1ull << 3, kDlid = 1ull << 4, kSlid = 1ull << 5, kRawTraffic = 1ull << 6,
                          kFlowLabel = 1ull << 8, kHopLimit = 1ull << 9, kTrafficClass = 1ull << 10, kReversible = 1ull << 11,
                          kNumbPath = 1ull << 12, kPKey = 1ull << 13, kSl = 1ull << 15, kMtuSelector = 1ull << 16,
                          kMtu = 1ull << 17, kRateSelector = 1ull << 18, kRate = 1ull << 19, kLifeSelector = 1ull << 20,
                          kLife = 1ull << 21;
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
void EncodePathRecord(const PathRecord& record, Mad* mad);
absl::StatusOr<PathRecord> DecodePathRecord(const Mad& mad);

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_MAD_H_
