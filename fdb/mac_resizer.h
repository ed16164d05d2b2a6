// MacResizer: grows and shrinks a MAC table in place, a few buckets at each change, for the table's
// writer.
#ifndef EOIB_FDB_MAC_RESIZER_H_
#define EOIB_FDB_MAC_RESIZER_H_

#include <cstdint>
#include <vector>

#include "fdb/bucket_map.h"
#include "fdb/mac_bucket.h"
#include "fdb/mac_placement.h"
#include "fdb/mac_store.h"

namespace eoib {

// `store` and `placement` outlive it.
class MacResizer {
 public:
  static constexpr uint32_t kLeastBuckets = 4;

  // Makes the first buckets, empty.
  MacResizer(MacStore* store, MacPlacement* placement);

  // Starts a resizing if one is due, and continues one in progress. Call it after each change.
  void ResizeIfDue();
  // Finishes the resizing in progress, or grows the table at once. False if neither is possible.
  bool GrowNow();

 private:
  friend class MacTablePeer;  // tests

  bool IsResizing() const { return store_->map().low != store_->map().high; }
  bool StartGrowing();
  bool Step();
  void CollectEntries(const PositionRange& range);
  void FinishResizing();
  void Reshape(const BucketMap& to);
  void BeginStep(uint64_t from, uint64_t to);
  void EndStep();
  void InitBucket(MacBucket* bucket);
  void InitBuckets(uint32_t from, uint32_t to);

  MacStore* const store_;
  MacPlacement* const placement_;
  bool is_growing_ = false;        // direction of the resizing in progress
  uint32_t initialised_from_ = 0;  // of the added buckets, those from this index on are initialised
  uint64_t first_sequence_ = 0;    // first sequence number of new buckets
  std::vector<MacRecord> moving_;  // entries that a step moves
};

}  // namespace eoib

#endif  // EOIB_FDB_MAC_RESIZER_H_
