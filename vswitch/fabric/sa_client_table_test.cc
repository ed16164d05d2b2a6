// SaClient: tables and reports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "vswitch/fabric/sa_client_test_fixture.h"
#include "vswitch/wire/ib/sa_table.h"

namespace eoib {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
    client_.QueryPaths(kSgid, PKey(0x8001), [this](absl::StatusOr<std::vector<PathRecord>> table) {
      tables_.push_back(std::move(table));
    });
  }
  // The answer to request number `i`.
  std::vector<uint8_t> Table(size_t i, const std::vector<PathRecord>& records,
                             size_t stride = kPathStride) const {
    std::vector<uint8_t> table(records.size() * kPathStride);
    for (size_t at = 0; at < records.size(); ++at) {
      EncodePathRecord(records[at], absl::MakeSpan(table).subspan(at * kPathStride));
    }
    SaHeader header = mads_.header(i);
    header.method = MadMethod::kGetTableResp;
    header.attribute_offset = static_cast<uint16_t>(stride / 8);
    return EncodeSaTable(header, table);
  }

  std::vector<absl::StatusOr<std::vector<PathRecord>>> tables_;
};

TEST_F(SaClientTableTest, ATableArrivesAsOneMad) {
  AskPaths();
  EXPECT_EQ(mads_.header(0).method, MadMethod::kGetTable);
  EXPECT_EQ(mads_.header(0).component_mask,
            path::kSgid | path::kReversible | path::kNumbPath | path::kPKey);
  std::vector<PathRecord> records;
  for (uint64_t guid = 2; guid < 9; ++guid) records.push_back(PathTo(guid));
  records[3].sgid = kDgid;  // not what we asked for
  const std::vector<uint8_t> table = Table(0, records);
  Arrive(table);
  ASSERT_EQ(tables_.size(), 1u);
  records.erase(records.begin() + 3);
  EXPECT_EQ(*tables_[0], records);
  EXPECT_EQ(client_.NextDeadline(), absl::InfiniteFuture());
  Arrive(table);
  EXPECT_EQ(tables_.size(), 1u) << "the answer to a retry";
  EXPECT_EQ(client_.ignored(), 1u);
}

TEST_F(SaClientTableTest, AnEmptyTableIsAnAnswer) {
  AskPaths();
  Arrive(Table(0, {}));
  ASSERT_EQ(tables_.size(), 1u);
  EXPECT_TRUE(tables_[0]->empty());
}

TEST_F(SaClientTableTest, APartialRecordAtTheEndIsLeftOut) {
  AskPaths();
  std::vector<uint8_t> table = Table(0, {PathTo(2), PathTo(3)});
  table.pop_back();
  Arrive(table);
  ASSERT_EQ(tables_.size(), 1u);
  EXPECT_THAT(*tables_[0], ElementsAre(PathTo(2)));
}

// RMPP carries every table; without it, a MAD does not say how many records it has.
TEST_F(SaClientTableTest, ATableWithoutRmppIsIgnored) {
  AskPaths();
  SaHeader header = mads_.header(0);
  header.method = MadMethod::kGetTableResp;
  Arrive(PathMad(header));
  EXPECT_TRUE(tables_.empty());
  EXPECT_EQ(client_.ignored(), 1u);
}

