// VPortDirectory: maps a VPortId to the place of the vPort, and publishes it to the workers.
//
// The FDB says which vPort a MAC is behind. The directory says where that vPort is: a local port,
// or the addresses of a remote peer, each a (GID, QPN) with an opaque index of its address handle.
// A peer that restarts, or whose path changes, changes one directory entry, however many MACs are
// behind it. README.md ("The vPort directory") has the layout, the spread of flows, the reasons why
// readers need no lock, and the bounds.
//
// Threads. Get, NoteHeard, NoteSent and generation are wait-free; any worker may call them for each
// frame. TakeTraffic is wait-free too, for one thread at a time. The rest takes a mutex and is for
// the slow path (a peer seen for the first time, a resolved path). One thread at a time calls
// Reclaim.
//
// Invariants: a published word is written under the mutex. The memory that readers may look into
// (chunks, blocks of aggregates) lives as long as the directory. An address belongs to one vPort. A
// number is not given out again while the FDB may have entries of it (Reclaim).
#ifndef EOIB_FDB_VPORT_DIRECTORY_H_
#define EOIB_FDB_VPORT_DIRECTORY_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "fdb/flow_spread.h"
#include "fdb/route.h"
#include "fdb/vport.h"
#include "fdb/vport_address.h"
#include "vswitch/base/address.h"

namespace eoib {

class VPortDirectory {
 public:
  static constexpr size_t kMaxAddresses = FlowSpread::kMaxMembers;
  // The most data-only vPorts of one GID, so that a sender cannot fill the directory by changing
  // queue pairs. An agent has a queue pair for each worker, and a few agents may share a port. A
  // restarted agent leaves vPorts behind until they are reclaimed. 64 is a few times what that
  // takes, and it still takes a thousand ports to fill a directory.
  static constexpr size_t kDataOnlyPerPort = 64;

  // Room for `limit` vPorts, at most 2^20. Memory grows with their number.
  explicit VPortDirectory(size_t limit = 65536);
  ~VPortDirectory();
  VPortDirectory(const VPortDirectory&) = delete;
  VPortDirectory& operator=(const VPortDirectory&) = delete;

  // Wait-free. `vport` must come from this directory, or be None (kNone). For an aggregate only the
  // kind is set, and that it has announced itself.
  Route Get(VPortId vport) const;
  // The route of one flow. For an aggregate, calls `flow_hash()` and returns the address that takes
  // this flow, as kRemote.
  template <typename FlowHash>
  Route Get(VPortId vport, FlowHash flow_hash) const;
  // Wait-free. Note that a datagram of `vport` arrived (see Reclaim), or that one was sent to it.
  void NoteHeard(VPortId vport) const { NoteTraffic(vport, kHeard | kHeardForReclaim); }
  void NoteSent(VPortId vport) const { NoteTraffic(vport, kSent); }
  // Takes what was noted since the last call. Reclaim has its own note, so neither call disturbs
  // the other.
  struct Traffic {
    bool heard = false, sent = false;
  };
  Traffic TakeTraffic(VPortId vport);
  // Changes whenever an address may have gone to another vPort (Remove, Announce with other
  // addresses). A worker's cached results of Intern are then invalid.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  // Adds a vPort for the agent's local port `local_port`. Returns None if the directory is full.
  VPortId AddLocal(uint32_t local_port);
  // Returns the vPort that has the address `peer`, and makes it if it is new (then sets *created,
  // if given). None if the directory is full or the port has kDataOnlyPerPort data-only vPorts.
  VPortId Intern(const PeerAddress& peer, bool* created = nullptr);
  // The vPort that has the address `peer`, or None.
  VPortId Find(const PeerAddress& peer) const;

  // The address of `vport`; for an aggregate the first one. Nothing if the vPort is local or gone.
  absl::optional<PeerAddress> Peer(VPortId vport) const;
  // All addresses of `vport`; none if it is local or gone.
  std::vector<VPortAddress> Addresses(VPortId vport) const;

  // `vport`, a remote peer's, has announced its capabilities and `addresses`, of which only peer
  // and hca_port are used. The caller must have heard the announcement from each address: the first
  // to announce an address keeps it. All of them count as heard, so none is lost. Addresses that
  // `vport` had before keep their paths and flows. A new one takes the path of the data-only vPort
  // that has it, or else the path that `vport` had to that port (GID); the owner of the address
  // handles must count `vport` among their users from then on. If `vport` had one address at that
  // port and now has another one, its agent restarted, and the new address takes over the flows
  // too. An address of a data-only vPort passes to `vport`; the data-only vPort still leads there
  // until the MACs behind it have moved here and it is reclaimed. Returns false and changes nothing
  // if `vport` is not remote, there are no addresses or more than kMaxAddresses, two are equal, or
  // one belongs to another announced vPort.
  bool Announce(VPortId vport, absl::Span<const VPortAddress> addresses,
                const VPortCapabilities& capabilities);
  // Sets the path to port `gid`, for all addresses that `vport` has there. False if it has none.
  bool SetPath(VPortId vport, const Gid& gid, AhIndex ah, Lid lid = Lid());
  // Marks `peer`, an address of `vport`, as lost or as back. False if it is not an address of
  // `vport`.
  bool SetLost(VPortId vport, const PeerAddress& peer, bool lost);
  // Removes `vport`. The caller has flushed its FDB entries.
  void Remove(VPortId vport);

