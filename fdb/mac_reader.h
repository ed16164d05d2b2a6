// MacReader: lookups in a MAC table, from any thread. Readers take no lock.
#ifndef EOIB_FDB_MAC_READER_H_
#define EOIB_FDB_MAC_READER_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "fdb/fdb_key.h"
#include "fdb/mac_entry.h"
#include "fdb/mac_store.h"
#include "fdb/mac_view.h"
#include "fdb/vport.h"

namespace eoib {

struct MacBatch;

// `store` outlives it.
class MacReader {
 public:
  explicit MacReader(const MacStore* store) : store_(store) {}

  // out[i] is the vPort of keys[i], or VPortId::None() if there is no entry, or one that aged out
  // by `limit`. Requires out.size() >= keys.size(). Best for 32 keys or more; for a stream of
  // batches MacLookup is better.
  void Find(absl::Span<const FdbKey> keys, AgeLimit limit, absl::Span<VPortId> out) const;

  // Marks keys[i] as seen at tick `now` if it is behind vports[i]. Stores to an entry only if that
  // changes it. Writes the indices of the other keys (absent, or behind another vPort) to `stale`,
  // ascending, and returns their number. Requires vports and stale as long as keys, and at most
  // 65,536 keys.
  size_t Touch(absl::Span<const FdbKey> keys, absl::Span<const VPortId> vports, uint16_t now,
               absl::Span<uint16_t> stale) const;

  // Requests the memory that Find and Touch will look into first, for a caller with other work to
  // do meanwhile. During a resizing it may be another bucket's, which is harmless.
  void Prefetch(FdbKey key) const {
    __builtin_prefetch(store_->memory.buckets() + store_->map().Index(store_->hash.Position(key)));
  }

  // Copies the entry of `key` to *entry; false if there is none.
  bool Get(FdbKey key, MacEntry* entry) const;

  // The parts of a lookup, for MacLookup.
  MacView View() const {
    return MacView::Of(store_->memory.buckets(), store_->groups.reader(), &store_->hash,
                       &store_->shape);
  }
  VPortId FindOne(FdbKey key, AgeLimit limit) const;
  // A bit mask of the keys of a batch that must be looked up again, one by one.
  uint32_t Uncertain(const MacBatch& batch) const;

 private:
  // An entry as a reader saw it.
  struct Sighting {
    bool found = false;
    const MacBucket* bucket = nullptr;
    int slot = 0;
    MacRecord record;
    VPortId vport;
  };
  enum class Look { kFound, kAbsent, kChanging };

  Look LookInto(const MacBucket& bucket, uint64_t key, uint64_t* head, Sighting* sighting) const;
  Sighting Lookup(FdbKey key) const;
  bool LookupOnce(uint64_t key, uint32_t position, Sighting* sighting) const;
  bool TouchOne(FdbKey key, VPortId vport, uint16_t now) const;
  uint32_t TouchBatch(const MacBatch& batch, absl::Span<const VPortId> vports, uint16_t now) const;
  bool IsMissFinal(const MacView& view, uint32_t position) const;

  const MacStore* const store_;
};

}  // namespace eoib

#endif  // EOIB_FDB_MAC_READER_H_
