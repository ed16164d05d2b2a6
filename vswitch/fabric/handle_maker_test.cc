#include "vswitch/fabric/handle_maker.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <map>
#include <memory>

#include "absl/synchronization/notification.h"
#include "vswitch/fabric/fake_verbs.h"

namespace eoib {
namespace {

PathKey KeyOf(uint64_t number) {
  return {Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(number)), 0, Sl(0)};
}

class HandleMakerTest : public testing::Test {
 protected:
  HandleMakerTest() { maker_ = std::make_unique<HandleMaker>(&handles_); }
  ~HandleMakerTest() override {
    maker_.reset();
    EXPECT_EQ(handles_.size(), 0u) << "every handle was put back";
  }

  void Make(uint64_t number) {
    maker_->Make(KeyOf(number), {},
                 [this, number](const absl::StatusOr<AhIndex>& ah) { made_.emplace(number, ah); });
  }
  // Runs the maker until `told` callbacks have run, for at most a minute.
  bool RunUntil(size_t told) {
    while (made_.size() < told) {
      pollfd ready = {maker_->fd(), POLLIN, 0};
      if (poll(&ready, 1, 60'000) != 1) return false;
      maker_->Run();
    }
    return true;
  }
  void PutAll() {
    for (const auto& [number, ah] : made_) {
      if (ah.ok()) handles_.Put(*ah);
    }
  }

  FakeHca hca_;
  AddressHandles handles_{&hca_, hca_.pd()};
  std::unique_ptr<HandleMaker> maker_;
  std::multimap<uint64_t, absl::StatusOr<AhIndex>> made_;
};

TEST_F(HandleMakerTest, RunReportsEachHandleOnce) {
  Make(1);
  Make(2);
  Make(2);
  ASSERT_TRUE(RunUntil(3));
  maker_->Run();
  EXPECT_EQ(made_.size(), 3u);
  EXPECT_EQ(handles_.size(), 2u);
  const auto [first, last] = made_.equal_range(2);
  EXPECT_EQ(first->second.value(), std::next(first)->second.value()) << "one handle, two users";
  PutAll();
}

TEST_F(HandleMakerTest, RunReportsAFailure) {
  hca_.FailNext("create_ah", ETIMEDOUT);
  Make(1);
  ASSERT_TRUE(RunUntil(1));
  EXPECT_EQ(made_.begin()->second.status().message(),
            "create address handle to fe80:0000:0000:0000:0000:0000:0000:0001 (LID 0x0, SL 0) on "
            "fake0/1: Connection timed out");
}

// A cold neighbour delays neither control, nor other handles, nor Reap.
TEST_F(HandleMakerTest, ASlowHandleDelaysNoOther) {
  absl::Notification found;
  const Gid cold = KeyOf(1).dgid;
  hca_.while_creating_ah = [&](const ibv_ah_attr& attr) {
    if (Gid::FromWire(attr.grh.dgid.raw) == cold) found.WaitForNotification();
  };
  Make(1);
  Make(2);
  ASSERT_TRUE(RunUntil(1));
  EXPECT_EQ(made_.begin()->first, 2u);
  const absl::StatusOr<AhIndex> other = handles_.Get(KeyOf(3), {});
  ASSERT_TRUE(other.ok());
  handles_.Put(*other);
  EXPECT_EQ(handles_.Reap(), 0u);
  found.Notify();
  ASSERT_TRUE(RunUntil(2));
  PutAll();
}

// Renew came meanwhile, so the handle is made again.
TEST_F(HandleMakerTest, AHandleFromBeforeARenewalIsDiscarded) {
  absl::Notification making, renewed;
  hca_.while_creating_ah = [&](const ibv_ah_attr&) {
    if (!making.HasBeenNotified()) making.Notify();
    renewed.WaitForNotification();
  };
  Make(1);
  making.WaitForNotification();
  handles_.Renew();
  renewed.Notify();
  ASSERT_TRUE(RunUntil(1));
  EXPECT_EQ(hca_.ahs.size(), 2u);
  EXPECT_TRUE(hca_.ahs[0]->destroyed);
  EXPECT_FALSE(hca_.ahs[1]->destroyed);
  PutAll();
}

TEST_F(HandleMakerTest, DestructionDropsPendingCallbacks) {
  Make(1);
  pollfd ready = {maker_->fd(), POLLIN, 0};
  ASSERT_EQ(poll(&ready, 1, 60'000), 1);
  for (uint64_t number = 2; number < 50; ++number) Make(number);
  maker_.reset();
  EXPECT_TRUE(made_.empty());
}

}  // namespace
}  // namespace eoib
