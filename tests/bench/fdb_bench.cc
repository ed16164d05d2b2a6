// Compares the MAC table with absl::flat_hash_map, DPDK's rte_hash and the machine's limit, in
// interleaved rounds of Google Benchmark.
//
//   fdb_bench OUTPUT.json [--full]
//
// By default it measures the series of the named ratios; with --full, every table at every size,
// hits and misses, single and in batches, uniform and Zipf, alone, beside a writer and during
// growth. The environment variables EOIB_BENCH_ROUNDS and EOIB_BENCH_MILLISECONDS (of each
// measurement) set the duration.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "fdb/mac_table.h"
#include "tests/bench/mac_tables.h"
#include "tests/bench/report.h"

namespace eoib::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kQueries = size_t{1} << 20;  // the stream of queries, which is repeated
constexpr size_t kQueriesAtOnce = 4096;
constexpr double kUpdateRate = 100'000, kFloodRate = 1'000'000;  // changes a second

struct Size {
  const char* name;
  size_t entries;
};
const Size kSizes[] = {{"1k", 1000}, {"100k", 100'000}, {"1M", 1'000'000}, {"10M", 10'000'000}};

struct Kind {
  const char* name;
  std::unique_ptr<BenchTable> (*make)(size_t entries);
};
const Kind kKinds[] = {
    {"eoib", MakeEoib}, {"absl", MakeAbsl}, {"rte_hash", MakeRte}, {"limit", MakeLimit}};
const Kind kFdb = {"fdb", MakeFdb};  // the table with the FDB's policy

// The ratios, with the required value (a miss fails the run) and the aim (only printed).
const Report::RatioSpec kRatios[] = {
    {"hit_batch_1M_vs_absl", "eoib_hit_batch_1M", "absl_hit_batch_1M", {2.0, 3.0}},
    {"hit_batch_10M_vs_absl", "eoib_hit_batch_10M", "absl_hit_batch_10M", {2.2, 3.0}},
    {"hit_batch_1M_vs_rte_hash",
     "eoib_hit_batch_1M",
     "rte_hash_hit_batch_1M",
     {3.5, absl::nullopt}},
    {"hit_batch_10M_vs_rte_hash",
     "eoib_hit_batch_10M",
     "rte_hash_hit_batch_10M",
     {3.5, absl::nullopt}},
    {"miss_batch_1M_vs_absl", "eoib_miss_batch_1M", "absl_miss_batch_1M", {0.8, 1.0}},
    {"miss_batch_10M_vs_absl", "eoib_miss_batch_10M", "absl_miss_batch_10M", {0.8, 1.0}},
    {"hit_batch_1M_vs_limit", "eoib_hit_batch_1M", "limit_hit_batch_1M", {}},
    {"hit_batch_10M_vs_limit", "eoib_hit_batch_10M", "limit_hit_batch_10M", {}},
    {"hit_batch_1M_beside_writer",
     "eoib_hit_batch_1M_beside_writer",
     "eoib_hit_batch_1M",
     {0.8, 0.9}},
    {"hit_batch_1M_under_flood",
     "fdb_hit_batch_1M_under_flood",
     "fdb_hit_batch_1M",
     {0.667, absl::nullopt}},
    {"updates_reached",
     "eoib_hit_batch_1M_beside_writer_changes",
     "asked_beside_writer",
     {absl::nullopt, 0.95}},
    {"flood_reached",
     "fdb_hit_batch_1M_under_flood_changes",
     "asked_under_flood",
     {absl::nullopt, 0.95}},
    {"hit_batch_1M_during_growth", "eoib_hit_batch_1M_during_growth", "eoib_hit_batch_1M", {}},
    {"hit_single_1M_vs_absl", "eoib_hit_single_1M", "absl_hit_single_1M", {}},
    {"bytes_per_entry_1M", "fdb_bytes_1M", "entries_1M", {40.0, 24.0, true}},
    {"bytes_per_entry_1M_table", "eoib_bytes_1M", "entries_1M", {40.0, 24.0, true}},
    {"bytes_per_entry_most", "fdb_bytes_most", "fdb_entries_most", {40.0, 24.0, true}},
    {"bytes_per_entry_most_table", "eoib_bytes_most", "eoib_entries_most", {40.0, 24.0, true}},
};

// The origin of a MAC, which is its first byte: a neighbour (its MACs are in the tables), a
// stranger (they are not), an attacker.
enum class From : uint8_t { kNeighbour = 0x02, kStranger = 0x06, kAttacker = 0x0a };

// Maps each number to another random-looking MAC, in 16 VLANs.
FdbKey KeyOf(uint64_t number, From from = From::kNeighbour) {
  // Odd multiplier: one to one.
  const uint64_t scattered = number * 0x9e37'79b9'7f4a'7c15 & 0xff'ffff'ffff;
  return FdbKey(Vid(static_cast<uint16_t>(number % 16)),
                MacAddr::FromUint64(static_cast<uint64_t>(from) << 40 | scattered));
}

// Random numbers below `count`; the n-th has a probability proportional to n^-0.99 (Gray et al.,
// SIGMOD 1994, §3.2).
class Zipf {
 public:
  explicit Zipf(size_t count) : count_(static_cast<double>(count)) {
    for (size_t i = 1; i <= count; ++i) zeta_ += std::pow(static_cast<double>(i), -kTheta);
    eta_ = (1 - std::pow(2 / count_, 1 - kTheta)) / (1 - (1 + std::pow(0.5, kTheta)) / zeta_);
  }
  size_t operator()(double uniform) const {
    const double scaled = uniform * zeta_;
    if (scaled < 1) return 0;
    if (scaled < 1 + std::pow(0.5, kTheta)) return 1;
    const double rank = count_ * std::pow(eta_ * uniform - eta_ + 1, 1 / (1 - kTheta));
    return static_cast<size_t>(std::min(rank, count_ - 1));
  }

 private:
  static constexpr double kTheta = 0.99;
  const double count_;
  double zeta_ = 0, eta_ = 0;
};

// The vPort of the MAC of that number.
uint32_t VPortOf(uint64_t number) { return static_cast<uint32_t>(number % kVPorts); }

// The keys of a measurement, in the order of the lookups, and the correct answers.
struct Queries {
  std::vector<FdbKey> keys;
  std::vector<uint32_t> answers;
};

// `what` is "hit", "miss", "zipf", or "limit", whose answers are not checked.
Queries MakeQueries(const std::string& what, size_t entries) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform;
  Queries queries;
  const bool is_zipf = what == "zipf", is_miss = what == "miss";
  const Zipf zipf(is_zipf ? entries : 1);
  for (size_t i = 0; i < kQueries; ++i) {
    if (what == "limit") {
      queries.keys.push_back(FdbKey::FromPacked(random() % LimitLines(entries)));
    } else {
      const uint64_t number = is_zipf ? zipf(uniform(random)) : random() % entries;
      queries.keys.push_back(KeyOf(number, is_miss ? From::kStranger : From::kNeighbour));
      queries.answers.push_back(is_miss ? kNotFound : VPortOf(number));
    }
  }
  return queries;
}

// Changes a table at a given rate, or as fast as it can, until destroyed.
class Writer {
 public:
  // Calls change(n) for n = 0, 1, ..., `rate` times a second (0: without a pause), and at the end
  // undo(n) with the first n that `change` did not get.
  Writer(double rate, std::function<void(uint64_t)> change, std::function<void(uint64_t)> undo)
      : change_(std::move(change)), undo_(std::move(undo)) {
    thread_ = std::thread([this, rate] { Run(rate); });
  }
  ~Writer() {
    stop_ = true;
    thread_.join();
    undo_(done_);
  }
  // Changes per second so far.
  double Rate() const {
    return static_cast<double>(done_.load()) /
           std::chrono::duration<double>(Clock::now() - start_).count();
  }

 private:
  void Run(double rate) {
    uint64_t number = 0;
    while (!stop_) {
      const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
      const uint64_t due = rate == 0 ? number + 256 : static_cast<uint64_t>(elapsed * rate);
      // Waking up costs little then.
      if (number >= due) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      // A writer that was not scheduled for a while catches up, but not all at once.
      for (const uint64_t end = std::min(due, number + 4096); number < end; ++number)
        change_(number);
      done_ = number;
    }
  }

  const std::function<void(uint64_t)> change_, undo_;
  const Clock::time_point start_ = Clock::now();
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> done_{0};
  std::thread thread_;
};

// Makes tables and queries on first use, and keeps them.
class Stage {
 public:
  BenchTable* Table(const Kind& kind, const Size& size) {
    std::unique_ptr<BenchTable>& table = tables_[absl::StrCat(kind.name, "_", size.name)];
    if (table == nullptr) {
      // Room for a writer's entries: rte_hash cannot grow, and cannot be filled completely.
      table = kind.make(size.entries * 5 / 4);
      if (kind.make != MakeLimit) {
        for (uint64_t i = 0; i < size.entries; ++i) table->Put(KeyOf(i), VPortOf(i));
      }
    }
    return table.get();
  }
  const Queries& QueriesFor(const std::string& what, const Size& size) {
    Queries& queries = queries_[absl::StrCat(what, "_", size.name)];
    if (queries.keys.empty()) queries = MakeQueries(what, size.entries);
    return queries;
  }

 private:
  std::map<std::string, std::unique_ptr<BenchTable>> tables_;
  std::map<std::string, Queries> queries_;
};

// How the answers of a row are checked.
enum class Answers : uint8_t { kExact, kOfSomeVPort, kAny };

// Looks up all keys and returns the number of wrong answers.
size_t WrongAnswers(const BenchTable& table, const Queries& queries, bool batch, Answers answers) {
  if (answers == Answers::kAny) return 0;
  size_t wrong = 0;
  uint32_t out[kBatch];
  for (size_t at = 0; at < kQueries; at += kBatch) {
    const absl::Span<const FdbKey> some = absl::MakeConstSpan(queries.keys).subspan(at, kBatch);
    batch ? table.FindInBatches(some, out) : table.FindSingly(some, out);
    for (size_t i = 0; i < kBatch; ++i) {
      const uint32_t right = queries.answers[at + i];
      const bool moved = answers == Answers::kOfSomeVPort && right != kNotFound && out[i] < kVPorts;
      wrong += out[i] != right && !moved;
    }
  }
  return wrong;
}

// One row: lookups in `table`. Rates refer to the processor time of this thread, so other programs
// do not count, but a writer's cost to a reader does. The answers are checked afterwards, beside
// the same writer.
void Measure(benchmark::State& state, const BenchTable& table, const Queries& queries, bool batch,
             Answers answers) {
  size_t at = 0, asked = 0;
  uint32_t out[kBatch];
  for (auto _ : state) {
    const absl::Span<const FdbKey> some =
        absl::MakeConstSpan(queries.keys).subspan(at, kQueriesAtOnce);
    batch ? table.FindInBatches(some, out) : table.FindSingly(some, out);
    benchmark::DoNotOptimize(out);
    asked += some.size();
    at = (at + kQueriesAtOnce) % kQueries;
  }
  state.SetItemsProcessed(static_cast<int64_t>(asked));
  const size_t wrong = WrongAnswers(table, queries, batch, answers);
  if (wrong != 0) state.SkipWithError(absl::StrCat(wrong, " wrong answers of ", kQueries).c_str());
}

// Makes the writer that changes the table during a row; null if there is none.
using MakeWriter = std::function<std::unique_ptr<Writer>(BenchTable*)>;

// Half of the changes are moves, half replace a MAC by a new one.
std::unique_ptr<Writer> Updates(BenchTable* table, size_t entries) {
  const auto change = [=](uint64_t i) {
    const FdbKey extra = KeyOf(entries + i / 4);
    if (i % 4 == 0) table->Put(extra, 1);
    if (i % 4 == 1) table->Erase(extra);
    if (i % 4 >= 2) table->Put(KeyOf(i * 0x9e37'79b1 % entries), VPortOf(i));
  };
  return std::make_unique<Writer>(kUpdateRate, change,
                                  [=](uint64_t i) { table->Erase(KeyOf(entries + i / 4)); });
}

// Adds a MAC of one vPort that was never used before.
void PutOfAttacker(BenchTable* table) {
  static std::atomic<uint64_t> number{0};
  table->Put(KeyOf(number++, From::kAttacker), kVPorts);
}

// A million such MACs a second, into a table at its limit, of which that vPort holds a fifth. The
// policy evicts. The lookups must find all MACs of other vPorts, so none of these may be evicted.
std::unique_ptr<Writer> Flood(BenchTable* table, size_t) {
  return std::make_unique<Writer>(
      kFloodRate, [table](uint64_t) { PutOfAttacker(table); }, [](uint64_t) {});
}

// Grows the table to one and a half times its entries, and shrinks it again.
std::unique_ptr<Writer> Growth(BenchTable* table, size_t entries) {
  const uint64_t extra = entries / 2;
  const auto change = [=](uint64_t i) {
    const FdbKey key = KeyOf(entries + i % extra);
    i / extra % 2 == 0 ? table->Put(key, 1) : table->Erase(key);
  };
  return std::make_unique<Writer>(0, change, [=](uint64_t) {
    for (uint64_t i = 0; i < extra; ++i) table->Erase(KeyOf(entries + i));
  });
}

// Reports each row's lookups, in millions a second.
class Collector final : public benchmark::BenchmarkReporter {
 public:
  explicit Collector(Report* report) : report_(report) {}
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.error_occurred) {
        std::fprintf(stderr, "%s: %s\n", run.benchmark_name().c_str(), run.error_message.c_str());
        failed_ = true;
        continue;
      }
      const std::string name = run.run_name.function_name;
      for (const auto& [counter, value] : run.counters) {
        report_->Add(counter == "items_per_second" ? name : absl::StrCat(name, "_", counter),
                     value.value / 1e6);
      }
    }
  }
  bool failed() const { return failed_; }

 private:
  Report* const report_;
  bool failed_ = false;
};

