#include "vswitch/fabric/sa_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

namespace eoib {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Remembers what was sent; the test says what arrives.
class FakeMadTransport final : public MadTransport {
 public:
  absl::Status Send(const Mad& mad) override {
    if (!refuse.ok()) return refuse;
    sent.push_back(mad);
    return absl::OkStatus();
  }
  absl::Status Reply(const Mad& mad) override {
    replies.push_back(mad);
    return absl::OkStatus();
  }
  bool ReceivesReports() const override { return receives_reports; }
  bool Receive(Mad* mad) override {
    if (arriving.empty()) return false;
    *mad = arriving.front();
    arriving.pop_front();
    return true;
  }
  int fd() const override { return 42; }

  SaHeader header(size_t i) const { return *DecodeSaHeader(sent.at(i)); }

  absl::Status refuse;
  bool receives_reports = true;
  std::vector<Mad> sent;
  std::vector<Mad> replies;
  std::deque<Mad> arriving;
};

const Gid kSgid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(1));
const Gid kDgid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(2));
const Mgid kMgid(Gid::FromPrefixAndGuid(0xff12'e01b'8001'ffff, Guid(0xffff'ffff'0000'0000)));
constexpr uint64_t kJoinMask = mcm::kMgid | mcm::kPortGid | mcm::kJoinState;

McMemberRecord Group() {
  McMemberRecord record;
  record.mgid = kMgid;
  record.port_gid = kSgid;
  record.join_state = kFullMember;
  return record;
}

class SaClientTest : public testing::Test {
 public:
  void Join() { client_.Join(Group(), kJoinMask, Remember()); }
  SaClient::GroupCallback Remember() {
    return [this](absl::StatusOr<McMemberRecord> record) { groups_.push_back(std::move(record)); };
  }
  void Path(const Gid& dgid = kDgid) {
    client_.QueryPath(kSgid, dgid, PKey(0x8001),
                      [this](absl::StatusOr<PathRecord> record) { paths_.push_back(std::move(record)); });
  }

  // A response to the request that was sent i-th.
  SaHeader ResponseHeader(size_t i) const {
    SaHeader header = mads_.header(i);
    header.method = header.method == MadMethod::kDelete ? MadMethod::kDeleteResp : MadMethod::kGetResp;
    return header;
  }
  static Mad GroupMad(const SaHeader& header, const McMemberRecord& record) {
    Mad mad;
    EncodeSaHeader(header, &mad);
    EncodeMcMemberRecord(record, SaRecord(&mad));
    return mad;
  }
  static Mad PathMad(const SaHeader& header, const Gid& dgid = kDgid, const Gid& sgid = kSgid) {
    PathRecord record;
    record.sgid = sgid;
    record.dgid = dgid;
    record.dlid = Lid(7);
    Mad mad;
    EncodeSaHeader(header, &mad);
    EncodePathRecord(record, SaRecord(&mad));
    return mad;
  }
  void Arrive(const Mad& mad) {
    mads_.arriving.push_back(mad);
    client_.Run();
  }
  void Advance(absl::Duration by) {
    clock_.Advance(by);
    client_.Run();
  }

  FakeClock clock_;
  FakeMadTransport mads_;
  SaClient client_{&mads_, &clock_, SaClient::Options()};
  std::vector<absl::StatusOr<McMemberRecord>> groups_;
  std::vector<absl::StatusOr<PathRecord>> paths_;
};

