// AgedTable: a hash map of bounded size that keeps its entries in the order in which they were last
// heard.
//
// An entry is confirmed once its owner has answered or taken part in a conversation, which an
// invented address does not. A full table evicts the longest silent unconfirmed entry, and a
// confirmed one only if no other is left. So known entries survive a scan.
//
// Find, Hear and Erase cost one hash lookup; Hear allocates nothing. An entry does not move in
// memory until it is removed. Not thread-safe. The caller's `now` never goes back.
#ifndef EOIB_GATEWAY_LINK_AGED_TABLE_H_
#define EOIB_GATEWAY_LINK_AGED_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <list>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

namespace eoib {

template <typename Key, typename Value>
class AgedTable {
 public:
  struct Entry {
    Key key;
    Value value;
    absl::Time heard;
    bool confirmed = false;
  };

  // Requires limit > 0.
  explicit AgedTable(size_t limit) : limit_(limit) {}
  AgedTable(const AgedTable&) = delete;  // index_ holds iterators; CopyFrom copies the entries
  AgedTable& operator=(const AgedTable&) = delete;

  size_t size() const { return index_.size(); }
  bool full() const { return size() >= limit_; }
  bool overfull() const { return size() > limit_; }
  // Requires limit > 0. The owner removes victims until the table is not overfull.
  void SetLimit(size_t limit) { limit_ = limit; }

  Entry* Find(const Key& key) {
    const auto at = index_.find(key);
    return at == index_.end() ? nullptr : &*at->second;
  }
  const Entry* Find(const Key& key) const { return const_cast<AgedTable*>(this)->Find(key); }

  // Marks the entry as heard now and returns it; null if there is none.
  Entry* Hear(const Key& key, absl::Time now) {
    const auto at = index_.find(key);
    return at == index_.end() ? nullptr : Renew(at->second, now);
  }

  // The same; if there is none, adds `fresh`, instead of the victim of a full table.
  Entry* HearOrAdd(const Key& key, absl::Time now, Value fresh = {}) {
    if (Entry* const known = Hear(key, now)) return known;
    MakeRoom();
    return Add(key, std::move(fresh), now);
  }

  // Like Hear, and marks the entry as confirmed.
  Entry* Confirm(const Key& key, absl::Time now) {
    const auto at = index_.find(key);
    if (at == index_.end()) return nullptr;
    Promote(at->second);
    return Renew(at->second, now);
  }

  // Adds an entry. Requires that the key is not in the table, and that the table is not full:
  // remove Victim() first.
  Entry* Add(const Key& key, Value value, absl::Time now) {
    std::list<Entry>& claimed = rank_[0];
    claimed.push_back(Entry{key, std::move(value), now});
    index_.emplace(key, std::prev(claimed.end()));
    return &claimed.back();
  }

  // Replaces its entries by a copy of another table's, in the same order. Requires the same limit.
  void CopyFrom(const AgedTable& other) {
    index_.clear();
    for (const bool confirmed : {false, true}) {
      rank_[confirmed] = other.rank_[confirmed];
      for (Iterator entry = rank_[confirmed].begin(); entry != rank_[confirmed].end(); ++entry)
        index_.emplace(entry->key, entry);
    }
  }

  // The entry to evict before the next Add; null while there is room.
  const Entry* Victim() const { return full() ? Oldest() : nullptr; }
  void MakeRoom() {
    if (const Entry* const victim = Victim()) Erase(Key(victim->key));
  }

  bool Erase(const Key& key) {
    const auto at = index_.find(key);
    if (at == index_.end()) return false;
    const auto entry = at->second;
    index_.erase(at);
    rank_[entry->confirmed].erase(entry);
    return true;
  }

  void Clear() {
    index_.clear();
    for (std::list<Entry>& rank : rank_) rank.clear();
  }

  // An entry that was last heard at `deadline` or before; null if there is none.
  const Entry* SilentSince(absl::Time deadline) const {
    for (const std::list<Entry>& rank : rank_) {
      if (!rank.empty() && rank.front().heard <= deadline) return &rank.front();
    }
    return nullptr;
  }
  // When the longest silent entry was last heard; InfiniteFuture() if the table is empty.
  absl::Time oldest() const {
    absl::Time oldest = absl::InfiniteFuture();
    for (const std::list<Entry>& rank : rank_) {
      if (!rank.empty()) oldest = std::min(oldest, rank.front().heard);
    }
    return oldest;
  }

  // Calls visit(entry) for each entry: confirmed ones first, and within each rank the last heard
  // first. `visit` must not add or remove entries.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const bool confirmed : {true, false}) {
      for (auto entry = rank_[confirmed].rbegin(); entry != rank_[confirmed].rend(); ++entry)
        visit(*entry);
    }
  }
  // The same; `visit` may change values.
  template <typename Visit>
  void ForEach(Visit visit) {
    std::as_const(*this).ForEach([&](const Entry& entry) { visit(const_cast<Entry&>(entry)); });
  }

 private:
  using Iterator = typename std::list<Entry>::iterator;

  const Entry* Oldest() const { return !rank_[0].empty() ? &rank_[0].front() : &rank_[1].front(); }

  Entry* Renew(Iterator entry, absl::Time now) {
    std::list<Entry>& rank = rank_[entry->confirmed];
    entry->heard = now;
    rank.splice(rank.end(), rank, entry);
    return &*entry;
  }

  void Promote(Iterator entry) {
    if (entry->confirmed) return;
    rank_[1].splice(rank_[1].end(), rank_[0], entry);
    entry->confirmed = true;
  }

  size_t limit_;
  std::list<Entry> rank_[2];  // unconfirmed, confirmed; the last heard is at the end
  absl::flat_hash_map<Key, Iterator> index_;
};

}  // namespace eoib

#endif  // EOIB_GATEWAY_LINK_AGED_TABLE_H_
