// SegmentRun: recognizes IP packets whose TCP segments, or UDP datagrams, are consecutive parts of
// one stretch of data, and makes the headers of the one packet that stands for them, as a NIC's
// receive offload (GRO, LRO) does. It reads headers only and holds no payload. For one thread.
//
// The joined packet has an unfinished TCP or UDP checksum, so it is right whatever those of the
// segments were. So the caller adds only segments whose checksum it has verified
// (HasRightChecksum), or which somebody has vouched for. It passes on all others as they are.
#ifndef EOIB_VSWITCH_WIRE_IP_SEGMENT_RUN_H_
#define EOIB_VSWITCH_WIRE_IP_SEGMENT_RUN_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/optional.h"
#include "absl/types/span.h"

namespace eoib {

class SegmentRun {
 public:
  // The layout of a packet that can be joined. Offsets count from the IP header.
  struct Segment {
    uint16_t l4 = 0;       // of the TCP or UDP header
    uint16_t payload = 0;  // of its data
    uint16_t end = 0;      // of the IP packet
    bool ipv6 = false;
    bool udp = false;
    bool push = false;

    uint16_t payload_length() const { return static_cast<uint16_t>(end - payload); }
    uint16_t checksum_offset() const { return udp ? 6 : 16; }  // from l4
  };

  // Nothing for a packet that cannot be joined: fragments, IPv4 that may be fragmented, IP options
  // and extension headers, TCP flags but ACK and PSH, no data, a wrong IPv4 header checksum, or
  // lengths that disagree. Bytes behind the packet are padding.
  static absl::optional<Segment> Parse(absl::Span<const uint8_t> packet) noexcept;
  // Verifies the TCP or UDP checksum. False for UDP without one.
  static bool HasRightChecksum(absl::Span<const uint8_t> packet, const Segment& segment) noexcept;

  // Begins a run, in place of the former one. `segment` is Parse(packet).
  void Begin(absl::Span<const uint8_t> packet, const Segment& segment) noexcept;
  // Whether a packet continues the run: equal addresses, ports, acknowledgement, window and
  // options; data without a gap; as long as the first one or, as the last of the run, shorter.
  bool IsContinuedBy(absl::Span<const uint8_t> packet, const Segment& segment) const noexcept;
  // Adds a packet that continues the run.
  void Continue(absl::Span<const uint8_t> packet, const Segment& segment) noexcept;
  // No packet continues the run from now on.
  void Close() noexcept { closed_ = true; }
  void Clear() noexcept { count_ = 0; }

  size_t count() const { return count_; }          // packets
  size_t size() const { return size_; }            // bytes of the joined packet
  const Segment& first() const { return first_; }  // the layout of the first packet
  // The headers of the joined packet. Its TCP or UDP checksum is the pseudo-header sum, to be
  // finished. Requires count() > 1. Valid until the next call.
  absl::Span<const uint8_t> Headers() noexcept;

 private:
  static constexpr size_t kLargestHeaders = 40 + 60;  // IPv6 and TCP with all options

  bool HasSameL4(const uint8_t* l4) const noexcept;

  std::array<uint8_t, kLargestHeaders> headers_;  // of the first packet
  Segment first_;
  size_t size_ = 0;
  size_t count_ = 0;
  uint32_t next_sequence_ = 0;  // of TCP
  bool closed_ = false;         // the last segment was shorter or had PSH, so none may follow
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IP_SEGMENT_RUN_H_