TEST_F(SaClientTest, AsksWithTheRightMethodAndMask) {
  Join();
  client_.Leave(Group(), Remember());
  client_.QueryGroup(Group(), mcm::kMgid, Remember());
  Path();
  ASSERT_EQ(mads_.sent.size(), 4u);
  EXPECT_EQ(mads_.header(0).method, MadMethod::kSet);
  EXPECT_EQ(mads_.header(0).component_mask, kJoinMask);
  EXPECT_EQ(*DecodeMcMemberRecord(SaRecord(mads_.sent[0])), Group());
  EXPECT_EQ(mads_.header(1).method, MadMethod::kDelete);
  EXPECT_EQ(mads_.header(1).component_mask, kJoinMask);
  EXPECT_EQ(mads_.header(2).method, MadMethod::kGet);
  EXPECT_EQ(mads_.header(2).component_mask, mcm::kMgid);
  EXPECT_EQ(mads_.header(3).method, MadMethod::kGet);
  EXPECT_EQ(mads_.header(3).attribute, SaAttribute::kPathRecord);
  EXPECT_EQ(mads_.header(3).component_mask, path::kDgid | path::kSgid | path::kReversible | path::kNumbPath | path::kPKey);
  const PathRecord asked = *DecodePathRecord(SaRecord(mads_.sent[3]));
  EXPECT_EQ(asked.dgid, kDgid);
  EXPECT_EQ(asked.sgid, kSgid);
  EXPECT_EQ(asked.pkey, PKey(0x8001));
  EXPECT_TRUE(asked.reversible);
  EXPECT_EQ(asked.numb_path, 1);
  EXPECT_EQ(client_.fd(), 42);
}

TEST_F(SaClientTest, GivesEachCallerItsOwnAnswer) {
  Join();
  Path();
  client_.Leave(Group(), Remember());
  McMemberRecord answer = Group();
  answer.mlid = Mlid(0xc003);
  answer.qkey = QKey(0x80008001);
  Arrive(PathMad(ResponseHeader(1)));
  EXPECT_EQ(paths_.size(), 1u);
  EXPECT_EQ(paths_[0]->dlid, Lid(7));
  EXPECT_TRUE(groups_.empty());
  Arrive(GroupMad(ResponseHeader(0), answer));
  ASSERT_EQ(groups_.size(), 1u);
  EXPECT_EQ(*groups_[0], answer);
  Arrive(GroupMad(ResponseHeader(2), Group()));
  EXPECT_EQ(groups_.size(), 2u);
  EXPECT_EQ(client_.NextDeadline(), absl::InfiniteFuture());
  EXPECT_EQ(client_.counters().ignored, 0u);
}

