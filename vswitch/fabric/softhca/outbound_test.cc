#include "vswitch/fabric/softhca/outbound.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "vswitch/base/clock.h"
#include "vswitch/base/event_fd.h"
#include "vswitch/fabric/softhca/ring.h"

namespace eoib::softhca {
namespace {

using testing::ElementsAre;

constexpr Lid kDestination(7);
constexpr uint64_t kRing = 42;

// A RingSender; the test plays its consumer and the subnet.
class RingSenderTest : public testing::Test {
 protected:
  RingSenderTest() { Open(1, kRing); }

  // Does what a port does when the subnet grants a ring.
  void Open(uint64_t request, uint64_t ring) {
    memory_ = RingMemory::CreateLocal(options_.first_capacity);
    sender_.BeginOpening(request, memory_, UniqueFd());
    sender_.OnOpened(ring, std::make_shared<UniqueFd>(MakeEventFd()));
  }
  void Send() {
    RecordHeader header;
    header.length = static_cast<uint32_t>(payload_.size());
    const ibv_sge piece = {reinterpret_cast<uintptr_t>(payload_.data()), header.length, 0};
    sender_.Send(header, Gather{&piece, 1});
    sender_.Publish();
  }
  LinkRequests TakeRequests() { return std::exchange(shared_.requests, LinkRequests()); }

  OutboundOptions options_;
  FakeClock clock_;
  SoftPortCounters counters_;
  QueuePairs queue_pairs_{&counters_};
  OutboundShared shared_{&options_, &clock_, &counters_, &queue_pairs_};
  RingSender sender_{kDestination, &shared_};
  std::shared_ptr<RingMemory> memory_;
  std::string payload_ = std::string(4096, 'x');
};

TEST_F(RingSenderTest, ARingWhoseConsumerBreaksTheRulesIsClosed) {
  memory_->index()->tail.store(~uint64_t{0});
  while (sender_.open()) Send();  // until it looks at the consumer's position
  EXPECT_EQ(counters_.corrupt_rings, 1u);
  EXPECT_THAT(TakeRequests().closes, ElementsAre(kRing));
}

TEST_F(RingSenderTest, APeerSeenAfterARefusalIsAskedForARingAtOnce) {
  sender_.OnClosed();
  sender_.OnRefused();
  Send();
  EXPECT_TRUE(shared_.requests.empty());
  sender_.OnPeerSeen();
  Send();
  EXPECT_THAT(TakeRequests().rings, ElementsAre(kDestination));
}

TEST_F(RingSenderTest, AnIdleRingIsClosedOnlyWhenItsConsumerHasEmptiedItAndItCouldBeMadeAgain) {
  Send();
  sender_.Maintain(clock_.Now());
  clock_.Advance(absl::Seconds(10));
  sender_.Maintain(clock_.Now());
  EXPECT_TRUE(sender_.open()) << "its content is not lost";
  clock_.Advance(absl::Hours(1));
  sender_.Maintain(clock_.Now());
  EXPECT_TRUE(sender_.open()) << "however long";
  RingConsumer consumer(memory_);
  RecordHeader header;
  const uint8_t* payload;
  ASSERT_EQ(consumer.Peek(&header, &payload), RingConsumer::Next::kRecord);
  consumer.Release();
  consumer.Publish();
  sender_.Maintain(clock_.Now());
  EXPECT_TRUE(sender_.open()) << "while the subnet could not make it again";
  EXPECT_THAT(TakeRequests().rings, ElementsAre(kDestination));
  Open(2, kRing + 1);
  EXPECT_FALSE(sender_.open());
  EXPECT_THAT(TakeRequests().closes, ElementsAre(kRing, kRing + 1));
}

TEST_F(RingSenderTest, ARingThatIsUsedIsNotIdle) {
  RingConsumer consumer(memory_);
  for (int i = 0; i < 20; ++i) {
    Send();
    RecordHeader header;
    const uint8_t* payload;
    ASSERT_EQ(consumer.Peek(&header, &payload), RingConsumer::Next::kRecord);
    consumer.Release();
    consumer.Publish();
    clock_.Advance(absl::Seconds(10) - absl::Nanoseconds(1));
    sender_.Maintain(clock_.Now());
    EXPECT_TRUE(sender_.open());
  }
  EXPECT_TRUE(shared_.requests.empty());
  clock_.Advance(absl::Seconds(10));
  sender_.Maintain(clock_.Now());
  EXPECT_THAT(TakeRequests().rings, ElementsAre(kDestination));
}

}  // namespace
}  // namespace eoib::softhca
