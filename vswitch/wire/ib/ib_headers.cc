#include "vswitch/wire/ib/ib_headers.h"

#include <cstring>

namespace eoib {
namespace {

constexpr int kVlShift = 4;
constexpr int kSlShift = 4;
constexpr int kVersionShift = 28;
constexpr int kTrafficClassShift = 20;
constexpr uint32_t kFlowLabelMask = 0xf'ffff;
constexpr uint8_t kSolicited = 0x80;
constexpr int kPadCountShift = 4;
constexpr uint8_t kPadCountMask = 3;
constexpr size_t kTransportHeadersSize = sizeof(Bth) + sizeof(Deth);

// Both CRCs take the least significant bit of a byte first, so the polynomials are bit-reversed
// here.
constexpr uint32_t kIcrcPolynomial = 0xedb8'8320;  // 0x04c11db7 (§7.8.1)
constexpr uint16_t kVcrcPolynomial = 0xd008;       // 0x100b (§7.8.2)

// The i-th table has the CRC of a byte followed by `i` zero bytes, so eight bytes are processed at
// once. Byte by byte, the CRCs would be most of the cost of a capture.
constexpr size_t kCrcStride = 8;
template <typename Crc>
using CrcTables = std::array<std::array<Crc, 256>, kCrcStride>;

template <typename Crc>
constexpr CrcTables<Crc> MakeCrcTables(Crc polynomial) {
  CrcTables<Crc> tables{};
  for (size_t byte = 0; byte < 256; ++byte) {
    Crc crc = static_cast<Crc>(byte);
    for (int bit = 0; bit < 8; ++bit)
      crc = static_cast<Crc>(crc >> 1 ^ ((crc & 1) != 0 ? polynomial : 0));
    tables[0][byte] = crc;
  }
  for (size_t i = 1; i < kCrcStride; ++i) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const Crc crc = tables[i - 1][byte];
      tables[i][byte] = static_cast<Crc>(crc >> 8 ^ tables[0][crc & 0xff]);
    }
  }
  return tables;
}
constexpr auto kIcrcTables = MakeCrcTables(kIcrcPolynomial);
constexpr auto kVcrcTables = MakeCrcTables(kVcrcPolynomial);

// Written so that compilers make one load of it.
uint64_t ReadLittleEndian(const uint8_t* bytes) {
  return uint64_t{bytes[0]} | uint64_t{bytes[1]} << 8 | uint64_t{bytes[2]} << 16 |
         uint64_t{bytes[3]} << 24 | uint64_t{bytes[4]} << 32 | uint64_t{bytes[5]} << 40 |
         uint64_t{bytes[6]} << 48 | uint64_t{bytes[7]} << 56;
}

template <typename Crc>
Crc UpdateCrc(const CrcTables<Crc>& tables, Crc crc, absl::Span<const uint8_t> bytes) {
  size_t at = 0;
  for (; at + kCrcStride <= bytes.size(); at += kCrcStride) {
    const uint64_t word = ReadLittleEndian(&bytes[at]) ^ crc;
    crc = 0;
    for (size_t i = 0; i < kCrcStride; ++i) crc ^= tables[kCrcStride - 1 - i][word >> 8 * i & 0xff];
  }
  for (; at < bytes.size(); ++at)
    crc = static_cast<Crc>(crc >> 8 ^ tables[0][(crc ^ bytes[at]) & 0xff]);
  return crc;
}

template <typename Wire>
absl::Span<const uint8_t> Bytes(const Wire& wire) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(&wire), sizeof(wire));
}

bool IsLocal(const UdHeaders& headers) { return (headers.lrh.sl_lnh & 3) == kLnhIbaLocal; }

template <typename Crc>
Crc UpdateByHeaders(Crc (*update)(Crc, absl::Span<const uint8_t>), Crc crc,
                    const UdHeaders& headers) {
  crc = update(crc, Bytes(headers.lrh));
  if (!IsLocal(headers)) crc = update(crc, Bytes(headers.grh));
  return update(update(crc, Bytes(headers.bth)), Bytes(headers.deth));
}

// Bytes after the GRH, up to and including the ICRC.
size_t GrhPayloadLength(size_t payload_length) {
  return kTransportHeadersSize + payload_length + UdPadCount(payload_length) + kIcrcSize;
}

}  // namespace

