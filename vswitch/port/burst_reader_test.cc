#include "vswitch/port/burst_reader.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "vswitch/base/unique_fd.h"

namespace eoib {
namespace {

std::string Failed(int error) { return absl::StrCat("failed: ", error); }

// Datagrams of a socket pair stand in for frames of a TAP: each read takes one.
class BurstReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    inside_.reset(ends[0]);
    outside_.reset(ends[1]);
    reader_ = BurstReader::Make();
    ASSERT_NE(reader_, nullptr) << "this kernel has no io_uring (sysctl kernel.io_uring_disabled)";
  }
  void Send(const std::string& frame) {
    ASSERT_EQ(write(outside_.get(), frame.data(), frame.size()), ssize_t(frame.size()));
  }
  // Reads `count` frames, each into a part of 2 bytes and one of 6. A failure reads as its error.
  std::vector<std::string> ReadAll(size_t count) {
    char bytes[BurstReader::kMost][8];
    iovec parts[BurstReader::kMost][2];
    for (size_t i = 0; i < count; ++i) {
      parts[i][0] = {bytes[i], 2};
      parts[i][1] = {bytes[i] + 2, 6};
      reader_->Add(inside_.get(), parts[i]);
    }
    std::vector<std::string> frames;
    const absl::Span<const int> results = reader_->ReadAll();
    for (size_t i = 0; i < results.size(); ++i) {
      frames.push_back(results[i] < 0 ? Failed(-results[i])
                                      : std::string(bytes[i], static_cast<size_t>(results[i])));
    }
    return frames;
  }

  UniqueFd inside_, outside_;
  std::unique_ptr<BurstReader> reader_;
};

TEST_F(BurstReaderTest, ReadsInOrderUpToTheEnd) {
  const std::vector<std::string> sent = {"a", "frame", "longer", ""};
  for (int burst = 0; burst < 3; ++burst) {
    for (const std::string& frame : sent) Send(frame);
    EXPECT_EQ(ReadAll(2), (std::vector<std::string>{"a", "frame"}));
    EXPECT_EQ(ReadAll(4), (std::vector<std::string>{"longer", "", Failed(EAGAIN), Failed(EAGAIN)}));
  }
}

TEST_F(BurstReaderTest, ALargestBurst) {
  const size_t count = BurstReader::kMost;
  for (size_t i = 0; i < count / 2; ++i) Send(std::to_string(i));
  const std::vector<std::string> frames = ReadAll(count);
  ASSERT_EQ(frames.size(), count);
  for (size_t i = 0; i < count; ++i)
    EXPECT_EQ(frames[i], i < count / 2 ? std::to_string(i) : Failed(EAGAIN));
}

TEST_F(BurstReaderTest, AFailedReadIsAResult) {
  inside_.reset();
  EXPECT_EQ(ReadAll(2), (std::vector<std::string>{Failed(EBADF), Failed(EBADF)}));
}

TEST_F(BurstReaderTest, NothingAddedNothingRead) { EXPECT_TRUE(ReadAll(0).empty()); }

}  // namespace
}  // namespace eoib
