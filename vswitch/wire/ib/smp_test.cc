#include "vswitch/wire/ib/smp.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/umad_sm.h>

#include <cstring>

#include "vswitch/wire/ib/mad_for_test.h"

namespace eoib {
namespace {

constexpr size_t kPathsOffset = 128;

SmpHeader RandomHeader(Random* random, bool directed) {
  SmpHeader header;
  header.directed = directed;
  header.method = static_cast<MadMethod>(random->Bits(8));
  random->Fill(&header.status, directed ? 15 : 16);
  random->Fill(&header.tid);
  header.attribute = static_cast<SmpAttribute>(random->Bits(16));
  random->Fill(&header.attribute_modifier);
  random->Fill(&header.m_key);
  if (!directed) return header;
  header.returning = random->Bits(1) != 0;
  random->Fill(&header.hop_count, 6);
  header.hop_pointer = static_cast<uint8_t>(random->Bits(8) % (header.hop_count + 2));
  random->Fill(&header.dr_slid);
  random->Fill(&header.dr_dlid);
  random->Fill(&header.initial_path);
  random->Fill(&header.return_path);
  return header;
}

NodeInfo RandomNodeInfo(Random* random) {
  NodeInfo info;
  random->Fill(&info.base_version);
  random->Fill(&info.class_version);
  info.type = static_cast<NodeType>(random->Bits(8));
  random->Fill(&info.ports);
  info.system_image_guid = random->NextGuid();
  info.node_guid = random->NextGuid();
  info.port_guid = random->NextGuid();
  random->Fill(&info.partition_cap);
  random->Fill(&info.device_id);
  random->Fill(&info.revision);
  random->Fill(&info.local_port);
  random->Fill(&info.vendor_id, 24);
  return info;
}

PortInfo RandomPortInfo(Random* random) {
  PortInfo info;
  random->Fill(&info.m_key);
  random->Fill(&info.gid_prefix);
  random->Fill(&info.lid);
  random->Fill(&info.sm_lid);
  random->Fill(&info.capability_mask);
  random->Fill(&info.local_port);
  random->Fill(&info.width_enabled);
  random->Fill(&info.width_supported);
  random->Fill(&info.width_active);
  random->Fill(&info.speed_supported, 4);
  random->Fill(&info.speed_active, 4);
  random->Fill(&info.speed_enabled, 4);
  info.state = static_cast<PortState>(random->Bits(4));
  info.physical_state = static_cast<PhysicalState>(random->Bits(4));
  random->Fill(&info.lmc, 3);
  random->Fill(&info.neighbor_mtu, 4);
  random->Fill(&info.mtu_cap, 4);
  random->Fill(&info.sm_sl, 4);
  random->Fill(&info.vl_cap, 4);
  random->Fill(&info.operational_vls, 4);
  random->Fill(&info.pkey_violations);
  random->Fill(&info.qkey_violations);
  random->Fill(&info.guid_cap);
  info.client_reregister = random->Bits(1) != 0;
  random->Fill(&info.subnet_timeout, 5);
  random->Fill(&info.response_time_value, 5);
  return info;
}

TEST(SmpHeaderTest, GoldenBytes) {
  SmpHeader get;
  get.attribute = SmpAttribute::kPortInfo;
  get.attribute_modifier = 1;
  get.tid = 0x1122'3344'5566'7788;
  get.m_key = 0x0102'0304'0506'0708;
  SmpHeader back = get;
  back.directed = true;
  back.returning = true;
  back.method = MadMethod::kGetResp;
  back.status = 0x001c;
  back.hop_pointer = 2;
  back.hop_count = 3;
  back.dr_slid = 0x1234;
  back.initial_path = {0, 1, 2, 3};
  back.return_path = {0, 7, 8, 9};
  const struct {
    const char* description;
    SmpHeader header;
    const char* start;  // of the 64 bytes before the data, the rest zero
    const char* paths;  // of the initial and of the return path
    bool response;
  } kRows[] = {
      {"routed by LID", get,
       "01010101 0000 0000 1122334455667788 0015 0000 00000001 0102030405060708 0000 0000",
       "00000000", false},
      {"on its way back along a directed route", back,
       "01810181 801c 0203 1122334455667788 0015 0000 00000001 0102030405060708 1234 ffff",
       "00010203", true},
  };
  for (const auto& row : kRows) {
    Mad mad;
    mad.fill(0xee);
    EncodeSmpHeader(row.header, &mad);
    EXPECT_EQ(ToHex(absl::MakeConstSpan(mad).first(kSmpDataOffset)),
              ToHex(FromHex(row.start)) + std::string(2 * 28, '0'))
        << row.description;
    EXPECT_EQ(ToHex(absl::MakeConstSpan(mad).subspan(kPathsOffset, 4)), row.paths)
        << row.description;
    for (const uint8_t byte : SmpData(mad)) EXPECT_EQ(byte, 0) << row.description;
    EXPECT_EQ(*DecodeSmpHeader(mad), row.header) << row.description;
    EXPECT_EQ(row.header.IsResponse(), row.response) << row.description;
  }
}

TEST(SmpHeaderTest, RoutedByLidAgreesWithLibibmad) {
  Random random;
  for (int i = 0; i < 1000; ++i) {
    const SmpHeader header = RandomHeader(&random, false);
    Mad mad;
    EncodeSmpHeader(header, &mad);
    ExpectAgreement(mad, {{IB_MAD_BASEVER_F, 1},
                          {IB_MAD_MGMTCLASS_F, IB_SMI_CLASS},
                          {IB_MAD_CLASSVER_F, 1},
                          {IB_MAD_METHOD_F, static_cast<uint8_t>(header.method) & 0x7fu},
                          {IB_MAD_RESPONSE_F, static_cast<uint8_t>(header.method) >= 0x80},
                          {IB_MAD_STATUS_F, header.status},
                          {IB_MAD_TRID_F, header.tid},
                          {IB_MAD_ATTRID_F, static_cast<uint16_t>(header.attribute)},
                          {IB_MAD_ATTRMOD_F, header.attribute_modifier},
                          {IB_MAD_MKEY_F, header.m_key}});
    EXPECT_EQ(*DecodeSmpHeader(mad), header);
  }
}

TEST(SmpHeaderTest, DirectedAgreesWithLibibmad) {
  Random random;
  for (int i = 0; i < 1000; ++i) {
    const SmpHeader header = RandomHeader(&random, true);
    Mad mad;
    EncodeSmpHeader(header, &mad);
    ExpectAgreement(absl::MakeConstSpan(mad).first(kPathsOffset),
                    {{IB_MAD_BASEVER_F, 1},
                     {IB_MAD_MGMTCLASS_F, IB_SMI_DIRECT_CLASS},
                     {IB_MAD_CLASSVER_F, 1},
                     {IB_MAD_METHOD_F, static_cast<uint8_t>(header.method) & 0x7fu},
                     {IB_MAD_RESPONSE_F, static_cast<uint8_t>(header.method) >= 0x80},
                     {IB_DRSMP_STATUS_F, header.status},
                     {IB_DRSMP_DIRECTION_F, header.returning},
                     {IB_DRSMP_HOPPTR_F, header.hop_pointer},
                     {IB_DRSMP_HOPCNT_F, header.hop_count},
                     {IB_MAD_TRID_F, header.tid},
                     {IB_MAD_ATTRID_F, static_cast<uint16_t>(header.attribute)},
                     {IB_MAD_ATTRMOD_F, header.attribute_modifier},
                     {IB_MAD_MKEY_F, header.m_key},
                     {IB_DRSMP_DRSLID_F, header.dr_slid},
                     {IB_DRSMP_DRDLID_F, header.dr_dlid}});
    EXPECT_EQ(LibibmadArray<64>(mad, IB_DRSMP_PATH_F), header.initial_path);
    EXPECT_EQ(LibibmadArray<64>(mad, IB_DRSMP_RPATH_F), header.return_path);
    EXPECT_EQ(*DecodeSmpHeader(mad), header);
  }
}

TEST(SmpHeaderTest, AgreesWithTheUmadStructure) {
  Random random;
  const SmpHeader header = RandomHeader(&random, true);
  Mad mad;
  EncodeSmpHeader(header, &mad);
  umad_smp smp;
  static_assert(sizeof(smp) == kMadSize && offsetof(umad_smp, data) == kSmpDataOffset &&
                kSmpDataSize == UMAD_LEN_SMP_DATA);
  std::memcpy(&smp, mad.data(), sizeof(smp));
  EXPECT_EQ(ntohs(smp.status), header.status | (header.returning ? UMAD_SMP_DIRECTION : 0));
  EXPECT_EQ(smp.hop_ptr, header.hop_pointer);
  EXPECT_EQ(smp.hop_cnt, header.hop_count);
  EXPECT_EQ(ntohs(smp.dr_slid), header.dr_slid);
  EXPECT_EQ(ntohs(smp.dr_dlid), header.dr_dlid);
  EXPECT_TRUE(std::equal(header.initial_path.begin(), header.initial_path.end(), smp.initial_path));
  EXPECT_TRUE(std::equal(header.return_path.begin(), header.return_path.end(), smp.return_path));
}

TEST(SmpHeaderTest, Decode) {
  const struct {
    const char* description;
    const char* start;  // the rest is zero
    bool accepted;
  } kRows[] = {
      {"routed by LID", "01010101", true},
      {"directed, to the port itself: no hops", "01810101 0000 00 00", true},
      {"a method and an attribute without a name", "0101017f 0000 0000 0000000000000000 9999",
       true},
      {"base version 0x80 (OPA)", "80010101", false},
      {"class SubnAdm", "01030101", false},
      {"class version 2", "01010201", false},
      {"63 hops, at the last", "01810101 0000 3f 3f", true},
      {"63 hops, behind the last", "01810101 0000 40 3f", true},
      {"63 hops, two behind the last", "01810101 0000 41 3f", false},
      {"64 hops", "01810101 0000 00 40", false},
      {"255 hops", "01810101 0000 ff ff", false},
      {"one hop, far behind it, on its way back", "01810101 8000 ff 01", false},
      {"routed by LID: what would be hops is reserved", "01010101 0000 ff ff", true},
  };
  for (const auto& row : kRows) {
    Mad mad{};
    const std::vector<uint8_t> start = FromHex(row.start);
    std::copy(start.begin(), start.end(), mad.begin());
    const absl::StatusOr<SmpHeader> header = DecodeSmpHeader(mad);
    EXPECT_EQ(header.ok(), row.accepted) << row.description << ": " << header.status();
    if (!row.accepted) {
      EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument) << row.description;
    }
  }
}

TEST(SmpHeaderTest, ALidRoutedSmpHasNoRoute) {
  Random random;
  SmpHeader header = RandomHeader(&random, true);
  header.directed = false;
  Mad mad;
  EncodeSmpHeader(header, &mad);
  const SmpHeader decoded = *DecodeSmpHeader(mad);
  EXPECT_FALSE(decoded.returning);
  EXPECT_EQ(decoded.hop_count, 0);
  EXPECT_EQ(decoded.initial_path, SmpHeader().initial_path);
  EXPECT_EQ(ToHex(absl::MakeConstSpan(mad).subspan(32)), std::string(2 * (kMadSize - 32), '0'));
}

TEST(SmpAttributeTest, NumbersAgreeWithUmad) {
  EXPECT_EQ(static_cast<int>(SmpAttribute::kNodeDescription), UMAD_SM_ATTR_NODE_DESC);
  EXPECT_EQ(static_cast<int>(SmpAttribute::kNodeInfo), UMAD_SM_ATTR_NODE_INFO);
  EXPECT_EQ(static_cast<int>(SmpAttribute::kSwitchInfo), UMAD_SM_ATTR_SWITCH_INFO);
  EXPECT_EQ(static_cast<int>(SmpAttribute::kGuidInfo), UMAD_SM_ATTR_GUID_INFO);
  EXPECT_EQ(static_cast<int>(SmpAttribute::kPortInfo), UMAD_SM_ATTR_PORT_INFO);
  EXPECT_EQ(static_cast<int>(SmpAttribute::kPKeyTable), UMAD_SM_ATTR_PKEY_TABLE);
  EXPECT_EQ(static_cast<int>(SmpAttribute::kSmInfo), UMAD_SM_ATTR_SM_INFO);
}

TEST(NodeInfoTest, GoldenBytes) {
  NodeInfo info;
  info.type = NodeType::kChannelAdapter;
  info.ports = 2;
  info.system_image_guid = Guid(0x0002'c903'000e'0b75);
  info.node_guid = Guid(0x0002'c903'000e'0b72);
  info.port_guid = Guid(0x0002'c903'000e'0b73);
  info.partition_cap = 128;
  info.device_id = 0x1003;
  info.revision = 0xb0;
  info.local_port = 1;
  info.vendor_id = 0x0002c9;
  std::array<uint8_t, kNodeInfoSize> bytes;
  EncodeNodeInfo(info, absl::MakeSpan(bytes));
  EXPECT_EQ(ToHex(bytes),
            ToHex(FromHex(
                "01 01 01 02 0002c903000e0b75 0002c903000e0b72 0002c903000e0b73 0080 1003 000000b0"
                "01 0002c9")));
  EXPECT_EQ(*DecodeNodeInfo(bytes), info);
}

TEST(NodeInfoTest, AgreesWithLibibmad) {
  Random random;
  for (int i = 0; i < 1000; ++i) {
    const NodeInfo info = RandomNodeInfo(&random);
    std::array<uint8_t, kNodeInfoSize> bytes;
    EncodeNodeInfo(info, absl::MakeSpan(bytes));
    ExpectAgreement(bytes, {{IB_NODE_BASE_VERS_F, info.base_version},
                            {IB_NODE_CLASS_VERS_F, info.class_version},
                            {IB_NODE_TYPE_F, static_cast<uint8_t>(info.type)},
                            {IB_NODE_NPORTS_F, info.ports},
                            {IB_NODE_SYSTEM_GUID_F, info.system_image_guid.value()},
                            {IB_NODE_GUID_F, info.node_guid.value()},
                            {IB_NODE_PORT_GUID_F, info.port_guid.value()},
                            {IB_NODE_PARTITION_CAP_F, info.partition_cap},
                            {IB_NODE_DEVID_F, info.device_id},
                            {IB_NODE_REVISION_F, info.revision},
                            {IB_NODE_LOCAL_PORT_F, info.local_port},
                            {IB_NODE_VENDORID_F, info.vendor_id}});
    EXPECT_EQ(*DecodeNodeInfo(bytes), info);
  }
}

TEST(NodeDescriptionTest, Texts) {
  const struct {
    const char* description;
    std::string text, read;
  } kRows[] = {
      {"none", "", ""},
      {"some", "h1 HCA-1", "h1 HCA-1"},
      {"as long as the field, without a zero at its end", std::string(64, 'x'),
       std::string(64, 'x')},
      {"longer", std::string(65, 'x'), std::string(64, 'x')},
      {"a zero in it", std::string("a\0b", 3), "a"},
      {"UTF-8", "Ger\xc3\xa4t", "Ger\xc3\xa4t"},
  };
  for (const auto& row : kRows) {
    std::array<uint8_t, kNodeDescriptionSize> bytes;
    bytes.fill(0xee);
    EncodeNodeDescription(row.text, absl::MakeSpan(bytes));
    EXPECT_EQ(*DecodeNodeDescription(bytes), row.read) << row.description;
    EXPECT_TRUE(row.text.size() >= 64 || bytes[63] == 0) << row.description;
  }
}

TEST(PortInfoTest, GoldenBytes) {
  PortInfo info;
  info.gid_prefix = 0xfe80'0000'0000'0000;
  info.lid = 5;
  info.sm_lid = 1;
  info.capability_mask = 0x0251'0868;
  info.width_enabled = info.width_supported = 3;
  info.width_active = 2;
  info.speed_supported = info.speed_enabled = 7;
  info.speed_active = 4;
  info.state = PortState::kActive;
  info.physical_state = PhysicalState::kLinkUp;
  info.lmc = 1;
  info.neighbor_mtu = 5;
  info.sm_sl = 2;
  info.vl_cap = 4;
  info.mtu_cap = 5;
  info.operational_vls = 3;
  info.pkey_violations = 0x102;
  info.qkey_violations = 0x304;
  info.guid_cap = 128;
  info.client_reregister = true;
  std::array<uint8_t, kPortInfoSize> bytes;
  EncodePortInfo(info, absl::MakeSpan(bytes));
  EXPECT_EQ(
      ToHex(bytes),
      ToHex(FromHex(
          "0000000000000000 fe80000000000000 0005 0001 02510868 0000 0000 01 03 03 02 74 50 01 47"
          "52 40 00 00 00 05 00 30 0000 0102 0304 80 92 10 00 0000 00 000000 0000 00 00")));
  EXPECT_EQ(*DecodePortInfo(bytes), info);
}

TEST(PortInfoTest, AgreesWithLibibmad) {
  Random random;
  for (int i = 0; i < 1000; ++i) {
    const PortInfo info = RandomPortInfo(&random);
    std::array<uint8_t, kPortInfoSize> bytes;
    EncodePortInfo(info, absl::MakeSpan(bytes));
    ExpectAgreement(bytes, {{IB_PORT_MKEY_F, info.m_key},
                            {IB_PORT_GID_PREFIX_F, info.gid_prefix},
                            {IB_PORT_LID_F, info.lid},
                            {IB_PORT_SMLID_F, info.sm_lid},
                            {IB_PORT_CAPMASK_F, info.capability_mask},
                            {IB_PORT_LOCAL_PORT_F, info.local_port},
                            {IB_PORT_LINK_WIDTH_ENABLED_F, info.width_enabled},
                            {IB_PORT_LINK_WIDTH_SUPPORTED_F, info.width_supported},
                            {IB_PORT_LINK_WIDTH_ACTIVE_F, info.width_active},
                            {IB_PORT_LINK_SPEED_SUPPORTED_F, info.speed_supported},
                            {IB_PORT_STATE_F, static_cast<uint8_t>(info.state)},
                            {IB_PORT_PHYS_STATE_F, static_cast<uint8_t>(info.physical_state)},
                            {IB_PORT_LMC_F, info.lmc},
                            {IB_PORT_LINK_SPEED_ACTIVE_F, info.speed_active},
                            {IB_PORT_LINK_SPEED_ENABLED_F, info.speed_enabled},
                            {IB_PORT_NEIGHBOR_MTU_F, info.neighbor_mtu},
                            {IB_PORT_SMSL_F, info.sm_sl},
                            {IB_PORT_VL_CAP_F, info.vl_cap},
                            {IB_PORT_MTU_CAP_F, info.mtu_cap},
                            {IB_PORT_OPER_VLS_F, info.operational_vls},
                            {IB_PORT_PKEY_VIOL_F, info.pkey_violations},
                            {IB_PORT_QKEY_VIOL_F, info.qkey_violations},
                            {IB_PORT_GUID_CAP_F, info.guid_cap},
                            {IB_PORT_CLIENT_REREG_F, info.client_reregister},
                            {IB_PORT_SUBN_TIMEOUT_F, info.subnet_timeout},
                            {IB_PORT_RESP_TIME_VAL_F, info.response_time_value}});
    EXPECT_EQ(*DecodePortInfo(bytes), info);
  }
}

// A port may fill fields that are not modelled (diagnosis, leases, thresholds); they must not
// matter.
TEST(PortInfoTest, IgnoresWhatItDoesNotModel) {
  std::array<uint8_t, kPortInfoSize> plain, filled;
  EncodePortInfo(PortInfo(), absl::MakeSpan(plain));
  filled = plain;
  for (const size_t byte :
       {24, 25, 26, 27, 38, 39, 40, 42, 44, 45, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63}) {
    filled[byte] = 0xff;
  }
  filled[33] |= 0x0f;  // link down default state
  filled[34] |= 0xf8;  // M_Key protection
  filled[51] |= 0x60;  // multicast P_Key trap suppression
  EXPECT_EQ(*DecodePortInfo(filled), PortInfo());
  EncodePortInfo(PortInfo(), absl::MakeSpan(filled));
  EXPECT_EQ(filled, plain);
}

TEST(PKeyTableTest, GoldenBytes) {
  PKeyTableBlock block{};
  block[0] = PKey(0xffff);
  block[1] = PKey(0x0001);
  block[31] = PKey(0x8002);
  std::array<uint8_t, kPKeyTableSize> bytes;
  EncodePKeyTable(block, absl::MakeSpan(bytes));
  EXPECT_EQ(ToHex(bytes), "ffff0001" + std::string(2 * 58, '0') + "8002");
  EXPECT_EQ(*DecodePKeyTable(bytes), block);
}

TEST(SmInfoTest, AgreesWithLibibmad) {
  Random random;
  for (int i = 0; i < 1000; ++i) {
    SmInfo info;
    info.guid = random.NextGuid();
    random.Fill(&info.sm_key);
    random.Fill(&info.activity);
    random.Fill(&info.priority, 4);
    random.Fill(&info.state, 4);
    std::array<uint8_t, kSmInfoSize> bytes;
    EncodeSmInfo(info, absl::MakeSpan(bytes));
    std::array<uint8_t, 24> padded{};  // libibmad reads words of 4 bytes
    std::copy(bytes.begin(), bytes.end(), padded.begin());
    ExpectAgreement(padded, {{IB_SMINFO_GUID_F, info.guid.value()},
                             {IB_SMINFO_KEY_F, info.sm_key},
                             {IB_SMINFO_ACT_F, info.activity},
                             {IB_SMINFO_PRIO_F, info.priority},
                             {IB_SMINFO_STATE_F, info.state}});
  }
}

// Values wider than their field do not spill into the next one.
TEST(SmpAttributeTest, EncodersKeepToTheirFields) {
  PortInfo port;
  port.speed_supported = port.speed_active = port.neighbor_mtu = port.vl_cap =
      port.operational_vls = 0;
  port.speed_enabled = port.sm_sl = port.mtu_cap = port.lmc = port.subnet_timeout =
      port.response_time_value = 0xff;
  port.state = static_cast<PortState>(0xff);
  port.physical_state = static_cast<PhysicalState>(0);
  std::array<uint8_t, kPortInfoSize> bytes;
  EncodePortInfo(port, absl::MakeSpan(bytes));
  EXPECT_EQ(ToHex(absl::MakeConstSpan(bytes).subspan(32, 12)),
            ToHex(FromHex("0f 00 07 0f 0f 00 00 00 00 0f 00 00")));
  EXPECT_EQ(ToHex(absl::MakeConstSpan(bytes).subspan(51, 2)), ToHex(FromHex("1f 1f")));
  SmInfo sm;
  sm.priority = 0;
  sm.state = 0xff;
  EncodeSmInfo(sm, absl::MakeSpan(bytes));
  EXPECT_EQ(bytes[20], 0x0f);
}

TEST(SmpAttributeTest, DecodersRefuseASpanThatIsTooShort) {
  const auto refuses = [](const auto& decode, size_t size) {
    const std::vector<uint8_t> bytes(size);
    const absl::Status status = decode(absl::MakeConstSpan(bytes).first(size - 1)).status();
    return decode(absl::MakeConstSpan(bytes)).ok() &&
           status.code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refuses(DecodeNodeInfo, kNodeInfoSize));
  EXPECT_TRUE(refuses(DecodeNodeDescription, kNodeDescriptionSize));
  EXPECT_TRUE(refuses(DecodePortInfo, kPortInfoSize));
  EXPECT_TRUE(refuses(DecodePKeyTable, kPKeyTableSize));
}

}  // namespace
}  // namespace eoib
