// The InfiniBand headers of a UD packet: LRH, GRH, BTH and DETH before the payload, pad bytes and
// two CRCs behind it.
//
// A real HCA makes and checks these itself and shows a program only the GRH, in the first 40 bytes
// of a receive. The software HCA and the capture build whole packets, so that any dissector can
// check our output. See wire_format.md.
#ifndef EOIB_VSWITCH_WIRE_IB_IB_HEADERS_H_
#define EOIB_VSWITCH_WIRE_IB_IB_HEADERS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/base/byte_order.h"

namespace eoib {

inline constexpr uint8_t kBthUdSendOnly =
    0x64;                                    // BTH opcode "UD SEND Only" (IBA 1.4 §9.2, table 38)
inline constexpr uint8_t kLnhIbaGlobal = 3;  // LRH link next header: GRH, then BTH (§7.7.5)
inline constexpr uint8_t kLnhIbaLocal = 2;   // LRH link next header: BTH
inline constexpr uint8_t kGrhIpVersion = 6;  // GRH IPVer (§8.3.1)
inline constexpr uint8_t kGrhNextHeaderBth = 0x1b;  // GRH NxtHdr: an IBA transport follows (§8.3.5)

// Local route header (IBA 1.4 §7.7).
struct Lrh {
  uint8_t vl_lver = 0;  // VL 4 bits | link version 4 bits, 0
  uint8_t sl_lnh = 0;   // SL 4 | reserved 2 | LNH 2
  be16 dlid;
  // Reserved 5 | 11 bits: 4-byte words from the LRH's first byte to the ICRC's last; VCRC not
  // counted.
  be16 packet_length;
  be16 slid;
};
static_assert(sizeof(Lrh) == 8);

// Global route header (§8.3): an IPv6 header.
struct Grh {
  be32 version_class_flow;  // IPVer 4 | traffic class 8 | flow label 20
  be16 payload_length;      // bytes from behind the GRH to the ICRC's last; VCRC not counted
  uint8_t next_header = 0;
  uint8_t hop_limit = 0;
  std::array<uint8_t, Gid::kSize> sgid{};
  std::array<uint8_t, Gid::kSize> dgid{};
};
static_assert(sizeof(Grh) == 40);

// Base transport header (§9.2).
struct Bth {
  uint8_t opcode = 0;
  uint8_t flags = 0;  // solicited event 1 | MigReq 1 | PadCnt 2 | transport version 4, 0
  be16 pkey;
  uint8_t reserved8a = 0;  // FECN, BECN and reserved: variant
  be24 destination_qpn;
  uint8_t ack_request = 0;  // AckReq 1 | reserved 7
  be24 psn;
};
static_assert(sizeof(Bth) == 12);

// Datagram extended transport header (§9.3.3).
struct Deth {
  be32 qkey;
  uint8_t reserved = 0;
  be24 source_qpn;
};
static_assert(sizeof(Deth) == 8);

// All four headers, in the order of a packet.
struct UdHeaders {
  Lrh lrh;
  Grh grh;
  Bth bth;
  Deth deth;
};
static_assert(sizeof(UdHeaders) == 68);

inline constexpr size_t kGrhSize = sizeof(Grh);
inline constexpr size_t kUdHeadersSize = sizeof(UdHeaders);
inline constexpr size_t kIcrcSize = 4;
inline constexpr size_t kVcrcSize = 2;
inline constexpr size_t kMaxUdTrailerSize = 3 + kIcrcSize + kVcrcSize;

// The fields of a UD packet's headers.
struct UdPacket {
  Lid slid;
  uint16_t dlid = 0;  // the value of a Lid or of an Mlid
  Sl sl;
  uint8_t vl = 0;
  Gid sgid;
  Gid dgid;
  uint8_t traffic_class = 0;
  uint32_t flow_label = 0;  // 20 bits
  uint8_t hop_limit = 0;
  PKey pkey;
  Qpn destination_qpn;
  Qpn source_qpn;
  uint32_t psn = 0;  // 24 bits
  QKey qkey;
  bool solicited = false;
  size_t payload_length = 0;  // without pad bytes; at most 4096

  friend constexpr bool operator==(const UdPacket&, const UdPacket&) = default;
};

// Bytes that pad a payload to a multiple of four: BTH PadCnt (§9.2.5).
constexpr size_t UdPadCount(size_t payload_length) { return (4 - payload_length % 4) % 4; }
constexpr size_t UdTrailerSize(size_t payload_length) {
  return UdPadCount(payload_length) + kIcrcSize + kVcrcSize;
}
// Size of the whole packet, from LRH to VCRC.
constexpr size_t UdPacketSize(size_t payload_length) {
  return kUdHeadersSize + payload_length + UdTrailerSize(payload_length);
}

// Only the GRH of `packet`, which a receiver finds in the first 40 bytes of its buffer.
Grh MakeGrh(const UdPacket& packet) noexcept;
// All headers of `packet`.
UdHeaders MakeUdHeaders(const UdPacket& packet) noexcept;

// Pad bytes (zero), ICRC and VCRC.
struct UdTrailer {
  std::array<uint8_t, kMaxUdTrailerSize> bytes{};
  size_t size = 0;

  absl::Span<const uint8_t> span() const { return absl::MakeConstSpan(bytes.data(), size); }
};
// The trailer of the packet that consists of `headers` (without the GRH if LNH is kLnhIbaLocal) and
// the concatenation of `payload`, whose total length must be the one that the headers were made
// for.
UdTrailer MakeUdTrailer(const UdHeaders& headers,
                        absl::Span<const absl::Span<const uint8_t>> payload) noexcept;

// Invariant CRC (IBA 1.4 §7.8.1): CRC-32 from the LRH to the end of the pad bytes, with the fields
// that may change on the way replaced by ones. With a GRH these are the whole LRH (a router
// replaces it), the GRH's traffic class, flow label and hop limit, and the BTH's reserved byte;
// without one, the VL and the BTH's reserved byte. Start with IcrcOfHeaders, continue with
// UpdateIcrc for each piece of the payload, end with FinishIcrc.
inline constexpr uint32_t kIcrcSeed = 0xffff'ffff;
uint32_t IcrcOfHeaders(const UdHeaders& headers) noexcept;
uint32_t UpdateIcrc(uint32_t crc, absl::Span<const uint8_t> bytes) noexcept;
// The four bytes in transmission order.
std::array<uint8_t, kIcrcSize> FinishIcrc(uint32_t crc) noexcept;

// Variant CRC (§7.8.2): CRC-16, polynomial 0x100b, from the LRH to the end of the ICRC. Starts with
// kVcrcSeed.
inline constexpr uint16_t kVcrcSeed = 0xffff;
uint16_t UpdateVcrc(uint16_t crc, absl::Span<const uint8_t> bytes) noexcept;
// The two bytes in transmission order.
std::array<uint8_t, kVcrcSize> FinishVcrc(uint16_t crc) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IB_IB_HEADERS_H_
