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
      EXPECT_EQ(parsed.status().message().find(absl::StrCat("\"", row.text, "\" is not")), 0u)
          << parsed.status();
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
  EXPECT_EQ(Ipv6Addr::LinkLocal(InterfaceId(0x0253'494d'4942'0001)).ToString(),
            "fe80::253:494d:4942:1");
  EXPECT_EQ(Ipv6Addr::Parse("2001:db8:1:2::5")->prefix(), 0x2001'0db8'0001'0002u);
  EXPECT_EQ(Ipv6Addr::Parse("2001:db8:1:2::5")->interface_id(), InterfaceId(5));
}

TEST(IpAddrTest, ParsesAndPrints) {
  for (const char* text :
       {"10.0.0.1", "255.255.255.255", "fe80::1", "::", "0.0.0.0", "ff02::1:ff00:7"}) {
    const auto address = IpAddr::Parse(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(address->ToString(), text);
  }
  for (const char* text : {"", "10.0.0", "10.0.0.1/24", "fe80::1%eth0", "host"})
    EXPECT_FALSE(IpAddr::Parse(text).ok()) << text;
  EXPECT_NE(*IpAddr::Parse("10.0.0.1"), *IpAddr::Parse("::ffff:10.0.0.1"));
}

TEST(IpAddrTest, ScopesOfGroups) {
  const struct {
    const char* group;
    bool beyond_host;
    bool beyond_link;
  } kRows[] = {{"224.0.0.1", true, false}, {"224.0.0.251", true, false}, {"224.0.1.1", true, true},
               {"239.1.2.3", true, true},  {"ff02::fb", true, false},    {"ff01::1", false, false},
               {"ff00::1", false, false},  {"ff05::1", true, true},      {"ff3e::1", true, true}};
  for (const auto& row : kRows) {
    EXPECT_EQ(IsBeyondHost(*IpAddr::Parse(row.group)), row.beyond_host) << row.group;
    EXPECT_EQ(IsBeyondLink(*IpAddr::Parse(row.group)), row.beyond_link) << row.group;
  }
}

TEST(IpAddrTest, SolicitedNodeGroup) {  // RFC 4291 §2.7.1's example
  EXPECT_EQ(SolicitedNodeGroup(*Ipv6Addr::Parse("4037::1:800:200e:8c6c")).ToString(),
            "ff02::1:ff0e:8c6c");
}

TEST(IpAddressTest, Hash) {
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(
      {Ipv4Addr(), Ipv4Addr(1), Ipv4Addr::Broadcast()}));
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(
      {Ipv6Addr(), *Ipv6Addr::Parse("1::"), *Ipv6Addr::Parse("::1")}));
}

}  // namespace
}  // namespace eoib
