#include "fdb/mac_table.h"

#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace eoib {
namespace {

FdbKey Key(uint64_t i) { return FdbKey(Vid(static_cast<uint16_t>(i % 7)), MacAddr::FromUint64(0x0200'0000'0000 + i / 7)); }

bool Same(const MacEntry& a, const MacEntry& b) {
  return a.vport == b.vport && a.last_seen == b.last_seen && a.origin == b.origin;
}

// Every operation, at random, against std::map.
TEST(MacTableTest, BehavesAsAMap) {
  std::mt19937 random(4391);
  MacTable table;
  std::map<FdbKey, MacEntry> model;
  for (int step = 0; step < 30000; ++step) {
    const FdbKey key = Key(random() % 500);
    switch (random() % 6) {
      case 0:
      case 1: {
        const MacEntry entry{VPortId(static_cast<uint32_t>(random() % 9)), static_cast<uint32_t>(random() % 100),
                             static_cast<FdbOrigin>(random() % 5)};
        table.Put(key, entry);
        model[key] = entry;
        break;
      }
      case 2:
        EXPECT_EQ(table.Erase(key), model.erase(key) == 1);
        break;
      case 3: {
        std::vector<FdbKey> keys;
        for (size_t i = random() % 40; i > 0; --i) keys.push_back(Key(random() % 500));
        std::vector<VPortId> found(keys.size());
        const uint32_t not_before = static_cast<uint32_t>(random() % 100);
        table.Find(keys, not_before, absl::MakeSpan(found));
        for (size_t i = 0; i < keys.size(); ++i) {
          const auto entry = model.find(keys[i]);
          const bool live = entry != model.end() && (!Ages(entry->second.origin) || entry->second.last_seen >= not_before);
          ASSERT_EQ(found[i], live ? entry->second.vport : VPortId::None());
        }
        break;
      }
      case 4: {
        std::vector<FdbKey> keys;
        std::vector<VPortId> vports;
        for (size_t i = random() % 40; i > 0; --i) {
          keys.push_back(Key(random() % 500));
          vports.push_back(VPortId(static_cast<uint32_t>(random() % 9)));
        }
        std::vector<uint16_t> stale(keys.size()), expected;
        const uint32_t now = static_cast<uint32_t>(random() % 100);
        stale.resize(table.Touch(keys, vports, now, absl::MakeSpan(stale)));
        for (size_t i = 0; i < keys.size(); ++i) {
          const auto entry = model.find(keys[i]);
          if (entry != model.end() && entry->second.vport == vports[i]) {
            entry->second.last_seen = now;
          } else {
            expected.push_back(static_cast<uint16_t>(i));
          }
        }
        ASSERT_EQ(stale, expected);
        break;
      }
      case 5: {
        if (random() % 50 != 0) break;
        const VPortId gone(static_cast<uint32_t>(random() % 9));
        const size_t erased = table.EraseIf([gone](FdbKey, const MacEntry& entry) { return entry.vport == gone; });
        ASSERT_EQ(erased, std::erase_if(model, [gone](const auto& entry) { return entry.second.vport == gone; }));
        break;
      }
    }
    ASSERT_EQ(table.size(), model.size());
  }
  size_t visited = 0;
  table.ForEach([&](FdbKey key, const MacEntry& entry) {
    ++visited;
    EXPECT_TRUE(Same(entry, model.at(key))) << key.ToString();
  });
  EXPECT_EQ(visited, model.size());
}

// Readers touch and find while the writer changes: nothing but what was put is ever seen.
TEST(MacTableTest, ReadersBesideAWriter) {
  MacTable table;
  constexpr uint64_t kKeys = 256;
  for (uint64_t i = 0; i < kKeys; ++i) table.Put(Key(i), {VPortId(static_cast<uint32_t>(i)), 1, FdbOrigin::kLocalLearned});
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back([&] {
      std::vector<FdbKey> keys;
      std::vector<VPortId> vports;
      for (uint64_t i = 0; i < kKeys; ++i) {
        keys.push_back(Key(i));
        vports.push_back(VPortId(static_cast<uint32_t>(i)));
      }
      std::vector<VPortId> found(kKeys);
      std::vector<uint16_t> stale(kKeys);
      while (!stop.load()) {
        table.Find(keys, 0, absl::MakeSpan(found));
        for (uint64_t i = 0; i < kKeys; ++i) {
          EXPECT_TRUE(found[i].IsNone() || found[i].value() == i || found[i].value() == i + 1000) << found[i].value();
        }
        table.Touch(keys, vports, 2, absl::MakeSpan(stale));
      }
    });
  }
  std::mt19937 random(1);
  for (int step = 0; step < 5000; ++step) {
    const uint64_t i = random() % kKeys;
    if (random() % 4 == 0) {
      table.Erase(Key(i));
    } else {
      table.Put(Key(i), {VPortId(static_cast<uint32_t>(i + random() % 2 * 1000)), 1, FdbOrigin::kRemoteLearned});
    }
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

TEST(MacTableTest, EraseIfJudgesAgainWhatWasTouchedWhileItSearched) {
  MacTable table;
  table.Put(Key(1), {VPortId(1), 1});
  table.Put(Key(2), {VPortId(2), 1});
  int calls = 0;
  EXPECT_EQ(table.EraseIf([&](FdbKey key, const MacEntry&) { return ++calls <= 2 || key == Key(2); }), 1u);
  MacEntry entry;
  EXPECT_TRUE(table.Get(Key(1), &entry)) << "condemned at first, then spared";
  EXPECT_FALSE(table.Get(Key(2), &entry));
}

}  // namespace
}  // namespace eoib
