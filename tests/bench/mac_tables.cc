#include "tests/bench/mac_tables.h"

#include <benchmark/benchmark.h>
#include <malloc.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_hash.h>
#include <rte_malloc.h>
#include <rte_memory.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "fdb/fdb.h"
#include "fdb/key_hash.h"
#include "fdb/mac_lookup.h"
#include "fdb/mac_table.h"
#include "vswitch/base/clock.h"

namespace eoib::bench {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

// Memory for which the kernel may use huge pages. All tables use it, so that the benchmark does not
// compare allocators.
template <typename T>
struct HugeAllocator {
  using value_type = T;
  HugeAllocator() = default;
  template <typename U>
  HugeAllocator(const HugeAllocator<U>&) {}
  T* allocate(size_t count) {
    const size_t bytes = (count * sizeof(T) + kHugePage - 1) / kHugePage * kHugePage;
    void* const memory = std::aligned_alloc(kHugePage, bytes);
    if (memory == nullptr) std::abort();
    madvise(memory, bytes, MADV_HUGEPAGE);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t) { std::free(memory); }
  friend bool operator==(const HugeAllocator&, const HugeAllocator&) { return true; }
  friend bool operator!=(const HugeAllocator&, const HugeAllocator&) { return false; }
};

const KeyHash& Hash() {
  static const KeyHash hash(KeyHash::ProcessSeed());
  return hash;
}

VPortId* VPorts(uint32_t* out) { return reinterpret_cast<VPortId*>(out); }

// Up to three batches are in flight, each with its own results. The caller gets those of the last
// one.
void FindInStream(const MacTable& table, absl::Span<const FdbKey> keys, AgeLimit limit,
                  uint32_t* out) {
  uint32_t rooms[3][kBatch];
  MacLookup lookup(&table);
  size_t room = 0;
  for (size_t at = 0; at < keys.size(); at += kBatch) {
    room = room == 2 ? 0 : room + 1;
    lookup.Ask(keys.subspan(at, kBatch), limit, {VPorts(rooms[room]), kBatch});
    benchmark::DoNotOptimize(rooms);
  }
  lookup.Finish();
  std::copy_n(rooms[room], kBatch, out);
}

class EoibTable final : public BenchTable {
 public:
  EoibTable() {
    for (uint32_t vport = 0; vport < kVPorts; ++vport) {
      if (!table_.SetGroupVPort(FlushGroupId(vport), VPortId(vport))) std::abort();
    }
  }
  void Put(FdbKey key, uint32_t value) override {
    if (!table_.Put(key, {FlushGroupId(value), 1})) std::abort();
  }
  void Erase(FdbKey key) override { table_.Erase(key); }
  // With an age limit, like the FDB's lookups.
  void FindSingly(absl::Span<const FdbKey> keys, uint32_t* out) const override {
    for (size_t i = 0; i < keys.size(); ++i)
      table_.Find(keys.subspan(i, 1), kLimit, {VPorts(out) + i % kBatch, 1});
  }
  void FindInBatches(absl::Span<const FdbKey> keys, uint32_t* out) const override {
    FindInStream(table_, keys, kLimit, out);
  }
  size_t bytes() const override { return table_.memory_bytes(); }

 private:
  static constexpr AgeLimit kLimit{100, 300};
  MacTable table_;
};

class FdbTable final : public BenchTable {
 public:
  explicit FdbTable(size_t entries) : before_(HeapBytes()), fdb_({.limit = entries}, &clock_) {}
  void Put(FdbKey key, uint32_t value) override {
    fdb_.Learn(key, VPortId(value), FdbOrigin::kRemoteLearned);
  }
  void Erase(FdbKey) override {}  // the FDB's policy evicts
  void FindSingly(absl::Span<const FdbKey> keys, uint32_t* out) const override {
    for (size_t i = 0; i < keys.size(); ++i)
      fdb_.Find(keys.subspan(i, 1), {VPorts(out) + i % kBatch, 1});
  }
  void FindInBatches(absl::Span<const FdbKey> keys, uint32_t* out) const override {
    FindInStream(fdb_.table(), keys, fdb_.Limit(), out);
  }
  // Includes flush groups, counts and events, as far as they are on the heap.
  size_t bytes() const override { return fdb_.memory_bytes() + HeapBytes() - before_; }

 private:
  static size_t HeapBytes() { return mallinfo2().uordblks + mallinfo2().hblkhd; }

