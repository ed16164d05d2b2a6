#include "vswitch/fabric/softhca/subnet/sa_responder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/fabric/softhca/subnet/sa_demand.h"
#include "vswitch/fabric/softhca/subnet/sa_responder_test_fixture.h"
#include "vswitch/wire/ib/sa_table.h"

namespace eoib::softhca {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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
      {"to a limited member", kPair | path::kPKey, [&](PathRecord* r) { r->dgid = h3_.gid; },
       SaStatus::kOk},
      {"without a source", path::kDgid, nothing, SaStatus::kInsufficientComponents},
      {"without a destination", path::kSgid, nothing, SaStatus::kInsufficientComponents},
      {"to an unknown GID", kPair,
       [](PathRecord* r) { r->dgid = Gid::FromPrefixAndGuid(1, Guid(1)); }, no_records},
      {"from an unknown GID", kPair, [](PathRecord* r) { r->sgid = Gid(); }, no_records},
      {"to a GID with another port's LID", kPair | path::kDlid,
       [](PathRecord* r) { r->dlid = Lid(4); }, no_records},
      {"in a partition of one of them", kPair | path::kPKey,
       [](PathRecord* r) { r->pkey = PKey(0x8002); }, no_records},
      {"between limited members", kPair | path::kPKey,
       [&](PathRecord* r) { r->sgid = r->dgid = h3_.gid; }, no_records},
      {"on an SL that is not", kPair | path::kSl, [](PathRecord* r) { r->sl = Sl(4); }, no_records},
      {"with a larger MTU than there is", kPair | path::kMtu | path::kMtuSelector,
       [](PathRecord* r) {
         r->mtu_selector = Selector::kGreaterThan;
         r->mtu = 5;
       },
       no_records},
      {"faster than there is", kPair | path::kRate | path::kRateSelector,
       [](PathRecord* r) { r->rate = 7; }, no_records},
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
  EXPECT_EQ(AskPath(h1_, path::kSgid | path::kDgid, wanted),
            static_cast<uint16_t>(SaStatus::kNoRecords));
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
       {"0x2 0xffff", "0x2 0x8001", "0x3 0xffff", "0x3 0x8001", "0x4 0xffff", "0x4 0x8001",
        "0x5 0x8001"}},
      {"at most one of each pair",
       &h1_,
       path::kNumbPath,
       0,
       1,
       {"0x2 0xffff", "0x3 0xffff", "0x4 0xffff", "0x5 0x8001"}},
      {"in one partition",
       &h1_,
       path::kPKey,
       0x8001,
       0,
       {"0x2 0x8001", "0x3 0x8001", "0x4 0x8001", "0x5 0x8001"}},
      {"from a limited member: not to itself",
       &h3_,
       path::kPKey,
       0x0001,
       0,
       {"0x2 0x1", "0x3 0x1", "0x5 0x1"}},
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

