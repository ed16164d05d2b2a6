// MacPlacement: where the entries of a MAC table are. It finds, places, moves and removes them, for
// the table's writer.
#ifndef EOIB_FDB_MAC_PLACEMENT_H_
#define EOIB_FDB_MAC_PLACEMENT_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "fdb/mac_bucket.h"
#include "fdb/mac_store.h"

namespace eoib {

struct MacSlot {
  MacBucket* bucket = nullptr;
  int slot = 0;
};

// The positions from `from` on, below `to`.
struct PositionRange {
  uint64_t from, to;
  bool Has(uint64_t position) const { return position >= from && position < to; }
};

// `store` outlives it. An entry is in its home bucket, in its secondary bucket, or in the stash.
class MacPlacement {
 public:
  explicit MacPlacement(MacStore* store) : store_(store) {}

  // The slot of `key`; its bucket is null if the key is not in the table.
  MacSlot Locate(uint64_t key) const;
  // Places an entry that is not in the table: at home, else in its secondary bucket, after making
  // room if needed; else in the stash, if that holds fewer than `most_stashed` entries. False if
  // there is no place.
  bool Insert(const MacRecord& record, size_t most_stashed);
  // Removes an entry, and its mark if no other entry with its tag is away from that home.
  void Remove(const MacSlot& where);
  // A slot of the bucket of `position` became free: moves in one entry that is away from this home.
  void BringHome(uint32_t position);
  // Moves entries from the stash to their home buckets where there is room.
  void EmptyStash();
  bool IsStash(const MacBucket* bucket) const {
    return bucket >= store_->stash.data() && bucket < store_->stash.data() + store_->stash.size();
  }
  // Calls `visit` on the entries whose position is in `range`, which lies within one bucket,
  // wherever they are stored. Stops when `visit` returns false.
  void VisitHome(const PositionRange& range, absl::FunctionRef<bool(const MacSlot&)> visit) const;

 private:
  MacBucket* OtherBucket(const MacBucket* bucket, uint64_t key) const;
  static bool InsertInto(MacBucket* bucket, const MacRecord& record);
  bool MakeRoom(MacBucket* home, MacBucket* secondary);
  bool MoveOut(const MacSlot& from, MacBucket* to);
  bool Stash(const MacRecord& record);
  PositionRange HomeRange(uint32_t position) const;
  void VisitAway(const PositionRange& range, uint32_t tag,
                 absl::FunctionRef<bool(const MacSlot&)> visit) const;

  MacStore* const store_;
};

}  // namespace eoib

#endif  // EOIB_FDB_MAC_PLACEMENT_H_
