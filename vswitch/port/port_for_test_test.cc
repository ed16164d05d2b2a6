#include "vswitch/port/port_for_test.h"

#include <poll.h>

#include "gtest/gtest.h"
#include "vswitch/fabric/fake_verbs.h"

namespace eoib {
namespace {

bool Readable(int fd) {
  pollfd waiting{fd, POLLIN, 0};
  return poll(&waiting, 1, 0) == 1;
}

TEST(TestPortTest, InjectsAndCollects) {
  FakeHca hca;
  {
    auto pool = BufferPool::Create(&hca, hca.pd(), 4, 100).value();
    TestPort port("p", MacAddr());
    EXPECT_FALSE(Readable(port.receive_fd()));
    const std::vector<uint8_t> tagged = {1,  2,  3,    4, 5, 6,  7,    8,    9, 10,
                                         11, 12, 0x81, 0, 0, 10, 0x08, 0x00, 42};
    port.Inject(tagged, {true, 18, 0});
    port.Inject(std::vector<uint8_t>(101));
    EXPECT_TRUE(Readable(port.receive_fd()));
    Frame frames[4];
    PortReceiveCounts counts;
    ASSERT_EQ(port.Receive(pool.get(), 100, absl::MakeSpan(frames), &counts), 1u);
    EXPECT_EQ(counts.too_large, 1u);
    EXPECT_FALSE(Readable(port.receive_fd()));

    EXPECT_EQ(port.Transmit(frames[0], /*strip_tag=*/true), DropReason::kNone);
    const auto sent = port.TakeTransmitted();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].bytes,
              (std::vector<uint8_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x08, 0x00, 42}));
    EXPECT_EQ(sent[0].checksum, (ChecksumRequest{true, 14, 0}));
    port.SetTransmitResult(DropReason::kPortFull);
    EXPECT_EQ(port.Transmit(frames[0], false), DropReason::kPortFull);
    pool->Free(frames[0].buffer);
  }
}

TEST(TestPortTest, IsFullAfterSoManyFramesUnlessItDiscards) {
  TestPort port("p", MacAddr());
  uint8_t bytes[60] = {};
  const Frame frame{BufferId(), bytes, sizeof(bytes), {}};
  for (size_t i = 0; i < TestPort::kMaxKept; ++i)
    ASSERT_EQ(port.Transmit(frame, false), DropReason::kNone);
  EXPECT_EQ(port.Transmit(frame, false), DropReason::kPortFull);
  EXPECT_EQ(port.TakeTransmitted().size(), TestPort::kMaxKept);
  EXPECT_EQ(port.Transmit(frame, false), DropReason::kNone);
  port.TakeTransmitted();
  port.SetDiscard(true);
  EXPECT_EQ(port.Transmit(frame, false), DropReason::kNone);
  EXPECT_TRUE(port.TakeTransmitted().empty());
}

}  // namespace
}  // namespace eoib
