// MacLookup: a stream of batches of lookups in a MAC table, in which the memory works for one batch
// while the processor works on another.
#ifndef EOIB_FDB_MAC_LOOKUP_H_
#define EOIB_FDB_MAC_LOOKUP_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include "absl/types/span.h"
#include "fdb/fdb_key.h"
#include "fdb/mac_reader.h"
#include "fdb/mac_search.h"
#include "fdb/mac_table.h"
#include "fdb/vport.h"
#include "vswitch/base/check.h"

namespace eoib {

// A reader keeps it on the stack or as a member. It holds nothing in the table, and may be left
// unfinished. Three batches are under way: Ask places one, looks into the home buckets of the one
// before it, and into the secondary buckets of the one before that.
//
//   MacLookup lookup(&table);
//   for (each batch) lookup.Ask(keys, limit, out);
//   lookup.Finish();
template <typename Matcher>
class BasicMacLookup {
 public:
  static constexpr size_t kMostKeys = kSearchBatch;

  // `table` must outlive *this.
  explicit BasicMacLookup(const MacTable* table) : BasicMacLookup(&table->reader()) {}
  BasicMacLookup(const BasicMacLookup&) = delete;
  BasicMacLookup& operator=(const BasicMacLookup&) = delete;

  // Like MacTable::Find, for at most kMostKeys keys. `keys` and `out` must stay until two further
  // calls of Ask, or Finish; until then `out` means nothing. Each batch under way needs its own.
  void Ask(absl::Span<const FdbKey> keys, AgeLimit limit, absl::Span<VPortId> out);
  void Finish();

 private:
  friend class MacReader;  // Find and Touch take the same stages

  explicit BasicMacLookup(const MacReader* reader) : reader_(reader), view_(reader->View()) {}

  // Starts a batch. Returns the batch that has now been through all stages, or null.
  MacBatch* Take(absl::Span<const FdbKey> keys, AgeLimit limit, uint32_t* vports);
  // Returns the next batch that still had a stage to go, or null.
  MacBatch* Drain();
  MacBatch* Begin(absl::Span<const FdbKey> keys);
  MacBatch* TakeTurn(MacBatch* next);
  void Answer(const MacBatch* done) const;

  const MacReader* const reader_;
  MacView view_;  // the last one taken
  MacBatch batches_[3];
  MacBatch* turn_ = batches_;   // the one to begin with next
  MacBatch* placed_ = nullptr;  // has been through the first stage
  MacBatch* looked_ = nullptr;  // has been through the second stage
};

using MacLookup = BasicMacLookup<BucketMatcher>;

template <typename Matcher>
void BasicMacLookup<Matcher>::Ask(absl::Span<const FdbKey> keys, AgeLimit limit,
                                  absl::Span<VPortId> out) {
  static_assert(sizeof(VPortId) == sizeof(uint32_t) && std::is_standard_layout_v<VPortId>);
  static_assert(VPortId::None().value() == FlushGroupVPorts::kNone);
  EOIB_DCHECK(out.size() >= keys.size());
  Answer(Take(keys, limit, reinterpret_cast<uint32_t*>(out.data())));
}

template <typename Matcher>
void BasicMacLookup<Matcher>::Finish() {
  while (const MacBatch* const done = Drain()) Answer(done);
}

template <typename Matcher>
MacBatch* BasicMacLookup<Matcher>::Take(absl::Span<const FdbKey> keys, AgeLimit limit,
                                        uint32_t* vports) {
  MacBatch* const batch = Begin(keys);
  batch->limit = limit;
  batch->vports = vports;
  return TakeTurn(batch);
}

template <typename Matcher>
MacBatch* BasicMacLookup<Matcher>::Drain() {
  MacBatch* const done = TakeTurn(nullptr);
  return done == nullptr && looked_ != nullptr ? TakeTurn(nullptr) : done;
}

template <typename Matcher>
inline MacBatch* BasicMacLookup<Matcher>::Begin(absl::Span<const FdbKey> keys) {
  static_assert(sizeof(FdbKey) == sizeof(uint64_t) && std::is_standard_layout_v<FdbKey>);
  EOIB_DCHECK(keys.size() <= kMostKeys);
  MacBatch* const batch = turn_;
  turn_ = batch == std::end(batches_) - 1 ? batches_ : batch + 1;
  if (!view_.IsCurrent()) view_ = reader_->View();
  batch->view = view_;
  batch->keys = reinterpret_cast<const uint64_t*>(keys.data());
  batch->count = keys.size();
  return batch;
}

// Takes each batch under way one stage further.
template <typename Matcher>
inline MacBatch* BasicMacLookup<Matcher>::TakeTurn(MacBatch* next) {
  MacBatch* const done = looked_;
  const bool together =
      placed_ != nullptr && next != nullptr && (placed_->count & next->count) == kSearchBatch;
  if (next != nullptr && !together) MacSearch<Matcher>::Place(next);
  if (placed_ != nullptr) MacSearch<Matcher>::LookHome(placed_, together ? next : nullptr);
  if (done != nullptr) MacSearch<Matcher>::LookAway(done);
  looked_ = placed_;
  placed_ = next;
  return done;
}

// Looks up the keys of a finished batch again that met the writer.
template <typename Matcher>
inline void BasicMacLookup<Matcher>::Answer(const MacBatch* done) const {
  if (done == nullptr || (done->missed | done->undecided) == 0) return;
  for (uint32_t rest = reader_->Uncertain(*done); rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    done->vports[i] = reader_->FindOne(FdbKey::FromPacked(done->keys[i]), done->limit).value();
  }
}

extern template class BasicMacLookup<BucketMatcher>;

}  // namespace eoib

#endif  // EOIB_FDB_MAC_LOOKUP_H_
