// Notices: unsolicited events of a subnet (IBA 1.4 §13.4.8.2), and subscriptions to them
// (InformInfo, §13.4.8.3).
//
// An SA reports a trap to a subscriber as a MAD with method Report and attribute Notice, and
// repeats it until it gets a ReportResp of the same transaction ID.
#ifndef EOIB_VSWITCH_WIRE_IB_NOTICE_H_
#define EOIB_VSWITCH_WIRE_IB_NOTICE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "vswitch/base/address.h"

namespace eoib {

// Traps of a subnet manager with a GID in their details (§14.2.5.1, table 131).
enum class SmTrap : uint16_t {
  kGidInService = 64,
  kGidOutOfService = 65,
  kGroupCreated = 66,  // the GID is the MGID
  kGroupDeleted = 67,
};

enum class NoticeType : uint8_t {
  kFatal = 0,
  kUrgent = 1,
  kSecurity = 2,
  kSubnetManagement = 3,
  kInformational = 4,
  kEmpty = 0x7f,
};

struct Notice {
  static constexpr size_t kDetails = 54;
  // A channel adapter is 1, a switch 2, a router 3.
  static constexpr uint32_t kProducerClassManager = 4;

  bool generic = true;
  NoticeType type = NoticeType::kSubnetManagement;  // 7 bits
  uint32_t producer = kProducerClassManager;        // 24 bits; the vendor's if not generic
  uint16_t trap = 0;                                // the device ID if not generic
  uint16_t issuer_lid = 0;
  bool toggle = false;
  uint16_t count = 0;  // 15 bits
  std::array<uint8_t, kDetails> details{};
  Gid issuer_gid;

  // Makes a trap 64 to 67 about `gid`; returns the GID of such a trap.
  static Notice OfGid(SmTrap trap, const Gid& gid);
  Gid AboutGid() const;
  friend bool operator==(const Notice&, const Notice&) = default;
};

// The traps that a subscriber wants (§13.4.8.3). A GID that is not zero, otherwise the LID range,
// selects their sources.
struct InformInfo {
  static constexpr uint16_t kAllLids = 0xffff;   // as LIDRangeBegin
  static constexpr uint16_t kAllTypes = 0xffff;  // as type
  static constexpr uint16_t kAllTraps = 0xffff;  // as trap
  static constexpr uint32_t kAllProducers = 0xff'ffff;

  Gid gid;
  uint16_t lid_begin = kAllLids;
  uint16_t lid_end = 0;
  bool generic = true;
  bool subscribe = true;
  uint16_t type = kAllTypes;
  uint16_t trap = kAllTraps;
  // The subscriber, for an unsubscribe; reports go to the general services QP.
  Qpn qpn{1};
  uint8_t response_time = 0;  // 5 bits
  uint32_t producer = kAllProducers;

  friend bool operator==(const InformInfo&, const InformInfo&) = default;
};

// Sizes at SaRecord(mad) of an SA MAD.
inline constexpr size_t kNoticeSize = 80;
inline constexpr size_t kInformInfoSize = 36;
void EncodeNotice(const Notice& notice, absl::Span<uint8_t> bytes);
// kInvalidArgument if the span is too short.
absl::StatusOr<Notice> DecodeNotice(absl::Span<const uint8_t> bytes);
void EncodeInformInfo(const InformInfo& info, absl::Span<uint8_t> bytes);
// Also kInvalidArgument if Subscribe or IsGeneric is neither 0 nor 1.
absl::StatusOr<InformInfo> DecodeInformInfo(absl::Span<const uint8_t> bytes);

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IB_NOTICE_H_
