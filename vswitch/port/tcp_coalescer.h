// TcpCoalescer: joins TCP segments that arrived in one batch into one large frame for the interface, as a NIC's receive offload
// does.
//
// A kernel's receive path costs the same for a segment of 1,500 bytes as for one of 64 KiB, and so does the write that hands it
// over. Joined are segments that a sender's stack cut from one stretch of a stream: same addresses, ports, acknowledgement,
// window and options, data without a gap, only ACK and PSH set, all of one length but the last, IPv4 with "don't fragment" and
// without options or IPv6 without extension headers, a checksum that the interface is to finish anyway, no tag. The result has
// the segments' length in it (gso_size), so that whoever forwards it cuts it the same way again; nothing is delayed beyond the
// batch, and no order is changed.
//
// The worker that owns the port.
#ifndef EOIB_VSWITCH_PORT_TCP_COALESCER_H_
#define EOIB_VSWITCH_PORT_TCP_COALESCER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "vswitch/wire/checksum.h"

namespace eoib {

class TcpCoalescer {
 public:
  // What was joined. `data` is the coalescer's and stays as it is until the next Add.
  struct Joined {
    absl::Span<const uint8_t> frame;
    ChecksumRequest checksum;
    uint16_t header_length = 0;   // Ethernet to TCP options
    uint16_t segment_length = 0;  // TCP payload of each segment but the last
    bool ipv6 = false;
    size_t segments = 0;  // 1: the frame as it came
  };

  TcpCoalescer();

  // Takes in a copy of `frame` (untagged, without padding or with), if it begins a run or continues the one under way. False:
  // it does neither; the caller takes what is pending, then offers the frame again or hands it over by itself.
  bool Add(absl::Span<const uint8_t> frame, const ChecksumRequest& checksum) noexcept;
  bool pending() const { return segments_ != 0; }
  // Finishes the headers of the run and gives it up. Requires pending().
  Joined Take() noexcept;

 private:
  // Where things are in a frame that can be joined.
  struct Layout {
    size_t tcp = 0;      // offset of the TCP header
    size_t payload = 0;  // offset of its data
    size_t end = 0;      // of the IP packet: what is behind is padding
    bool ipv6 = false;
    bool push = false;

    size_t payload_length() const { return end - payload; }
  };

  static bool Parse(absl::Span<const uint8_t> frame, const ChecksumRequest& checksum, Layout* layout) noexcept;
  void Begin(absl::Span<const uint8_t> frame, const Layout& layout) noexcept;
  bool Continues(absl::Span<const uint8_t> frame, const Layout& layout) const noexcept;
  void Append(absl::Span<const uint8_t> frame, const Layout& layout) noexcept;

  const std::unique_ptr<uint8_t[]> staging_;
  Layout first_;
  size_t length_ = 0;
  size_t segments_ = 0;
  uint32_t next_sequence_ = 0;
  bool closed_ = false;  // the last segment was shorter, or pushed: nothing follows it
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_TCP_COALESCER_H_
