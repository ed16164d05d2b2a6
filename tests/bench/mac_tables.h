// The tables that the FDB's benchmark compares, each behind its best public interface, under one hash.
#ifndef EOIB_TESTS_BENCH_MAC_TABLES_H_
#define EOIB_TESTS_BENCH_MAC_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/types/span.h"
#include "fdb/fdb_key.h"

namespace eoib::bench {

constexpr size_t kBatch = 32;
constexpr uint32_t kVPorts = 4096;  // values are below
constexpr uint32_t kNotFound = ~uint32_t{0};

// A table of (VID, MAC) to 32 bits. One writer; lookups beside it only if IsConcurrent().
class BenchTable {
 public:
  virtual ~BenchTable() = default;
  virtual bool IsConcurrent() const { return true; }
  virtual void Put(FdbKey key, uint32_t value) = 0;
  virtual void Erase(FdbKey key) = 0;
  // Looks all keys up, one by one or in batches of kBatch. out[i] is the value of the i-th key of a batch, kNotFound if there
  // is none; when they return, of the last batch. Requires a multiple of kBatch.
  virtual void FindSingly(absl::Span<const FdbKey> keys, uint32_t* out) const = 0;
  virtual void FindInBatches(absl::Span<const FdbKey> keys, uint32_t* out) const = 0;
  // What it occupies.
  virtual size_t bytes() const = 0;
};

// All have room for `entries` at least; only rte_hash needs to know.
// The table with all of the policy around it (fdb/fdb.h): its Put is Learn, at a limit of `entries`.
std::unique_ptr<BenchTable> MakeFdb(size_t entries);
std::unique_ptr<BenchTable> MakeEoib(size_t entries);
std::unique_ptr<BenchTable> MakeAbsl(size_t entries);
std::unique_ptr<BenchTable> MakeRte(size_t entries);
// The machine's limit: as many cache lines as the table has of `entries`, read at random at the same prefetch depth. Finds all
// keys. A key's line is the number that the key is.
std::unique_ptr<BenchTable> MakeLimit(size_t entries);
// Lines that MakeLimit has: its keys are below.
size_t LimitLines(size_t entries);

// Starts DPDK, without huge pages of its own and without devices; once a program. The program ends if that fails.
void StartDpdk(size_t megabytes);

}  // namespace eoib::bench

#endif  // EOIB_TESTS_BENCH_MAC_TABLES_H_
