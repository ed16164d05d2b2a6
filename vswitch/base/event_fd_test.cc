#include "vswitch/base/event_fd.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <thread>

namespace eoib {
namespace {

uint64_t Take(int fd) {
  uint64_t count = 0;
  return read(fd, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

TEST(EventFdTest, RingsAndIsSilenced) {
  const UniqueFd fd = MakeEventFd();
  RingEventFd(fd.get());
  RingEventFd(fd.get());
  EXPECT_EQ(Take(fd.get()), 2u);
  RingEventFd(fd.get());
  ClearEventFd(fd.get());
  EXPECT_EQ(Take(fd.get()), 0u);
}

TEST(EventFdTest, WakesAPoller) {
  const UniqueFd fd = MakeEventFd();
  std::thread sleeper([&] {
    pollfd ready = {fd.get(), POLLIN, 0};
    EXPECT_EQ(poll(&ready, 1, 20'000), 1);
  });
  RingEventFd(fd.get());
  sleeper.join();
}

// A worker that rings must not block. If it does, the test's time limit ends it.
TEST(EventFdTest, AFullOneHasRungAlready) {
  const UniqueFd fd = MakeEventFd();
  const uint64_t full = ~uint64_t{1};
  ASSERT_EQ(write(fd.get(), &full, sizeof(full)), static_cast<ssize_t>(sizeof(full)));
  RingEventFd(fd.get());
  EXPECT_EQ(Take(fd.get()), full);
}

TEST(EventFdTest, SilencingAnEmptyBlockingOneDoesNotBlock) {
  const UniqueFd fd(eventfd(0, EFD_CLOEXEC));
  ClearEventFd(fd.get());
  RingEventFd(fd.get());
  EXPECT_EQ(Take(fd.get()), 1u);
}

}  // namespace
}  // namespace eoib
