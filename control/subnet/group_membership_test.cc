#include "control/subnet/group_membership.h"

#include <net/if.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "control/subnet/fake_sa_for_test.h"
#include "control/subnet/refresh_depth.h"
#include "control/subnet/subscriptions.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/fabric/fake_verbs.h"
#include "vswitch/wire/mgid.h"

namespace eoib {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class GroupMembershipTest : public testing::Test {
 protected:
  std::unique_ptr<UdEndpoint> MakeEndpoint() {
    return UdEndpoint::Create(&hca_, hca_.pd(), pool_.get(), &handles_,
                              {.receive_depth = 4, .send_depth = 4})
        .value();
  }
  void MakeGroup(PKey pkey) {
    group_ = std::make_unique<GroupMembership>(
        GroupMembership::Options{mgid_, pkey, QKey(0x8000'8001)}, &hca_, &client_, &handles_,
        endpoint_.get(), &clock_, [this](const absl::optional<GroupMembership::Joined>& joined) {
          ++(joined.has_value() ? joins_ : losses_);
        });
    group_->Join();
    Pump();
  }
  void Pump() {
    while (!sa_.idle()) client_.Run();
  }
  void Advance(absl::Duration by) {
    clock_.Advance(by);
    client_.Run();
    group_->Run();
    Pump();
  }
  bool Attached(Mlid mlid) const {
    const auto found = hca_.qp()->groups.find(mgid_.gid());
    return found != hca_.qp()->groups.end() && found->second == mlid.value();
  }
  size_t Joins() const { return sa_.Asked(MadMethod::kSet, SaAttribute::kMcMemberRecord); }
  // Creates the group, as another full member would.
  void Create() {
    McMemberRecord record;
    record.mgid = mgid_;
    record.mlid = Mlid(0xc010);
    record.mtu = 5;
    record.pkey = PKey(0x8001);
    sa_.groups[mgid_] = record;
  }

  const Mgid mgid_ = FloodMgid(PKey(0x8001));
  FakeClock clock_;
  FakeSa sa_;
  SaClient client_{&sa_, &clock_, {}};
  FakeHca hca_;
  AddressHandles handles_{&hca_, hca_.pd()};
  std::unique_ptr<BufferPool> pool_ = BufferPool::Create(&hca_, hca_.pd(), 8, 4092).value();
  std::unique_ptr<UdEndpoint> endpoint_ = MakeEndpoint();
  std::unique_ptr<GroupMembership> group_;
  int joins_ = 0, losses_ = 0;
};

TEST_F(GroupMembershipTest, LimitedMemberJoinsWhenATrapReportsTheGroup) {
  MakeGroup(PKey(0x0001));
  for (int i = 0; i < 100; ++i) Advance(absl::Milliseconds(100));
  EXPECT_EQ(joins_, 0);
  EXPECT_GT(group_->NextDeadline(), clock_.Now() + absl::Seconds(1)) << "it has backed off";
  Create();
  group_->OnCreated();
  Pump();
  EXPECT_EQ(joins_, 1);
  EXPECT_TRUE(Attached(Mlid(0xc010)));
}

// The report arrives before an older refusal.
TEST_F(GroupMembershipTest, TrapDuringAPendingRefusalCausesARetry) {
  MakeGroup(PKey(0x0001));
  Advance(absl::Seconds(1));
  clock_.Advance(absl::Seconds(20));
  group_->Run();
  Create();
  group_->OnCreated();
  Pump();
  EXPECT_EQ(joins_, 1);
}

TEST_F(GroupMembershipTest, FollowsAChangedMlid) {
  MakeGroup(PKey(0x8001));
  ASSERT_TRUE(Attached(Mlid(0xc010)));
  sa_.groups[mgid_].mlid = Mlid(0xc011);  // as a restarted SM might give it
  group_->Join();
  Pump();
  EXPECT_TRUE(Attached(Mlid(0xc011)));
  EXPECT_EQ(group_->joined()->mlid, Mlid(0xc011));
  // After a failure the membership is unchanged.
  sa_.groups[mgid_].mlid = Mlid(0xc012);
  hca_.FailNext("attach_mcast", ENOMEM);
  group_->Join();
  Pump();
  EXPECT_TRUE(Attached(Mlid(0xc011)));
  EXPECT_EQ(group_->joined()->mlid, Mlid(0xc011));
}

// After a long silence of the subnet manager, the join must not wait for a long backoff.
TEST_F(GroupMembershipTest, TimeoutsDoNotBackOff) {
  sa_.silent = true;
  MakeGroup(PKey(0x8001));
  for (int i = 0; i < 1200; ++i) Advance(absl::Milliseconds(100));
  EXPECT_EQ(joins_, 0);
  sa_.silent = false;
  const absl::Time back = clock_.Now();
  while (joins_ == 0 && clock_.Now() < back + absl::Minutes(1)) Advance(absl::Milliseconds(100));
  EXPECT_LE(clock_.Now(), back + absl::Milliseconds(4200))
      << "the last of a join's repetitions waits 4 s";
}

TEST_F(GroupMembershipTest, TimeoutsDoNotEndAMembership) {
  sa_.silent = true;
  MakeGroup(PKey(0x0001));
  for (int i = 0; i < 100; ++i) Advance(absl::Milliseconds(100));
  EXPECT_THAT(group_->trouble(), HasSubstr("no answer"));
  EXPECT_FALSE(group_->refused());
  sa_.silent = false;
  for (int i = 0; i < 100; ++i) Advance(absl::Milliseconds(100));
  EXPECT_TRUE(group_->refused());
  Create();
  group_->OnCreated();
  Pump();
  EXPECT_FALSE(group_->refused());
}

TEST_F(GroupMembershipTest, TrapAboutTheOwnGroupIsIgnored) {
  MakeGroup(PKey(0x8001));
  EXPECT_EQ(joins_, 1);
  const size_t asked = Joins();
  group_->OnCreated();
  Pump();
  EXPECT_EQ(Joins(), asked);
}

TEST_F(GroupMembershipTest, RecreatesADeletedGroupWithoutAGap) {
  MakeGroup(PKey(0x8001));
  sa_.groups.clear();
  group_->OnDeleted();
  Pump();
  EXPECT_EQ(sa_.groups.size(), 1u);
  EXPECT_EQ(joins_, 2);
  EXPECT_EQ(losses_, 0);
}

TEST_F(GroupMembershipTest, LimitedMemberStaysWhileAFullMemberRecreatesTheGroup) {
  Create();
  MakeGroup(PKey(0x0001));
  sa_.groups.clear();
  group_->Join();
  Pump();
  EXPECT_EQ(losses_, 0);
  Create();
  group_->OnCreated();
  Pump();
  EXPECT_EQ(losses_, 0);
  EXPECT_EQ(group_->trouble(), "");

  sa_.groups.clear();
  group_->Join();
  Pump();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(losses_, 0) << i;
    Advance(absl::Milliseconds(100));
  }
  EXPECT_EQ(losses_, 1) << "and does not believe for ever";
}

TEST_F(GroupMembershipTest, ConfirmedMembershipChangesNothing) {
  MakeGroup(PKey(0x8001));
  const AhIndex ah = group_->joined()->ah;
  group_->Join();
  Pump();
  EXPECT_EQ(group_->joined()->ah, ah);
  EXPECT_EQ(losses_, 0);
}

TEST_F(GroupMembershipTest, RenewReplacesHandleAndAttachment) {
  MakeGroup(PKey(0x8001));
  const AhIndex ah = group_->joined()->ah;
  hca_.FailNext("attach_mcast", EIO);
  handles_.Renew();
  group_->Renew();
  Pump();
  EXPECT_THAT(group_->trouble(), HasSubstr("attach QP")) << "so it was attached again";
  Advance(absl::Milliseconds(100));
  EXPECT_EQ(group_->trouble(), "");
  EXPECT_TRUE(Attached(Mlid(0xc010)));
  EXPECT_NE(group_->joined()->ah, ah);
  EXPECT_EQ(losses_, 0);
}

TEST_F(GroupMembershipTest, AttachesAReplacedQueuePairAtOnce) {
  MakeGroup(PKey(0x8001));
  sa_.silent = true;
  std::unique_ptr<UdEndpoint> other = MakeEndpoint();
  group_->Rebind(other.get(), PKey(0x8001));
  EXPECT_TRUE(Attached(Mlid(0xc010)));
  EXPECT_EQ(losses_, 0);
  endpoint_ = std::move(other);
}

TEST_F(GroupMembershipTest, WaitsWithoutAQueuePair) {
  MakeGroup(PKey(0x8001));
  group_->Lost("the P_Key was withdrawn");
  group_->Rebind(nullptr, PKey(0x8001));
  const size_t asked = Joins();
  group_->Join();
  group_->OnDeleted();
  group_->OnCreated();
  Advance(absl::Minutes(1));
  EXPECT_EQ(Joins(), asked);
  EXPECT_EQ(group_->trouble(), "the P_Key was withdrawn");
  group_->Rebind(endpoint_.get(), PKey(0x0001));
  group_->Renew();
  Pump();
  EXPECT_EQ(joins_, 2);
}

// ---- An SA that answers wrongly.

// Returns a function that applies `edit` to the group record in an answer.
std::function<void(Mad*)> WithRecord(std::function<void(McMemberRecord*)> edit) {
  return [edit = std::move(edit)](Mad* mad) {
    if (DecodeSaHeader(*mad)->status != 0) return;
    McMemberRecord record = *DecodeMcMemberRecord(SaRecord(*mad));
    edit(&record);
    EncodeMcMemberRecord(record, SaRecord(mad));
  };
}
std::function<void(Mad*)> WithHeader(std::function<void(SaHeader*)> edit) {
  return [edit = std::move(edit)](Mad* mad) {
    const McMemberRecord record = *DecodeMcMemberRecord(SaRecord(*mad));
    SaHeader header = *DecodeSaHeader(*mad);
    edit(&header);
    EncodeSaHeader(header, mad);
    EncodeMcMemberRecord(record, SaRecord(mad));
  };
}

TEST_F(GroupMembershipTest, ReportsAWrongAnswerAndDoesNotJoin) {
  struct Row {
    const char* description;
    std::function<void(Mad*)> spoil;
    const char* trouble;
  };
  const Row rows[] = {
      {"MTU 0", WithRecord([](McMemberRecord* r) { r->mtu = 0; }), "invalid MTU code 0"},
      {"MTU 8192", WithRecord([](McMemberRecord* r) { r->mtu = 6; }), "invalid MTU code 6"},
      {"a rate that is reserved", WithRecord([](McMemberRecord* r) { r->rate = 1; }),
       "invalid rate code 1"},
      {"a rate beyond all", WithRecord([](McMemberRecord* r) { r->rate = 63; }),
       "invalid rate code 63"},
      {"a unicast LID", WithRecord([](McMemberRecord* r) { r->mlid = Mlid(5); }),
       "MLID 0x5, which is not a multicast LID"},
      {"no MLID", WithRecord([](McMemberRecord* r) { r->mlid = Mlid(0); }),
       "which is not a multicast LID"},
      {"the permissive LID", WithRecord([](McMemberRecord* r) { r->mlid = Mlid(0xffff); }),
       "which is not a multicast LID"},
      {"another partition", WithRecord([](McMemberRecord* r) { r->pkey = PKey(0x8002); }),
       "P_Key 0x8002"},
      {"another group", WithRecord([](McMemberRecord* r) { r->mgid = FloodMgid(PKey(0x8002)); }),
       "no answer"},
      {"another transaction", WithHeader([](SaHeader* h) { h->tid += 1000; }), "no answer"},
      {"another attribute",
       WithHeader([](SaHeader* h) { h->attribute = SaAttribute::kPathRecord; }), "no answer"},
      {"no response at all", WithHeader([](SaHeader* h) { h->method = MadMethod::kSet; }),
       "no answer"},
      {"busy for ever", WithHeader([](SaHeader* h) { h->status = 1; }), "no answer"},
      {"no resources", WithHeader([](SaHeader* h) { h->status = 0x0100; }), "no resources"},
      {"a status of no name", WithHeader([](SaHeader* h) { h->status = 0x7f00; }), "0x7f00"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.description);
    Create();
    sa_.spoil = row.spoil;
    joins_ = 0;
    MakeGroup(PKey(0x8001));
    for (int i = 0; i < 100 && absl::StrContains(group_->trouble(), "not asked"); ++i)
      Advance(absl::Milliseconds(100));
    EXPECT_EQ(joins_, 0);
    EXPECT_FALSE(Attached(Mlid(0xc010)));
    EXPECT_THAT(group_->trouble(), HasSubstr(row.trouble));
    sa_.spoil = [](Mad*) {};
    for (int i = 0; i < 100 && joins_ == 0; ++i) Advance(absl::Milliseconds(100));
    EXPECT_EQ(joins_, 1) << "it has gone on trying";
    EXPECT_EQ(group_->trouble(), "");
    bool left = false;
    group_->Leave([&left] { left = true; });
    Pump();
    EXPECT_TRUE(left);
  }
}

// OpenSM refuses a port whose MTU or rate is too small for the group with "request invalid",
// without the reason.
TEST_F(GroupMembershipTest, ExplainsARefusalByTheGroupsRecord) {
  const auto refuse_joins = [](Mad* mad) {
    SaHeader header = *DecodeSaHeader(*mad);
    if (header.method != MadMethod::kGetResp || header.component_mask == mcm::kMgid) return;
    header.status = static_cast<uint16_t>(SaStatus::kRequestInvalid);
    EncodeSaHeader(header, mad);
  };
  sa_.spoil = refuse_joins;
  Create();
  hca_.port_attr.active_mtu = IBV_MTU_2048;
  MakeGroup(PKey(0x8001));
  EXPECT_THAT(group_->trouble(), AllOf(HasSubstr("request invalid"),
                                       HasSubstr("the group's MTU is 4096 and this port's is 2048"),
                                       HasSubstr("mtu=")));
  hca_.port_attr.active_mtu = IBV_MTU_4096;
  Advance(absl::Minutes(1));
  EXPECT_THAT(group_->trouble(), Not(HasSubstr("MTU")))
      << "it is something else then, and only the SA knows";
  sa_.groups.clear();
  sa_.may_create = false;
  MakeGroup(PKey(0x0001));
  EXPECT_THAT(group_->trouble(), HasSubstr("a limited member cannot create the group"));
  sa_.spoil = [](Mad*) {};
  Create();
  Advance(absl::Minutes(1));
  EXPECT_EQ(group_->trouble(), "");
}

TEST_F(GroupMembershipTest, TrapDuringAnExplanationCausesARetry) {
  MakeGroup(PKey(0x0001));
  clock_.Advance(absl::Seconds(20));
  group_->Run();
  client_.Run();  // the refusal has arrived, the explanation has not
  Create();
  group_->OnCreated();
  Pump();
  EXPECT_EQ(joins_, 1);
}

TEST_F(GroupMembershipTest, LeavesTheRateToTheSaIfThePortsSpeedHasNoCode) {
  hca_.port_attr.active_speed = 0;
  MakeGroup(PKey(0x8001));
  EXPECT_EQ(joins_, 1);
  EXPECT_EQ(sa_.asked.back().component_mask & (mcm::kRate | mcm::kRateSelector), 0u);
  sa_.groups.clear();
  hca_.port_attr.active_speed = 32;
  hca_.port_attr.active_width = 2;
  group_->Join();
  Pump();
  EXPECT_EQ(sa_.asked.back().component_mask & (mcm::kRate | mcm::kRateSelector),
            mcm::kRate | mcm::kRateSelector);
}

TEST_F(GroupMembershipTest, ReportsAFailureOfTheHcaAndRetries) {
  struct Row {
    const char* verb;
    const char* trouble;
  };
  const Row rows[] = {
      {"query_port", "query port fake0/1: Input/output error"},
      {"create_ah", "create address handle to ff12:"},
      {"modify_qp", "modify QP 0x48 to Q_Key "},
      {"attach_mcast", "attach QP 0x48 to ff12:"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.verb);
    hca_.FailNext(row.verb, EIO);
    joins_ = 0;
    MakeGroup(PKey(0x8001));
    EXPECT_THAT(group_->trouble(), HasSubstr(row.trouble));
    EXPECT_EQ(joins_, 0);
    Advance(absl::Milliseconds(100));
    EXPECT_EQ(joins_, 1);
    group_->Leave([] {});
    Pump();
    handles_.Reap();
  }
}

// ---- Subscriptions.

class SubscriptionsTest : public testing::Test {
 protected:
  void Pump() {
    while (!sa_.idle()) client_.Run();
  }
  void Advance(absl::Duration by) {
    clock_.Advance(by);
    client_.Run();
    subscriptions_.Run();
    Pump();
  }

