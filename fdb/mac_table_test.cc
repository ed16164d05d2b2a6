#include "fdb/mac_table.h"

#include <sys/mman.h>

#include <atomic>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fdb/mac_table_test_fixture.h"
#include "gtest/gtest.h"
#include "vswitch/base/seed_for_test.h"

namespace eoib {

// Access for tests to the inside of a table.
class MacTablePeer {
 public:
  explicit MacTablePeer(MacTable* table) : table_(table) {}

  // Clears a bucket, as a bug might.
  void LoseBucket(uint64_t which) {
    for (uint32_t i = 0; i < buckets(); ++i) {
      const uint32_t index = static_cast<uint32_t>((which + i) % buckets());
      MacBucket* const bucket = table_->store_.memory.buckets() + index;
      if (!IsInUse(index) || bucket->SlotOf(MacBucket::kNoKey) >= 0) continue;
      BucketChange change(bucket);
      for (int slot = 0; slot < MacBucket::kSlots; ++slot) change.Clear(slot);
      return;
    }
  }
  uint32_t buckets() const { return table_->store_.map().high; }
  // Write-protects the buckets, so that a store to one crashes.
  void Protect(bool read_only) {
    const size_t bytes = buckets() * sizeof(MacBucket);
    ASSERT_EQ(mprotect(table_->store_.memory.buckets(), bytes,
                       read_only ? PROT_READ : PROT_READ | PROT_WRITE),
              0);
  }
  // A growing table initialises added buckets only when it reaches them.
  bool IsInUse(uint32_t index) const {
    return !table_->resizer_.IsResizing() || !table_->resizer_.is_growing_ ||
           index < table_->store_.map().low || index >= table_->resizer_.initialised_from_;
  }
  uint32_t stashed() const { return table_->store_.stashed(); }
  bool IsResizing() const { return table_->resizer_.IsResizing(); }
  size_t ResidentBytes() const {
    const size_t page = 4096, bytes = table_->store_.memory.most() * sizeof(MacBucket);
    std::vector<unsigned char> pages(bytes / page + 1);
    EXPECT_EQ(mincore(table_->store_.memory.buckets(), bytes, pages.data()), 0);
    size_t resident = 0;
    for (unsigned char in_core : pages) resident += (in_core & 1) * page;
    return resident;
  }
  // Checks that every entry is where a lookup finds it, and that exactly the tags with entries away
  // from home are marked.
  std::string Fault() const {
    for (uint32_t i = 0; i < buckets(); ++i) {
      const MacBucket& bucket = table_->store_.memory.buckets()[i];
      if (!IsInUse(i)) continue;
      if ((bucket.Head() & MacBucket::kStable) == 0)
        return absl::StrCat("bucket ", i, " is not stable");
      for (int slot = 0; slot < MacBucket::kSlots; ++slot) {
        const uint64_t key = bucket.Key(slot);
        if (key == MacBucket::kNoKey) continue;
        if (table_->placement_.Locate(key).bucket != &bucket)
          return absl::StrCat("lost in bucket ", i);
      }
    }
    std::map<const MacBucket*, uint32_t> marks;
    for (uint32_t i = 0; i < buckets(); ++i) {
      if (IsInUse(i)) AddMarks(table_->store_.memory.buckets()[i], &marks);
    }
    for (const MacBucket& bucket : table_->store_.stash) AddMarks(bucket, &marks);
    for (uint32_t i = 0; i < buckets(); ++i) {
      const MacBucket* const bucket = table_->store_.memory.buckets() + i;
      if (!IsInUse(i)) continue;
      const auto expected = marks.find(bucket);
      if (bucket->Marks() != (expected == marks.end() ? 0 : expected->second))
        return absl::StrCat("marks of bucket ", i);
    }
    return "";
  }

 private:
  void AddMarks(const MacBucket& bucket, std::map<const MacBucket*, uint32_t>* marks) const {
    for (int slot = 0; slot < MacBucket::kSlots; ++slot) {
      const uint64_t key = bucket.Key(slot);
      if (key == MacBucket::kNoKey) continue;
      const uint32_t position = table_->store_.hash.Position(key);
      const MacBucket* const home = table_->store_.BucketAt(position);
      if (home != &bucket) (*marks)[home] |= 1u << KeyHash::Tag(position);
    }
  }