class FdbBench {
 public:
  explicit FdbBench(bool full)
      : full_(full), milliseconds_(FromEnvironment("EOIB_BENCH_MILLISECONDS", full ? 50 : 100)) {}

  bool Run(const std::string& output) {
    StartDpdk(full_ ? 3072 : 2560);
    Register();
    Report report("fdb", "M lookups/s");
    Collector collector(&report);
    const int rounds = FromEnvironment("EOIB_BENCH_ROUNDS", full_ ? 5 : 15);
    for (int round = 0; round < rounds; ++round) {
      benchmark::RunSpecifiedBenchmarks(&collector);
      report.Add("asked_beside_writer", kUpdateRate / 1e6);
      report.Add("asked_under_flood", kFloodRate / 1e6);
      std::fprintf(stderr, "round %d of %d\n", round + 1, rounds);
    }
    MeasureBytes(&report);
    for (const Report::RatioSpec& ratio : kRatios)
      report.Compare(ratio.name, ratio.numerator, ratio.denominator, ratio.bound);
    return report.Finish(output) && !collector.failed();
  }

 private:
  struct Row {
    const Kind& kind;
    const Size& size;
    const char* what;  // hit, miss, zipf
    bool batch = true;
    const char* beside = "";
    std::unique_ptr<Writer> (*writer)(BenchTable*, size_t) = nullptr;
  };

