// Coalescer: joins the TCP segments, or the UDP datagrams, of one flow and one batch into one large
// frame for the interface, as a NIC's receive offload (GRO, LRO) does. The kernel's receive path,
// and the write to it, cost about the same for 1,500 bytes as for 64 KiB. README.md ("Joined
// segments") says what it joins. For the worker that owns the port.
#ifndef EOIB_VSWITCH_PORT_COALESCER_H_
#define EOIB_VSWITCH_PORT_COALESCER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/wire/checksum.h"
#include "vswitch/wire/ip/segment_run.h"

namespace eoib {

class Coalescer {
 public:
  // The joined frame. Its bytes belong to the coalescer and stay valid until the next Add.
  struct Joined {
    absl::Span<const uint8_t> frame;
    ChecksumRequest checksum;
    uint16_t header_length = 0;   // Ethernet to TCP options, or to UDP
    uint16_t segment_length = 0;  // payload of each segment but the last
    bool ipv6 = false;
    bool udp = false;
    size_t segments = 0;  // 1: the frame is unchanged
  };

  Coalescer();

  // By default only TCP is joined.
  void set_joins_udp(bool joins) { joins_udp_ = joins; }
  bool joins_udp() const { return joins_udp_; }

  // Copies `frame` (untagged, with or without padding) if it begins a run or continues the current
  // one. Otherwise returns false: the caller then takes the pending run, and offers the frame again
  // or transmits it by itself.
  bool Add(absl::Span<const uint8_t> frame, const ChecksumRequest& checksum) noexcept;
  bool pending() const { return run_.count() != 0; }
  // Completes the headers of the run, ends the run and returns it. Requires pending().
  Joined Take() noexcept;

 private:
  absl::optional<SegmentRun::Segment> Parse(absl::Span<const uint8_t> frame,
                                            const ChecksumRequest& checksum) const noexcept;

  const std::unique_ptr<uint8_t[]> staging_;
  size_t length_ = 0;
  SegmentRun run_;
  bool joins_udp_ = false;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_COALESCER_H_
