// AddressHandles: the table of address handles of one protection domain, shared between control (which makes and retires them)
// and the worker (which posts with them by index).
//
// A handle is keyed (DGID, DLID, SL) and what else the path's record says: many vPorts behind one port share it. It is made off
// the data path (creating one may take a second on RoCE) and destroyed after its last send has completed: the worker counts its
// sends in each slot, and Reap destroys retired handles whose count is zero.
//
// Threads. Acquire and Release: the worker, wait-free. All else: control threads, serialised inside; a Get that waits for the
// HCA to make a handle holds up nobody else.
#ifndef EOIB_VSWITCH_FABRIC_ADDRESS_HANDLES_H_
#define EOIB_VSWITCH_FABRIC_ADDRESS_HANDLES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "fdb/address.h"
#include "fdb/vport_address.h"
#include "vswitch/fabric/hca.h"

namespace eoib {

// How to reach a port: what goes into an address handle.
struct PathKey {
  Gid dgid;
  uint16_t dlid = 0;  // a LID or an MLID; 0 on RoCE
  Sl sl;

  friend constexpr auto operator<=>(const PathKey&, const PathKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const PathKey& key) {
    return H::combine(std::move(h), key.dgid, key.dlid, key.sl);
  }
};
struct PathAttributes {
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint32_t flow_label = 0;
  uint8_t rate = 0;  // static rate, IBA code; 0: the port's
  bool grh = true;   // of EoIB always; IPoIB may leave it out of unicast within a subnet (RFC 4391 §6)

  friend constexpr auto operator<=>(const PathAttributes&, const PathAttributes&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const PathAttributes& a) {
    return H::combine(std::move(h), a.traffic_class, a.hop_limit, a.flow_label, a.rate, a.grh);
  }
};

class AddressHandles {
 public:
  static constexpr size_t kMax = 65536;

  AddressHandles(Hca* hca, ibv_pd* pd, size_t limit = kMax);
  // Destroys all handles; no send may be outstanding.
  ~AddressHandles();
  AddressHandles(const AddressHandles&) = delete;
  AddressHandles& operator=(const AddressHandles&) = delete;

  // The handle for `key` with these attributes, made if there is none; each Get adds a user. Errors say what was attempted and
  // why it failed.
  absl::StatusOr<AhIndex> Get(const PathKey& key, const PathAttributes& attributes);
  // Takes a user away; without users the handle is retired and destroyed by a later Reap.
  void Put(AhIndex index);
  // From now on, Get makes new handles: what the present ones were made from (the port's LID or GID) has changed. They serve
  // their users until these have put them back.
  void Renew();
  // Destroys retired handles that no send uses; returns how many are still waiting.
  size_t Reap();

  // Worker: the handle to post with, or null if the index is none, retired or unknown. After a non-null return the worker owes
  // one Release.
  ibv_ah* Acquire(AhIndex index);
  void Release(AhIndex index);
  // Worker, between Acquire and Release: what the handle was made from.
  using Key = std::pair<PathKey, PathAttributes>;
  const Key& KeyOf(AhIndex acquired) const { return slots_[SlotOf(acquired)].key; }

  size_t size() const;

 private:
  // An AhIndex is a slot and, above it, the slot's generation: a worker that still holds the index of a handle that is gone
  // must not send through the next one in the same slot. Generation 0xff is never used, so that no index is AhIndex::None().
  static constexpr uint32_t kSlotBits = 16;
  static constexpr uint32_t kGenerations = 0xff;

  struct Slot {
    std::atomic<ibv_ah*> ah{nullptr};
    std::atomic<uint32_t> sends{0};
    std::atomic<uint32_t> generation{0};  // changes only while `ah` is null and `sends` was seen to be 0
    Key key;                              // control; the worker reads it while it owes a Release, when it does not change
    uint32_t users = 0;                   // control only
  };

  static uint32_t SlotOf(AhIndex index) { return index.value() & ((1u << kSlotBits) - 1); }
  static uint32_t GenerationOf(AhIndex index) { return index.value() >> kSlotBits; }
  AhIndex IndexOf(uint32_t slot) const;
  absl::StatusOr<ibv_ah*> Make(const PathKey& key, const PathAttributes& attributes) const;
  // The handle that there is, with one user more; none if it has to be made. An error if there is no room for it.
  absl::StatusOr<AhIndex> Find(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  AhIndex Insert(const Key& key, ibv_ah* ah) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReapLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Hca* const hca_;
  ibv_pd* const pd_;
  const size_t limit_;
  std::unique_ptr<Slot[]> slots_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<Key, uint32_t> by_key_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> free_ ABSL_GUARDED_BY(mutex_);
  struct Retired {
    uint32_t slot;
    ibv_ah* ah;
  };
  std::vector<Retired> retired_ ABSL_GUARDED_BY(mutex_);
  uint64_t renewals_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_ADDRESS_HANDLES_H_
