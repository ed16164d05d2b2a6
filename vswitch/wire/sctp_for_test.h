// SCTP frames for tests, with a CRC32c that does not come from the code under test.
#ifndef EOIB_VSWITCH_WIRE_SCTP_FOR_TEST_H_
#define EOIB_VSWITCH_WIRE_SCTP_FOR_TEST_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "vswitch/wire/checksum.h"
#include "vswitch/wire/super_frame_for_test.h"

namespace eoib {

// RFC 9260 Appendix A literally: bit by bit.
inline uint32_t SlowCrc32c(absl::Span<const uint8_t> bytes) {
  uint32_t crc = 0xffffffff;
  for (const uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
  }
  return ~crc;
}

// The frame of `shape` with SCTP in place of UDP: `payload` bytes behind the common header, and the
// right CRC32c.
inline std::vector<uint8_t> MakeSctpFrame(SuperFrameShape shape, ChecksumRequest* request) {
  shape.udp = true;
  shape.payload += 4;  // SCTP's header has 12 bytes
  std::vector<uint8_t> frame = MakeSuperFrame(shape, request);
  request->offset = 8;
  const size_t ip = shape.vid >= 0 ? 18 : 14;
  const size_t protocol_at = shape.ipv6 ? (shape.ip_options != 0 ? ip + 40 : ip + 6) : ip + 9;
  frame[protocol_at] = 132;
  if (!shape.ipv6) {
    frame[ip + 10] = frame[ip + 11] = 0;
    WriteIpv4Checksum(absl::MakeSpan(frame).subspan(ip, 20 + shape.ip_options));
  }
  uint8_t* const field = &frame[request->start + 8u];
  for (int i = 0; i < 4; ++i) field[i] = 0;
  const uint32_t crc = SlowCrc32c(absl::MakeConstSpan(frame).subspan(request->start));
  for (int i = 0; i < 4; ++i) field[i] = static_cast<uint8_t>(crc >> (8 * i));
  return frame;
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_SCTP_FOR_TEST_H_