  MacTable* const table_;
};

namespace {

// Erases the entries for which `condemned` is true. Returns their number.
size_t EraseIf(MacTable* table, MacTable::Predicate condemned) {
  size_t erased = 0;
  for (MacTable::Cursor cursor = 0; table->EraseNext(&cursor, 1024, condemned, &erased);) {
  }
  return erased;
}

// Random operations against std::map. Its functions return a description of the first fault, or an
// empty string.
class ModelRun {
 public:
  ModelRun(MacTable* table, uint64_t seed) : table_(table), random_(seed) {
    for (uint32_t group = 0; group < kGroups; ++group) EXPECT_EQ(MoveGroup(group), "");
  }

  // Runs `steps` operations on `universe` keys, `puts` in a hundred of them adding, then compares
  // everything.
  std::string Run(int steps, uint64_t universe, uint32_t puts) {
    universe_ = universe;
    for (int step = 0; step < steps; ++step) {
      const std::string wrong = Step(puts);
      if (!wrong.empty())
        return absl::StrCat(wrong, " at step ", step, ", ", model_.size(), " entries");
    }
    return Compare();
  }
  // Looks up all keys of the universe, in batches.
  std::string Compare() {
    std::vector<FdbKey> keys;
    for (uint64_t i = 0; i < universe_; ++i) keys.push_back(NthKey(i));
    std::string wrong = CompareFind(keys, AgeLimit());
    if (!wrong.empty()) return wrong;
    size_t visited = 0;
    const auto visit = [&](FdbKey key, const MacEntry& entry) {
      ++visited;
      const auto row = model_.find(key);
      if (row == model_.end() || !Same(entry, row->second))
        wrong = absl::StrCat("visited another ", key.ToString());
    };
    for (MacTable::Cursor cursor = 0; table_->VisitNext(&cursor, 1024, visit);) {
    }
    if (!wrong.empty()) return wrong;
    if (visited != model_.size() || table_->size() != model_.size())
      return absl::StrCat("visited ", visited);
    return MacTablePeer(table_).Fault();
  }
  const std::map<FdbKey, MacEntry>& model() const { return model_; }

 private:
  static bool Same(const MacEntry& a, const MacEntry& b) {
    return a.group == b.group && a.last_seen == b.last_seen && a.origin == b.origin &&
           a.pinned == b.pinned;
  }
  FdbKey RandomKey() { return NthKey(random_() % universe_); }
  uint16_t RandomTick() { return static_cast<uint16_t>(1 + random_() % 100); }

