// Stations and an Ethernet frame for tests.
#ifndef EOIB_VSWITCH_WIRE_FRAME_FOR_TEST_H_
#define EOIB_VSWITCH_WIRE_FRAME_FOR_TEST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "vswitch/base/address.h"

namespace eoib {

using Bytes = std::vector<uint8_t>;

inline const MacAddr kA = MacAddr::FromUint64(0x02'00'00'00'00'0a);
inline const MacAddr kB = MacAddr::FromUint64(0x02'00'00'00'00'0b);
inline const MacAddr kC = MacAddr::FromUint64(0x02'00'00'00'00'0c);
inline const MacAddr kD = MacAddr::FromUint64(0x02'00'00'00'00'0d);

// An Ethernet frame of a local experimental EtherType with `payload` bytes; tagged if vid >= 0.
inline Bytes MakeFrame(MacAddr to, MacAddr from, int vid = -1, size_t payload = 46,
                       uint16_t ethertype = 0x88b6) {
  Bytes frame(12);
  to.ToWire(&frame[0]);
  from.ToWire(&frame[6]);
  if (vid >= 0) {
    for (int byte : {0x81, 0x00, vid >> 8, vid & 0xff}) frame.push_back(static_cast<uint8_t>(byte));
  }
  frame.push_back(static_cast<uint8_t>(ethertype >> 8));
  frame.push_back(static_cast<uint8_t>(ethertype));
  for (size_t i = 0; i < payload; ++i) frame.push_back(static_cast<uint8_t>(i));
  return frame;
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_FRAME_FOR_TEST_H_
