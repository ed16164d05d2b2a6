#include "vswitch/wire/ib/notice.h"

#include <gtest/gtest.h>
#include <infiniband/umad_sm.h>

#include "vswitch/wire/ib/mad_for_test.h"

namespace eoib {
namespace {

constexpr char kMgid[] = "ff12e01b8001ffffffffffff00000000";

Gid GidOf(const char* hex) { return Gid::FromWire(FromHex(hex).data()); }

Notice RandomNotice(Random* random) {
  Notice notice;
  notice.generic = random->Bits(1) != 0;
  notice.type = static_cast<NoticeType>(random->Bits(7));
  random->Fill(&notice.producer, 24);
  random->Fill(&notice.trap);
  random->Fill(&notice.issuer_lid);
  notice.toggle = random->Bits(1) != 0;
  random->Fill(&notice.count, 15);
  random->Fill(&notice.details);
  notice.issuer_gid = random->NextGid();
  return notice;
}

TEST(NoticeTest, GoldenBytes) {
  Notice created = Notice::OfGid(SmTrap::kGroupCreated, GidOf(kMgid));
  created.issuer_lid = 1;
  created.issuer_gid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x0002'c903'000e'0b72));
  Notice vendor;
  vendor.generic = false;
  vendor.type = NoticeType::kUrgent;
  vendor.producer = 0x0002c9;
  vendor.trap = 0x1234;
  vendor.toggle = true;
  vendor.count = 0x7ffe;
  const struct {
    const char* description;
    Notice notice;
    std::string bytes;
  } kRows[] = {
      {"group created", created,
       ToHex(FromHex("83 000004 0042 0001 0000 000000000000 ff12e01b8001ffffffffffff00000000")) +
           std::string(2 * 32, '0') + "fe800000000000000002c903000e0b72"},
      {"a vendor's, toggled", vendor,
       ToHex(FromHex("01 0002c9 1234 0000 fffe")) + std::string(2 * 70, '0')},
  };
  for (const auto& row : kRows) {
    std::array<uint8_t, kNoticeSize> bytes;
    EncodeNotice(row.notice, absl::MakeSpan(bytes));
    EXPECT_EQ(ToHex(bytes), row.bytes) << row.description;
    EXPECT_EQ(*DecodeNotice(bytes), row.notice) << row.description;
  }
}

TEST(NoticeTest, IsAboutAGid) {
  for (const SmTrap trap : {SmTrap::kGidInService, SmTrap::kGidOutOfService, SmTrap::kGroupCreated,
                            SmTrap::kGroupDeleted}) {
    const Notice notice = Notice::OfGid(trap, GidOf(kMgid));
    EXPECT_EQ(notice.trap, static_cast<uint16_t>(trap));
    EXPECT_EQ(notice.AboutGid(), GidOf(kMgid));
    EXPECT_TRUE(notice.generic);
    EXPECT_EQ(notice.type, NoticeType::kSubnetManagement);
    EXPECT_EQ(notice.producer, Notice::kProducerClassManager);
  }
}

TEST(NoticeTest, AgreesWithLibibmad) {
  Random random;
  for (int i = 0; i < 1000; ++i) {
    const Notice notice = RandomNotice(&random);
    std::array<uint8_t, kNoticeSize> bytes;
    EncodeNotice(notice, absl::MakeSpan(bytes));
    ExpectAgreement(absl::MakeConstSpan(bytes).first(10),
                    {{IB_NOTICE_IS_GENERIC_F, notice.generic},
                     {IB_NOTICE_TYPE_F, static_cast<uint8_t>(notice.type)},
                     {IB_NOTICE_PRODUCER_F, notice.producer},
                     {IB_NOTICE_TRAP_NUMBER_F, notice.trap},
                     {IB_NOTICE_ISSUER_LID_F, notice.issuer_lid},
                     {IB_NOTICE_TOGGLE_F, notice.toggle},
                     {IB_NOTICE_COUNT_F, notice.count}});
    EXPECT_EQ(LibibmadArray<Notice::kDetails>(bytes, IB_NOTICE_DATA_DETAILS_F), notice.details);
    EXPECT_EQ(*DecodeNotice(bytes), notice);
  }
}

TEST(NoticeTest, KeepsToItsFields) {
  Notice notice;
  notice.generic = false;
  notice.type = static_cast<NoticeType>(0xff);
  notice.producer = 0xffff'ffff;
  notice.count = 0xffff;
  std::array<uint8_t, kNoticeSize> bytes;
  EncodeNotice(notice, absl::MakeSpan(bytes));
  EXPECT_EQ(ToHex(absl::MakeConstSpan(bytes).first(10)),
            ToHex(FromHex("7f ffffff 0000 0000 7fff")));
}

TEST(SmTrapTest, NumbersAgreeWithUmad) {
  EXPECT_EQ(static_cast<int>(SmTrap::kGidInService), UMAD_SM_GID_IN_SERVICE_TRAP);
  EXPECT_EQ(static_cast<int>(SmTrap::kGidOutOfService), UMAD_SM_GID_OUT_OF_SERVICE_TRAP);
  EXPECT_EQ(static_cast<int>(SmTrap::kGroupCreated), UMAD_SM_MGID_CREATED_TRAP);
  EXPECT_EQ(static_cast<int>(SmTrap::kGroupDeleted), UMAD_SM_MGID_DESTROYED_TRAP);
}

TEST(InformInfoTest, GoldenBytes) {
  InformInfo groups;
  groups.gid = GidOf(kMgid);
  groups.lid_begin = 0;
  groups.type = 3;
  groups.trap = 66;
  groups.response_time = 0x12;
  groups.producer = 4;
  InformInfo away;
  away.subscribe = false;
  away.generic = false;
  away.lid_begin = 1;
  away.lid_end = 0xbfff;
  away.qpn = Qpn(0x123456);
  away.producer = 0x0002c9;
  const struct {
    const char* description;
    InformInfo info;
    const char* bytes;
  } kRows[] = {
      {"everything, to QP 1", InformInfo(),
       "00000000000000000000000000000000 ffff 0000 0000 01 01 ffff ffff 000001 00 00 ffffff"},
      {"groups created, about one GID", groups,
       "ff12e01b8001ffffffffffff00000000 0000 0000 0000 01 01 0003 0042 000001 12 00 000004"},
      {"no more of a vendor's", away,
       "00000000000000000000000000000000 0001 bfff 0000 00 00 ffff ffff 123456 00 00 0002c9"},
  };
  for (const auto& row : kRows) {
    std::array<uint8_t, kInformInfoSize> bytes;
    EncodeInformInfo(row.info, absl::MakeSpan(bytes));
    EXPECT_EQ(ToHex(bytes), ToHex(FromHex(row.bytes))) << row.description;
    EXPECT_EQ(*DecodeInformInfo(bytes), row.info) << row.description;
  }
}

TEST(InformInfoTest, RoundTrips) {
  Random random;
  for (int i = 0; i < 1000; ++i) {
    InformInfo info;
    info.gid = random.NextGid();
    random.Fill(&info.lid_begin);
    random.Fill(&info.lid_end);
    info.generic = random.Bits(1) != 0;
    info.subscribe = random.Bits(1) != 0;
    random.Fill(&info.type);
    random.Fill(&info.trap);
    info.qpn = Qpn(static_cast<uint32_t>(random.Bits(24)));
    random.Fill(&info.response_time, 5);
    random.Fill(&info.producer, 24);
    std::array<uint8_t, kInformInfoSize> bytes;
    EncodeInformInfo(info, absl::MakeSpan(bytes));
    EXPECT_EQ(*DecodeInformInfo(bytes), info);
  }
}

TEST(InformInfoTest, Decode) {
  const struct {
    const char* description;
    size_t byte;
    uint8_t value;
    bool accepted;
  } kRows[] = {
      {"IsGeneric 0", 22, 0, true},    {"IsGeneric 2", 22, 2, false},
      {"Subscribe 0", 23, 0, true},    {"Subscribe 0x80", 23, 0x80, false},
      {"reserved bytes", 20, 7, true}, {"reserved bits of the response time", 31, 0xe0, true},
  };
  std::array<uint8_t, kInformInfoSize> good;
  EncodeInformInfo(InformInfo(), absl::MakeSpan(good));
  for (const auto& row : kRows) {
    std::array<uint8_t, kInformInfoSize> bytes = good;
    bytes[row.byte] = row.value;
    const absl::StatusOr<InformInfo> info = DecodeInformInfo(bytes);
    EXPECT_EQ(info.ok(), row.accepted) << row.description << ": " << info.status();
    if (!row.accepted) {
      EXPECT_EQ(info.status().code(), absl::StatusCode::kInvalidArgument) << row.description;
    }
  }
  EXPECT_FALSE(DecodeInformInfo(absl::MakeConstSpan(good).first(35)).ok());
}

}  // namespace
}  // namespace eoib
