// Management datagrams: 256 bytes, whatever their class (IBA 1.4 §13.4).
//
// A Mad holds the bytes. This file has the common header of all classes. Each class has a file:
// sa_mad.h (subnet administration), smp.h (subnet management), perf_mad.h (performance management).
// notice.h has the notices of the first two. An encoder writes every modelled field exactly as a
// decoder read it; reserved and unmodelled fields are ignored on receipt and sent as zero. Decoders
// take bytes, because a table of the SA arrives as one long MAD (sa_table.h).
#ifndef EOIB_VSWITCH_WIRE_IB_MAD_H_
#define EOIB_VSWITCH_WIRE_IB_MAD_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace eoib {

inline constexpr size_t kMadSize = 256;
using Mad = std::array<uint8_t, kMadSize>;

// Management classes (§13.4.4) and their supported versions.
enum class MgmtClass : uint8_t {
  kSubnLid = 0x01,  // subnet management, routed by LID
  kSubnAdm = 0x03,
  kPerf = 0x04,
  kSubnDirected = 0x81,  // subnet management, directed route
};
inline constexpr uint8_t kSaClassVersion = 2;
inline constexpr uint8_t kSmpClassVersion = 1;
inline constexpr uint8_t kPerfClassVersion = 1;

// §13.4.5, §15.2.2.
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
  kGetTableResp = 0x92,
  kDeleteResp = 0x95,
};
// The response to a method: the method with the response bit set, except that GetResp answers Set
// (§13.4.5).
MadMethod ResponseTo(MadMethod method);

// Status codes that all classes share (§13.4.7), in the low byte.
enum class MadStatus : uint16_t {
  kOk = 0x0000,
  kBusy = 0x0001,
  kUnsupportedVersion = 0x0004,
  kUnsupportedMethod = 0x0008,
  kUnsupportedMethodAttribute = 0x000c,
  kInvalidField = 0x001c,
};

// The common header (§13.4.3): the first 24 bytes.
struct MadHeader {
  MgmtClass mgmt_class = MgmtClass::kSubnAdm;
  uint8_t class_version = kSaClassVersion;
  MadMethod method = MadMethod::kGet;
  uint16_t status = 0;
  uint16_t class_specific = 0;  // in a directed-route SMP: hop pointer and hop count
  uint64_t tid = 0;
  uint16_t attribute = 0;
  uint32_t attribute_modifier = 0;

  bool IsResponse() const { return (static_cast<uint8_t>(method) & 0x80) != 0; }
  friend bool operator==(const MadHeader&, const MadHeader&) = default;
};
// Writes the header's 24 bytes, nothing else.
void EncodeMadHeader(const MadHeader& header, Mad* mad);
// kInvalidArgument if there are fewer than 24 bytes, or unless base version 1. Any class is
// accepted.
absl::StatusOr<MadHeader> DecodeMadHeader(absl::Span<const uint8_t> mad);

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IB_MAD_H_
