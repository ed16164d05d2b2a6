#include "vswitch/wire/ipoib_group.h"

#include <gtest/gtest.h>

#include <random>

#include "vswitch/base/hex_for_test.h"

namespace eoib {
namespace {

constexpr IpoibLink kRfcLink{PKey(0x8000), MulticastScope::LinkLocal()};
constexpr IpoibLink kDefaultLink{PKey(0xffff), MulticastScope::LinkLocal()};

Mgid ToMgid4(const IpoibLink& link, const char* address) {
  return ToMgid(*GroupOf(link, *Ipv4Addr::Parse(address)));
}
Mgid ToMgid6(const IpoibLink& link, const char* address) {
  return ToMgid(*GroupOf(link, *Ipv6Addr::Parse(address)));
}

TEST(IpoibGroupTest, GoldenIpv4Groups) {
  const struct {
    const char* description;
    IpoibLink link;
    const char* address;
    const char* mgid;
  } kRows[] = {
      {"RFC 4391 §4: all routers", kRfcLink, "224.0.0.2", "ff12:401b:8000::2"},
      {"RFC 4391 §4: the broadcast group", kRfcLink, "255.255.255.255",
       "ff12:401b:8000::ffff:ffff"},
      {"Linux: all hosts", kDefaultLink, "224.0.0.1", "ff12:401b:ffff::1"},
      {"Linux: the broadcast group", kDefaultLink, "255.255.255.255", "ff12:401b:ffff::ffff:ffff"},
      {"the last group: 28 bits, not the broadcast group's 32", kDefaultLink, "239.255.255.255",
       "ff12:401b:ffff::fff:ffff"},
      {"the first group", kDefaultLink, "224.0.0.0", "ff12:401b:ffff::"},
      {"the link's scope, whatever the group's",
       {PKey(0x8001), MulticastScope(5)},
       "224.0.0.2",
       "ff15:401b:8001::2"},
      {"a limited member's link has the same groups",
       {PKey(0x7fff)},
       "224.0.0.1",
       "ff12:401b:ffff::1"},
  };
  for (const auto& row : kRows) {
    const Mgid mgid = ToMgid4(row.link, row.address);
    EXPECT_EQ(mgid, Mgid(*Gid::Parse(row.mgid))) << row.description;
    const absl::optional<IpoibGroup> group = ParseIpoibMgid(mgid);
    ASSERT_TRUE(group.has_value()) << row.description;
    EXPECT_EQ(group->link, (IpoibLink{row.link.pkey.Full(), row.link.scope})) << row.description;
    EXPECT_EQ(group->family, IpoibGroup::Family::kIpv4) << row.description;
    EXPECT_EQ(group->ipv4.ToString(), row.address) << row.description;
    EXPECT_EQ(group->IsBroadcast(), group->ipv4.IsBroadcast()) << row.description;
  }
}

TEST(IpoibGroupTest, GoldenIpv6Groups) {
  const struct {
    const char* description;
    IpoibLink link;
    const char* address;
    const char* mgid;
  } kRows[] = {
      {"RFC 4391 §4: all routers", kRfcLink, "ff02::2", "ff12:601b:8000::2"},
      {"Linux: all nodes", kDefaultLink, "ff02::1", "ff12:601b:ffff::1"},
      {"Linux: solicited-node", kDefaultLink, "ff02::1:ff42:101", "ff12:601b:ffff::1:ff42:101"},
      {"Linux: listeners' reports", kDefaultLink, "ff02::16", "ff12:601b:ffff::16"},
      {"all routers of a site: the link's scope", kDefaultLink, "ff05::2", "ff12:601b:ffff::2"},
      {"a link that spans subnets",
       {PKey(0x8001), MulticastScope(14)},
       "ff02::2",
       "ff1e:601b:8001::2"},
      {"the lower 80 bits", kDefaultLink, "ff3e:1122:3344:5566:7788:99aa:bbcc:ddee",
       "ff12:601b:ffff:5566:7788:99aa:bbcc:ddee"},
      {"no broadcast group in IPv6", kDefaultLink, "ff02::ffff:ffff", "ff12:601b:ffff::ffff:ffff"},
  };
  for (const auto& row : kRows) {
    const Ipv6Addr address = *Ipv6Addr::Parse(row.address);
    const Mgid mgid = ToMgid6(row.link, row.address);
    EXPECT_EQ(mgid, Mgid(*Gid::Parse(row.mgid))) << row.description;
    const absl::optional<IpoibGroup> group = ParseIpoibMgid(mgid);
    ASSERT_TRUE(group.has_value()) << row.description;
    EXPECT_EQ(group, GroupOf(row.link, address)) << row.description;
    EXPECT_EQ(group->family, IpoibGroup::Family::kIpv6) << row.description;
    EXPECT_EQ(ToHex(group->ipv6_id), ToHex(absl::MakeConstSpan(address.bytes()).last(10)))
        << row.description;
    EXPECT_FALSE(group->IsBroadcast()) << row.description;
  }
}

TEST(IpoibGroupTest, TheBroadcastGroupNamesTheLink) {
  const IpoibLink link{PKey(0x8001), MulticastScope(8)};
  const absl::optional<IpoibGroup> broadcast = ParseIpoibMgid(ToMgid(BroadcastGroup(link)));
  ASSERT_TRUE(broadcast.has_value());
  EXPECT_TRUE(broadcast->IsBroadcast());
  EXPECT_EQ(broadcast->link, link);
  EXPECT_EQ(ToMgid4(broadcast->link, "224.0.0.1"), Mgid(*Gid::Parse("ff18:401b:8001::1")));
}

TEST(IpoibGroupTest, NoMgidHasALimitedMembersPKey) {
  IpoibGroup group = BroadcastGroup(kDefaultLink);
  group.link.pkey = PKey(0x0001);
  EXPECT_EQ(ToMgid(group), Mgid(*Gid::Parse("ff12:401b:8001::ffff:ffff")));
}

TEST(IpoibGroupTest, NoGroupOfAUnicastAddress) {
  for (const char* address :
       {"0.0.0.0", "10.0.0.1", "10.0.0.255", "223.255.255.255", "240.0.0.1", "255.255.255.254"}) {
    EXPECT_FALSE(GroupOf(kDefaultLink, *Ipv4Addr::Parse(address)).has_value()) << address;
  }
  for (const char* address : {"::", "::1", "fe80::1", "2001:db8::1", "fe00::1"}) {
    EXPECT_FALSE(GroupOf(kDefaultLink, *Ipv6Addr::Parse(address)).has_value()) << address;
  }
}

TEST(IpoibGroupTest, ParseRefuses) {
  const struct {
    const char* description;
    const char* mgid;
  } kRows[] = {
      {"EoIB", "ff12:e01b:8001:ffff:ffff:ffff::"},
      {"not transient", "ff02:401b:8001::1"},
      {"another flag", "ff32:401b:8001::1"},
      {"reserved scope 0", "ff10:401b:8001::1"},
      {"reserved scope 15", "ff1f:601b:8001::1"},
      {"another signature", "ff12:402b:8001::1"},
      {"a limited member's P_Key", "ff12:401b:1::1"},
      {"a limited member's P_Key, IPv6", "ff12:601b:7fff::1"},
      {"IPv4 with more than 28 bits", "ff12:401b:8001::1000:1"},
      {"IPv4 with the prefix of groups", "ff12:401b:8001::e000:1"},
      {"almost the broadcast group", "ff12:401b:8001::ffff:fffe"},
      {"IPv4 with bits above 32", "ff12:401b:8001::1:0:1"},
      {"the broadcast group with bits above 32", "ff12:401b:8001:8000::ffff:ffff"},
      {"all ones", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
  };
  for (const auto& row : kRows)
    EXPECT_FALSE(ParseIpoibMgid(Mgid(*Gid::Parse(row.mgid))).has_value()) << row.description;
  EXPECT_FALSE(ParseIpoibMgid(Mgid()).has_value());
}

TEST(IpoibGroupTest, RandomGroupsComeBack) {
  std::mt19937_64 random(4391);
  for (int i = 0; i < 10'000; ++i) {
    const IpoibLink link{PKey(static_cast<uint16_t>(random() | 0x8000)),
                         MulticastScope(static_cast<uint8_t>(1 + random() % 14))};
    const Ipv4Addr ipv4(static_cast<uint32_t>(0xe000'0000 | random() % (1u << 28)));
    EXPECT_EQ(ParseIpoibMgid(ToMgid(*GroupOf(link, ipv4))), GroupOf(link, ipv4));
    const auto ipv6 =
        Ipv6Addr::FromPrefixAndInterfaceId(random() | 0xff00'0000'0000'0000, InterfaceId(random()));
    EXPECT_EQ(ParseIpoibMgid(ToMgid(*GroupOf(link, ipv6))), GroupOf(link, ipv6));
  }
}

TEST(MulticastScopeTest, Prints) { EXPECT_EQ(MulticastScope(14).ToString(), "0xe"); }

}  // namespace
}  // namespace eoib
