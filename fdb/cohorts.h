// Cohorts: counts the entries of an FDB by vPort, and groups those that are flushed together.
//
// A cohort is the entries of one vPort in one VLAN, of one kind. One store forgets all of them (MacTable::SetCohort) without a
// walk through the table. Lookups no longer find them; the FDB reclaims their places later, in small pieces. A cohort's number
// becomes free when its last entry has left the table.
//
// For fair eviction this also knows how many entries each vPort has, which entries it added last, and which vPort has most.
#ifndef EOIB_FDB_COHORTS_H_
#define EOIB_FDB_COHORTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/optional.h"
#include "fdb/fdb_key.h"
#include "fdb/mac_table.h"
#include "fdb/ranking.h"
#include "fdb/vport.h"

namespace eoib {

// The kind of a cohort's entries: which events may change them.
enum class CohortKind : uint8_t {
  kDynamic,  // learned or announced: they age, move, are flushed and evicted
  kPinned,   // learned, and held in place: sticky or frozen
  kFixed,    // static, or from the manager
};
inline constexpr size_t kCohortKinds = 3;

// Belongs to the table's writer. The table outlives it. The writer reports each entry that enters or leaves the table, under
// the same lock.
class Cohorts {
 public:
  struct Holder {
    VPortId vport = VPortId::None();
    size_t dynamic = 0;
  };

  explicit Cohorts(MacTable* table) : table_(table) {}
  Cohorts(const Cohorts&) = delete;
  Cohorts& operator=(const Cohorts&) = delete;

  // Returns the cohort for an entry and makes it if it is new. Nothing if there is no memory for it.
  absl::optional<CohortId> For(VPortId vport, Vid vid, CohortKind kind);
  // `key` entered the table, in `cohort`.
  void Joined(CohortId cohort, FdbKey key);
  // An entry of `cohort` left the table, or went to another cohort.
  void Left(CohortId cohort);

  // A forgotten cohort's entries are still in the table, but no lookup finds them.
  bool IsForgotten(CohortId cohort) const { return cohorts_[cohort.value()].vport.IsNone(); }
  VPortId VPortOf(CohortId cohort) const { return cohorts_[cohort.value()].vport; }
  CohortKind KindOf(CohortId cohort) const { return cohorts_[cohort.value()].kind; }

  // Forgets the entries of one of `kinds`: of a vPort, of a VLAN, or all. Returns how many there were.
  using Kinds = std::initializer_list<CohortKind>;
  size_t ForgetVPort(VPortId vport, Kinds kinds);
  size_t ForgetVlan(Vid vid, Kinds kinds);
  size_t ForgetAll(Kinds kinds);

  // Entries that are not forgotten: of one vPort, of all.
  size_t Held(VPortId vport, CohortKind kind) const;
  size_t Held(VPortId vport) const;
  size_t live() const { return live_; }
  // Forgotten entries that wait to be reclaimed.
  size_t forgotten() const { return forgotten_; }
  // The vPort with most dynamic entries.
  Holder Largest() const;
  // Calls `visit` on each vPort that has entries, in no order.
  using Counts = std::array<size_t, kCohortKinds>;  // by kind
  void VisitHolders(absl::FunctionRef<void(VPortId vport, const Counts& held)> visit) const;

  // Removes and returns the newest of the few keys that are remembered for `vport`. Its entry may have left the table since.
  absl::optional<FdbKey> TakeNewest(VPortId vport);

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  // A cohort's place in the list of its vPort, or of its VLAN.
  struct Links {
    uint32_t before = kNone, after = kNone;
  };
  struct Cohort {
    VPortId vport = VPortId::None();  // none: forgotten, or free
    Vid vid;
    CohortKind kind = CohortKind::kDynamic;
    uint32_t holding = 0;
    uint32_t entries = 0;
    Links of_vport, of_vlan;
  };
  // A ring of keys. The newest is before `next`.
  struct Newest {
    static constexpr size_t kMost = 8;
    std::array<FdbKey, kMost> keys;
    uint8_t next = 0, count = 0;
  };
  // The entries of one vPort. Exists while the vPort has cohorts.
  struct Holding {
    VPortId vport = VPortId::None();
    Counts held{};
    uint32_t first = kNone;  // cohort
    Newest newest;
  };
  using Name = std::pair<uint32_t, uint32_t>;  // vPort; VID and kind

  static Name NameOf(const Cohort& cohort) {
    return {cohort.vport.value(), uint32_t{cohort.vid.value()} << 8 | static_cast<uint32_t>(cohort.kind)};
  }
  uint32_t HoldingFor(VPortId vport);
  const Holding* Find(VPortId vport) const;
  void Count(const Cohort& cohort, int64_t change);
  void Link(uint32_t cohort, Links Cohort::*list, uint32_t* first);
  void Unlink(uint32_t cohort, Links Cohort::*list, uint32_t* first);
  size_t ForgetList(uint32_t first, Links Cohort::*list, Kinds kinds);
  size_t ForgetOne(uint32_t cohort, Kinds kinds);
  void Unlist(uint32_t cohort);

  MacTable* const table_;
  std::deque<Cohort> cohorts_;  // by number; a deque, because it does not double its memory to grow
  std::deque<uint32_t> free_;
  absl::flat_hash_map<Name, uint32_t> by_name_;
  std::deque<Holding> holdings_;
  std::vector<uint32_t> free_holdings_;
  absl::flat_hash_map<VPortId, uint32_t> by_vport_;
  absl::flat_hash_map<Vid, uint32_t> by_vlan_;  // the first cohort of each list
  Ranking ranking_;                             // of holdings, by dynamic entries
  size_t live_ = 0, forgotten_ = 0;
  // The last answer of Find: learning asks for one vPort many times in a row.
  mutable VPortId found_ = VPortId::None();
  mutable uint32_t found_holding_ = 0;
};

}  // namespace eoib

#endif  // EOIB_FDB_COHORTS_H_
