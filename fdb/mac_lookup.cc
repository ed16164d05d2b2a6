#include "fdb/mac_lookup.h"

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <utility>

#include "fdb/check.h"
#include "fdb/mac_table.h"

namespace eoib {
namespace {

// Spans of strong types as the words that they are.
static_assert(sizeof(FdbKey) == sizeof(uint64_t) && std::is_standard_layout_v<FdbKey>);
static_assert(sizeof(VPortId) == sizeof(uint32_t) && std::is_standard_layout_v<VPortId>);
static_assert(VPortId::None().value() == CohortVPorts::kNone);
const uint64_t* Words(absl::Span<const FdbKey> keys) { return reinterpret_cast<const uint64_t*>(keys.data()); }
uint32_t* Words(absl::Span<VPortId> vports) { return reinterpret_cast<uint32_t*>(vports.data()); }

}  // namespace

void MacLookup::Ask(absl::Span<const FdbKey> keys, AgeLimit limit, absl::Span<VPortId> out) {
  EOIB_DCHECK(keys.size() <= kMostKeys && out.size() >= keys.size());
  MacBatch* const done = Take(keys);
  taken_->limit = limit;
  taken_->out = Words(out);
  if (done != nullptr) Answer(*done);
}

void MacLookup::Finish() {
  while (const MacBatch* const done = Drain()) Answer(*done);
}

MacBatch* MacLookup::Begin(absl::Span<const FdbKey> keys) {
  MacBatch* const batch = &batches_[turn_];
  turn_ = (turn_ + 1) % 3;
  batch->view = table_->View();
  batch->limit = AgeLimit();
  batch->keys = Words(keys);
  batch->count = keys.size();
  if (keys.size() == kSearchChunk) return batch;
  std::copy_n(batch->keys, keys.size(), batch->copy);
  std::fill(batch->copy + keys.size(), std::end(batch->copy), keys.empty() ? 0 : batch->copy[0]);
  batch->keys = batch->copy;
  return batch;
}

void MacLookup::Place(absl::Span<const FdbKey> keys) { table_->search_->place(Begin(keys)); }

MacBatch* MacLookup::Take(absl::Span<const FdbKey> keys) {
  MacBatch* const next = Begin(keys);
  const MacSearch& search = *table_->search_;
  taken_ != nullptr ? search.look(taken_, next) : search.place(next);
  MacBatch* const done = std::exchange(looked_, std::exchange(taken_, next));
  if (done != nullptr) search.look_away(done);
  return done;
}

MacBatch* MacLookup::Drain() {
  if (taken_ != nullptr) table_->search_->look(taken_, nullptr);
  MacBatch* done = std::exchange(looked_, std::exchange(taken_, nullptr));
  if (done == nullptr) done = std::exchange(looked_, nullptr);
  if (done != nullptr) table_->search_->look_away(done);
  return done;
}

void MacLookup::Answer(const MacBatch& batch) const {
  std::copy_n(batch.vports, batch.count, batch.out);
  for (uint32_t rest = table_->Uncertain(batch); rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    batch.out[i] = table_->FindOne(FdbKey::FromPacked(batch.keys[i]), batch.limit).value();
  }
}

}  // namespace eoib
