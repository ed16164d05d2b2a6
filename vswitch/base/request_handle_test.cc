#include "vswitch/base/request_handle.h"

#include <functional>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace eoib {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RequestHandleTest : public testing::Test {
 protected:
  std::function<void(int)> Ask(RequestHandle* handle) {
    return handle->Await([this](int answer) { answers_.push_back(answer); },
                         [this](int answer) { late_.push_back(answer); });
  }

  std::vector<int> answers_, late_;
};

TEST_F(RequestHandleTest, IsPendingUntilTheAnswer) {
  RequestHandle handle;
  EXPECT_FALSE(handle.pending());
  const auto answer = Ask(&handle);
  EXPECT_TRUE(handle.pending());
  answer(1);
  EXPECT_FALSE(handle.pending());
  EXPECT_THAT(answers_, ElementsAre(1));
  EXPECT_THAT(late_, IsEmpty());
}

TEST_F(RequestHandleTest, CancelMakesAnAnswerLate) {
  RequestHandle handle;
  const auto answer = Ask(&handle);
  handle.Cancel();
  EXPECT_FALSE(handle.pending());
  answer(1);
  EXPECT_THAT(answers_, IsEmpty());
  EXPECT_THAT(late_, ElementsAre(1));
}

TEST_F(RequestHandleTest, DestructionAndAssignmentMakeAnAnswerLate) {
  auto handle = std::make_unique<RequestHandle>();
  const auto first = Ask(handle.get());
  *handle = RequestHandle();
  const auto second = Ask(handle.get());
  handle.reset();
  first(1);
  second(2);
  EXPECT_THAT(answers_, IsEmpty());
  EXPECT_THAT(late_, ElementsAre(1, 2));
}

TEST_F(RequestHandleTest, OnlyTheLastRequestIsAnswered) {
  RequestHandle handle;
  const auto first = Ask(&handle);
  const auto second = Ask(&handle);
  first(1);
  EXPECT_TRUE(handle.pending());
  second(2);
  EXPECT_THAT(answers_, ElementsAre(2));
}

TEST_F(RequestHandleTest, MovesWithItsRequest) {
  RequestHandle handle;
  const auto answer = Ask(&handle);
  RequestHandle other = std::move(handle);
  EXPECT_FALSE(handle.pending());  // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(other.pending());
  answer(1);
  EXPECT_THAT(answers_, ElementsAre(1));
}

// As a requester that asks again, or ends, when it has the answer.
TEST_F(RequestHandleTest, TheCallbackMayAskAgainOrDestroyTheHandle) {
  auto handle = std::make_unique<RequestHandle>();
  std::function<void(int)> again;
  const std::function<void(int)> first = handle->Await([&](int) { again = Ask(handle.get()); });
  first(1);
  EXPECT_TRUE(handle->pending());
  again(2);
  EXPECT_THAT(answers_, ElementsAre(2));
  const std::function<void()> last = handle->Await([&] { handle.reset(); });
  last();
  EXPECT_EQ(handle, nullptr);
}

}  // namespace
}  // namespace eoib
