#include "vswitch/wire/ib/mad.h"

#include <gtest/gtest.h>

#include "vswitch/wire/ib/mad_for_test.h"

namespace eoib {
namespace {

MadHeader ExampleMadHeader() {
  MadHeader header;
  header.mgmt_class = MgmtClass::kPerf;
  header.class_version = kPerfClassVersion;
  header.method = MadMethod::kSet;
  header.status = 0x000c;
  header.class_specific = 0x1234;
  header.tid = 0x1122'3344'5566'7788;
  header.attribute = 0x0012;
  header.attribute_modifier = 0xa1b2'c3d4;
  return header;
}

TEST(MadHeaderTest, GoldenBytes) {
  Mad mad;
  mad.fill(0xee);
  EncodeMadHeader(ExampleMadHeader(), &mad);
  EXPECT_EQ(ToHex(absl::MakeConstSpan(mad).first(24)),
            ToHex(FromHex("01 04 01 02 000c 1234 1122334455667788 0012 0000 a1b2c3d4")));
  EXPECT_EQ(mad[24], 0xee) << "only the header is written";
  EXPECT_EQ(*DecodeMadHeader(mad), ExampleMadHeader());
}

TEST(MadHeaderTest, AgreesWithLibibmad) {
  Random random;
  for (int i = 0; i < 1000; ++i) {
    MadHeader header;
    header.mgmt_class = static_cast<MgmtClass>(random.Bits(8));
    random.Fill(&header.class_version);
    header.method = static_cast<MadMethod>(random.Bits(8));
    random.Fill(&header.status);
    random.Fill(&header.tid);
    random.Fill(&header.attribute);
    random.Fill(&header.attribute_modifier);
    Mad mad{};
    EncodeMadHeader(header, &mad);
    ExpectAgreement(absl::MakeConstSpan(mad).first(24),
                    {{IB_MAD_BASEVER_F, 1},
                     {IB_MAD_MGMTCLASS_F, static_cast<uint8_t>(header.mgmt_class)},
                     {IB_MAD_CLASSVER_F, header.class_version},
                     {IB_MAD_METHOD_F, static_cast<uint8_t>(header.method) & 0x7fu},
                     {IB_MAD_RESPONSE_F, header.IsResponse()},
                     {IB_MAD_STATUS_F, header.status},
                     {IB_MAD_TRID_F, header.tid},
                     {IB_MAD_ATTRID_F, header.attribute},
                     {IB_MAD_ATTRMOD_F, header.attribute_modifier}});
    EXPECT_EQ(*DecodeMadHeader(mad), header);
  }
}

TEST(MadHeaderTest, AcceptsAnyClassAndRefusesOtherBaseVersions) {
  const struct {
    const char* description;
    const char* start;  // the rest is zero
    bool accepted;
  } kRows[] = {
      {"subnet administration", "01030201", true},
      {"a class without a name", "017f0301", true},
      {"base version 0", "00030201", false},
      {"base version 0x80 (OPA)", "80030201", false},
  };
  for (const auto& row : kRows) {
    Mad mad{};
    const std::vector<uint8_t> start = FromHex(row.start);
    std::copy(start.begin(), start.end(), mad.begin());
    const absl::StatusOr<MadHeader> header = DecodeMadHeader(mad);
    EXPECT_EQ(header.ok(), row.accepted) << row.description << ": " << header.status();
    if (!row.accepted) {
      EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument) << row.description;
    }
  }
}

TEST(MadMethodTest, ResponseTo) {
  const struct {
    MadMethod request, response;
  } kRows[] = {
      {MadMethod::kGet, MadMethod::kGetResp},
      {MadMethod::kSet, MadMethod::kGetResp},
      {MadMethod::kReport, MadMethod::kReportResp},
      {MadMethod::kGetTable, MadMethod::kGetTableResp},
      {MadMethod::kDelete, MadMethod::kDeleteResp},
      {MadMethod::kDeleteResp, MadMethod::kDeleteResp},
  };
  for (const auto& row : kRows)
    EXPECT_EQ(ResponseTo(row.request), row.response) << static_cast<int>(row.request);
}

TEST(MadMethodTest, NumbersAgreeWithLibibmad) {
  const struct {
    MadMethod ours;
    int theirs;
  } kRows[] = {
      {MadMethod::kGet, IB_MAD_METHOD_GET},
      {MadMethod::kSet, IB_MAD_METHOD_SET},
      {MadMethod::kTrap, IB_MAD_METHOD_TRAP},
      {MadMethod::kReport, IB_MAD_METHOD_REPORT},
      {MadMethod::kTrapRepress, IB_MAD_METHOD_TRAP_REPRESS},
      {MadMethod::kGetTable, IB_MAD_METHOD_GET_TABLE},
      {MadMethod::kDelete, IB_MAD_METHOD_DELETE},
      {MadMethod::kGetResp, IB_MAD_METHOD_GET_RESPONSE},
      {MadMethod::kReportResp, IB_MAD_METHOD_REPORT_RESPONSE},
      {MadMethod::kGetTableResp, IB_MAD_METHOD_GET_TABLE_RESPONSE},
      {MadMethod::kDeleteResp, IB_MAD_METHOD_DELETE_RESPONSE},
  };
  for (const auto& row : kRows) EXPECT_EQ(static_cast<int>(row.ours), row.theirs);
}

TEST(MadStatusTest, NumbersAgreeWithLibibmad) {
  EXPECT_EQ(static_cast<int>(MadStatus::kOk), IB_MAD_STS_OK);
  EXPECT_EQ(static_cast<int>(MadStatus::kBusy), IB_MAD_STS_BUSY);
  EXPECT_EQ(static_cast<int>(MadStatus::kUnsupportedVersion), IB_MAD_STS_BAD_BASE_VER_OR_CLASS);
  EXPECT_EQ(static_cast<int>(MadStatus::kUnsupportedMethod), IB_MAD_STS_METHOD_NOT_SUPPORTED);
  EXPECT_EQ(static_cast<int>(MadStatus::kUnsupportedMethodAttribute),
            IB_MAD_STS_METHOD_ATTR_NOT_SUPPORTED);
  EXPECT_EQ(static_cast<int>(MadStatus::kInvalidField), IB_MAD_STS_INV_ATTR_VALUE);
}

TEST(MgmtClassTest, NumbersAgreeWithLibibmad) {
  EXPECT_EQ(static_cast<int>(MgmtClass::kSubnLid), IB_SMI_CLASS);
  EXPECT_EQ(static_cast<int>(MgmtClass::kSubnDirected), IB_SMI_DIRECT_CLASS);
  EXPECT_EQ(static_cast<int>(MgmtClass::kSubnAdm), IB_SA_CLASS);
  EXPECT_EQ(static_cast<int>(MgmtClass::kPerf), IB_PERFORMANCE_CLASS);
}

}  // namespace
}  // namespace eoib