TEST_F(SaResponderTest, ATableOfPathsNeedsAnEnd) {
  const struct {
    const char* description;
    MadMethod method;
    uint64_t mask;
    uint8_t numb_path;
    SaStatus status;
  } kRows[] = {
      {"Get from anywhere", MadMethod::kGet, path::kDgid, 1, SaStatus::kInsufficientComponents},
      {"neither end", MadMethod::kGetTable, 0, 0, SaStatus::kOk},
      {"no more than no paths", MadMethod::kGetTable, path::kSgid | path::kNumbPath, 0,
       SaStatus::kRequestInvalid},
      {"Get to anywhere", MadMethod::kGet, path::kSgid, 1, SaStatus::kInsufficientComponents},
      {"Get does not look at NumbPath", MadMethod::kGet,
       path::kSgid | path::kDgid | path::kNumbPath, 0, SaStatus::kOk},
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

TEST_F(SaResponderTest, PortsByTheirCapabilities) {
  constexpr uint32_t kIsSm = 1u << 1, kReregistration = 1u << 25, kAmongOthers = 1u << 31;
  const struct {
    const char* description;
    uint32_t capabilities, modifier;
    size_t ports;
  } kRows[] = {{"a subnet manager among others", kIsSm, kAmongOthers, 1},
               {"a subnet manager alone", kIsSm, 0, 1},
               {"reregistration", kReregistration, kAmongOthers, 4},
               {"none in particular", 0, kAmongOthers, 5},
               {"none at all", 0, 0, 0},
               {"both", kIsSm | kReregistration, kAmongOthers, 0}};
  for (const auto& row : kRows) {
    SaHeader header;
    header.method = MadMethod::kGetTable;
    header.attribute = SaAttribute::kPortInfoRecord;
    header.attribute_modifier = row.modifier;
    header.component_mask = port_info::kCapabilityMask;
    PortInfoRecord wanted;
    wanted.info.capability_mask = row.capabilities;
    Mad mad;
    EncodeSaHeader(header, &mad);
    EncodePortInfoRecord(wanted, SaRecord(&mad));
    ASSERT_EQ(Send(h1_, mad), 0) << row.description;
    EXPECT_EQ(Table(records_, SaAttribute::kPortInfoRecord, DecodePortInfoRecord).size(), row.ports)
        << row.description;
  }
}

TEST_F(SaResponderTest, PathsFromAllPortsOrTooMany) {
  const auto ask = [this](const PortConfig& port, uint64_t mask) {
    SaHeader header;
    header.method = MadMethod::kGetTable;
    header.attribute = SaAttribute::kPathRecord;
    header.component_mask = mask | path::kNumbPath;
    PathRecord wanted;
    wanted.dgid = h2_.gid;
    wanted.numb_path = 1;
    Mad mad;
    EncodeSaHeader(header, &mad);
    EncodePathRecord(wanted, SaRecord(&mad));
    return Send(port, mad);
  };
  const auto sources = [this] {
    std::vector<Lid> lids;
    for (const PathRecord& path : Table(records_, SaAttribute::kPathRecord, DecodePathRecord))
      lids.push_back(path.slid);
    return lids;
  };
  ASSERT_EQ(ask(h1_, path::kDgid), 0);
  EXPECT_THAT(sources(), ElementsAre(h1_.lid, h2_.lid, h3_.lid, small_.lid)) << "to one port";
  ASSERT_EQ(ask(h1_, 0), 0);
  EXPECT_EQ(sources().size(), 15u) << "each pair, but the limited member to itself";
  for (uint16_t lid = 10; lid < 10 + 256; ++lid) ports_.Add(MakeManagedPort(lid, {PKey(0xffff)}));
  EXPECT_EQ(ask(h1_, 0), static_cast<uint16_t>(SaStatus::kNoResources));
}

TEST_F(SaResponderTest, APathToAGroupIsTheGroups) {
  McMemberRecord group = Wanted(h1_);
  group.traffic_class = 7;
  group.flow_label = 99;
  ASSERT_EQ(Join(h1_, kCreate, group), 0);
  group = answer_;
  PathRecord wanted;
  wanted.sgid = h2_.gid;
  wanted.dgid = group.mgid.gid();
  const uint64_t kPair = path::kSgid | path::kDgid;
  ASSERT_EQ(AskPath(h2_, kPair, wanted), 0);
  EXPECT_EQ(path_.dlid.value(), group.mlid.value());
  EXPECT_EQ(path_.dgid, group.mgid.gid());
  EXPECT_EQ(path_.slid, h2_.lid);
  EXPECT_EQ(path_.pkey, PKey(0x8001));
  EXPECT_EQ(path_.mtu, group.mtu);
  EXPECT_EQ(path_.rate, group.rate);
  EXPECT_EQ(path_.traffic_class, 7);
  EXPECT_EQ(path_.flow_label, 99u);
  EXPECT_FALSE(path_.reversible);

  const auto no_records = static_cast<uint16_t>(SaStatus::kNoRecords);
  const struct {
    const char* description;
    uint64_t mask;
    std::function<void(PathRecord*)> change;
  } kRows[] = {
      {"another group", kPair, [](PathRecord* r) { r->dgid = MakeMgid(2).gid(); }},
      {"by another MLID", kPair | path::kDlid, [](PathRecord* r) { r->dlid = Lid(0xc009); }},
      {"in another partition", kPair | path::kPKey, [](PathRecord* r) { r->pkey = PKey(0xffff); }},
      {"on another SL", kPair | path::kSl, [](PathRecord* r) { r->sl = Sl(3); }},
      {"a smaller MTU", kPair | path::kMtu | path::kMtuSelector, [](PathRecord* r) { r->mtu = 1; }},
  };
  for (const auto& row : kRows) {
    PathRecord other = wanted;
    row.change(&other);
    EXPECT_EQ(AskPath(h2_, row.mask, other), no_records) << row.description;
  }
  const ManagedPort stranger = *ports_.Add(MakeManagedPort(9, {PKey(0xffff)}));
  wanted.sgid = stranger.config.gid;
  EXPECT_EQ(AskPath(stranger.config, kPair, wanted), no_records)
      << "the source is not in that partition";
}

// h9 shares no partition with the others.
TEST_F(SaResponderTest, APortWithoutASharedPartitionLearnsOfNoPort) {
  const ManagedPort h9 = *ports_.Add(MakeManagedPort(9, {PKey(0x8009)}));
  PathRecord wanted;
  wanted.sgid = h1_.gid;
  wanted.dgid = h2_.gid;
  EXPECT_EQ(AskPath(h9.config, path::kSgid | path::kDgid, wanted),
            static_cast<uint16_t>(SaStatus::kNoRecords));
  wanted.sgid = h9.config.gid;
  EXPECT_EQ(AskPath(h9.config, path::kSgid | path::kDgid, wanted),
            static_cast<uint16_t>(SaStatus::kNoRecords));
  // Nor does h1 learn of h10 through h2's other partition.
  const ManagedPort h10 = *ports_.Add(MakeManagedPort(10, {PKey(0x8002)}));
  wanted.sgid = h2_.gid;
  wanted.dgid = h10.config.gid;
  EXPECT_EQ(AskPath(h2_, path::kSgid | path::kDgid, wanted), 0);
  EXPECT_EQ(AskPath(h1_, path::kSgid | path::kDgid, wanted),
            static_cast<uint16_t>(SaStatus::kNoRecords));
  const struct {
    SaAttribute attribute;
    size_t records;  // its own and, except for P_Keys, the switch's
  } kRows[] = {{SaAttribute::kNodeRecord, 2},
               {SaAttribute::kPortInfoRecord, 2},
               {SaAttribute::kPKeyTableRecord, 1}};
  for (const auto& row : kRows) {
    SaHeader header;
    header.method = MadMethod::kGetTable;
    header.attribute = row.attribute;
    Mad mad;
    EncodeSaHeader(header, &mad);
    ASSERT_EQ(Send(h9.config, mad), 0);
    EXPECT_EQ(records_.size(), row.records * SaRecordStride(row.attribute))
        << static_cast<int>(row.attribute);
  }
}

TEST_F(SaResponderTest, ATableLongerThanTheLongestMadIsRefused) {
  SaHeader header;
  header.method = MadMethod::kGetTable;
  header.attribute = SaAttribute::kNodeRecord;
  Mad mad;
  EncodeSaHeader(header, &mad);
  const size_t most = (kMaxMad - kSaRecordOffset) / SaRecordStride(SaAttribute::kNodeRecord);
  uint16_t lid = 9;
  for (size_t records = 5; records < most; ++records)
    ports_.Add(MakeManagedPort(++lid, {PKey(0xffff)}));
  EXPECT_EQ(Send(h1_, mad), 0);
  EXPECT_EQ(sa_.counters().tables, 1u);
  ports_.Add(MakeManagedPort(++lid, {PKey(0xffff)}));
  EXPECT_EQ(Send(h1_, mad), static_cast<uint16_t>(SaStatus::kNoResources));
  EXPECT_FALSE(IsSaTable(reply_));
  EXPECT_EQ(sa_.counters().errors, 1u);
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
    names.push_back(absl::StrCat(node.lid.ToString(), " ", node.description, " ",
                                 static_cast<int>(node.node.type)));
  }
  EXPECT_THAT(names,
              ElementsAre("0x1 eoib-fabricd 2", "0x2 h1 1", "0x3 h2 1", "0x4 h3 1", "0x5 h4 1"));

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
  EXPECT_EQ(Send(h1_, mad), static_cast<uint16_t>(SaStatus::kNoRecords))
      << "a port sees only its own P_Keys";
}

TEST_F(SaResponderTest, ClassPortInfo) {
  SaHeader header;
  header.attribute = SaAttribute::kClassPortInfo;
  Mad mad;
  EncodeSaHeader(header, &mad);
  ASSERT_EQ(Send(h1_, mad), 0);
  EXPECT_EQ(SaRecord(reply_)[1], kSaClassVersion);
  EXPECT_EQ(ReadWire<be16>(&SaRecord(reply_)[2]).value(), 0x0400) << "CapabilityMask: UD multicast";
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
  EXPECT_EQ(DecodeInformInfo(SaRecord(reply_)).value(), info)
      << "the answer is the request's record";
  EXPECT_EQ(notices_.subscriptions().at(h1_.gid).size(), 1u);
  info.subscribe = false;
  ASSERT_EQ(inform(info), 0);
  EXPECT_THAT(notices_.subscriptions(), IsEmpty());
  EXPECT_EQ(inform(info), static_cast<uint16_t>(SaStatus::kRequestInvalid))
      << "it is not subscribed";
}

TEST_F(SaResponderTest, UnsupportedRequestsAreRefused) {
  const struct {
    const char* description;
    MadMethod method;
    SaAttribute attribute;
    SaStatus status;
  } kRows[] = {
      {"GetTable(ClassPortInfo)", MadMethod::kGetTable, SaAttribute::kClassPortInfo,
       SaStatus::kUnsupportedMethodAttribute},
      {"Get(InformInfo)", MadMethod::kGet, SaAttribute::kInformInfo,
       SaStatus::kUnsupportedMethodAttribute},
      {"Delete(InformInfo)", MadMethod::kDelete, SaAttribute::kInformInfo,
       SaStatus::kUnsupportedMethodAttribute},
      {"Set(NodeRecord)", MadMethod::kSet, SaAttribute::kNodeRecord,
       SaStatus::kUnsupportedMethodAttribute},
      {"Get(an unknown attribute)", MadMethod::kGet, SaAttribute{0x1234},
       SaStatus::kUnsupportedMethodAttribute},
      {"Set(PathRecord)", MadMethod::kSet, SaAttribute::kPathRecord,
       SaStatus::kUnsupportedMethodAttribute},
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
  for (const Mad& mad : {Mad{}, response, base_version, management_class, class_version})
    EXPECT_EQ(Send(h1_, mad), 0xffff);
  EXPECT_EQ(sa_.counters().malformed, 5u);
  EXPECT_EQ(sa_.counters().requests, 0u);
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