  const size_t before_;
  MonotonicClock clock_;
  Fdb fdb_;
};

class AbslTable final : public BenchTable {
 public:
  bool IsConcurrent() const override { return false; }
  void Put(FdbKey key, uint32_t value) override { table_[key] = value; }
  void Erase(FdbKey key) override { table_.erase(key); }
  void FindSingly(absl::Span<const FdbKey> keys, uint32_t* out) const override {
    for (size_t i = 0; i < keys.size(); ++i) out[i % kBatch] = Value(table_.find(keys[i]));
  }
  // Prefetching 8 keys ahead is faster than 32, and hashing twice is faster than storing the hash.
  void FindInBatches(absl::Span<const FdbKey> keys, uint32_t* out) const override {
    constexpr size_t kAhead = 8;
    for (size_t at = 0; at < keys.size(); at += kBatch) {
      const FdbKey* const batch = keys.data() + at;
      // Prefetching reads on into the next batch, which the last batch does not have.
      const size_t last = at + kBatch < keys.size() ? kBatch : kBatch - kAhead;
      for (size_t i = 0; i < kBatch; ++i) {
        if (i < last) table_.prefetch(batch[i + kAhead]);
        out[i] = Value(table_.find(batch[i]));
      }
      benchmark::DoNotOptimize(out);
    }
  }
  size_t bytes() const override { return table_.capacity() * (sizeof(Map::slot_type) + 1); }

 private:
  // flat_hash_map uses the low seven bits of the hash as a tag, and the others as the position.
  struct Hasher {
    size_t operator()(FdbKey key) const {
      const uint64_t position = Hash().Position(key);
      return position << 32 | position;
    }
  };
  using Map = absl::flat_hash_map<FdbKey, uint32_t, Hasher, std::equal_to<FdbKey>,
                                  HugeAllocator<std::pair<const FdbKey, uint32_t>>>;
  uint32_t Value(Map::const_iterator at) const {
    return at == table_.end() ? kNotFound : at->second;
  }
  Map table_;
};

uint32_t RteHash(const void* key, uint32_t, uint32_t) {
  return Hash().Position(*static_cast<const uint64_t*>(key));
}

size_t RteBytesInUse() {
  rte_malloc_socket_stats stats;
  size_t bytes = 0;
  for (unsigned i = 0; i < rte_socket_count(); ++i) {
    if (rte_malloc_get_socket_stats(rte_socket_id_by_idx(i), &stats) == 0)
      bytes += stats.heap_allocsz_bytes;
  }
  return bytes;
}

class RteTable final : public BenchTable {
 public:
  explicit RteTable(size_t entries) {
    static int number = 0;
    const std::string name = absl::StrCat("fdb", number++);
    rte_hash_parameters parameters{};
    parameters.name = name.c_str();
    parameters.entries = static_cast<uint32_t>(std::max<size_t>(entries, 64));
    parameters.key_len = sizeof(FdbKey);
    parameters.hash_func = RteHash;
    parameters.socket_id = SOCKET_ID_ANY;
    parameters.extra_flag = RTE_HASH_EXTRA_FLAGS_RW_CONCURRENCY_LF;
    const size_t before = RteBytesInUse();
    table_ = rte_hash_create(&parameters);
    if (table_ == nullptr) {
      std::fprintf(stderr, "rte_hash of %zu entries: %s\n", entries, rte_strerror(rte_errno));
      std::exit(1);
    }
    bytes_ = RteBytesInUse() - before;
  }
  ~RteTable() override { rte_hash_free(table_); }
  void Put(FdbKey key, uint32_t value) override {
    if (rte_hash_add_key_data(table_, &key, reinterpret_cast<void*>(uintptr_t{value})) < 0)
      std::abort();
  }
  // With lock-free readers, the owner frees a key's position when no reader can use it any more.
  // The benchmark frees it at once, to the advantage of rte_hash.
  void Erase(FdbKey key) override {
    const int32_t position = rte_hash_del_key(table_, &key);
    if (position >= 0) rte_hash_free_key_with_position(table_, position);
  }
  void FindSingly(absl::Span<const FdbKey> keys, uint32_t* out) const override {
    for (size_t i = 0; i < keys.size(); ++i) {
      void* data = nullptr;
      const bool found =
          rte_hash_lookup_with_hash_data(table_, &keys[i], Hash().Position(keys[i]), &data) >= 0;
      out[i % kBatch] =
          found ? static_cast<uint32_t>(reinterpret_cast<uintptr_t>(data)) : kNotFound;
    }
  }
  void FindInBatches(absl::Span<const FdbKey> keys, uint32_t* out) const override {
    const void* pointers[kBatch];
    hash_sig_t hashes[kBatch];
    void* data[kBatch];
    for (size_t at = 0; at < keys.size(); at += kBatch) {
      for (size_t i = 0; i < kBatch; ++i) {
        pointers[i] = &keys[at + i];
        hashes[i] = Hash().Position(keys[at + i]);
      }
      uint64_t hits = 0;
      rte_hash_lookup_with_hash_bulk_data(table_, pointers, hashes, kBatch, &hits, data);
      // A real caller would read `data` in place, as `hits` says. Copying is only for the last
      // batch, which is checked.
      benchmark::DoNotOptimize(data);
      if (at + kBatch < keys.size()) continue;
      for (size_t i = 0; i < kBatch; ++i) {
        out[i] =
            hits >> i & 1 ? static_cast<uint32_t>(reinterpret_cast<uintptr_t>(data[i])) : kNotFound;
      }
    }
  }
  size_t bytes() const override { return bytes_; }

