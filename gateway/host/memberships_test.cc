#include "gateway/host/memberships.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "gateway/host/addresses_for_test.h"
#include "gateway/host/fake_interface_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/seed_for_test.h"

namespace eoib::endpoint {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

std::string MgidText(const char* text) { return Mgid(*Gid::Parse(text)).ToString(); }

class MembershipsTest : public testing::Test {
 protected:
  MembershipsTest() {
    link_.SetState(ipoib::LinkState{{}, {PKey(0x8001)}, 2044});
    memberships_.OnLinkState();
  }
  ~MembershipsTest() override { EXPECT_EQ(link_.listened_twice(), 0); }

  void KernelJoins(const IpAddr& group) {
    kernel_.insert(group);
    memberships_.SetKernelGroups(kernel_);
  }
  void KernelLeaves(const IpAddr& group) {
    kernel_.erase(group);
    memberships_.SetKernelGroups(kernel_);
  }

  FakeInterface link_;
  Memberships memberships_{&link_};
  std::set<IpAddr> kernel_;
  const std::string all_hosts_ = MgidText("ff12:401b:8001::1");
  const std::string all_nodes_ = MgidText("ff12:601b:8001::1");
};

TEST_F(MembershipsTest, EveryHostIsInTwoGroups) {
  EXPECT_THAT(link_.groups(), UnorderedElementsAre(all_hosts_, all_nodes_));
}

TEST_F(MembershipsTest, AddressesHaveASolicitedNodeGroupEach) {
  memberships_.SetAddresses(
      {Ip6("fe80::253:494d:4942:101"), Ip6("fd00::4942:101"), Ip6("fd00::7")});
  EXPECT_THAT(link_.groups(),
              UnorderedElementsAre(all_hosts_, all_nodes_, MgidText("ff12:601b:8001::1:ff42:101"),
                                   MgidText("ff12:601b:8001::1:ff00:7")));
  memberships_.SetAddresses({Ip6("fd00::4942:101")});
  EXPECT_THAT(link_.groups(),
              UnorderedElementsAre(all_hosts_, all_nodes_, MgidText("ff12:601b:8001::1:ff42:101")));
}

TEST_F(MembershipsTest, FollowsTheKernelsGroups) {
  KernelJoins(Ip("239.1.2.3"));
  KernelJoins(Ip("ff05::123"));
  EXPECT_THAT(memberships_.Groups(),
              ElementsAre(Ip("224.0.0.1"), Ip("239.1.2.3"), Ip("ff02::1"), Ip("ff05::123")));
  EXPECT_THAT(link_.groups(),
              UnorderedElementsAre(all_hosts_, all_nodes_, MgidText("ff12:401b:8001::f01:203"),
                                   MgidText("ff12:601b:8001::123")));
  KernelLeaves(Ip("239.1.2.3"));
  KernelLeaves(Ip("ff05::123"));
  EXPECT_THAT(link_.groups(), UnorderedElementsAre(all_hosts_, all_nodes_));
}

// /proc/net/igmp6 has ff01::1 for each interface.
TEST_F(MembershipsTest, AnUnchangedKernelListWithHostGroupsIsNotAnUpdate) {
  memberships_.SetKernelGroups({Ip("239.9.9.9"), Ip("ff01::1")});
  const int reads = link_.state_reads();
  memberships_.SetKernelGroups({Ip("239.9.9.9"), Ip("ff01::1")});
  EXPECT_EQ(link_.state_reads(), reads);
  memberships_.SetKernelGroups({Ip("239.9.9.8"), Ip("ff01::1")});
  EXPECT_GT(link_.state_reads(), reads);
}

TEST_F(MembershipsTest, AKernelListBeyondTheLimitIsCountedOnce) {
  std::set<IpAddr> groups;
  for (uint32_t i = 0; i < Memberships::kLimit + 5; ++i)
    groups.insert(IpAddr(Ipv4Addr(0xef00'0000 + i)));
  memberships_.SetKernelGroups(groups);
  memberships_.SetKernelGroups(groups);
  EXPECT_EQ(link_.groups().size(), 2 + Memberships::kLimit);
  EXPECT_EQ(memberships_.refused(), 5);
}

TEST_F(MembershipsTest, GoldenGroupsThatAreNone) {
  for (const char* group : {"ff01::1", "ff00::1", "10.0.0.1", "fd00::1", "255.255.255.255"}) {
    memberships_.SetKernelGroups({Ip(group)});
    EXPECT_EQ(link_.groups().size(), 2) << group;
  }
}

// RFC 4391 §4: IPv6 groups that differ in their scope share an MGID. The host leaves it with the
// last of them.
TEST_F(MembershipsTest, GroupsThatShareAnMgidAreJoinedOnce) {
  KernelJoins(Ip("ff05::99"));
  KernelJoins(Ip("ff08::99"));
  KernelLeaves(Ip("ff05::99"));
  EXPECT_THAT(link_.groups(), Contains(MgidText("ff12:601b:8001::99")));
  KernelLeaves(Ip("ff08::99"));
  EXPECT_THAT(link_.groups(), Not(Contains(MgidText("ff12:601b:8001::99"))));
}

TEST_F(MembershipsTest, GroupsAreKeptWhileTheLinkIsDownAndFollowItsScope) {
  link_.SetState(absl::nullopt);
  memberships_.OnLinkState();
  EXPECT_EQ(link_.groups().size(), 2);
  KernelJoins(Ip("239.1.2.3"));
  link_.SetState(ipoib::LinkState{{}, {PKey(0x8001), MulticastScope(5)}, 2044});
  memberships_.OnLinkState();
  EXPECT_THAT(link_.groups(),
              UnorderedElementsAre(MgidText("ff15:401b:8001::1"), MgidText("ff15:601b:8001::1"),
                                   MgidText("ff15:401b:8001::f01:203")));
}

TEST_F(MembershipsTest, RandomOperationsAgainstTheUnionOfSets) {
  std::mt19937_64 random(SeedForTest());
  std::set<IpAddr> kernel;
  std::set<Ipv6Addr> addresses;
  const auto draw_group = [&] {
    const uint32_t number = static_cast<uint32_t>(random() % 6);
    return random() % 2 == 0 ? IpAddr(Ipv4Addr(0xef00'0000 + number))
                             : Ip(absl::StrCat("ff0", 4 + number % 2, "::", number).c_str());
  };
  for (int step = 0; step < 3000; ++step) {
    if (random() % 2 == 0) {
      kernel = {draw_group(), draw_group()};
      memberships_.SetKernelGroups(kernel);
    } else {
      addresses = {Ipv6Addr::LinkLocal(InterfaceId(random() % 4)),
                   Ipv6Addr::LinkLocal(InterfaceId(random() % 4))};
      memberships_.SetAddresses(addresses);
    }
    std::set<std::string> expected = {all_hosts_, all_nodes_};
    for (const IpAddr& group : kernel) {
      expected.insert(ToMgid(group.is_ipv4() ? *GroupOf({PKey(0x8001)}, group.ipv4())
                                             : *GroupOf({PKey(0x8001)}, group.ipv6()))
                          .ToString());
    }
    for (const Ipv6Addr& address : addresses) {
      expected.insert(ToMgid(*GroupOf({PKey(0x8001)}, SolicitedNodeGroup(address))).ToString());
    }
    ASSERT_EQ(link_.groups(), expected) << "step " << step;
  }
}

}  // namespace
}  // namespace eoib::endpoint