  void Register() {
    const Kind &eoib = kKinds[0], &limit = kKinds[3];
    const Size& million = kSizes[2];
    for (const Size& size : kSizes) {
      const bool large = size.entries >= 1'000'000;
      for (const Kind& kind : kKinds) {
        const bool is_limit = &kind == &limit;
        if (!full_ && !large) continue;
        Add({kind, size, "hit"});
        if (!is_limit && (full_ || &kind != &kKinds[2])) Add({kind, size, "miss"});
        if (!is_limit && full_) Add({kind, size, "zipf"});
        if (full_ || (&size == &million && !is_limit)) Add({kind, size, "hit", false});
        if (!full_ || is_limit) continue;
        Add({kind, size, "miss", false});
        Add({kind, size, "zipf", false});
        if (kind.make == MakeAbsl) continue;  // not beside a writer
        Add({kind, size, "hit", true, "_beside_writer", Updates});
        Add({kind, size, "miss", true, "_beside_writer", Updates});
      }
      if (full_ && size.entries >= 100'000)
        Add({eoib, size, "hit", true, "_during_growth", Growth});
    }
    if (!full_) {
      Add({eoib, million, "hit", true, "_beside_writer", Updates});
      Add({eoib, million, "hit", true, "_during_growth", Growth});
    }
    Add({kFdb, million, "hit"});
    Add({kFdb, million, "hit", true, "_under_flood", Flood});
    Add({kFdb, million, "miss", true, "_under_flood", Flood});
  }

  void Add(const Row& row) {
    const std::string name =
        absl::StrCat(row.kind.name, "_", row.what, row.batch ? "_batch_" : "_single_",
                     row.size.name, row.beside);
    benchmark::RegisterBenchmark(name.c_str(), [this, row](benchmark::State& state) {
      RunRow(row, state);
    })->MinTime(milliseconds_ / 1000.0);
  }

  void RunRow(const Row& row, benchmark::State& state) {
    if (row.writer == nullptr) {
      const bool is_limit = row.kind.make == MakeLimit;
      Measure(state, *stage_.Table(row.kind, row.size),
              stage_.QueriesFor(is_limit ? "limit" : row.what, row.size), row.batch,
              is_limit ? Answers::kAny : Answers::kExact);
      return;
    }
    // A table of its own, so that other rows' tables stay unchanged.
    std::unique_ptr<BenchTable>& table =
        changed_[absl::StrCat(row.kind.name, row.size.name, row.beside)];
    if (table == nullptr) {
      table = row.kind.make(row.size.entries * 5 / 4);
      for (uint64_t i = 0; i < row.size.entries; ++i) table->Put(KeyOf(i), VPortOf(i));
      if (row.writer == Flood) {
        // To the limit, and beyond.
        for (uint64_t i = 0; i < row.size.entries / 2; ++i) PutOfAttacker(table.get());
      }
    }
    const std::unique_ptr<Writer> writer = row.writer(table.get(), row.size.entries);
    Measure(state, *table, stage_.QueriesFor(row.what, row.size), row.batch,
            row.writer == Updates ? Answers::kOfSomeVPort : Answers::kExact);
    state.counters["changes"] = writer->Rate();
  }

  // Bytes per entry: with a million entries, and the largest value on the way from a thousand to a
  // million. Each vPort has 64 MACs in one VLAN, as a host of guests does, so memory per vPort
  // counts.
  static void MeasureBytesOf(const Kind& kind, Report* report) {
    const std::unique_ptr<BenchTable> table = kind.make(kSizes[2].entries);
    double most = 0, at = 1;
    for (uint64_t i = 1; i <= kSizes[2].entries; ++i) {
      const uint32_t vport = static_cast<uint32_t>(i / 64);
      table->Put(FdbKey(Vid(static_cast<uint16_t>(vport % 16)), KeyOf(i).mac()), vport);
      if (i < 1000 || i % (i / 500) != 0) continue;  // bytes() is slow
      const double entries = static_cast<double>(i), bytes = static_cast<double>(table->bytes());
      if (bytes / entries > most / at) {
        most = bytes;
        at = entries;
      }
    }
    report->Add(absl::StrCat(kind.name, "_bytes_1M"), static_cast<double>(table->bytes()));
    report->Add(absl::StrCat(kind.name, "_bytes_most"), most);
    report->Add(absl::StrCat(kind.name, "_entries_most"), at);
  }

  void MeasureBytes(Report* report) {
    report->Add("entries_1M", static_cast<double>(kSizes[2].entries));
    MeasureBytesOf(kKinds[0], report);
    MeasureBytesOf(kFdb, report);
    for (const Kind& kind : kKinds) {
      if (kind.make == MakeLimit) continue;
      report->Add(absl::StrCat(kind.name, "_bytes_an_entry_1M"),
                  static_cast<double>(stage_.Table(kind, kSizes[2])->bytes()) / 1e6);
    }
  }

  const bool full_;
  const int milliseconds_;
  Stage stage_;
  std::map<std::string, std::unique_ptr<BenchTable>> changed_;
};

}  // namespace
}  // namespace eoib::bench

int main(int argc, char** argv) {
  const bool full = argc == 3 && absl::string_view(argv[2]) == "--full";
  if (argc != 2 && !full) {
    std::fprintf(stderr, "usage: %s OUTPUT.json [--full]\n", argv[0]);
    return 2;
  }
  return eoib::bench::FdbBench(full).Run(argv[1]) ? 0 : 1;
}
