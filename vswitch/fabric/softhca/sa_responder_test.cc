#include "vswitch/fabric/softhca/sa_responder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vswitch/fabric/softhca/fake_ports_for_test.h"
#include "vswitch/fabric/softhca/sa_demand.h"

namespace eoib::softhca {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kIdentify = mcm::kMgid | mcm::kPortGid | mcm::kJoinState;
constexpr uint64_t kCreate = kIdentify | mcm::kQKey | mcm::kPKey | mcm::kTrafficClass | mcm::kSl | mcm::kFlowLabel;

PortConfig MakePort(uint16_t lid, std::vector<PKey> pkeys) { return MakeManagedPort(lid, std::move(pkeys)).config; }

class SaResponderTest : public ::testing::Test {
 protected:
  SaResponderTest() {
    for (const PortConfig& config : {h1_, h2_, h3_, small_}) {
      ManagedPort port;
      port.name = absl::StrCat("h", config.lid.value() - 1);
      port.config = config;
      ports_.Add(port);
    }
  }

  McMemberRecord Wanted(const PortConfig& port, uint8_t join_state = kFullMember, uint8_t mgid = 1) const {
    McMemberRecord record;
    record.mgid = MakeMgid(mgid);
    record.port_gid = port.gid;
    record.qkey = QKey(0x8000'8001);
    record.pkey = PKey(0x8001);
    record.join_state = join_state;
    return record;
  }

  uint16_t Ask(const PortConfig& port, MadMethod method, uint64_t mask, const McMemberRecord& record) {
    SaHeader header;
    header.method = method;
    header.attribute = SaAttribute::kMcMemberRecord;
    header.tid = ++tid_;
    header.component_mask = mask;
    Mad mad;
    EncodeSaHeader(header, &mad);
    EncodeMcMemberRecord(record, SaRecord(&mad));
    const uint16_t status = Send(port, mad);
    if (status == 0) answer_ = DecodeMcMemberRecord(SaRecord(reply_)).value();
    return status;
  }
  uint16_t Join(const PortConfig& port, uint64_t mask, const McMemberRecord& record) {
    return Ask(port, MadMethod::kSet, mask, record);
  }
  uint16_t Leave(const PortConfig& port, const McMemberRecord& record) {
    return Ask(port, MadMethod::kDelete, kIdentify, record);
  }
  uint16_t AskPath(const PortConfig& port, uint64_t mask, const PathRecord& record) {
    SaHeader header;
    header.attribute = SaAttribute::kPathRecord;
    header.tid = ++tid_;
    header.component_mask = mask;
    Mad mad;
    EncodeSaHeader(header, &mad);
    EncodePathRecord(record, SaRecord(&mad));
    const uint16_t status = Send(port, mad);
    if (status == 0) path_ = DecodePathRecord(SaRecord(reply_)).value();
    return status;
  }
  // The status of the answer; 0xffff if there was none.
  uint16_t Send(const PortConfig& port, const Mad& mad) {
    const absl::optional<SaAnswer> answer = sa_.Respond(port, mad);
    if (!answer.has_value()) return 0xffff;
    records_ = answer->records;
    reply_ = answer->ToMad();
    header_ = DecodeSaHeader(reply_).value();
    EXPECT_TRUE(header_.IsResponse());
    return header_.status;
  }

  // h1 and h2 are full members of 0x8001, h3 a limited one; `small` has a smaller MTU and rate.
  const PortConfig h1_ = MakePort(2, {PKey(0xffff), PKey(0x8001)});
  const PortConfig h2_ = MakePort(3, {PKey(0xffff), PKey(0x8001), PKey(0x8002)});
  const PortConfig h3_ = MakePort(4, {PKey(0x7fff), PKey(0x0001)});
  const PortConfig small_ = [] {
    PortConfig port = MakePort(5, {PKey(0x8001)});
    port.mtu = 4;
    port.rate = 2;
    return port;
  }();
  FakePorts ports_;
  MulticastGroups groups_{Mlid(0xc003)};
  NoticeForwarder notices_{&ports_};
  SaResponder sa_{&ports_, &groups_, &notices_};
  uint64_t tid_ = 0x1234'0000'0000'0000;
  Mad reply_;
  SaHeader header_;
  std::vector<uint8_t> records_;
  McMemberRecord answer_;
  PathRecord path_;
};

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
  EXPECT_EQ(answer_.scope, 2) << "of the MGID";
  EXPECT_EQ(answer_.join_state, kFullMember);
  EXPECT_THAT(groups_.TakeChanged(), ElementsAre(Mlid(0xc001)));
  EXPECT_THAT(groups_.TakeChanged(), IsEmpty());
}

TEST_F(SaResponderTest, WhatACreatorMustAndMayNotSay) {
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
      {"no traffic class", kCreate & ~mcm::kTrafficClass, nothing, SaStatus::kInsufficientComponents},
      {"no SL", kCreate & ~mcm::kSl, nothing, SaStatus::kInsufficientComponents},
      {"no flow label", kCreate & ~mcm::kFlowLabel, nothing, SaStatus::kInsufficientComponents},
      {"somebody else's port", kCreate, [&](McMemberRecord* r) { r->port_gid = h2_.gid; }, SaStatus::kInvalidGid},
      {"no join state", kCreate, [](McMemberRecord* r) { r->join_state = 0; }, SaStatus::kRequestInvalid},
      {"a reserved join state", kCreate, [](McMemberRecord* r) { r->join_state = 9; }, SaStatus::kRequestInvalid},
      {"a non-member", kCreate, [](McMemberRecord* r) { r->join_state = kNonMember; }, SaStatus::kRequestInvalid},
      {"a send-only member", kCreate, [](McMemberRecord* r) { r->join_state = kSendOnlyNonMember; }, SaStatus::kRequestInvalid},
      {"a partition that is not the port's", kCreate, [](McMemberRecord* r) { r->pkey = PKey(0x8002); },
       SaStatus::kRequestInvalid},
      {"the invalid P_Key", kCreate, [](McMemberRecord* r) { r->pkey = PKey(0x8000); }, SaStatus::kRequestInvalid},
      {"an MTU code that is none", kCreate | mcm::kMtu | mcm::kMtuSelector, [](McMemberRecord* r) { r->mtu = 9; },
       SaStatus::kRequestInvalid},
      {"an MTU above the port's", kCreate | mcm::kMtu | mcm::kMtuSelector,
       [](McMemberRecord* r) {
         r->mtu_selector = Selector::kGreaterThan;
         r->mtu = 5;
       },
       SaStatus::kRequestInvalid},
      {"a rate above the port's", kCreate | mcm::kRate | mcm::kRateSelector, [](McMemberRecord* r) { r->rate = 7; },
       SaStatus::kRequestInvalid},
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
    ASSERT_EQ(Join(h1_, kCreate | mcm::kMtu | mcm::kMtuSelector | mcm::kRate | mcm::kRateSelector, wanted), 0)
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
      {"who says nothing", &h2_, kIdentify, nothing, SaStatus::kOk},
      {"who says the same", &h2_, kCreate, nothing, SaStatus::kOk},
      {"a limited member", &h3_, kIdentify, nothing, SaStatus::kOk},
      {"a limited member with its own P_Key", &h3_, kIdentify | mcm::kPKey, [](McMemberRecord* r) { r->pkey = PKey(1); },
       SaStatus::kOk},
      {"another Q_Key", &h2_, kCreate, [](McMemberRecord* r) { r->qkey = QKey(1); }, SaStatus::kRequestInvalid},
      {"another partition", &h2_, kCreate, [](McMemberRecord* r) { r->pkey = PKey(0x8002); }, SaStatus::kRequestInvalid},
      {"another SL", &h2_, kCreate, [](McMemberRecord* r) { r->sl = Sl(1); }, SaStatus::kRequestInvalid},
      {"another traffic class", &h2_, kCreate, [](McMemberRecord* r) { r->traffic_class = 1; }, SaStatus::kRequestInvalid},
      {"another flow label", &h2_, kCreate, [](McMemberRecord* r) { r->flow_label = 1; }, SaStatus::kRequestInvalid},
      {"another hop limit", &h2_, kCreate | mcm::kHopLimit, [](McMemberRecord* r) { r->hop_limit = 1; },
       SaStatus::kRequestInvalid},
      {"another MLID", &h2_, kCreate | mcm::kMlid, [](McMemberRecord* r) { r->mlid = Mlid(0xc002); },
       SaStatus::kRequestInvalid},
      {"another scope", &h2_, kCreate | mcm::kScope, [](McMemberRecord* r) { r->scope = 5; }, SaStatus::kRequestInvalid},
      {"another MTU", &h2_, kCreate | mcm::kMtu | mcm::kMtuSelector, [](McMemberRecord* r) { r->mtu = 4; },
       SaStatus::kRequestInvalid},
      {"an MTU without selector demands nothing", &h2_, kCreate | mcm::kMtu, [](McMemberRecord* r) { r->mtu = 4; },
       SaStatus::kOk},
      {"another rate", &h2_, kCreate | mcm::kRate | mcm::kRateSelector, [](McMemberRecord* r) { r->rate = 2; },
       SaStatus::kRequestInvalid},
      {"a port that cannot carry the MTU", &small_, kIdentify, nothing, SaStatus::kRequestInvalid},
      {"a reserved join state", &h2_, kIdentify, [](McMemberRecord* r) { r->join_state = 8; }, SaStatus::kRequestInvalid},
      {"somebody else", &h2_, kIdentify, [&](McMemberRecord* r) { r->port_gid = h3_.gid; }, SaStatus::kInvalidGid},
  };
  for (const Row& row : kRows) {
    McMemberRecord wanted = Wanted(*row.port);
    row.change(&wanted);
    EXPECT_EQ(Join(*row.port, row.mask, wanted), static_cast<uint16_t>(row.status)) << row.description;
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

// RFC 4391 §4 has the full P_Key in a broadcast group's MGID, whoever makes it. A deliberate divergence from the letter of
// o15: the first port of a partition may be a limited member.
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
  EXPECT_THAT(groups_.TakeChanged(), IsEmpty()) << "who only sends does not receive";
  EXPECT_THAT(groups_.FindByMlid(Mlid(0xc001))->Receivers(), ElementsAre(h1_.gid));
  ASSERT_EQ(Join(h2_, kIdentify, Wanted(h2_, kNonMember)), 0);
  EXPECT_EQ(answer_.join_state, kNonMember | kSendOnlyNonMember);
  EXPECT_THAT(groups_.TakeChanged(), ElementsAre(Mlid(0xc001)));
  EXPECT_THAT(groups_.FindByMlid(Mlid(0xc001))->Receivers(), ElementsAre(h1_.gid, h2_.gid));

  EXPECT_EQ(Leave(h2_, Wanted(h2_, kFullMember)), static_cast<uint16_t>(SaStatus::kRequestInvalid))
      << "it is not a full member";
  ASSERT_EQ(Leave(h2_, Wanted(h2_, kNonMember)), 0);
  EXPECT_EQ(header_.method, MadMethod::kDeleteResp);
  EXPECT_EQ(answer_.join_state, kNonMember) << "what was deleted";
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
  EXPECT_EQ(Leave(h1_, Wanted(h1_)), static_cast<uint16_t>(SaStatus::kRequestInvalid)) << "no group";
  ASSERT_EQ(Join(h1_, kCreate, Wanted(h1_)), 0);
  EXPECT_EQ(Leave(h2_, Wanted(h2_)), static_cast<uint16_t>(SaStatus::kRequestInvalid)) << "not a member";
  EXPECT_EQ(Leave(h2_, Wanted(h1_)), static_cast<uint16_t>(SaStatus::kInvalidGid)) << "somebody else's";
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
  for (uint8_t mgid = 1; mgid <= 3; ++mgid) ASSERT_EQ(Join(h1_, kCreate, Wanted(h1_, kFullMember, mgid)), 0);
  EXPECT_EQ(answer_.mlid, Mlid(0xc003));
  EXPECT_EQ(Join(h1_, kCreate, Wanted(h1_, kFullMember, 4)), static_cast<uint16_t>(SaStatus::kNoResources));
  ASSERT_EQ(Leave(h1_, Wanted(h1_, kFullMember, 2)), 0);
  ASSERT_EQ(Join(h1_, kCreate, Wanted(h1_, kFullMember, 4)), 0);
  EXPECT_EQ(answer_.mlid, Mlid(0xc002));
}

TEST_F(SaResponderTest, ACreatorMayWishForAnMlid) {
  const struct {
    const char* description;
    uint16_t wish, mlid;
  } kRows[] = {{"free", 0xc003, 0xc003}, {"taken", 0xc003, 0xc001}, {"out of range", 0xc000, 0xc002}};
  uint8_t mgid = 0;
  for (const auto& row : kRows) {
    McMemberRecord wanted = Wanted(h1_, kFullMember, ++mgid);
    wanted.mlid = Mlid(row.wish);
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
  EXPECT_EQ(answer_.port_gid, Gid()) << "who else is a member is nobody's business";

  const auto no_records = static_cast<uint16_t>(SaStatus::kNoRecords);
  EXPECT_EQ(Ask(h1_, MadMethod::kGet, mcm::kMgid, Wanted(h1_, 0, 9)), no_records);
  EXPECT_EQ(Ask(h1_, MadMethod::kGet, mcm::kMgid, Wanted(h1_, 0, 3)), no_records) << "another partition's";
  EXPECT_EQ(Ask(h1_, MadMethod::kGet, mcm::kMgid | mcm::kPortGid, Wanted(h2_, 0, 1)), no_records) << "h2 is not a member";
  ASSERT_EQ(Join(h2_, kIdentify, Wanted(h2_, kNonMember, 1)), 0);
  EXPECT_EQ(Ask(h1_, MadMethod::kGet, mcm::kMgid | mcm::kPortGid, Wanted(h2_, 0, 1)), no_records) << "nor would it be told";
  ASSERT_EQ(Ask(h1_, MadMethod::kGet, mcm::kMgid | mcm::kPortGid | mcm::kJoinState, Wanted(h1_, kFullMember, 1)), 0);
  EXPECT_EQ(Ask(h1_, MadMethod::kGet, mcm::kPKey, Wanted(h1_)), static_cast<uint16_t>(SaStatus::kTooManyRecords));
}

TEST_F(SaResponderTest, Paths) {
  const uint64_t kPair = path::kSgid | path::kDgid;
  struct Row {
    const char* description;
    uint64_t mask;
    std::function<void(PathRecord*)> change;
    SaStatus status;
  };
  const auto nothing = [](PathRecord*) {};
  const auto no_records = SaStatus::kNoRecords;
  const Row kRows[] = {
      {"two full members", kPair | path::kPKey, nothing, SaStatus::kOk},
      {"any partition", kPair, nothing, SaStatus::kOk},
      {"by LIDs", path::kSlid | path::kDlid, nothing, SaStatus::kOk},
      {"to oneself", kPair | path::kPKey, [&](PathRecord* r) { r->dgid = h1_.gid; }, SaStatus::kOk},
      {"to a limited member", kPair | path::kPKey, [&](PathRecord* r) { r->dgid = h3_.gid; }, SaStatus::kOk},
      {"without a source", path::kDgid, nothing, SaStatus::kInsufficientComponents},
      {"without a destination", path::kSgid, nothing, SaStatus::kInsufficientComponents},
      {"to nobody", kPair, [](PathRecord* r) { r->dgid = Gid::FromPrefixAndGuid(1, Guid(1)); }, no_records},
      {"from nobody", kPair, [](PathRecord* r) { r->sgid = Gid(); }, no_records},
      {"to a GID with another port's LID", kPair | path::kDlid, [](PathRecord* r) { r->dlid = Lid(4); }, no_records},
      {"in a partition of one of them", kPair | path::kPKey, [](PathRecord* r) { r->pkey = PKey(0x8002); }, no_records},
      {"between limited members", kPair | path::kPKey, [&](PathRecord* r) { r->sgid = r->dgid = h3_.gid; }, no_records},
      {"on an SL that is not", kPair | path::kSl, [](PathRecord* r) { r->sl = Sl(4); }, no_records},
      {"with a larger MTU than there is", kPair | path::kMtu | path::kMtuSelector,
       [](PathRecord* r) {
         r->mtu_selector = Selector::kGreaterThan;
         r->mtu = 5;
       },
       no_records},
      {"faster than there is", kPair | path::kRate | path::kRateSelector, [](PathRecord* r) { r->rate = 7; }, no_records},
  };
  for (const Row& row : kRows) {
    PathRecord wanted;
    wanted.sgid = h1_.gid;
    wanted.dgid = h2_.gid;
    wanted.slid = h1_.lid;
    wanted.dlid = h2_.lid;
    wanted.pkey = PKey(0x8001);
    row.change(&wanted);
    EXPECT_EQ(AskPath(h1_, row.mask, wanted), static_cast<uint16_t>(row.status)) << row.description;
  }
}

TEST_F(SaResponderTest, APathIsAsGoodAsItsWorseEnd) {
  PathRecord wanted;
  wanted.sgid = h1_.gid;
  wanted.dgid = small_.gid;
  ASSERT_EQ(AskPath(h1_, path::kSgid | path::kDgid, wanted), 0);
  EXPECT_EQ(path_.slid, h1_.lid);
  EXPECT_EQ(path_.dlid, small_.lid);
  EXPECT_EQ(path_.sgid, h1_.gid);
  EXPECT_EQ(path_.dgid, small_.gid);
  EXPECT_EQ(path_.mtu, small_.mtu);
  EXPECT_EQ(path_.rate, small_.rate);
  EXPECT_EQ(path_.pkey, PKey(0x8001));
  EXPECT_TRUE(path_.reversible);
}

TEST_F(SaResponderTest, APortThatIsDownHasNoPath) {
  ports_.ports[1].config.active = false;
  PathRecord wanted;
  wanted.sgid = h1_.gid;
  wanted.dgid = h2_.gid;
  EXPECT_EQ(AskPath(h1_, path::kSgid | path::kDgid, wanted), static_cast<uint16_t>(SaStatus::kNoRecords));
}

// A table's records, as they were sent.
template <typename Record>
std::vector<Record> Table(const std::vector<uint8_t>& bytes, SaAttribute attribute,
                          absl::StatusOr<Record> (*decode)(absl::Span<const uint8_t>)) {
  const size_t stride = SaRecordStride(attribute);
  EXPECT_EQ(bytes.size() % stride, 0u);
  std::vector<Record> records;
  for (size_t at = 0; at + stride <= bytes.size(); at += stride) {
    records.push_back(decode(absl::MakeSpan(bytes).subspan(at)).value());
  }
  return records;
}

TEST_F(SaResponderTest, TablesOfPaths) {
  const struct {
    const char* description;
    const PortConfig* from;
    uint64_t mask;
    uint16_t pkey;
    uint8_t numb_path;
    std::vector<std::string> paths;  // "DLID P_Key"
  } kRows[] = {
      {"from a full member to all",
       &h1_,
       0,
       0,
       0,
       {"0x2 0xffff", "0x2 0x8001", "0x3 0xffff", "0x3 0x8001", "0x4 0xffff", "0x4 0x8001", "0x5 0x8001"}},
      {"at most one of each pair", &h1_, path::kNumbPath, 0, 1, {"0x2 0xffff", "0x3 0xffff", "0x4 0xffff", "0x5 0x8001"}},
      {"in one partition", &h1_, path::kPKey, 0x8001, 0, {"0x2 0x8001", "0x3 0x8001", "0x4 0x8001", "0x5 0x8001"}},
      {"from a limited member: not to itself", &h3_, path::kPKey, 0x0001, 0, {"0x2 0x1", "0x3 0x1", "0x5 0x1"}},
      {"in a partition of others", &h1_, path::kPKey, 0x8002, 0, {}},
      {"on an SL that is not", &h1_, path::kSl, 0, 0, {}},
  };
  for (const auto& row : kRows) {
    SaHeader header;
    header.method = MadMethod::kGetTable;
    header.attribute = SaAttribute::kPathRecord;
    header.component_mask = path::kSgid | row.mask;
    PathRecord wanted;
    wanted.sgid = row.from->gid;
    wanted.pkey = PKey(row.pkey);
    wanted.numb_path = row.numb_path;
    wanted.sl = Sl(4);
    Mad mad;
    EncodeSaHeader(header, &mad);
    EncodePathRecord(wanted, SaRecord(&mad));
    ASSERT_EQ(Send(*row.from, mad), 0) << row.description;
    EXPECT_EQ(header_.method, MadMethod::kGetTableResp);
    std::vector<std::string> paths;
    for (const PathRecord& path : Table(records_, SaAttribute::kPathRecord, DecodePathRecord)) {
      EXPECT_EQ(path.sgid, row.from->gid);
      paths.push_back(absl::StrCat(path.dlid.ToString(), " 0x", absl::Hex(path.pkey.value())));
    }
    EXPECT_EQ(paths, row.paths) << row.description;
  }
}

TEST_F(SaResponderTest, WhatATableOfPathsMustSay) {
  const struct {
    const char* description;
    MadMethod method;
    uint64_t mask;
    uint8_t numb_path;
    SaStatus status;
  } kRows[] = {
      {"no source", MadMethod::kGetTable, path::kDgid, 0, SaStatus::kInsufficientComponents},
      {"no more than no paths", MadMethod::kGetTable, path::kSgid | path::kNumbPath, 0, SaStatus::kRequestInvalid},
      {"Get to anywhere", MadMethod::kGet, path::kSgid, 1, SaStatus::kInsufficientComponents},
      {"Get does not look at NumbPath", MadMethod::kGet, path::kSgid | path::kDgid | path::kNumbPath, 0, SaStatus::kOk},
  };
  for (const auto& row : kRows) {
    SaHeader header;
    header.method = row.method;
    header.attribute = SaAttribute::kPathRecord;
    header.component_mask = row.mask;
    PathRecord wanted;
    wanted.sgid = h1_.gid;
    wanted.dgid = h2_.gid;
    wanted.numb_path = row.numb_path;
    Mad mad;
    EncodeSaHeader(header, &mad);
    EncodePathRecord(wanted, SaRecord(&mad));
    EXPECT_EQ(Send(h1_, mad), static_cast<uint16_t>(row.status)) << row.description;
  }
}

// h9 is in no partition of the others.
TEST_F(SaResponderTest, AStrangerLearnsOfNobody) {
  const ManagedPort h9 = *ports_.Add(MakeManagedPort(9, {PKey(0x8009)}));
  PathRecord wanted;
  wanted.sgid = h1_.gid;
  wanted.dgid = h2_.gid;
  EXPECT_EQ(AskPath(h9.config, path::kSgid | path::kDgid, wanted), static_cast<uint16_t>(SaStatus::kNoRecords));
  wanted.sgid = h9.config.gid;
  EXPECT_EQ(AskPath(h9.config, path::kSgid | path::kDgid, wanted), static_cast<uint16_t>(SaStatus::kNoRecords));
  // Nor does h1, through h2's other partition.
  const ManagedPort h10 = *ports_.Add(MakeManagedPort(10, {PKey(0x8002)}));
  wanted.sgid = h2_.gid;
  wanted.dgid = h10.config.gid;
  EXPECT_EQ(AskPath(h2_, path::kSgid | path::kDgid, wanted), 0);
  EXPECT_EQ(AskPath(h1_, path::kSgid | path::kDgid, wanted), static_cast<uint16_t>(SaStatus::kNoRecords));
  const struct {
    SaAttribute attribute;
    size_t records;  // its own and, but for P_Keys, the switch's
  } kRows[] = {{SaAttribute::kNodeRecord, 2}, {SaAttribute::kPortInfoRecord, 2}, {SaAttribute::kPKeyTableRecord, 1}};
  for (const auto& row : kRows) {
    SaHeader header;
    header.method = MadMethod::kGetTable;
    header.attribute = row.attribute;
    Mad mad;
    EncodeSaHeader(header, &mad);
    ASSERT_EQ(Send(h9.config, mad), 0);
    EXPECT_EQ(records_.size(), row.records * SaRecordStride(row.attribute)) << static_cast<int>(row.attribute);
  }
}

TEST_F(SaResponderTest, NodesPortsAndPKeys) {
  SaHeader header;
  header.method = MadMethod::kGetTable;
  header.attribute = SaAttribute::kNodeRecord;
  Mad mad;
  EncodeSaHeader(header, &mad);
  ASSERT_EQ(Send(h3_, mad), 0);
  std::vector<std::string> names;
  for (const NodeRecord& node : Table(records_, SaAttribute::kNodeRecord, DecodeNodeRecord)) {
    names.push_back(absl::StrCat(node.lid.ToString(), " ", node.description, " ", static_cast<int>(node.node.type)));
  }
  EXPECT_THAT(names, ElementsAre("0x1 eoib-fabricd 2", "0x2 h1 1", "0x3 h2 1", "0x4 h3 1", "0x5 h4 1"));

  header.method = MadMethod::kGet;
  header.component_mask = node::kNodeDescription;
  EncodeSaHeader(header, &mad);
  EncodeNodeRecord(NodeRecord{Lid(), NodeInfo(), "h2"}, SaRecord(&mad));
  ASSERT_EQ(Send(h1_, mad), 0);
  EXPECT_EQ(DecodeNodeRecord(SaRecord(reply_))->node.port_guid, h2_.port_guid);
  header.component_mask = node::kNodeType;
  EncodeSaHeader(header, &mad);
  EncodeNodeRecord(NodeRecord(), SaRecord(&mad));
  EXPECT_EQ(Send(h1_, mad), static_cast<uint16_t>(SaStatus::kTooManyRecords));

  header.attribute = SaAttribute::kPortInfoRecord;
  header.component_mask = port_info::kLid;
  EncodeSaHeader(header, &mad);
  EncodePortInfoRecord(PortInfoRecord{small_.lid, 0, PortInfo()}, SaRecord(&mad));
  ASSERT_EQ(Send(h1_, mad), 0);
  const PortInfoRecord info = DecodePortInfoRecord(SaRecord(reply_)).value();
  EXPECT_EQ(info.info.lid, small_.lid.value());
  EXPECT_EQ(info.info.neighbor_mtu, small_.mtu);
  EXPECT_EQ(info.info.state, PortState::kActive);

  header.attribute = SaAttribute::kPKeyTableRecord;
  header.component_mask = pkey_table::kLid;
  EncodeSaHeader(header, &mad);
  EncodePKeyTableRecord(PKeyTableRecord{h2_.lid, 0, 0, {}}, SaRecord(&mad));
  ASSERT_EQ(Send(h2_, mad), 0);
  const PKeyTableRecord table = DecodePKeyTableRecord(SaRecord(reply_)).value();
  EXPECT_EQ(table.pkeys[2], PKey(0x8002));
  EXPECT_EQ(table.pkeys[3], PKey());
  EXPECT_EQ(Send(h1_, mad), static_cast<uint16_t>(SaStatus::kNoRecords)) << "the P_Keys of others are not for everybody";
}

TEST_F(SaResponderTest, GroupsInATable) {
  for (uint8_t mgid = 1; mgid <= 2; ++mgid) ASSERT_EQ(Join(h1_, kCreate, Wanted(h1_, kFullMember, mgid)), 0);
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
  for (const McMemberRecord& group : Table(records_, SaAttribute::kMcMemberRecord, DecodeMcMemberRecord)) {
    mgids.push_back(group.mgid);
    EXPECT_EQ(group.port_gid, Gid());
  }
  EXPECT_THAT(mgids, ElementsAre(MakeMgid(1), MakeMgid(2)));
}

TEST_F(SaResponderTest, WhatItIs) {
  SaHeader header;
  header.attribute = SaAttribute::kClassPortInfo;
  Mad mad;
  EncodeSaHeader(header, &mad);
  ASSERT_EQ(Send(h1_, mad), 0);
  const ClassPortInfo info = DecodeClassPortInfo(SaRecord(reply_)).value();
  EXPECT_EQ(info.class_version, kSaClassVersion);
  EXPECT_EQ(info.capability_mask, 0x0400) << "UD multicast";
}

TEST_F(SaResponderTest, SubscriptionsComeAndGo) {
  SaHeader header;
  header.method = MadMethod::kSet;
  header.attribute = SaAttribute::kInformInfo;
  const auto inform = [&](const InformInfo& info) {
    Mad mad;
    EncodeSaHeader(header, &mad);
    EncodeInformInfo(info, SaRecord(&mad));
    return Send(h1_, mad);
  };
  InformInfo info;
  info.trap = 66;
  ASSERT_EQ(inform(info), 0);
  EXPECT_EQ(header_.method, MadMethod::kGetResp);
  EXPECT_EQ(DecodeInformInfo(SaRecord(reply_)).value(), info) << "the answer is the request's record";
  EXPECT_EQ(notices_.subscriptions().at(h1_.gid).size(), 1u);
  info.subscribe = false;
  ASSERT_EQ(inform(info), 0);
  EXPECT_THAT(notices_.subscriptions(), IsEmpty());
  EXPECT_EQ(inform(info), static_cast<uint16_t>(SaStatus::kRequestInvalid)) << "it is not subscribed";
}

TEST_F(SaResponderTest, WhatIsNotSupportedSaysSo) {
  const struct {
    const char* description;
    MadMethod method;
    SaAttribute attribute;
    SaStatus status;
  } kRows[] = {
      {"GetTable(ClassPortInfo)", MadMethod::kGetTable, SaAttribute::kClassPortInfo, SaStatus::kUnsupportedMethodAttribute},
      {"Get(InformInfo)", MadMethod::kGet, SaAttribute::kInformInfo, SaStatus::kUnsupportedMethodAttribute},
      {"Delete(InformInfo)", MadMethod::kDelete, SaAttribute::kInformInfo, SaStatus::kUnsupportedMethodAttribute},
      {"Set(NodeRecord)", MadMethod::kSet, SaAttribute::kNodeRecord, SaStatus::kUnsupportedMethodAttribute},
      {"Get(an unknown attribute)", MadMethod::kGet, SaAttribute{0x1234}, SaStatus::kUnsupportedMethodAttribute},
      {"Set(PathRecord)", MadMethod::kSet, SaAttribute::kPathRecord, SaStatus::kUnsupportedMethodAttribute},
      {"Trap", MadMethod::kTrap, SaAttribute::kNotice, SaStatus::kUnsupportedMethod},
  };
  for (const auto& row : kRows) {
    SaHeader header;
    header.method = row.method;
    header.attribute = row.attribute;
    Mad mad;
    EncodeSaHeader(header, &mad);
    EXPECT_EQ(Send(h1_, mad), static_cast<uint16_t>(row.status)) << row.description;
  }
}

TEST_F(SaResponderTest, MalformedMadsAreDroppedAndCounted) {
  SaHeader header;
  header.method = MadMethod::kSet;
  header.attribute = SaAttribute::kMcMemberRecord;
  Mad good;
  EncodeSaHeader(header, &good);
  Mad response, base_version, management_class, class_version;
  response = base_version = management_class = class_version = good;
  response[3] = 0x81;
  base_version[0] = 2;
  management_class[1] = 1;
  class_version[2] = 1;
  for (const Mad& mad : {Mad{}, response, base_version, management_class, class_version}) EXPECT_EQ(Send(h1_, mad), 0xffff);
  EXPECT_EQ(sa_.counters().malformed, 5u);
  EXPECT_EQ(sa_.counters().requests, 0u);
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

TEST(RateTest, CodesAreNotInTheOrderOfSpeeds) {
  EXPECT_LT(RateMbps(5), RateMbps(3));
  EXPECT_LT(RateMbps(11), RateMbps(10));
  EXPECT_EQ(RateMbps(2), 2500u);
  EXPECT_EQ(RateMbps(7), 40000u);
  EXPECT_EQ(RateMbps(0), 0u);
  EXPECT_EQ(RateMbps(63), 0u);
}

}  // namespace
}  // namespace eoib::softhca
