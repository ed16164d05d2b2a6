#include "vswitch/base/daemon/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace eoib {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class EventLoopTest : public ::testing::Test {
 protected:
  // Runs a round that does not wait.
  void Poll() { loop_.RunOnce(clock_.Now()); }
  EventLoop::Callback Note(const std::string& what) {
    return [this, what] { log_.push_back(what); };
  }
  absl::Time In(int milliseconds) const { return clock_.Now() + absl::Milliseconds(milliseconds); }

  FakeClock clock_;
  EventLoop loop_{&clock_};
  std::vector<std::string> log_;
};

// A descriptor that becomes readable when it is signalled.
class Signal {
 public:
  Signal() : fd_(::eventfd(0, EFD_NONBLOCK)) {}
  int fd() const { return fd_.get(); }
  void Set() { EXPECT_EQ(0, ::eventfd_write(fd(), 1)); }
  void Clear() {
    eventfd_t value;
    EXPECT_EQ(0, ::eventfd_read(fd(), &value));
  }

 private:
  UniqueFd fd_;
};

TEST_F(EventLoopTest, CallsBackWhileADescriptorIsReady) {
  Signal signal;
  ASSERT_TRUE(loop_
                  .Add(signal.fd(), EPOLLIN,
                       [&](uint32_t events) {
                         EXPECT_EQ(static_cast<uint32_t>(EPOLLIN), events);
                         log_.push_back("in");
                       })
                  .ok());
  Poll();
  EXPECT_THAT(log_, IsEmpty());
  signal.Set();
  Poll();
  Poll();
  EXPECT_THAT(log_, ElementsAre("in", "in")) << "level-triggered";
  signal.Clear();
  Poll();
  EXPECT_EQ(2u, log_.size());
}

TEST_F(EventLoopTest, AddFailsForADescriptorThatEpollRefuses) {
  Signal signal;
  EXPECT_TRUE(loop_.Add(signal.fd(), EPOLLIN, [](uint32_t) {}).ok());
  EXPECT_EQ(absl::StatusCode::kAlreadyExists,
            loop_.Add(signal.fd(), EPOLLIN, [](uint32_t) {}).code());
  EXPECT_FALSE(loop_.Add(-1, EPOLLIN, [](uint32_t) {}).ok());
}

TEST_F(EventLoopTest, CallbackMayRemoveItself) {
  Signal signal;
  signal.Set();
  auto alive = std::make_shared<int>(1);
  std::weak_ptr<int> watch = alive;
  ASSERT_TRUE(loop_
                  .Add(signal.fd(), EPOLLIN,
                       [this, &signal, alive = std::move(alive)](uint32_t) {
                         loop_.Remove(signal.fd());
                         // The callback's own state still exists.
                         log_.push_back(std::to_string(*alive));
                       })
                  .ok());
  Poll();
  Poll();
  EXPECT_THAT(log_, ElementsAre("1"));
  EXPECT_TRUE(watch.expired());
}

TEST_F(EventLoopTest, DoesNotCallWhatWasRemovedInTheSameRound) {
  Signal a, b;
  a.Set();
  b.Set();
  // The one that is called first removes the other.
  ASSERT_TRUE(loop_
                  .Add(a.fd(), EPOLLIN,
                       [&](uint32_t) {
                         loop_.Remove(b.fd());
                         log_.push_back("ready");
                       })
                  .ok());
  ASSERT_TRUE(loop_
                  .Add(b.fd(), EPOLLIN,
                       [&](uint32_t) {
                         loop_.Remove(a.fd());
                         log_.push_back("ready");
                       })
                  .ok());
  Poll();
  EXPECT_THAT(log_, ElementsAre("ready"));
}

TEST_F(EventLoopTest, NewDescriptorGetsNoEventOfItsPredecessorWithTheSameNumber) {
  Signal a, b;
  a.Set();
  b.Set();
  const auto replace = [this](Signal* other) {
    loop_.Remove(other->fd());
    other->Clear();
    EXPECT_TRUE(
        loop_.Add(other->fd(), EPOLLIN, [this](uint32_t) { log_.push_back("replacement"); }).ok());
    log_.push_back("first");
  };
  ASSERT_TRUE(loop_.Add(a.fd(), EPOLLIN, [&](uint32_t) { replace(&b); }).ok());
  ASSERT_TRUE(loop_.Add(b.fd(), EPOLLIN, [&](uint32_t) { replace(&a); }).ok());
  Poll();
  EXPECT_THAT(log_, ElementsAre("first"));
}

