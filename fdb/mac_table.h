// MacTable: the hash table under the FDB. README.md has its design.
//
// Lookups come in batches, from any thread. They wait only for a bucket that the writer is just
// changing; a caller holds no lock and no pointer into the table. There is one writer at a time.
// The table grows and shrinks in place, a few buckets at each change, and no reader waits for more
// than one bucket.
#ifndef EOIB_FDB_MAC_TABLE_H_
#define EOIB_FDB_MAC_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "fdb/fdb_key.h"
#include "fdb/flush_group_vports.h"
#include "fdb/key_hash.h"
#include "fdb/mac_entry.h"
#include "fdb/mac_placement.h"
#include "fdb/mac_reader.h"
#include "fdb/mac_resizer.h"
#include "fdb/mac_store.h"
#include "fdb/mac_view.h"
#include "fdb/vport.h"

namespace eoib {

// Find, Prefetch, Touch, Get, VPortOf, size, memory_bytes: any thread. Everything else: one writer
// at a time.
class MacTable {
 public:
  struct Options {
    size_t most_entries = size_t{1} << 26;  // address space is reserved for this number
    uint64_t seed = KeyHash::ProcessSeed();
  };
  MacTable() : MacTable(Options()) {}
  explicit MacTable(const Options& options);
  MacTable(const MacTable&) = delete;
  MacTable& operator=(const MacTable&) = delete;

  // Lookups: see MacReader.
  const MacReader& reader() const { return reader_; }
  void Find(absl::Span<const FdbKey> keys, AgeLimit limit, absl::Span<VPortId> out) const {
    reader_.Find(keys, limit, out);
  }
  void Prefetch(FdbKey key) const { reader_.Prefetch(key); }
  size_t Touch(absl::Span<const FdbKey> keys, absl::Span<const VPortId> vports, uint16_t now,
               absl::Span<uint16_t> stale) const {
    return reader_.Touch(keys, vports, now, stale);
  }
  bool Get(FdbKey key, MacEntry* entry) const { return reader_.Get(key, entry); }

  // Sets the vPort of all entries of a flush group: one store moves or flushes (VPortId::None())
  // them all. A flush group without entries may become another vPort's; a late reader does not
  // confuse the two. False if there is no memory. Requires group.value() < most_entries.
  bool SetGroupVPort(FlushGroupId group, VPortId vport) { return store_.groups.Set(group, vport); }
  VPortId VPortOf(FlushGroupId group) const { return store_.groups.Get(group); }

  // Adds or replaces an entry. False if there is no room: all reserved space is in use, or there is
  // no memory. Replacing never fails. Requires entry.group.value() < most_entries.
  bool Put(FdbKey key, const MacEntry& entry);
  bool Erase(FdbKey key);

  // A position in the table; 0 is the beginning. A key's position never changes, however the table
  // grows or shrinks.
  using Cursor = uint64_t;
  // Behind `key`, and behind all keys of its position.
  Cursor CursorAfter(FdbKey key) const { return Cursor{store_.hash.Position(key)} + 1; }
  using Visitor = absl::FunctionRef<void(FdbKey, const MacEntry&)>;
  using Predicate = absl::FunctionRef<bool(FdbKey, const MacEntry&)>;
  // Calls `visit` on the entries of the next `buckets` buckets after *cursor and advances the
  // cursor. At the end returns false and resets the cursor. A round visits each entry that is there
  // all the time exactly once. `visit` must not call the table.
  bool VisitNext(Cursor* cursor, size_t buckets, Visitor visit) const;
  // Likewise, but erases the entries for which `condemned` is true, and adds their number to
  // *erased.
  bool EraseNext(Cursor* cursor, size_t buckets, Predicate condemned, size_t* erased);
  // Likewise, but stops at an entry for which `wanted` is true, sets *key to it and leaves the
  // cursor at its bucket. False if there is none. Costs a few nanoseconds a bucket. To find an
  // entry of a vPort that holds one in N takes about N/3 buckets.
  bool FindNext(Cursor* cursor, size_t buckets, Predicate wanted, FdbKey* key) const;

  // The number of buckets now. A round of a cursor visits about as many.
  size_t buckets() const { return store_.shape.high.load(std::memory_order_relaxed); }
  size_t size() const { return store_.size.load(std::memory_order_relaxed); }
  // Memory of the buckets in use and of the object itself.
  size_t memory_bytes() const;

 private:
  friend class MacTablePeer;  // tests: loses a bucket on purpose

  MacStore store_;
  MacReader reader_{&store_};
  MacPlacement placement_{&store_};
  MacResizer resizer_{&store_, &placement_};
  std::vector<FdbKey> condemned_;  // keys that EraseNext found in a bucket
};

}  // namespace eoib

#endif  // EOIB_FDB_MAC_TABLE_H_