Grh MakeGrh(const UdPacket& packet) noexcept {
  Grh grh;
  grh.version_class_flow = uint32_t{kGrhIpVersion} << kVersionShift |
                           uint32_t{packet.traffic_class} << kTrafficClassShift |
                           (packet.flow_label & kFlowLabelMask);
  grh.payload_length = static_cast<uint16_t>(GrhPayloadLength(packet.payload_length));
  grh.next_header = kGrhNextHeaderBth;
  grh.hop_limit = packet.hop_limit;
  grh.sgid = packet.sgid.bytes();
  grh.dgid = packet.dgid.bytes();
  return grh;
}

UdHeaders MakeUdHeaders(const UdPacket& packet) noexcept {
  UdHeaders headers;
  headers.lrh.vl_lver = static_cast<uint8_t>(packet.vl << kVlShift);
  headers.lrh.sl_lnh = static_cast<uint8_t>(packet.sl.value() << kSlShift | kLnhIbaGlobal);
  headers.lrh.dlid = packet.dlid;
  headers.lrh.packet_length =
      static_cast<uint16_t>((UdPacketSize(packet.payload_length) - kVcrcSize) / 4);
  headers.lrh.slid = packet.slid.value();
  headers.grh = MakeGrh(packet);
  headers.bth.opcode = kBthUdSendOnly;
  headers.bth.flags = static_cast<uint8_t>((packet.solicited ? kSolicited : 0) |
                                           UdPadCount(packet.payload_length) << kPadCountShift);
  headers.bth.pkey = packet.pkey.value();
  headers.bth.destination_qpn = packet.destination_qpn.value();
  headers.bth.psn = packet.psn;
  headers.deth.qkey = packet.qkey.value();
  headers.deth.source_qpn = packet.source_qpn.value();
  return headers;
}

UdTrailer MakeUdTrailer(const UdHeaders& headers,
                        absl::Span<const absl::Span<const uint8_t>> payload) noexcept {
  uint32_t icrc = IcrcOfHeaders(headers);
  uint16_t vcrc = UpdateByHeaders(UpdateVcrc, kVcrcSeed, headers);
  for (absl::Span<const uint8_t> piece : payload) {
    icrc = UpdateIcrc(icrc, piece);
    vcrc = UpdateVcrc(vcrc, piece);
  }
  UdTrailer trailer;
  const size_t pad = headers.bth.flags >> kPadCountShift & kPadCountMask;
  icrc = UpdateIcrc(icrc, absl::MakeConstSpan(trailer.bytes.data(), pad));
  const auto icrc_bytes = FinishIcrc(icrc);
  std::memcpy(&trailer.bytes[pad], icrc_bytes.data(), kIcrcSize);
  const auto vcrc_bytes =
      FinishVcrc(UpdateVcrc(vcrc, absl::MakeConstSpan(trailer.bytes.data(), pad + kIcrcSize)));
  std::memcpy(&trailer.bytes[pad + kIcrcSize], vcrc_bytes.data(), kVcrcSize);
  trailer.size = pad + kIcrcSize + kVcrcSize;
  return trailer;
}

uint32_t IcrcOfHeaders(const UdHeaders& headers) noexcept {
  UdHeaders masked = headers;
  masked.lrh.vl_lver |= 0xf0;
  if (!IsLocal(headers)) masked.lrh = {0xff, 0xff, be16(0xffff), be16(0xffff), be16(0xffff)};
  masked.grh.version_class_flow = headers.grh.version_class_flow.value() | 0x0fff'ffff;
  masked.grh.hop_limit = 0xff;
  masked.bth.reserved8a = 0xff;
  return UpdateByHeaders(UpdateIcrc, kIcrcSeed, masked);
}

uint32_t UpdateIcrc(uint32_t crc, absl::Span<const uint8_t> bytes) noexcept {
  return UpdateCrc(kIcrcTables, crc, bytes);
}

std::array<uint8_t, kIcrcSize> FinishIcrc(uint32_t crc) noexcept {
  std::array<uint8_t, kIcrcSize> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(~crc >> (8 * i));
  return bytes;
}

uint16_t UpdateVcrc(uint16_t crc, absl::Span<const uint8_t> bytes) noexcept {
  return UpdateCrc(kVcrcTables, crc, bytes);
}

std::array<uint8_t, kVcrcSize> FinishVcrc(uint16_t crc) noexcept {
  return {static_cast<uint8_t>(~crc), static_cast<uint8_t>(~crc >> 8)};
}

}  // namespace eoib
