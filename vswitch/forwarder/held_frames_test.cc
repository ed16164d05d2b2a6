#include "vswitch/forwarder/held_frames.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace eoib {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class HeldTest : public testing::Test {
 protected:
  using SixFrames = Held<char, 6, 3>;

  bool Add(char key, uint32_t buffer, int seconds = 1, uint32_t train = 1) {
    SendRequest request;
    request.buffer = BufferId(buffer);
    request.train = train;
    return held_.Add({key, request, start_ + absl::Seconds(seconds)});
  }
  std::vector<uint32_t> Waiting() {
    std::vector<uint32_t> waiting;
    held_.TakeIf([&](const SixFrames::Frame& frame) {
      waiting.push_back(frame.request.buffer.value());
      return false;
    });
    return waiting;
  }
  std::vector<uint32_t> Expired(int seconds) {
    std::vector<uint32_t> expired;
    held_.DropExpired(start_ + absl::Seconds(seconds),
                      [&](BufferId buffer) { expired.push_back(buffer.value()); });
    return expired;
  }

  const absl::Time start_ = absl::UnixEpoch();
  SixFrames held_;
};

TEST_F(HeldTest, AKeyDoesNotTakeTheRoomOfOthers) {
  for (uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(Add('a', i));
  EXPECT_FALSE(Add('a', 3));
  for (uint32_t i = 4; i < 7; ++i) EXPECT_TRUE(Add('b', i));
  EXPECT_FALSE(Add('c', 7)) << "all room is taken";
  EXPECT_TRUE(held_.Has('a'));
  EXPECT_FALSE(held_.Has('c'));
  EXPECT_THAT(Waiting(), ElementsAre(0, 1, 2, 4, 5, 6));
}

TEST_F(HeldTest, TakesTheFramesOfAKeyOldestFirst) {
  for (uint32_t i = 0; i < 6; ++i) Add(i % 2 == 0 ? 'a' : 'b', i);
  std::vector<uint32_t> taken;
  held_.TakeIf([&](const SixFrames::Frame& frame) {
    if (frame.key == 'a') taken.push_back(frame.request.buffer.value());
    return frame.key == 'a';
  });
  EXPECT_THAT(taken, ElementsAre(0, 2, 4));
  EXPECT_FALSE(held_.Has('a'));
  EXPECT_THAT(Waiting(), ElementsAre(1, 3, 5));
  EXPECT_TRUE(Add('a', 6)) << "their room is free again";
}

TEST_F(HeldTest, BuffersOfLargeFramesAreBounded) {
  EXPECT_TRUE(Add('a', 0, 1, SixFrames::kMaxBuffers - 1));
  EXPECT_FALSE(Add('b', 1, 1, 2));
  EXPECT_TRUE(Add('b', 2, 2, 1));
  EXPECT_FALSE(Add('b', 3, 2, 1));
  EXPECT_THAT(Expired(1), ElementsAre(0));
  EXPECT_TRUE(Add('b', 4, 2, SixFrames::kMaxBuffers - 1));
}

TEST_F(HeldTest, AFrameExpiresAtItsDeadline) {
  Add('a', 0, 3);
  Add('b', 1, 2);
  Add('a', 2, 2);
  EXPECT_THAT(Expired(1), IsEmpty());
  EXPECT_THAT(Expired(2), ElementsAre(1, 2));
  EXPECT_THAT(Expired(3), ElementsAre(0));
  EXPECT_TRUE(held_.empty());
}

}  // namespace
}  // namespace eoib