TEST_F(SaClientTest, RepeatsTheSameBytesAtDoublingIntervals) {
  const absl::Time start = clock_.Now();
  Join();
  std::vector<int64_t> sent_at;
  for (int ms = 0; ms < 10'000; ++ms) {
    const size_t before = mads_.sent.size();
    Advance(absl::Milliseconds(1));
    if (mads_.sent.size() != before) sent_at.push_back((clock_.Now() - start) / absl::Milliseconds(1));
  }
  EXPECT_THAT(sent_at, ElementsAre(250, 750, 1750, 3750));
  for (const Mad& mad : mads_.sent) EXPECT_EQ(mad, mads_.sent[0]) << "transaction ID and all";
  ASSERT_EQ(groups_.size(), 1u) << "once";
  EXPECT_EQ(groups_[0].status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(groups_[0].status().message(), "join " + kMgid.ToString() + ": no answer from the subnet administrator");
  EXPECT_EQ(client_.counters().retries, 4u);
  EXPECT_EQ(client_.counters().timeouts, 1u);
}

TEST_F(SaClientTest, NextDeadlineIsWhenRunHasWork) {
  EXPECT_EQ(client_.NextDeadline(), absl::InfiniteFuture());
  Join();
  EXPECT_EQ(client_.NextDeadline(), clock_.Now() + absl::Milliseconds(250));
  Advance(absl::Milliseconds(100));
  Path();
  EXPECT_EQ(client_.NextDeadline(), clock_.Now() + absl::Milliseconds(150)) << "the older one's";
  Advance(absl::Milliseconds(150));
  EXPECT_EQ(client_.NextDeadline(), clock_.Now() + absl::Milliseconds(100)) << "the younger one's";
}

TEST_F(SaClientTest, ALateAnswerToAnEarlierAttemptCountsAndTheNextIsIgnored) {
  Join();
  const Mad answer = GroupMad(ResponseHeader(0), Group());
  Advance(absl::Milliseconds(250));
  EXPECT_EQ(mads_.sent.size(), 2u);
  Arrive(answer);
  Arrive(answer);
  EXPECT_EQ(groups_.size(), 1u);
  EXPECT_EQ(client_.counters().ignored, 1u);
}

TEST_F(SaClientTest, AnAnswerAfterTheLastTimeoutIsIgnored) {
  Join();
  for (int i = 0; i < 10; ++i) Advance(absl::Seconds(10));
  ASSERT_EQ(groups_.size(), 1u);
  Arrive(GroupMad(ResponseHeader(0), Group()));
  EXPECT_EQ(groups_.size(), 1u);
}

TEST_F(SaClientTest, ARefusedSendIsTriedAgain) {
  mads_.refuse = absl::UnavailableError("no subnet manager");
  Join();
  Path();
  EXPECT_TRUE(mads_.sent.empty());
  EXPECT_TRUE(groups_.empty());
  mads_.refuse = absl::OkStatus();
  Advance(absl::Milliseconds(250));
  EXPECT_EQ(mads_.sent.size(), 2u) << "it is there again";
  Arrive(GroupMad(ResponseHeader(0), Group()));
  EXPECT_TRUE(groups_.at(0).ok());
  mads_.refuse = absl::UnavailableError("no subnet manager");
  for (int i = 0; i < 5; ++i) Advance(absl::Seconds(10));
  ASSERT_EQ(paths_.size(), 1u);
  EXPECT_THAT(paths_[0].status().message(), HasSubstr("no answer from the subnet administrator: no subnet manager"));
}

TEST_F(SaClientTest, TellsTheAdministratorsErrors) {
  struct Row {
    const char* description;
    uint16_t status;
    absl::StatusCode code;
  };
  static constexpr Row kRows[] = {
      {"no such group", 0x0300, absl::StatusCode::kNotFound},
      {"no MLID left", 0x0100, absl::StatusCode::kResourceExhausted},
      {"a group cannot be made of that", 0x0600, absl::StatusCode::kFailedPrecondition},
      {"not allowed", 0x0200, absl::StatusCode::kInvalidArgument},
      {"bad GID", 0x0500, absl::StatusCode::kInvalidArgument},
      {"does not know the attribute", 0x000c, absl::StatusCode::kUnimplemented},
      {"nobody knows this one", 0x7700, absl::StatusCode::kInternal},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.description);
    groups_.clear();
    Join();
    SaHeader header = ResponseHeader(mads_.sent.size() - 1);
    header.status = row.status;
    Mad mad;
    EncodeSaHeader(header, &mad);  // no record in an error
    Arrive(mad);
    ASSERT_EQ(groups_.size(), 1u);
    EXPECT_EQ(groups_[0].status().code(), row.code);
    EXPECT_EQ(groups_[0].status().message(),
              "join " + kMgid.ToString() + ": the subnet administrator answers " + SaStatusName(row.status));
  }
  EXPECT_EQ(client_.counters().errors, std::size(kRows));
  EXPECT_EQ(client_.NextDeadline(), absl::InfiniteFuture()) << "an error is an answer";
}

TEST_F(SaClientTest, BusyIsNoAnswer) {
  Join();
  SaHeader header = ResponseHeader(0);
  header.status = static_cast<uint16_t>(SaStatus::kBusy);
  Arrive(GroupMad(header, Group()));
  EXPECT_TRUE(groups_.empty());
  Advance(absl::Milliseconds(250));
  EXPECT_EQ(mads_.sent.size(), 2u);
}

