// Cohorts: who holds how much of an FDB, and which entries go together.
//
// A cohort is what one vPort has in one VLAN, of one kind. All of its entries are forgotten by one store (MacTable::SetCohort),
// without a walk through the table; what is left of them there is reclaimed later, bit by bit, and nobody finds it meanwhile. A
// cohort's number is free for another when its last entry is out of the table.
//
// Of each vPort this knows how many entries it has, which it brought last, and which vPort has most: what fair eviction asks.
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

// What may happen to entries of a cohort.
enum class CohortKind : uint8_t {
  kDynamic,  // learned or announced: they age, move, are flushed and evicted
  kPinned,   // learned, and held where they are: sticky or frozen
  kFixed,    // static, or the manager's
};
inline constexpr size_t kCohortKinds = 3;

// The writer's, like the table that it is about, which outlives it. Each entry that comes into the table or leaves it is told
// here, in the same breath.
class Cohorts {
 public:
  struct Holder {
    VPortId vport = VPortId::None();
    size_t dynamic = 0;
  };

  explicit Cohorts(MacTable* table) : table_(table) {}
  Cohorts(const Cohorts&) = delete;
  Cohorts& operator=(const Cohorts&) = delete;

  // The cohort for an entry, made if it is new. Nothing if there is no memory for it.
  absl::optional<CohortId> For(VPortId vport, Vid vid, CohortKind kind);
  // `key` is in the table now, in `cohort`.
  void Joined(CohortId cohort, FdbKey key);
  // An entry of `cohort` is in the table no more, or in another cohort.
  void Left(CohortId cohort);

  // Forgotten: its entries are still in the table, and nobody finds them.
  bool IsForgotten(CohortId cohort) const { return cohorts_[cohort.value()].vport.IsNone(); }
  VPortId VPortOf(CohortId cohort) const { return cohorts_[cohort.value()].vport; }
  CohortKind KindOf(CohortId cohort) const { return cohorts_[cohort.value()].kind; }

  // Forgets all of a vPort, a VLAN, or everywhere that is of one of `kinds`; returns how many entries that were.
  using Kinds = std::initializer_list<CohortKind>;
  size_t ForgetVPort(VPortId vport, Kinds kinds);
  size_t ForgetVlan(Vid vid, Kinds kinds);
  size_t ForgetAll(Kinds kinds);

  // Entries that are not forgotten: of a vPort, of all.
  size_t Held(VPortId vport, CohortKind kind) const;
  size_t Held(VPortId vport) const;
  size_t live() const { return live_; }
  // Entries that are, and wait to be reclaimed.
  size_t forgotten() const { return forgotten_; }
  // Who has most dynamic entries.
  Holder Largest() const;
  // Calls `visit` on all vPorts with entries, in no order.
  using Counts = std::array<size_t, kCohortKinds>;  // by kind
  void VisitHolders(absl::FunctionRef<void(VPortId vport, const Counts& held)> visit) const;

  // The key that `vport` brought last, of the few that are remembered of it, and forgets it; it may have left since.
  absl::optional<FdbKey> TakeNewest(VPortId vport);

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  // A cohort's place among those of its vPort, or of its VLAN.
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
  // Keys, the newest of which is before `next`.
  struct Newest {
    static constexpr size_t kMost = 8;
    std::array<FdbKey, kMost> keys;
    uint8_t next = 0, count = 0;
  };
  // What a vPort has. It is known as long as it has cohorts.
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
  std::deque<Cohort> cohorts_;  // by number; a deque, which does not take twice of what it needs
  std::deque<uint32_t> free_;
  absl::flat_hash_map<Name, uint32_t> by_name_;
  std::deque<Holding> holdings_;
  std::vector<uint32_t> free_holdings_;
  absl::flat_hash_map<VPortId, uint32_t> by_vport_;
  absl::flat_hash_map<Vid, uint32_t> by_vlan_;  // the first cohort
  Ranking ranking_;                             // of holdings, by dynamic entries
  size_t live_ = 0, forgotten_ = 0;
  // The last answer of Find: who learns does so many times in a row.
  mutable VPortId found_ = VPortId::None();
  mutable uint32_t found_holding_ = 0;
};

}  // namespace eoib

#endif  // EOIB_FDB_COHORTS_H_
