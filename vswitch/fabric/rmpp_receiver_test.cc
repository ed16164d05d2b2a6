#include "vswitch/fabric/rmpp_receiver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "vswitch/wire/ib/sa_mad.h"

namespace eoib {
namespace {

using Progress = RmppReceiver::Progress;
using testing::ElementsAreArray;

constexpr uint64_t kTid = 0x12'0000'0042;

std::vector<uint8_t> Table(size_t size) {
  std::vector<uint8_t> table(size);
  for (size_t i = 0; i < size; ++i) table[i] = static_cast<uint8_t>(i * 7 + i / 200);
  return table;
}

uint32_t SegmentsOf(size_t size) { return static_cast<uint32_t>(std::max<size_t>(1, (size + 199) / 200)); }

RmppHeader DataHeader(size_t size, uint32_t segment) {
  RmppHeader header;
  header.active = true;
  header.type = RmppType::kData;
  header.segment = segment;
  header.first = segment == 1;
  header.last = segment == SegmentsOf(size);
  if (header.first) header.payload_length = static_cast<uint32_t>(size) + 20 * SegmentsOf(size);
  if (header.last) header.payload_length = static_cast<uint32_t>(size) - (segment - 1) * 200 + 20;
  return header;
}

Mad Segment(const RmppHeader& header, const std::vector<uint8_t>& table, uint64_t tid = kTid) {
  Mad mad;
  EncodeSaHeader({.method = MadMethod::kGetTableResp, .tid = tid, .attribute = SaAttribute::kPathRecord}, &mad);
  EncodeRmppHeader(header, &mad);
  const size_t from = std::min(table.size(), (std::max(header.segment, 1u) - 1) * kRmppDataPerSegment);
  const size_t size = std::min(kRmppDataPerSegment, table.size() - from);
  std::copy_n(table.begin() + static_cast<ptrdiff_t>(from), size, SaRecord(&mad).begin());
  return mad;
}

class RmppReceiverTest : public testing::Test {
 protected:
  // The `segment`-th of a table of `size` bytes.
  Progress Give(size_t size, uint32_t segment) { return Give(Segment(DataHeader(size, segment), Table(size))); }
  Progress Give(const Mad& mad) { return receiver_.Accept(mad, &reply_); }
  RmppHeader Reply() const { return reply_.has_value() ? DecodeRmppHeader(*reply_) : RmppHeader(); }
  // An acknowledgement up to `segment` that grants `window` more.
  bool Acknowledges(uint32_t segment, uint32_t window) const {
    return Reply().active && Reply().type == RmppType::kAck && Reply().segment == segment &&
           Reply().payload_length == segment + window && Reply().status == 0;
  }

