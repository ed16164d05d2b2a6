// EventRing with its one writer and several readers.
#include "fdb/event_ring.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace eoib {
namespace {

TEST(EventRingTest, LateReaderLearnsHowManyEventsWereLost) {
  struct Event {
    uint64_t number;
  };
  EventRing<Event> ring(8);
  uint64_t next = 0;
  std::vector<Event> events;
  EXPECT_EQ(ring.Read(&next, 100, &events), 0u);
  EXPECT_TRUE(events.empty());
  for (uint64_t i = 0; i < 20; ++i) ring.Write({i});
  EXPECT_EQ(ring.Read(&next, 3, &events), 12u);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].number, 12u);
  EXPECT_EQ(ring.Read(&next, 100, &events), 0u);
  EXPECT_EQ(events.back().number, 19u);
  EXPECT_EQ(next, 20u);
  next = 1000;
  EXPECT_EQ(ring.Read(&next, 100, &events), 0u);
  EXPECT_EQ(next, 20u) << "not been yet";
}

TEST(EventRingTest, LargerRingContinuesSmallerRing) {
  struct Event {
    uint64_t number;
  };
  EventRing<Event> small(4);
  for (uint64_t i = 0; i < 10; ++i) small.Write({i});
  EventRing<Event> large(16);
  large.ContinueFrom(small);
  for (uint64_t i = 10; i < 20; ++i) large.Write({i});
  uint64_t next = 0;
  std::vector<Event> events;
  EXPECT_EQ(large.Read(&next, 100, &events), 6u);
  ASSERT_EQ(events.size(), 14u);
  for (uint64_t i = 0; i < 14; ++i) EXPECT_EQ(events[i].number, 6 + i);
  EventRing<Event> empty(4), after(8);
  after.ContinueFrom(empty);
  EXPECT_EQ(after.end(), 0u);
}

// Beside a writer, a reader gets each event whole, in order and once, or counts it as lost.
TEST(EventRingTest, ConcurrentReadersCountEveryLostEvent) {
  struct Event {
    uint64_t number, copy, other;
  };
  EventRing<Event> ring(64);
  constexpr uint64_t kEvents = 200'000;
  std::thread writer([&ring] {
    for (uint64_t i = 0; i < kEvents; ++i) ring.Write({i, i, ~i});
  });
  uint64_t next = 0, read = 0, lost = 0;
  std::vector<Event> events;
  while (next < kEvents) {
    const uint64_t before = next;
    const uint64_t missed = ring.Read(&next, 16, &events);
    lost += missed;
    read += events.size();
    ASSERT_EQ(next - before, missed + events.size());
    for (const Event& event : events)
      ASSERT_TRUE(event.number == event.copy && event.other == ~event.number);
    for (size_t i = 1; i < events.size(); ++i) ASSERT_GT(events[i].number, events[i - 1].number);
    events.clear();
  }
  writer.join();
  EXPECT_EQ(read + lost, kEvents);
}

}  // namespace
}  // namespace eoib
