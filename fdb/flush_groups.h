// FlushGroups: counts the entries of an FDB by vPort, and groups those that are flushed together.
//
// A flush group is the entries of one vPort in one VLAN, of one kind. One store flushes all of them
// (MacTable::SetGroupVPort) without a walk through the table. Lookups no longer find them; the FDB
// reclaims their places later, in small pieces. A flush group's number becomes free when its last
// entry has left the table.
//
// For fair eviction this also knows how many entries each vPort has, which entries it added last,
// and which vPort has most.
#ifndef EOIB_FDB_FLUSH_GROUPS_H_
#define EOIB_FDB_FLUSH_GROUPS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/optional.h"
#include "fdb/count_ranking.h"
#include "fdb/fdb_key.h"
#include "fdb/mac_table.h"
#include "fdb/vport.h"

namespace eoib {

// The kind of a flush group's entries: which events may change them.
enum class EntryKind : uint8_t {
  kDynamic,  // learned or announced: they age, move, are flushed and evicted
  kPinned,   // learned, and held in place: sticky or frozen
  kFixed,    // static
};
inline constexpr size_t kEntryKinds = 3;

// Belongs to the table's writer. The table outlives it. The writer reports each entry that enters
// or leaves the table, under the same lock.
class FlushGroups {
 public:
  struct Holder {
    VPortId vport = VPortId::None();
    size_t dynamic = 0;
  };

  explicit FlushGroups(MacTable* table) : table_(table) {}
  FlushGroups(const FlushGroups&) = delete;
  FlushGroups& operator=(const FlushGroups&) = delete;

  // Returns the flush group for an entry and makes it if it is new. Nothing if there is no memory
  // for it.
  absl::optional<FlushGroupId> GroupFor(VPortId vport, Vid vid, EntryKind kind);
  // `key` entered the table, in `group`.
  void Joined(FlushGroupId group, FdbKey key);
  // An entry of `group` left the table, or went to another flush group.
  void Left(FlushGroupId group);

  // A flushed group's entries are still in the table, but no lookup finds them.
  bool IsFlushed(FlushGroupId group) const { return groups_[group.value()].vport.IsNone(); }
  VPortId VPortOf(FlushGroupId group) const { return groups_[group.value()].vport; }
  EntryKind KindOf(FlushGroupId group) const { return groups_[group.value()].kind; }

  // Flushes the entries of one kind: those of a vPort, those of a VLAN, or all. Returns how many
  // there were.
  size_t FlushVPort(VPortId vport, EntryKind kind);
  size_t FlushVlan(Vid vid, EntryKind kind);
  size_t FlushAll(EntryKind kind);

  // Entries that are not flushed: of one vPort, of all.
  size_t Held(VPortId vport, EntryKind kind) const;
  size_t Held(VPortId vport) const;
  size_t live() const { return live_; }
  // Flushed entries that wait to be reclaimed.
  size_t flushed() const { return flushed_; }
  // The vPort with most dynamic entries.
  Holder Largest() const;
  // Calls `visit` on each vPort that has entries, in no order.
  using Counts = std::array<size_t, kEntryKinds>;  // by kind
  void VisitHolders(absl::FunctionRef<void(VPortId vport, const Counts& held)> visit) const;

  // Removes and returns the newest of the few keys that are remembered for `vport`. Its entry may
  // have left the table since.
  absl::optional<FdbKey> TakeNewest(VPortId vport);

 private:
  struct FlushGroup {
    VPortId vport = VPortId::None();  // none: flushed, or free
    Vid vid;
    EntryKind kind = EntryKind::kDynamic;
    uint32_t holding = 0;
    uint32_t entries = 0;
  };
  // A ring of keys. The newest is before `next`.
  struct Newest {
    static constexpr size_t kMost = 8;
    std::array<FdbKey, kMost> keys;
    uint8_t next = 0, count = 0;
  };
  // The entries of one vPort. Exists while the vPort has flush groups.
  struct Holding {
    VPortId vport = VPortId::None();
    Counts held{};
    uint32_t groups = 0;
    Newest newest;
  };
  using Name = std::pair<uint32_t, uint32_t>;  // vPort; VID and kind

  static Name NameOf(const FlushGroup& group) {
    return {group.vport.value(),
            uint32_t{group.vid.value()} << 8 | static_cast<uint32_t>(group.kind)};
  }
  uint32_t HoldingFor(VPortId vport);
  const Holding* Find(VPortId vport) const;
  void Count(const FlushGroup& group, int64_t change);
  size_t FlushIf(absl::FunctionRef<bool(const FlushGroup&)> concerned, EntryKind kind);
  size_t FlushOne(uint32_t number);
  void Forget(const FlushGroup& group);

  MacTable* const table_;
  // By number; a deque, because it does not double its memory to grow.
  std::deque<FlushGroup> groups_;
  std::deque<uint32_t> free_;
  absl::flat_hash_map<Name, uint32_t> by_name_;
  std::deque<Holding> holdings_;
  std::vector<uint32_t> free_holdings_;
  absl::flat_hash_map<VPortId, uint32_t> by_vport_;
  CountRanking ranking_;  // of holdings, by dynamic entries
  size_t live_ = 0, flushed_ = 0;
  // The last answer of Find: learning asks for one vPort many times in a row.
  mutable VPortId found_ = VPortId::None();
  mutable uint32_t found_holding_ = 0;
};

}  // namespace eoib

#endif  // EOIB_FDB_FLUSH_GROUPS_H_