 private:
  rte_hash* table_;
  size_t bytes_;
};

class Limit final : public BenchTable {
 public:
  explicit Limit(size_t entries) : lines_(LimitLines(entries)) {}
  void Put(FdbKey, uint32_t) override {}
  void Erase(FdbKey) override {}
  void FindSingly(absl::Span<const FdbKey> keys, uint32_t* out) const override {
    for (size_t i = 0; i < keys.size(); ++i) out[i % kBatch] = lines_[keys[i].packed()].words[0];
  }
  void FindInBatches(absl::Span<const FdbKey> keys, uint32_t* out) const override {
    for (size_t at = 0; at < keys.size(); at += kBatch) {
      const FdbKey* const batch = keys.data() + at;
      if (at + kBatch < keys.size()) {
        for (size_t i = kBatch; i < 2 * kBatch; ++i) __builtin_prefetch(&lines_[batch[i].packed()]);
      }
      for (size_t i = 0; i < kBatch; ++i) out[i] = lines_[batch[i].packed()].words[0];
      benchmark::DoNotOptimize(out);
    }
  }
  size_t bytes() const override { return lines_.size() * sizeof(Line); }

 private:
  struct alignas(64) Line {
    uint32_t words[16];
  };
  std::vector<Line, HugeAllocator<Line>> lines_;
};

}  // namespace

// 58 % of the slots are used, between the highest and the lowest fill of a growing table.
size_t LimitLines(size_t entries) { return entries * 100 / 58 / 4 + 1; }

std::unique_ptr<BenchTable> MakeFdb(size_t entries) { return std::make_unique<FdbTable>(entries); }
std::unique_ptr<BenchTable> MakeEoib(size_t) { return std::make_unique<EoibTable>(); }
std::unique_ptr<BenchTable> MakeAbsl(size_t) { return std::make_unique<AbslTable>(); }
std::unique_ptr<BenchTable> MakeRte(size_t entries) { return std::make_unique<RteTable>(entries); }
std::unique_ptr<BenchTable> MakeLimit(size_t entries) { return std::make_unique<Limit>(entries); }

void StartDpdk(size_t megabytes) {
  std::vector<std::string> words = {"fdb_bench",
                                    "--no-huge",
                                    "--no-pci",
                                    "--no-shconf",
                                    "--no-telemetry",
                                    "--log-level=error",
                                    "-m",
                                    absl::StrCat(megabytes),
                                    "-l",
                                    "0"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  // DPDK binds the calling thread to a processor; undo that, so that the kernel schedules the
  // benchmark's threads freely.
  cpu_set_t processors;
  CPU_ZERO(&processors);
  sched_getaffinity(0, sizeof(processors), &processors);
  if (rte_eal_init(static_cast<int>(arguments.size()), arguments.data()) < 0) {
    std::fprintf(stderr, "start DPDK: %s\n", rte_strerror(rte_errno));
    std::exit(1);
  }
  sched_setaffinity(0, sizeof(processors), &processors);
  rte_memseg_contig_walk(
      [](const rte_memseg_list*, const rte_memseg* segment, size_t length, void*) {
        madvise(segment->addr, length, MADV_HUGEPAGE);
        return 0;
      },
      nullptr);
}

}  // namespace eoib::bench
