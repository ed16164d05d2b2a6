#include "vswitch/wire/ib/rmpp.h"

#include "vswitch/base/byte_order.h"

namespace eoib {
namespace {

constexpr uint8_t kActive = 0x01;
constexpr uint8_t kFirst = 0x02;
constexpr uint8_t kLast = 0x04;
constexpr int kResponseTimeShift = 3;

// IBA 1.4 §13.6.2.1, behind the common header.
struct RmppHeaderWire {
  uint8_t version = 0;
  uint8_t type = 0;
  uint8_t response_time_flags = 0;  // response time 5 | last, first, active
  uint8_t status = 0;
  be32 segment;         // "data 1"
  be32 payload_length;  // "data 2"
};
static_assert(sizeof(RmppHeaderWire) == 12);
constexpr size_t kRmppHeaderOffset = 24;

uint8_t PackFlags(const RmppHeader& header) {
  return static_cast<uint8_t>(header.response_time << kResponseTimeShift | (header.active ? kActive : 0) |
                              (header.first ? kFirst : 0) | (header.last ? kLast : 0));
}

}  // namespace

void EncodeRmppHeader(const RmppHeader& header, Mad* mad) {
  RmppHeaderWire wire;
  if (header.active) {
    wire.version = header.version;
    wire.type = static_cast<uint8_t>(header.type);
    wire.response_time_flags = PackFlags(header);
    wire.status = header.status;
    wire.segment = header.segment;
    wire.payload_length = header.payload_length;
  }
  WriteWire(wire, mad->data() + kRmppHeaderOffset);
}

RmppHeader DecodeRmppHeader(const Mad& mad) {
  const auto wire = ReadWire<RmppHeaderWire>(mad.data() + kRmppHeaderOffset);
  RmppHeader header;
  header.active = (wire.response_time_flags & kActive) != 0;
  if (!header.active) return header;
  header.first = (wire.response_time_flags & kFirst) != 0;
  header.last = (wire.response_time_flags & kLast) != 0;
  header.type = static_cast<RmppType>(wire.type);
  header.version = wire.version;
  header.response_time = wire.response_time_flags >> kResponseTimeShift;
  header.status = wire.status;
  header.segment = wire.segment.value();
  header.payload_length = wire.payload_length.value();
  return header;
}

}  // namespace eoib
