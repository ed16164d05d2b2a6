#include "vswitch/base/address.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace eoib {
namespace {

using ::testing::HasSubstr;

struct ParseRow {
  const char* description;
  const char* text;
  const char* printed;  // null: refused by Parse
};

template <typename Address>
void ExpectRows(const std::vector<ParseRow>& rows) {
  for (const ParseRow& row : rows) {
    SCOPED_TRACE(testing::Message() << row.description << ": \"" << row.text << "\"");
    const absl::StatusOr<Address> parsed = Address::Parse(row.text);
    if (row.printed == nullptr) {
      EXPECT_FALSE(parsed.ok());
      EXPECT_THAT(std::string(parsed.status().message()),
                  HasSubstr(std::string("\"") + row.text + "\" is not"));
      continue;
    }
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->ToString(), row.printed);
    EXPECT_EQ(*Address::Parse(parsed->ToString()), *parsed) << "Parse reads the printed form";
  }
}

TEST(MacAddrTest, ParsesAndPrints) {
  ExpectRows<MacAddr>({
      {"as ip prints it", "02:00:5e:10:00:01", "02:00:5e:10:00:01"},
      {"upper case", "AA:BB:CC:DD:EE:FF", "aa:bb:cc:dd:ee:ff"},
      {"single digits", "2:0:5e:10:0:1", "02:00:5e:10:00:01"},
      {"five groups", "02:00:5e:10:00", nullptr},
      {"seven groups", "02:00:5e:10:00:01:02", nullptr},
      {"empty group", "02::5e:10:00:01", nullptr},
      {"three digits", "002:00:5e:10:00:01", nullptr},
      {"no digit", "02:00:5e:10:00:0g", nullptr},
      {"a sign", "02:00:5e:10:00:+1", nullptr},
      {"a hex prefix inside", "02:00:5e:10:00:0x", nullptr},
      {"dashes", "02-00-5E-10-00-01", "02:00:5e:10:00:01"},
      {"groups of four digits", "0200.5e10.0001", "02:00:5e:10:00:01"},
      {"groups of three digits", "020.05e.100", nullptr},
      {"two groups of four digits", "0200.5e10", nullptr},
      {"dots only", "..", nullptr},
      {"nothing", "", nullptr},
      {"a space behind", "02:00:5e:10:00:01 ", nullptr},
  });
}

TEST(MacAddrTest, TellsGroupsApart) {
  EXPECT_TRUE(MacAddr::Broadcast().IsBroadcast());
  EXPECT_TRUE(MacAddr::Broadcast().IsGroup());
  EXPECT_TRUE(MacAddr::Parse("33:33:00:00:00:01")->IsGroup());
  EXPECT_FALSE(MacAddr::Parse("33:33:00:00:00:01")->IsBroadcast());
  EXPECT_FALSE(MacAddr::Parse("02:00:00:00:00:01")->IsGroup());
  EXPECT_TRUE(MacAddr().IsZero());
}

TEST(MacAddrTest, ByteOrder) {
  const MacAddr mac = MacAddr::FromUint64(0x0200'5e10'0001);
  const uint8_t wire[] = {0x02, 0x00, 0x5e, 0x10, 0x00, 0x01};
  EXPECT_EQ(MacAddr::FromWire(wire), mac);
  EXPECT_EQ(mac.ToUint64(), 0x0200'5e10'0001u);
  EXPECT_EQ(mac.ToString(), "02:00:5e:10:00:01");
}

