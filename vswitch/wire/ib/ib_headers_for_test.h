// Parses InfiniBand packets and GRHs (ib_headers.h) for tests. The switch itself never does: an HCA
// removes the headers.
#ifndef EOIB_VSWITCH_WIRE_IB_IB_HEADERS_FOR_TEST_H_
#define EOIB_VSWITCH_WIRE_IB_IB_HEADERS_FOR_TEST_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/base/drop_reason.h"
#include "vswitch/wire/ib/ib_headers.h"

namespace eoib {

// The GRH at the start of a receive buffer. It is valid only if the completion has IBV_WC_GRH.
struct GrhInfo {
  Gid sgid;
  Gid dgid;
  uint8_t traffic_class = 0;
  uint32_t flow_label = 0;
  uint8_t hop_limit = 0;
  uint16_t payload_length = 0;

  friend constexpr bool operator==(const GrhInfo&, const GrhInfo&) = default;
};

// kNone, or kNoGrh if there are fewer than 40 bytes or the IP version is not 6. Ignores NxtHdr,
// because RoCE v2 has 17 (UDP) there.
inline DropReason ParseGrh(absl::Span<const uint8_t> bytes, GrhInfo* info) {
  if (bytes.size() < kGrhSize) return DropReason::kNoGrh;
  const auto grh = ReadWire<Grh>(bytes.data());
  const uint32_t word = grh.version_class_flow.value();
  if (word >> 28 != kGrhIpVersion) return DropReason::kNoGrh;
  info->sgid = Gid(grh.sgid);
  info->dgid = Gid(grh.dgid);
  info->traffic_class = static_cast<uint8_t>(word >> 20);
  info->flow_label = word & 0xf'ffff;
  info->hop_limit = grh.hop_limit;
  info->payload_length = grh.payload_length.value();
  return DropReason::kNone;
}

// A parsed packet.
struct UdView {
  UdPacket packet;
  absl::Span<const uint8_t> payload;  // points into the parsed bytes; without pad bytes
};

// The fields of `headers` and `grh`, which is their GRH, without a check.
inline UdPacket FieldsOf(const UdHeaders& headers, const GrhInfo& grh, size_t payload_length) {
  UdPacket packet;
  packet.slid = Lid(headers.lrh.slid.value());
  packet.dlid = headers.lrh.dlid.value();
  packet.sl = Sl(headers.lrh.sl_lnh >> 4);
  packet.vl = headers.lrh.vl_lver >> 4;
  packet.sgid = grh.sgid;
  packet.dgid = grh.dgid;
  packet.traffic_class = grh.traffic_class;
  packet.flow_label = grh.flow_label;
  packet.hop_limit = grh.hop_limit;
  packet.pkey = PKey(headers.bth.pkey.value());
  packet.destination_qpn = Qpn(headers.bth.destination_qpn.value());
  packet.source_qpn = Qpn(headers.deth.source_qpn.value());
  packet.psn = headers.bth.psn.value();
  packet.qkey = QKey(headers.deth.qkey.value());
  packet.solicited = (headers.bth.flags & 0x80) != 0;
  packet.payload_length = payload_length;
  return packet;
}

// Parses a whole packet from LRH to VCRC, as made by MakeUdHeaders and MakeUdTrailer. kNoGrh if its
// LNH says that there is no GRH; kReceiveError if it is not UD SEND Only, a length disagrees, a
// reserved field is set, or a CRC is wrong.
inline DropReason ParseUdPacket(absl::Span<const uint8_t> bytes, UdView* view) {
  if (bytes.size() < sizeof(Lrh)) return DropReason::kReceiveError;
  if ((ReadWire<Lrh>(bytes.data()).sl_lnh & 3) != kLnhIbaGlobal) return DropReason::kNoGrh;
  if (bytes.size() < UdPacketSize(0)) return DropReason::kReceiveError;
  GrhInfo grh;
  if (ParseGrh(bytes.subspan(sizeof(Lrh)), &grh) != DropReason::kNone) return DropReason::kNoGrh;

  const auto headers = ReadWire<UdHeaders>(bytes.data());
  const size_t trailer_size = (headers.bth.flags >> 4 & 3) + kIcrcSize + kVcrcSize;
  if (bytes.size() < kUdHeadersSize + trailer_size) return DropReason::kReceiveError;
  const size_t payload_length = bytes.size() - kUdHeadersSize - trailer_size;
  if (payload_length > 4096) return DropReason::kReceiveError;

  // Rebuilds the packet from the parsed fields and compares. So reserved fields, lengths and CRCs
  // are all checked at once.
  const UdView parsed{FieldsOf(headers, grh, payload_length),
                      bytes.subspan(kUdHeadersSize, payload_length)};
  const UdHeaders expected = MakeUdHeaders(parsed.packet);
  if (std::memcmp(&expected, bytes.data(), kUdHeadersSize) != 0) return DropReason::kReceiveError;
  const UdTrailer trailer = MakeUdTrailer(expected, absl::MakeConstSpan(&parsed.payload, 1));
  if (trailer.span() != bytes.subspan(kUdHeadersSize + payload_length))
    return DropReason::kReceiveError;
  *view = parsed;
  return DropReason::kNone;
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IB_IB_HEADERS_FOR_TEST_H_