// Whatever does not answer the question is counted and changes nothing: the true answer still counts.
TEST_F(SaClientTest, IgnoresWhatIsNoAnswer) {
  struct Row {
    const char* description;
    std::function<Mad(const SaClientTest&)> mad;  // the join was sent first, the path query second
  };
  auto group = [](auto change) {
    return [change](const SaClientTest& t) {
      SaHeader header = t.ResponseHeader(0);
      McMemberRecord record = Group();
      change(&header, &record);
      return GroupMad(header, record);
    };
  };
  const Row rows[] = {
      {"unknown transaction ID", group([](SaHeader* h, McMemberRecord*) { h->tid += 100; })},
      {"transaction ID 0", group([](SaHeader* h, McMemberRecord*) { h->tid = 0; })},
      {"the other request's transaction ID", group([](SaHeader* h, McMemberRecord*) { h->tid += 1; })},
      {"another attribute", group([](SaHeader* h, McMemberRecord*) { h->attribute = SaAttribute::kInformInfo; })},
      {"another attribute and an error", group([](SaHeader* h, McMemberRecord*) {
         h->attribute = SaAttribute::kPathRecord;
         h->status = 0x0300;
       })},
      {"our own request, reflected", group([](SaHeader* h, McMemberRecord*) { h->method = MadMethod::kSet; })},
      {"the response to a deletion", group([](SaHeader* h, McMemberRecord*) { h->method = MadMethod::kDeleteResp; })},
      {"a report", group([](SaHeader* h, McMemberRecord*) { h->method = MadMethod::kReport; })},
      {"another group",
       group([](SaHeader*, McMemberRecord* r) { r->mgid = Mgid(Gid::FromPrefixAndGuid(0xff12'e01b'8002'ffff, Guid(1))); })},
      {"a unicast GID for a group",
       [](const SaClientTest& t) {
         Mad mad = GroupMad(t.ResponseHeader(0), Group());
         const Gid unicast = kSgid;
         for (size_t i = 0; i + Gid::kSize <= mad.size(); ++i) {
           if (Gid::FromWire(&mad[i]) == kMgid.gid()) unicast.ToWire(&mad[i]);
         }
         return mad;
       }},
      {"another path", [](const SaClientTest& t) { return PathMad(t.ResponseHeader(1), kSgid, kDgid); }},
      {"a path from elsewhere", [](const SaClientTest& t) { return PathMad(t.ResponseHeader(1), kDgid, kDgid); }},
      {"zeros", [](const SaClientTest&) { return Mad{}; }},
      {"ones",
       [](const SaClientTest&) {
         Mad mad;
         mad.fill(0xff);
         return mad;
       }},
      {"cut off in its header",
       [](const SaClientTest& t) {
         Mad mad = GroupMad(t.ResponseHeader(0), Group());
         std::fill(mad.begin() + 8, mad.end(), 0);
         return mad;
       }},
      {"cut off before its record",
       [](const SaClientTest& t) {
         Mad mad;
         EncodeSaHeader(t.ResponseHeader(0), &mad);
         return mad;
       }},
  };
  Join();
  Path();
  uint64_t ignored = 0;
  for (const Row& row : rows) {
    SCOPED_TRACE(row.description);
    Arrive(row.mad(*this));
    EXPECT_EQ(client_.counters().ignored, ++ignored);
    EXPECT_TRUE(groups_.empty());
    EXPECT_TRUE(paths_.empty());
  }
  Arrive(GroupMad(ResponseHeader(0), Group()));
  Arrive(PathMad(ResponseHeader(1)));
  EXPECT_TRUE(groups_.at(0).ok());
  EXPECT_TRUE(paths_.at(0).ok());
  EXPECT_EQ(client_.counters().ignored, ignored);
}

TEST_F(SaClientTest, TheAdministratorMayChooseTheGroup) {
  McMemberRecord record = Group();
  record.mgid = Mgid();
  client_.Join(record, kJoinMask, Remember());
  Arrive(GroupMad(ResponseHeader(0), Group()));
  ASSERT_EQ(groups_.size(), 1u);
  EXPECT_EQ(groups_[0]->mgid, kMgid);
}

TEST_F(SaClientTest, CallbacksMayAskAgain) {
  int answers = 0;
  SaClient::GroupCallback again = [&](absl::StatusOr<McMemberRecord> record) {
    EXPECT_TRUE(record.ok());
    if (++answers < 100) client_.Join(Group(), kJoinMask, again);
    for (int i = 0; i < 20; ++i) Path();  // so that the table grows under whoever holds on to it
  };
  client_.Join(Group(), kJoinMask, again);
  for (size_t i = 0; answers < 100; ++i) {
    if (mads_.header(i).method == MadMethod::kSet) Arrive(GroupMad(ResponseHeader(i), Group()));
  }
  EXPECT_EQ(answers, 100);
}

TEST_F(SaClientTest, CallbacksOfTimeoutsMayAskAgain) {
  SaClient client(&mads_, &clock_, {.attempts = 1});
  int failures = 0;
  for (int i = 0; i < 10; ++i) {
    client.Join(Group(), kJoinMask, [&](absl::StatusOr<McMemberRecord> record) {
      EXPECT_FALSE(record.ok());
      ++failures;
      for (int k = 0; k < 50; ++k) client.Join(Group(), kJoinMask, [&](absl::StatusOr<McMemberRecord>) { ++failures; });
    });
  }
  clock_.Advance(absl::Seconds(1));
  client.Run();
  EXPECT_EQ(failures, 10) << "what a callback starts is not due in the same turn";
  clock_.Advance(absl::Seconds(1));
  client.Run();
  EXPECT_EQ(failures, 10 + 500);
  EXPECT_EQ(client.counters().requests, 510u);
}

TEST_F(SaClientTest, TransactionIdsAreNeverZeroNorInUse) {
  SaClient client(&mads_, &clock_, {.first_tid = 0x12'00ff'fffe});
  for (int i = 0; i < 3; ++i) client.Join(Group(), kJoinMask, Remember());
  SaClient other(&mads_, &clock_, {.first_tid = MadTransport::kTidMask + 1});
  other.Join(Group(), kJoinMask, Remember());
  EXPECT_EQ(mads_.header(0).tid, 0xff'fffeu) << "24 bits";
  EXPECT_EQ(mads_.header(1).tid, 0xff'ffffu);
  EXPECT_EQ(mads_.header(2).tid, 1u);
  EXPECT_EQ(mads_.header(3).tid, 1u);
}

// A flood of answers that nobody asked for does not keep Run from coming back, nor from what is due.
TEST_F(SaClientTest, RunTakesABoundedNumber) {
  Join();
  for (int i = 0; i < 10'000; ++i) mads_.arriving.push_back(Mad{});
  Advance(absl::Milliseconds(250));
  EXPECT_GT(mads_.arriving.size(), 5'000u);
  EXPECT_EQ(mads_.sent.size(), 2u);
}

// ---- What many ask.

// Peers that nobody has heard of before come by the thousand if somebody wants them to.
TEST_F(SaClientTest, AFloodOfNewPeersWaitsInOrder) {
  SaClient client(&mads_, &clock_, {.attempts = 1, .path_queries = 3});
  std::vector<int> answered;
  const auto dgid = [](int i) { return Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(100 + static_cast<uint64_t>(i))); };
  for (int i = 0; i < 10; ++i) {
    client.QueryPath(kSgid, dgid(i), PKey(0x8001), [&answered, i](absl::StatusOr<PathRecord>) { answered.push_back(i); });
  }
  EXPECT_EQ(mads_.sent.size(), 3u);
  client.Join(Group(), kJoinMask, Remember());
  client.Subscribe(SmTrap::kGidInService, [](absl::StatusOr<InformInfo>) {});
  EXPECT_EQ(mads_.sent.size(), 5u) << "what is not a path does not wait";
  EXPECT_EQ(client.counters().requests, 5u);

  mads_.arriving.push_back(PathMad(ResponseHeader(1), dgid(1)));
  client.Run();
  EXPECT_THAT(answered, ElementsAre(1));
  EXPECT_EQ(mads_.sent.size(), 6u) << "one goes, one comes";
  EXPECT_EQ(DecodePathRecord(SaRecord(mads_.sent[5]))->dgid, dgid(3));
  for (int i = 0; i < 10; ++i) {
    clock_.Advance(absl::Seconds(1));
    client.Run();
  }
  EXPECT_THAT(answered, ElementsAre(1, 0, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST_F(SaClientTest, BitsOfTheTransportAboveTheCallersAreNotLookedAt) {
  Path();
  SaHeader header = ResponseHeader(0);
  header.tid |= 0x12'3400'0000;
  Arrive(PathMad(header));
  EXPECT_EQ(paths_.size(), 1u);
}

// ---- Tables.

constexpr size_t kPathStride = 64;

PathRecord PathTo(uint64_t guid) {
  PathRecord record;
  record.sgid = kSgid;
  record.dgid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(guid));
  record.dlid = Lid(static_cast<uint16_t>(guid));
  return record;
}

class SaClientTableTest : public SaClientTest {
 protected:
  void AskPaths() {
    client_.QueryPaths(kSgid, PKey(0x8001),
                       [this](absl::StatusOr<std::vector<PathRecord>> table) { tables_.push_back(std::move(table)); });
  }
  // A segment of the answer to the request that was sent i-th.
  Mad Segment(size_t i, const std::vector<PathRecord>& records, uint32_t segment) const {
    std::vector<uint8_t> table(records.size() * kPathStride);
    for (size_t at = 0; at < records.size(); ++at) {
      EncodePathRecord(records[at], absl::MakeSpan(table).subspan(at * kPathStride));
    }
    SaHeader header = mads_.header(i);
    header.method = MadMethod::kGetTableResp;
    header.attribute_offset = kPathStride / 8;
    RmppHeader rmpp;
    rmpp.active = true;
    rmpp.type = RmppType::kData;
    rmpp.segment = segment;
    rmpp.first = segment == 1;
    rmpp.last = segment * kRmppDataPerSegment >= table.size();
    const size_t from = (segment - 1) * kRmppDataPerSegment;
    const size_t size = std::min(kRmppDataPerSegment, table.size() - from);
    if (rmpp.last) rmpp.payload_length = static_cast<uint32_t>(size + kRmppSaHeader);
    Mad mad;
    EncodeSaHeader(header, &mad);
    EncodeRmppHeader(rmpp, &mad);
    std::copy_n(table.begin() + static_cast<ptrdiff_t>(from), size, SaRecord(&mad).begin());
    return mad;
  }
  RmppHeader LastReply() const { return DecodeRmppHeader(mads_.replies.back()); }

  std::vector<absl::StatusOr<std::vector<PathRecord>>> tables_;
};

TEST_F(SaClientTableTest, ATableComesInSegments) {
  AskPaths();
  EXPECT_EQ(mads_.header(0).method, MadMethod::kGetTable);
  EXPECT_EQ(mads_.header(0).component_mask, path::kSgid | path::kReversible | path::kNumbPath | path::kPKey);
  std::vector<PathRecord> records;
  for (uint64_t guid = 2; guid < 9; ++guid) records.push_back(PathTo(guid));
  records[3].sgid = kDgid;  // not what we asked for
  for (uint32_t i = 1; i <= 3; ++i) {
    EXPECT_TRUE(tables_.empty());
    Arrive(Segment(0, records, i));
  }
  ASSERT_EQ(tables_.size(), 1u);
  records.erase(records.begin() + 3);
  EXPECT_EQ(*tables_[0], records);
  EXPECT_EQ(LastReply().type, RmppType::kAck);
  EXPECT_EQ(LastReply().segment, 3u);
  EXPECT_EQ(client_.NextDeadline(), absl::InfiniteFuture());

  records.insert(records.begin() + 3, PathTo(5));
  const size_t replies = mads_.replies.size();
  Arrive(Segment(0, records, 3));
  EXPECT_EQ(mads_.replies.size(), replies + 1) << "the SA did not hear the end";
  EXPECT_EQ(LastReply().segment, 3u);
  EXPECT_EQ(tables_.size(), 1u);
  EXPECT_EQ(client_.counters().ignored, 0u);
}

TEST_F(SaClientTableTest, AnEmptyTableIsAnAnswer) {
  AskPaths();
  Arrive(Segment(0, {}, 1));
  ASSERT_EQ(tables_.size(), 1u);
  EXPECT_TRUE(tables_[0]->empty());
}

TEST_F(SaClientTableTest, EachSegmentGivesTheSaMoreTime) {
  AskPaths();
  const std::vector<PathRecord> records(20, PathTo(2));
  for (uint32_t i = 1; i <= 7; ++i) {
    Arrive(Segment(0, records, i));
    Advance(absl::Milliseconds(1900));
  }
  EXPECT_EQ(tables_.size(), 1u);
  EXPECT_EQ(mads_.sent.size(), 1u);
}

TEST_F(SaClientTableTest, ATableThatStopsComingIsAbortedAndAskedForAgain) {
  AskPaths();
  const std::vector<PathRecord> records(10, PathTo(2));
  Arrive(Segment(0, records, 1));
  Arrive(Segment(0, records, 2));
  Advance(absl::Seconds(2));
  EXPECT_EQ(LastReply().type, RmppType::kAbort);
  EXPECT_EQ(mads_.sent.size(), 2u);
  const size_t replies = mads_.replies.size();
  Arrive(Segment(0, records, 3));
  EXPECT_EQ(mads_.replies.size(), replies) << "a late one of the first transfer must not spoil the second";
  for (uint32_t i = 1; i <= 4; ++i) Arrive(Segment(1, records, i));
  ASSERT_EQ(tables_.size(), 1u);
  EXPECT_EQ(tables_[0]->size(), 10u);
}

TEST_F(SaClientTableTest, ARefusedTableIsAnError) {
  AskPaths();
  SaHeader header = mads_.header(0);
  header.method = MadMethod::kGetTableResp;
  header.status = static_cast<uint16_t>(SaStatus::kUnsupportedMethodAttribute);
  Arrive(PathMad(header));
  ASSERT_EQ(tables_.size(), 1u);
  EXPECT_EQ(tables_[0].status().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(SaClientTableTest, ATableAgainstTheRulesIsAnError) {
  AskPaths();
  const std::vector<PathRecord> records(10, PathTo(2));
  Arrive(Segment(0, records, 1));
  Mad mad = Segment(0, records, 2);
  RmppHeader rmpp = DecodeRmppHeader(mad);
  rmpp.segment = 100'000;
  EncodeRmppHeader(rmpp, &mad);
  Arrive(mad);
  ASSERT_EQ(tables_.size(), 1u);
  EXPECT_EQ(tables_[0].status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(LastReply().type, RmppType::kAbort);
  EXPECT_EQ(LastReply().status, static_cast<uint8_t>(RmppStatus::kSegmentTooBig));
}

// They would overlap.
TEST_F(SaClientTableTest, RecordsCloserThanTheirSizeAreAnError) {
  AskPaths();
  Mad mad = Segment(0, {PathTo(2)}, 1);
  SaHeader header = *DecodeSaHeader(mad);
  header.attribute_offset = kPathStride / 8 - 1;
  const RmppHeader rmpp = DecodeRmppHeader(mad);
  EncodeSaHeader(header, &mad);
  EncodeRmppHeader(rmpp, &mad);
  Arrive(mad);
  ASSERT_EQ(tables_.size(), 1u);
  EXPECT_EQ(tables_[0].status().code(), absl::StatusCode::kInternal);
}

TEST_F(SaClientTableTest, GroupsComeAsATableToo) {
  std::vector<McMemberRecord> groups;
  client_.QueryGroups(Group(), mcm::kPKey, [&](absl::StatusOr<std::vector<McMemberRecord>> table) { groups = *table; });
  SaHeader header = mads_.header(0);
  EXPECT_EQ(header.component_mask, mcm::kPKey);
  header.method = MadMethod::kGetTableResp;
  header.attribute_offset = 7;
  Mad mad = GroupMad(header, Group());
  EncodeRmppHeader(
      {.active = true, .first = true, .last = true, .type = RmppType::kData, .segment = 1, .payload_length = 20 + 56}, &mad);
  Arrive(mad);
  EXPECT_THAT(groups, ElementsAre(Group()));
}

// IBA 1.4 §13.6: only a table has several segments.
TEST_F(SaClientTableTest, ARecordInSegmentsIsIgnored) {
  Path();
  SaHeader header = ResponseHeader(0);
  Mad mad = PathMad(header);
  EncodeRmppHeader({.active = true, .first = true, .type = RmppType::kData, .segment = 1}, &mad);
  Arrive(mad);
  EXPECT_TRUE(paths_.empty());
  EXPECT_EQ(client_.counters().ignored, 1u);
  EncodeRmppHeader({.active = true, .first = true, .last = true, .type = RmppType::kData, .segment = 1, .payload_length = 84},
                   &mad);
  Arrive(mad);
  EXPECT_EQ(paths_.size(), 1u) << "one segment is a record";
}

// ---- Reports.

class SaClientReportTest : public SaClientTest {
 protected:
  SaClientReportTest() {
    client_.OnNotice([this](const Notice& notice) { notices_.push_back(notice); });
  }
  static Mad ReportMad(uint64_t tid, const Notice& notice) {
    Mad mad;
    EncodeSaHeader({.method = MadMethod::kReport, .tid = tid, .attribute = SaAttribute::kNotice}, &mad);
    EncodeNotice(notice, SaRecord(&mad));
    return mad;
  }

  std::vector<Notice> notices_;
};

TEST_F(SaClientReportTest, SubscribesToOneTrapOfAllPorts) {
  std::vector<absl::StatusOr<InformInfo>> answers;
  client_.Subscribe(SmTrap::kGidInService, [&](absl::StatusOr<InformInfo> answer) { answers.push_back(answer); });
  client_.Unsubscribe(SmTrap::kGroupDeleted, [&](absl::StatusOr<InformInfo> answer) { answers.push_back(answer); });
  EXPECT_EQ(mads_.header(0).method, MadMethod::kSet);
  EXPECT_EQ(mads_.header(0).attribute, SaAttribute::kInformInfo);
  InformInfo asked = *DecodeInformInfo(SaRecord(mads_.sent[0]));
  EXPECT_TRUE(asked.subscribe);
  EXPECT_TRUE(asked.generic);
  EXPECT_EQ(asked.trap, 64);
  EXPECT_EQ(asked.lid_begin, InformInfo::kAllLids);
  EXPECT_TRUE(asked.gid.IsZero());
  EXPECT_FALSE(DecodeInformInfo(SaRecord(mads_.sent[1]))->subscribe);
  EXPECT_EQ(DecodeInformInfo(SaRecord(mads_.sent[1]))->trap, 67);

  Mad answer;
  EncodeSaHeader(ResponseHeader(0), &answer);
  EncodeInformInfo(asked, SaRecord(&answer));
  Arrive(answer);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(answers[0].ok());
  SaHeader refusal = ResponseHeader(1);
  refusal.status = static_cast<uint16_t>(SaStatus::kRequestInvalid);
  EncodeSaHeader(refusal, &answer);
  Arrive(answer);
  EXPECT_THAT(std::string(answers.at(1).status().message()), HasSubstr("unsubscribe from trap 67: "));
}

TEST_F(SaClientReportTest, AReportIsAcknowledgedAndHandedOn) {
  const Notice notice = Notice::OfGid(SmTrap::kGidInService, kDgid);
  Arrive(ReportMad(0x1234'5678'9abc'def0, notice));
  EXPECT_THAT(notices_, ElementsAre(notice));
  EXPECT_TRUE(mads_.sent.empty());
  ASSERT_EQ(mads_.replies.size(), 1u);
  const SaHeader header = *DecodeSaHeader(mads_.replies[0]);
  EXPECT_EQ(header.method, MadMethod::kReportResp);
  EXPECT_EQ(header.tid, 0x1234'5678'9abc'def0u) << "all 64 bits";
  EXPECT_EQ(header.attribute, SaAttribute::kNotice);
  EXPECT_EQ(*DecodeNotice(SaRecord(mads_.replies[0])), notice);
}

TEST_F(SaClientReportTest, ARepeatedReportIsAcknowledgedEachTimeAndHandedOnOnce) {
  const Notice notice = Notice::OfGid(SmTrap::kGidInService, kDgid);
  for (int i = 0; i < 5; ++i) {
    Arrive(ReportMad(7, notice));
    Advance(absl::Seconds(1));
  }
  EXPECT_EQ(mads_.replies.size(), 5u);
  EXPECT_EQ(notices_.size(), 1u);
  EXPECT_EQ(client_.counters().repeated_reports, 4u);
  Arrive(ReportMad(8, notice));
  EXPECT_EQ(notices_.size(), 2u) << "another report of the same";
  Arrive(ReportMad(7, Notice::OfGid(SmTrap::kGidOutOfService, kDgid)));
  EXPECT_EQ(notices_.size(), 3u) << "a restarted SM counts from the beginning";
  Advance(absl::Seconds(11));
  Arrive(ReportMad(8, notice));
  EXPECT_EQ(notices_.size(), 4u) << "nobody repeats for so long";
}

TEST_F(SaClientReportTest, AReportOfSomethingElseIsIgnored) {
  Mad mad = ReportMad(7, Notice());
  SaHeader header = *DecodeSaHeader(mad);
  header.attribute = SaAttribute::kPathRecord;
  EncodeSaHeader(header, &mad);
  Arrive(mad);
  EXPECT_TRUE(notices_.empty());
  EXPECT_TRUE(mads_.replies.empty());
  EXPECT_EQ(client_.counters().ignored, 1u);
}

}  // namespace
}  // namespace eoib