  RmppReceiver receiver_{{.max_bytes = 100'000, .window = 4}};
  absl::optional<Mad> reply_;
};

TEST_F(RmppReceiverTest, ASingleSegmentIsATable) {
  EXPECT_EQ(Give(128, 1), Progress::kDone);
  EXPECT_THAT(receiver_.table(), ElementsAreArray(Table(128)));
  EXPECT_EQ(Reply().type, RmppType::kAck);
  EXPECT_EQ(Reply().segment, 1u);
}

TEST_F(RmppReceiverTest, ATableMayBeEmpty) {
  EXPECT_EQ(Give(0, 1), Progress::kDone);
  EXPECT_TRUE(receiver_.table().empty());
}

// Acknowledged are the first segment, which opens the window, the last of each window, and the last of all.
TEST_F(RmppReceiverTest, AcknowledgesOnceAWindow) {
  constexpr size_t kSize = 10 * 200 - 72;
  std::vector<uint32_t> acknowledged;
  for (uint32_t i = 1; i <= 10; ++i) {
    EXPECT_EQ(Give(kSize, i), i == 10 ? Progress::kDone : Progress::kMore);
    if (reply_.has_value()) acknowledged.push_back(Reply().segment);
  }
  EXPECT_THAT(acknowledged, testing::ElementsAre(1, 5, 9, 10));
  EXPECT_THAT(receiver_.table(), ElementsAreArray(Table(kSize)));
}

TEST_F(RmppReceiverTest, RepliesHaveTheSendersHeadersWithTheMethodTurnedRound) {
  Give(1000, 1);
  const SaHeader header = *DecodeSaHeader(*reply_);
  EXPECT_EQ(header.method, MadMethod::kGetTable);
  EXPECT_EQ(header.tid, kTid) << "all 64 bits";
  EXPECT_EQ(header.attribute, SaAttribute::kPathRecord);
  EXPECT_THAT(SaRecord(*reply_), testing::Each(0));
}

TEST_F(RmppReceiverTest, WhatIsMissingIsAskedForAtTheWindowsEnd) {
  Give(2000, 1);
  EXPECT_TRUE(Acknowledges(1, 4));
  EXPECT_EQ(Give(2000, 2), Progress::kMore);
  EXPECT_FALSE(reply_.has_value());
  EXPECT_EQ(Give(2000, 5), Progress::kMore) << "3 and 4 are lost";
  EXPECT_TRUE(Acknowledges(2, 3)) << "the window stays where it was";
  EXPECT_EQ(Give(2000, 4), Progress::kMore);
  EXPECT_FALSE(reply_.has_value());
  EXPECT_EQ(Give(2000, 3), Progress::kMore);
  EXPECT_TRUE(Acknowledges(5, 4));
}

TEST_F(RmppReceiverTest, RepeatedSegmentsAreAcknowledgedAgain) {
  Give(600, 1);
  EXPECT_EQ(Give(600, 1), Progress::kIgnored);
  EXPECT_TRUE(Acknowledges(1, 4));
  Give(600, 2);
  Give(600, 3);
  EXPECT_TRUE(receiver_.done());
  EXPECT_EQ(Give(600, 3), Progress::kIgnored) << "the sender has not heard the end";
  EXPECT_EQ(Reply().segment, 3u);
  EXPECT_THAT(receiver_.table(), ElementsAreArray(Table(600)));
}

TEST_F(RmppReceiverTest, ASegmentThatCameAheadMayComeTwice) {
  Give(2000, 1);
  EXPECT_EQ(Give(2000, 3), Progress::kMore);
  EXPECT_EQ(Give(2000, 3), Progress::kIgnored);
  EXPECT_FALSE(reply_.has_value());
}

TEST_F(RmppReceiverTest, SegmentsOfAnotherAnswerAreNotMixedIn) {
  Give(600, 1);
  EXPECT_EQ(Give(Segment(DataHeader(600, 2), Table(600), kTid + (1 << 24))), Progress::kIgnored);
  EXPECT_FALSE(reply_.has_value());
  EXPECT_EQ(Give(600, 2), Progress::kMore);
}

TEST_F(RmppReceiverTest, ATransferThatWasGivenUpIsNotJoinedInTheMiddle) {
  EXPECT_EQ(Give(2000, 7), Progress::kIgnored);
  EXPECT_FALSE(reply_.has_value());
  EXPECT_FALSE(receiver_.GiveUp().has_value());
  EXPECT_EQ(Give(2000, 1), Progress::kMore);
  ASSERT_TRUE(receiver_.GiveUp().has_value());
  const RmppHeader abort = DecodeRmppHeader(*receiver_.GiveUp());
  EXPECT_EQ(abort.type, RmppType::kAbort);
  EXPECT_EQ(abort.status, static_cast<uint8_t>(RmppStatus::kTotalTimeTooLong));
}

struct NonsenseRow {
  const char* description;
  std::function<void(RmppHeader*)> spoil;  // the header of segment 2 of 10
  RmppStatus status;
  RmppType type = RmppType::kAbort;
};

TEST_F(RmppReceiverTest, NonsenseEndsTheTransfer) {
  const NonsenseRow kRows[] = {
      {"another version", [](RmppHeader* h) { h->version = 2; }, RmppStatus::kUnsupportedVersion},
      {"no known type", [](RmppHeader* h) { h->type = static_cast<RmppType>(9); }, RmppStatus::kBadType},
      {"an acknowledgement of ours", [](RmppHeader* h) { h->type = RmppType::kAck; }, RmppStatus::kBadType},
      {"a status in data", [](RmppHeader* h) { h->status = 1; }, RmppStatus::kIllegalStatus},
      {"segment 0", [](RmppHeader* h) { h->segment = 0; }, RmppStatus::kInconsistentFirstAndSegment},
      {"a second first", [](RmppHeader* h) { h->first = true; }, RmppStatus::kInconsistentFirstAndSegment},
      {"beyond the window", [](RmppHeader* h) { h->segment = 6; }, RmppStatus::kSegmentTooBig},
      {"far beyond the window", [](RmppHeader* h) { h->segment = 0xffff'ffff; }, RmppStatus::kSegmentTooBig},
      {"a last one too short for its header", [](RmppHeader* h) { h->last = true, h->payload_length = 19; },
       RmppStatus::kInconsistentLastAndPayload},
      {"a last one too long", [](RmppHeader* h) { h->last = true, h->payload_length = 221; },
       RmppStatus::kInconsistentLastAndPayload},
      {"an end before what was announced", [](RmppHeader* h) { h->last = true, h->payload_length = 220; },
       RmppStatus::kInconsistentLastAndPayload},
  };
  for (const NonsenseRow& row : kRows) {
    SCOPED_TRACE(row.description);
    RmppReceiver receiver({.max_bytes = 100'000, .window = 4});
    ASSERT_EQ(receiver.Accept(Segment(DataHeader(2000, 1), Table(2000)), &reply_), Progress::kMore);
    RmppHeader header = DataHeader(2000, 2);
    row.spoil(&header);
    EXPECT_EQ(receiver.Accept(Segment(header, Table(2000)), &reply_), Progress::kFailed);
    EXPECT_EQ(receiver.failure(), row.status);
    EXPECT_EQ(Reply().type, row.type);
    EXPECT_EQ(Reply().status, static_cast<uint8_t>(row.status));
    EXPECT_EQ(receiver.Accept(Segment(DataHeader(2000, 2), Table(2000)), &reply_), Progress::kIgnored) << "it is over";
    EXPECT_FALSE(reply_.has_value());
    EXPECT_FALSE(receiver.GiveUp().has_value());
  }
}

TEST_F(RmppReceiverTest, SomethingBehindTheLastIsNonsense) {
  for (bool last_first : {true, false}) {
    RmppReceiver receiver({.max_bytes = 100'000, .window = 4});
    RmppHeader first = DataHeader(2000, 1);
    first.payload_length = 0;  // the sender did not know yet
    receiver.Accept(Segment(first, Table(2000)), &reply_);
    RmppHeader last = DataHeader(2000, 3);
    last.last = true;
    last.payload_length = 120;
    const Mad three = Segment(last, Table(2000)), four = Segment(DataHeader(2000, 4), Table(2000));
    EXPECT_EQ(receiver.Accept(last_first ? three : four, &reply_), Progress::kMore);
    EXPECT_EQ(receiver.Accept(last_first ? four : three, &reply_), Progress::kFailed);
    EXPECT_EQ(receiver.failure(), RmppStatus::kInconsistentLastAndPayload);
  }
}

TEST_F(RmppReceiverTest, TheSenderMayEndIt) {
  for (RmppType type : {RmppType::kStop, RmppType::kAbort}) {
    RmppReceiver receiver({});
    receiver.Accept(Segment(DataHeader(2000, 1), Table(2000)), &reply_);
    RmppHeader end;
    end.active = true;
    end.type = type;
    end.status = static_cast<uint8_t>(RmppStatus::kTooManyRetries);
    EXPECT_EQ(receiver.Accept(Segment(end, {}), &reply_), Progress::kFailed);
    EXPECT_EQ(receiver.failure(), RmppStatus::kTooManyRetries);
    EXPECT_FALSE(reply_.has_value()) << "an end is not answered";
  }
}

// What is announced is refused before a byte is kept; who announces nothing is stopped at the limit.
TEST_F(RmppReceiverTest, ATableIsBounded) {
  EXPECT_EQ(Give(100'200, 1), Progress::kFailed);
  EXPECT_EQ(Reply().type, RmppType::kStop);
  EXPECT_EQ(Reply().status, static_cast<uint8_t>(RmppStatus::kResourcesExhausted));

  RmppReceiver receiver({.max_bytes = 1000, .window = 4});
  const std::vector<uint8_t> table = Table(2000);
  Progress progress = Progress::kMore;
  uint32_t segment = 0;
  while (progress == Progress::kMore && segment < 10) {
    RmppHeader header = DataHeader(2000, ++segment);
    header.payload_length = 0;
    progress = receiver.Accept(Segment(header, table), &reply_);
  }
  EXPECT_EQ(progress, Progress::kFailed);
  EXPECT_EQ(segment, 6u);
  EXPECT_EQ(Reply().type, RmppType::kStop);
}

// A sender as §13.6.6.1 has it, over a line that loses, repeats and reorders what goes either way.
TEST_F(RmppReceiverTest, GetsEveryTableOverABadLine) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const size_t size = random() % 6000;
    const std::vector<uint8_t> table = Table(size);
    RmppReceiver receiver({.max_bytes = 100'000, .window = 1 + static_cast<uint32_t>(random() % 9)});
    uint32_t acknowledged = 0, granted = 1;
    for (int turn = 0; turn < 10'000 && acknowledged < SegmentsOf(size); ++turn) {
      std::vector<uint32_t> line;
      for (uint32_t i = acknowledged + 1; i <= std::min(granted, SegmentsOf(size)); ++i) {
        for (int copies = static_cast<int>(random() % 3); copies > 0; --copies) line.push_back(i);
      }
      std::shuffle(line.begin(), line.end(), random);
      for (uint32_t segment : line) {
        ASSERT_NE(receiver.Accept(Segment(DataHeader(size, segment), table), &reply_), Progress::kFailed);
        if (!reply_.has_value() || random() % 4 == 0) continue;
        ASSERT_EQ(Reply().type, RmppType::kAck);
        acknowledged = std::max(acknowledged, Reply().segment);
        granted = std::max(granted, Reply().payload_length);
      }
    }
    ASSERT_TRUE(receiver.done()) << "round " << round << ", " << size << " bytes";
    EXPECT_THAT(receiver.table(), ElementsAreArray(table));
  }
}

}  // namespace
}  // namespace eoib
