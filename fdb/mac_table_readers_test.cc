// MacTable with readers beside a writer, and with readers that pause.
#include <atomic>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "fdb/mac_table_test_fixture.h"

namespace eoib {
namespace {

// Whole batches take another code path than partial ones.
size_t RandomBatch(std::mt19937* random) {
  return (*random)() % 2 == 0 ? MacLookup::kMostKeys : 1 + (*random)() % MacLookup::kMostKeys;
}

// Readers beside a writer that grows and shrinks the table by a factor of ten, moves entries
// between vPorts, and adds some that stay. A reader always finds entries that were added before it
// began and stay, and never finds one that was never added.
TEST(MacTableReadersTest, ReadersAlwaysFindEntriesThatStay) {
  constexpr uint64_t kStaying = 4000, kPassing = 30000, kBatch = 64;
  const uint64_t seed = SeedForTest();
  MacTable table({.seed = SeedForTest()});
  const auto set_group = [&table](uint64_t group, uint64_t vport) {
    return table.SetGroupVPort(FlushGroupId(static_cast<uint32_t>(group)),
                               VPortId(static_cast<uint32_t>(vport)));
  };
  for (uint64_t i = 0; i < kStaying; ++i)
    ASSERT_TRUE(set_group(i, i) && set_group(kStaying + i, 10'000'000 + i));
  const auto passing = [](uint64_t i) { return NthKey(1'000'000 + i); };
  std::atomic<uint64_t> staying{0};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> batches{0};
  const auto read = [&](uint32_t number) {
    std::mt19937 random(static_cast<uint32_t>(seed) + number);
    std::vector<FdbKey> keys(kBatch);
    std::vector<uint64_t> which(kBatch);
    std::vector<VPortId> found(kBatch), vports(kBatch);
    std::vector<uint16_t> stale(kBatch);
    while (!stop.load(std::memory_order_relaxed)) {
      const uint64_t there = staying.load(std::memory_order_acquire);
      if (there == 0) continue;
      const size_t count = random() % 8 == 0 ? 1 : kBatch;
      for (size_t i = 0; i < count; ++i) {
        which[i] = i % 4 == 3 ? 2'000'000 + random() % 100'000 : random() % there;
        keys[i] = NthKey(which[i]);
        vports[i] = VPortId(static_cast<uint32_t>(which[i]));
      }
      const absl::Span<const FdbKey> batch(keys.data(), count);
      if (random() % 2 == 0) {
        table.Find(batch, AgeLimit(), absl::MakeSpan(found));
      } else {
        FindInStream(table, batch, RandomBatch(&random), AgeLimit(), found.data());
      }
      for (size_t i = 0; i < count; ++i) {
        const VPortId moved(static_cast<uint32_t>(which[i] + 10'000'000));
        const bool right =
            which[i] >= 2'000'000 ? found[i].IsNone() : found[i] == vports[i] || found[i] == moved;
        if (!right) {
          ADD_FAILURE() << which[i] << " is behind " << found[i].value()
                        << "; EOIB_TEST_SEED=" << seed;
          return;
        }
      }
      table.Touch(batch, {vports.data(), count}, static_cast<uint16_t>(1 + random() % 3),
                  absl::MakeSpan(stale));
      MacEntry entry;
      if (which[0] < 2'000'000 && !table.Get(keys[0], &entry)) {
        ADD_FAILURE() << which[0] << " is lost; EOIB_TEST_SEED=" << seed;
        return;
      }
      batches.fetch_add(1, std::memory_order_relaxed);
    }
  };
  std::vector<std::thread> readers;
  for (uint32_t number = 0; number < 2; ++number) readers.emplace_back(read, number);

  std::mt19937 random(static_cast<uint32_t>(seed));
  const auto add_staying = [&] {
    const uint64_t i = staying.load(std::memory_order_relaxed);
    if (i == kStaying) return;
    ASSERT_TRUE(table.Put(NthKey(i), {FlushGroupId(static_cast<uint32_t>(i)), 1}));
    staying.store(i + 1, std::memory_order_release);
  };
  for (int i = 0; i < 100; ++i) add_staying();
  constexpr int kRounds = kSlowdown > 1 ? 1 : 6;
  for (int round = 0; round < kRounds; ++round) {
    for (uint64_t i = 0; i < kPassing; ++i) {
      ASSERT_TRUE(table.Put(passing(i), {FlushGroupId(1), 1}));
      if (i % 16 == 0) add_staying();
      if (i % 4 != 0) continue;
      const uint64_t moved = random() % staying.load(std::memory_order_relaxed);
      ASSERT_TRUE(
          table.Put(NthKey(moved),
                    {FlushGroupId(static_cast<uint32_t>(moved + random() % 2 * kStaying)), 1}));
    }
    for (uint64_t i = 0; i < kPassing; ++i) ASSERT_TRUE(table.Erase(passing(i)));
  }
  // On a busy machine the readers may not have started yet.
  while (batches.load(std::memory_order_relaxed) < 100 && !HasFailure()) std::this_thread::yield();
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

// The writer gives a flush group's number to another vPort as soon as no entry has it, while
// readers look up its former entries.
TEST(MacTableReadersTest, ReadersDoNotConfuseReusedFlushGroups) {
  constexpr uint32_t kKeys = 64, kStrangers = 1'000'000;
  MacTable table({.seed = SeedForTest()});
  std::vector<FdbKey> keys;
  for (uint32_t i = 0; i < kKeys; ++i) keys.push_back(NthKey(i));
  for (uint32_t i = 0; i < kKeys; ++i) {
    ASSERT_TRUE(table.SetGroupVPort(FlushGroupId(i), VPortId(i)));
    ASSERT_TRUE(table.Put(keys[i], {FlushGroupId(i), 1}));
  }
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> rounds{0};
  const auto read_stream = [&] {
    std::vector<VPortId> found(kKeys);
    while (!stop.load(std::memory_order_relaxed)) {
      const size_t at_once = rounds.load(std::memory_order_relaxed) % 2 == 0
                                 ? MacLookup::kMostKeys
                                 : MacLookup::kMostKeys / 2;
      FindInStream(table, keys, at_once, AgeLimit(), found.data());
      for (uint32_t i = 0; i < kKeys; ++i) {
        if (found[i] == VPortId(i)) continue;
        ADD_FAILURE() << "key " << i << " is behind " << found[i].value() << " in a stream";
        stop = true;
      }
      rounds.fetch_add(1, std::memory_order_relaxed);
    }
  };
  const auto read = [&](size_t at_once) {
    std::vector<VPortId> found(kKeys), vports(kKeys);
    std::vector<uint16_t> stale(kKeys);
    for (uint32_t i = 0; i < kKeys; ++i) vports[i] = VPortId(i);
    while (!stop.load(std::memory_order_relaxed)) {
      for (size_t at = 0; at < kKeys; at += at_once) {
        table.Find({keys.data() + at, at_once}, AgeLimit(), {found.data() + at, at_once});
        const size_t wrong = table.Touch({keys.data() + at, at_once}, {vports.data() + at, at_once},
                                         2, absl::MakeSpan(stale));
        if (wrong != 0 ||
            !std::equal(found.begin() + at, found.begin() + at + at_once, vports.begin() + at)) {
          ADD_FAILURE() << "key " << at << " is behind " << found[at].value();
          stop = true;
        }
      }
      rounds.fetch_add(1, std::memory_order_relaxed);
    }
  };
  std::thread one_by_one(read, 1), in_batches(read, kKeys), in_stream(read_stream);
  uint32_t spare = kKeys;  // a flush group that no entry has
  std::vector<uint32_t> groups(kKeys);
  for (uint32_t i = 0; i < kKeys; ++i) groups[i] = i;
  for (uint32_t i = 0; i < 200'000 / kSlowdown || rounds.load() < 100; ++i) {
    const uint32_t which = i % kKeys;
    ASSERT_TRUE(table.SetGroupVPort(FlushGroupId(spare), VPortId(which)));
    ASSERT_TRUE(table.Put(keys[which], {FlushGroupId(spare), 1}));
    std::swap(spare, groups[which]);
    ASSERT_TRUE(table.SetGroupVPort(FlushGroupId(spare), VPortId(kStrangers + i)));
    if (stop) break;
  }
  stop = true;
  one_by_one.join();
  in_batches.join();
  in_stream.join();
}

// If a reader pauses, much time may pass between the stages of its stream. Changes of the table
// meanwhile must not matter.
TEST(MacTableReadersTest, LookupMayPauseWhileTheTableChanges) {
  MacTable table({.seed = SeedForTest()});
  constexpr uint64_t kKeys = 512;
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_TRUE(table.SetGroupVPort(FlushGroupId(static_cast<uint32_t>(i)),
                                    VPortId(static_cast<uint32_t>(i))));
    ASSERT_TRUE(table.Put(NthKey(i), {FlushGroupId(static_cast<uint32_t>(i)), 1}));
  }
  std::mt19937 random(static_cast<uint32_t>(SeedForTest()));
  std::vector<FdbKey> keys;
  for (uint64_t i = 0; i < kKeys; ++i)
    keys.push_back(i % 8 == 7 ? NthKey(5'000'000 + i) : NthKey(i));
  uint64_t passing = 0;
  for (int round = 0; round < 40 / std::min(kSlowdown, 4); ++round) {
    std::vector<VPortId> found(kKeys);
    MacLookup lookup(&table);
    const bool grow = round % 2 == 0;
    for (size_t at = 0; at < kKeys;) {
      const size_t count = std::min(RandomBatch(&random), kKeys - at);
      lookup.Ask({keys.data() + at, count}, AgeLimit(), {found.data() + at, count});
      at += count;
      for (uint32_t changes = random() % 2000; changes > 0; --changes) {
        if (grow) {
          ASSERT_TRUE(table.Put(NthKey(10'000 + passing++), {FlushGroupId(1), 1}));
        } else if (passing > 0) {
          ASSERT_TRUE(table.Erase(NthKey(10'000 + --passing)));
        }
      }
    }
    lookup.Finish();
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_EQ(found[i], i % 8 == 7 ? VPortId::None() : VPortId(static_cast<uint32_t>(i)))
          << "EOIB_TEST_SEED=" << SeedForTest();
    }
  }
}

}  // namespace
}  // namespace eoib
