#include "fdb/mac_table.h"

#include <atomic>
#include <vector>

#include "fdb/check.h"

namespace eoib {
namespace {

// Far enough ahead that the cache line is there in time, and near enough that it is still there.
constexpr size_t kPrefetchAhead = 8;

// last_seen is the one member that changes under the reader lock (Touch), so under it every access is atomic. The entries are
// const only by way of a const member function.
std::atomic_ref<uint32_t> LastSeen(const MacEntry& entry) {
  return std::atomic_ref<uint32_t>(const_cast<uint32_t&>(entry.last_seen));
}

bool IsLive(const MacEntry& entry, uint32_t not_before) {
  return !Ages(entry.origin) || LastSeen(entry).load(std::memory_order_relaxed) >= not_before;
}

MacEntry Snapshot(const MacEntry& entry) {
  return {entry.vport, LastSeen(entry).load(std::memory_order_relaxed), entry.origin};
}

}  // namespace

void MacTable::Prefetch(absl::Span<const FdbKey> keys, size_t index) const {
  if (index < keys.size()) entries_.prefetch(keys[index]);
}

void MacTable::Find(absl::Span<const FdbKey> keys, uint32_t not_before, absl::Span<VPortId> out) const {
  EOIB_DCHECK(out.size() >= keys.size());
  absl::ReaderMutexLock lock(&mutex_);
  for (size_t i = 0; i < kPrefetchAhead; ++i) Prefetch(keys, i);
  for (size_t i = 0; i < keys.size(); ++i) {
    Prefetch(keys, i + kPrefetchAhead);
    const auto found = entries_.find(keys[i]);
    out[i] = found != entries_.end() && IsLive(found->second, not_before) ? found->second.vport : VPortId::None();
  }
}

size_t MacTable::Touch(absl::Span<const FdbKey> keys, absl::Span<const VPortId> vports, uint32_t now_seconds,
                       absl::Span<uint16_t> stale) const {
  EOIB_DCHECK(vports.size() >= keys.size() && stale.size() >= keys.size());
  size_t stale_count = 0;
  absl::ReaderMutexLock lock(&mutex_);
  for (size_t i = 0; i < kPrefetchAhead; ++i) Prefetch(keys, i);
  for (size_t i = 0; i < keys.size(); ++i) {
    Prefetch(keys, i + kPrefetchAhead);
    const auto found = entries_.find(keys[i]);
    if (found == entries_.end() || found->second.vport != vports[i]) {
      stale[stale_count++] = static_cast<uint16_t>(i);
      continue;
    }
    // Written once a second at most, so that the line stays shared between the workers' caches.
    const std::atomic_ref<uint32_t> last_seen = LastSeen(found->second);
    if (last_seen.load(std::memory_order_relaxed) != now_seconds) last_seen.store(now_seconds, std::memory_order_relaxed);
  }
  return stale_count;
}

bool MacTable::Get(FdbKey key, MacEntry* entry) const {
  absl::ReaderMutexLock lock(&mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return false;
  *entry = Snapshot(found->second);
  return true;
}

void MacTable::Put(FdbKey key, const MacEntry& entry) {
  absl::MutexLock lock(&mutex_);
  entries_[key] = entry;
}

bool MacTable::Erase(FdbKey key) {
  absl::MutexLock lock(&mutex_);
  return entries_.erase(key) != 0;
}

size_t MacTable::EraseIf(const std::function<bool(FdbKey, const MacEntry&)>& condemned) {
  std::vector<FdbKey> keys;
  ForEach([&](FdbKey key, const MacEntry& entry) {
    if (condemned(key, entry)) keys.push_back(key);
  });
  if (keys.empty()) return 0;
  size_t erased = 0;
  absl::MutexLock lock(&mutex_);
  for (FdbKey key : keys) {
    const auto found = entries_.find(key);
    if (found == entries_.end() || !condemned(key, found->second)) continue;
    entries_.erase(found);
    ++erased;
  }
  return erased;
}

void MacTable::ForEach(const std::function<void(FdbKey, const MacEntry&)>& visit) const {
  absl::ReaderMutexLock lock(&mutex_);
  for (const auto& [key, entry] : entries_) visit(key, Snapshot(entry));
}

size_t MacTable::size() const {
  absl::ReaderMutexLock lock(&mutex_);
  return entries_.size();
}

}  // namespace eoib
