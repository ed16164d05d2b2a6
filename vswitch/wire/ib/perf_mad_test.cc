#include "vswitch/wire/ib/perf_mad.h"

#include <gtest/gtest.h>

#include "vswitch/wire/ib/mad_for_test.h"

namespace eoib {
namespace {

static_assert(kPerfDataOffset == IB_PC_DATA_OFFS && kPerfDataSize == IB_PC_DATA_SZ);

TEST(PortCountersTest, GoldenBytes) {
  PortCountersAttribute counters;
  counters.port = 1;
  counters.select = 0xf000;
  counters.rcv_errors = 0x0102;
  counters.xmit_discards = 0x0304;
  counters.xmit_constraint_errors = 5;
  counters.rcv_constraint_errors = 6;
  counters.vl15_dropped = 0x0708;
  counters.xmit_data = 0x0a0b0c0d;
  counters.rcv_data = 0x1a1b1c1d;
  counters.xmit_packets = 0x2a2b2c2d;
  counters.rcv_packets = 0x3a3b3c3d;
  std::array<uint8_t, kPortCountersSize> bytes;
  EncodePortCounters(counters, absl::MakeSpan(bytes));
  EXPECT_EQ(ToHex(bytes),
            ToHex(FromHex(
                "00 01 f000 0000 00 00 0102 0000 0000 0304 05 06 00 00 0000 0708 0a0b0c0d 1a1b1c1d"
                "2a2b2c2d 3a3b3c3d 00000000")));
  EXPECT_EQ(*DecodePortCounters(bytes), counters);
}

TEST(PortCountersTest, AgreesWithLibibmad) {
  Random random;
  for (int i = 0; i < 1000; ++i) {
    PortCountersAttribute counters;
    random.Fill(&counters.port);
    random.Fill(&counters.select);
    random.Fill(&counters.rcv_errors, 16);
    random.Fill(&counters.xmit_discards, 16);
    random.Fill(&counters.xmit_constraint_errors, 8);
    random.Fill(&counters.rcv_constraint_errors, 8);
    random.Fill(&counters.vl15_dropped, 16);
    random.Fill(&counters.xmit_data, 32);
    random.Fill(&counters.rcv_data, 32);
    random.Fill(&counters.xmit_packets, 32);
    random.Fill(&counters.rcv_packets, 32);
    std::array<uint8_t, kPortCountersSize> bytes;
    EncodePortCounters(counters, absl::MakeSpan(bytes));
    ExpectAgreement(bytes, {{IB_PC_PORT_SELECT_F, counters.port},
                            {IB_PC_COUNTER_SELECT_F, counters.select},
                            {IB_PC_ERR_RCV_F, counters.rcv_errors},
                            {IB_PC_XMT_DISCARDS_F, counters.xmit_discards},
                            {IB_PC_ERR_XMTCONSTR_F, counters.xmit_constraint_errors},
                            {IB_PC_ERR_RCVCONSTR_F, counters.rcv_constraint_errors},
                            {IB_PC_VL15_DROPPED_F, counters.vl15_dropped},
                            {IB_PC_XMT_BYTES_F, counters.xmit_data},
                            {IB_PC_RCV_BYTES_F, counters.rcv_data},
                            {IB_PC_XMT_PKTS_F, counters.xmit_packets},
                            {IB_PC_RCV_PKTS_F, counters.rcv_packets}});
    EXPECT_EQ(*DecodePortCounters(bytes), counters);
  }
}

// IBA 1.4 §16.1.3.5: a counter stops at its largest value.
TEST(PortCountersTest, Saturates) {
  const struct {
    const char* description;
    uint64_t counted, bits8, bits16, bits32;
  } kRows[] = {
      {"fits all fields", 0xff, 0xff, 0xff, 0xff},
      {"one more than 8 bits", 0x100, 0xff, 0x100, 0x100},
      {"the largest of 16 bits", 0xffff, 0xff, 0xffff, 0xffff},
      {"one more than 16 bits", 0x1'0000, 0xff, 0xffff, 0x1'0000},
      {"the largest of 32 bits", 0xffff'ffff, 0xff, 0xffff, 0xffff'ffff},
      {"one more than 32 bits", 0x1'0000'0000, 0xff, 0xffff, 0xffff'ffff},
      {"the largest of 64 bits", ~uint64_t{0}, 0xff, 0xffff, 0xffff'ffff},
  };
  for (const auto& row : kRows) {
    PortCountersAttribute counters;
    counters.rcv_errors = counters.xmit_discards = counters.vl15_dropped = row.counted;
    counters.xmit_constraint_errors = counters.rcv_constraint_errors = row.counted;
    counters.xmit_data = counters.rcv_data = counters.xmit_packets = counters.rcv_packets =
        row.counted;
    std::array<uint8_t, kPortCountersSize> bytes;
    EncodePortCounters(counters, absl::MakeSpan(bytes));
    const PortCountersAttribute read = *DecodePortCounters(bytes);
    EXPECT_EQ(read.xmit_constraint_errors, row.bits8) << row.description;
    EXPECT_EQ(read.rcv_constraint_errors, row.bits8) << row.description;
    EXPECT_EQ(read.rcv_errors, row.bits16) << row.description;
    EXPECT_EQ(read.xmit_discards, row.bits16) << row.description;
    EXPECT_EQ(read.vl15_dropped, row.bits16) << row.description;
    EXPECT_EQ(read.xmit_data, row.bits32) << row.description;
    EXPECT_EQ(read.rcv_data, row.bits32) << row.description;
    EXPECT_EQ(read.xmit_packets, row.bits32) << row.description;
    EXPECT_EQ(read.rcv_packets, row.bits32) << row.description;
  }
}

TEST(PortCountersExtendedTest, AgreesWithLibibmad) {
  Random random;
  for (int i = 0; i < 1000; ++i) {
    PortCountersAttribute counters;
    random.Fill(&counters.port);
    random.Fill(&counters.select);
    random.Fill(&counters.xmit_data);
    random.Fill(&counters.rcv_data);
    random.Fill(&counters.xmit_packets);
    random.Fill(&counters.rcv_packets);
    random.Fill(&counters.unicast_xmit_packets);
    random.Fill(&counters.unicast_rcv_packets);
    random.Fill(&counters.multicast_xmit_packets);
    random.Fill(&counters.multicast_rcv_packets);
    std::array<uint8_t, kPortCountersExtendedSize> bytes;
    EncodePortCountersExtended(counters, absl::MakeSpan(bytes));
    ExpectAgreement(bytes, {{IB_PC_EXT_PORT_SELECT_F, counters.port},
                            {IB_PC_EXT_COUNTER_SELECT_F, counters.select},
                            {IB_PC_EXT_XMT_BYTES_F, counters.xmit_data},
                            {IB_PC_EXT_RCV_BYTES_F, counters.rcv_data},
                            {IB_PC_EXT_XMT_PKTS_F, counters.xmit_packets},
                            {IB_PC_EXT_RCV_PKTS_F, counters.rcv_packets},
                            {IB_PC_EXT_XMT_UPKTS_F, counters.unicast_xmit_packets},
                            {IB_PC_EXT_RCV_UPKTS_F, counters.unicast_rcv_packets},
                            {IB_PC_EXT_XMT_MPKTS_F, counters.multicast_xmit_packets},
                            {IB_PC_EXT_RCV_MPKTS_F, counters.multicast_rcv_packets}});
    EXPECT_EQ(*DecodePortCountersExtended(bytes), counters);
  }
}

TEST(PerfAttributeTest, NumbersAgreeWithLibibmad) {
  EXPECT_EQ(static_cast<int>(PerfAttribute::kClassPortInfo), CLASS_PORT_INFO);
  EXPECT_EQ(static_cast<int>(PerfAttribute::kPortCounters), IB_GSI_PORT_COUNTERS);
  EXPECT_EQ(static_cast<int>(PerfAttribute::kPortCountersExtended), IB_GSI_PORT_COUNTERS_EXT);
}

TEST(PerfAttributeTest, DecodersRefuseASpanThatIsTooShort) {
  const std::vector<uint8_t> bytes(kPortCountersExtendedSize);
  const auto span = absl::MakeConstSpan(bytes);
  EXPECT_TRUE(DecodePortCounters(span.first(kPortCountersSize)).ok());
  EXPECT_EQ(DecodePortCounters(span.first(kPortCountersSize - 1)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(DecodePortCountersExtended(span).ok());
  EXPECT_EQ(DecodePortCountersExtended(span.first(kPortCountersExtendedSize - 1)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace eoib
