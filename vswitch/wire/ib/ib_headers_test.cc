#include "vswitch/wire/ib/ib_headers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>

#include "vswitch/base/hex_for_test.h"
#include "vswitch/wire/ib/ib_headers_for_test.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

UdPacket ExamplePacket(size_t payload_length) {
  UdPacket packet;
  packet.slid = Lid(0x0102);
  packet.dlid = 0xc003;
  packet.sl = Sl(5);
  packet.vl = 3;
  packet.sgid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x0002'c903'000e'0b72));
  packet.dgid = Gid::FromWire(FromHex("ff12e01b8001ffffffffffff00000000").data());
  packet.traffic_class = 0x11;
  packet.flow_label = 0x23456;
  packet.hop_limit = 0x3f;
  packet.pkey = PKey(0x8001);
  packet.destination_qpn = Qpn(0xffffff);
  packet.source_qpn = Qpn(0x000048);
  packet.psn = 0x00abcd;
  packet.qkey = QKey(0x8000'8001);
  packet.payload_length = payload_length;
  return packet;
}

Bytes Payload(size_t length) {
  Bytes payload(length);
  for (size_t i = 0; i < length; ++i) payload[i] = static_cast<uint8_t>(i * 7 + 1);
  return payload;
}

Bytes BuildPacket(const UdPacket& packet, const Bytes& payload) {
  const UdHeaders headers = MakeUdHeaders(packet);
  const absl::Span<const uint8_t> piece(payload);
  const UdTrailer trailer = MakeUdTrailer(headers, absl::MakeConstSpan(&piece, 1));
  Bytes bytes(kUdHeadersSize + payload.size() + trailer.size);
  WriteWire(headers, bytes.data());
  std::copy(payload.begin(), payload.end(), bytes.begin() + kUdHeadersSize);
  std::copy_n(trailer.bytes.begin(), trailer.size, bytes.end() - static_cast<long>(trailer.size));
  return bytes;
}

TEST(UdHeadersTest, GoldenBytes) {
  const UdHeaders headers = MakeUdHeaders(ExamplePacket(66));  // 66 bytes: two pad bytes
  Bytes bytes(kUdHeadersSize);
  std::memcpy(bytes.data(), &headers, kUdHeadersSize);
  EXPECT_EQ(
      ToHex(bytes),
      ToHex(FromHex(
          "30 53 c003 0023 0102 |"
          "61123456 005c 1b 3f fe800000000000000002c903000e0b72 ff12e01b8001ffffffffffff00000000 |"
          "64 20 8001 00 ffffff 00 00abcd | 80008001 00 000048")));
}

TEST(UdHeadersTest, LengthsAndPadCount) {
  const struct {
    size_t payload;
    size_t pad;
    uint16_t words;        // LRH to ICRC
    uint16_t grh_payload;  // BTH to ICRC
  } kRows[] = {{0, 0, 18, 24}, {1, 3, 19, 28},        {2, 2, 19, 28},       {3, 1, 19, 28},
               {4, 0, 19, 28}, {4095, 1, 1042, 4120}, {4096, 0, 1042, 4120}};
  for (const auto& row : kRows) {
    const UdHeaders headers = MakeUdHeaders(ExamplePacket(row.payload));
    EXPECT_EQ(UdPadCount(row.payload), row.pad) << row.payload;
    EXPECT_EQ(headers.bth.flags, row.pad << 4) << row.payload;
    EXPECT_EQ(headers.lrh.packet_length.value(), row.words) << row.payload;
    EXPECT_EQ(headers.grh.payload_length.value(), row.grh_payload) << row.payload;
    EXPECT_EQ(UdPacketSize(row.payload), row.words * 4 + kVcrcSize) << row.payload;
    EXPECT_EQ(BuildPacket(ExamplePacket(row.payload), Payload(row.payload)).size(),
              UdPacketSize(row.payload))
        << row.payload;
  }
}

// The sample packet of the specification's chapter on CRCs: a local packet, LRH to payload, with
// ones for its VL and Resv8a.
constexpr char kMaskedSample[] =
    "f012375c000e17d2 0a202487ff87b1b3000dec2a 01710a1c015d400238f27a05000000 0e "
    "bb884d85fd5cfba4728bc0690ed40000";

TEST(CrcTest, IcrcOfTheSpecificationsSample) {
  const Bytes masked = FromHex(kMaskedSample);
  ASSERT_EQ(masked.size(), 52u);
  EXPECT_EQ(ToHex(FinishIcrc(UpdateIcrc(kIcrcSeed, masked))), "9625b75a");
}

// The code takes several bytes at once. Wherever a piece begins and ends, the CRC must be that of
// the single bytes.
TEST(CrcTest, PiecesMakeTheWhole) {
  const Bytes bytes = Payload(100);
  uint32_t icrc = kIcrcSeed;
  uint16_t vcrc = kVcrcSeed;
  for (size_t length = 0; length <= bytes.size(); ++length) {
    for (size_t from = 0; from <= std::min<size_t>(length, 9); ++from) {
      const auto first = absl::MakeConstSpan(bytes).first(from),
                 rest = absl::MakeConstSpan(bytes).subspan(from, length - from);
      EXPECT_EQ(UpdateIcrc(UpdateIcrc(kIcrcSeed, first), rest), icrc)
          << length << " bytes, cut at " << from;
      EXPECT_EQ(UpdateVcrc(UpdateVcrc(kVcrcSeed, first), rest), vcrc)
          << length << " bytes, cut at " << from;
    }
    if (length == bytes.size()) break;
    icrc = UpdateIcrc(icrc, absl::MakeConstSpan(&bytes[length], 1));
    vcrc = UpdateVcrc(vcrc, absl::MakeConstSpan(&bytes[length], 1));
  }
}

// §7.8.2 literally: a shift register with the printed polynomial, fed with the least significant
// bit of each byte first; its bits are sent from the highest term on.
std::array<uint8_t, kVcrcSize> VcrcByShiftRegister(const Bytes& bytes) {
  uint16_t shift = 0xffff;
  for (uint8_t byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool feedback = (shift >> 15 != 0) != ((byte >> bit & 1) != 0);
      shift = static_cast<uint16_t>(shift << 1 ^ (feedback ? 0x100b : 0));
    }
  }
  std::array<uint8_t, kVcrcSize> sent{};
  for (int bit = 0; bit < 16; ++bit) {
    if ((~shift >> (15 - bit) & 1) != 0) sent[bit / 8] |= static_cast<uint8_t>(1 << bit % 8);
  }
  return sent;
}

