#include "vswitch/wire/ip/ipoib_address.h"

#include <gtest/gtest.h>

#include <array>

#include "absl/hash/hash_testing.h"
#include "absl/strings/str_cat.h"
#include "vswitch/base/hex_for_test.h"

namespace eoib {
namespace {

Gid TestGid() { return *Gid::Parse("fe80::253:494d:4942:101"); }

TEST(IpoibAddressTest, ParsesAndPrints) {
  const struct {
    const char* description;
    const char* text;
    const char* printed;  // null: refused by Parse
  } kRows[] = {
      {"as ip prints Linux' own, with the flag of the connected mode",
       "80:00:00:02:fe:80:00:00:00:00:00:00:02:53:49:4d:49:42:01:01",
       "00:00:00:02:fe:80:00:00:00:00:00:00:02:53:49:4d:49:42:01:01"},
      {"as ip prints the broadcast group's",
       "00:ff:ff:ff:ff:12:40:1b:ff:ff:00:00:00:00:00:00:ff:ff:ff:ff",
       "00:ff:ff:ff:ff:12:40:1b:ff:ff:00:00:00:00:00:00:ff:ff:ff:ff"},
      {"single digits, upper case", "0:0:0:2:FE:80:0:0:0:0:0:0:2:53:49:4D:49:42:1:1",
       "00:00:00:02:fe:80:00:00:00:00:00:00:02:53:49:4d:49:42:01:01"},
      {"nineteen groups", "00:00:02:fe:80:00:00:00:00:00:00:02:53:49:4d:49:42:01:01", nullptr},
      {"twenty-one groups", "00:00:00:00:02:fe:80:00:00:00:00:00:00:02:53:49:4d:49:42:01:01",
       nullptr},
      {"three digits", "000:00:00:02:fe:80:00:00:00:00:00:00:02:53:49:4d:49:42:01:01", nullptr},
      {"no digits", "00:00:00:02:fe:80:00:00:00:00:00:00:02:53:49:4d:49:42:01:", nullptr},
      {"a sign", "00:00:00:-2:fe:80:00:00:00:00:00:00:02:53:49:4d:49:42:01:01", nullptr},
      {"no hex digit", "00:00:00:0g:fe:80:00:00:00:00:00:00:02:53:49:4d:49:42:01:01", nullptr},
      {"a colon behind", "00:00:00:02:fe:80:00:00:00:00:00:00:02:53:49:4d:49:42:01:01:", nullptr},
      {"dashes", "00-00-00-02-fe-80-00-00-00-00-00-00-02-53-49-4d-49-42-01-01", nullptr},
      {"a MAC address", "02:00:5e:10:00:01", nullptr},
      {"nothing", "", nullptr},
  };
  for (const auto& row : kRows) {
    const absl::StatusOr<IpoibAddress> parsed = IpoibAddress::Parse(row.text);
    ASSERT_EQ(parsed.ok(), row.printed != nullptr) << row.description << ": " << parsed.status();
    if (parsed.ok()) {
      EXPECT_EQ(parsed->ToString(), row.printed) << row.description;
      EXPECT_EQ(*IpoibAddress::Parse(parsed->ToString()), *parsed) << row.description;
    } else {
      EXPECT_EQ(parsed.status().message().find(
                    absl::StrCat("\"", row.text, "\" is not an IPoIB address")),
                0u)
          << row.text;
    }
  }
}

// RFC 4391 §9.1.1, figure 5.
TEST(IpoibAddressTest, Wire) {
  const auto wire = FromHex("80 123456 fe80000000000000 0253494d49420101");
  const IpoibAddress address = IpoibAddress::FromWire(wire.data());
  EXPECT_EQ(address.qpn(), Qpn(0x123456));
  EXPECT_EQ(address.gid(), TestGid());
  EXPECT_EQ(address.peer(), (PeerAddress{TestGid(), Qpn(0x123456)}));
  std::array<uint8_t, IpoibAddress::kSize> out;
  out.fill(0xee);
  address.ToWire(out.data());
  EXPECT_EQ(ToHex(out), ToHex(FromHex("00 123456 fe80000000000000 0253494d49420101")))
      << "flags are not sent on";
}

TEST(IpoibAddressTest, IgnoresTheReservedByte) {
  const auto plain = FromHex("00 000002 fe80000000000000 0253494d49420101");
  for (int flags = 0; flags <= 0xff; ++flags) {
    auto wire = plain;
    wire[0] = static_cast<uint8_t>(flags);
    EXPECT_EQ(IpoibAddress::FromWire(wire.data()), IpoibAddress(Qpn(2), TestGid()));
  }
}

TEST(IpoibAddressTest, Kinds) {
  EXPECT_TRUE(IpoibAddress().IsZero());
  EXPECT_FALSE(IpoibAddress(Qpn(2), Gid()).IsZero());
  EXPECT_FALSE(IpoibAddress(Qpn(2), TestGid()).IsGroup());
  const IpoibAddress group = IpoibAddress::OfGroup(Mgid(*Gid::Parse("ff12:401b:ffff::ffff:ffff")));
  EXPECT_TRUE(group.IsGroup());
  EXPECT_EQ(group.ToString(), "00:ff:ff:ff:ff:12:40:1b:ff:ff:00:00:00:00:00:00:ff:ff:ff:ff")
      << "the address that ip shows as brd";
}

TEST(IpoibAddressTest, Hash) {
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(
      {IpoibAddress(), IpoibAddress(Qpn(2), Gid()), IpoibAddress(Qpn(2), TestGid()),
       IpoibAddress(Qpn(3), TestGid())}));
}

// RFC 4391 §8.
TEST(InterfaceIdTest, HasTheUniversalBit) {
  const struct {
    const char* description;
    const char* guid;
    const char* link_local;
  } kRows[] = {
      {"an EUI-64, without the bit", "0002:c903:000e:0b72", "fe80::202:c903:e:b72"},
      {"a modified EUI-64, with the bit", "0202:c903:000e:0b72", "fe80::202:c903:e:b72"},
      {"as Linux shows it for simib", "0253:494d:4942:0001", "fe80::253:494d:4942:1"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(Ipv6Addr::LinkLocal(ToInterfaceId(*Guid::Parse(row.guid))).ToString(), row.link_local)
        << row.description;
  }
}

}  // namespace
}  // namespace eoib
