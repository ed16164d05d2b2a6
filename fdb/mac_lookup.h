// MacLookup: a stream of batches of lookups, of which each stage of one is done while the memory is at work for another.
#ifndef EOIB_FDB_MAC_LOOKUP_H_
#define EOIB_FDB_MAC_LOOKUP_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "fdb/fdb_key.h"
#include "fdb/mac_search.h"
#include "fdb/vport.h"

namespace eoib {

class MacTable;

// A reader's own, on the stack or kept by it; it holds nothing in the table, and may be left unfinished. Asking for a batch
// looks at the buckets of the one before, and at those to which detours lead of the one before that. So three are under way:
//
//   MacLookup lookup(&table);
//   for (each batch) lookup.Ask(keys, limit, out);
//   lookup.Finish();
class MacLookup {
 public:
  static constexpr size_t kMostKeys = kSearchChunk;

  // `table` must outlive *this.
  explicit MacLookup(const MacTable* table);
  MacLookup(const MacLookup&) = delete;
  MacLookup& operator=(const MacLookup&) = delete;

  // As MacTable::Find, of kMostKeys at most. `keys` and `out` have to stay until the answers are there: when Ask has been
  // called twice more, or Finish. They are of a moment between. Until then `out` is used, and means nothing: batches under way
  // need rooms of their own.
  void Ask(absl::Span<const FdbKey> keys, AgeLimit limit, absl::Span<VPortId> out);
  void Finish();

 private:
  friend class MacTable;  // whose Touch goes the same way

  // Takes up keys. Returns the batch that has been through all stages now, or null.
  MacBatch* Take(absl::Span<const FdbKey> keys);
  // The first stage alone, of keys that will be asked for later.
  void Place(absl::Span<const FdbKey> keys);
  // The next one that still had a stage to go, or null.
  MacBatch* Drain();

  static constexpr int kWaryBatches = 8;

  uint64_t LookAtChanges();
  MacBatch* Begin(absl::Span<const FdbKey> keys);
  static void FillUp(MacBatch* batch);
  MacBatch* TakeTurn(MacBatch* next);
  void Answer(const MacBatch& batch) const;

  const MacTable* const table_;
  uint64_t changes_ = MacBatch::kUnknown;  // of the table, as last seen
  int wary_ = 0;                           // batches to go before they are looked at again
  MacView view_;                           // as last taken
  MacBatch batches_[3];
  MacBatch* turn_ = batches_;   // the one to begin with next
  MacBatch* taken_ = nullptr;   // and placed
  MacBatch* looked_ = nullptr;  // the one before that
};

}  // namespace eoib

#endif  // EOIB_FDB_MAC_LOOKUP_H_