TEST(CrcTest, VcrcAgreesWithAShiftRegister) {
  for (const Bytes& bytes :
       {Bytes(), Bytes{0}, Bytes{0x80}, FromHex(kMaskedSample), Payload(4096)}) {
    EXPECT_EQ(ToHex(FinishVcrc(UpdateVcrc(kVcrcSeed, bytes))), ToHex(VcrcByShiftRegister(bytes)))
        << bytes.size() << " bytes";
  }
}

// Fields outside the ICRC may change on the way; all others must not.
TEST(CrcTest, IcrcCoversTheInvariantFieldsOnly) {
  const UdHeaders original = MakeUdHeaders(ExamplePacket(66));
  const struct {
    const char* description;
    std::function<void(UdHeaders*)> change;
    bool covered;
  } kRows[] = {
      {"LRH VL", [](UdHeaders* h) { h->lrh.vl_lver ^= 0x10; }, false},
      {"LRH SL, which a router chooses", [](UdHeaders* h) { h->lrh.sl_lnh ^= 0x10; }, false},
      {"LRH DLID, which a router writes", [](UdHeaders* h) { h->lrh.dlid = 1; }, false},
      {"LRH SLID, which a router writes", [](UdHeaders* h) { h->lrh.slid = 1; }, false},
      {"GRH traffic class",
       [](UdHeaders* h) {
         h->grh.version_class_flow = h->grh.version_class_flow.value() ^ 0x0ff0'0000;
       },
       false},
      {"GRH flow label",
       [](UdHeaders* h) {
         h->grh.version_class_flow = h->grh.version_class_flow.value() ^ 0x000f'ffff;
       },
       false},
      {"GRH hop limit", [](UdHeaders* h) { h->grh.hop_limit = 1; }, false},
      {"BTH Resv8a", [](UdHeaders* h) { h->bth.reserved8a = 0xc0; }, false},
      {"GRH version",
       [](UdHeaders* h) {
         h->grh.version_class_flow = h->grh.version_class_flow.value() ^ 0x1000'0000;
       },
       true},
      {"GRH payload length", [](UdHeaders* h) { h->grh.payload_length = 4; }, true},
      {"GRH next header", [](UdHeaders* h) { h->grh.next_header = 17; }, true},
      {"GRH SGID", [](UdHeaders* h) { h->grh.sgid[15] ^= 1; }, true},
      {"GRH DGID", [](UdHeaders* h) { h->grh.dgid[0] ^= 1; }, true},
      {"BTH opcode", [](UdHeaders* h) { h->bth.opcode ^= 1; }, true},
      {"BTH flags", [](UdHeaders* h) { h->bth.flags ^= 0x80; }, true},
      {"BTH P_Key", [](UdHeaders* h) { h->bth.pkey = 1; }, true},
      {"BTH destination QPN", [](UdHeaders* h) { h->bth.destination_qpn = 2; }, true},
      {"BTH PSN", [](UdHeaders* h) { h->bth.psn = 0; }, true},
      {"DETH Q_Key", [](UdHeaders* h) { h->deth.qkey = 0; }, true},
      {"DETH source QPN", [](UdHeaders* h) { h->deth.source_qpn = 0x49; }, true},
  };
  for (const auto& row : kRows) {
    UdHeaders changed = original;
    row.change(&changed);
    ASSERT_NE(std::memcmp(&changed, &original, sizeof(changed)), 0) << row.description;
    EXPECT_EQ(IcrcOfHeaders(changed) != IcrcOfHeaders(original), row.covered) << row.description;
  }
}

