#include "vswitch/fabric/buffer_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "vswitch/fabric/fake_verbs.h"

namespace eoib {
namespace {

using State = BufferPool::State;
using testing::HasSubstr;

class BufferPoolTest : public testing::Test {
 protected:
  ~BufferPoolTest() override {
    pool_.reset();
    EXPECT_EQ(hca_.alive(), 0);
  }

  BufferPool& Make(size_t buffers, size_t frame_size) {
    auto pool = BufferPool::Create(&hca_, pd_, buffers, frame_size);
    EXPECT_TRUE(pool.ok()) << pool.status();
    pool_ = *std::move(pool);
    return *pool_;
  }
  size_t Sum() const {
    size_t sum = 0;
    for (int state = 0; state < static_cast<int>(State::kCount); ++state)
      sum += pool_->count(static_cast<State>(state));
    return sum;
  }

  FakeHca hca_;
  ibv_pd* const pd_ = hca_.pd();
  std::unique_ptr<BufferPool> pool_;
};

TEST_F(BufferPoolTest, BuffersAreLaidOutAsDocumented) {
  struct Row {
    const char* description;
    size_t frame_size;
    size_t stride;
  };
  static constexpr Row kRows[] = {
      {"a frame of one byte", 1, 128},
      {"exactly one spare byte up to the cache line", 63, 128},
      {"no room for the spare byte: one line more", 64, 192},
      {"the largest frame of a 2,048-byte MTU", 2044, 2112},
      {"the largest frame of a 4,096-byte MTU", 4092, 4160},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.description);
    BufferPool& pool = Make(4, row.frame_size);
    EXPECT_EQ(pool.frame_size(), row.frame_size);
    EXPECT_EQ(pool.frame_capacity(), row.stride - BufferPool::kFrameOffset);
    EXPECT_GT(pool.frame_capacity(), row.frame_size);
    EXPECT_EQ(pool.Frame(BufferId(1)) - pool.Frame(BufferId(0)),
              static_cast<ptrdiff_t>(row.stride));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pool.Frame(BufferId(3))) % 64, 0u)
        << "frames start on a cache line";
    EXPECT_EQ(pool.Frame(BufferId(2)) - pool.Grh(BufferId(2)), static_cast<ptrdiff_t>(kGrhSize + 4))
        << "GRH, EoIB, frame";
  }
}

TEST_F(BufferPoolTest, AllBuffersAreRegisteredForLocalWrites) {
  BufferPool& pool = Make(1000, 4092);
  EXPECT_GE(hca_.registered_bytes, 1000u * 4160);
  EXPECT_EQ(hca_.registered_access, IBV_ACCESS_LOCAL_WRITE);
  EXPECT_EQ(pool.lkey(), 0x1234u);
  pool.Frame(BufferId(999))[pool.frame_capacity() - 1] = 1;  // the last byte is there
}

TEST_F(BufferPoolTest, InvalidSizesAreRefused) {
  EXPECT_EQ(BufferPool::Create(&hca_, pd_, 0, 100).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(BufferPool::Create(&hca_, pd_, 1, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(BufferPool::Create(&hca_, pd_, 1, size_t{1} << 40).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(BufferPool::Create(&hca_, pd_, 0xffffffff, 100).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(BufferPoolTest, AFailedRegistrationSaysWhy) {
  hca_.FailNext("reg_mr", ENOMEM);
  const absl::Status status = BufferPool::Create(&hca_, pd_, 10, 1000).status();
  EXPECT_THAT(
      status.message(),
      HasSubstr("register 12288 bytes of packet buffers on fake0/1: Cannot allocate memory"));
}

TEST_F(BufferPoolTest, EachBufferIsAllocatedOnce) {
  BufferPool& pool = Make(3, 100);
  std::set<BufferId> seen;
  for (int i = 0; i < 3; ++i) {
    const BufferId id = pool.Allocate();
    ASSERT_FALSE(id.IsNone());
    EXPECT_TRUE(seen.insert(id).second);
  }
  EXPECT_TRUE(pool.Allocate().IsNone());
  EXPECT_EQ(pool.count(State::kBatch), 3u);
  pool.Free(*seen.begin());
  EXPECT_EQ(pool.Allocate(), *seen.begin());
}

// A random walk over the legal moves, against a model that remembers each buffer's state.
TEST_F(BufferPoolTest, CountsAddUpOnEveryPath) {
  BufferPool& pool = Make(50, 100);
  const std::map<State, std::vector<State>> moves = {
      {State::kBatch, {State::kFree, State::kInFlight, State::kHeld}},
      {State::kPosted, {State::kBatch, State::kFree}},
      {State::kInFlight, {State::kFree}},
      {State::kHeld, {State::kBatch, State::kFree}}};
  std::map<BufferId, State> model;  // the buffers that are not free
  std::mt19937 random(1);
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 3 == 0 || model.empty()) {
      const State to = random() % 2 == 0 ? State::kBatch : State::kPosted;
      const BufferId id = pool.Take(to);
      ASSERT_EQ(id.IsNone(), model.size() == pool.size());
      if (id.IsNone()) continue;
      ASSERT_TRUE(model.emplace(id, to).second) << "handed out twice";
    } else {
      auto it = std::next(model.begin(), static_cast<ptrdiff_t>(random() % model.size()));
      const std::vector<State>& next = moves.at(it->second);
      it->second = next[random() % next.size()];
      pool.Move(it->first, it->second);
      if (it->second == State::kFree) model.erase(it);
    }
    ASSERT_EQ(Sum(), pool.size());
  }
  std::map<State, size_t> counts = {{State::kFree, pool.size() - model.size()}};
  for (const auto& [id, state] : model) ++counts[state];
  for (const auto& [state, count] : counts)
    EXPECT_EQ(pool.count(state), count) << static_cast<int>(state);
}

TEST_F(BufferPoolTest, AnEndpointHoldsItsPostedBuffersAndThoseInFlight) {
  BufferPool& pool = Make(4, 100);
  // The pool compares the addresses of endpoints only.
  const auto* a = reinterpret_cast<const UdEndpoint*>(0x1000);
  const auto* b = reinterpret_cast<const UdEndpoint*>(0x2000);
  const BufferId posted = pool.Take(State::kPosted, a);
  EXPECT_TRUE(pool.IsHeldBy(a, posted));
  EXPECT_FALSE(pool.IsHeldBy(b, posted));
  pool.Move(posted, State::kBatch);
  EXPECT_FALSE(pool.IsHeldBy(a, posted)) << "the batch's";
  pool.Move(posted, State::kInFlight, b);
  EXPECT_TRUE(pool.IsHeldBy(b, posted));
  EXPECT_EQ(pool.StateOf(posted), State::kInFlight);
  pool.Free(posted);
  EXPECT_FALSE(pool.IsHeldBy(b, posted));
}

#ifdef EOIB_CHECKS
TEST_F(BufferPoolTest, IllegalMovesAreCaught) {
  BufferPool& pool = Make(4, 100);
  const BufferId id = pool.Allocate();
  pool.Free(id);
  EXPECT_DEATH(pool.Free(id), "check failed") << "freed twice";
  const BufferId sent = pool.Allocate();
  pool.Move(sent, State::kInFlight);
  EXPECT_DEATH(pool.Move(sent, State::kBatch), "check failed") << "the HCA still reads it";
  EXPECT_DEATH(pool.Move(BufferId(4), State::kFree), "check failed") << "no such buffer";
  EXPECT_DEATH(pool.Take(State::kInFlight), "check failed") << "free to in flight";
  pool.Move(sent, State::kFree);
}
#endif

}  // namespace
}  // namespace eoib
