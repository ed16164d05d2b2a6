#include "vswitch/fabric/address_handles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "vswitch/fabric/fake_verbs.h"

namespace eoib {
namespace {

using testing::HasSubstr;

PathKey Key(uint64_t guid, uint16_t dlid = 5, uint8_t sl = 0) {
  return {Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(guid)), dlid, Sl(sl)};
}

class AddressHandlesTest : public testing::Test {
 protected:
  ~AddressHandlesTest() override { EXPECT_EQ(hca_.alive(), 0); }

  FakeHca hca_;
  ibv_pd* const pd_ = hca_.pd();
};

AhIndex MustGet(AddressHandles& handles, const PathKey& key,
                const PathAttributes& attributes = {}) {
  absl::StatusOr<AhIndex> index = handles.Get(key, attributes);
  EXPECT_TRUE(index.ok()) << index.status();
  return index.value_or(AhIndex::None());
}

TEST_F(AddressHandlesTest, MakesAHandleWithAGrh) {
  AddressHandles handles(&hca_, pd_);
  const PathKey key = Key(7, 0xc001, 3);
  MustGet(handles, key, {.traffic_class = 9, .hop_limit = 64, .flow_label = 0x12345, .rate = 16});
  ASSERT_EQ(hca_.ahs.size(), 1u);
  const ibv_ah_attr& attr = hca_.ahs[0]->attr;
  EXPECT_EQ(attr.is_global, 1);
  EXPECT_EQ(Gid::FromWire(attr.grh.dgid.raw), key.dgid);
  EXPECT_EQ(attr.grh.sgid_index, 0);
  EXPECT_EQ(attr.grh.traffic_class, 9);
  EXPECT_EQ(attr.grh.hop_limit, 64);
  EXPECT_EQ(attr.grh.flow_label, 0x12345u);
  EXPECT_EQ(attr.dlid, 0xc001);
  EXPECT_EQ(attr.sl, 3);
  EXPECT_EQ(attr.static_rate, 16);
  EXPECT_EQ(attr.port_num, 1);
}

TEST_F(AddressHandlesTest, SharesOneHandleAmongItsUsers) {
  AddressHandles handles(&hca_, pd_);
  const AhIndex first = MustGet(handles, Key(1));
  EXPECT_EQ(MustGet(handles, Key(1)), first);
  EXPECT_NE(MustGet(handles, Key(2)), first) << "another GID";
  EXPECT_NE(MustGet(handles, Key(1, 6)), first) << "another LID";
  EXPECT_NE(MustGet(handles, Key(1, 5, 1)), first) << "another SL";
  EXPECT_EQ(handles.size(), 4u);
  EXPECT_EQ(hca_.ahs.size(), 4u);

  handles.Put(first);
  EXPECT_NE(handles.Acquire(first), nullptr) << "it has a user left";
  handles.Release(first);
  handles.Put(first);
  EXPECT_EQ(handles.Acquire(first), nullptr) << "retired";
  EXPECT_EQ(handles.size(), 3u);
}

TEST_F(AddressHandlesTest, AcquireReturnsNullForAnUnknownIndex) {
  AddressHandles handles(&hca_, pd_, 4);
  EXPECT_EQ(handles.Acquire(AhIndex::None()), nullptr);
  EXPECT_EQ(handles.Acquire(AhIndex(0)), nullptr);
  EXPECT_EQ(handles.Acquire(AhIndex(4)), nullptr);
  EXPECT_EQ(handles.Acquire(AhIndex(0xffff)), nullptr);
  handles.Put(AhIndex::None());
}

TEST_F(AddressHandlesTest, AHandleIsDestroyedAfterItsLastSend) {
  AddressHandles handles(&hca_, pd_);
  const AhIndex index = MustGet(handles, Key(1));
  ASSERT_NE(handles.Acquire(index), nullptr);
  ASSERT_NE(handles.Acquire(index), nullptr);
  handles.Put(index);
  EXPECT_EQ(handles.Reap(), 1u);
  handles.Release(index);
  EXPECT_EQ(handles.Reap(), 1u);
  EXPECT_FALSE(hca_.ahs[0]->destroyed);
  handles.Release(index);
  EXPECT_EQ(handles.Reap(), 0u);
  EXPECT_TRUE(hca_.ahs[0]->destroyed);
}

TEST_F(AddressHandlesTest, ARetiredKeyGetsANewHandleAtOnce) {
  AddressHandles handles(&hca_, pd_);
  const AhIndex old = MustGet(handles, Key(1));
  ASSERT_NE(handles.Acquire(old), nullptr);
  handles.Put(old);
  const AhIndex fresh = MustGet(handles, Key(1));
  EXPECT_NE(fresh, old);
  EXPECT_EQ(handles.Acquire(fresh), hca_.ahs[1].get());
  handles.Release(fresh);
  handles.Release(old);
}

TEST_F(AddressHandlesTest, RenewedKeysGetNewHandlesAndTheOldServeTheirUsers) {
  AddressHandles handles(&hca_, pd_);
  const AhIndex before = MustGet(handles, Key(1));
  handles.Renew();
  EXPECT_NE(handles.Acquire(before), nullptr);
  handles.Release(before);
  const AhIndex after = MustGet(handles, Key(1));
  EXPECT_NE(after, before);
  EXPECT_EQ(hca_.ahs.size(), 2u);
  handles.Put(before);
  EXPECT_EQ(MustGet(handles, Key(1)), after) << "the old one's end is not the new one's";
  EXPECT_EQ(handles.Reap(), 0u);
  EXPECT_TRUE(hca_.ahs[0]->destroyed);
  EXPECT_FALSE(hca_.ahs[1]->destroyed);
}

TEST_F(AddressHandlesTest, AStaleIndexNeverSelectsTheNextHandleInItsSlot) {
  AddressHandles handles(&hca_, pd_, 1);
  std::set<uint32_t> indices;
  AhIndex previous = AhIndex::None();
  for (uint64_t i = 0; i < 300; ++i) {  // generations wrap around at 255
    const AhIndex index = MustGet(handles, Key(i));
    indices.insert(index.value());
    EXPECT_FALSE(index.IsNone());
    EXPECT_LT(index.value(), AhIndex::None().value()) << "a route has 24 bits for it";
    EXPECT_EQ(handles.Acquire(previous), nullptr);
    EXPECT_NE(handles.Acquire(index), nullptr);
    handles.Release(index);
    handles.Put(index);
    EXPECT_EQ(handles.Reap(), 0u);
    previous = index;
  }
  EXPECT_EQ(indices.size(), 255u);
}

TEST_F(AddressHandlesTest, AFailureSaysWhatWasAttempted) {
  AddressHandles handles(&hca_, pd_, 1);
  hca_.FailNext("create_ah", EINVAL);
  EXPECT_THAT(handles.Get(Key(1), {}).status().message(),
              HasSubstr("create address handle to fe80:0000:0000:0000:0000:0000:0000:0001 (LID "
                        "0x5, SL 0) on fake0/1: Invalid"));
  const AhIndex index = MustGet(handles, Key(1));
  const absl::Status full = handles.Get(Key(2), {}).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(full.message(), HasSubstr("all 1 are in use"));
  handles.Put(index);
  EXPECT_TRUE(handles.Get(Key(2), {}).ok()) << "a retired, idle handle makes room";
}

// Two workers send through handles that control keeps retiring and making. A handle that a worker
// has acquired is never destroyed, and at rest no handle is left. ThreadSanitizer runs this test
// too.
TEST_F(AddressHandlesTest, NoHandleIsDestroyedUnderASend) {
  AddressHandles handles(&hca_, pd_, 8);
  constexpr uint64_t kRounds = 100'000;
  hca_.ahs.reserve(kRounds);
  std::atomic<uint32_t> published{AhIndex::None().value()};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> sends{0};
  std::atomic<uint64_t> used_after_destruction{0};
  auto worker = [&] {
    while (!stop.load(std::memory_order_relaxed)) {
      const AhIndex index(published.load(std::memory_order_acquire));
      auto* ah = static_cast<FakeAh*>(handles.Acquire(index));
      if (ah == nullptr) continue;
      std::this_thread::yield();  // a long send, during which control runs
      used_after_destruction += ah->destroyed.load(std::memory_order_relaxed);
      handles.Release(index);
      sends.fetch_add(1, std::memory_order_relaxed);
    }
  };
  std::thread first(worker);
  std::thread second(worker);
  AhIndex previous = AhIndex::None();
  for (uint64_t round = 0; round < kRounds && (round < 20'000 || sends.load() < 1000); ++round) {
    absl::StatusOr<AhIndex> index = handles.Get(Key(round), {});
    if (index.ok()) published.store(index->value(), std::memory_order_release);
    handles.Put(previous);  // retired while the workers may still use it
    previous = index.value_or(AhIndex::None());
    handles.Reap();
  }
  stop = true;
  first.join();
  second.join();
  handles.Put(previous);
  EXPECT_GT(sends, 0u);
  EXPECT_EQ(used_after_destruction, 0u);
  EXPECT_EQ(handles.Reap(), 0u);
  EXPECT_EQ(handles.size(), 0u);
}

}  // namespace
}  // namespace eoib