TEST(UdTrailerTest, AGatherListMakesTheSameTrailerAsOnePiece) {
  const Bytes payload = Payload(71);
  const UdHeaders headers = MakeUdHeaders(ExamplePacket(payload.size()));
  const absl::Span<const uint8_t> whole(payload);
  const absl::Span<const uint8_t> pieces[] = {whole.first(4), whole.subspan(4, 0),
                                              whole.subspan(4)};
  const UdTrailer one = MakeUdTrailer(headers, absl::MakeConstSpan(&whole, 1));
  const UdTrailer three = MakeUdTrailer(headers, pieces);
  EXPECT_EQ(ToHex(one.span()), ToHex(three.span()));
  EXPECT_EQ(one.size, 1 + kIcrcSize + kVcrcSize);
  EXPECT_EQ(one.bytes[0], 0) << "the pad byte";
}

TEST(ParseUdPacketTest, GivesBackWhatWasMade) {
  for (size_t length : {0, 1, 2, 3, 4, 64, 4095, 4096}) {
    UdPacket packet = ExamplePacket(length);
    packet.solicited = length % 2 == 1;
    const Bytes payload = Payload(length);
    const Bytes bytes = BuildPacket(packet, payload);
    UdView view;
    ASSERT_EQ(ParseUdPacket(bytes, &view), DropReason::kNone) << length;
    EXPECT_EQ(view.packet, packet) << length;
    EXPECT_EQ(Bytes(view.payload.begin(), view.payload.end()), payload) << length;
  }
}

TEST(ParseUdPacketTest, EveryBitMatters) {
  const Bytes bytes = BuildPacket(ExamplePacket(5), Payload(5));
  UdView view;
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    Bytes changed = bytes;
    changed[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_NE(ParseUdPacket(changed, &view), DropReason::kNone)
        << "bit " << bit % 8 << " of byte " << bit / 8;
  }
  for (size_t size = 0; size < bytes.size(); ++size) {
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<long>(size));
    EXPECT_NE(ParseUdPacket(cut, &view), DropReason::kNone) << size << " bytes";
  }
}

TEST(ParseUdPacketTest, Refuses) {
  const Bytes good = BuildPacket(ExamplePacket(5), Payload(5));
  const struct {
    const char* description;
    size_t byte;
    uint8_t value;
    DropReason reason;
  } kRows[] = {
      {"LNH 2: no GRH", 1, 0x52, DropReason::kNoGrh},
      {"LNH 0: raw", 1, 0x50, DropReason::kNoGrh},
      {"IP version 4 in the GRH", 8, 0x41, DropReason::kNoGrh},
      {"RC SEND Only", 48, 0x04, DropReason::kReceiveError},
      {"payload changed: the ICRC is wrong", 68, 0xee, DropReason::kReceiveError},
  };
  for (const auto& row : kRows) {
    Bytes bytes = good;
    bytes[row.byte] = row.value;
    UdView view;
    EXPECT_EQ(ParseUdPacket(bytes, &view), row.reason) << row.description;
  }
}

TEST(ParseGrhTest, ReadsWhatMakeGrhWrites) {
  const UdPacket packet = ExamplePacket(66);
  Bytes bytes(kGrhSize);
  WriteWire(MakeGrh(packet), bytes.data());
  GrhInfo info;
  ASSERT_EQ(ParseGrh(bytes, &info), DropReason::kNone);
  EXPECT_EQ(info, (GrhInfo{packet.sgid, packet.dgid, 0x11, 0x23456, 0x3f, 92}));

  bytes[6] = 17;  // RoCE v2 over IPv6
  EXPECT_EQ(ParseGrh(bytes, &info), DropReason::kNone);
  bytes[0] = 0x45;  // IPv4 is no GRH
  EXPECT_EQ(ParseGrh(bytes, &info), DropReason::kNoGrh);
  bytes[0] = 0x60;
  bytes.pop_back();
  EXPECT_EQ(ParseGrh(bytes, &info), DropReason::kNoGrh) << "39 bytes";
  EXPECT_EQ(ParseGrh({}, &info), DropReason::kNoGrh);
}

}  // namespace
}  // namespace eoib