  std::string Step(uint32_t puts) {
    const uint32_t dice = random_() % 128;
    if (dice < 100) return dice < puts ? Put() : Erase();
    if (dice < 119) return Get();
    if (dice < 123)
      return CompareFind(RandomKeys(), {RandomTick(), static_cast<uint16_t>(random_() % 100)});
    if (dice < 127) return Touch();
    return random_() % 256 == 0 ? EraseSome() : MoveGroup(random_() % kGroups);
  }
  std::string Put() {
    const FdbKey key = RandomKey();
    MacEntry entry{FlushGroupId(random_() % kGroups), RandomTick(),
                   static_cast<FdbOrigin>(random_() % 5), random_() % 2 == 0};
    if (!table_->Put(key, entry))
      return model_.count(key) == 0 && table_->size() > most_ ? "" : "no room";
    if (!entry.Ages()) entry.last_seen = 0;
    model_[key] = entry;
    return "";
  }
  std::string Erase() {
    // Prefers a key that is in the table, if that is cheap to find.
    const FdbKey key = RandomKey();
    const auto row = random_() % 4 == 0 ? model_.find(key) : model_.lower_bound(key);
    const FdbKey victim = row == model_.end() ? key : row->first;
    return table_->Erase(victim) == (model_.erase(victim) == 1) ? "" : "erase";
  }
  std::string Get() {
    const FdbKey key = RandomKey();
    const auto row = model_.find(key);
    MacEntry entry;
    if (table_->Get(key, &entry) != (row != model_.end())) return "get";
    return row == model_.end() || Same(entry, row->second) ? "" : "got another";
  }
  std::vector<FdbKey> RandomKeys() {
    std::vector<FdbKey> keys(random_() % 80);
    for (FdbKey& key : keys) key = RandomKey();
    return keys;
  }
  std::string CompareFind(const std::vector<FdbKey>& keys, AgeLimit limit) {
    std::vector<VPortId> found(keys.size());
    if (random_() % 2 == 0) {
      table_->Find(keys, limit, absl::MakeSpan(found));
    } else {
      FindInStream(*table_, keys, 1 + random_() % MacLookup::kMostKeys, limit, found.data());
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto row = model_.find(keys[i]);
      const bool live = row != model_.end() && (row->second.last_seen == 0 ||
                                                limit.now - row->second.last_seen <= limit.most);
      if (found[i] != (live ? VPortOf(row->second) : VPortId::None()))
        return absl::StrCat("find ", keys[i].ToString());
    }
    return "";
  }
  std::string Touch() {
    const std::vector<FdbKey> keys = RandomKeys();
    std::vector<VPortId> vports;
    for (size_t i = 0; i < keys.size(); ++i) vports.push_back(RandomVPort());
    std::vector<uint16_t> stale(keys.size()), expected;
    const uint16_t now = RandomTick();
    stale.resize(table_->Touch(keys, vports, now, absl::MakeSpan(stale)));
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto row = model_.find(keys[i]);
      if (row != model_.end() && VPortOf(row->second) == vports[i]) {
        if (row->second.last_seen != 0) row->second.last_seen = now;
      } else {
        expected.push_back(static_cast<uint16_t>(i));
      }
    }
    return stale == expected ? "" : "touch";
  }
  std::string EraseSome() {
    const FlushGroupId gone(random_() % kGroups);
    const uint16_t tick = RandomTick();
    const auto condemned = [&](const MacEntry& entry) {
      return entry.group == gone && entry.last_seen == tick;
    };
    const size_t erased =
        EraseIf(table_, [&](FdbKey, const MacEntry& entry) { return condemned(entry); });
    return erased == std::erase_if(model_, [&](const auto& row) { return condemned(row.second); })
               ? ""
               : "erase if";
  }

  // Moves all entries of a flush group to another vPort, perhaps one that another flush group has
  // too.
  std::string MoveGroup(uint32_t group) {
    vports_[group] = RandomVPort();
    return table_->SetGroupVPort(FlushGroupId(group), vports_[group]) ? ""
                                                                      : "no memory for a group";
  }
  VPortId RandomVPort() { return VPortId(1'000'000 + random_() % 9); }
  VPortId VPortOf(const MacEntry& entry) const { return vports_[entry.group.value()]; }

  static constexpr uint32_t kGroups = 9;
  MacTable* const table_;
  std::mt19937 random_;
  VPortId vports_[kGroups];
  uint64_t universe_ = 1;
  std::map<FdbKey, MacEntry> model_;

