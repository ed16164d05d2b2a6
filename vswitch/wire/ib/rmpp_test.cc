#include "vswitch/wire/ib/rmpp.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/umad_sa.h>

#include <cstring>

#include "vswitch/wire/ib/mad_for_test.h"

namespace eoib {
namespace {

constexpr size_t kRmppHeader = 24;

// A MAD with these 12 bytes for RMPP header.
Mad MadOf(const char* rmpp) {
  Mad mad{};
  const std::vector<uint8_t> bytes = FromHex(rmpp);
  std::copy(bytes.begin(), bytes.end(), mad.begin() + kRmppHeader);
  return mad;
}

std::string RmppBytes(const Mad& mad) { return ToHex(absl::MakeConstSpan(mad).subspan(kRmppHeader, 12)); }

constexpr RmppHeader kNotActive;

TEST(RmppHeaderTest, GoldenBytes) {
  const struct {
    const char* description;
    const char* bytes;
    RmppHeader header;
  } kRows[] = {
      {"not in use", "00000000 00000000 00000000", kNotActive},
      {"the only segment: 64 bytes of table",
       "0101ff00 00000001 00000054",
       {true, true, true, RmppType::kData, 1, 0x1f, 0, 1, 0x54}},
      {"the only segment, with a response time",
       "01019700 00000001 00000054",
       {true, true, true, RmppType::kData, 1, 0x12, 0, 1, 0x54}},
      {"first of several segments", "0101fb00 00000001 00000154", {true, true, false, RmppType::kData, 1, 0x1f, 0, 1, 0x154}},
      {"a segment in between", "0101f900 00000002 00000000", {true, false, false, RmppType::kData, 1, 0x1f, 0, 2, 0}},
      {"last of several segments", "0101fd00 00000003 00000054", {true, false, true, RmppType::kData, 1, 0x1f, 0, 3, 0x54}},
      {"ACK", "0102f900 00000003 00000040", {true, false, false, RmppType::kAck, 1, 0x1f, 0, 3, 0x40}},
      {"STOP", "0103f901 00000000 00000000", {true, false, false, RmppType::kStop, 1, 0x1f, 1, 0, 0}},
      {"ABORT", "0104f976 00000000 00000000", {true, false, false, RmppType::kAbort, 1, 0x1f, 118, 0, 0}},
      {"version and type of a future",
       "0209f900 00000001 00000040",
       {true, false, false, static_cast<RmppType>(9), 2, 0x1f, 0, 1, 0x40}},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(DecodeRmppHeader(MadOf(row.bytes)), row.header) << row.description;
    Mad mad;
    mad.fill(0xee);
    EncodeRmppHeader(row.header, &mad);
    EXPECT_EQ(RmppBytes(mad), ToHex(FromHex(row.bytes))) << row.description;
    EXPECT_EQ(mad[kRmppHeader - 1], 0xee) << row.description;
    EXPECT_EQ(mad[kRmppHeader + 12], 0xee) << row.description;
  }
}

// IBA 1.4 §13.6.2.1: without the flag the rest of the header means nothing.
TEST(RmppHeaderTest, IgnoresWhatStandsBesideAnInactiveFlag) {
  EXPECT_EQ(DecodeRmppHeader(MadOf("0101fe77 00000009 00000009")), kNotActive);
  RmppHeader header{true, true, true, RmppType::kData, 1, 0x1f, 0, 1, 0x54};
  header.active = false;
  Mad mad{};
  EncodeRmppHeader(header, &mad);
  EXPECT_EQ(mad, Mad{});
}

TEST(RmppHeaderTest, AgreesWithLibibmad) {
  Random random;
  for (int i = 0; i < 1000; ++i) {
    RmppHeader header;
    header.active = true;
    header.first = random.Bits(1) != 0;
    header.last = random.Bits(1) != 0;
    header.type = static_cast<RmppType>(random.Bits(8));
    random.Fill(&header.version);
    random.Fill(&header.response_time, 5);
    random.Fill(&header.status);
    random.Fill(&header.segment);
    random.Fill(&header.payload_length);
    Mad mad{};
    EncodeRmppHeader(header, &mad);
    ExpectAgreement(mad, {{IB_SA_RMPP_VERS_F, header.version},
                          {IB_SA_RMPP_TYPE_F, static_cast<uint8_t>(header.type)},
                          {IB_SA_RMPP_RESP_F, header.response_time},
                          {IB_SA_RMPP_FLAGS_F, 1u | (header.first ? 2 : 0) | (header.last ? 4 : 0)},
                          {IB_SA_RMPP_STATUS_F, header.status},
                          {IB_SA_RMPP_SEGNUM_F, header.segment},
                          {IB_SA_RMPP_LEN_F, header.payload_length}});
    EXPECT_EQ(DecodeRmppHeader(mad), header);
  }
}

TEST(RmppHeaderTest, AgreesWithTheUmadStructure) {
  static_assert(offsetof(umad_sa_packet, rmpp_hdr) == kRmppHeader);
  Mad mad{};
  EncodeRmppHeader({true, true, false, RmppType::kData, 1, 0x12, 127, 0x0102'0304, 0x0506'0708}, &mad);
  umad_sa_packet packet;
  std::memcpy(&packet, mad.data(), sizeof(packet));
  EXPECT_EQ(packet.rmpp_hdr.rmpp_version, UMAD_RMPP_VERSION);
  EXPECT_EQ(packet.rmpp_hdr.rmpp_type, IB_RMPP_TYPE_DATA);
  EXPECT_EQ(packet.rmpp_hdr.rmpp_rtime_flags, 0x12 << 3 | IB_RMPP_FLAG_FIRST | IB_RMPP_FLAG_ACTIVE);
  EXPECT_EQ(packet.rmpp_hdr.rmpp_status, 127);
  EXPECT_EQ(ntohl(packet.rmpp_hdr.seg_num), 0x0102'0304u);
  EXPECT_EQ(ntohl(packet.rmpp_hdr.paylen_newwin), 0x0506'0708u);
}

// A segment has room for exactly what the umad structure has behind its SA header.
TEST(RmppHeaderTest, SizesOfASegment) {
  EXPECT_EQ(kRmppSaHeader, offsetof(umad_sa_packet, data) - offsetof(umad_sa_packet, sm_key));
  EXPECT_EQ(kRmppDataPerSegment, size_t{UMAD_LEN_SA_DATA});
}

TEST(RmppTypeTest, NumbersAgreeWithLibibmad) {
  EXPECT_EQ(static_cast<int>(RmppType::kNone), IB_RMPP_TYPE_NONE);
  EXPECT_EQ(static_cast<int>(RmppType::kData), IB_RMPP_TYPE_DATA);
  EXPECT_EQ(static_cast<int>(RmppType::kAck), IB_RMPP_TYPE_ACK);
  EXPECT_EQ(static_cast<int>(RmppType::kStop), IB_RMPP_TYPE_STOP);
  EXPECT_EQ(static_cast<int>(RmppType::kAbort), IB_RMPP_TYPE_ABORT);
}

}  // namespace
}  // namespace eoib
