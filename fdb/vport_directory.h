// VPortDirectory: what a VPortId stands for, published to the workers.
//
// The FDB says which vPort a MAC is behind; the directory says where that vPort is: a local port of the agent, or a remote
// peer's (GID, QPN) with the address handle that reaches it. Moving a MAC changes the FDB; a peer that restarts, or whose path
// changes, changes one directory entry however many MACs are behind it. The address handle is an opaque index here: its owner
// is vswitch/fabric.
//
// A peer that was never announced is one data-only vPort for each (GID, QPN). When an agent restarts it comes back with
// another QPN at the same GID; Readdress then moves its entry, and all MACs behind it, in one step.
//
// Threads. Get and generation are wait-free and may be called by any worker for each frame. The rest takes a mutex: slow path
// only (a peer seen for the first time, a resolved path).
#ifndef EOIB_FDB_VPORT_DIRECTORY_H_
#define EOIB_FDB_VPORT_DIRECTORY_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "fdb/address.h"
#include "fdb/vport.h"

namespace eoib {

// The index of an address handle in vswitch/fabric's table. None: not resolved yet.
class AhIndex : public Number<struct AhIndexTag, uint32_t> {
 public:
  using Number::Number;
  static constexpr AhIndex None() { return AhIndex(0xffffff); }
  constexpr bool IsNone() const { return *this == None(); }
};

// Where a vPort is, as a worker needs it.
struct Route {
  enum class Kind : uint8_t { kNone, kLocal, kRemote };

  Kind kind = Kind::kNone;
  uint32_t local_port = 0;       // kLocal: the agent's index of the port, below 2^24
  Qpn qpn;                       // kRemote
  AhIndex ah = AhIndex::None();  // kRemote; none until control has resolved the peer
};

class VPortDirectory {
 public:
  // Room for `limit` vPorts, at most 2^20; memory is taken as they come.
  explicit VPortDirectory(size_t limit = 65536);
  ~VPortDirectory();
  VPortDirectory(const VPortDirectory&) = delete;
  VPortDirectory& operator=(const VPortDirectory&) = delete;

  // Wait-free. `vport` must have come from this directory (or be None: kNone).
  Route Get(VPortId vport) const;
  // Changes whenever an address may stand for another vPort than before (Readdress, Remove): what a worker remembers of
  // Intern is void then.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  // A new vPort for the agent's local port `local_port`. None if the directory is full.
  VPortId AddLocal(uint32_t local_port);
  // The vPort of `peer`, made if it is new (*created, if given, tells). None if the directory is full.
  VPortId Intern(const PeerAddress& peer, bool* created = nullptr);
  // The vPort of `peer`, or None.
  VPortId Find(const PeerAddress& peer) const;
  // The peer behind `vport`; nothing if it is local or gone.
  absl::optional<PeerAddress> Peer(VPortId vport) const;
  // `vport`, a remote peer's, is now at `peer` (the same GID). Its address handle stays: the path is the port's, not the
  // QP's. If `peer` had a vPort already, that one now means `vport`'s new address too. False if `vport` is not a remote's (or
  // is by now one of another GID).
  bool Readdress(VPortId vport, const PeerAddress& peer);
  // False if `vport` is not a remote's.
  bool SetAddressHandle(VPortId vport, AhIndex ah);
  // The caller has flushed the FDB of it.
  void Remove(VPortId vport);

  struct Row {
    VPortId vport;
    Route route;
    PeerAddress peer;  // kRemote
  };
  std::vector<Row> Dump() const;

 private:
  // A route in one word: kind 2 bits, address-handle index 24, QPN or local port 24.
  static constexpr size_t kChunk = 1024;
  using Chunk = std::array<std::atomic<uint64_t>, kChunk>;

  std::atomic<uint64_t>* Slot(VPortId vport) const;
  void Publish(VPortId vport, const Route& route);
  VPortId Allocate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t limit_;
  std::atomic<uint64_t> generation_{0};
  std::unique_ptr<std::atomic<Chunk*>[]> chunks_;  // appended to only
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<PeerAddress, VPortId> by_peer_ ABSL_GUARDED_BY(mutex_);
  std::vector<PeerAddress> peers_ ABSL_GUARDED_BY(mutex_);  // by VPortId
  std::deque<VPortId> removed_ ABSL_GUARDED_BY(mutex_);     // taken again, the oldest first, when no fresh ones are left
};

}  // namespace eoib

#endif  // EOIB_FDB_VPORT_DIRECTORY_H_
