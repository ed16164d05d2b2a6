#include "vswitch/port/vhost/virtqueue.h"

#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/seed_for_test.h"
#include "vswitch/port/vhost/model_guest_for_test.h"

namespace eoib {
namespace {

using ::testing::HasSubstr;
using Buffers = std::vector<ModelQueue::Buffer>;
using Direction = Virtqueue::Direction;

constexpr uint16_t kQueueSize = 8;

class VirtqueueTest : public testing::Test {
 protected:
  void Attach(const Virtqueue::Features& features, uint16_t start = 0, DirtyLog* log = nullptr) {
    guest_ = std::make_unique<ModelQueue>(&memory_, kQueueSize, features.event_index, start);
    queue_.Attach(1, guest_->rings(), features, {start, start}, &map_, log);
  }
  bool Next(Direction direction = Direction::kFromGuest) { return queue_.Next(direction, &chain_); }
  // Expects that the queue stops with this reason when it looks for a chain.
  void ExpectFault(const std::string& reason, Direction direction = Direction::kFromGuest) {
    EXPECT_FALSE(Next(direction));
    EXPECT_TRUE(queue_.broken());
    EXPECT_THAT(queue_.fault(), HasSubstr(reason));
    EXPECT_FALSE(Next(direction));
    EXPECT_FALSE(queue_.EnableNotification());
    const uint16_t seen = guest_->UsedWord(UsedRing::kIndex);
    queue_.Use(0, 0);
    EXPECT_FALSE(queue_.Publish());
    EXPECT_EQ(guest_->UsedWord(UsedRing::kIndex), seen);
  }