TEST_F(SaClientTableTest, ATableIsRequestedAgainAfterTwoSecondsAtTheEarliest) {
  AskPaths();
  EXPECT_EQ(client_.NextDeadline(), clock_.Now() + absl::Seconds(2));
  for (int attempt = 1; attempt < 5; ++attempt) {
    EXPECT_EQ(mads_.sent.size(), static_cast<size_t>(attempt));
    Advance(absl::Seconds(2));
  }
  EXPECT_EQ(client_.NextDeadline(), clock_.Now() + absl::Seconds(4))
      << "the last of 250, 500, 1000, 2000 and 4000 ms";
  Arrive(Table(4, {PathTo(2)}));
  EXPECT_EQ(tables_.size(), 1u);
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

// The records would overlap.
TEST_F(SaClientTableTest, RecordsCloserThanTheirSizeAreAnError) {
  AskPaths();
  Arrive(Table(0, {PathTo(2)}, kPathStride - 8));
  ASSERT_EQ(tables_.size(), 1u);
  EXPECT_EQ(tables_[0].status().code(), absl::StatusCode::kInternal);
}

TEST_F(SaClientTableTest, ATableOfGroupsIsAccepted) {
  std::vector<McMemberRecord> groups;
  client_.QueryGroups(Group(), mcm::kPKey,
                      [&](absl::StatusOr<std::vector<McMemberRecord>> table) { groups = *table; });
  SaHeader header = mads_.header(0);
  EXPECT_EQ(header.component_mask, mcm::kPKey);
  header.method = MadMethod::kGetTableResp;
  header.attribute_offset = 7;
  std::vector<uint8_t> record(56);
  EncodeMcMemberRecord(Group(), absl::MakeSpan(record));
  Arrive(EncodeSaTable(header, record));
  EXPECT_THAT(groups, ElementsAre(Group()));
}

TEST_F(SaClientTableTest, ATableOfServicesIsAccepted) {
  constexpr uint64_t kId = 0x0265'6f69'6200'8001;
  std::vector<ServiceRecord> services;
  client_.QueryServices(
      kId, [&](absl::StatusOr<std::vector<ServiceRecord>> table) { services = *table; });
  SaHeader header = mads_.header(0);
  EXPECT_EQ(header.method, MadMethod::kGetTable);
  EXPECT_EQ(header.component_mask, service::kId);
  EXPECT_EQ(DecodeServiceRecord(SaRecord(mads_.sent[0]))->id, kId);
  header.method = MadMethod::kGetTableResp;
  header.attribute_offset = kServiceRecordSize / 8;
  ServiceRecord record;
  record.id = kId;
  record.gid = kSgid;
  ServiceRecord other = record;
  other.id = kId + 1;  // not what we asked for
  ServiceRecord last = record;
  last.gid = kDgid;
  std::vector<uint8_t> bytes(3 * kServiceRecordSize);
  EncodeServiceRecord(record, absl::MakeSpan(bytes));
  EncodeServiceRecord(other, absl::MakeSpan(bytes).subspan(kServiceRecordSize));
  EncodeServiceRecord(last, absl::MakeSpan(bytes).subspan(2 * kServiceRecordSize));
  Arrive(EncodeSaTable(header, bytes));
  EXPECT_THAT(services, ElementsAre(record, last));
}

// ---- Reports.

class SaClientReportTest : public SaClientTest {
 protected:
  SaClientReportTest() {
    client_.OnNotice([this](const Notice& notice) { notices_.push_back(notice); });
  }
  static Mad ReportMad(uint64_t tid, const Notice& notice) {
    Mad mad;
    EncodeSaHeader({.method = MadMethod::kReport, .tid = tid, .attribute = SaAttribute::kNotice},
                   &mad);
    EncodeNotice(notice, SaRecord(&mad));
    return mad;
  }

  std::vector<Notice> notices_;
};

TEST_F(SaClientReportTest, SubscribesToOneTrapOfAllPorts) {
  std::vector<absl::StatusOr<InformInfo>> answers;
  client_.Subscribe(SmTrap::kGidInService,
                    [&](absl::StatusOr<InformInfo> answer) { answers.push_back(answer); });
  client_.Unsubscribe(SmTrap::kGroupDeleted,
                      [&](absl::StatusOr<InformInfo> answer) { answers.push_back(answer); });
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
  EXPECT_THAT(std::string(answers.at(1).status().message()),
              HasSubstr("unsubscribe from trap 67: "));
}

TEST_F(SaClientReportTest, AReportIsAcknowledgedAndDelivered) {
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

TEST_F(SaClientReportTest, ARepeatedReportIsAcknowledgedEachTimeAndDeliveredOnce) {
  const Notice notice = Notice::OfGid(SmTrap::kGidInService, kDgid);
  for (int i = 0; i < 5; ++i) {
    Arrive(ReportMad(7, notice));
    Advance(absl::Seconds(1));
  }
  EXPECT_EQ(mads_.replies.size(), 5u);
  EXPECT_EQ(notices_.size(), 1u);
  Arrive(ReportMad(8, notice));
  EXPECT_EQ(notices_.size(), 2u) << "another report of the same";
  Arrive(ReportMad(7, Notice::OfGid(SmTrap::kGidOutOfService, kDgid)));
  EXPECT_EQ(notices_.size(), 3u) << "a restarted SM counts from the beginning";
  Advance(absl::Seconds(11));
  Arrive(ReportMad(8, notice));
  EXPECT_EQ(notices_.size(), 4u) << "no repetition comes so late";
}

TEST_F(SaClientReportTest, AReportOfAnotherAttributeIsIgnored) {
  Mad mad = ReportMad(7, Notice());
  SaHeader header = *DecodeSaHeader(mad);
  header.attribute = SaAttribute::kPathRecord;
  EncodeSaHeader(header, &mad);
  Arrive(mad);
  EXPECT_TRUE(notices_.empty());
  EXPECT_TRUE(mads_.replies.empty());
  EXPECT_EQ(client_.ignored(), 1u);
}

}  // namespace
}  // namespace eoib
