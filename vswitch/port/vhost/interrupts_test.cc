#include "vswitch/port/vhost/interrupts.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace eoib {
namespace {

uint64_t Read(int fd) {
  uint64_t count = 0;
  return read(fd, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

TEST(InterruptsTest, CountsEachInterrupt) {
  Interrupts* const interrupts = Interrupts::OfProcess().value();
  const UniqueFd event(eventfd(0, EFD_NONBLOCK));
  EXPECT_EQ(Read(event.get()), 0u);
  // More than the completions that the kernel keeps.
  for (int i = 0; i < 1000; ++i) interrupts->Raise(event.get());
  EXPECT_EQ(Read(event.get()), 1000u);
}

TEST(InterruptsTest, DoesNotWaitForAFullCounterThatBlocks) {
  Interrupts* const interrupts = Interrupts::OfProcess().value();
  const UniqueFd event(eventfd(0, 0));
  constexpr uint64_t kFull = std::numeric_limits<uint64_t>::max() - 1;
  ASSERT_EQ(write(event.get(), &kFull, sizeof(kFull)), static_cast<ssize_t>(sizeof(kFull)));
  for (int i = 0; i < 1000; ++i) interrupts->Raise(event.get());
  EXPECT_GE(Read(event.get()), kFull);
}

TEST(InterruptsTest, LeavesOtherDescriptorsAlone) {
  Interrupts* const interrupts = Interrupts::OfProcess().value();
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  for (const int fd : {writer.get(), -1}) interrupts->Raise(fd);
  EXPECT_EQ(Read(reader.get()), 0u);
}

TEST(InterruptsTest, SeveralThreadsRaiseThem) {
  Interrupts* const interrupts = Interrupts::OfProcess().value();
  const UniqueFd event(eventfd(0, EFD_NONBLOCK));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) interrupts->Raise(event.get());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Read(event.get()), 4000u);
}

}  // namespace
}  // namespace eoib
