#include "control/ves/rarp_announcer.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/port/port_for_test.h"

namespace eoib {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

class RarpAnnouncerTest : public testing::Test {
 protected:
  void AddVPorts(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      VPort vport;
      vport.index = i;
      vport.port = std::make_unique<TestPort>("v", MacAddr::FromUint64(0x02'00'00'00'00'00 + i));
      vports_.push_back(std::move(vport));
    }
  }

  // The vPorts whose announcements are queued, in order.
  std::vector<uint32_t> Take() {
    std::vector<uint32_t> indexes;
    for (Injected frame; queue_.Pop(&frame);) indexes.push_back(frame.port);
    return indexes;
  }
  // Runs the announcer until it is done. Returns the times of each vPort's announcements, in
  // milliseconds.
  std::map<uint32_t, std::vector<int64_t>> RunToTheEnd() {
    std::map<uint32_t, std::vector<int64_t>> times;
    const absl::Time start = clock_.Now();
    for (;;) {
      const int64_t now = absl::ToInt64Milliseconds(clock_.Now() - start);
      const std::vector<uint32_t> taken = Take();
      most_at_once_ = std::max(most_at_once_, taken.size());
      for (const uint32_t index : taken) times[index].push_back(now);
      if (announcer_.NextDeadline() == absl::InfiniteFuture()) return times;
      clock_.Advance(std::max(announcer_.NextDeadline() - clock_.Now(), absl::ZeroDuration()));
      announcer_.Run();
    }
  }

  FakeClock clock_;
  const VlanSet vlans_ = VlanSet::All();
  std::vector<VPort> vports_;
  InjectQueue queue_;
  RarpAnnouncer announcer_{&vlans_, &vports_, &queue_, &clock_};
  size_t most_at_once_ = 0;
};

TEST_F(RarpAnnouncerTest, AnnouncesFiveTimes) {
  AddVPorts(2);
  announcer_.Start();
  const auto times = RunToTheEnd();
  EXPECT_THAT(times, SizeIs(2));
  for (const auto& [index, at] : times)
    EXPECT_THAT(at, ElementsAre(0, 100, 300, 700, 1500)) << index;
}

TEST_F(RarpAnnouncerTest, StartOfOneLeavesTheOthersAlone) {
  AddVPorts(3);
  announcer_.Start({0, 1});
  EXPECT_THAT(Take(), ElementsAre(0, 1));
  clock_.Advance(absl::Milliseconds(100));
  announcer_.Start({2});
  EXPECT_THAT(Take(), ElementsAre(0, 1, 2));
  const auto times = RunToTheEnd();
  EXPECT_THAT(times.at(0), ElementsAre(200, 600, 1400));
  EXPECT_THAT(times.at(2), ElementsAre(100, 300, 700, 1500));
}

TEST_F(RarpAnnouncerTest, RemovedVPortIsAnnouncedNoMore) {
  AddVPorts(3);
  announcer_.Start();
  EXPECT_THAT(Take(), ElementsAre(0, 1, 2));
  vports_.erase(vports_.begin() + 1);
  EXPECT_FALSE(RunToTheEnd().contains(1));
  announcer_.Start();
  announcer_.Stop();
  Take();
  EXPECT_THAT(RunToTheEnd(), SizeIs(0));
}

// Each announcement is copied to a thousand ports, which takes a worker about a millisecond. The
// frames of other ports wait meanwhile.
TEST_F(RarpAnnouncerTest, ThousandVPortsAreAnnouncedOneAfterTheOther) {
  AddVPorts(1000);
  announcer_.Start();
  const auto times = RunToTheEnd();
  EXPECT_THAT(times, SizeIs(1000));
  for (const auto& [index, at] : times) {
    ASSERT_THAT(at, SizeIs(5)) << index;
    EXPECT_LE(at.front(), 10'000) << index;
  }
  EXPECT_LE(most_at_once_, 4u);
  EXPECT_EQ(queue_.TakeRefused(), 0u);
}

TEST_F(RarpAnnouncerTest, QueueHasRoomForABurst) {
  AddVPorts(200);
  announcer_.Start();
  const auto times = RunToTheEnd();
  EXPECT_THAT(times, SizeIs(200));
  EXPECT_EQ(queue_.TakeRefused(), 0u);
}

}  // namespace
}  // namespace eoib
