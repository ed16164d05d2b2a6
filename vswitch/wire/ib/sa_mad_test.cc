#include "vswitch/wire/ib/sa_mad.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/mad.h>
#include <infiniband/sa.h>
#include <infiniband/umad_sa.h>
#include <infiniband/umad_sa_mcm.h>

#include <cstring>

#include "vswitch/wire/ib/mad_for_test.h"
#include "vswitch/wire/ib/sa_table.h"

namespace eoib {
namespace {

constexpr size_t kSaData = IB_SA_DATA_OFFS;
static_assert(kSaData == 56);

// libibmad, as an independent codec. Offsets of header fields count from the MAD's start, those of
// record fields from the SA data.
uint32_t Header32(Mad& mad, MAD_FIELDS field) { return mad_get_field(mad.data(), 0, field); }
uint64_t Header64(Mad& mad, MAD_FIELDS field) { return mad_get_field64(mad.data(), 0, field); }
uint32_t Record32(Mad& mad, MAD_FIELDS field) {
  return mad_get_field(mad.data() + kSaData, 0, field);
}
Gid RecordGid(Mad& mad, MAD_FIELDS field) {
  std::array<uint8_t, Gid::kSize> bytes{};
  mad_get_array(mad.data() + kSaData, 0, field, bytes.data());
  return Gid(bytes);
}

McMemberRecord RandomMcMemberRecord(Random* random) {
  McMemberRecord record;
  record.mgid = random->NextMgid();
  record.port_gid = random->NextGid();
  record.qkey = QKey(static_cast<uint32_t>(random->Bits(32)));
  record.mlid = Mlid(static_cast<uint16_t>(random->Bits(16)));
  record.mtu_selector = random->NextSelector();
  record.mtu = static_cast<uint8_t>(random->Bits(6));
  record.traffic_class = static_cast<uint8_t>(random->Bits(8));
  record.pkey = PKey(static_cast<uint16_t>(random->Bits(16)));
  record.rate_selector = random->NextSelector();
  record.rate = static_cast<uint8_t>(random->Bits(6));
  record.life_selector = random->NextSelector();
  record.life = static_cast<uint8_t>(random->Bits(6));
  record.sl = Sl(static_cast<uint8_t>(random->Bits(4)));
  record.flow_label = static_cast<uint32_t>(random->Bits(20));
  record.hop_limit = static_cast<uint8_t>(random->Bits(8));
  record.scope = static_cast<uint8_t>(random->Bits(4));
  record.join_state = static_cast<uint8_t>(random->Bits(4));
  record.proxy_join = random->Bits(1) != 0;
  return record;
}

PathRecord RandomPathRecord(Random* random) {
  PathRecord record;
  record.dgid = random->NextGid();
  record.sgid = random->NextGid();
  record.dlid = Lid(static_cast<uint16_t>(random->Bits(16)));
  record.slid = Lid(static_cast<uint16_t>(random->Bits(16)));
  record.flow_label = static_cast<uint32_t>(random->Bits(20));
  record.hop_limit = static_cast<uint8_t>(random->Bits(8));
  record.traffic_class = static_cast<uint8_t>(random->Bits(8));
  record.reversible = random->Bits(1) != 0;
  record.numb_path = static_cast<uint8_t>(random->Bits(7));
  record.pkey = PKey(static_cast<uint16_t>(random->Bits(16)));
  record.sl = Sl(static_cast<uint8_t>(random->Bits(4)));
  record.mtu_selector = random->NextSelector();
  record.mtu = static_cast<uint8_t>(random->Bits(6));
  record.rate_selector = random->NextSelector();
  record.rate = static_cast<uint8_t>(random->Bits(6));
  record.life_selector = random->NextSelector();
  record.life = static_cast<uint8_t>(random->Bits(6));
  record.preference = static_cast<uint8_t>(random->Bits(8));
  return record;
}

SaHeader ExampleSaHeader() {
  SaHeader header;
  header.method = MadMethod::kDeleteResp;
  header.status = 0x0200;
  header.tid = 0x1122'3344'5566'7788;
  header.attribute = SaAttribute::kMcMemberRecord;
  header.attribute_modifier = 0xa1b2'c3d4;
  header.sm_key = 0x0102'0304'0506'0708;
  header.attribute_offset = 7;
  header.component_mask = mcm::kMgid | mcm::kPortGid | mcm::kJoinState;
  return header;
}

TEST(SaHeaderTest, GoldenBytes) {
  Mad mad;
  mad.fill(0xee);
  EncodeSaHeader(ExampleSaHeader(), &mad);
  EXPECT_EQ(ToHex(absl::MakeConstSpan(mad).first(kSaData)),
            ToHex(FromHex("01030295 0200 0000 1122334455667788 0038 0000 a1b2c3d4"
                          "000000000000000000000000 0102030405060708 0007 0000 0000000000010003")));
  for (size_t i = kSaData; i < kMadSize; ++i) EXPECT_EQ(mad[i], 0) << i;
  EXPECT_EQ(*DecodeSaHeader(mad), ExampleSaHeader());
  EXPECT_TRUE(DecodeSaHeader(mad)->IsResponse());
}

TEST(SaHeaderTest, AgreesWithLibibmad) {
  Mad mad;
  EncodeSaHeader(ExampleSaHeader(), &mad);
  EXPECT_EQ(Header32(mad, IB_MAD_BASEVER_F), 1u);
  EXPECT_EQ(Header32(mad, IB_MAD_MGMTCLASS_F), uint32_t{IB_SA_CLASS});
  EXPECT_EQ(Header32(mad, IB_MAD_CLASSVER_F), 2u);
  EXPECT_EQ(Header32(mad, IB_MAD_METHOD_F), uint32_t{IB_MAD_METHOD_DELETE});
  EXPECT_EQ(Header32(mad, IB_MAD_RESPONSE_F), 1u);
  EXPECT_EQ(Header32(mad, IB_MAD_STATUS_F), 0x0200u);
  EXPECT_EQ(Header64(mad, IB_MAD_TRID_F), 0x1122'3344'5566'7788u);
  EXPECT_EQ(Header32(mad, IB_MAD_ATTRID_F), uint32_t{IB_SA_ATTR_MCRECORD});
  EXPECT_EQ(Header32(mad, IB_MAD_ATTRMOD_F), 0xa1b2'c3d4u);
  EXPECT_EQ(Header64(mad, IB_SA_MKEY_F), 0x0102'0304'0506'0708u);
  EXPECT_EQ(Header32(mad, IB_SA_ATTROFFS_F), 7u);
  EXPECT_EQ(Header64(mad, IB_SA_COMPMASK_F), 0x1'0003u);
}

TEST(SaHeaderTest, AgreesWithTheUmadStructure) {
  static_assert(offsetof(umad_sa_packet, data) == kSaData);
  Mad mad;
  EncodeSaHeader(ExampleSaHeader(), &mad);
  umad_sa_packet packet;
  static_assert(sizeof(packet) == kMadSize);
  std::memcpy(&packet, mad.data(), sizeof(packet));
  EXPECT_EQ(packet.mad_hdr.mgmt_class, static_cast<uint8_t>(MgmtClass::kSubnAdm));
  EXPECT_EQ(packet.mad_hdr.method, UMAD_SA_METHOD_DELETE_RESP);
  EXPECT_EQ(ntohs(packet.mad_hdr.attr_id), UMAD_SA_ATTR_MCMEMBER_REC);
  EXPECT_EQ(ntohl(packet.mad_hdr.attr_mod), 0xa1b2'c3d4u);
  EXPECT_EQ(ntohs(packet.attr_offset) * 8, sizeof(umad_sa_mcmember_record));
}

TEST(SaHeaderTest, Decode) {
  const struct {
    const char* description;
    const char* start;  // the first bytes of 36; the rest is zero
    bool accepted;
  } kRows[] = {
      {"request", "01030201", true},
      {"a method without a name", "0103027f", true},
      {"base version 0x80 (OPA)", "80030201", false},
      {"class SubnLID", "01010201", false},
      {"class version 1", "01030101", false},
      {"a segment in the middle of a table",
       "01030292 00000000 0000000000000000 00350000 00000000 0101f900 00000002 00000000", true},
  };
  for (const auto& row : kRows) {
    Mad mad{};
    const std::vector<uint8_t> start = FromHex(row.start);
    std::copy(start.begin(), start.end(), mad.begin());
    const absl::StatusOr<SaHeader> header = DecodeSaHeader(mad);
    EXPECT_EQ(header.ok(), row.accepted) << row.description << ": " << header.status();
    if (!row.accepted) {
      EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument) << row.description;
    }
  }
}

TEST(SaHeaderTest, AMadWithoutItsHeadersIsRefused) {
  Mad mad;
  EncodeSaHeader(SaHeader(), &mad);
  EXPECT_TRUE(DecodeSaHeader(absl::MakeSpan(mad).first(kSaRecordOffset)).ok());
  for (const size_t size : {size_t{0}, size_t{23}, size_t{24}, kSaRecordOffset - 1}) {
    const auto header = DecodeSaHeader(absl::MakeSpan(mad).first(size));
    EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument) << size;
  }
}

// The RMPP header of the first segment, as rdma-core reads it (IBA 1.4 §13.6.2.1).
TEST(SaTableTest, TheHeadersOfItsFirstSegmentPrecedeAllRecords) {
  constexpr uint8_t kActive = 1, kFirst = 2, kLast = 4;
  const SaHeader header = {
      .method = MadMethod::kGetTableResp, .tid = 7, .attribute_offset = 8, .component_mask = 1};
  const struct {
    const char* description;
    size_t size;
    uint8_t flags;
    uint32_t payload_length;
  } kRows[] = {
      {"no record: one segment", 0, kActive | kFirst | kLast, 20},
      {"one segment", 200, kActive | kFirst | kLast, 220},
      {"two segments", 256, kActive | kFirst, 296},
  };
  for (const auto& row : kRows) {
    const std::vector<uint8_t> records(row.size, 0x5a);
    const std::vector<uint8_t> table = EncodeSaTable(header, records);
    ASSERT_EQ(table.size(), kSaRecordOffset + row.size) << row.description;
    umad_sa_packet theirs{};
    std::memcpy(&theirs, table.data(), kSaRecordOffset);
    EXPECT_EQ(theirs.rmpp_hdr.rmpp_version, 1) << row.description;
    EXPECT_EQ(theirs.rmpp_hdr.rmpp_type, 1) << row.description << ": DATA";
    EXPECT_EQ(theirs.rmpp_hdr.rmpp_rtime_flags & 0x07, row.flags) << row.description;
    EXPECT_EQ(theirs.rmpp_hdr.rmpp_status, 0) << row.description;
    EXPECT_EQ(ntohl(theirs.rmpp_hdr.seg_num), 1u) << row.description;
    EXPECT_EQ(ntohl(theirs.rmpp_hdr.paylen_newwin), row.payload_length) << row.description;
    EXPECT_EQ(DecodeSaHeader(table).value(), header) << row.description;
    EXPECT_TRUE(
        std::equal(records.begin(), records.end(), SaRecord(table).begin(), SaRecord(table).end()))
        << row.description;
    EXPECT_TRUE(IsSaTable(table)) << row.description;
  }
  Mad record;
  EncodeSaHeader(header, &record);
  EXPECT_FALSE(IsSaTable(record));
  EXPECT_FALSE(IsSaTable(absl::MakeSpan(record).first(10)));
}

// A reader must not guess a table's stride: the decoder returns the response's value. The encoder
// fills in 0.
TEST(SaHeaderTest, AttributeOffset) {
  const struct {
    const char* description;
    SaAttribute attribute;
    uint16_t given, sent;
  } kRows[] = {
      {"MCMemberRecord, 52 bytes", SaAttribute::kMcMemberRecord, 0, 7},
      {"MCMemberRecord of OpenSM with a stride of its own", SaAttribute::kMcMemberRecord, 8, 8},
      {"PathRecord, 64 bytes", SaAttribute::kPathRecord, 0, 8},
      {"NodeRecord, 108 bytes", SaAttribute::kNodeRecord, 0, 14},
      {"PortInfoRecord, 68 bytes", SaAttribute::kPortInfoRecord, 0, 9},
      {"P_KeyTableRecord, 72 bytes", SaAttribute::kPKeyTableRecord, 0, 9},
      {"ClassPortInfo comes in no table", SaAttribute::kClassPortInfo, 0, 0},
      {"Notice comes in no table", SaAttribute::kNotice, 0, 0},
      {"InformInfo comes in no table", SaAttribute::kInformInfo, 0, 0},
      {"an attribute without a name", static_cast<SaAttribute>(0x99), 0, 0},
  };
  for (const auto& row : kRows) {
    SaHeader header;
    header.attribute = row.attribute;
    header.attribute_offset = row.given;
    Mad mad;
    EncodeSaHeader(header, &mad);
    EXPECT_EQ(DecodeSaHeader(mad)->attribute_offset, row.sent) << row.description;
    if (row.given == 0) {
      EXPECT_EQ(SaRecordStride(row.attribute), size_t{row.sent} * 8) << row.description;
    }
  }
}

TEST(SaStatusTest, Names) {
  EXPECT_EQ(SaStatusName(0), "ok (0x0000)");
  EXPECT_EQ(SaStatusName(0x0300), "no records (0x0300)");
  EXPECT_EQ(SaStatusName(0x001c), "invalid field value (0x001c)");
  EXPECT_EQ(SaStatusName(0x4242), "unknown status (0x4242)");
  for (const SaStatus status :
       {SaStatus::kBusy, SaStatus::kUnsupportedVersion, SaStatus::kUnsupportedMethod,
        SaStatus::kUnsupportedMethodAttribute, SaStatus::kNoResources, SaStatus::kRequestInvalid,
        SaStatus::kTooManyRecords, SaStatus::kInvalidGid, SaStatus::kInsufficientComponents}) {
    EXPECT_EQ(SaStatusName(static_cast<uint16_t>(status)).find("unknown"), std::string::npos);
  }
}

TEST(MtuBytesTest, Codes) {
  const int kBytes[] = {0, 256, 512, 1024, 2048, 4096, 0};
  for (uint8_t code = 0; code < 7; ++code) EXPECT_EQ(MtuBytes(code), kBytes[code]) << int{code};
  EXPECT_EQ(MtuBytes(255), 0);
}

TEST(IsRateCodeTest, Codes) {
  for (const int code : {2, 3, 16, 24}) EXPECT_TRUE(IsRateCode(static_cast<uint8_t>(code))) << code;
  for (const int code : {0, 1, 25, 63, 255})
    EXPECT_FALSE(IsRateCode(static_cast<uint8_t>(code))) << code;
}

TEST(McMemberRecordTest, GoldenBytes) {
  McMemberRecord record;
  record.mgid = Mgid(Gid::FromWire(FromHex("ff12e01b8001ffffffffffff00000000").data()));
  record.port_gid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x0002'c903'000e'0b72));
  record.qkey = QKey(0x8000'8001);
  record.mlid = Mlid(0xc003);
  record.mtu = 5;
  record.traffic_class = 0x11;
  record.pkey = PKey(0x8001);
  record.rate_selector = Selector::kGreaterThan;
  record.rate = 3;
  record.life_selector = Selector::kLargest;
  record.life = 18;
  record.sl = Sl(15);
  record.flow_label = 0x12345;
  record.hop_limit = 0x67;
  record.scope = 2;
  record.join_state = kFullMember;
  record.proxy_join = true;
  Mad mad{};
  EncodeMcMemberRecord(record, SaRecord(&mad));
  EXPECT_EQ(ToHex(absl::MakeConstSpan(mad).subspan(kSaData, 56)),
            ToHex(FromHex("ff12e01b8001ffffffffffff00000000 fe800000000000000002c903000e0b72 "
                          "80008001 c003 85 11 8001 03 d2f1234567 21 80 0000 00000000")));
  EXPECT_EQ(*DecodeMcMemberRecord(SaRecord(mad)), record);
}

TEST(McMemberRecordTest, AgreesWithLibibmad) {
  Random random;
  for (int i = 0; i < 1000; ++i) {
    const McMemberRecord record = RandomMcMemberRecord(&random);
    Mad mad{};
    EncodeMcMemberRecord(record, SaRecord(&mad));
    EXPECT_EQ(RecordGid(mad, IB_SA_MCM_MGID_F), record.mgid.gid());
    EXPECT_EQ(RecordGid(mad, IB_SA_MCM_PORTGID_F), record.port_gid);
    EXPECT_EQ(Record32(mad, IB_SA_MCM_QKEY_F), record.qkey.value());
    EXPECT_EQ(Record32(mad, IB_SA_MCM_MLID_F), record.mlid.value());
    EXPECT_EQ(Record32(mad, IB_SA_MCM_MTU_F), record.mtu);
    EXPECT_EQ(Record32(mad, IB_SA_MCM_TCLASS_F), record.traffic_class);
    EXPECT_EQ(Record32(mad, IB_SA_MCM_PKEY_F), record.pkey.value());
    EXPECT_EQ(Record32(mad, IB_SA_MCM_RATE_F), record.rate);
    EXPECT_EQ(Record32(mad, IB_SA_MCM_SL_F), record.sl.value());
    EXPECT_EQ(Record32(mad, IB_SA_MCM_FLOW_LABEL_F), record.flow_label);
    EXPECT_EQ(Record32(mad, IB_SA_MCM_JOIN_STATE_F), record.join_state);
    EXPECT_EQ(Record32(mad, IB_SA_MCM_PROXY_JOIN_F), uint32_t{record.proxy_join});
    EXPECT_EQ(*DecodeMcMemberRecord(SaRecord(mad)), record);
  }
}

TEST(McMemberRecordTest, AgreesWithTheUmadStructure) {
  Random random;
  for (int i = 0; i < 1000; ++i) {
    const McMemberRecord record = RandomMcMemberRecord(&random);
    umad_sa_mcmember_record umad{};
    record.mgid.gid().ToWire(umad.mgid);
    record.port_gid.ToWire(umad.portgid);
    umad.qkey = htonl(record.qkey.value());
    umad.mlid = htons(record.mlid.value());
    umad.mtu = umad_sa_set_rate_mtu_or_life(static_cast<uint8_t>(record.mtu_selector), record.mtu);
    umad.tclass = record.traffic_class;
    umad.pkey = htons(record.pkey.value());
    umad.rate =
        umad_sa_set_rate_mtu_or_life(static_cast<uint8_t>(record.rate_selector), record.rate);
    umad.pkt_life =
        umad_sa_set_rate_mtu_or_life(static_cast<uint8_t>(record.life_selector), record.life);
    umad.sl_flow_hop =
        umad_sa_mcm_set_sl_flow_hop(record.sl.value(), record.flow_label, record.hop_limit);
    umad.scope_state = umad_sa_mcm_set_scope_state(record.scope, record.join_state);
    umad.proxy_join = record.proxy_join ? 0x80 : 0;
    Mad mad{};
    EncodeMcMemberRecord(record, SaRecord(&mad));
    EXPECT_EQ(std::memcmp(mad.data() + kSaData, &umad, sizeof(umad)), 0) << i;
    EXPECT_EQ(*DecodeMcMemberRecord(SaRecord(mad)), record);
  }
}

TEST(McMemberRecordTest, RefusesAUnicastGidAsMgid) {
  Mad mad{};
  EXPECT_EQ(DecodeMcMemberRecord(SaRecord(mad)).status().code(), absl::StatusCode::kInvalidArgument)
      << "an MGID of zero";
  mad[kSaData] = 0xfe;
  EXPECT_EQ(DecodeMcMemberRecord(SaRecord(mad)).status().code(),
            absl::StatusCode::kInvalidArgument);
  mad[kSaData] = 0xff;
  EXPECT_TRUE(DecodeMcMemberRecord(SaRecord(mad)).ok());
}

TEST(McMemberRecordTest, ComponentMaskAgreesWithUmad) {
  EXPECT_EQ(mcm::kMgid, UMAD_SA_MCM_COMP_MASK_MGID);
  EXPECT_EQ(mcm::kPortGid, UMAD_SA_MCM_COMP_MASK_PORT_GID);
  EXPECT_EQ(mcm::kQKey, UMAD_SA_MCM_COMP_MASK_QKEY);
  EXPECT_EQ(mcm::kMlid, UMAD_SA_MCM_COMP_MASK_MLID);
  EXPECT_EQ(mcm::kMtuSelector, UMAD_SA_MCM_COMP_MASK_MTU_SEL);
  EXPECT_EQ(mcm::kMtu, UMAD_SA_MCM_COMP_MASK_MTU);
  EXPECT_EQ(mcm::kTrafficClass, UMAD_SA_MCM_COMP_MASK_TCLASS);
  EXPECT_EQ(mcm::kPKey, UMAD_SA_MCM_COMP_MASK_PKEY);
  EXPECT_EQ(mcm::kRateSelector, UMAD_SA_MCM_COMP_MASK_RATE_SEL);
  EXPECT_EQ(mcm::kRate, UMAD_SA_MCM_COMP_MASK_RATE);
  EXPECT_EQ(mcm::kLifeSelector, UMAD_SA_MCM_COMP_MASK_LIFE_TIME_SEL);
  EXPECT_EQ(mcm::kLife, UMAD_SA_MCM_COMP_MASK_LIFE_TIME);
  EXPECT_EQ(mcm::kSl, UMAD_SA_MCM_COMP_MASK_SL);
  EXPECT_EQ(mcm::kFlowLabel, UMAD_SA_MCM_COMP_MASK_FLOW_LABEL);
  EXPECT_EQ(mcm::kHopLimit, UMAD_SA_MCM_COMP_MASK_HOP_LIMIT);
  EXPECT_EQ(mcm::kScope, UMAD_SA_MCM_COMP_MASK_SCOPE);
  EXPECT_EQ(mcm::kJoinState, UMAD_SA_MCM_COMP_MASK_JOIN_STATE);
  EXPECT_EQ(mcm::kProxyJoin, UMAD_SA_MCM_COMP_MASK_PROXY_JOIN);
}

TEST(PathRecordTest, GoldenBytes) {
  PathRecord record;
  record.dgid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x0002'c903'000e'0b72));
  record.sgid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x0002'c903'000e'0b73));
  record.dlid = Lid(5);
  record.slid = Lid(6);
  record.flow_label = 0xabcde;
  record.hop_limit = 0x40;
  record.traffic_class = 0x22;
  record.numb_path = 1;
  record.pkey = PKey(0xffff);
  record.sl = Sl(3);
  record.mtu = 4;
  record.rate = 7;
  record.life_selector = Selector::kLessThan;
  record.life = 0x12;
  record.preference = 9;
  Mad mad{};
  EncodePathRecord(record, SaRecord(&mad));
  EXPECT_EQ(
      ToHex(absl::MakeConstSpan(mad).subspan(kSaData, 64)),
      ToHex(FromHex(
          "0000000000000000 fe800000000000000002c903000e0b72 fe800000000000000002c903000e0b73 0005 "
          "00060abcde40 22 81 ffff 0003 84 87 52 09 000000000000")));
  EXPECT_EQ(*DecodePathRecord(SaRecord(mad)), record);
}

TEST(PathRecordTest, AgreesWithLibibmad) {
  Random random;
  for (int i = 0; i < 1000; ++i) {
    const PathRecord record = RandomPathRecord(&random);
    Mad mad{};
    EncodePathRecord(record, SaRecord(&mad));
    EXPECT_EQ(RecordGid(mad, IB_SA_PR_DGID_F), record.dgid);
    EXPECT_EQ(RecordGid(mad, IB_SA_PR_SGID_F), record.sgid);
    EXPECT_EQ(Record32(mad, IB_SA_PR_DLID_F), record.dlid.value());
    EXPECT_EQ(Record32(mad, IB_SA_PR_SLID_F), record.slid.value());
    EXPECT_EQ(Record32(mad, IB_SA_PR_NPATH_F), record.numb_path);
    EXPECT_EQ(Record32(mad, IB_SA_PR_SL_F), record.sl.value());
    EXPECT_EQ(*DecodePathRecord(SaRecord(mad)), record);
  }
}

TEST(PathRecordTest, AgreesWithTheVerbsStructure) {
  Random random;
  for (int i = 0; i < 1000; ++i) {
    const PathRecord record = RandomPathRecord(&random);
    ibv_path_record verbs{};
    record.dgid.ToWire(verbs.dgid.raw);
    record.sgid.ToWire(verbs.sgid.raw);
    verbs.dlid = htons(record.dlid.value());
    verbs.slid = htons(record.slid.value());
    verbs.flowlabel_hoplimit = htonl(record.flow_label << 8 | record.hop_limit);
    verbs.tclass = record.traffic_class;
    verbs.reversible_numpath = static_cast<uint8_t>(
        (record.reversible ? IBV_PATH_RECORD_REVERSIBLE : 0) | record.numb_path);
    verbs.pkey = htons(record.pkey.value());
    verbs.qosclass_sl = htons(record.sl.value());
    verbs.mtu = umad_sa_set_rate_mtu_or_life(static_cast<uint8_t>(record.mtu_selector), record.mtu);
    verbs.rate =
        umad_sa_set_rate_mtu_or_life(static_cast<uint8_t>(record.rate_selector), record.rate);
    verbs.packetlifetime =
        umad_sa_set_rate_mtu_or_life(static_cast<uint8_t>(record.life_selector), record.life);
    verbs.preference = record.preference;
    Mad mad{};
    EncodePathRecord(record, SaRecord(&mad));
    EXPECT_EQ(std::memcmp(mad.data() + kSaData, &verbs, sizeof(verbs)), 0) << i;
    EXPECT_EQ(*DecodePathRecord(SaRecord(mad)), record);
  }
}

// A subnet administrator may fill fields that are not modelled (service id, QoS class) or reserved;
// they must not matter.
TEST(PathRecordTest, IgnoresWhatItDoesNotModel) {
  Random random;
  const PathRecord record = RandomPathRecord(&random);
  Mad mad{};
  EncodePathRecord(record, SaRecord(&mad));
  mad[kSaData + 0] = 0xff;    // service id
  mad[kSaData + 44] |= 0xf0;  // raw traffic, reserved
  mad[kSaData + 52] = 0xff;   // QoS class
  mad[kSaData + 53] |= 0xf0;
  mad[kSaData + 63] = 0xff;  // reserved
  EXPECT_EQ(*DecodePathRecord(SaRecord(mad)), record);
}

// Values wider than their field do not spill into the next one.
TEST(RecordTest, EncodersKeepToTheirFields) {
  McMemberRecord member;
  member.mgid = Mgid(Gid::FromPrefixAndGuid(0xff12'0000'0000'0000, Guid()));
  member.mtu = member.rate = member.life = 0xff;
  member.mtu_selector = member.rate_selector = member.life_selector = Selector::kGreaterThan;
  member.flow_label = 0xffff'ffff;
  member.join_state = 0xff;
  Mad mad{};
  EncodeMcMemberRecord(member, SaRecord(&mad));
  EXPECT_EQ(DecodeMcMemberRecord(SaRecord(mad))->mtu_selector, Selector::kGreaterThan);
  EXPECT_EQ(DecodeMcMemberRecord(SaRecord(mad))->sl, Sl(0));
  EXPECT_EQ(DecodeMcMemberRecord(SaRecord(mad))->scope, 0);

  PathRecord path;
  path.reversible = false;
  path.numb_path = 0xff;
  path.flow_label = 0xffff'ffff;
  EncodePathRecord(path, SaRecord(&mad));
  EXPECT_FALSE(DecodePathRecord(SaRecord(mad))->reversible);
  EXPECT_EQ(DecodePathRecord(SaRecord(mad))->flow_label, 0xf'ffffu);
  EXPECT_EQ(mad[kSaData + 44], 0x0f) << "reserved bits before the flow label";
}

TEST(RecordTest, DecodersRefuseASpanThatIsTooShort) {
  const auto refuses = [](const auto& decode, size_t size) {
    const std::vector<uint8_t> bytes(size, 0xff);
    const absl::Status status = decode(absl::MakeConstSpan(bytes).first(size - 1)).status();
    return decode(absl::MakeConstSpan(bytes)).ok() &&
           status.code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refuses(DecodeMcMemberRecord, kMcMemberRecordSize));
  EXPECT_TRUE(refuses(DecodePathRecord, kPathRecordSize));
  EXPECT_TRUE(refuses(DecodeNodeRecord, kNodeRecordSize));
  EXPECT_TRUE(refuses(DecodePortInfoRecord, kPortInfoRecordSize));
  EXPECT_TRUE(refuses(DecodePKeyTableRecord, kPKeyTableRecordSize));
}

TEST(ClassPortInfoTest, AgreesWithLibibmad) {
  Random random;
  for (int i = 0; i < 1000; ++i) {
    ClassPortInfo info;
    random.Fill(&info.base_version);
    random.Fill(&info.class_version);
    random.Fill(&info.capability_mask);
    random.Fill(&info.capability_mask2, 27);
    random.Fill(&info.response_time_value, 5);
    std::array<uint8_t, kClassPortInfoSize> bytes;
    EncodeClassPortInfo(info, absl::MakeSpan(bytes));
    ExpectAgreement(bytes, {{IB_CPI_BASEVER_F, info.base_version},
                            {IB_CPI_CLASSVER_F, info.class_version},
                            {IB_CPI_CAPMASK_F, info.capability_mask},
                            {IB_CPI_CAPMASK2_F, info.capability_mask2},
                            {IB_CPI_RESP_TIME_VALUE_F, info.response_time_value}});
  }
  static_assert(kClassPortInfoSize == sizeof(umad_class_port_info));
}

TEST(NodeRecordTest, GoldenBytes) {
  NodeRecord record;
  record.lid = Lid(0x1234);
  record.node.node_guid = Guid(0x0002'c903'000e'0b72);
  record.node.vendor_id = 0x0002c9;
  record.description = "h1 HCA-1";
  std::array<uint8_t, kNodeRecordSize> bytes;
  EncodeNodeRecord(record, absl::MakeSpan(bytes));
  EXPECT_EQ(
      ToHex(bytes),
      ToHex(FromHex(
          "1234 0000 01010101 0000000000000000 0002c903000e0b72 0000000000000000 0000 0000 00000000"
          "01 0002c9 6831204843412d31")) +
          std::string(2 * 56, '0'));
  EXPECT_EQ(*DecodeNodeRecord(bytes), record);
}

TEST(PortInfoRecordTest, GoldenBytes) {
  PortInfoRecord record;
  record.lid = Lid(5);
  record.port = 2;
  record.info.lid = 5;
  record.info.gid_prefix = 0xfe80'0000'0000'0000;
  std::array<uint8_t, kPortInfoRecordSize> bytes;
  EncodePortInfoRecord(record, absl::MakeSpan(bytes));
  EXPECT_EQ(ToHex(absl::MakeConstSpan(bytes).first(22)),
            ToHex(FromHex("0005 02 00 0000000000000000 fe80000000000000 0005")));
  EXPECT_EQ(*DecodePortInfoRecord(bytes), record);
}

TEST(PKeyTableRecordTest, GoldenBytes) {
  PKeyTableRecord record;
  record.lid = Lid(5);
  record.block = 0x102;
  record.port = 1;
  record.pkeys[0] = PKey(0xffff);
  record.pkeys[1] = PKey(0x8001);
  record.pkeys[31] = PKey(0x7fff);
  std::array<uint8_t, kPKeyTableRecordSize> bytes;
  EncodePKeyTableRecord(record, absl::MakeSpan(bytes));
  EXPECT_EQ(ToHex(bytes),
            ToHex(FromHex("0005 0102 01 000000 ffff 8001")) + std::string(2 * 58, '0') + "7fff");
  EXPECT_EQ(*DecodePKeyTableRecord(bytes), record);
}

// A key and an attribute, whatever the attribute holds (smp_test.cc tests the attributes).
TEST(RecordTest, RoundTripsOfTables) {
  Random random;
  for (int i = 0; i < 1000; ++i) {
    std::array<uint8_t, kNodeRecordSize> bytes;
    NodeRecord node;
    node.lid = Lid(static_cast<uint16_t>(random.Bits(16)));
    node.node.system_image_guid = random.NextGuid();
    random.Fill(&node.node.vendor_id, 24);
    node.description = std::string(random.Bits(6), 'x');
    EncodeNodeRecord(node, absl::MakeSpan(bytes));
    EXPECT_EQ(*DecodeNodeRecord(bytes), node);
    PortInfoRecord port;
    port.lid = node.lid;
    random.Fill(&port.port);
    random.Fill(&port.info.capability_mask);
    EncodePortInfoRecord(port, absl::MakeSpan(bytes));
    EXPECT_EQ(*DecodePortInfoRecord(bytes), port);
    PKeyTableRecord table;
    table.lid = node.lid;
    random.Fill(&table.block);
    random.Fill(&table.port);
    for (PKey& pkey : table.pkeys) pkey = PKey(static_cast<uint16_t>(random.Bits(16)));
    EncodePKeyTableRecord(table, absl::MakeSpan(bytes));
    EXPECT_EQ(*DecodePKeyTableRecord(bytes), table);
  }
}

TEST(SaAttributeTest, NumbersAgreeWithUmad) {
  EXPECT_EQ(static_cast<int>(SaAttribute::kClassPortInfo), UMAD_ATTR_CLASS_PORT_INFO);
  EXPECT_EQ(static_cast<int>(SaAttribute::kNotice), UMAD_ATTR_NOTICE);
  EXPECT_EQ(static_cast<int>(SaAttribute::kInformInfo), UMAD_ATTR_INFORM_INFO);
  EXPECT_EQ(static_cast<int>(SaAttribute::kNodeRecord), UMAD_SA_ATTR_NODE_REC);
  EXPECT_EQ(static_cast<int>(SaAttribute::kPortInfoRecord), UMAD_SA_ATTR_PORT_INFO_REC);
  EXPECT_EQ(static_cast<int>(SaAttribute::kPKeyTableRecord), UMAD_SA_ATTR_PKEY_TABLE_REC);
  EXPECT_EQ(static_cast<int>(SaAttribute::kPathRecord), UMAD_SA_ATTR_PATH_REC);
  EXPECT_EQ(static_cast<int>(SaAttribute::kMcMemberRecord), UMAD_SA_ATTR_MCMEMBER_REC);
}

}  // namespace
}  // namespace eoib