TEST(NumbersTest, ParseAndPrint) {
  ExpectRows<Lid>({{"decimal", "5", "0x5"},
                   {"hex", "0xbfff", "0xbfff"},
                   {"none", "0", nullptr},
                   {"a multicast LID", "0xc000", nullptr},
                   {"negative", "-1", nullptr},
                   {"empty", "", nullptr},
                   {"far too large", "99999999999999999999999", nullptr}});
  ExpectRows<Qpn>({{"24 bits", "0xffffff", "0xffffff"}, {"25 bits", "0x1000000", nullptr}});
  ExpectRows<PKey>({{"full", "0x8001", "0x8001"},
                    {"limited", "0x0001", "0x0001"},
                    {"decimal", "32769", "0x8001"},
                    {"without 0x", "8001", nullptr},
                    {"that number in hex", "0x1f41", "0x1f41"},
                    {"17 bits", "0x10000", nullptr},
                    {"no digits", "0x", nullptr}});
  ExpectRows<Guid>({{"hex", "0x0002c903000e0b72", "0002:c903:000e:0b72"},
                    {"as ibstat has it", "0002:c903:000e:0b72", "0002:c903:000e:0b72"},
                    {"three groups", "0002:c903:000e", nullptr},
                    {"short group", "2:c903:000e:0b72", nullptr}});
}

TEST(NumbersTest, Print) {
  EXPECT_EQ(Vid(4094).ToString(), "4094");
  EXPECT_EQ(QKey(0x8000'8001).ToString(), "0x80008001");
  EXPECT_EQ(Sl(15).ToString(), "15");
}

TEST(PKeyTest, AForgottenPrefixIsExplained) {
  EXPECT_EQ(PKey::Parse("8001").status().message(),
            "\"8001\" is not a P_Key; did you mean 0x8001? For the decimal number write 0x1f41");
}

TEST(PKeyTest, MatchingIsNotEquality) {
  const struct {
    const char* description;
    uint16_t a, b;
    bool matches;
  } rows[] = {
      {"two full members", 0x8001, 0x8001, true}, {"full and limited", 0x8001, 0x0001, true},
      {"limited and full", 0x0001, 0x8001, true}, {"two limited members", 0x0001, 0x0001, false},
      {"two partitions", 0x8001, 0x8002, false},  {"invalid entries", 0x8000, 0x8000, false},
  };
  for (const auto& row : rows)
    EXPECT_EQ(PKey(row.a).Matches(PKey(row.b)), row.matches) << row.description;
  EXPECT_EQ(PKey(0x0001).Full(), PKey(0x8001));
  EXPECT_EQ(PKey(0x8001).Limited(), PKey(0x0001));
}

TEST(GidTest, ParsesAndPrints) {
  ExpectRows<Gid>({
      {"compressed", "fe80::2:c903:e:b72", "fe80:0000:0000:0000:0002:c903:000e:0b72"},
      {"in full", "fe80:0000:0000:0000:0002:c903:000e:0b72",
       "fe80:0000:0000:0000:0002:c903:000e:0b72"},
      {"none", "::", "0000:0000:0000:0000:0000:0000:0000:0000"},
      {"nine groups", "1:2:3:4:5:6:7:8:9", nullptr},
      {"a MAC", "02:00:5e:10:00:01", nullptr},
  });
  const Gid gid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x0002'c903'000e'0b72));
  EXPECT_EQ(*Gid::Parse("fe80::2:c903:e:b72"), gid);
  EXPECT_EQ(gid.guid(), Guid(0x0002'c903'000e'0b72));
  EXPECT_EQ(gid.prefix(), 0xfe80'0000'0000'0000u);
}

TEST(MlidTest, Range) {
  EXPECT_TRUE(Mlid(0xc000).IsValid());
  EXPECT_FALSE(Mlid(0xffff).IsValid());
  EXPECT_FALSE(Mlid(0xbfff).IsValid());
  EXPECT_EQ(Mlid(0xc001).ToString(), "0xc001");
}

TEST(AddressTest, Hash) {
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(
      {MacAddr(), MacAddr::Broadcast(), MacAddr::FromUint64(1)}));
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(
      {Gid(), *Gid::Parse("fe80::1"), *Gid::Parse("1::fe80")}));
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(
      {PeerAddress(), PeerAddress{*Gid::Parse("fe80::1"), Qpn(2)}}));
}

}  // namespace
}  // namespace eoib
