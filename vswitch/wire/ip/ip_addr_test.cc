#include "vswitch/wire/ip/ip_addr.h"

#include "gtest/gtest.h"

namespace eoib {
namespace {

TEST(IpAddrTest, GoldenAddresses) {
  for (const char* text : {"10.0.0.1", "255.255.255.255", "fe80::1", "::", "0.0.0.0", "ff02::1:ff00:7"}) {
    const auto address = IpAddr::Parse(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(address->ToString(), text);
  }
  for (const char* text : {"", "10.0.0", "10.0.0.1/24", "fe80::1%eth0", "host"}) EXPECT_FALSE(IpAddr::Parse(text).ok()) << text;
  EXPECT_NE(*IpAddr::Parse("10.0.0.1"), *IpAddr::Parse("::ffff:10.0.0.1"));
}

TEST(IpAddrTest, GoldenScopes) {
  const struct {
    const char* group;
    bool beyond;
  } kRows[] = {{"224.0.0.1", false}, {"224.0.0.251", false}, {"224.0.1.1", true}, {"239.1.2.3", true},
               {"ff02::fb", false},  {"ff01::1", false},     {"ff05::1", true},   {"ff3e::1", true}};
  for (const auto& row : kRows) EXPECT_EQ(IsBeyondLink(*IpAddr::Parse(row.group)), row.beyond) << row.group;
}

TEST(IpAddrTest, SolicitedNodeGroup) {  // RFC 4291 §2.7.1's example
  EXPECT_EQ(SolicitedNodeGroup(*Ipv6Addr::Parse("4037::1:800:200e:8c6c")).ToString(), "ff02::1:ff0e:8c6c");
}

}  // namespace
}  // namespace eoib
