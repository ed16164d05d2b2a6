// RMPP, the reliable multi-packet protocol (IBA 1.4 §13.6): how an answer that is longer than one MAD comes in segments.
//
// Here is only its header, 12 bytes behind the common one. Who receives a table is vswitch/fabric/rmpp_receiver.h, who sends
// one is the software subnet's SA.
#ifndef EOIB_VSWITCH_WIRE_IB_RMPP_H_
#define EOIB_VSWITCH_WIRE_IB_RMPP_H_

#include <cstddef>
#include <cstdint>

#include "vswitch/wire/ib/mad.h"

namespace eoib {

enum class RmppType : uint8_t { kNone = 0, kData = 1, kAck = 2, kStop = 3, kAbort = 4 };

// §13.6.2.1, table 158: status of STOP and ABORT.
enum class RmppStatus : uint8_t {
  kNormal = 0,
  kResourcesExhausted = 1,
  kTotalTimeTooLong = 118,
  kInconsistentLastAndPayload = 119,
  kInconsistentFirstAndSegment = 120,
  kBadType = 121,
  kNewWindowTooSmall = 122,
  kSegmentTooBig = 123,
  kIllegalStatus = 124,
  kUnsupportedVersion = 125,
  kTooManyRetries = 126,
  kUnspecified = 127,
};

struct RmppHeader {
  bool active = false;  // false: RMPP is not in use, and nothing below means anything
  bool first = false;
  bool last = false;
  RmppType type = RmppType::kNone;
  uint8_t version = 1;
  uint8_t response_time = 0x1f;  // 5 bits; 0x1f: none given
  uint8_t status = 0;            // RmppStatus
  uint32_t segment = 0;          // of DATA: its number, from 1. Of ACK: the last that arrived in order. Else 0.
  // Of DATA: in the first segment the payload's length (0 if not known yet), in the last the bytes of that segment; both count
  // the 20 bytes of the SA header in each segment. Of ACK: the last segment that the receiver has room for.
  uint32_t payload_length = 0;

  friend bool operator==(const RmppHeader&, const RmppHeader&) = default;
};

// Of SubnAdm: each segment carries its SA header (SM_Key to component mask, 20 bytes), then 200 bytes of the table.
inline constexpr size_t kRmppSaHeader = 20;
inline constexpr size_t kRmppDataPerSegment = 200;

// Writes and reads bytes 24 to 35 of a MAD: of an inactive header zeros, and whatever stands there beside the flag.
void EncodeRmppHeader(const RmppHeader& header, Mad* mad);
// Never fails: who uses the header decides what to do about a type or version that it does not know.
RmppHeader DecodeRmppHeader(const Mad& mad);

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IB_RMPP_H_
