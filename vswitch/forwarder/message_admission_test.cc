#include "vswitch/forwarder/message_admission.h"

#include <cstdint>

#include "gtest/gtest.h"
#include "vswitch/base/clock.h"

namespace eoib {
namespace {

Gid GidOf(uint64_t number) { return Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(number)); }

constexpr int kMany = 2 * MessageAdmission::kBurst;

class MessageAdmissionTest : public testing::Test {
 protected:
  // A message, which control pops at once.
  DropReason Send(uint64_t port, bool is_known = true, size_t length = 56) {
    const DropReason reason = Queue(port, is_known, length);
    popped_ += reason == DropReason::kNone;
    return reason;
  }
  DropReason Queue(uint64_t port, bool is_known = true, size_t length = 56) {
    return admission_.Admit(GidOf(port), length, is_known, popped_, clock_.Now());
  }
  // How many of `tries` messages are admitted.
  int Admitted(uint64_t port, int tries, bool is_known = true) {
    int admitted = 0;
    for (int i = 0; i < tries; ++i) admitted += Send(port, is_known) == DropReason::kNone;
    return admitted;
  }
  // The same while so much time passes, evenly.
  int AdmittedWithin(uint64_t port, absl::Duration time, int tries, size_t length = 56) {
    int admitted = 0;
    for (int i = 0; i < tries; ++i) {
      clock_.Advance(time / tries);
      admitted += Send(port, /*is_known=*/true, length) == DropReason::kNone;
    }
    return admitted;
  }

  FakeClock clock_;
  MessageAdmission admission_{clock_.Now()};
  size_t popped_ = 0;
};

TEST_F(MessageAdmissionTest, AnAgentMaySendABurstAndThenItsRate) {
  EXPECT_EQ(Admitted(1, kMany), MessageAdmission::kBurst);
  EXPECT_EQ(Send(1), DropReason::kControlRate);
  EXPECT_NEAR(AdmittedWithin(1, absl::Seconds(10), 100'000), 10 * MessageAdmission::kRate, 2);
}

// 65,536 MACs are about 565 messages. They come at 120 a second, and announcements at 80 a second.
TEST_F(MessageAdmissionTest, ALargeStateIsAdmitted) {
  EXPECT_EQ(AdmittedWithin(1, absl::Seconds(5), 1000, 1900), 1000);
}

TEST_F(MessageAdmissionTest, ALongMessageCostsMore) {
  const int admitted = AdmittedWithin(1, absl::Seconds(10), 100'000, ControlMessage::kMaxSize);
  const double tokens = MessageAdmission::kBurst + 10 * MessageAdmission::kRate;
  EXPECT_NEAR(admitted, tokens / MessageAdmission::TokensFor(ControlMessage::kMaxSize), 2);
}

TEST_F(MessageAdmissionTest, AFloodOfOneAgentDoesNotConcernOthers) {
  for (int i = 0; i < 100'000; ++i) {
    clock_.Advance(absl::Microseconds(10));
    Send(1);
    if (i % 1000 != 0) continue;
    ASSERT_EQ(Send(2), DropReason::kNone) << i;
  }
}

TEST_F(MessageAdmissionTest, AnUnknownPortMaySendLess) {
  EXPECT_EQ(Admitted(1, kMany, /*is_known=*/false),
            MessageAdmission::kBurst / MessageAdmission::kUnknownCost);
  EXPECT_EQ(Admitted(1, kMany), 0) << "it has become known";
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Admitted(1, kMany), MessageAdmission::kBurst);
}

TEST_F(MessageAdmissionTest, MadeUpPortsShareOneBucket) {
  constexpr int kSeconds = 20, kEach = 20'000;
  int admitted = 0;
  for (int i = 0; i < kSeconds * kEach; ++i) {
    clock_.Advance(absl::Seconds(1) / kEach);
    admitted += Send(1000 + static_cast<uint64_t>(i), /*is_known=*/false) == DropReason::kNone;
  }
  EXPECT_LE(admitted, MessageAdmission::kUnknownBurst + kSeconds * MessageAdmission::kUnknownRate);
}

TEST_F(MessageAdmissionTest, MadeUpPortsNeitherResetAThrottledOneNorStopAnAgent) {
  EXPECT_EQ(Admitted(1, kMany), MessageAdmission::kBurst);
  EXPECT_EQ(Send(2), DropReason::kNone);
  for (uint64_t i = 0; i < 100'000; ++i) Send(1000 + i, /*is_known=*/false);
  EXPECT_EQ(Send(1), DropReason::kControlRate);
  EXPECT_EQ(Send(2), DropReason::kNone);
}

// Also with a new queue pair, whose vPort has not announced itself yet.
TEST_F(MessageAdmissionTest, APortThatWasKnownStaysSoWhileMadeUpPortsFlood) {
  EXPECT_EQ(Send(1), DropReason::kNone);
  for (int i = 0; i < 400'000; ++i) {
    clock_.Advance(absl::Microseconds(50));
    Send(1000 + static_cast<uint64_t>(i), /*is_known=*/false);
  }
  EXPECT_EQ(Admitted(1, 10, /*is_known=*/false), 10);
}

TEST_F(MessageAdmissionTest, ASenderLeavesPlacesOfTheQueueForOthers) {
  constexpr size_t kPlaces = ReceivedMessages::capacity();
  size_t queued = 0;
  while (Queue(1) == DropReason::kNone) ++queued;
  EXPECT_EQ(queued, kPlaces / 2);
  EXPECT_EQ(Queue(1), DropReason::kControlQueueFull);
  while (Queue(2) == DropReason::kNone) ++queued;
  EXPECT_EQ(queued, kPlaces * 3 / 4);
  EXPECT_EQ(Queue(3), DropReason::kNone);
  popped_ += 1;  // the first one's
  EXPECT_EQ(Queue(1), DropReason::kControlQueueFull);
  popped_ += kPlaces / 2;
  EXPECT_EQ(Queue(1), DropReason::kNone);
}

TEST_F(MessageAdmissionTest, ManySendersFillTheQueueAndNoMore) {
  size_t queued = 0;
  for (uint64_t port = 1; port <= 1000; ++port) queued += Queue(port) == DropReason::kNone;
  EXPECT_EQ(queued, ReceivedMessages::capacity());
  EXPECT_EQ(Queue(2000), DropReason::kControlQueueFull);
}

}  // namespace
}  // namespace eoib