  // Removes the data-only vPorts that were not heard since the last call and are not `in_use` (the
  // FDB has no entry of them); returns how many. Calls `in_use` without a lock. A worker may still
  // have such a vPort in its batch and learn it once more; that entry floods until its MAC is heard
  // again. So the number of a removed vPort is reused only after a later call has found it not
  // `in_use`. Announced vPorts leave with their announcer. Call it about every ten seconds.
  size_t Reclaim(absl::FunctionRef<bool(VPortId)> in_use);

  struct Row {
    VPortId vport;
    Route route;  // for an aggregate only the kind is set
    VPortState state;
    std::vector<VPortAddress> addresses;  // none if local
    VPortCapabilities capabilities;
  };
  std::vector<Row> Dump() const;

 private:
  static constexpr size_t kChunk = 1024;
  struct Chunk {
    std::array<std::atomic<uint64_t>, kChunk> words{};
    std::array<std::atomic<uint8_t>, kChunk> traffic{};  // the bits below
  };
  // Heard or sent since the last TakeTraffic; heard since the last Reclaim.
  static constexpr uint8_t kHeard = 1, kSent = 2, kHeardForReclaim = 4;
  struct alignas(64) Block {
    std::array<std::atomic<uint64_t>, FlowSpread::kShares> words{};
  };

  struct Address : VPortAddress {
    uint64_t key = 0;  // for FlowSpread; stays when the agent restarts at the same port
  };
  struct Entry {
    std::vector<Address> addresses;  // none if local or gone
    VPortCapabilities capabilities;
  };
  struct Aggregate {
    Block block;
    absl::optional<FlowSpread> spread;  // of the entry's addresses, if there are several
  };

  uint64_t Word(VPortId vport) const;
  void NoteTraffic(VPortId vport, uint8_t bits) const;

  Chunk* ChunkOf(VPortId vport) const;
  static Route RouteTo(const Entry& entry, const Address& address);
  void Store(VPortId vport, uint64_t word);
  void Publish(VPortId vport) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Spread(VPortId vport, const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PublishAggregate(const Entry& entry, Aggregate* aggregate)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  VPortId Allocate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool IsRemote(VPortId vport) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool MayAnnounce(VPortId vport, absl::Span<const VPortAddress> addresses) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool IsOfAnotherAnnounced(VPortId vport, const PeerAddress& peer) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool OwnsExactly(VPortId vport, absl::Span<const VPortAddress> addresses) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  static uint64_t NewKey(const PeerAddress& peer, absl::Span<const Address> before,
                         absl::Span<const VPortAddress> announced);
  void TakePath(absl::Span<const Address> before, Address* address) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void Forget(VPortId vport, const PeerAddress& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LeaveQuota(VPortId vport) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveLocked(VPortId vport) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsSilent(VPortId vport) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  void FreeRemoved(absl::FunctionRef<bool(VPortId)> in_use);
  bool TakeSilent(uint32_t first, std::vector<VPortId>* silent);
  bool RemoveIfSilent(VPortId vport);

  const size_t limit_;
  std::atomic<uint64_t> generation_{0};
  std::unique_ptr<std::atomic<Chunk*>[]> chunks_;  // chunks are added, never removed
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<PeerAddress, VPortId> by_peer_ ABSL_GUARDED_BY(mutex_);
  // vPorts of a port.
  absl::flat_hash_map<Gid, std::vector<VPortId>> data_only_ ABSL_GUARDED_BY(mutex_);
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // by VPortId
  // By VPortId, of all vPorts that ever were aggregates: a late reader may still hold a block's
  // address.
  absl::flat_hash_map<VPortId, std::unique_ptr<Aggregate>> aggregates_ ABSL_GUARDED_BY(mutex_);
  std::deque<VPortId> removed_ ABSL_GUARDED_BY(mutex_);  // the FDB may still have entries of them
  // Reused, the oldest first, when no fresh number is left.
  std::deque<VPortId> free_ ABSL_GUARDED_BY(mutex_);
};

inline VPortDirectory::Chunk* VPortDirectory::ChunkOf(VPortId vport) const {
  if (vport.value() >= limit_) return nullptr;
  return chunks_[vport.value() / kChunk].load(std::memory_order_acquire);
}

// Zero, which is kNone, for None and for a number that this directory never gave out.
inline uint64_t VPortDirectory::Word(VPortId vport) const {
  const Chunk* const chunk = ChunkOf(vport);
  return chunk == nullptr ? 0
                          : chunk->words[vport.value() % kChunk].load(std::memory_order_acquire);
}

inline Route VPortDirectory::Get(VPortId vport) const { return RouteWord::Unpack(Word(vport)); }

// Writes only what is new, so that the line stays shared between the workers' caches.
inline void VPortDirectory::NoteTraffic(VPortId vport, uint8_t bits) const {
  Chunk* const chunk = ChunkOf(vport);
  if (chunk == nullptr) return;
  std::atomic<uint8_t>& noted = chunk->traffic[vport.value() % kChunk];
  if (ABSL_PREDICT_FALSE((noted.load(std::memory_order_relaxed) & bits) != bits)) {
    noted.fetch_or(bits, std::memory_order_relaxed);
  }
}

template <typename FlowHash>
Route VPortDirectory::Get(VPortId vport, FlowHash flow_hash) const {
  uint64_t word = Word(vport);
  if (ABSL_PREDICT_FALSE(RouteWord::KindOf(word) == Route::Kind::kAggregate)) {
    const auto* const block = reinterpret_cast<const Block*>(word & ~RouteWord::kKindMask);
    word = block->words[flow_hash() % FlowSpread::kShares].load(std::memory_order_acquire);
  }
  return RouteWord::Unpack(word);
}

}  // namespace eoib

#endif  // EOIB_FDB_VPORT_DIRECTORY_H_
