#include "vswitch/fabric/softhca/subnet/rmpp_sender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <string>

#include "vswitch/base/clock.h"

namespace eoib::softhca {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const Gid kPort = Gid::FromPrefixAndGuid(1, Guid(1));
const Gid kOther = Gid::FromPrefixAndGuid(1, Guid(2));

SaHeader HeaderOf(uint64_t tid) {
  SaHeader header;
  header.method = MadMethod::kGetTableResp;
  header.attribute = SaAttribute::kPathRecord;
  header.tid = tid;
  return header;
}

std::vector<uint8_t> Bytes(size_t size) {
  std::vector<uint8_t> bytes(size);
  std::iota(bytes.begin(), bytes.end(), uint8_t{1});
  return bytes;
}

RmppHeader RmppOf(const OutgoingMad& mad) { return DecodeRmppHeader(mad.mad); }

class RmppSenderTest : public ::testing::Test {
 protected:
  bool Start(uint64_t tid, size_t size, const Gid& to = kPort) {
    return sender_.Start(to, HeaderOf(tid), Bytes(size), clock_.Now(), &out_);
  }
  void Say(uint64_t tid, const RmppHeader& rmpp, const Gid& from = kPort) {
    SaHeader header = HeaderOf(tid);
    header.method = MadMethod::kGetTable;  // as the kernel's receiver acknowledges
    Mad mad;
    EncodeSaHeader(header, &mad);
    EncodeRmppHeader(rmpp, &mad);
    sender_.Receive(from, mad, clock_.Now(), &out_);
  }
  void Ack(uint64_t tid, uint32_t segment, uint32_t window) {
    RmppHeader rmpp;
    rmpp.active = true;
    rmpp.type = RmppType::kAck;
    rmpp.segment = segment;
    rmpp.payload_length = window;
    Say(tid, rmpp);
  }
  void Run() { sender_.Run(clock_.Now(), &out_); }
  // The numbers of the segments put out since the last call; an ABORT is 0.
  std::vector<uint32_t> Segments() {
    std::vector<uint32_t> segments;
    for (const OutgoingMad& mad : out_) segments.push_back(RmppOf(mad).segment);
    out_.clear();
    return segments;
  }
  // The status of the one MAD that was put out, which must be an ABORT.
  RmppStatus Aborted() {
    EXPECT_EQ(out_.size(), 1u);
    if (out_.size() != 1) return RmppStatus::kNormal;
    EXPECT_EQ(RmppOf(out_[0]).type, RmppType::kAbort);
    EXPECT_EQ(sender_.under_way(), 0u);
    return static_cast<RmppStatus>(RmppOf(out_[0]).status);
  }

  FakeClock clock_;
  RmppSender sender_;
  std::vector<OutgoingMad> out_;
};

TEST_F(RmppSenderTest, WhatStandsInSegments) {
  const struct {
    const char* description;
    size_t bytes;
    std::vector<uint32_t> payload_lengths;  // of each segment
  } kRows[] = {
      {"an empty table", 0, {20}},
      {"one byte", 1, {21}},
      {"one full segment", 200, {220}},
      {"one byte more", 201, {241, 21}},
      {"two full segments", 400, {440, 220}},
      {"three, of which the middle one says nothing", 500, {560, 0, 120}},
  };
  uint64_t tid = 0;
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.description);
    ASSERT_TRUE(Start(++tid, row.bytes));
    if (row.payload_lengths.size() > 1) Ack(tid, 1, 100);
    ASSERT_EQ(out_.size(), row.payload_lengths.size());
    std::vector<uint8_t> received;
    for (size_t i = 0; i < out_.size(); ++i) {
      EXPECT_EQ(out_[i].to, kPort);
      EXPECT_EQ(DecodeSaHeader(out_[i].mad)->tid, tid);
      EXPECT_EQ(DecodeSaHeader(out_[i].mad)->method, MadMethod::kGetTableResp);
      const RmppHeader rmpp = RmppOf(out_[i]);
      EXPECT_TRUE(rmpp.active);
      EXPECT_EQ(rmpp.type, RmppType::kData);
      EXPECT_EQ(rmpp.version, 1);
      EXPECT_EQ(rmpp.segment, i + 1);
      EXPECT_EQ(rmpp.first, i == 0);
      EXPECT_EQ(rmpp.last, i + 1 == out_.size());
      EXPECT_EQ(rmpp.payload_length, row.payload_lengths[i]);
      received.insert(received.end(), SaRecord(out_[i].mad).begin(), SaRecord(out_[i].mad).end());
    }
    EXPECT_TRUE(std::all_of(received.begin() + row.bytes, received.end(), [](uint8_t byte) { return byte == 0; }));
    received.resize(row.bytes);
    EXPECT_EQ(received, Bytes(row.bytes));
    Ack(tid, static_cast<uint32_t>(out_.size()), 100);
    EXPECT_EQ(sender_.under_way(), 0u);
    out_.clear();
  }
  EXPECT_EQ(sender_.counters().completed, std::size(kRows));
}