 public:
  size_t most_ = ~size_t{0};  // entries above which a Put may find no room
};

// A million operations, from an empty table to tens of thousands of entries and back, and at sizes
// between. So the table passes through every load factor, growing and shrinking.
TEST(MacTableTest, BehavesAsAMap) {
  const uint64_t seed = SeedForTest();
  MacTable table({.seed = SeedForTest()});
  ModelRun run(&table, seed);
  const struct {
    int steps;
    uint64_t universe;
    uint32_t puts;
  } kPhases[] = {{20000, 12, 50},     {60000, 300, 60},   {60000, 300, 40},    {200000, 40000, 90},
                 {120000, 40000, 50}, {20000, 40000, 30}, {200000, 40000, 97}, {220000, 40000, 12},
                 {60000, 3000, 50},   {40000, 3000, 5}};
  for (const auto& phase : kPhases) {
    ASSERT_EQ(run.Run(phase.steps / kSlowdown, phase.universe, phase.puts), "")
        << "EOIB_TEST_SEED=" << seed;
  }
}

// Proves that the model test can fail.
TEST(MacTableTest, ModelTestDetectsALostBucket) {
  const uint64_t seed = SeedForTest();
  MacTable table({.seed = SeedForTest()});
  ModelRun run(&table, seed);
  ASSERT_EQ(run.Run(10000, 5000, 80), "") << "EOIB_TEST_SEED=" << seed;
  MacTablePeer(&table).LoseBucket(seed);
  EXPECT_NE(run.Run(10000, 5000, 50), "") << "EOIB_TEST_SEED=" << seed;
}

// Many cores refresh entries at once, and a store would take the cache line away from all others.
TEST(MacTableTest, TouchInTheSameTickStoresNothing) {
  MacTable table({.seed = SeedForTest()});
  ASSERT_TRUE(table.SetGroupVPort(FlushGroupId(1), VPortId(7)));
  std::vector<FdbKey> keys;
  for (uint64_t i = 0; i < 1000; ++i) {
    keys.push_back(NthKey(i));
    ASSERT_TRUE(table.Put(keys.back(), {FlushGroupId(1), 5}));
  }
  const std::vector<VPortId> vports(keys.size(), VPortId(7));
  std::vector<uint16_t> stale(keys.size());
  MacTablePeer(&table).Protect(true);
  EXPECT_EQ(table.Touch(keys, vports, 5, absl::MakeSpan(stale)), 0u);
  MacTablePeer(&table).Protect(false);
  EXPECT_EQ(table.Touch(keys, vports, 6, absl::MakeSpan(stale)), 0u);
  MacEntry entry;
  ASSERT_TRUE(table.Get(keys[0], &entry));
  EXPECT_EQ(entry.last_seen, 6);
}

// Fills the table to the last slot of its address space.
TEST(MacTableTest, FullTableRefusesAndLosesNothing) {
  MacTable table({.most_entries = 1000, .seed = SeedForTest()});
  const size_t slots = 1000 / 4 * 2 * 4;
  ModelRun run(&table, SeedForTest());
  run.most_ = slots * 9 / 10;
  EXPECT_EQ(run.Run(20000, 3000, 100), "");
  EXPECT_GE(table.size(), slots * 95 / 100) << "two buckets for each key fill nearly all slots";
  EXPECT_GT(MacTablePeer(&table).stashed(), 0u);
  EXPECT_LE(MacTablePeer(&table).stashed(), 32u) << "half of the stash is kept for resizing";
  EXPECT_EQ(run.Run(20000, 3000, 50), "");
  EXPECT_EQ(run.Run(20000, 3000, 2), "");
  EXPECT_EQ(MacTablePeer(&table).stashed(), 0u);
}

TEST(MacTableTest, OldEntriesAreNotFound) {
  MacTable table({.seed = SeedForTest()});
  const FdbKey young = NthKey(1), old = NthKey(2), fixed = NthKey(3), early = NthKey(4);
  const FdbKey pinned = NthKey(5);
  for (uint32_t i = 1; i <= 5; ++i) ASSERT_TRUE(table.SetGroupVPort(FlushGroupId(i), VPortId(i)));
  ASSERT_TRUE(table.Put(young, {FlushGroupId(1), 65530}));
  ASSERT_TRUE(table.Put(old, {FlushGroupId(2), 65529}));
  ASSERT_TRUE(table.Put(fixed, {FlushGroupId(3), 65529, FdbOrigin::kStatic}));
  ASSERT_TRUE(table.Put(early, {FlushGroupId(4), 11}));
  ASSERT_TRUE(table.Put(pinned, {FlushGroupId(5), 65529, FdbOrigin::kLocalLearned, true}));
  const FdbKey keys[] = {young, old, fixed, early, pinned};
  VPortId found[5];
  table.Find(keys, {10, 16}, absl::MakeSpan(found));
  EXPECT_EQ(found[0], VPortId(1)) << "16 ticks, over the wrap";
  EXPECT_TRUE(found[1].IsNone()) << "17 ticks";
  EXPECT_EQ(found[2], VPortId(3)) << "does not age";
  EXPECT_EQ(found[3], VPortId(4)) << "seen by another worker, a tick ahead";
  EXPECT_EQ(found[4], VPortId(5)) << "does not age either";
  table.Find(keys, AgeLimit(), absl::MakeSpan(found));
  EXPECT_EQ(found[1], VPortId(2)) << "no limit";
}

TEST(MacTableTest, BytesPerEntryAtEverySize) {
  MacTable table({.seed = SeedForTest()});
  constexpr uint64_t kEntries = kSlowdown > 1 ? 12000 : 60000;
  double most = 0;
  for (uint64_t i = 1; i <= kEntries; ++i) {
    ASSERT_TRUE(table.Put(NthKey(i), {FlushGroupId(1), 1}));
    if (i >= 1000 && i % 16 == 0)
      most = std::max(most, static_cast<double>(table.memory_bytes()) / static_cast<double>(i));
  }
  EXPECT_LE(most, 35) << "a thousand entries pay for the table itself, too";
  for (uint64_t i = kEntries; i > 1000; --i) {
    ASSERT_TRUE(table.Erase(NthKey(i)));
    if (i % 16 == 0)
      most = std::max(most, static_cast<double>(table.memory_bytes()) / static_cast<double>(i));
  }
  EXPECT_LE(most, 40);
  RecordProperty("most_bytes_an_entry", absl::StrCat(most));
}

TEST(MacTableTest, GivesMemoryBack) {
  MacTable table({.seed = SeedForTest()});
  constexpr uint64_t kEntries = kSlowdown > 1 ? 30000 : 60000;
  for (uint64_t i = 0; i < kEntries; ++i) ASSERT_TRUE(table.Put(NthKey(i), {FlushGroupId(1), 1}));
  const size_t before = MacTablePeer(&table).ResidentBytes();
  EXPECT_GE(before, kEntries * 16);
  EXPECT_EQ(
      EraseIf(&table, [](FdbKey key, const MacEntry&) { return key.mac().ToUint64() % 64 != 0; }) +
          table.size(),
      kEntries);
  while (MacTablePeer(&table).IsResizing() || table.memory_bytes() > before / 10) {
    ASSERT_TRUE(table.Put(NthKey(0), {FlushGroupId(1), 1}));
    ASSERT_TRUE(table.Erase(NthKey(0)));  // each change processes some more buckets
  }
  EXPECT_LE(MacTablePeer(&table).ResidentBytes(), before / 10);
}

// A cursor's round visits each entry once, even if the table grows or shrinks meanwhile.
TEST(MacTableTest, CursorVisitsEachEntryOnce) {
  MacTable table({.seed = SeedForTest()});
  for (uint64_t i = 0; i < 2000; ++i) ASSERT_TRUE(table.Put(NthKey(i), {FlushGroupId(7), 1}));
  std::mt19937 random(static_cast<uint32_t>(SeedForTest()));
  for (const bool grow : {true, false}) {
    std::map<FdbKey, int> met;
    MacTable::Cursor cursor = 0;
    uint64_t other = grow ? 0 : 20000;
    while (table.VisitNext(&cursor, 1 + random() % 3, [&](FdbKey key, const MacEntry& entry) {
      met[key] += entry.group == FlushGroupId(7);
    })) {
      for (int i = 0; i < 40; ++i) {
        if (grow && other < 20000) {
          ASSERT_TRUE(table.Put(NthKey(2000 + other++), {FlushGroupId(8), 1}));
        } else if (!grow && other > 0) {
          ASSERT_TRUE(table.Erase(NthKey(2000 + --other)));
        }
      }
    }
    for (uint64_t i = 0; i < 2000; ++i)
      ASSERT_EQ(met[NthKey(i)], 1) << NthKey(i).ToString() << (grow ? " growing" : " shrinking");
    for (; grow && other < 20000; ++other)
      ASSERT_TRUE(table.Put(NthKey(2000 + other), {FlushGroupId(8), 1}));
  }
}

TEST(MacTableTest, FindNextFindsAnEntryOfAFlushGroup) {
  MacTable table({.seed = SeedForTest()});
  ASSERT_TRUE(table.SetGroupVPort(FlushGroupId(1), VPortId(1)));
  for (uint64_t i = 0; i < 5000; ++i)
    ASSERT_TRUE(table.Put(NthKey(i), {FlushGroupId(i % 100 == 0), 1}));
  MacTable::Cursor cursor = 0;
  FdbKey key;
  for (int i = 0; i < 50; ++i) {
    while (!table.FindNext(
        &cursor, 64, [](FdbKey, const MacEntry& entry) { return entry.group == FlushGroupId(1); },
        &key)) {
    }
    ASSERT_EQ(Find(table, key), VPortId(1));
    ASSERT_TRUE(table.Erase(key));
  }
  EXPECT_FALSE(table.FindNext(
      &cursor, 10000, [](FdbKey, const MacEntry& entry) { return entry.group == FlushGroupId(1); },
      &key));
}

// By the time a reader marks a learned entry as seen, a static one may be in its place.
TEST(MacBucketTest, LateMarkSeenDoesNotTouchEntryThatDoesNotAge) {
  MacBucket bucket{};
  bucket.seen[1].store(7);
  bucket.MarkSeen(1, 7, 9);
  EXPECT_EQ(bucket.seen[1].load(), 9);
  bucket.seen[1].store(0);
  bucket.MarkSeen(1, 9, 10);
  EXPECT_EQ(bucket.seen[1].load(), 0);
}

TEST(BucketMapTest, RangesMatchTheIndex) {
  std::mt19937_64 random(SeedForTest());
  for (int i = 0; i < 20000; ++i) {
    BucketMap map;
    map.low = static_cast<uint32_t>(1 + random() % (random() % 2 != 0 ? 20 : 1 << 24));
    map.high = map.low + static_cast<uint32_t>(random() % (map.low + 1));
    map.cutoff = BucketMap::First(random() % (map.low + 1), map.low);
    const uint32_t position = static_cast<uint32_t>(random());
    const uint32_t index = map.Index(position);
    const uint64_t start = map.StartOfBucket(position), end = map.EndOfBucket(position);
    ASSERT_LE(start, position);
    ASSERT_GT(end, position);
    ASSERT_EQ(map.Index(static_cast<uint32_t>(start)), index);
    ASSERT_EQ(map.Index(static_cast<uint32_t>(end - 1)), index);
    ASSERT_TRUE(start == 0 || map.Index(static_cast<uint32_t>(start - 1)) != index);
    ASSERT_TRUE(end == BucketMap::kEnd || map.Index(static_cast<uint32_t>(end)) != index);
    ASSERT_LT(index, position < map.cutoff ? map.low : map.high);
  }
}

// MACs come in runs, and the same run in each of many VLANs. Buckets of four must overflow as with
// random keys: at 2.8 keys a bucket, 9.1 in a hundred do not fit.
TEST(KeyHashTest, ConsecutiveKeysSpreadLikeRandomOnes) {
  constexpr uint64_t kKeys = 40000, kBuckets = kKeys * 10 / 28;
  const struct {
    const char* description;
    std::function<uint64_t(uint64_t)> key;
  } kRows[] = {
      {"consecutive", [](uint64_t i) { return 0x0200'0000'0000 + i; }},
      {"every 256th", [](uint64_t i) { return 0x5254'0000'0000 + i * 256; }},
      {"consecutive vendors", [](uint64_t i) { return 0x0200'0000'0001 + (i << 24); }},
      {"all VLANs of a few MACs",
       [](uint64_t i) { return (i % 4096) << 48 | (0x0200'0000'0000 + i / 4096); }},
  };
  for (const auto& row : kRows) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      const KeyHash hash(SeedForTest() + seed);
      std::vector<int> load(kBuckets);
      for (uint64_t i = 0; i < kKeys; ++i)
        ++load[BucketMap::At(hash.Position(row.key(i)), kBuckets)];
      uint64_t over = 0;
      for (int keys : load) over += keys > 4 ? keys - 4 : 0;
      EXPECT_NEAR(static_cast<double>(over) / kKeys, 0.091, 0.012)
          << row.description << " with seed " << SeedForTest() + seed;
    }
  }
}

}  // namespace
}  // namespace eoib
