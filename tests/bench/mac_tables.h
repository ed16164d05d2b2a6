// The tables that the FDB's benchmark compares. Each uses its best public interface, and all use
// one hash.
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
constexpr uint32_t kVPorts = 4096;  // all values are below
constexpr uint32_t kNotFound = ~uint32_t{0};

// A table from (VID, MAC) to 32 bits. One writer; concurrent lookups only if IsConcurrent().
class BenchTable {
 public:
  virtual ~BenchTable() = default;
  virtual bool IsConcurrent() const { return true; }
  virtual void Put(FdbKey key, uint32_t value) = 0;
  virtual void Erase(FdbKey key) = 0;
  // Looks all keys up, one by one or in batches of kBatch. On return, out[i] is the value of the
  // i-th key of the last batch, or kNotFound. Requires a multiple of kBatch.
  virtual void FindSingly(absl::Span<const FdbKey> keys, uint32_t* out) const = 0;
  virtual void FindInBatches(absl::Span<const FdbKey> keys, uint32_t* out) const = 0;
  // The memory that the table occupies.
  virtual size_t bytes() const = 0;
};

// Each table has room for at least `entries`; only rte_hash needs to know the number.
//
// MakeFdb: the table with the FDB's policy (fdb/fdb.h): its Put is Learn, at a limit of `entries`.
std::unique_ptr<BenchTable> MakeFdb(size_t entries);
std::unique_ptr<BenchTable> MakeEoib(size_t entries);
std::unique_ptr<BenchTable> MakeAbsl(size_t entries);
std::unique_ptr<BenchTable> MakeRte(size_t entries);
// The machine's limit: random reads of as many cache lines as a table of `entries` has, at the same
// prefetch depth. It finds all keys; a key, as a number, is the index of its line.
std::unique_ptr<BenchTable> MakeLimit(size_t entries);
// The number of lines of MakeLimit; keys must be below.
size_t LimitLines(size_t entries);

// Starts DPDK without its own huge pages and without devices. Call it once. Ends the program on
// failure.
void StartDpdk(size_t megabytes);

}  // namespace eoib::bench

#endif  // EOIB_TESTS_BENCH_MAC_TABLES_H_
