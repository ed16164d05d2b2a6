// VnetHeader: struct virtio_net_hdr in host order, as a TAP or TUN expects it in front of each
// frame (virtio 1.1 §5.1.6). linux/virtio_net.h does not compile as C++.
#ifndef EOIB_VSWITCH_PORT_VNET_HEADER_H_
#define EOIB_VSWITCH_PORT_VNET_HEADER_H_

#include <cstdint>

#include "absl/types/optional.h"
#include "vswitch/wire/checksum.h"
#include "vswitch/wire/super_frame.h"

namespace eoib {

struct VnetHeader {
  static constexpr uint8_t kNeedsChecksum = 1;
  static constexpr uint8_t kDataValid = 2;
  static constexpr uint8_t kGsoNone = 0;
  static constexpr uint8_t kGsoTcpv4 = 1;
  static constexpr uint8_t kGsoTcpv6 = 4;
  static constexpr uint8_t kGsoUdp = 5;     // VIRTIO_NET_HDR_GSO_UDP_L4
  static constexpr uint8_t kGsoEcn = 0x80;  // with one of TCP

  uint8_t flags = 0;
  uint8_t gso_type = kGsoNone;
  uint16_t header_length = 0;
  uint16_t gso_size = 0;
  uint16_t checksum_start = 0;
  uint16_t checksum_offset = 0;

  // Asks for a checksum, if `checksum` does.
  void Request(const ChecksumRequest& checksum) {
    if (!checksum.needed) return;
    flags = kNeedsChecksum;
    checksum_start = checksum.start;
    checksum_offset = checksum.offset;
  }
  // Describes a super-frame whose headers have `headers` bytes.
  void Describe(const Gso& gso, bool ipv6, size_t headers) {
    gso_type = gso.is_tcp() ? (ipv6 ? kGsoTcpv6 : kGsoTcpv4) : kGsoUdp;
    if (gso.type == GsoType::kTcpEcn) gso_type |= kGsoEcn;
    gso_size = gso.size;
    header_length = static_cast<uint16_t>(headers);
  }
  ChecksumRequest checksum() const {
    if ((flags & kNeedsChecksum) == 0) return {};
    return {true, checksum_start, checksum_offset};
  }
  // True if the device has verified the checksums of TCP and UDP (VIRTIO_NET_HDR_F_DATA_VALID). A
  // driver must not set it.
  bool has_verified() const { return (flags & kDataValid) != 0; }
  // Reads the request for a frame whose first buffer has `length` bytes. False if it points behind
  // them.
  bool ReadChecksum(uint32_t length, ChecksumRequest* request) const {
    *request = checksum();
    return !request->needed || uint32_t{checksum_start} + checksum_offset + 2 <= length;
  }
  // Nothing for a kind that no interface of ours asks for.
  absl::optional<Gso> gso() const {
    switch (gso_type) {
      case kGsoNone:
        return Gso();
      case kGsoTcpv4:
      case kGsoTcpv6:
        return Gso{GsoType::kTcp, gso_size};
      case kGsoTcpv4 | kGsoEcn:
      case kGsoTcpv6 | kGsoEcn:
        return Gso{GsoType::kTcpEcn, gso_size};
      case kGsoUdp:
        return Gso{GsoType::kUdp, gso_size};
      default:
        return absl::nullopt;
    }
  }
};
inline constexpr size_t kVnetHeaderSize = 10;
static_assert(sizeof(VnetHeader) == kVnetHeaderSize);

// For TUNSETOFFLOAD, since Linux 6.2; the headers of Debian 12 do not have them.
inline constexpr unsigned kOffloadUso = 0x20 | 0x40;  // TUN_F_USO4, TUN_F_USO6

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_VNET_HEADER_H_