TEST_F(RmppSenderTest, TheReceiversWindowIsKept) {
  ASSERT_TRUE(Start(1, 2000));
  EXPECT_THAT(Segments(), ElementsAre(1)) << "alone, until its ACK says more";
  Ack(1, 1, 4);
  EXPECT_THAT(Segments(), ElementsAre(2, 3, 4));
  Ack(1, 2, 4);
  EXPECT_THAT(Segments(), IsEmpty());
  Ack(1, 4, 6);
  EXPECT_THAT(Segments(), ElementsAre(5, 6));
  Ack(1, 4, 6);
  EXPECT_THAT(Segments(), IsEmpty()) << "a repeated ACK";
  Ack(1, 3, 5);
  EXPECT_THAT(Segments(), IsEmpty()) << "an ACK that was overtaken";
  Ack(1, 6, 100);
  EXPECT_THAT(Segments(), ElementsAre(7, 8, 9, 10));
  Ack(1, 10, 10);
  EXPECT_EQ(sender_.under_way(), 0u);
  EXPECT_EQ(sender_.NextDeadline(), absl::InfiniteFuture());
  EXPECT_EQ(sender_.counters().repeated, 0u);
}

// A window as large as the table would be the whole table in the queue of whoever reads nothing more.
TEST_F(RmppSenderTest, WhateverTheWindowSixtyFourSegmentsAreAheadOfTheAcknowledgement) {
  ASSERT_TRUE(Start(1, 200 * 1000));
  Segments();
  Ack(1, 1, 1'000'000);
  EXPECT_THAT(Segments(), AllOf(SizeIs(64), Contains(65)));
  Ack(1, 33, 1'000'000);
  EXPECT_THAT(Segments(), AllOf(SizeIs(32), Contains(97)));
  for (uint32_t acked = 97; acked < 1000; acked += 64) Ack(1, acked, 1'000'000);
  EXPECT_THAT(Segments(), Contains(1000));
  Ack(1, 1000, 1'000'000);
  EXPECT_EQ(sender_.counters().completed, 1u);
}

TEST_F(RmppSenderTest, WhatIsNotAcknowledgedIsRepeatedFromThere) {
  ASSERT_TRUE(Start(1, 1000));
  Ack(1, 1, 4);
  Ack(1, 2, 4);
  Segments();
  EXPECT_EQ(sender_.NextDeadline(), clock_.Now() + absl::Milliseconds(500));
  clock_.Advance(absl::Milliseconds(499));
  Run();
  EXPECT_THAT(Segments(), IsEmpty());
  clock_.Advance(absl::Milliseconds(1));
  Run();
  EXPECT_THAT(Segments(), ElementsAre(3, 4));
  EXPECT_EQ(sender_.counters().repeated, 2u);
  Ack(1, 4, 100);
  EXPECT_THAT(Segments(), ElementsAre(5));
}

TEST_F(RmppSenderTest, AfterSomeRepetitionsItIsAborted) {
  ASSERT_TRUE(Start(1, 1000));
  for (int i = 1; i < 4; ++i) {
    EXPECT_THAT(Segments(), ElementsAre(1));
    clock_.Advance(absl::Milliseconds(500));
    Run();
  }
  EXPECT_THAT(Segments(), ElementsAre(1));
  clock_.Advance(absl::Milliseconds(500));
  Run();
  EXPECT_EQ(Aborted(), RmppStatus::kTooManyRetries);
  EXPECT_EQ(sender_.NextDeadline(), absl::InfiniteFuture());
  EXPECT_EQ(sender_.counters().aborted, 1u);
}

TEST_F(RmppSenderTest, AReceiverThatDawdlesIsAborted) {
  ASSERT_TRUE(Start(1, 100'000));
  for (uint32_t segment = 1; segment <= 100; ++segment) {
    Ack(1, segment, segment + 1);
    clock_.Advance(absl::Milliseconds(400));
    out_.clear();
    Run();
    if (sender_.under_way() == 0) break;
  }
  EXPECT_EQ(Aborted(), RmppStatus::kTotalTimeTooLong);
}

TEST_F(RmppSenderTest, WhatAReceiverMayNotSay) {
  RmppHeader good;
  good.active = true;
  good.type = RmppType::kAck;
  good.segment = 2;
  good.payload_length = 5;
  const auto with = [&good](auto change) {
    RmppHeader header = good;
    change(&header);
    return header;
  };
  const struct {
    const char* description;
    RmppHeader header;
    RmppStatus status;
  } kRows[] = {
      {"another version", with([](RmppHeader* h) { h->version = 2; }), RmppStatus::kUnsupportedVersion},
      {"data", with([](RmppHeader* h) { h->type = RmppType::kData; }), RmppStatus::kBadType},
      {"an unknown type", with([](RmppHeader* h) { h->type = RmppType{9}; }), RmppStatus::kBadType},
      {"a status in an ACK", with([](RmppHeader* h) { h->status = 1; }), RmppStatus::kIllegalStatus},
      {"a segment that was not sent", with([](RmppHeader* h) { h->segment = 5; }), RmppStatus::kSegmentTooBig},
      {"a window before its segment", with([](RmppHeader* h) { h->payload_length = 1; }), RmppStatus::kNewWindowTooSmall},
      {"a window before the last segment", with([](RmppHeader* h) {
         h->segment = 10;
         h->payload_length = 9;
       }),
       RmppStatus::kNewWindowTooSmall},
      {"a window that shrinks", with([](RmppHeader* h) { h->payload_length = 3; }), RmppStatus::kNewWindowTooSmall},
  };
  uint64_t tid = 0;
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.description);
    ASSERT_TRUE(Start(++tid, 2000));
    Ack(tid, 1, row.header.segment == 10 ? 10 : 4);
    out_.clear();
    Say(tid, row.header);
    EXPECT_EQ(Aborted(), row.status);
    EXPECT_EQ(DecodeSaHeader(out_.at(0).mad)->tid, tid);
    out_.clear();
  }
}

