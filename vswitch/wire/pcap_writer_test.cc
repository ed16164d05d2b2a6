#include "vswitch/wire/pcap_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "vswitch/base/unique_fd.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

class PcapWriterTest : public testing::Test {
 protected:
  ~PcapWriterTest() override { unlink(path_.c_str()); }
  Bytes Read() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  const std::string path_ = absl::StrCat(testing::TempDir(), "/pcap_writer_test_", getpid());
};

const absl::Time kStamp = absl::FromUnixSeconds(0x0102'0304) + absl::Nanoseconds(0x0506);

// Numbers are in host order, and all hosts that we build for are little-endian.
TEST_F(PcapWriterTest, AFileHasAHeaderAndRecords) {
  auto writer = PcapWriter::Open(path_);
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_TRUE((*writer)->Write(kStamp, Bytes{0xaa, 0xbb}, 60).ok());
  EXPECT_EQ((*writer)->frames(), 1u);
  EXPECT_EQ((*writer)->bytes(), 24u + 16u + 2u);
  EXPECT_TRUE((*writer)->Flush().ok());
  const Bytes expected = {0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0,    0,   4, 0, 1, 0, 0, 0,  // file
                          4,    3,    2,    1,    6, 5, 0, 0, 2, 0, 0, 0, 60, 0, 0, 0, 0xaa, 0xbb};
  EXPECT_EQ(Read(), expected);
  struct stat info;
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u) << "a capture shows users' traffic";
}

TEST_F(PcapWriterTest, NothingIsOverwritten) {
  std::ofstream(path_) << "kept";
  EXPECT_EQ(PcapWriter::Open(path_).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Read().size(), 4u);
}

TEST_F(PcapWriterTest, TimesOutsideTheFormatAreRefused) {
  auto writer = PcapWriter::Open(path_);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const absl::Time wrong : {absl::UnixEpoch() - absl::Seconds(1), absl::FromUnixSeconds(0x1'0000'0000)}) {
    EXPECT_EQ((*writer)->Write(wrong, {}, 60).code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ((*writer)->frames(), 0u);
}

// The end of a capture must not wait for a reader that does not read.
TEST_F(PcapWriterTest, AFullFifoFailsWithoutPatience) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(PcapWriter::Open(path_).status().code(), absl::StatusCode::kFailedPrecondition) << "no process reads it";
  const UniqueFd reader(open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  auto writer = PcapWriter::Open(path_);
  ASSERT_TRUE(writer.ok()) << writer.status();
  (*writer)->SetPatience([] { return false; });
  const Bytes frame(60'000);
  absl::Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) status = (*writer)->Write(kStamp, frame, frame.size());
  EXPECT_FALSE(status.ok());
  EXPECT_EQ((*writer)->Write(kStamp, frame, frame.size()), status) << "a truncated record ends a capture";
}

}  // namespace
}  // namespace eoib
