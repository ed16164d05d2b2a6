#include "vswitch/forwarder/flood_list.h"

#include <utility>

#include "absl/base/optimization.h"

namespace eoib {

FloodList::~FloodList() {
  delete published_.load();
  delete current_;
  FreeReplaced();
}

void FloodList::Publish(std::vector<Entry> entries) {
  auto* const latest = new Snapshot{std::move(entries)};
  latest_ = latest;
  delete published_.exchange(latest, std::memory_order_acq_rel);
  FreeReplaced();
}

absl::Span<const FloodList::Entry> FloodList::Published() const {
  return latest_ == nullptr ? absl::Span<const Entry>() : latest_->entries;
}

absl::Span<const FloodList::Entry> FloodList::Entries() {
  if (ABSL_PREDICT_FALSE(published_.load(std::memory_order_relaxed) != nullptr)) {
    Snapshot* const latest = published_.exchange(nullptr, std::memory_order_acq_rel);
    Snapshot* const former = std::exchange(current_, latest);
    if (former != nullptr) {
      // Control takes the whole list only, so this does not loop for long.
      former->next = replaced_.load(std::memory_order_relaxed);
      while (!replaced_.compare_exchange_weak(former->next, former, std::memory_order_release,
                                              std::memory_order_relaxed)) {
      }
    }
  }
  return current_ == nullptr ? absl::Span<const Entry>() : current_->entries;
}

void FloodList::FreeReplaced() {
  Snapshot* snapshot = replaced_.exchange(nullptr, std::memory_order_acquire);
  while (snapshot != nullptr) delete std::exchange(snapshot, snapshot->next);
}

}  // namespace eoib
