// SaResponder: MCMemberRecords, which create, join, leave and query groups.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "vswitch/fabric/softhca/subnet/sa_demand.h"
#include "vswitch/fabric/softhca/subnet/sa_responder_test_fixture.h"

namespace eoib::softhca {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(SaResponderTest, AFullMembersJoinMakesTheGroup) {
  McMemberRecord wanted = Wanted(h1_);
  wanted.sl = Sl(3);
  wanted.traffic_class = 7;
  wanted.flow_label = 0x12345;
  ASSERT_EQ(Join(h1_, kCreate, wanted), 0);
  EXPECT_EQ(header_.method, MadMethod::kGetResp);
  EXPECT_EQ(header_.tid, tid_);
  EXPECT_EQ(answer_.mgid, wanted.mgid);
  EXPECT_EQ(answer_.port_gid, h1_.gid);
  EXPECT_EQ(answer_.mlid, Mlid(0xc001));
  EXPECT_EQ(answer_.qkey, wanted.qkey);
  EXPECT_EQ(answer_.pkey, PKey(0x8001));
  EXPECT_EQ(answer_.sl, Sl(3));
  EXPECT_EQ(answer_.traffic_class, 7);
  EXPECT_EQ(answer_.flow_label, 0x12345u);
  EXPECT_EQ(answer_.mtu, h1_.mtu);
  EXPECT_EQ(answer_.rate, h1_.rate);
  EXPECT_EQ(answer_.scope, 2) << "the scope in the MGID";
  EXPECT_EQ(answer_.join_state, kFullMember);
  EXPECT_THAT(groups_.TakeChanged(), ElementsAre(Mlid(0xc001)));
  EXPECT_THAT(groups_.TakeChanged(), IsEmpty());
}

TEST_F(SaResponderTest, ACreatorMustGiveTheRequiredComponents) {
  struct Row {
    const char* description;
    uint64_t mask;
    std::function<void(McMemberRecord*)> change;
    SaStatus status;
  };
  const auto nothing = [](McMemberRecord*) {};
  const Row kRows[] = {
      {"no MGID", kCreate & ~mcm::kMgid, nothing, SaStatus::kInsufficientComponents},
      {"no PortGID", kCreate & ~mcm::kPortGid, nothing, SaStatus::kInsufficientComponents},
      {"no JoinState", kCreate & ~mcm::kJoinState, nothing, SaStatus::kInsufficientComponents},
      {"no Q_Key", kCreate & ~mcm::kQKey, nothing, SaStatus::kInsufficientComponents},
      {"no P_Key", kCreate & ~mcm::kPKey, nothing, SaStatus::kInsufficientComponents},
      {"no traffic class", kCreate & ~mcm::kTrafficClass, nothing,
       SaStatus::kInsufficientComponents},
      {"no SL", kCreate & ~mcm::kSl, nothing, SaStatus::kInsufficientComponents},
      {"no flow label", kCreate & ~mcm::kFlowLabel, nothing, SaStatus::kInsufficientComponents},
      {"somebody else's port", kCreate, [&](McMemberRecord* r) { r->port_gid = h2_.gid; },
       SaStatus::kInvalidGid},
      {"no join state", kCreate, [](McMemberRecord* r) { r->join_state = 0; },
       SaStatus::kRequestInvalid},
      {"a reserved join state", kCreate, [](McMemberRecord* r) { r->join_state = 9; },
       SaStatus::kRequestInvalid},
      {"a non-member", kCreate, [](McMemberRecord* r) { r->join_state = kNonMember; },
       SaStatus::kRequestInvalid},
      {"a send-only member", kCreate, [](McMemberRecord* r) { r->join_state = kSendOnlyNonMember; },
       SaStatus::kRequestInvalid},
      {"a partition that is not the port's", kCreate,
       [](McMemberRecord* r) { r->pkey = PKey(0x8002); }, SaStatus::kRequestInvalid},
      {"the invalid P_Key", kCreate, [](McMemberRecord* r) { r->pkey = PKey(0x8000); },
       SaStatus::kRequestInvalid},
      {"an MTU code that is none", kCreate | mcm::kMtu | mcm::kMtuSelector,
       [](McMemberRecord* r) { r->mtu = 9; }, SaStatus::kRequestInvalid},
      {"an MTU above the port's", kCreate | mcm::kMtu | mcm::kMtuSelector,
       [](McMemberRecord* r) {
         r->mtu_selector = Selector::kGreaterThan;
         r->mtu = 5;
       },
       SaStatus::kRequestInvalid},
      {"a rate above the port's", kCreate | mcm::kRate | mcm::kRateSelector,
       [](McMemberRecord* r) { r->rate = 7; }, SaStatus::kRequestInvalid},
  };
  for (const Row& row : kRows) {
    McMemberRecord wanted = Wanted(h1_);
    row.change(&wanted);
    EXPECT_EQ(Join(h1_, row.mask, wanted), static_cast<uint16_t>(row.status)) << row.description;
    EXPECT_THAT(groups_.groups(), IsEmpty()) << row.description;
  }
  EXPECT_THAT(groups_.TakeChanged(), IsEmpty());
  EXPECT_EQ(sa_.counters().errors, std::size(kRows));
}

TEST_F(SaResponderTest, ACreatorsSelectorsChooseMtuAndRate) {
  const struct {
    const char* description;
    Selector selector;
    uint8_t mtu, rate;              // asked
    uint8_t group_mtu, group_rate;  // made
  } kRows[] = {
      {"exactly", Selector::kExactly, 3, 2, 3, 2},
      {"less than: the next below; rate code 5 is 5 Gb/s", Selector::kLessThan, 5, 3, 4, 5},
      {"greater than: the port's", Selector::kGreaterThan, 1, 2, 5, 3},
      {"the largest", Selector::kLargest, 1, 2, 5, 3},
  };
  uint8_t mgid = 0;
  for (const auto& row : kRows) {
    McMemberRecord wanted = Wanted(h1_, kFullMember, ++mgid);
    wanted.mtu_selector = wanted.rate_selector = row.selector;
    wanted.mtu = row.mtu;
    wanted.rate = row.rate;
    ASSERT_EQ(Join(h1_, kCreate | mcm::kMtu | mcm::kMtuSelector | mcm::kRate | mcm::kRateSelector,
                   wanted),
              0)
        << row.description;
    EXPECT_EQ(answer_.mtu, row.group_mtu) << row.description;
    EXPECT_EQ(answer_.rate, row.group_rate) << row.description;
    EXPECT_EQ(answer_.mtu_selector, Selector::kExactly);
    ASSERT_EQ(Leave(h1_, wanted), 0);
  }
}

TEST_F(SaResponderTest, AJoinMustAgreeWithTheGroup) {
  ASSERT_EQ(Join(h1_, kCreate, Wanted(h1_)), 0);
  struct Row {
    const char* description;
    const PortConfig* port;
    uint64_t mask;
    std::function<void(McMemberRecord*)> change;
    SaStatus status;
  };
  const auto nothing = [](McMemberRecord*) {};
  const Row kRows[] = {
      {"a join without parameters", &h2_, kIdentify, nothing, SaStatus::kOk},
      {"a join with the same parameters", &h2_, kCreate, nothing, SaStatus::kOk},
      {"a limited member", &h3_, kIdentify, nothing, SaStatus::kOk},
      {"a limited member with its own P_Key", &h3_, kIdentify | mcm::kPKey,
       [](McMemberRecord* r) { r->pkey = PKey(1); }, SaStatus::kOk},
      {"another Q_Key", &h2_, kCreate, [](McMemberRecord* r) { r->qkey = QKey(1); },
       SaStatus::kRequestInvalid},
      {"another partition", &h2_, kCreate, [](McMemberRecord* r) { r->pkey = PKey(0x8002); },
       SaStatus::kRequestInvalid},
      {"another SL", &h2_, kCreate, [](McMemberRecord* r) { r->sl = Sl(1); },
       SaStatus::kRequestInvalid},
      {"another traffic class", &h2_, kCreate, [](McMemberRecord* r) { r->traffic_class = 1; },
       SaStatus::kRequestInvalid},
      {"another flow label", &h2_, kCreate, [](McMemberRecord* r) { r->flow_label = 1; },
       SaStatus::kRequestInvalid},
      {"another hop limit", &h2_, kCreate | mcm::kHopLimit,
       [](McMemberRecord* r) { r->hop_limit = 1; }, SaStatus::kRequestInvalid},
      {"another MLID", &h2_, kCreate | mcm::kMlid,
       [](McMemberRecord* r) { r->mlid = Mlid(0xc002); }, SaStatus::kRequestInvalid},
      {"another scope", &h2_, kCreate | mcm::kScope, [](McMemberRecord* r) { r->scope = 5; },
       SaStatus::kRequestInvalid},
      {"another MTU", &h2_, kCreate | mcm::kMtu | mcm::kMtuSelector,
       [](McMemberRecord* r) { r->mtu = 4; }, SaStatus::kRequestInvalid},
      {"an MTU without selector demands nothing", &h2_, kCreate | mcm::kMtu,
       [](McMemberRecord* r) { r->mtu = 4; }, SaStatus::kOk},
      {"another rate", &h2_, kCreate | mcm::kRate | mcm::kRateSelector,
       [](McMemberRecord* r) { r->rate = 2; }, SaStatus::kRequestInvalid},
      {"a port that cannot carry the MTU", &small_, kIdentify, nothing, SaStatus::kRequestInvalid},
      {"a reserved join state", &h2_, kIdentify, [](McMemberRecord* r) { r->join_state = 8; },
       SaStatus::kRequestInvalid},
      {"somebody else", &h2_, kIdentify, [&](McMemberRecord* r) { r->port_gid = h3_.gid; },
       SaStatus::kInvalidGid},
  };
  for (const Row& row : kRows) {
    McMemberRecord wanted = Wanted(*row.port);
    row.change(&wanted);
    EXPECT_EQ(Join(*row.port, row.mask, wanted), static_cast<uint16_t>(row.status))
        << row.description;
    const bool joined = groups_.groups().begin()->second.members.count(row.port->gid) != 0;
    EXPECT_EQ(joined, row.status == SaStatus::kOk) << row.description;
    if (joined) {
      EXPECT_EQ(Leave(*row.port, Wanted(*row.port)), 0) << row.description;
    }
  }
}

TEST_F(SaResponderTest, AStrangerToThePartitionCannotJoin) {
  McMemberRecord wanted = Wanted(h2_);
  wanted.pkey = PKey(0x8002);
  ASSERT_EQ(Join(h2_, kCreate, wanted), 0);
  EXPECT_EQ(Join(h1_, kIdentify, Wanted(h1_)), static_cast<uint16_t>(SaStatus::kRequestInvalid));
}

// The MGID of a broadcast group contains the full P_Key (RFC 4391 §4), whichever port creates it.
// Deliberate divergence from o15: the first port of a partition may be a limited member.
TEST_F(SaResponderTest, AGroupOfALimitedMemberBelongsToThePartition) {
  McMemberRecord wanted = Wanted(h3_);
  wanted.pkey = PKey(0x0001);
  ASSERT_EQ(Join(h3_, kCreate, wanted), 0);
  EXPECT_EQ(answer_.pkey, PKey(0x8001));
  EXPECT_EQ(Join(h1_, kIdentify, Wanted(h1_)), 0);
}

TEST_F(SaResponderTest, JoinStatesAddUp) {
  ASSERT_EQ(Join(h1_, kCreate, Wanted(h1_)), 0);
  groups_.TakeChanged();
  ASSERT_EQ(Join(h2_, kIdentify, Wanted(h2_, kSendOnlyNonMember)), 0);
  EXPECT_THAT(groups_.TakeChanged(), IsEmpty()) << "a send-only member does not receive";
  EXPECT_THAT(groups_.FindByMlid(Mlid(0xc001))->Receivers(), ElementsAre(h1_.gid));
  ASSERT_EQ(Join(h2_, kIdentify, Wanted(h2_, kNonMember)), 0);
  EXPECT_EQ(answer_.join_state, kNonMember | kSendOnlyNonMember);
  EXPECT_THAT(groups_.TakeChanged(), ElementsAre(Mlid(0xc001)));
  EXPECT_THAT(groups_.FindByMlid(Mlid(0xc001))->Receivers(), ElementsAre(h1_.gid, h2_.gid));

  EXPECT_EQ(Leave(h2_, Wanted(h2_, kFullMember)), static_cast<uint16_t>(SaStatus::kRequestInvalid))
      << "it is not a full member";
  ASSERT_EQ(Leave(h2_, Wanted(h2_, kNonMember)), 0);
  EXPECT_EQ(header_.method, MadMethod::kDeleteResp);
  EXPECT_EQ(answer_.join_state, kNonMember) << "the deleted membership";
  EXPECT_THAT(groups_.FindByMlid(Mlid(0xc001))->Receivers(), ElementsAre(h1_.gid));
  EXPECT_EQ(groups_.FindByMlid(Mlid(0xc001))->members.at(h2_.gid), kSendOnlyNonMember);
}

TEST_F(SaResponderTest, TheLastFullMembersLeaveEndsTheGroup) {
  ASSERT_EQ(Join(h1_, kCreate, Wanted(h1_)), 0);
  ASSERT_EQ(Join(h2_, kIdentify, Wanted(h2_, kNonMember)), 0);
  groups_.TakeChanged();
  ASSERT_EQ(Leave(h1_, Wanted(h1_)), 0);
  EXPECT_THAT(groups_.groups(), IsEmpty());
  EXPECT_EQ(groups_.FindByMlid(Mlid(0xc001)), nullptr);
  EXPECT_THAT(groups_.TakeChanged(), ElementsAre(Mlid(0xc001)));
}

TEST_F(SaResponderTest, LeavesOfNonMembersAreInvalid) {
  EXPECT_EQ(Leave(h1_, Wanted(h1_)), static_cast<uint16_t>(SaStatus::kRequestInvalid))
      << "no group";
  ASSERT_EQ(Join(h1_, kCreate, Wanted(h1_)), 0);
  EXPECT_EQ(Leave(h2_, Wanted(h2_)), static_cast<uint16_t>(SaStatus::kRequestInvalid))
      << "not a member";
  EXPECT_EQ(Leave(h2_, Wanted(h1_)), static_cast<uint16_t>(SaStatus::kInvalidGid))
      << "somebody else's";
  EXPECT_EQ(Ask(h1_, MadMethod::kDelete, mcm::kMgid | mcm::kPortGid, Wanted(h1_)),
            static_cast<uint16_t>(SaStatus::kInsufficientComponents));
  EXPECT_EQ(groups_.groups().size(), 1u);
}

TEST_F(SaResponderTest, APortThatGoesLeavesAllItsGroups) {
  ASSERT_EQ(Join(h1_, kCreate, Wanted(h1_, kFullMember, 1)), 0);
  ASSERT_EQ(Join(h1_, kCreate, Wanted(h1_, kFullMember, 2)), 0);
  ASSERT_EQ(Join(h2_, kIdentify, Wanted(h2_, kFullMember, 2)), 0);
  groups_.TakeChanged();
  groups_.RemovePort(h1_.gid);
  EXPECT_THAT(groups_.TakeChanged(), ElementsAre(Mlid(0xc001), Mlid(0xc002)));
  ASSERT_EQ(groups_.groups().size(), 1u);
  EXPECT_THAT(groups_.FindByMlid(Mlid(0xc002))->Receivers(), ElementsAre(h2_.gid));
}

TEST_F(SaResponderTest, MlidsRunOutAndComeBack) {
  for (uint8_t mgid = 1; mgid <= 3; ++mgid)
    ASSERT_EQ(Join(h1_, kCreate, Wanted(h1_, kFullMember, mgid)), 0);
  EXPECT_EQ(answer_.mlid, Mlid(0xc003));
  EXPECT_EQ(Join(h1_, kCreate, Wanted(h1_, kFullMember, 4)),
            static_cast<uint16_t>(SaStatus::kNoResources));
  ASSERT_EQ(Leave(h1_, Wanted(h1_, kFullMember, 2)), 0);
  ASSERT_EQ(Join(h1_, kCreate, Wanted(h1_, kFullMember, 4)), 0);
  EXPECT_EQ(answer_.mlid, Mlid(0xc002));
}

TEST_F(SaResponderTest, ACreatorMayRequestAnMlid) {
  const struct {
    const char* description;
    uint16_t requested, mlid;
  } kRows[] = {
      {"free", 0xc003, 0xc003}, {"taken", 0xc003, 0xc001}, {"out of range", 0xc000, 0xc002}};
  uint8_t mgid = 0;
  for (const auto& row : kRows) {
    McMemberRecord wanted = Wanted(h1_, kFullMember, ++mgid);
    wanted.mlid = Mlid(row.requested);
    ASSERT_EQ(Join(h1_, kCreate | mcm::kMlid, wanted), 0) << row.description;
    EXPECT_EQ(answer_.mlid, Mlid(row.mlid)) << row.description;
  }
}

TEST_F(SaResponderTest, GroupsCanBeQueried) {
  ASSERT_EQ(Join(h1_, kCreate, Wanted(h1_, kFullMember, 1)), 0);
  ASSERT_EQ(Join(h1_, kCreate, Wanted(h1_, kFullMember, 2)), 0);
  McMemberRecord other = Wanted(h2_, kFullMember, 3);
  other.pkey = PKey(0x8002);
  ASSERT_EQ(Join(h2_, kCreate, other), 0);

  ASSERT_EQ(Ask(h1_, MadMethod::kGet, mcm::kMgid, Wanted(h1_, 0, 2)), 0);
  EXPECT_EQ(answer_.mlid, Mlid(0xc002));
  EXPECT_EQ(answer_.port_gid, h1_.gid);
  EXPECT_EQ(answer_.join_state, kFullMember);
  ASSERT_EQ(Ask(h2_, MadMethod::kGet, mcm::kMgid, Wanted(h2_, 0, 2)), 0);
  EXPECT_EQ(answer_.port_gid, Gid()) << "the SA does not list members";

  const auto no_records = static_cast<uint16_t>(SaStatus::kNoRecords);
  EXPECT_EQ(Ask(h1_, MadMethod::kGet, mcm::kMgid, Wanted(h1_, 0, 9)), no_records);
  EXPECT_EQ(Ask(h1_, MadMethod::kGet, mcm::kMgid, Wanted(h1_, 0, 3)), no_records)
      << "another partition's";
  EXPECT_EQ(Ask(h1_, MadMethod::kGet, mcm::kMgid | mcm::kPortGid, Wanted(h2_, 0, 1)), no_records)
      << "h2 is not a member";
  ASSERT_EQ(Join(h2_, kIdentify, Wanted(h2_, kNonMember, 1)), 0);
  EXPECT_EQ(Ask(h1_, MadMethod::kGet, mcm::kMgid | mcm::kPortGid, Wanted(h2_, 0, 1)), no_records)
      << "nor would it be told";
  ASSERT_EQ(Ask(h1_, MadMethod::kGet, mcm::kMgid | mcm::kPortGid | mcm::kJoinState,
                Wanted(h1_, kFullMember, 1)),
            0);
  EXPECT_EQ(Ask(h1_, MadMethod::kGet, mcm::kPKey, Wanted(h1_)),
            static_cast<uint16_t>(SaStatus::kTooManyRecords));
}

TEST_F(SaResponderTest, GroupsInATable) {
  for (uint8_t mgid = 1; mgid <= 2; ++mgid)
    ASSERT_EQ(Join(h1_, kCreate, Wanted(h1_, kFullMember, mgid)), 0);
  McMemberRecord other = Wanted(h2_, kFullMember, 3);
  other.pkey = PKey(0x8002);
  ASSERT_EQ(Join(h2_, kCreate, other), 0);
  SaHeader header;
  header.method = MadMethod::kGetTable;
  header.attribute = SaAttribute::kMcMemberRecord;
  Mad mad;  // its record is zero: no MGID
  EncodeSaHeader(header, &mad);
  ASSERT_EQ(Send(h3_, mad), 0);
  EXPECT_EQ(header_.attribute_offset, SaRecordStride(SaAttribute::kMcMemberRecord) / 8);
  std::vector<Mgid> mgids;
  for (const McMemberRecord& group :
       Table(records_, SaAttribute::kMcMemberRecord, DecodeMcMemberRecord)) {
    mgids.push_back(group.mgid);
    EXPECT_EQ(group.port_gid, Gid());
  }
  EXPECT_THAT(mgids, ElementsAre(MakeMgid(1), MakeMgid(2)));
}

TEST_F(SaResponderTest, AUnicastGidIsNoGroup) {
  SaHeader header;
  header.method = MadMethod::kSet;
  header.attribute = SaAttribute::kMcMemberRecord;
  header.component_mask = kCreate;
  Mad mad;
  EncodeSaHeader(header, &mad);
  EncodeMcMemberRecord(Wanted(h1_), SaRecord(&mad));
  mad[56] = 0xfe;  // the MGID's first byte
  EXPECT_EQ(Send(h1_, mad), static_cast<uint16_t>(SaStatus::kRequestInvalid));
}

}  // namespace
}  // namespace eoib::softhca
