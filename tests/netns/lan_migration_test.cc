// A live migration: a guest's MAC moves from the interface of one host to that of another, between
// two frames, while a caller and the guest send to each other.
//
// The guest is a pair of packet sockets, one at each host, so the move itself takes no time, and
// every loss is the switch's.
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/lab/packet_socket.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

const MacAddr kGuest = MacAddr::FromUint64(0x02'aa'00'00'00'42);
constexpr absl::Duration kTick = absl::Milliseconds(1);
// Frames that are sent to the guest for this long after its move may be lost. A busy machine may
// delay the agents further, so one of kRounds moves may take until kMostOfAll.
constexpr absl::Duration kMostLost = absl::Milliseconds(50), kMostOfAll = absl::Milliseconds(300);
constexpr int kRounds = 4;
// More than about 100 ms of stale frames would look like a second station.
constexpr absl::Duration kStale = absl::Milliseconds(50);

class MigrationTest : public SwitchTest {
 protected:
  void SetUp() override {
    SwitchTest::SetUp();
    const std::vector<Agent*> hosts = AddNumberedAgents(3);
    WaitUntilAllReceive(hosts);
    for (Agent* agent : hosts)
      sockets_.push_back(std::make_unique<PacketSocket>(agent->host(), "v1"));
    caller_mac_ = Mac(host(3)->Mac("v1"));
    guest().Send(TestFrame(caller_mac_, kGuest, ++marker_));
    for (int number : {2, 3}) {
      ASSERT_TRUE(EventuallyTrue(kPatience,
                                 [&] { return agent(number).KnowsAnnounced(kGuest.ToString()); }));
    }
  }

  PacketSocket& guest() { return *sockets_[static_cast<size_t>(where_)]; }
  PacketSocket& caller() { return *sockets_[2]; }

  // Both send a frame in each tick. With `stale` the interface that the guest left sends a frame of
  // it, too, while the move is shorter ago than kStale, however long a busy machine takes for the
  // ticks.
  void Talk(int ticks, bool stale = false) {
    absl::Time next = absl::Now();
    for (int i = 0; i < ticks; ++i, next += kTick) {
      while (absl::Now() < next) absl::SleepFor(next - absl::Now());
      next = std::max(next, absl::Now());
      to_guest_[++marker_] = absl::Now();
      caller().Send(TestFrame(kGuest, caller_mac_, marker_));
      guest().Send(TestFrame(caller_mac_, kGuest, ++marker_));
      from_guest_.push_back(marker_);
      if (stale && absl::Now() < moved_ + kStale)
        sockets_[static_cast<size_t>(1 - where_)]->Send(TestFrame(caller_mac_, kGuest, ++marker_));
    }
  }

  void Move(bool announce) {
    where_ = 1 - where_;
    moved_ = absl::Now();
    to_guest_.clear();
    from_guest_.clear();
    if (announce) guest().Send(RarpRequest(kGuest));
  }

  // Expects that the guest has got all frames but those that were sent right after its move, and
  // the caller all of the guest's.
  void ExpectFollowed(const std::string& how) {
    ASSERT_TRUE(guest().WaitFor(Marked(to_guest_.rbegin()->first)));
    ASSERT_TRUE(caller().WaitFor(Marked(from_guest_.back())));
    const std::map<uint32_t, size_t> at_guest = guest().Markers(), at_caller = caller().Markers();
    absl::Duration lost_for;
    size_t lost = 0;
    for (const auto& [marker, sent] : to_guest_) {
      if (at_guest.contains(marker)) continue;
      ++lost;
      lost_for = std::max(lost_for, sent + kTick - moved_);
    }
    for (const uint32_t marker : from_guest_) EXPECT_TRUE(at_caller.contains(marker)) << marker;
    std::cout << how << ": " << lost << " frames to the guest lost, the last " << lost_for
              << " after the move\n";
    EXPECT_LE(lost_for, kMostOfAll) << how;
    slow_ += lost_for > kMostLost;
  }

  // Moves the guest kRounds times, forth and back.
  void Migrate(const std::string& how, const std::function<bool(int round)>& announce,
               int stale_ticks) {
    for (int round = 0; round < kRounds; ++round) MigrateOnce(how, announce(round), stale_ticks);
    EXPECT_LE(slow_, 1);
  }

 private:
  void MigrateOnce(const std::string& how, bool announce, int stale_ticks) {
    Talk(50);
    Move(announce);
    Talk(stale_ticks, /*stale=*/true);
    Talk(400 - stale_ticks);
    ExpectFollowed(how);
    const std::string place = "vPort v1";
    // On a slow machine the contest ends now, and the guest is silent: then its MAC is released
    // until it speaks.
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
      guest().Send(TestFrame(caller_mac_, kGuest, ++marker_));
      return agent(where_ + 1).Knows(kGuest.ToString(), place);
    })) << agent(where_ + 1).MustCtl({"fdb", "show"});
    EXPECT_FALSE(agent(2 - where_).Knows(kGuest.ToString(), place))
        << agent(2 - where_).MustCtl({"fdb", "show"});
  }

  std::vector<std::unique_ptr<PacketSocket>> sockets_;
  MacAddr caller_mac_;
  int where_ = 0;  // the guest is at the agent of this index
  uint32_t marker_ = 0;
  absl::Time moved_;
  int slow_ = 0;                             // moves that took longer than kMostLost
  std::map<uint32_t, absl::Time> to_guest_;  // markers, and when they were sent
  std::vector<uint32_t> from_guest_;
};

TEST_F(MigrationTest, GuestThatIsAnnouncedLosesFramesForAtMost50Milliseconds) {
  Migrate(
      "with a RARP", [](int) { return true; }, 0);
}

TEST_F(MigrationTest, GuestThatIsNotAnnouncedLosesFramesForAtMost50Milliseconds) {
  Migrate(
      "without a RARP", [](int) { return false; }, 0);
}

// Frames that were in a queue of the former host.
TEST_F(MigrationTest, StaleFramesOfTheFormerHostDoNotTakeTheMacBack) {
  Migrate(
      "with stale frames", [](int round) { return round % 2 == 0; }, 30);
}

}  // namespace
}  // namespace eoib::lab