TEST_F(EventLoopTest, TimersRunInTheOrderOfTimeAndThenOfCalls) {
  loop_.CallAt(In(20), Note("c"));
  loop_.CallAt(In(10), Note("a"));
  loop_.CallAt(In(10), Note("b"));
  Poll();
  EXPECT_THAT(log_, IsEmpty());
  clock_.Advance(absl::Milliseconds(9));
  Poll();
  EXPECT_THAT(log_, IsEmpty()) << "not before their time";
  clock_.Advance(absl::Milliseconds(1));
  Poll();
  EXPECT_THAT(log_, ElementsAre("a", "b"));
  clock_.Advance(absl::Milliseconds(100));
  Poll();
  Poll();
  EXPECT_THAT(log_, ElementsAre("a", "b", "c")) << "once";
}

TEST_F(EventLoopTest, TimersCanBeCancelledAlsoByEachOther) {
  const auto cancelled = loop_.CallAt(In(0), Note("cancelled"));
  EventLoop::TimerId later = 0;
  loop_.CallAt(In(0), [&] {
    log_.push_back("cancels");
    loop_.Cancel(later);
  });
  later = loop_.CallAt(In(0), Note("cancelled by the one before"));
  loop_.Cancel(cancelled);
  loop_.Cancel(cancelled);
  Poll();
  EXPECT_THAT(log_, ElementsAre("cancels"));
}

TEST_F(EventLoopTest, TimerSetByATimerRunsInALaterRound) {
  loop_.CallAt(In(0), [&] {
    log_.push_back("first");
    loop_.CallAt(clock_.Now(), Note("second"));
  });
  Poll();
  EXPECT_THAT(log_, ElementsAre("first"));
  Poll();
  EXPECT_THAT(log_, ElementsAre("first", "second"));
}

TEST_F(EventLoopTest, ReadsDeadlinesInEachRound) {
  absl::Time next = absl::InfiniteFuture();
  const auto id = loop_.AddDeadline([&] { return next; },
                                    [&] {
                                      log_.push_back("due");
                                      next = absl::InfiniteFuture();
                                    });
  Poll();
  EXPECT_THAT(log_, IsEmpty());
  next = In(5);
  Poll();
  EXPECT_THAT(log_, IsEmpty());
  clock_.Advance(absl::Milliseconds(5));
  Poll();
  Poll();
  EXPECT_THAT(log_, ElementsAre("due"));
  next = clock_.Now();
  loop_.Cancel(id);
  Poll();
  EXPECT_EQ(1u, log_.size());
}

TEST_F(EventLoopTest, DeadlineMayRemoveItself) {
  EventLoop::TimerId id = 0;
  id = loop_.AddDeadline([&] { return clock_.Now(); },
                         [&] {
                           loop_.Cancel(id);
                           log_.push_back("due");
                         });
  Poll();
  Poll();
  EXPECT_THAT(log_, ElementsAre("due"));
}

TEST_F(EventLoopTest, RunsPostedCallbacksInOrder) {
  std::thread other([&] {
    loop_.Post(Note("a"));
    loop_.Post(Note("b"));
    loop_.Stop();
  });
  loop_.Run();
  other.join();
  Poll();  // Stop may have come in the middle of the last round
  EXPECT_THAT(log_, ElementsAre("a", "b"));
}

TEST_F(EventLoopTest, PostWakesALoopThatWaits) {
  const std::thread::id loop_thread = std::this_thread::get_id();
  std::thread other([&] {
    loop_.Post([&] {
      EXPECT_EQ(loop_thread, std::this_thread::get_id());
      log_.push_back("posted");
      loop_.Post([&] { loop_.Stop(); });
    });
  });
  loop_.Run();  // never returns if a post does not wake it
  other.join();
  EXPECT_THAT(log_, ElementsAre("posted"));
}

TEST_F(EventLoopTest, StopBeforeRunTakesEffect) {
  loop_.Stop();
  loop_.Run();
  loop_.CallAt(In(0), [&] { loop_.Stop(); });
  loop_.Run();  // the first Stop was consumed
}

TEST(EventLoopClockTest, WaitsForATimerOnARealClock) {
  MonotonicClock clock;
  EventLoop loop(&clock);
  const absl::Time when = clock.Now() + absl::Milliseconds(5);
  absl::Time ran = absl::InfinitePast();
  loop.CallAt(when, [&] {
    ran = clock.Now();
    loop.Stop();
  });
  loop.Run();
  EXPECT_GE(ran, when);
}

}  // namespace
}  // namespace eoib