TEST_F(RmppSenderTest, AReceiverMayStopOrAbort) {
  for (const RmppType type : {RmppType::kStop, RmppType::kAbort}) {
    ASSERT_TRUE(Start(1, 2000));
    RmppHeader rmpp;
    rmpp.active = true;
    rmpp.type = type;
    rmpp.status = static_cast<uint8_t>(RmppStatus::kResourcesExhausted);
    Say(1, rmpp, kOther);
    EXPECT_EQ(sender_.under_way(), 1u) << "somebody else has no say";
    Segments();
    Say(1, rmpp);
    EXPECT_EQ(sender_.under_way(), 0u);
    EXPECT_THAT(Segments(), IsEmpty()) << "and no answer is due";
  }
  EXPECT_EQ(sender_.counters().stopped, 2u);
  EXPECT_EQ(sender_.counters().strays, 2u);
}

TEST_F(RmppSenderTest, ARepeatedRequestChangesNothing) {
  ASSERT_TRUE(Start(1, 2000));
  Ack(1, 1, 4);
  Segments();
  EXPECT_TRUE(Start(1, 3000));
  EXPECT_THAT(Segments(), IsEmpty());
  EXPECT_EQ(sender_.counters().tables, 1u);
  EXPECT_TRUE(Start(1, 2000, kOther)) << "another port's";
  EXPECT_EQ(sender_.counters().tables, 2u);
}

TEST_F(RmppSenderTest, TablesAndTheirMemoryAreBounded) {
  for (uint64_t tid = 1; tid <= 8; ++tid) ASSERT_TRUE(Start(tid, 2000));
  EXPECT_FALSE(Start(9, 2000));
  EXPECT_TRUE(Start(9, 2000, kOther));
  RmppSender small({.bytes = 1000});
  EXPECT_FALSE(small.Start(kPort, HeaderOf(1), Bytes(1001), clock_.Now(), &out_));
  ASSERT_TRUE(small.Start(kPort, HeaderOf(1), Bytes(600), clock_.Now(), &out_));
  EXPECT_FALSE(small.Start(kOther, HeaderOf(2), Bytes(401), clock_.Now(), &out_));
  small.RemovePort(kPort);
  EXPECT_TRUE(small.Start(kOther, HeaderOf(2), Bytes(1000), clock_.Now(), &out_)) << "its memory is free again";
  EXPECT_EQ(small.counters().refused, 2u);
}

// Model: a receiver that takes segments in order and acknowledges what it has, on a path that loses in both directions. Every
// table arrives whole, or is aborted; nothing is left.
TEST_F(RmppSenderTest, TablesArriveWholeOverALossyPath) {
  std::mt19937 random(1);
  int arrived = 0;
  for (uint64_t tid = 1; tid <= 200; ++tid) {
    const size_t size = random() % 3000;
    const uint32_t window = 1 + random() % 8;
    const auto lost = [&random] { return random() % 10 == 0; };
    ASSERT_TRUE(Start(tid, size));
    std::vector<uint8_t> table;
    uint32_t next = 1;
    bool aborted = false;
    while (sender_.under_way() != 0) {
      const std::vector<OutgoingMad> mads = std::move(out_);
      out_.clear();
      for (const OutgoingMad& mad : mads) {
        const RmppHeader rmpp = RmppOf(mad);
        aborted |= rmpp.type == RmppType::kAbort;
        if (rmpp.type != RmppType::kData || lost() || rmpp.segment > next) continue;
        if (rmpp.segment == next) {
          const size_t bytes = rmpp.last ? (rmpp.first ? size : rmpp.payload_length - kRmppSaHeader) : kRmppDataPerSegment;
          table.insert(table.end(), SaRecord(mad.mad).begin(), SaRecord(mad.mad).begin() + bytes);
          ++next;
        }
        if (!lost()) Ack(tid, next - 1, next - 1 + window);
      }
      if (out_.empty() && sender_.under_way() != 0) {
        clock_.Advance(sender_.NextDeadline() - clock_.Now());
        Run();
      }
    }
    for (const OutgoingMad& mad : out_) aborted |= RmppOf(mad).type == RmppType::kAbort;
    out_.clear();
    if (!aborted) {
      EXPECT_EQ(table, Bytes(size)) << tid;
    }
    arrived += !aborted;
  }
  EXPECT_GT(arrived, 190);
}

}  // namespace
}  // namespace eoib::softhca
