#include "vswitch/fabric/softhca/event_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "vswitch/fabric/softhca/soft_node_for_test.h"

namespace eoib::softhca {
namespace {

constexpr uint64_t kBrim = ~uint64_t{1};

uint64_t Take(int fd) {
  uint64_t count = 0;
  return read(fd, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

// Runs `step` in a thread; whether it came back. One that blocks stays behind, with its descriptor, for the test's end.
template <typename Step>
bool ComesBack(Step step) {
  auto done = std::make_shared<std::atomic<bool>>(false);
  std::thread([=] {
    step();
    *done = true;
  }).detach();
  return Eventually([done] { return done->load(); });
}

TEST(EventFdTest, RingsAndIsSilenced) {
  const UniqueFd fd = MakeEventFd();
  for (void (*ring)(int) : {&RingEventFd, &RingSharedEventFd}) {
    ring(fd.get());
    ring(fd.get());
    EXPECT_EQ(Take(fd.get()), 2u);
    ring(fd.get());
    ClearEventFd(fd.get());
    EXPECT_EQ(Take(fd.get()), 0u);
  }
}

TEST(EventFdTest, WakesWhoPollsIt) {
  const UniqueFd fd = MakeEventFd();
  std::thread sleeper([&] {
    pollfd ready = {fd.get(), POLLIN, 0};
    EXPECT_EQ(poll(&ready, 1, 20'000), 1);
  });
  RingSharedEventFd(fd.get());
  sleeper.join();
}

// Whoever holds it may have filled it and made it blocking: a write would wait for ever.
TEST(EventFdTest, AFullBlockingEventFdBlocksNobody) {
  const int fd = eventfd(0, EFD_CLOEXEC);
  ASSERT_EQ(write(fd, &kBrim, sizeof(kBrim)), static_cast<ssize_t>(sizeof(kBrim)));
  ASSERT_TRUE(ComesBack([fd] {
    for (int i = 0; i < 3; ++i) RingSharedEventFd(fd);
  }));
  EXPECT_NE(Take(fd), 0u);
  RingSharedEventFd(fd);
  EXPECT_EQ(Take(fd), 1u) << "it rings again";
  close(fd);
}

TEST(EventFdTest, AnEmptyBlockingEventFdBlocksNobody) {
  const int fd = eventfd(0, EFD_CLOEXEC);
  ASSERT_TRUE(ComesBack([fd] { ClearEventFd(fd); }));
  close(fd);
}

TEST(EventFdTest, ManyThreadsMayRingManyTimes) {
  constexpr int kThreads = 4, kTimes = 5000;
  const UniqueFd fd = MakeEventFd();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < kTimes; ++n) RingSharedEventFd(fd.get());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Take(fd.get()), static_cast<uint64_t>(kThreads * kTimes));
}

}  // namespace
}  // namespace eoib::softhca