  ModelMemory memory_{1 << 16};
  const GuestMemory map_ = memory_.Map();
  std::unique_ptr<ModelQueue> guest_;
  Virtqueue queue_;
  DescriptorChain chain_;
};

// Each ring is moved, or made longer, until its last bytes are behind its region.
TEST_F(VirtqueueTest, RefusesRingsThatAreNotInTheMemory) {
  constexpr size_t kSize = 1 << 16;
  uint8_t* const start = memory_.At(ModelMemory::kLow);
  uint8_t* const end = start + kSize;
  const auto breaks = [this](const Virtqueue::Rings& rings, bool event_index = false) {
    queue_.Attach(1, rings, {.event_index = event_index}, {}, &map_, nullptr);
    EXPECT_EQ(queue_.fault().find("rings that are not in the guest's memory") != std::string::npos,
              queue_.broken());
    return queue_.broken();
  };
  const Virtqueue::Rings good{start, start + 128, start + 256, 8};
  EXPECT_FALSE(breaks(good, true));
  const auto with = [&good](uint8_t* Virtqueue::Rings::*ring, uint8_t* at) {
    Virtqueue::Rings rings = good;
    rings.*ring = at;
    return rings;
  };
  for (const auto ring :
       {&Virtqueue::Rings::descriptors, &Virtqueue::Rings::available, &Virtqueue::Rings::used}) {
    EXPECT_TRUE(breaks(with(ring, end)));
    EXPECT_TRUE(breaks(with(ring, start - 16)));
    EXPECT_TRUE(breaks(with(ring, nullptr)));
  }
  EXPECT_FALSE(breaks(with(&Virtqueue::Rings::descriptors, end - 128)));
  EXPECT_TRUE(breaks(with(&Virtqueue::Rings::descriptors, end - 112)));
  // flags, index and 8 heads; with EVENT_IDX 2 bytes more
  EXPECT_FALSE(breaks(with(&Virtqueue::Rings::available, end - 20)));
  EXPECT_TRUE(breaks(with(&Virtqueue::Rings::available, end - 20), true));
  EXPECT_TRUE(breaks(with(&Virtqueue::Rings::available, end - 18)));
  // flags, index and 8 elements; with EVENT_IDX 2 bytes more
  EXPECT_FALSE(breaks(with(&Virtqueue::Rings::used, end - 68)));
  EXPECT_TRUE(breaks(with(&Virtqueue::Rings::used, end - 68), true));
  EXPECT_TRUE(breaks(with(&Virtqueue::Rings::used, end - 64)));
  Virtqueue::Rings longer = good;
  longer.size = 16384;
  EXPECT_TRUE(breaks(longer));
}

TEST_F(VirtqueueTest, FindsTheBuffersOfAChain) {
  Attach({});
  EXPECT_FALSE(Next());
  guest_->Offer({{ModelMemory::kHigh, 12}, {ModelMemory::kLow + 100, 60}}, false);
  ASSERT_TRUE(Next());
  ASSERT_EQ(chain_.count, 2u);
  EXPECT_EQ(chain_.length, 72u);
  EXPECT_EQ(chain_.parts[0].data, memory_.At(ModelMemory::kHigh));
  EXPECT_EQ(chain_.parts[1].data, memory_.At(ModelMemory::kLow + 100));
  EXPECT_FALSE(Next());
  EXPECT_FALSE(guest_->Take().has_value());
  queue_.Use(chain_.head, 0);
  EXPECT_FALSE(guest_->Take().has_value()) << "before Publish";
  queue_.Publish();
  EXPECT_TRUE(guest_->Take().has_value());
}

TEST_F(VirtqueueTest, ReadsIndirectTablesIfNegotiated) {
  Attach({.indirect = true});
  guest_->Offer({{ModelMemory::kHigh + 0x4000, 12}, {ModelMemory::kHigh + 0x5000, 60}}, true, true);
  ASSERT_TRUE(Next(Direction::kToGuest));
  EXPECT_EQ(chain_.count, 2u);
  Attach({});
  guest_->Offer({{ModelMemory::kHigh + 0x4000, 12}}, false, true);
  ExpectFault("queue 1 has an indirect table where none may be");
}

TEST_F(VirtqueueTest, GivesBackWhatItDoesNotUse) {
  Attach({});
  for (const uint32_t length : {10u, 20u}) guest_->Offer({{ModelMemory::kHigh, length}}, true);
  ASSERT_TRUE(Next(Direction::kToGuest));
  ASSERT_TRUE(Next(Direction::kToGuest));
  queue_.Rewind(2);
  ASSERT_TRUE(Next(Direction::kToGuest));
  EXPECT_EQ(chain_.length, 10u);
}

// virtio 1.1 §2.6.7 (interrupts) and §2.6.8 (notifications), with flags and with the event index;
// also where indices wrap.
TEST_F(VirtqueueTest, SparesInterruptsAndNotifications) {
  for (const bool event_index : {false, true}) {
    for (const uint16_t start : {0, 65534}) {
      Attach({.event_index = event_index}, start);
      const auto exchange = [&](bool wanted) {
        guest_->WantInterrupt(wanted);
        guest_->Offer({{ModelMemory::kHigh, 60}}, false);
        EXPECT_TRUE(Next());
        queue_.Use(chain_.head, 0);
        const bool interrupt = queue_.Publish();
        EXPECT_TRUE(guest_->Take().has_value());
        return interrupt;
      };
      for (int i = 0; i < 6; ++i)
        EXPECT_EQ(exchange(i % 2 == 0), i % 2 == 0) << i << event_index << start;
      EXPECT_FALSE(queue_.EnableNotification());
      EXPECT_TRUE(guest_->Offer({{ModelMemory::kHigh, 60}}, false)) << "should notify";
      EXPECT_TRUE(queue_.EnableNotification()) << "there is one";
      queue_.DisableNotification();
      EXPECT_FALSE(guest_->Offer({{ModelMemory::kHigh, 60}}, false)) << "should not notify";
    }
  }
}

TEST_F(VirtqueueTest, KeepsItsPlaceForASuccessor) {
  Attach({}, 65535);
  guest_->Offer({{ModelMemory::kHigh, 60}}, false);
  ASSERT_TRUE(Next());
  queue_.Use(chain_.head, 0);
  queue_.Publish();
  EXPECT_EQ(queue_.indices(), (Virtqueue::Indices{0, 0}));
  queue_.Detach();
  EXPECT_FALSE(queue_.attached());
  EXPECT_FALSE(Next());
}

class RecordingLog final : public DirtyLog {
 public:
  void LogGuest(uint64_t address, uint64_t length) noexcept override {
    guest.push_back({address, length});
  }
  void LogUsed(uint16_t queue, uint64_t offset, uint64_t length) noexcept override {
    EXPECT_EQ(queue, 1);
    used.push_back({offset, length});
  }
  std::vector<std::pair<uint64_t, uint64_t>> guest, used;
};

// The order is SPDK's: guest pages, the used element, the used index.
TEST_F(VirtqueueTest, LogsWhatItWrites) {
  RecordingLog log;
  Attach({}, 0, &log);
  guest_->Offer({{ModelMemory::kHigh + 5, 60}}, true);
  ASSERT_TRUE(Next(Direction::kToGuest));
  queue_.LogWrite(chain_.parts[0], 33);
  queue_.Use(chain_.head, 33);
  queue_.Publish();
  EXPECT_THAT(log.guest, testing::ElementsAre(std::make_pair(ModelMemory::kHigh + 5, 33u)));
  EXPECT_THAT(log.used, testing::ElementsAre(std::make_pair(4u, 8u), std::make_pair(2u, 2u)));
}

TEST_F(VirtqueueTest, StopsAtWhatBreaksARule) {
  const auto fresh = [this] { Attach({.indirect = true}); };
  fresh();
  guest_->AvailableWord(AvailRing::kIndex) = kQueueSize + 1;
  ExpectFault("more chains than entries: its available index is 9");
  fresh();
  guest_->MakeAvailable(kQueueSize);
  ExpectFault("a chain that begins outside of the table, at descriptor 8");
  fresh();
  *guest_->Descriptor(0) = {ModelMemory::kHigh, 10, RingDescriptor::kNext, kQueueSize};
  guest_->MakeAvailable(0);
  ExpectFault("a chain that leaves its table, to descriptor 8");
  fresh();
  *guest_->Descriptor(0) = {ModelMemory::kHigh, 10, RingDescriptor::kNext, 0};
  guest_->MakeAvailable(0);
  ExpectFault("a loop");
  fresh();
  guest_->Offer({{ModelMemory::kHigh, 10}}, true);
  ExpectFault("a buffer to write to among those to send");
  fresh();
  guest_->Offer({{ModelMemory::kHigh, 10}}, false);
  ExpectFault("a buffer to read from among those to receive into", Direction::kToGuest);
  for (const auto& [address, length] : {std::pair<uint64_t, uint32_t>{0, 10},
                                        {ModelMemory::kLow + memory_.size() - 9, 10},
                                        {ModelMemory::kHigh, 0xffffffff},
                                        {~uint64_t{0}, 10}}) {
    fresh();
    guest_->Offer({{address, length}}, false);
    ExpectFault("a buffer outside of the guest's memory");
    fresh();
    *guest_->Descriptor(0) = {address, 16, RingDescriptor::kIndirect, 0};
    guest_->MakeAvailable(0);
    if (length == 10) ExpectFault("an indirect table outside of the guest's memory");
  }
  for (const uint32_t length : {0u, 15u, 17u}) {
    fresh();
    *guest_->Descriptor(0) = {ModelMemory::kHigh, length, RingDescriptor::kIndirect, 0};
    guest_->MakeAvailable(0);
    ExpectFault("an indirect table of a wrong size");
  }
  fresh();
  *guest_->Descriptor(0) = {ModelMemory::kHigh, 16, RingDescriptor::kIndirect, 0};
  *reinterpret_cast<RingDescriptor*>(memory_.At(ModelMemory::kHigh)) = {
      ModelMemory::kHigh, 16, RingDescriptor::kIndirect, 0};
  guest_->MakeAvailable(0);
  ExpectFault("an indirect table where none may be");
}

TEST_F(VirtqueueTest, BoundsIndirectChains) {
  Attach({.indirect = true});
  guest_->Offer(Buffers(DescriptorChain::kMost, {ModelMemory::kHigh + 0x8000, 1}), false, true);
  EXPECT_TRUE(Next());
  EXPECT_EQ(chain_.count, DescriptorChain::kMost);
  guest_->Offer(Buffers(DescriptorChain::kMost + 1, {ModelMemory::kHigh + 0x8000, 1}), false, true);
  ExpectFault("too many descriptors");
}

TEST_F(VirtqueueTest, RefusesRingsThatCannotBe) {
  ModelQueue guest(&memory_, kQueueSize, false);
  Virtqueue::Rings rings = guest.rings();
  rings.size = 6;
  queue_.Attach(1, rings, {}, {}, &map_, nullptr);
  EXPECT_THAT(queue_.fault(), HasSubstr("a size that is no power of two 6"));
  rings = guest.rings();
  rings.used += 2;
  queue_.Attach(1, rings, {}, {}, &map_, nullptr);
  EXPECT_THAT(queue_.fault(), HasSubstr("not aligned"));
}

// Random chains through both directions of a queue; each comes once, in order, whole, and returns.
TEST_F(VirtqueueTest, BehavesAsAQueueOfChains) {
  std::mt19937_64 random(SeedForTest());
  for (const bool event_index : {false, true}) {
    Attach({.indirect = true, .event_index = event_index}, static_cast<uint16_t>(random()));
    std::deque<Buffers> offered, held;
    std::deque<uint16_t> heads;
    for (int step = 0; step < 20000; ++step) {
      const size_t pieces = 1 + random() % 4;
      const bool indirect = random() % 3 == 0;
      switch (random() % 3) {
        case 0: {
          if (guest_->free() < pieces) break;
          Buffers buffers;
          for (size_t i = 0; i < pieces; ++i) {
            const auto length = static_cast<uint32_t>(1 + random() % 200);
            buffers.push_back({memory_.TakeHigh(length), length});
          }
          guest_->Offer(buffers, false, indirect);
          offered.push_back(buffers);
          break;
        }
        case 1:
          ASSERT_EQ(Next(), !offered.empty()) << queue_.fault();
          if (offered.empty()) break;
          ASSERT_EQ(chain_.count, offered.front().size());
          for (size_t i = 0; i < chain_.count; ++i) {
            ASSERT_EQ(chain_.parts[i].data, memory_.At(offered.front()[i].guest));
            ASSERT_EQ(chain_.parts[i].length, offered.front()[i].length);
          }
          held.push_back(offered.front());
          heads.push_back(chain_.head);
          offered.pop_front();
          break;
        case 2:
          for (const uint16_t head : heads) queue_.Use(head, head);
          heads.clear();
          queue_.Publish();
          while (const auto returned = guest_->Take()) {
            ASSERT_FALSE(held.empty());
            ASSERT_EQ(returned->buffers.size(), held.front().size());
            ASSERT_EQ(returned->buffers[0].guest, held.front()[0].guest);
            held.pop_front();
          }
          ASSERT_TRUE(held.empty());
      }
    }
  }
}

}  // namespace
}  // namespace eoib
