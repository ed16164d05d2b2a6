// Super-frames for tests, and a check of their segments that does not share code with the
// segmentation.
#ifndef EOIB_VSWITCH_WIRE_SUPER_FRAME_FOR_TEST_H_
#define EOIB_VSWITCH_WIRE_SUPER_FRAME_FOR_TEST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "vswitch/base/byte_order.h"
#include "vswitch/wire/checksum.h"
#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/ip/ones_complement_sum.h"

namespace eoib {

struct SuperFrameShape {
  bool ipv6 = false;
  bool udp = false;
  int vid = -1;  // tagged if >= 0
  // Bytes of IPv4 options or of an IPv6 destination options header, a multiple of 8.
  size_t ip_options = 0;
  size_t tcp_options = 0;    // bytes, a multiple of 4
  size_t payload = 0;        // bytes
  uint8_t tcp_flags = 0x10;  // ACK
  uint16_t ipv4_id = 0x1234;
  uint32_t sequence = 0xfffffff0;  // wraps soon
};

// Bytes of all headers.
inline size_t HeaderSizeOf(const SuperFrameShape& shape) {
  return 14 + (shape.vid >= 0 ? 4 : 0) + (shape.ipv6 ? 40 : 20) + shape.ip_options +
         (shape.udp ? 8 : 20 + shape.tcp_options);
}

// A frame from 02::0a to 02::0b with that shape, whose payload counts up, and whose TCP or UDP
// checksum is unfinished.
inline std::vector<uint8_t> MakeSuperFrame(const SuperFrameShape& shape, ChecksumRequest* request) {
  std::vector<uint8_t> frame = {2, 0, 0, 0, 0, 0x0b, 2, 0, 0, 0, 0, 0x0a};
  const auto put16 = [&frame](size_t value) {
    frame.push_back(static_cast<uint8_t>(value >> 8));
    frame.push_back(static_cast<uint8_t>(value));
  };
  if (shape.vid >= 0) put16(0x8100), put16(static_cast<size_t>(shape.vid));
  put16(shape.ipv6 ? 0x86dd : 0x0800);
  const size_t ip = frame.size();
  const uint8_t protocol = shape.udp ? 17 : 6;
  const size_t l4_length = (shape.udp ? 8 : 20 + shape.tcp_options) + shape.payload;
  if (shape.ipv6) {
    put16(0x6000), put16(0), put16(shape.ip_options + l4_length);
    frame.push_back(shape.ip_options != 0 ? 60 : protocol), frame.push_back(64);
    for (int end = 1; end <= 2; ++end) {
      put16(0x2001), put16(0x0db8);
      frame.insert(frame.end(), 11, 0), frame.push_back(static_cast<uint8_t>(end));
    }
    if (shape.ip_options != 0) {
      frame.push_back(protocol), frame.push_back(static_cast<uint8_t>(shape.ip_options / 8 - 1));
      frame.push_back(1), frame.push_back(static_cast<uint8_t>(shape.ip_options - 4));  // PadN
      frame.insert(frame.end(), shape.ip_options - 4, 0);
    }
  } else {
    put16(0x4500 + shape.ip_options / 4 * 0x100), put16(20 + shape.ip_options + l4_length),
        put16(shape.ipv4_id), put16(0x4000);
    frame.push_back(64), frame.push_back(protocol), put16(0);
    for (int end = 1; end <= 2; ++end) put16(0xc000), put16(0x0200 + end);
    frame.insert(frame.end(), shape.ip_options, 1);  // no operation
    WriteIpv4Checksum(absl::MakeSpan(frame).subspan(ip));
  }
  const size_t l4 = frame.size();
  put16(40000), put16(80);
  if (shape.udp) {
    put16(l4_length), put16(0);
  } else {
    put16(shape.sequence >> 16), put16(shape.sequence & 0xffff), put16(0), put16(1);
    frame.push_back(static_cast<uint8_t>((20 + shape.tcp_options) / 4 << 4)),
        frame.push_back(shape.tcp_flags);
    put16(1024), put16(0), put16(0);
    frame.insert(frame.end(), shape.tcp_options, 1);
  }
  for (size_t i = 0; i < shape.payload; ++i) frame.push_back(static_cast<uint8_t>(i % 251));
  *request = {true, static_cast<uint16_t>(l4), static_cast<uint16_t>(shape.udp ? 6 : 16)};
  const auto addresses =
      absl::MakeConstSpan(frame).subspan(ip + (shape.ipv6 ? 8 : 12), shape.ipv6 ? 32 : 8);
  WriteWire(be16(PseudoHeaderSum(addresses, protocol, l4_length)), &frame[l4 + request->offset]);
  return frame;
}

// The frame that a right segmentation makes of the bytes [from, to) of a super-frame's payload, as
// its `i`-th, with the checksum unfinished.
inline std::vector<uint8_t> ExpectedSegment(SuperFrameShape shape, size_t i, size_t from,
                                            size_t to) {
  const size_t whole = shape.payload;
  shape.payload = to;
  if (from != 0) shape.tcp_flags &= 0x7f;
  if (to != whole) shape.tcp_flags &= 0xf6;
  shape.ipv4_id = static_cast<uint16_t>(shape.ipv4_id + i);
  shape.sequence += static_cast<uint32_t>(from);
  // Lengths and sums come from a frame of the right size; the payload from one that starts at the
  // beginning.
  ChecksumRequest request;
  const std::vector<uint8_t> all = MakeSuperFrame(shape, &request);
  shape.payload = to - from;
  std::vector<uint8_t> segment = MakeSuperFrame(shape, &request);
  std::copy(all.end() - static_cast<ptrdiff_t>(to - from), all.end(),
            segment.end() - static_cast<ptrdiff_t>(to - from));
  return segment;
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_SUPER_FRAME_FOR_TEST_H_
