#include "gateway/translation/groups.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "gateway/election/hello.h"
#include "gateway/translation/addresses_for_test.h"
#include "vswitch/base/seed_for_test.h"

namespace eoib::translation {
namespace {

const IpoibLink kLink{PKey(0x8001), MulticastScope::LinkLocal()};

class GroupsListener final : public Sink {
 public:
  void ToEthernet(MacAddr, MacAddr, uint16_t, absl::Span<const uint8_t>) override {}
  void ToIpoib(IpoibType, absl::Span<const uint8_t>, const IpoibAddress&) override {}
  void ToIpoibGroup(IpoibType, absl::Span<const uint8_t>, const IpoibGroup&, bool) override {}
  void Listen(const IpoibGroup& group) override {
    EXPECT_TRUE(groups.insert(ToMgid(group)).second);
  }
  void Unlisten(const IpoibGroup& group) override { EXPECT_EQ(groups.erase(ToMgid(group)), 1u); }
  std::set<Mgid> groups;
};

Mgid MgidOf(const IpAddr& ip) {
  return ToMgid(ip.is_ipv6() ? *GroupOf(kLink, ip.ipv6()) : *GroupOf(kLink, ip.ipv4()));
}
Ipv4Addr Group4(uint32_t n) { return Ipv4Addr(0xef00'0000 + n); }

class GroupsTest : public testing::Test {
 protected:
  Counters counters_;
  GroupsListener listener_;
  absl::Time now_ = absl::UnixEpoch();
  Groups groups_{Options(), &counters_, &listener_, now_};
};

TEST_F(GroupsTest, WaitsForTheLink) {
  groups_.Report(Group4(1), true, now_);
  EXPECT_TRUE(listener_.groups.empty());
  groups_.SetLink(kLink);
  EXPECT_EQ(listener_.groups.size(), 16u);
  EXPECT_TRUE(listener_.groups.contains(MgidOf(Group4(1))));
  groups_.SetLink(absl::nullopt);
  groups_.SetLink(kLink);
  EXPECT_EQ(listener_.groups.size(), 16u) << "the interface has kept them";
}

// RFC 4391 §4: an MGID has the lower 80 bits of the IPv6 address.
TEST_F(GroupsTest, AddressesThatShareAGroup) {
  groups_.SetLink(kLink);
  groups_.Report(Ip6("ff05::77"), true, now_);
  groups_.Report(Ip6("ff02::77"), true, now_);
  EXPECT_EQ(groups_.size(), 1u);
}

TEST_F(GroupsTest, FixedGroupsStay) {
  groups_.SetLink(kLink);
  const auto fixed = listener_.groups;
  groups_.Report(Ip6("ff02::16"), true, now_);
  groups_.Report(Ip6("ff02::16"), false, now_);
  groups_.Report(Ipv4Addr::Broadcast(), true, now_);
  now_ += absl::Hours(1);
  groups_.Tick(now_);
  EXPECT_EQ(listener_.groups, fixed);
}

// RFC 4541 §2.1.2 (2): hosts listen to groups of 224.0.0.0/24 without a report, and a leave of one
// of them ends nothing.
TEST_F(GroupsTest, LocalGroupsNeedNoReport) {
  groups_.SetLink(kLink);
  for (const char* group : {"224.0.0.5", "224.0.0.6", "224.0.0.18", "224.0.0.102", "224.0.0.251"}) {
    EXPECT_TRUE(listener_.groups.contains(MgidOf(Ip4(group)))) << group;
    EXPECT_FALSE(groups_.Report(Ip4(group), false, now_)) << group;
    EXPECT_TRUE(listener_.groups.contains(MgidOf(Ip4(group)))) << group;
  }
  EXPECT_FALSE(listener_.groups.contains(MgidOf(Ip4("224.0.1.5"))));
}

// HelloProtocol joins it, whatever Ethernet hosts report; another address may map to it.
TEST_F(GroupsTest, TheGroupOfGatewaysIsNoneOfHosts) {
  groups_.SetLink(kLink);
  const auto fixed = listener_.groups;
  for (const IpAddr& shares : {IpAddr(gateway::kHelloGroup), IpAddr(Ip6("ff15::e01b:6777"))}) {
    groups_.Report(shares, true, now_);
    groups_.Report(shares, false, now_);
  }
  now_ += absl::Hours(1);
  groups_.Tick(now_);
  EXPECT_EQ(groups_.size(), 0u);
  EXPECT_EQ(listener_.groups, fixed);
}

TEST_F(GroupsTest, KnownNeighborsKeepTheirSolicitedNodeGroup) {
  groups_.SetLink(kLink);
  const Ipv6Addr one = Ip6("fd00::12:3456"), other = Ip6("fe80::12:3456");
  const Mgid group = MgidOf(SolicitedNodeGroup(one));
  groups_.AddNeighbor(one, now_);
  groups_.AddNeighbor(other, now_);
  const auto hour = [&] {
    for (int i = 0; i < 12; ++i) groups_.Tick(now_ += absl::Minutes(5));
    return listener_.groups.contains(group);
  };
  EXPECT_TRUE(hour());
  groups_.RemoveNeighbor(one);
  EXPECT_TRUE(hour());
  groups_.RemoveNeighbor(other);
  EXPECT_FALSE(hour());
}

TEST_F(GroupsTest, InventedGroupsAreSlowedDown) {
  groups_.SetLink(kLink);
  for (uint32_t n = 0; n < 10000; ++n) groups_.Report(Group4(n), true, now_);
  EXPECT_EQ(groups_.size(), 512u);
  EXPECT_EQ(counters_[Event::kListenLimited], 10000u - 512);
  groups_.Report(Group4(9999), true, now_ += absl::Seconds(1));
  EXPECT_TRUE(listener_.groups.contains(MgidOf(Group4(9999)))) << "reported again";
}

TEST_F(GroupsTest, SuppressedReports) {
  groups_.SetLink(kLink);
  groups_.Suppressed(Group4(1), now_);
  EXPECT_EQ(groups_.size(), 0u) << "no Ethernet host wants it";
  groups_.Report(Group4(1), true, now_);
  for (int i = 0; i < 10; ++i) {
    now_ += absl::Seconds(125);
    groups_.Suppressed(Group4(1), now_);
    groups_.Tick(now_);
  }
  EXPECT_EQ(groups_.size(), 1u);
}

// Random reports, leaves and time, compared with a map of the end of each group.
TEST_F(GroupsTest, Model) {
  std::mt19937_64 random(SeedForTest());
  Options options;
  options.max_groups = 24;
  Groups groups(options, &counters_, &listener_, now_);
  groups.SetLink(kLink);
  listener_.groups.clear();
  std::map<Mgid, absl::Time> model;
  for (int step = 0; step < 20000; ++step) {
    now_ += absl::Seconds(random() % 10);
    groups.Tick(now_);
    std::erase_if(model, [this](const auto& entry) { return entry.second <= now_; });
    const IpAddr ip = Group4(static_cast<uint32_t>(random() % 40));
    const bool wanted = random() % 3 != 0;
    const auto known = model.find(MgidOf(ip));
    ASSERT_EQ(groups.Report(ip, wanted, now_), !wanted && known != model.end());
    if (wanted) model[MgidOf(ip)] = now_ + options.membership_interval;
    if (!wanted && known != model.end())
      known->second = std::min(known->second, now_ + options.last_member_time);
    if (model.size() > options.max_groups) {
      const auto gone = std::find_if(model.begin(), model.end(), [&](const auto& entry) {
        return !listener_.groups.contains(entry.first);
      });
      ASSERT_NE(gone, model.end());
      ASSERT_NE(gone->first, MgidOf(ip));
      model.erase(gone);
    }
    std::set<Mgid> expected;
    for (const auto& [group, until] : model) expected.insert(group);
    ASSERT_EQ(listener_.groups, expected);
    ASSERT_GE(groups.NextDeadline(), now_);
  }
  EXPECT_GT(counters_[Event::kEvicted], 0u);
}

}  // namespace
}  // namespace eoib::translation
