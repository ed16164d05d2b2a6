// AgedTable: a hash map of bounded size that knows which of its entries was heard of last.
//
// All that the gateway remembers of others is in such tables, so that whoever invents addresses cannot make it remember without
// end. An entry is confirmed once its owner did what an inventor of addresses does not: answered, or was talked with. When the
// table is full, the one that goes is the one not heard of for longest among those that nobody confirmed; a confirmed one only
// if there are no others. So known entries survive a scan.
//
// Finding, hearing of and removing an entry cost one look into the hash map; hearing allocates nothing. Entries stay where they
// are in memory until they go. Not thread-safe. The caller's `now` never goes back.
#ifndef EOIB_GATEWAY_TRANSLATION_AGED_TABLE_H_
#define EOIB_GATEWAY_TRANSLATION_AGED_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <list>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

namespace eoib::translation {

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
  AgedTable(const AgedTable&) = delete;  // Imitate copies what can be
  AgedTable& operator=(const AgedTable&) = delete;

  size_t size() const { return index_.size(); }
  bool full() const { return size() >= limit_; }

  Entry* Find(const Key& key) {
    const auto at = index_.find(key);
    return at == index_.end() ? nullptr : &*at->second;
  }
  const Entry* Find(const Key& key) const { return const_cast<AgedTable*>(this)->Find(key); }

  // The entry, from now on the one last heard of; null if there is none.
  Entry* Hear(const Key& key, absl::Time now) {
    const auto at = index_.find(key);
    return at == index_.end() ? nullptr : Renew(at->second, now);
  }

  // The same, and from now on confirmed.
  Entry* Confirm(const Key& key, absl::Time now) {
    const auto at = index_.find(key);
    if (at == index_.end()) return nullptr;
    Promote(at->second);
    return Renew(at->second, now);
  }

  // Adds an entry, which must not be there. If the table is full, the one that Victim() names must have been removed before.
  Entry* Add(const Key& key, Value value, absl::Time now) {
    std::list<Entry>& claimed = rank_[0];
    claimed.push_back(Entry{key, std::move(value), now});
    index_.emplace(key, std::prev(claimed.end()));
    return &claimed.back();
  }

  // Takes the entries of another table, with its order, instead of its own. Requires the same limit.
  void Imitate(const AgedTable& other) {
    index_.clear();
    for (const bool confirmed : {false, true}) {
      rank_[confirmed] = other.rank_[confirmed];
      for (Iterator entry = rank_[confirmed].begin(); entry != rank_[confirmed].end(); ++entry)
        index_.emplace(entry->key, entry);
    }
  }

  // Who has to go for another one; null while there is room.
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

  // An entry that has not been heard of since `deadline`, null if there is none.
  const Entry* SilentSince(absl::Time deadline) const {
    for (const std::list<Entry>& rank : rank_) {
      if (!rank.empty() && rank.front().heard <= deadline) return &rank.front();
    }
    return nullptr;
  }
  // When the entry was heard of that has not been for longest; InfiniteFuture() of an empty table.
  absl::Time oldest() const {
    absl::Time oldest = absl::InfiniteFuture();
    for (const std::list<Entry>& rank : rank_) {
      if (!rank.empty()) oldest = std::min(oldest, rank.front().heard);
    }
    return oldest;
  }

  // Calls visit(entry) for each, the confirmed ones first, and of each kind those heard of last. `visit` must not add or remove
  // entries.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const bool confirmed : {true, false}) {
      for (auto entry = rank_[confirmed].rbegin(); entry != rank_[confirmed].rend(); ++entry) visit(*entry);
    }
  }
  // The same for who changes values.
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

  const size_t limit_;
  std::list<Entry> rank_[2];  // not confirmed, confirmed; each with the one heard of last at its end
  absl::flat_hash_map<Key, Iterator> index_;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_AGED_TABLE_H_
