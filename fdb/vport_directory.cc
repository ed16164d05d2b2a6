#include "fdb/vport_directory.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "vswitch/base/check.h"

namespace eoib {
namespace {

constexpr size_t kMaxLimit = size_t{1} << 20;
// vPorts that Reclaim checks for each time it holds the lock.
constexpr uint32_t kReclaimedAtATime = 256;

// Not a hash seeded by process: an address must take the same flows after a restart.
uint64_t KeyOf(const PeerAddress& peer) {
  const uint64_t gid = peer.gid.prefix() * 0x9e37'79b9'7f4a'7c15 + peer.gid.guid().value();
  return gid * 0xc2b2'ae3d'27d4'eb4f + peer.qpn.value();
}

// The only one of `addresses` at port `gid`. Null if there is none, or several.
template <typename Address>
const Address* OnlyAt(const Gid& gid, absl::Span<const Address> addresses) {
  const auto is_there = [&gid](const Address& address) { return address.peer.gid == gid; };
  const auto found = std::find_if(addresses.begin(), addresses.end(), is_there);
  if (found == addresses.end() || std::any_of(found + 1, addresses.end(), is_there)) return nullptr;
  return &*found;
}

}  // namespace

VPortDirectory::VPortDirectory(size_t limit)
    : limit_(limit),
      chunks_(std::make_unique<std::atomic<Chunk*>[]>((limit + kChunk - 1) / kChunk)) {
  EOIB_CHECK(limit <= kMaxLimit);
}

VPortDirectory::~VPortDirectory() {
  for (size_t i = 0; i * kChunk < limit_; ++i) delete chunks_[i].load(std::memory_order_relaxed);
}

// ---- Publishing ---------------------------------------------------------------------------------

VPortDirectory::Traffic VPortDirectory::TakeTraffic(VPortId vport) {
  Chunk* const chunk = ChunkOf(vport);
  if (chunk == nullptr) return {};
  const uint8_t noted = chunk->traffic[vport.value() % kChunk].fetch_and(
      static_cast<uint8_t>(~(kHeard | kSent)), std::memory_order_relaxed);
  return {(noted & kHeard) != 0, (noted & kSent) != 0};
}

void VPortDirectory::Store(VPortId vport, uint64_t word) {
  ChunkOf(vport)->words[vport.value() % kChunk].store(word, std::memory_order_release);
}

Route VPortDirectory::RouteTo(const Entry& entry, const Address& address) {
  return {.kind = Route::Kind::kRemote,
          .qpn = address.peer.qpn,
          .ah = address.state() == VPortState::kUp ? address.ah : AhIndex::None(),
          .hca_port = address.hca_port,
          .takes_segments = entry.capabilities.TakesSegments(),
          .announced = entry.capabilities.announced};
}

// Completes an aggregate's block before a word leads to it.
void VPortDirectory::Publish(VPortId vport) {
  const Entry& entry = entries_[vport.value()];
  if (entry.addresses.size() == 1)
    return Store(vport, RouteWord::Pack(RouteTo(entry, entry.addresses[0])));
  Aggregate* const aggregate = aggregates_.at(vport).get();
  PublishAggregate(entry, aggregate);
  const uint64_t word = reinterpret_cast<uintptr_t>(&aggregate->block) |
                        static_cast<uint64_t>(Route::Kind::kAggregate);
  if (Word(vport) != word) Store(vport, word);
}

void VPortDirectory::PublishAggregate(const Entry& entry, Aggregate* aggregate) {
  uint32_t usable = 0;
  for (size_t i = 0; i < entry.addresses.size(); ++i)
    usable |= (entry.addresses[i].state() == VPortState::kUp) << i;
  for (size_t share = 0; share < FlowSpread::kShares; ++share) {
    const int taker = aggregate->spread->Pick(share, usable);
    const uint64_t word = RouteWord::Pack(taker >= 0 ? RouteTo(entry, entry.addresses[taker])
                                                     : Route{.kind = Route::Kind::kRemote});
    std::atomic<uint64_t>& published = aggregate->block.words[share];
    if (published.load(std::memory_order_relaxed) != word)
      published.store(word, std::memory_order_release);
  }
}

// ---- Making and finding -------------------------------------------------------------------------

// Returns an unused number. A removed number is reused as late as possible: a worker may still have
// it in a batch, and learn it once more after the FDB was flushed.
VPortId VPortDirectory::Allocate() {
  if (entries_.size() < limit_) {
    const VPortId vport(static_cast<uint32_t>(entries_.size()));
    std::atomic<Chunk*>& chunk = chunks_[vport.value() / kChunk];
    if (chunk.load(std::memory_order_relaxed) == nullptr)
      chunk.store(new Chunk(), std::memory_order_release);
    entries_.emplace_back();
    return vport;
  }
  if (free_.empty()) return VPortId::None();
  const VPortId vport = free_.front();
  free_.pop_front();
  // It was another vPort's.
  ChunkOf(vport)->traffic[vport.value() % kChunk].store(0, std::memory_order_relaxed);
  return vport;
}

VPortId VPortDirectory::AddLocal(uint32_t local_port) {
  EOIB_CHECK(local_port <= RouteWord::kFieldMask);
  absl::MutexLock lock(&mutex_);
  const VPortId vport = Allocate();
  if (!vport.IsNone())
    Store(vport, RouteWord::Pack({.kind = Route::Kind::kLocal, .local_port = local_port}));
  return vport;
}

VPortId VPortDirectory::Intern(const PeerAddress& peer, bool* created) {
  absl::MutexLock lock(&mutex_);
  if (created != nullptr) *created = false;
  const auto known = by_peer_.find(peer);
  if (known != by_peer_.end()) {
    NoteHeard(known->second);
    return known->second;
  }
  const auto quota = data_only_.find(peer.gid);
  // Each queue pair makes a vPort, so one port could otherwise fill the directory.
  if (quota != data_only_.end() && quota->second.size() >= kDataOnlyPerPort) return VPortId::None();
  const VPortId vport = Allocate();
  if (vport.IsNone()) return vport;
  if (created != nullptr) *created = true;
  by_peer_.emplace(peer, vport);
  data_only_[peer.gid].push_back(vport);
  Address address;
  address.peer = peer;
  address.key = KeyOf(peer);
  entries_[vport.value()].addresses.assign(1, address);
  NoteHeard(vport);
  Publish(vport);
  return vport;
}

VPortId VPortDirectory::Find(const PeerAddress& peer) const {
  absl::ReaderMutexLock lock(&mutex_);
  const auto known = by_peer_.find(peer);
  return known == by_peer_.end() ? VPortId::None() : known->second;
}

bool VPortDirectory::IsRemote(VPortId vport) const {
  return vport.value() < entries_.size() && !entries_[vport.value()].addresses.empty();
}

absl::optional<PeerAddress> VPortDirectory::Peer(VPortId vport) const {
  absl::ReaderMutexLock lock(&mutex_);
  if (!IsRemote(vport)) return absl::nullopt;
  return entries_[vport.value()].addresses[0].peer;
}

std::vector<VPortAddress> VPortDirectory::Addresses(VPortId vport) const {
  absl::ReaderMutexLock lock(&mutex_);
  if (!IsRemote(vport)) return {};
  const std::vector<Address>& addresses = entries_[vport.value()].addresses;
  return {addresses.begin(), addresses.end()};
}

// ---- Changes ------------------------------------------------------------------------------------

bool VPortDirectory::IsOfAnotherAnnounced(VPortId vport, const PeerAddress& peer) const {
  const auto owner = by_peer_.find(peer);
  return owner != by_peer_.end() && owner->second != vport &&
         entries_[owner->second.value()].capabilities.announced;
}

// Removes `peer` from the index, unless it already belongs to another vPort.
void VPortDirectory::Forget(VPortId vport, const PeerAddress& peer) {
  const auto known = by_peer_.find(peer);
  if (known != by_peer_.end() && known->second == vport) by_peer_.erase(known);
}

void VPortDirectory::LeaveQuota(VPortId vport) {
  const auto quota = data_only_.find(entries_[vport.value()].addresses[0].peer.gid);
  quota->second.erase(std::find(quota->second.begin(), quota->second.end(), vport));
  if (quota->second.empty()) data_only_.erase(quota);
}

bool VPortDirectory::MayAnnounce(VPortId vport, absl::Span<const VPortAddress> addresses) const {
  if (!IsRemote(vport) || addresses.empty() || addresses.size() > kMaxAddresses) return false;
  absl::flat_hash_set<PeerAddress> distinct;
  for (const VPortAddress& address : addresses) {
    if (!distinct.insert(address.peer).second || IsOfAnotherAnnounced(vport, address.peer))
      return false;
  }
  return true;
}

// True if `addresses` are exactly those that `vport` owns.
bool VPortDirectory::OwnsExactly(VPortId vport, absl::Span<const VPortAddress> addresses) const {
  if (entries_[vport.value()].addresses.size() != addresses.size()) return false;
  for (const VPortAddress& address : addresses) {
    const auto owner = by_peer_.find(address.peer);
    if (owner == by_peer_.end() || owner->second != vport) return false;
  }
  return true;
}

// The key of a new address. If the vPort had one address at that port and now has another one
// there, its agent restarted, and the new address takes over the flows of the former one.
uint64_t VPortDirectory::NewKey(const PeerAddress& peer, absl::Span<const Address> before,
                                absl::Span<const VPortAddress> announced) {
  const Address* const former = OnlyAt(peer.gid, before);
  return former != nullptr && OnlyAt(peer.gid, announced) != nullptr ? former->key : KeyOf(peer);
}

// Gives an announced address that is not resolved the path that is known to it, or else the one
// that the vPort had to its port. The data-only vPort of an agent that just restarted is not
// resolved yet, so its lack of a path must not hide the other one.
void VPortDirectory::TakePath(absl::Span<const Address> before, Address* address) const {
  const auto take = [address](const Address& known) {
    if (!address->ah.IsNone()) return;
    address->ah = known.ah;
    address->lid = known.lid;
  };
  const auto owner = by_peer_.find(address->peer);
  // The owner is data-only (see MayAnnounce), so this is its only address.
  if (owner != by_peer_.end()) take(entries_[owner->second.value()].addresses[0]);
  for (const Address& former : before) {
    if (former.peer.gid == address->peer.gid) take(former);
  }
}

bool VPortDirectory::Announce(VPortId vport, absl::Span<const VPortAddress> addresses,
                              const VPortCapabilities& capabilities) {
  absl::MutexLock lock(&mutex_);
  if (!MayAnnounce(vport, addresses)) return false;
  Entry& entry = entries_[vport.value()];
  if (!entry.capabilities.announced) LeaveQuota(vport);
  entry.capabilities = capabilities;
  entry.capabilities.announced = true;

  const bool changes_owners = !OwnsExactly(vport, addresses);
  const auto before = std::exchange(entry.addresses, {});
  for (const Address& address : before) Forget(vport, address.peer);
  for (const VPortAddress& announced : addresses) {
    const auto had = std::find_if(before.begin(), before.end(), [&](const Address& address) {
      return address.peer == announced.peer;
    });
    Address address = had != before.end() ? *had
                                          : Address{{.peer = announced.peer},
                                                    NewKey(announced.peer, before, addresses)};
    TakePath(before, &address);
    address.hca_port = announced.hca_port;
    address.lost = false;  // it was heard
    entry.addresses.push_back(address);
    by_peer_[announced.peer] = vport;
  }
  if (entry.addresses.size() > 1) Spread(vport, entry);
  Publish(vport);
  if (changes_owners) generation_.fetch_add(1, std::memory_order_release);
  return true;
}

void VPortDirectory::Spread(VPortId vport, const Entry& entry) {
  std::vector<uint64_t> keys;
  for (const Address& address : entry.addresses) keys.push_back(address.key);
  auto& aggregate = aggregates_[vport];
  if (aggregate == nullptr) aggregate = std::make_unique<Aggregate>();
  aggregate->spread.emplace(keys);
}

bool VPortDirectory::SetPath(VPortId vport, const Gid& gid, AhIndex ah, Lid lid) {
  absl::MutexLock lock(&mutex_);
  if (!IsRemote(vport)) return false;
  bool any = false;
  for (Address& address : entries_[vport.value()].addresses) {
    if (address.peer.gid != gid) continue;
    address.ah = ah;
    address.lid = lid;
    any = true;
  }
  if (any) Publish(vport);
  return any;
}

bool VPortDirectory::SetLost(VPortId vport, const PeerAddress& peer, bool lost) {
  absl::MutexLock lock(&mutex_);
  if (!IsRemote(vport)) return false;
  for (Address& address : entries_[vport.value()].addresses) {
    if (address.peer != peer) continue;
    address.lost = lost;
    Publish(vport);
    return true;
  }
  return false;
}

void VPortDirectory::Remove(VPortId vport) {
  absl::MutexLock lock(&mutex_);
  RemoveLocked(vport);
}

// A former aggregate's block stays as it is, for readers that began before.
void VPortDirectory::RemoveLocked(VPortId vport) {
  if (RouteWord::KindOf(Word(vport)) == Route::Kind::kNone) return;
  Entry& entry = entries_[vport.value()];
  for (const Address& address : entry.addresses) Forget(vport, address.peer);
  if (!entry.addresses.empty() && !entry.capabilities.announced) LeaveQuota(vport);
  entry = Entry();
  Store(vport, 0);
  removed_.push_back(vport);
  generation_.fetch_add(1, std::memory_order_release);
}

// ---- Reclaiming ---------------------------------------------------------------------------------

size_t VPortDirectory::Reclaim(absl::FunctionRef<bool(VPortId)> in_use) {
  FreeRemoved(in_use);  // first, because a vPort removed in this call must wait for the next one
  size_t removed = 0;
  std::vector<VPortId> silent;
  for (uint32_t first = 0; TakeSilent(first, &silent); first += kReclaimedAtATime) {
    for (VPortId vport : silent) removed += !in_use(vport) && RemoveIfSilent(vport);
  }
  return removed;
}

void VPortDirectory::FreeRemoved(absl::FunctionRef<bool(VPortId)> in_use) {
  std::deque<VPortId> removed;
  {
    absl::MutexLock lock(&mutex_);
    removed.swap(removed_);
  }
  const auto free = std::stable_partition(removed.begin(), removed.end(), in_use);
  absl::MutexLock lock(&mutex_);
  free_.insert(free_.end(), free, removed.end());
  removed_.insert(removed_.begin(), removed.begin(), free);
}

bool VPortDirectory::IsSilent(VPortId vport) const {
  if (!IsRemote(vport) || entries_[vport.value()].capabilities.announced) return false;
  return (ChunkOf(vport)->traffic[vport.value() % kChunk].load(std::memory_order_relaxed) &
          kHeardForReclaim) == 0;
}

// Collects the unheard ones of kReclaimedAtATime vPorts from `first` on, and marks all of them as
// unheard for the next call. False past the last vPort.
bool VPortDirectory::TakeSilent(uint32_t first, std::vector<VPortId>* silent) {
  silent->clear();
  absl::MutexLock lock(&mutex_);
  const uint32_t end =
      std::min<uint32_t>(first + kReclaimedAtATime, static_cast<uint32_t>(entries_.size()));
  for (uint32_t i = first; i < end; ++i) {
    const VPortId vport(i);
    if (IsSilent(vport)) silent->push_back(vport);
    ChunkOf(vport)->traffic[i % kChunk].fetch_and(static_cast<uint8_t>(~kHeardForReclaim),
                                                  std::memory_order_relaxed);
  }
  return first < entries_.size();
}

bool VPortDirectory::RemoveIfSilent(VPortId vport) {
  absl::MutexLock lock(&mutex_);
  // A datagram may have arrived while in_use was asked without the lock.
  if (!IsSilent(vport)) return false;
  RemoveLocked(vport);
  return true;
}

// ---- For the operator ---------------------------------------------------------------------------

std::vector<VPortDirectory::Row> VPortDirectory::Dump() const {
  absl::ReaderMutexLock lock(&mutex_);
  std::vector<Row> rows;
  for (uint32_t i = 0; i < entries_.size(); ++i) {
    const VPortId vport(i);
    const Route route = Get(vport);
    if (route.kind == Route::Kind::kNone) continue;
    const Entry& entry = entries_[i];
    Row row{vport,
            route,
            entry.addresses.empty() ? VPortState::kUp : VPortState::kLost,
            {},
            entry.capabilities};
    for (const Address& address : entry.addresses) {
      row.addresses.push_back(address);
      row.state = std::max(row.state, address.state());
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace eoib
