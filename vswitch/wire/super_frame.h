// Super-frames: TCP and UDP frames that stand for a row of segments with equal headers. A kernel
// hands them over in place of the segments (GSO), and takes them (GRO). wire_format.md, "Segments",
// has the rules.
#ifndef EOIB_VSWITCH_WIRE_SUPER_FRAME_H_
#define EOIB_VSWITCH_WIRE_SUPER_FRAME_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/wire/checksum.h"

namespace eoib {

inline constexpr size_t kLargestSuperFrame = 65535;  // from the destination MAC on, with its tag

// kTcpEcn: the first segment only has CWR.
enum class GsoType : uint8_t { kNone = 0, kTcp = 1, kUdp = 2, kTcpEcn = 9 };

// How a super-frame is cut: `size` bytes of payload for each segment, less in the last one.
struct Gso {
  GsoType type = GsoType::kNone;
  uint16_t size = 0;

  bool is_tcp() const { return type == GsoType::kTcp || type == GsoType::kTcpEcn; }
  friend constexpr bool operator==(const Gso&, const Gso&) = default;
};

// The headers of a super-frame, or of a large TCP or UDP frame.
struct SuperFrameHeaders {
  L4Location l4;
  uint16_t payload = 0;         // offset of the payload
  uint32_t payload_length = 0;  // to the end of the frame
};

// Reads the headers of a frame of `size` bytes, of which `head` has the first ones. Nothing if
// there is no unfragmented TCP or UDP header by FindL4, if the headers do not end in `head`, or if
// the frame does not end with its IP packet.
absl::optional<SuperFrameHeaders> ParseSuperFrame(absl::Span<const uint8_t> head,
                                                  size_t size) noexcept;

// Bytes of the TCP or UDP header at `l4`, as the frame says.
size_t L4HeaderSize(absl::Span<const uint8_t> head, const L4Location& l4) noexcept;

// True if a frame with these headers is a super-frame as `gso` says: of that protocol, with more
// than one segment, and with no more segments than a kernel takes (for UDP) or than are plausible
// (for TCP).
bool IsSuperFrame(const SuperFrameHeaders& headers, const Gso& gso) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_SUPER_FRAME_H_
