// VPortDirectory: what a VPortId stands for, published to the workers.
//
// The FDB says which vPort a MAC is behind; the directory says where that vPort is: a local port of the agent, or a remote
// peer's addresses, each a (GID, QPN) with the address handle that reaches it. Moving a MAC changes the FDB; a peer that
// restarts, or whose path changes, changes one directory entry however many MACs are behind it. The address handle is an opaque
// index here: its owner is vswitch/fabric.
//
// A peer that was never announced is one data-only vPort for each (GID, QPN). When an agent restarts it comes back with
// another QPN at the same GID; Readdress then moves its entry, and all MACs behind it, in one step.
//
// An announced vPort may have several addresses (an aggregate): each is interned to it, so a MAC does not move between them,
// and each flow goes to one of those that are up (flow_spread.h). An address that is lost moves its flows only.
//
// Bounds. Whoever sends from one queue pair after the other makes a vPort with each. A port has kDataOnlyPerPort of them and no
// more, so it takes none from others; Reclaim takes back those that nobody hears of any more.
//
// Readers. A vPort with one address is one 64-bit word. An aggregate's word points to a block of 64 route words, of which the
// flow's hash takes one; to lose an address is to store those words that led to it. A block belongs to its VPortId for as long
// as the directory lives and is not freed before. So whoever reads it through a word that has been replaced meanwhile finds a
// route that this VPortId had when it began, or has had since, and never another one's.
//
// Threads. Get, NoteHeard and generation are wait-free and may be called by any worker for each frame. The rest takes a mutex:
// slow path only (a peer seen for the first time, a resolved path). Reclaim is called by one thread at a time.
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
#include "fdb/address.h"
#include "fdb/flow_spread.h"
#include "fdb/vport.h"
#include "fdb/vport_address.h"

namespace eoib {

// Where a vPort is, as a worker needs it.
struct Route {
  enum class Kind : uint8_t { kNone, kLocal, kRemote, kAggregate };

  Kind kind = Kind::kNone;
  uint32_t local_port = 0;       // kLocal: the agent's index of the port, below 2^24
  Qpn qpn;                       // kRemote
  AhIndex ah = AhIndex::None();  // kRemote; none: no address of the vPort is up
  uint8_t hca_port = 0;          // kRemote: ours, through which to send
};

class VPortDirectory {
 public:
  static constexpr size_t kMaxAddresses = FlowSpread::kMaxMembers;
  // Data-only vPorts of one GID. An agent has a queue pair for each of its workers, and a few agents may share a port; one that
  // restarts is mostly followed, else it leaves vPorts behind until they are reclaimed. 64 is a few times what that takes, and
  // still a thousand ports have to conspire to fill a directory.
  static constexpr size_t kDataOnlyPerPort = 64;

  // Room for `limit` vPorts, at most 2^20; memory is taken as they come.
  explicit VPortDirectory(size_t limit = 65536);
  ~VPortDirectory();
  VPortDirectory(const VPortDirectory&) = delete;
  VPortDirectory& operator=(const VPortDirectory&) = delete;

  // Wait-free. `vport` must have come from this directory (or be None: kNone). Of an aggregate the kind alone.
  Route Get(VPortId vport) const;
  // The same for one flow, whose hash `flow_hash()` is asked for if the vPort is an aggregate: the address that takes this
  // flow, as kRemote.
  template <typename FlowHash>
  Route Get(VPortId vport, FlowHash flow_hash) const;
  // Wait-free: a datagram of `vport` has come. See Reclaim.
  void NoteHeard(VPortId vport) const;
  // Changes whenever an address may stand for another vPort than before (Readdress, Remove, Announce with other addresses):
  // what a worker remembers of Intern is void then.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  // A new vPort for the agent's local port `local_port`. None if the directory is full.
  VPortId AddLocal(uint32_t local_port);
  // The vPort that has the address `peer`, made if it is new (*created, if given, tells). None if the directory is full, or the
  // port has as many data-only vPorts as it may have.
  VPortId Intern(const PeerAddress& peer, bool* created = nullptr);
  // The vPort that has the address `peer`, or None.
  VPortId Find(const PeerAddress& peer) const;

  // The peer behind `vport`: of an aggregate its first address. Nothing if it is local or gone.
  absl::optional<PeerAddress> Peer(VPortId vport) const;
  // Its address at port `gid`; nothing if it has none there, or several.
  absl::optional<PeerAddress> AddressAt(VPortId vport, const Gid& gid) const;
  // All vPorts that lead to `peer`. The one that it stands for is the first; others did when they were readdressed, or before
  // it was announced whose it is.
  std::vector<VPortId> LeadingTo(const PeerAddress& peer) const;
  // All addresses of `vport`; none if it is local or gone.
  std::vector<VPortAddress> Addresses(VPortId vport) const;

  // `vport`, a remote peer's, has announced what it can and that it is at `addresses`, of which peer and hca_port count here.
  // The caller has heard so from each of them: whoever announces an address first has it. What is known of the paths to those
  // that it had stays; for the new ones there are none yet. None of them is lost. An address of a data-only vPort becomes this
  // one's (that vPort still leads there, until the MACs behind it have been heard from here and it is reclaimed). False, and
  // nothing changed, if `vport` is not a remote's, there are none or more than kMaxAddresses, two are the same, or one is
  // another announced vPort's.
  bool Announce(VPortId vport, absl::Span<const VPortAddress> addresses, const VPortCapabilities& capabilities);
  // `vport`'s address at the port of `peer` is now `peer`, which was heard. Its address handle stays: the path is the port's,
  // not the QP's. If `peer` had a vPort already, that one now means `vport`'s new address too. False if AddressAt finds none
  // there, or `peer` is an announced vPort's: what is inferred does not displace what was said.
  bool Readdress(VPortId vport, const PeerAddress& peer);
  // The path to port `gid`, for the addresses that `vport` has there. False if there are none.
  bool SetPath(VPortId vport, const Gid& gid, AhIndex ah, Lid lid = Lid());
  // `peer`, an address of `vport`, is lost, or is there again. False if it is not its address.
  bool SetLost(VPortId vport, const PeerAddress& peer, bool lost);
  // The caller has flushed the FDB of it.
  void Remove(VPortId vport);