  FakeClock clock_;
  FakeSa sa_;
  SaClient client_{&sa_, &clock_, {}};
  Subscriptions subscriptions_{&client_, &clock_};
};

TEST_F(SubscriptionsTest, SubscribesToAllFourTraps) {
  EXPECT_THAT(subscriptions_.Show(), HasSubstr("not subscribed"));
  subscriptions_.Renew();
  Pump();
  EXPECT_EQ(sa_.subscribed.size(), 4u);
  EXPECT_EQ(subscriptions_.Show(), "subscribed");
  EXPECT_EQ(subscriptions_.NextDeadline(), absl::InfiniteFuture());
  sa_.subscribed.clear();  // the SA was restarted
  subscriptions_.Renew();
  Pump();
  EXPECT_EQ(sa_.subscribed.size(), 4u);
  bool done = false;
  subscriptions_.End([&done] { done = true; });
  EXPECT_FALSE(done);
  Pump();
  EXPECT_TRUE(done);
  EXPECT_TRUE(sa_.subscribed.empty());
}

TEST_F(SubscriptionsTest, RetriesWhenTheSaDoesNotAnswer) {
  sa_.silent = true;
  subscriptions_.Renew();
  for (int i = 0; i < 20; ++i) Advance(absl::Seconds(1));
  EXPECT_THAT(subscriptions_.Show(), HasSubstr("no answer"));
  sa_.silent = false;
  for (int i = 0; i < 20; ++i) Advance(absl::Seconds(1));
  EXPECT_EQ(subscriptions_.Show(), "subscribed");
}

TEST_F(SubscriptionsTest, WaitsWhileAnotherProgramTakesTheReports) {
  sa_.receives_reports = false;
  subscriptions_.Renew();
  EXPECT_TRUE(sa_.asked.empty());
  EXPECT_EQ(subscriptions_.Show(), "not subscribed: another program takes this port's reports");
  sa_.receives_reports = true;
  Advance(absl::Seconds(1));
  EXPECT_EQ(subscriptions_.Show(), "subscribed");
}

// ---- On an Ethernet link layer, where there is no SA.

class EthernetGroupMembershipTest : public GroupMembershipTest {
 protected:
  EthernetGroupMembershipTest() {
    hca_.port_attr.link_layer = IBV_LINK_LAYER_ETHERNET;
    hca_.port_attr.active_mtu = IBV_MTU_1024;
    hca_.gids[0].ndev_ifindex = if_nametoindex("lo");
    endpoint_ = MakeEndpoint();
  }
  void Join(const GroupParameters& parameters) {
    group_ = std::make_unique<GroupMembership>(
        GroupMembership::Options{FloodMgid(PKey(0x8001), 0xff12'e0fc), PKey(0x8001),
                                 QKey(0x8000'1234), parameters},
        &hca_, nullptr, &handles_, endpoint_.get(), &clock_,
        [this](const absl::optional<GroupMembership::Joined>& joined) {
          ++(joined.has_value() ? joins_ : losses_);
        });
    group_->Join();
  }
};

TEST_F(EthernetGroupMembershipTest, TakesParametersFromConfigurationAndPort) {
  Join({});
  ASSERT_TRUE(group_->joined().has_value()) << group_->trouble();
  EXPECT_EQ(group_->joined()->qkey, QKey(0x8000'1234));
  EXPECT_EQ(group_->joined()->mtu_bytes, 1024);
  EXPECT_EQ(hca_.qp()->transitions.back().attr.qkey, 0x8000'1234u);
  EXPECT_TRUE(hca_.qp()->groups.contains(group_->mgid().gid()));
  const ibv_ah_attr& attr = hca_.ahs.back()->attr;
  EXPECT_EQ(attr.is_global, 1);
  EXPECT_EQ(Gid::FromWire(attr.grh.dgid.raw), group_->mgid().gid());
  EXPECT_EQ(attr.dlid, 0);
  EXPECT_EQ(attr.static_rate, 0);
  EXPECT_EQ(attr.grh.hop_limit, 64);
}

TEST_F(EthernetGroupMembershipTest, ConfigurationSetsAllParameters) {
  Join({.mtu = 512, .sl = Sl(5), .traffic_class = 184, .hop_limit = 0});
  ASSERT_TRUE(group_->joined().has_value()) << group_->trouble();
  EXPECT_EQ(group_->joined()->mtu_bytes, 512);
  const ibv_ah_attr& attr = hca_.ahs.back()->attr;
  EXPECT_EQ(attr.sl, 5);
  EXPECT_EQ(attr.grh.traffic_class, 184);
  EXPECT_EQ(attr.grh.hop_limit, 1) << "0 hops is nowhere in IP";
}

// Raising the network device's MTU causes no event; the port's going down and up does.
TEST_F(EthernetGroupMembershipTest, WaitsForAPortWithTheMtuOfTheVes) {
  Join({.mtu = 4096});
  EXPECT_FALSE(group_->joined().has_value());
  EXPECT_THAT(
      group_->trouble(),
      HasSubstr("the VES's mtu is 4096 and the port's active MTU 1024; raise the MTU of its"));
  hca_.port_attr.active_mtu = IBV_MTU_4096;
  group_->Renew();
  ASSERT_TRUE(group_->joined().has_value()) << group_->trouble();
  EXPECT_EQ(group_->joined()->mtu_bytes, 4096);
}

// The Q_Key and the MTU are set as on an Ethernet link layer, and nothing else.
TEST_F(GroupMembershipTest, WithoutAGroupTheOptionsSetQKeyAndMtu) {
  GroupMembership::Options options{mgid_, PKey(0x8001), QKey(0x8000'1234), {.mtu = 2048}};
  options.without_group = true;
  group_ = std::make_unique<GroupMembership>(
      options, &hca_, /*sa=*/nullptr, &handles_, endpoint_.get(), &clock_,
      [this](const absl::optional<GroupMembership::Joined>& joined) {
        ++(joined.has_value() ? joins_ : losses_);
      });
  group_->Join();
  ASSERT_TRUE(group_->joined().has_value()) << group_->trouble();
  EXPECT_EQ(group_->joined()->mtu_bytes, 2048);
  EXPECT_EQ(hca_.qp()->transitions.back().attr.qkey, 0x8000'1234u);
  EXPECT_TRUE(group_->joined()->ah.IsNone());
  EXPECT_EQ(handles_.size(), 0u);
  EXPECT_TRUE(hca_.qp()->groups.empty());
  group_->Renew();
  group_->Lost("the port is down");
  EXPECT_FALSE(group_->joined().has_value());
  group_->Renew();
  EXPECT_EQ(joins_, 3);
  bool left = false;
  group_->Leave([&] { left = true; });
  EXPECT_TRUE(left);
  EXPECT_TRUE(sa_.asked.empty());
}

TEST_F(GroupMembershipTest, CreatesNoGroupAboveTheMtuOfThePort) {
  group_ = std::make_unique<GroupMembership>(
      GroupMembership::Options{mgid_, PKey(0x8001), QKey(0x8000'8001), {.mtu = 4096}}, &hca_,
      &client_, &handles_, endpoint_.get(), &clock_,
      [this](const absl::optional<GroupMembership::Joined>& joined) {
        ++(joined.has_value() ? joins_ : losses_);
      });
  hca_.port_attr.active_mtu = IBV_MTU_2048;
  group_->Join();
  Pump();
  EXPECT_TRUE(sa_.groups.empty());
  EXPECT_EQ(group_->trouble(), "the VES's mtu is 4096 and the port's active MTU 2048");
  Create();  // by another member, with the same small MTU
  sa_.groups[mgid_].mtu = 4;
  Advance(absl::Seconds(1));
  EXPECT_EQ(joins_, 1);
}

// ---- Depths.

struct DepthRow {
  ibv_event_type event;
  RefreshDepth depth;
};

TEST(RefreshDepthTest, DepthsAreThoseOfIpoib) {
  const DepthRow kRows[] = {
      {IBV_EVENT_SM_CHANGE, RefreshDepth::kLight},
      {IBV_EVENT_CLIENT_REREGISTER, RefreshDepth::kLight},
      {IBV_EVENT_LID_CHANGE, RefreshDepth::kNormal},
      {IBV_EVENT_PORT_ERR, RefreshDepth::kNormal},
      {IBV_EVENT_PORT_ACTIVE, RefreshDepth::kNormal},
      {IBV_EVENT_PKEY_CHANGE, RefreshDepth::kHeavy},
      {IBV_EVENT_GID_CHANGE, RefreshDepth::kHeavy},
      {IBV_EVENT_QP_FATAL, RefreshDepth::kHeavy},
      {IBV_EVENT_CQ_ERR, RefreshDepth::kHeavy},
      {IBV_EVENT_DEVICE_FATAL, RefreshDepth::kNone},
      {IBV_EVENT_COMM_EST, RefreshDepth::kNone},
  };
  for (const DepthRow& row : kRows) EXPECT_EQ(DepthOf(row.event), row.depth) << row.event;
  EXPECT_LT(RefreshDepth::kLight, RefreshDepth::kNormal);
  EXPECT_LT(RefreshDepth::kNormal, RefreshDepth::kHeavy);
}

}  // namespace
}  // namespace eoib
