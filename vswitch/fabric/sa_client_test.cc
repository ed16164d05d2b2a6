#include "vswitch/fabric/sa_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "vswitch/fabric/sa_client_test_fixture.h"

namespace eoib {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(SaClientTest, RequestsHaveTheRightMethodAndMask) {
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
  EXPECT_EQ(mads_.header(3).component_mask,
            path::kDgid | path::kSgid | path::kReversible | path::kNumbPath | path::kPKey);
  const PathRecord asked = *DecodePathRecord(SaRecord(mads_.sent[3]));
  EXPECT_EQ(asked.dgid, kDgid);
  EXPECT_EQ(asked.sgid, kSgid);
  EXPECT_EQ(asked.pkey, PKey(0x8001));
  EXPECT_TRUE(asked.reversible);
  EXPECT_EQ(asked.numb_path, 1);
  EXPECT_EQ(client_.fd(), 42);
}

TEST_F(SaClientTest, AServiceIsRegisteredAndUnregistered) {
  ServiceRecord record;
  record.id = 0x0265'6f69'6200'8001;
  record.gid = kSgid;
  record.pkey = PKey(0x8001);
  record.lease = 60;
  record.name = "eoib";
  record.data[5] = 5;
  std::vector<absl::StatusOr<ServiceRecord>> answers;
  const auto remember = [&](absl::StatusOr<ServiceRecord> answer) {
    answers.push_back(std::move(answer));
  };
  const auto answer = [this](size_t i, MadMethod method, const ServiceRecord& record) {
    SaHeader header = mads_.header(i);
    header.method = method;
    Mad mad;
    EncodeSaHeader(header, &mad);
    EncodeServiceRecord(record, SaRecord(&mad));
    Arrive(mad);
  };
  client_.RegisterService(record, remember);
  EXPECT_EQ(mads_.header(0).method, MadMethod::kSet);
  EXPECT_EQ(mads_.header(0).attribute, SaAttribute::kServiceRecord);
  EXPECT_EQ(mads_.header(0).component_mask, 0x1f'ffff'ffd7u)
      << "all but the reserved component and the key";
  EXPECT_EQ(*DecodeServiceRecord(SaRecord(mads_.sent[0])), record);
  ServiceRecord other = record;
  other.gid = kDgid;
  answer(0, MadMethod::kGetResp, other);
  EXPECT_TRUE(answers.empty()) << "the record of another port";
  answer(0, MadMethod::kGetResp, record);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(*answers[0], record);
  client_.UnregisterService(record, remember);
  EXPECT_EQ(mads_.header(1).method, MadMethod::kDelete);
  EXPECT_EQ(mads_.header(1).component_mask, 7u);
  answer(1, MadMethod::kDeleteResp, record);
  EXPECT_EQ(answers.size(), 2u);
}

TEST_F(SaClientTest, EachCallerGetsItsOwnAnswer) {
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
  EXPECT_EQ(client_.ignored(), 0u);
}

TEST_F(SaClientTest, ARetryHasTheSameBytesAtDoublingIntervals) {
  const absl::Time start = clock_.Now();
  Join();
  std::vector<int64_t> sent_at;
  for (int ms = 0; ms < 10'000; ++ms) {
    const size_t before = mads_.sent.size();
    Advance(absl::Milliseconds(1));
    if (mads_.sent.size() != before)
      sent_at.push_back((clock_.Now() - start) / absl::Milliseconds(1));
  }
  EXPECT_THAT(sent_at, ElementsAre(250, 750, 1750, 3750));
  for (const Mad& mad : mads_.sent) EXPECT_EQ(mad, mads_.sent[0]) << "transaction ID and all";
  ASSERT_EQ(groups_.size(), 1u) << "once";
  EXPECT_EQ(groups_[0].status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(groups_[0].status().message(),
            "join " + kMgid.ToString() + ": no answer from the subnet administrator");
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

TEST_F(SaClientTest, ALateAnswerToAnEarlierAttemptIsAccepted) {
  Join();
  const Mad answer = GroupMad(ResponseHeader(0), Group());
  Advance(absl::Milliseconds(250));
  EXPECT_EQ(mads_.sent.size(), 2u);
  Arrive(answer);
  Arrive(answer);
  EXPECT_EQ(groups_.size(), 1u);
  EXPECT_EQ(client_.ignored(), 1u);
}

TEST_F(SaClientTest, AnAnswerAfterTheLastTimeoutIsIgnored) {
  Join();
  for (int i = 0; i < 10; ++i) Advance(absl::Seconds(10));
  ASSERT_EQ(groups_.size(), 1u);
  Arrive(GroupMad(ResponseHeader(0), Group()));
  EXPECT_EQ(groups_.size(), 1u);
}

TEST_F(SaClientTest, AFailedSendIsRetried) {
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
  EXPECT_THAT(paths_[0].status().message(),
              HasSubstr("no answer from the subnet administrator: no subnet manager"));
}

TEST_F(SaClientTest, ErrorsOfTheAdministratorReachTheCaller) {
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
      {"an unknown status", 0x7700, absl::StatusCode::kInternal},
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
    EXPECT_EQ(groups_[0].status().message(), "join " + kMgid.ToString() +
                                                 ": the subnet administrator answers " +
                                                 SaStatusName(row.status));
  }
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

// A MAD that does not answer a request is counted and changes nothing: the right answer is still
// accepted.
TEST_F(SaClientTest, OtherMadsAreIgnored) {
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
      {"the other request's transaction ID",
       group([](SaHeader* h, McMemberRecord*) { h->tid += 1; })},
      {"another attribute",
       group([](SaHeader* h, McMemberRecord*) { h->attribute = SaAttribute::kInformInfo; })},
      {"another attribute and an error", group([](SaHeader* h, McMemberRecord*) {
         h->attribute = SaAttribute::kPathRecord;
         h->status = 0x0300;
       })},
      {"our own request, reflected",
       group([](SaHeader* h, McMemberRecord*) { h->method = MadMethod::kSet; })},
      {"the response to a deletion",
       group([](SaHeader* h, McMemberRecord*) { h->method = MadMethod::kDeleteResp; })},
      {"a report", group([](SaHeader* h, McMemberRecord*) { h->method = MadMethod::kReport; })},
      {"another group", group([](SaHeader*, McMemberRecord* r) {
         r->mgid = Mgid(Gid::FromPrefixAndGuid(0xff12'e01b'8002'ffff, Guid(1)));
       })},
      {"a unicast GID for a group",
       [](const SaClientTest& t) {
         Mad mad = GroupMad(t.ResponseHeader(0), Group());
         const Gid unicast = kSgid;
         for (size_t i = 0; i + Gid::kSize <= mad.size(); ++i) {
           if (Gid::FromWire(&mad[i]) == kMgid.gid()) unicast.ToWire(&mad[i]);
         }
         return mad;
       }},
      {"another path",
       [](const SaClientTest& t) { return PathMad(t.ResponseHeader(1), kSgid, kDgid); }},
      {"a path from elsewhere",
       [](const SaClientTest& t) { return PathMad(t.ResponseHeader(1), kDgid, kDgid); }},
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
    EXPECT_EQ(client_.ignored(), ++ignored);
    EXPECT_TRUE(groups_.empty());
    EXPECT_TRUE(paths_.empty());
  }
  Arrive(GroupMad(ResponseHeader(0), Group()));
  Arrive(PathMad(ResponseHeader(1)));
  EXPECT_TRUE(groups_.at(0).ok());
  EXPECT_TRUE(paths_.at(0).ok());
  EXPECT_EQ(client_.ignored(), ignored);
}

TEST_F(SaClientTest, TheAdministratorMayChooseTheGroup) {
  McMemberRecord record = Group();
  record.mgid = Mgid();
  client_.Join(record, kJoinMask, Remember());
  Arrive(GroupMad(ResponseHeader(0), Group()));
  ASSERT_EQ(groups_.size(), 1u);
  EXPECT_EQ(groups_[0]->mgid, kMgid);
}

TEST_F(SaClientTest, ACallbackMayStartARequest) {
  int answers = 0;
  SaClient::GroupCallback again = [&](absl::StatusOr<McMemberRecord> record) {
    EXPECT_TRUE(record.ok());
    if (++answers < 100) client_.Join(Group(), kJoinMask, again);
    for (int i = 0; i < 20; ++i) Path();  // so that the table grows during a callback
  };
  client_.Join(Group(), kJoinMask, again);
  for (size_t i = 0; i < mads_.sent.size(); ++i) {
    if (mads_.header(i).method == MadMethod::kSet) Arrive(GroupMad(ResponseHeader(i), Group()));
  }
  EXPECT_EQ(answers, 100);
}

TEST_F(SaClientTest, ACallbackOfATimeoutMayStartARequest) {
  SaClient client(&mads_, &clock_, {.attempts = 1});
  int failures = 0;
  for (int i = 0; i < 10; ++i) {
    client.Join(Group(), kJoinMask, [&](absl::StatusOr<McMemberRecord> record) {
      EXPECT_FALSE(record.ok());
      ++failures;
      for (int k = 0; k < 50; ++k)
        client.Join(Group(), kJoinMask, [&](absl::StatusOr<McMemberRecord>) { ++failures; });
    });
  }
  clock_.Advance(absl::Seconds(1));
  client.Run();
  EXPECT_EQ(failures, 10) << "requests that a callback starts are not due in the same turn";
  clock_.Advance(absl::Seconds(1));
  client.Run();
  EXPECT_EQ(failures, 10 + 500);
  EXPECT_EQ(mads_.sent.size(), 510u);
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

// A flood of unsolicited answers neither keeps Run from returning nor delays retries.
TEST_F(SaClientTest, RunHandlesABoundedNumberOfMads) {
  Join();
  for (int i = 0; i < 10'000; ++i) mads_.arriving.emplace_back(kMadSize);
  Advance(absl::Milliseconds(250));
  EXPECT_GT(mads_.arriving.size(), 5'000u);
  EXPECT_EQ(mads_.sent.size(), 2u);
}

// ---- Paths through a certain LID.

TEST_F(SaClientTest, QueriesAPathThroughALid) {
  const Gid dgid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(100));
  absl::StatusOr<PathRecord> path;
  client_.QueryPathAt(kSgid, dgid, Lid(7), PKey(0x8001),
                      [&path](absl::StatusOr<PathRecord> answer) { path = answer; });
  ASSERT_EQ(mads_.sent.size(), 1u);
  EXPECT_EQ(mads_.header(0).component_mask, path::kDgid | path::kDlid | path::kSgid |
                                                path::kReversible | path::kNumbPath | path::kPKey);
  const PathRecord asked = *DecodePathRecord(SaRecord(mads_.sent[0]));
  EXPECT_EQ(asked.dgid, dgid);
  EXPECT_EQ(asked.dlid, Lid(7));
  for (const Lid lid : {Lid(8), Lid(7)}) {
    EXPECT_FALSE(path.ok()) << "a path through another LID is no answer";
    Mad answer = mads_.sent[0];
    EncodeSaHeader(ResponseHeader(0), &answer);
    PathRecord record = asked;
    record.dlid = lid;
    EncodePathRecord(record, SaRecord(&answer));
    mads_.arriving.emplace_back(answer.begin(), answer.end());
    client_.Run();
  }
  ASSERT_TRUE(path.ok());
  EXPECT_EQ(path->dlid, Lid(7));
}

// ---- Path queries in bulk.

// An attacker can invent new peers by the thousand.
TEST_F(SaClientTest, AFloodOfNewPeersWaitsInOrder) {
  SaClient client(&mads_, &clock_, {.attempts = 1, .path_queries = 3});
  std::vector<int> answered;
  const auto dgid = [](int i) {
    return Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(100 + static_cast<uint64_t>(i)));
  };
  for (int i = 0; i < 10; ++i) {
    client.QueryPath(kSgid, dgid(i), PKey(0x8001),
                     [&answered, i](absl::StatusOr<PathRecord>) { answered.push_back(i); });
  }
  EXPECT_EQ(mads_.sent.size(), 3u);
  client.Join(Group(), kJoinMask, Remember());
  client.Subscribe(SmTrap::kGidInService, [](absl::StatusOr<InformInfo>) {});
  EXPECT_EQ(mads_.sent.size(), 5u) << "only path queries wait";

  const Mad answer = PathMad(ResponseHeader(1), dgid(1));
  mads_.arriving.emplace_back(answer.begin(), answer.end());
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

TEST_F(SaClientTest, TransactionIdBitsOfTheTransportAreIgnored) {
  Path();
  SaHeader header = ResponseHeader(0);
  header.tid |= 0x12'3400'0000;
  Arrive(PathMad(header));
  EXPECT_EQ(paths_.size(), 1u);
}

}  // namespace
}  // namespace eoib