  // Removes the data-only vPorts that were not heard since the last call and that are not `in_use` (the FDB has no entry of
  // them; asked without a lock); returns how many. A worker may have one in its batch still and learn it once more. Such an
  // entry floods, because its vPort is gone, until its MAC is heard anew; and the number of a vPort that was removed is not
  // given to another before a later call has found that it is not `in_use`. Announced vPorts go when their announcer does.
  // Call it every ten seconds or so.
  size_t Reclaim(absl::FunctionRef<bool(VPortId)> in_use);

  struct Row {
    VPortId vport;
    Route route;  // of an aggregate the kind alone
    VPortState state;
    std::vector<VPortAddress> addresses;  // none if local
    VPortCapabilities capabilities;
  };
  std::vector<Row> Dump() const;

 private:
  // A route in one word: kind 2 bits, QPN or local port 24, address-handle index 24, HCA port 8, from the lowest on. Or kind
  // kAggregate and the address of a block, whose alignment leaves room for it.
  static constexpr uint64_t kKindMask = 3;
  static constexpr size_t kChunk = 1024;
  struct Chunk {
    std::array<std::atomic<uint64_t>, kChunk> words{};
    std::array<std::atomic<bool>, kChunk> heard{};  // since the last Reclaim
  };
  struct alignas(64) Block {
    std::array<std::atomic<uint64_t>, FlowSpread::kShares> words{};
  };

  struct Address : VPortAddress {
    uint64_t key = 0;  // in the spread; stays when the agent restarts
  };
  struct Entry {
    std::vector<Address> addresses;  // none if local or gone
    VPortCapabilities capabilities;
  };
  struct Aggregate {
    Block block;
    absl::optional<FlowSpread> spread;  // of the entry's addresses, if there are several
  };

  static uint64_t Pack(const Route& route);
  static Route Unpack(uint64_t word);
  static Route::Kind KindOf(uint64_t word) { return static_cast<Route::Kind>(word & kKindMask); }
  uint64_t Word(VPortId vport) const;

  Chunk* ChunkOf(VPortId vport) const;
  static Route RouteTo(const Address& address);
  void Store(VPortId vport, uint64_t word);
  void Publish(VPortId vport) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Spread(VPortId vport, const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PublishAggregate(const Entry& entry, Aggregate* aggregate) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  VPortId Allocate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool IsRemote(VPortId vport) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  absl::optional<size_t> OnlyAddressAt(VPortId vport, const Gid& gid) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool MayAnnounce(VPortId vport, absl::Span<const VPortAddress> addresses) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool IsOfAnotherAnnounced(VPortId vport, const PeerAddress& peer) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void Forget(VPortId vport, const PeerAddress& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LeaveQuota(VPortId vport) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveLocked(VPortId vport) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsSilent(VPortId vport) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  void FreeRemoved(absl::FunctionRef<bool(VPortId)> in_use);
  bool TakeSilent(uint32_t first, std::vector<VPortId>* silent);
  bool RemoveIfSilent(VPortId vport);

  const size_t limit_;
  std::atomic<uint64_t> generation_{0};
  std::unique_ptr<std::atomic<Chunk*>[]> chunks_;  // appended to only
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<PeerAddress, VPortId> by_peer_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Gid, std::vector<VPortId>> data_only_ ABSL_GUARDED_BY(mutex_);  // vPorts of a port
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);                                // by VPortId
  // By VPortId, of all that ever were aggregates.
  absl::flat_hash_map<VPortId, std::unique_ptr<Aggregate>> aggregates_ ABSL_GUARDED_BY(mutex_);
  std::deque<VPortId> removed_ ABSL_GUARDED_BY(mutex_);  // the FDB may have them yet
  std::deque<VPortId> free_ ABSL_GUARDED_BY(mutex_);     // taken again, the oldest first, when no fresh ones are left
};

inline VPortDirectory::Chunk* VPortDirectory::ChunkOf(VPortId vport) const {
  if (vport.value() >= limit_) return nullptr;
  return chunks_[vport.value() / kChunk].load(std::memory_order_acquire);
}

// Zero, which is kNone, for None and for what never came from this directory.
inline uint64_t VPortDirectory::Word(VPortId vport) const {
  const Chunk* const chunk = ChunkOf(vport);
  return chunk == nullptr ? 0 : chunk->words[vport.value() % kChunk].load(std::memory_order_acquire);
}

template <typename FlowHash>
Route VPortDirectory::Get(VPortId vport, FlowHash flow_hash) const {
  uint64_t word = Word(vport);
  if (ABSL_PREDICT_FALSE(KindOf(word) == Route::Kind::kAggregate)) {
    const auto* const block = reinterpret_cast<const Block*>(word & ~kKindMask);
    word = block->words[flow_hash() % FlowSpread::kShares].load(std::memory_order_acquire);
  }
  return Unpack(word);
}

}  // namespace eoib

#endif  // EOIB_FDB_VPORT_DIRECTORY_H_
