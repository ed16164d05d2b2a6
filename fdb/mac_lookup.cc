#include "fdb/mac_lookup.h"

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <utility>

#include "fdb/mac_table.h"
#include "vswitch/base/check.h"

namespace eoib {
namespace {

// Spans of strong types as the words that they are.
static_assert(sizeof(FdbKey) == sizeof(uint64_t) && std::is_standard_layout_v<FdbKey>);
static_assert(sizeof(VPortId) == sizeof(uint32_t) && std::is_standard_layout_v<VPortId>);
static_assert(VPortId::None().value() == CohortVPorts::kNone);
const uint64_t* Words(absl::Span<const FdbKey> keys) { return reinterpret_cast<const uint64_t*>(keys.data()); }
uint32_t* Words(absl::Span<VPortId> vports) { return reinterpret_cast<uint32_t*>(vports.data()); }

}  // namespace

MacLookup::MacLookup(const MacTable* table) : table_(table), view_(table->View()) {}

// The number of changes of the table, or that it is not known: for some batches after it was seen to change, it is likely to
// change again, and its line to be in the writer's cache.
inline uint64_t MacLookup::LookAtChanges() {
  if (wary_ != 0) {
    --wary_;
    return MacBatch::kUnknown;
  }
  const uint64_t changes = table_->shape_.changes.load(std::memory_order_acquire);
  const uint64_t before = std::exchange(changes_, changes);
  if (changes == before || before == MacBatch::kUnknown) return changes;
  wary_ = kWaryBatches;
  return MacBatch::kUnknown;
}

__attribute__((always_inline)) inline MacBatch* MacLookup::Begin(absl::Span<const FdbKey> keys) {
  MacBatch* const batch = turn_;
  turn_ = batch == std::end(batches_) - 1 ? batches_ : batch + 1;
  const bool is_whole = keys.size() == kSearchChunk;
  // Before the view is seen to be current: if the number stays, so does the view.
  batch->changes = is_whole ? LookAtChanges() : MacBatch::kUnknown;
  if (!view_.IsCurrent()) view_ = table_->View();
  batch->view = view_;
  batch->keys = Words(keys);
  batch->count = keys.size();
  batch->vports = batch->own_vports;
  if (__builtin_expect(!is_whole, 0)) FillUp(batch);
  return batch;
}

// A batch of few keys has room of its own, for as many as are looked up at a time.
void MacLookup::FillUp(MacBatch* batch) {
  std::copy_n(batch->keys, batch->count, batch->own_keys);
  std::fill(batch->own_keys + batch->count, std::end(batch->own_keys), batch->count == 0 ? 0 : batch->own_keys[0]);
  batch->keys = batch->own_keys;
  // Whatever is done to a whole chunk is done to them, too.
  std::fill(std::begin(batch->own_vports), std::end(batch->own_vports), 0);
  std::fill(std::begin(batch->seen), std::end(batch->seen), 0);
}

// Returns the batch that has been through all stages now, or null.
__attribute__((always_inline)) inline MacBatch* MacLookup::TakeTurn(MacBatch* next) {
  MacBatch* const done = looked_;
  table_->search_->take_turn(next, taken_, done);
  looked_ = taken_;
  taken_ = next;
  return done;
}

void MacLookup::Ask(absl::Span<const FdbKey> keys, AgeLimit limit, absl::Span<VPortId> out) {
  EOIB_DCHECK(keys.size() <= kMostKeys && out.size() >= keys.size());
  MacBatch* const batch = Begin(keys);
  batch->limit = limit;
  batch->out = Words(out);
  if (keys.size() == kSearchChunk) batch->vports = batch->out;
  const MacBatch* const done = TakeTurn(batch);
  if (done != nullptr && (done->vports != done->out || (done->missed | done->undecided) != 0)) Answer(*done);
}

void MacLookup::Finish() {
  while (const MacBatch* const done = Drain()) Answer(*done);
}

MacBatch* MacLookup::Take(absl::Span<const FdbKey> keys) {
  MacBatch* const batch = Begin(keys);
  batch->limit = AgeLimit();
  return TakeTurn(batch);
}

void MacLookup::Place(absl::Span<const FdbKey> keys) {
  EOIB_DCHECK(taken_ == nullptr && looked_ == nullptr);
  table_->search_->place(Begin(keys));
}

MacBatch* MacLookup::Drain() {
  MacBatch* const done = TakeTurn(nullptr);
  return done == nullptr && looked_ != nullptr ? TakeTurn(nullptr) : done;
}

// What is not where the asker wants it yet, or not certain.
void MacLookup::Answer(const MacBatch& batch) const {
  if (batch.vports != batch.out) std::copy_n(batch.vports, batch.count, batch.out);
  for (uint32_t rest = table_->Uncertain(batch); rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    batch.out[i] = table_->FindOne(FdbKey::FromPacked(batch.keys[i]), batch.limit).value();
  }
}

}  // namespace eoib
