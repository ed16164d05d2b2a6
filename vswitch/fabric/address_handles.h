// AddressHandles: the address handles of one protection domain. Control makes and retires them;
// workers post with them by index.
//
// The key is (DGID, DLID, SL) and the other attributes of the path record, so the vPorts behind one
// port share a handle. Handles are made off the data path, because making one can take a second on
// RoCE. Reap destroys a retired handle when the slot counts no more sends that use it.
//
// Threads: workers call Acquire and Release, which are wait-free. All other members are for control
// threads and serialise inside. A Get that waits for the HCA blocks no other caller.
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
#include "fdb/vport_address.h"
#include "vswitch/base/address.h"
#include "vswitch/fabric/hca.h"

namespace eoib {

// The key of an address handle: the port or group that it reaches.
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
  // EoIB: always; IPoIB may leave it out of unicast within a subnet (RFC 4391 §6)
  bool grh = true;

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

  // Returns the handle for `key` and `attributes`, and makes it if there is none. Each Get adds a
  // user; Put removes one.
  absl::StatusOr<AhIndex> Get(const PathKey& key, const PathAttributes& attributes);
  // Removes a user. A handle without users is retired; a later Reap destroys it.
  void Put(AhIndex index);
  // Makes Get create new handles from now on, because the port's LID or GID changed. Present users
  // keep their handles until Put.
  void Renew();
  // Destroys the retired handles that no send uses. Returns how many are still in use.
  size_t Reap();

  // Worker: returns the handle to post with, or null if the index is none, retired or unknown. The
  // worker must Release a handle that is not null.
  ibv_ah* Acquire(AhIndex index);
  void Release(AhIndex index);
  // Worker, between Acquire and Release: the key of the handle.
  using Key = std::pair<PathKey, PathAttributes>;
  const Key& KeyOf(AhIndex acquired) const { return slots_[SlotOf(acquired)].key; }

  size_t size() const;

 private:
  // An AhIndex holds a slot and the slot's generation, so a stale index never selects a later
  // handle in the same slot. Generation 0xff is unused: no valid index equals AhIndex::None().
  static constexpr uint32_t kSlotBits = 16;
  static constexpr uint32_t kGenerations = 0xff;

  struct Slot {
    std::atomic<ibv_ah*> ah{nullptr};
    std::atomic<uint32_t> sends{0};
    // Changes only while `ah` is null and no send uses the slot.
    std::atomic<uint32_t> generation{0};
    // Written by control; constant between Acquire and Release.
    Key key;
    uint32_t users = 0;  // control only
  };

  static uint32_t SlotOf(AhIndex index) { return index.value() & ((1u << kSlotBits) - 1); }
  static uint32_t GenerationOf(AhIndex index) { return index.value() >> kSlotBits; }
  AhIndex IndexOf(uint32_t slot) const;
  absl::StatusOr<ibv_ah*> Make(const PathKey& key, const PathAttributes& attributes) const;
  // Returns the existing handle with one more user; None if it must be made; an error if the table
  // is full.
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
