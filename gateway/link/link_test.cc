// IPoIB interfaces on one subnet: each clause of RFC 4391 that Link and Channel obey.
#include "gateway/link/link.h"

#include <functional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "control/operator/port_commands.h"
#include "gateway/link/link_test_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/wire/ib/sa_mad.h"
#include "vswitch/wire/ip/arp.h"

namespace eoib::ipoib {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const IpoibLink kLink = {PKey(0x8001), MulticastScope::LinkLocal()};
const IpoibGroup kGroup = *GroupOf(kLink, Ipv4Addr(0xef01'0203));  // 239.1.2.3
const IpoibGroup kRouters = *GroupOf(kLink, Ipv4Addr(0xe000'0002));

// Whether `gateway groups` shows it as "member", "sender" or "listener", and as joined.
bool Shows(Node* node, const IpoibGroup& group, absl::string_view role) {
  const std::string line = absl::StrCat(ToMgid(group).ToString(), "  ", role, "\n");
  return absl::StrContains(GroupsText(node->link()->GroupsJson()), line);
}

class LinkTest : public testing::Test {
 protected:
  LinkTest() : subnet_(SubnetOptions()) {}

  static softhca::Subnet::Options SubnetOptions() {
    softhca::Subnet::Options options;
    options.config = softhca::ParseSubnetConfig(
                         "[[partition]]\npkey = 0x8001\nfull = [\"ALL\"]\n"
                         "[[partition]]\npkey = 0x8002\nfull = [\"a\"]\nlimited = [\"b\"]\n",
                         "test")
                         .value();
    return options;
  }
  Node* AddNode(const std::string& name, const Link::Options& options = {}) {
    nodes_.push_back(std::make_unique<Node>(&subnet_, name, &clock_, options));
    return nodes_.back().get();
  }
  // Brings two nodes up.
  void AddPair(const Link::Options& options = {}) {
    a_ = AddNode("a", options);
    ASSERT_TRUE(Until([this] { return a_->up(); }));
    b_ = AddNode("b", options);
    ASSERT_TRUE(Until([this] {
      return a_->channel()->state().has_value() && b_->channel()->state().has_value();
    }));
  }
  template <typename Predicate>
  bool Until(Predicate predicate) {
    return Eventually([&] {
      for (auto& node : nodes_) node->Turn();
      return predicate();
    });
  }
  // Waits until all packets under way have arrived: `to` hears a broadcast that is sent after them.
  void Settle(Node* from, Node* to) {
    const auto hears = [&](const std::string& text) {
      return std::any_of(to->heard.begin(), to->heard.end(),
                         [&](const Heard& heard) { return heard.payload == text; });
    };
    ASSERT_TRUE(Until([&] { return Broadcast(from, "settling"), hears("settling"); }))
        << "the switch knows both";
    Broadcast(from, "settled");
    ASSERT_TRUE(Until([&] { return hears("settled"); }));
    const auto is_ours = [](const Heard& heard) {
      return absl::StartsWith(heard.payload, "settl");
    };
    to->heard.erase(std::remove_if(to->heard.begin(), to->heard.end(), is_ours), to->heard.end());
  }
  static void Broadcast(Node* from, const std::string& text) {
    from->channel()->Broadcast(IpoibType::kArp, Node::Bytes(text));
    from->channel()->Flush();
  }

  FakeClock clock_;
  softhca::Subnet subnet_;
  std::vector<std::unique_ptr<Node>> nodes_;
  Node* a_ = nullptr;
  Node* b_ = nullptr;
};

// §5, §7: the record of the broadcast group makes the link.
TEST_F(LinkTest, TheBroadcastGroupMakesTheLink) {
  AddPair();
  const LinkState state = *a_->channel()->state();
  EXPECT_EQ(state.link, kLink);
  EXPECT_EQ(state.mtu, 4092u);
  EXPECT_THAT(LinkText(a_->link()->ToJson()),
              HasSubstr(absl::StrCat("QPN ", state.own.qpn().ToString())));
  EXPECT_THAT(LinkText(a_->link()->ToJson()),
              HasSubstr("ff12:401b:8001:0000:0000:0000:ffff:ffff: joined"));
  EXPECT_THAT(LinkText(a_->link()->ToJson()), HasSubstr("Q_Key 0x80000b1b"));
  Settle(a_, b_);
  Broadcast(a_, "to all");
  ASSERT_TRUE(Until([this] { return b_->heard.size() == 1; }));
  EXPECT_EQ(b_->heard[0].type, IpoibType::kArp);
  EXPECT_EQ(b_->heard[0].payload, "to all");
  EXPECT_TRUE(b_->heard[0].group);
  EXPECT_TRUE(b_->heard[0].broadcast);
  EXPECT_EQ(b_->heard[0].source, a_->address());
  EXPECT_THAT(a_->heard, IsEmpty())
      << "its own comes back from the switch, and not from the interface";
  EXPECT_GE(a_->dropped(DropReason::kOwnMulticast), 1u);
}

// §6: receivers accept unicast with a GRH and without. Without one, the sender's own ARP identifies
// it.
TEST_F(LinkTest, UnicastIsTakenWithAndWithoutAGrh) {
  for (const bool grh : {true, false}) {
    SCOPED_TRACE(grh ? "with" : "without");
    AddPair({.grh = grh});
    a_->Say("first", b_->address());
    ASSERT_TRUE(Until([this] { return b_->heard.size() == 1; }));
    EXPECT_FALSE(b_->heard[0].group);
    EXPECT_EQ(b_->heard[0].source.has_value(), grh);
    if (!grh) {
      const IpoibArp arp = {ArpOperation::kReply, a_->address(), Ipv4Addr(1), b_->address(),
                            Ipv4Addr(2)};
      std::vector<uint8_t> bytes(IpoibArp::kSize);
      ASSERT_TRUE(EncodeArp(arp, absl::MakeSpan(bytes)));
      a_->channel()->Send(IpoibType::kArp, bytes, b_->address());
      a_->Say("second", b_->address());
      ASSERT_TRUE(Until([this] { return b_->heard.size() == 3; }));
      EXPECT_EQ(b_->heard[1].source, a_->address());
    }
    EXPECT_EQ(b_->heard.back().source, a_->address());
    EXPECT_EQ(b_->channel()->counters().received_without_grh.value(), grh ? 0u : 3u);
    nodes_.clear();
  }
}

// §10: a listener is a full member, and creates the group; a sender joins an existing group
// send-only.
TEST_F(LinkTest, AGroupReachesItsListeners) {
  AddPair();
  b_->channel()->Listen(kGroup);
  ASSERT_TRUE(
      Until([this] { return absl::StrContains(GroupsText(b_->link()->GroupsJson()), "member"); }));
  ASSERT_TRUE(Until([this] {
    a_->SayTo(kGroup, "hello");
    return !b_->heard.empty();
  }));
  EXPECT_EQ(b_->heard[0].payload, "hello");
  EXPECT_TRUE(b_->heard[0].group);
  EXPECT_FALSE(b_->heard[0].broadcast);
  EXPECT_THAT(GroupsText(a_->link()->GroupsJson()), HasSubstr("sender"));

  Settle(a_, b_);
  b_->channel()->Unlisten(kGroup);
  ASSERT_TRUE(Until([this] { return GroupsText(b_->link()->GroupsJson()).empty(); }));
  b_->heard.clear();
  a_->SayTo(kGroup, "to no member");
  Settle(a_, b_);
  EXPECT_THAT(b_->heard, IsEmpty());
}

// §10: "else drop the packet". When a listener joins later, the sender finds the group without
// delay.
TEST_F(LinkTest, ToAGroupThatDoesNotExistNothingIsSent) {
  AddPair();
  a_->SayTo(kGroup, "to no member");
  ASSERT_TRUE(Until([this] { return a_->dropped(DropReason::kNoGroup) == 1; }));
  b_->channel()->Listen(kGroup);
  ASSERT_TRUE(Until([this] {
    a_->SayTo(kGroup, "to b");
    return !b_->heard.empty();
  })) << "the subnet tells that there is a group now (trap 66)";
}

// A missing answer of the SA says nothing about the group.
TEST_F(LinkTest, AGroupThatTheSaSaysNothingOfIsNotAbsent) {
  AddPair();
  a_->hca()->LoseMads([](const Mad&) { return true; });
  a_->SayTo(kGroup, "to no member", /*beyond_link=*/true);
  const absl::Time begin = clock_.Now();
  ASSERT_TRUE(Until([&] {
    return clock_.Advance(absl::Milliseconds(100)), clock_.Now() > begin + absl::Seconds(10);
  }));
  a_->SayTo(kGroup, "to no member", /*beyond_link=*/true);
  clock_.Advance(absl::Seconds(2));
  EXPECT_TRUE(Until([this] { return a_->dropped(DropReason::kGroupUnresolved) == 2; }));
  EXPECT_EQ(a_->channel()->counters().to_all_routers.value(), 0u);
  a_->hca()->LoseMads([](const Mad&) { return false; });
  b_->channel()->Listen(kGroup);
  EXPECT_TRUE(Until([&] {
    clock_.Advance(absl::Milliseconds(10));
    a_->SayTo(kGroup, "to b");
    return !b_->heard.empty();
  }));
}

// An IPv6 scan sends to as many groups as there are addresses.
TEST_F(LinkTest, ManyGroupsThatDoNotExistAreNeitherAStormNorRememberedForLong) {
  AddPair();
  const auto group = [](uint32_t number) {
    return *GroupOf(kLink, Ipv4Addr(0xef02'0000 + number));
  };
  const uint64_t before = a_->dropped(DropReason::kTooManyGroups);
  for (uint32_t i = 0; i < 1000; ++i) a_->SayTo(group(i), "to no member");
  EXPECT_EQ(a_->dropped(DropReason::kTooManyGroups) - before, 1000u - Channel::kNewGroupsPerSecond);
  const auto remembered = [this] {
    const std::string groups = GroupsText(a_->link()->GroupsJson());
    return std::count(groups.begin(), groups.end(), '\n');
  };
  ASSERT_TRUE(Until([&] { return remembered() == Channel::kNewGroupsPerSecond; }));
  // One of the groups comes to life, and others have been forgotten to make room.
  b_->channel()->Listen(group(0));
  ASSERT_TRUE(Until([&] {
    a_->SayTo(group(0), "to b");
    return !b_->heard.empty();
  }));
  clock_.Advance(2 * Channel::kAbsentGroupIdle);
  ASSERT_TRUE(Until([&] { return remembered() == 1; })) << GroupsText(a_->link()->GroupsJson());
}

// Listening has precedence over sending to a missing group, and waits for room instead of being
// lost.
TEST_F(LinkTest, ListenersFindRoomBesideSenders) {
  constexpr size_t kLimit = 8, kSenders = 6;
  AddPair({.groups_limit = kLimit});
  const auto group = [](uint32_t number) {
    return *GroupOf(kLink, Ipv4Addr(0xef02'0000 + number));
  };
  const auto rows = [this](const char* what) {
    size_t count = 0;
    for (absl::string_view row : absl::StrSplit(GroupsText(b_->link()->GroupsJson()), '\n'))
      count += absl::StrContains(row, what);
    return count;
  };
  for (uint32_t i = 0; i < 2 * kSenders; ++i) b_->SayTo(group(i), "to no member");
  ASSERT_TRUE(Until([&] { return rows("sender") == kSenders && rows("not asked") == 0; }));
  EXPECT_TRUE(Until([&] { return b_->dropped(DropReason::kTooManyGroups) == kSenders; }))
      << "they do not wait for anything";

  for (uint32_t i = 100; i < 100 + kLimit + 1; ++i) b_->channel()->Listen(group(i));
  ASSERT_TRUE(Until([&] {
    clock_.Advance(absl::Milliseconds(100));
    return rows("member") == kLimit && rows("not joined") == 0;
  })) << GroupsText(b_->link()->GroupsJson());
  const auto listens = [&](uint32_t number) {
    return rows(ToMgid(group(number)).ToString().c_str()) == 1;
  };
  uint32_t waits = 100;
  while (listens(waits)) ++waits;
  ASSERT_LT(waits, 100 + kLimit + 1);
  b_->channel()->Unlisten(group(waits == 100 ? 101 : 100));
  EXPECT_TRUE(Until([&] { return listens(waits); })) << "there is room for it now";
}

TEST_F(LinkTest, LocalGroupsFindRoomBesideSenders) {
  AddPair();
  Node* const gateway = AddNode("gateway", {.local_groups = true, .groups_limit = 8});
  ASSERT_TRUE(Until([&] { return gateway->up(); }));
  for (uint32_t i = 0; i < 7; ++i)
    gateway->SayTo(*GroupOf(kLink, Ipv4Addr(0xef02'0000 + i)), "to no member");
  ASSERT_TRUE(Until([&] { return gateway->dropped(DropReason::kTooManyGroups) == 1; }));
  const IpoibGroup local = *GroupOf(kLink, Ipv4Addr(0xe000'004d));
  b_->channel()->Listen(local);
  EXPECT_TRUE(Until([&] { return Shows(gateway, local, "listener"); }))
      << GroupsText(gateway->link()->GroupsJson());
}

// Duplicate address detection probes in the solicited-node group that the host has just begun to
// listen to.
TEST_F(LinkTest, AGroupThatIsListenedToIsReachedSoonBesideAScan) {
  AddPair();
  for (uint32_t i = 0; i < 1000; ++i)
    a_->SayTo(*GroupOf(kLink, Ipv4Addr(0xef02'0000 + i)), "to no member");
  EXPECT_FALSE(a_->channel()->Reaches(kGroup)) << "neither listened to nor asked for";
  a_->channel()->Listen(kGroup);
  EXPECT_FALSE(a_->channel()->Reaches(kGroup)) << "no answer has come yet";
  ASSERT_TRUE(Until([this] { return a_->channel()->Reaches(kGroup); }));
  b_->channel()->Listen(kGroup);
  ASSERT_TRUE(
      Until([this] { return absl::StrContains(GroupsText(b_->link()->GroupsJson()), "member"); }));
  Settle(a_, b_);
  a_->SayTo(kGroup, "to the members");
  ASSERT_TRUE(Until([this] { return b_->heard.size() == 1; }));
}

// Its state as a sender does not show whether it has joined as a member.
TEST_F(LinkTest, ASenderThatBeginsToListenHasToJoinFirst) {
  AddPair();
  b_->channel()->Listen(kGroup);
  ASSERT_TRUE(Until([this] {
    return a_->channel()->Reaches(kGroup) || (clock_.Advance(absl::Milliseconds(100)), false);
  }));
  a_->channel()->Listen(kGroup);
  EXPECT_FALSE(a_->channel()->Reaches(kGroup));
  ASSERT_TRUE(Until([this] { return a_->channel()->Reaches(kGroup); }));
  EXPECT_THAT(GroupsText(a_->link()->GroupsJson()), HasSubstr("member"));
  EXPECT_TRUE(a_->channel()->Reaches(BroadcastGroup(kLink)));
  a_->channel()->Listen(BroadcastGroup(kLink));
  EXPECT_TRUE(a_->channel()->Reaches(BroadcastGroup(kLink)))
      << "the link always has it, without Listen";
}

// The SA does not answer the Delete, which is repeated; meanwhile the host wants to be in the group
// again.
TEST_F(LinkTest, AGroupLeftAndJoinedAgainIsJoined) {
  AddPair();
  const auto is = [this](const char* what) {
    return [this, what] {
      return GroupsText(b_->link()->GroupsJson()) ==
             absl::StrCat(ToMgid(kGroup).ToString(), "  ", what, "\n");
    };
  };
  b_->channel()->Listen(kGroup);
  ASSERT_TRUE(Until(is("member")));
  const auto asks = [](MadMethod method) {
    return [method](const Mad& mad) {
      const absl::StatusOr<SaHeader> header = DecodeSaHeader(mad);
      return header.ok() && header->method == method &&
             header->attribute == SaAttribute::kMcMemberRecord;
    };
  };
  int joins = 0;
  b_->hca()->LoseMads([&joins, is_leave = asks(MadMethod::kDelete),
                       is_join = asks(MadMethod::kSet)](const Mad& mad) {
    joins += is_join(mad);
    return is_leave(mad);
  });
  b_->channel()->Unlisten(kGroup);
  b_->channel()->Listen(kGroup);
  ASSERT_TRUE(
      Until([&] { return absl::StrContains(GroupsText(b_->link()->GroupsJson()), "not joined"); }));
  for (int i = 0; i < 10; ++i) b_->Turn();
  EXPECT_EQ(joins, 0) << "the SA might hear of the leaving afterwards";
  b_->hca()->LoseMads([](const Mad&) { return false; });
  ASSERT_TRUE(Until([&] {
    clock_.Advance(absl::Milliseconds(100));
    return is("member")();
  }));
  Settle(a_, b_);
  ASSERT_TRUE(Until([this] {
    a_->SayTo(kGroup, "hello");
    return !b_->heard.empty();
  }));
}

// §10: packets for beyond the link go to all routers.
TEST_F(LinkTest, PacketsBeyondTheLinkWithoutAGroupGoToRouters) {
  AddPair();
  a_->SayTo(kGroup, "no router either", true);
  ASSERT_TRUE(Until([this] { return a_->dropped(DropReason::kNoGroup) == 1; }));
  b_->channel()->Listen(kRouters);
  ASSERT_TRUE(Until([this] {
    a_->SayTo(kGroup, "for the router", true);
    return !b_->heard.empty();
  }));
  EXPECT_EQ(b_->heard[0].payload, "for the router");
  EXPECT_GE(a_->channel()->counters().to_all_routers.value(), 1u);
}

// §11: promiscuous multicast.
TEST_F(LinkTest, ARouterHearsAllGroups) {
  AddPair();
  b_->channel()->Listen(kGroup);
  ASSERT_TRUE(
      Until([this] { return absl::StrContains(GroupsText(b_->link()->GroupsJson()), "member"); }));
  Node* const router = AddNode("router", {.all_groups = true});
  const IpoibGroup later = *GroupOf(kLink, Ipv4Addr(0xef01'0204));
  ASSERT_TRUE(Until([&] {
    return absl::StrContains(GroupsText(router->link()->GroupsJson()), "listener");
  })) << "those that there are";
  b_->channel()->Listen(later);
  for (const IpoibGroup& group : {kGroup, later}) {
    router->heard.clear();
    EXPECT_TRUE(Until([&] {
      a_->SayTo(group, "anything");
      return !router->heard.empty();
    })) << group.ipv4.ToString();
  }
}

// Trap 66 may have been lost, and the first query may have failed.
TEST_F(LinkTest, ARouterFindsGroupsWithoutBeingTold) {
  AddPair();
  b_->channel()->Listen(kGroup);
  ASSERT_TRUE(
      Until([this] { return absl::StrContains(GroupsText(b_->link()->GroupsJson()), "member"); }));
  bool loses = true;
  Node* const router = AddNode("router", {.all_groups = true});
  router->hca()->LoseMads([&loses](const Mad& mad) {
    const absl::StatusOr<SaHeader> header = DecodeSaHeader(mad);
    const bool is_table = header.ok() && header->method == MadMethod::kGetTable;
    return (loses && is_table) || (header.ok() && header->attribute == SaAttribute::kInformInfo);
  });
  const auto finds = [&](const IpoibGroup& group) {
    return Until([&] {
      clock_.Advance(absl::Milliseconds(100));
      return absl::StrContains(GroupsText(router->link()->GroupsJson()),
                               absl::StrCat(ToMgid(group).ToString(), "  listener\n"));
    });
  };
  const absl::Time begin = clock_.Now();
  ASSERT_TRUE(Until([&] {
    return clock_.Advance(absl::Milliseconds(100)), clock_.Now() > begin + absl::Seconds(10);
  }));
  EXPECT_EQ(GroupsText(router->link()->GroupsJson()), "") << "it has been lost";
  loses = false;
  EXPECT_TRUE(finds(kGroup));
  const IpoibGroup later = *GroupOf(kLink, Ipv4Addr(0xef01'0204));
  b_->channel()->Listen(later);
  EXPECT_TRUE(finds(later));
  router->hca()->LoseMads([](const Mad&) { return false; });
}

TEST_F(LinkTest, ARouterForgetsAGroupThatIsGone) {
  AddPair();
  b_->channel()->Listen(kGroup);
  ASSERT_TRUE(
      Until([this] { return absl::StrContains(GroupsText(b_->link()->GroupsJson()), "member"); }));
  Node* const router = AddNode("router", {.all_groups = true});
  ASSERT_TRUE(Until(
      [&] { return absl::StrContains(GroupsText(router->link()->GroupsJson()), "listener"); }));
  b_->channel()->Unlisten(kGroup);
  ASSERT_TRUE(Until([&] {
    clock_.Advance(absl::Milliseconds(100));
    return GroupsText(router->link()->GroupsJson()).empty();
  }));
}

TEST_F(LinkTest, ARouterHearsTheGroupsThatItSendsTo) {
  AddPair();
  b_->channel()->Listen(kGroup);
  ASSERT_TRUE(
      Until([this] { return absl::StrContains(GroupsText(b_->link()->GroupsJson()), "member"); }));
  Node* const router = AddNode("router", {.all_groups = true});
  ASSERT_TRUE(Until(
      [&] { return absl::StrContains(GroupsText(router->link()->GroupsJson()), "listener"); }));
  ASSERT_TRUE(Until([&] {
    router->SayTo(kGroup, "of the router");
    return !b_->heard.empty();
  }));
  Settle(a_, router);
  router->heard.clear();
  EXPECT_TRUE(Until([&] {
    a_->SayTo(kGroup, "anything");
    return !router->heard.empty();
  })) << GroupsText(router->link()->GroupsJson());
}

// RFC 4541 §2.1.2 (2): a gateway hears the groups of 224.0.0.0/24 that there are, also while it
// sends to them, and no others.
TEST_F(LinkTest, AGatewayHearsLocalGroups) {
  AddPair();
  const auto group = [](const char* ip) { return *GroupOf(kLink, *Ipv4Addr::Parse(ip)); };
  const IpoibGroup local = group("224.0.0.77"), last = group("224.0.0.255"),
                   wider = group("224.0.1.0");
  for (const IpoibGroup& there : {local, wider, kGroup}) {
    b_->channel()->Listen(there);
    ASSERT_TRUE(Until([&] { return Shows(b_, there, "member"); }));
  }
  Node* const gateway = AddNode("gateway", {.local_groups = true});
  ASSERT_TRUE(Until([&] { return Shows(gateway, local, "listener"); })) << "it was there before";
  b_->channel()->Listen(last);
  ASSERT_TRUE(Until([&] { return Shows(gateway, last, "listener"); })) << "it was created later";
  for (const bool sends : {false, true}) {
    SCOPED_TRACE(sends);
    for (const IpoibGroup& to : {local, last}) {
      b_->heard.clear();
      ASSERT_TRUE(!sends ||
                  Until([&] { return gateway->SayTo(to, "of the gateway"), !b_->heard.empty(); }));
      gateway->heard.clear();
      EXPECT_TRUE(Until([&] { return a_->SayTo(to, "of a host"), !gateway->heard.empty(); }))
          << to.ipv4.ToString();
    }
  }
  Settle(a_, gateway);
  gateway->heard.clear();
  for (const IpoibGroup& to : {wider, kGroup}) {
    b_->heard.clear();
    ASSERT_TRUE(Until([&] { return a_->SayTo(to, "of a host"), !b_->heard.empty(); }));
  }
  Settle(a_, gateway);
  EXPECT_THAT(gateway->heard, IsEmpty());
  for (const IpoibGroup& gone : {local, last}) b_->channel()->Unlisten(gone);
  EXPECT_TRUE(Until([&] {
    return clock_.Advance(absl::Minutes(1)), GroupsText(gateway->link()->GroupsJson()).empty();
  }));
}

// A group that the gateway listened to for a reporting host remains overheard after that.
TEST_F(LinkTest, AGatewayHearsALocalGroupAfterItsOwnMembership) {
  AddPair();
  const IpoibGroup local = *GroupOf(kLink, Ipv4Addr(0xe000'004d));
  Node* const gateway = AddNode("gateway", {.local_groups = true});
  ASSERT_TRUE(Until([&] { return gateway->up(); }));
  for (Node* node : {gateway, b_}) {
    node->channel()->Listen(local);
    ASSERT_TRUE(Until([&] { return Shows(node, local, "member"); }));
  }
  gateway->channel()->Unlisten(local);
  EXPECT_TRUE(Until([&] { return Shows(gateway, local, "listener"); }));
}

// §9.4: a changed QPN must not be cached anywhere.
TEST_F(LinkTest, APeerWithAnotherQueuePairIsReachedByItsNewAddress) {
  AddPair();
  a_->Say("one", b_->address());
  ASSERT_TRUE(Until([this] { return b_->heard.size() == 1; }));
  const IpoibAddress before = b_->address();
  nodes_.pop_back();
  b_ = AddNode("b");
  ASSERT_TRUE(Until([this] { return b_->channel()->state().has_value(); }));
  ASSERT_NE(b_->address(), before);
  EXPECT_EQ(b_->address().gid(), before.gid());
  a_->Say("lost", before);
  ASSERT_TRUE(Until([this] {
    a_->Say("two", b_->address());
    return !b_->heard.empty();
  }));
  EXPECT_EQ(b_->heard[0].payload, "two");
}

// More events than the queue holds: the link goes on, and sends the rest when there is room.
TEST_F(LinkTest, AStoppedChannelDoesNotStopItsLink) {
  AddPair();
  b_->StandStill();
  const auto group = [](uint32_t number) {
    return *GroupOf(kLink, Ipv4Addr(0xef02'0000 + number));
  };
  constexpr uint32_t kMany = 300;
  const auto answered = [&](int count) {
    const std::string groups = GroupsText(b_->link()->GroupsJson());
    return std::count(groups.begin(), groups.end(), '\n') == count &&
           !absl::StrContains(groups, "not asked");
  };
  for (uint32_t i = 0; i < kMany; ++i) {
    if (i == Channel::kNewGroupsPerSecond) clock_.Advance(absl::Seconds(1));
    b_->SayTo(group(i), "to no member");
  }
  ASSERT_TRUE(Until([&] { return answered(kMany); }));
  clock_.Advance(absl::Milliseconds(10));
  EXPECT_LE(b_->link()->NextDeadline(), clock_.Now()) << "it is time to look whether there is room";
  for (auto& node : nodes_) node->Turn();
  EXPECT_GT(b_->link()->NextDeadline(), clock_.Now()) << "and not yet again";

  b_->channel()->Work();
  clock_.Advance(absl::Milliseconds(10));
  for (auto& node : nodes_) node->Turn();
  b_->channel()->Work();
  const uint64_t before = b_->dropped(DropReason::kNoGroup);
  for (uint32_t i = 0; i < kMany; ++i) b_->SayTo(group(i), "to no member");
  EXPECT_EQ(b_->dropped(DropReason::kNoGroup) - before, kMany)
      << "all of them are known to be absent";
}

struct FailureRow {
  const char* description;
  std::function<void(FaultyHca*)> fault;
  bool arrives = true;  // a datagram for the queue pair follows the fault
};

// No event reports the failure, and the channel sends no request.
TEST_F(LinkTest, AFailedQueuePairIsReplaced) {
  const FailureRow rows[] = {
      {"a receive failed",
       [](FaultyHca* hca) { hca->SpoilReceive(IBV_WC_LOC_PROT_ERR, IBV_QPS_ERR); }},
      {"receives were flushed",
       [](FaultyHca* hca) { hca->SpoilReceive(IBV_WC_WR_FLUSH_ERR, IBV_QPS_ERR); }},
      {"a completion queue was overrun, and nothing arrives",
       [](FaultyHca* hca) { hca->OverrunQueues(); }, false},
  };
  AddPair();
  for (const FailureRow& row : rows) {
    SCOPED_TRACE(row.description);
    Settle(a_, b_);
    const Qpn before = b_->address().qpn();
    row.fault(b_->hca());
    if (row.arrives) Broadcast(a_, "to all");
    ASSERT_TRUE(Until([&] {
      clock_.Advance(absl::Milliseconds(100));
      return b_->channel()->state().has_value() && b_->address().qpn() != before;
    }));
  }
  Settle(a_, b_);
}

TEST_F(LinkTest, AChangeOfLidsClearsTheSourceTable) {
  AddPair({.grh = false});
  Settle(a_, b_);
  const auto say = [this] {
    b_->heard.clear();
    a_->Say("who", b_->address());
    EXPECT_TRUE(Until([this] { return b_->heard.size() == 1; }));
    return b_->heard[0].source;
  };
  EXPECT_EQ(say(), a_->address()) << "by its broadcast";
  ASSERT_TRUE(subnet_.Reregister("b").ok());
  EXPECT_TRUE(Until([&] { return !say().has_value(); }));
}

TEST_F(LinkTest, PacketsThatCannotBeSentAreCounted) {
  AddPair();
  a_->Say(std::string(4093, 'x'), b_->address());
  EXPECT_EQ(a_->dropped(DropReason::kTooLarge), 1u);
  a_->Say(std::string(4092, 'x'), b_->address());
  ASSERT_TRUE(Until([this] { return b_->heard.size() == 1; }));
  EXPECT_EQ(b_->heard[0].payload.size(), 4092u);
  // Packets to an unknown peer wait a second, and only a limited number of them.
  Gid absent = b_->address().gid();
  absent = Gid::FromPrefixAndGuid(absent.prefix(), Guid(absent.guid().value() + 77));
  for (size_t i = 0; i < HeldFrames::kPerKey + 1; ++i) a_->Say("x", {Qpn(5), absent});
  EXPECT_EQ(a_->dropped(DropReason::kUnresolved), 1u);
  a_->Turn();
  clock_.Advance(absl::Seconds(2));
  ASSERT_TRUE(
      Until([this] { return a_->dropped(DropReason::kUnresolved) == HeldFrames::kPerKey + 1; }));
}

TEST_F(LinkTest, TheLinkGoesDownAndComesBack) {
  AddPair();
  const int before = a_->state_changes;
  ASSERT_TRUE(subnet_.SetLink("a", false).ok());
  ASSERT_TRUE(Until([this] { return !a_->channel()->state().has_value(); }));
  EXPECT_EQ(a_->state_changes, before + 1);
  a_->Say("x", {Qpn(5), Gid()});
  EXPECT_EQ(a_->dropped(DropReason::kLinkDown), 1u);
  ASSERT_TRUE(subnet_.SetLink("a", true).ok());
  ASSERT_TRUE(Until([this] { return a_->channel()->state().has_value(); }));
  ASSERT_TRUE(Until([this] {
    a_->Say("back", b_->address());
    return !b_->heard.empty();
  }));
}

// §10: "The MGID MUST use the same P_Key, Q_Key, SL, MTU, and HopLimit as those used in the
// broadcast-GID."
TEST_F(LinkTest, GroupsFollowTheBroadcastGroup) {
  a_ = AddNode("a");
  ASSERT_TRUE(Until([this] { return a_->channel()->state().has_value(); }));
  a_->channel()->Listen(kGroup);
  const auto hop_limit = [this]() -> int {
    for (const auto& group : subnet_.Groups()) {
      if (group.record.mgid == ToMgid(kGroup)) return group.record.hop_limit;
    }
    return -1;
  };
  ASSERT_TRUE(Until([&] { return hop_limit() == 0; }));
  // After a restart, the subnet manager hears another host first.
  bool late = true;
  a_->hca()->LoseMads([&late](const Mad&) { return late; });
  Link::Options options;
  options.group.hop_limit = 5;
  subnet_.RestartSm();
  b_ = AddNode("b", options);
  ASSERT_TRUE(Until([this] { return b_->channel()->state().has_value(); }));
  late = false;
  EXPECT_TRUE(Until([&] {
    clock_.Advance(absl::Milliseconds(100));
    return hop_limit() == 5;
  }));
  a_->hca()->LoseMads([](const Mad&) { return false; });
}

TEST_F(LinkTest, APortThatGoesDownDoesNotHideWhyThereIsNoLink) {
  AddPair();
  ASSERT_TRUE(subnet_.RemoveFromPartition(PKey(0x8001), "a").ok());
  ASSERT_TRUE(Until(
      [this] { return absl::StrContains(LinkText(a_->link()->ToJson()), "not in its table"); }));
  ASSERT_TRUE(subnet_.SetLink("a", false).ok());
  ASSERT_TRUE(Until(
      [this] { return absl::StrContains(PortText(PortJson(*a_->fabric())), "the port is down"); }));
  for (int i = 0; i < 10; ++i) a_->Turn();
  EXPECT_THAT(LinkText(a_->link()->ToJson()), HasSubstr("not in its table"));
}

// A limited member cannot create the broadcast group; it joins as soon as a full member has created
// it.
TEST_F(LinkTest, ALimitedMemberWaitsForTheGroup) {
  b_ = AddNode("b", {.pkey = PKey(0x8002)});
  ASSERT_TRUE(Until([this] {
    return absl::StrContains(LinkText(b_->link()->ToJson()), "not joined: ") &&
           !absl::StrContains(LinkText(b_->link()->ToJson()), "not asked");
  }));
  EXPECT_FALSE(b_->up());
  a_ = AddNode("a", {.pkey = PKey(0x8002)});
  ASSERT_TRUE(Until([this] {
    clock_.Advance(absl::Milliseconds(100));
    return a_->up() && b_->up();
  }));
}

}  // namespace
}  // namespace eoib::ipoib
