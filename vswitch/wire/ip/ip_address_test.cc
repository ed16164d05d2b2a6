#include "vswitch/wire/ip/ip_address.h"

#include <gtest/gtest.h>

#include "absl/hash/hash_testing.h"

namespace eoib {
namespace {

struct ParseRow {
  const char* description;
  const char* text;
  const char* printed;  // null: refused
};

template <typename Address>
void ExpectRows(const std::vector<ParseRow>& rows) {
  for (const ParseRow& row : rows) {
    const absl::StatusOr<Address> parsed = Address::Parse(row.text);
    ASSERT_EQ(parsed.ok(), row.printed != nullptr) << row.description << ": " << parsed.status();
    if (parsed.ok()) {
      EXPECT_EQ(parsed->ToString(), row.printed) << row.description;
      EXPECT_EQ(*Address::Parse(parsed->ToString()), *parsed) << row.description;
    } else {
      EXPECT_EQ(parsed.status().message().find(absl::StrCat("\"", row.text, "\" is not")), 0u) << parsed.status();
    }
  }
}

TEST(Ipv4AddrTest, ParsesAndPrints) {
  ExpectRows<Ipv4Addr>({
      {"as ip prints it", "192.0.2.1", "192.0.2.1"},
      {"none", "0.0.0.0", "0.0.0.0"},
      {"broadcast", "255.255.255.255", "255.255.255.255"},
      {"three numbers", "192.0.2", nullptr},
      {"too large", "192.0.2.256", nullptr},
      {"a prefix length", "192.0.2.1/24", nullptr},
      {"IPv6", "::1", nullptr},
      {"nothing", "", nullptr},
  });
  EXPECT_EQ(*Ipv4Addr::Parse("192.0.2.1"), Ipv4Addr(0xc000'0201));
  EXPECT_FALSE(Ipv4Addr::Parse(absl::string_view("192.0.2.1\0", 10)).ok());
}

TEST(Ipv4AddrTest, TellsGroupsApart) {
  EXPECT_TRUE(Ipv4Addr::Parse("224.0.0.0")->IsMulticast());
  EXPECT_TRUE(Ipv4Addr::Parse("239.255.255.255")->IsMulticast());
  EXPECT_FALSE(Ipv4Addr::Parse("223.255.255.255")->IsMulticast());
  EXPECT_FALSE(Ipv4Addr::Parse("240.0.0.0")->IsMulticast());
  EXPECT_FALSE(Ipv4Addr::Broadcast().IsMulticast());
  EXPECT_TRUE(Ipv4Addr::Broadcast().IsBroadcast());
  EXPECT_TRUE(Ipv4Addr().IsZero());
}

TEST(Ipv6AddrTest, ParsesAndPrints) {
  ExpectRows<Ipv6Addr>({
      {"compressed", "2001:db8::1", "2001:db8::1"},
      {"in full", "fe80:0000:0000:0000:0253:494d:4942:0001", "fe80::253:494d:4942:1"},
      {"none", "::", "::"},
      {"a prefix length", "2001:db8::1/64", nullptr},
      {"a zone", "fe80::1%ib0", nullptr},
      {"IPv4", "192.0.2.1", nullptr},
      {"nothing", "", nullptr},
  });
}

TEST(Ipv6AddrTest, Kinds) {
  EXPECT_TRUE(Ipv6Addr::Parse("ff02::1")->IsMulticast());
  EXPECT_FALSE(Ipv6Addr::Parse("fe80::1")->IsMulticast());
  EXPECT_TRUE(Ipv6Addr::Parse("fe80::1")->IsLinkLocal());
  EXPECT_FALSE(Ipv6Addr::Parse("fe80:1::1")->IsLinkLocal());
  EXPECT_FALSE(Ipv6Addr::Parse("fec0::1")->IsLinkLocal());
  EXPECT_TRUE(Ipv6Addr().IsUnspecified());
  EXPECT_EQ(Ipv6Addr::LinkLocal(InterfaceId(0x0253'494d'4942'0001)).ToString(), "fe80::253:494d:4942:1");
  EXPECT_EQ(Ipv6Addr::Parse("2001:db8:1:2::5")->prefix(), 0x2001'0db8'0001'0002u);
  EXPECT_EQ(Ipv6Addr::Parse("2001:db8:1:2::5")->interface_id(), InterfaceId(5));
}

TEST(InterfaceIdTest, ParsesAndPrints) {
  ExpectRows<InterfaceId>({
      {"as ip token prints it", "::253:494d:4942:1", "::253:494d:4942:1"},
      {"small", "::5", "::5"},
      {"a whole address", "fe80::5", nullptr},
      {"no address", "5", nullptr},
  });
}

TEST(IpAddressTest, Hash) {
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly({Ipv4Addr(), Ipv4Addr(1), Ipv4Addr::Broadcast()}));
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly({Ipv6Addr(), *Ipv6Addr::Parse("1::"), *Ipv6Addr::Parse("::1")}));
}

}  // namespace
}  // namespace eoib
