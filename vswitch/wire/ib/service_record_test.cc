#include "vswitch/wire/ib/service_record.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/mad.h>

#include <algorithm>

#include "vswitch/wire/ib/mad_for_test.h"

namespace eoib {
namespace {

TEST(ServiceRecordTest, GoldenBytes) {
  ServiceRecord record;
  record.id = 0x0265'6f69'6200'8001;
  record.gid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x0002'c903'000e'0b72));
  record.pkey = PKey(0x8001);
  record.lease = 120;
  record.key[15] = 0x42;
  record.name = "eoib";
  record.data[0] = 0x11;
  record.data[ServiceRecord::kData16] = 0x22;
  record.data[ServiceRecord::kData32] = 0x33;
  record.data[ServiceRecord::kData64] = 0x44;
  std::array<uint8_t, kServiceRecordSize> bytes;
  EncodeServiceRecord(record, absl::MakeSpan(bytes));
  EXPECT_EQ(
      ToHex(bytes),
      ToHex(FromHex("02656f6962008001 fe800000000000000002c903000e0b72 8001 0000 00000078"
                    "00000000000000000000000000000042 656f6962")) +
          std::string(2 * 60, '0') +
          ToHex(FromHex("11000000000000000000000000000000 22000000000000000000000000000000"
                        "33000000000000000000000000000000 44000000000000000000000000000000")));
  EXPECT_EQ(*DecodeServiceRecord(bytes), record);
}

TEST(ServiceRecordTest, AgreesWithLibibmad) {
  Random random;
  for (int i = 0; i < 1000; ++i) {
    ServiceRecord record;
    random.Fill(&record.id);
    record.gid = random.NextGid();
    record.pkey = PKey(static_cast<uint16_t>(random.Bits(16)));
    random.Fill(&record.lease);
    random.Fill(&record.key);
    record.name.assign(random.Bits(6), static_cast<char>('a' + random.Bits(4)));
    random.Fill(&record.data);
    std::array<uint8_t, kServiceRecordSize> bytes;
    EncodeServiceRecord(record, absl::MakeSpan(bytes));
    EXPECT_EQ(LibibmadField(bytes, IB_SA_SR_ID_F), record.id);
    EXPECT_EQ(LibibmadArray<Gid::kSize>(bytes, IB_SA_SR_GID_F), record.gid.bytes());
    EXPECT_EQ(LibibmadField(bytes, IB_SA_SR_PKEY_F), record.pkey.value());
    EXPECT_EQ(LibibmadField(bytes, IB_SA_SR_LEASE_F), record.lease);
    EXPECT_EQ(LibibmadArray<16>(bytes, IB_SA_SR_KEY_F), record.key);
    const auto name = LibibmadArray<ServiceRecord::kNameSize>(bytes, IB_SA_SR_NAME_F);
    EXPECT_EQ(std::string(name.begin(), std::find(name.begin(), name.end(), 0)), record.name);
    EXPECT_EQ(LibibmadArray<ServiceRecord::kDataSize>(bytes, IB_SA_SR_DATA_F), record.data);
    EXPECT_EQ(*DecodeServiceRecord(bytes), record);
  }
}

TEST(ServiceRecordTest, ANameMayFillItsField) {
  ServiceRecord record;
  record.name.assign(ServiceRecord::kNameSize, 'n');
  std::array<uint8_t, kServiceRecordSize> bytes;
  EncodeServiceRecord(record, absl::MakeSpan(bytes));
  EXPECT_EQ(DecodeServiceRecord(bytes)->name, record.name);
}

TEST(ServiceRecordTest, TooShort) {
  const std::array<uint8_t, kServiceRecordSize> bytes{};
  EXPECT_TRUE(DecodeServiceRecord(bytes).ok());
  EXPECT_EQ(
      DecodeServiceRecord(absl::MakeSpan(bytes).first(kServiceRecordSize - 1)).status().code(),
      absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace eoib
