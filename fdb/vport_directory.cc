#include "fdb/vport_directory.h"

#include "fdb/check.h"

namespace eoib {
namespace {

constexpr size_t kMaxLimit = size_t{1} << 20;
constexpr int kFieldBits = 24;
constexpr uint64_t kFieldMask = (uint64_t{1} << kFieldBits) - 1;

uint64_t Pack(const Route& route) {
  const uint64_t where = route.kind == Route::Kind::kLocal ? route.local_port : route.qpn.value();
  EOIB_DCHECK(where <= kFieldMask);
  EOIB_DCHECK(route.ah.value() <= kFieldMask);
  return static_cast<uint64_t>(route.kind) << (2 * kFieldBits) | uint64_t{route.ah.value()} << kFieldBits | where;
}

Route Unpack(uint64_t word) {
  Route route;
  route.kind = static_cast<Route::Kind>(word >> (2 * kFieldBits));
  const uint32_t where = static_cast<uint32_t>(word & kFieldMask);
  if (route.kind == Route::Kind::kLocal) {
    route.local_port = where;
  } else if (route.kind == Route::Kind::kRemote) {
    route.qpn = Qpn(where);
    route.ah = AhIndex(static_cast<uint32_t>(word >> kFieldBits & kFieldMask));
  }
  return route;
}

}  // namespace

VPortDirectory::VPortDirectory(size_t limit)
    : limit_(limit), chunks_(std::make_unique<std::atomic<Chunk*>[]>((limit + kChunk - 1) / kChunk)) {
  EOIB_CHECK(limit <= kMaxLimit);
}

VPortDirectory::~VPortDirectory() {
  for (size_t i = 0; i * kChunk < limit_; ++i) delete chunks_[i].load(std::memory_order_relaxed);
}

// Null for None, and for what never came from this directory.
std::atomic<uint64_t>* VPortDirectory::Slot(VPortId vport) const {
  if (vport.value() >= limit_) return nullptr;
  Chunk* const chunk = chunks_[vport.value() / kChunk].load(std::memory_order_acquire);
  return chunk == nullptr ? nullptr : &(*chunk)[vport.value() % kChunk];
}

Route VPortDirectory::Get(VPortId vport) const {
  const std::atomic<uint64_t>* const slot = Slot(vport);
  return slot == nullptr ? Route() : Unpack(slot->load(std::memory_order_acquire));
}

void VPortDirectory::Publish(VPortId vport, const Route& route) { Slot(vport)->store(Pack(route), std::memory_order_release); }

// An id that stands for nothing yet. A removed one comes back as late as possible: a worker may still have it in a batch, and
// learn it once more after the FDB was flushed of it.
VPortId VPortDirectory::Allocate() {
  if (peers_.size() < limit_) {
    const VPortId vport(static_cast<uint32_t>(peers_.size()));
    std::atomic<Chunk*>& chunk = chunks_[vport.value() / kChunk];
    if (chunk.load(std::memory_order_relaxed) == nullptr) chunk.store(new Chunk(), std::memory_order_release);
    peers_.push_back({});
    return vport;
  }
  if (removed_.empty()) return VPortId::None();
  const VPortId vport = removed_.front();
  removed_.pop_front();
  peers_[vport.value()] = {};
  return vport;
}

VPortId VPortDirectory::AddLocal(uint32_t local_port) {
  EOIB_CHECK(local_port <= kFieldMask);
  absl::MutexLock lock(&mutex_);
  const VPortId vport = Allocate();
  if (!vport.IsNone()) Publish(vport, {.kind = Route::Kind::kLocal, .local_port = local_port});
  return vport;
}

VPortId VPortDirectory::Intern(const PeerAddress& peer, bool* created) {
  absl::MutexLock lock(&mutex_);
  if (created != nullptr) *created = false;
  const auto known = by_peer_.find(peer);
  if (known != by_peer_.end()) return known->second;
  const VPortId vport = Allocate();
  if (vport.IsNone()) return vport;
  if (created != nullptr) *created = true;
  by_peer_.emplace(peer, vport);
  peers_[vport.value()] = peer;
  Publish(vport, {.kind = Route::Kind::kRemote, .qpn = peer.qpn});
  return vport;
}

VPortId VPortDirectory::Find(const PeerAddress& peer) const {
  absl::ReaderMutexLock lock(&mutex_);
  const auto known = by_peer_.find(peer);
  return known == by_peer_.end() ? VPortId::None() : known->second;
}

absl::optional<PeerAddress> VPortDirectory::Peer(VPortId vport) const {
  absl::ReaderMutexLock lock(&mutex_);
  if (Get(vport).kind != Route::Kind::kRemote) return absl::nullopt;
  return peers_[vport.value()];
}

bool VPortDirectory::Readdress(VPortId vport, const PeerAddress& peer) {
  absl::MutexLock lock(&mutex_);
  Route route = Get(vport);
  if (route.kind != Route::Kind::kRemote) return false;
  PeerAddress& current = peers_[vport.value()];
  if (current.gid != peer.gid) return false;
  const auto former = by_peer_.find(current);
  if (former != by_peer_.end() && former->second == vport) by_peer_.erase(former);
  by_peer_[peer] = vport;
  current = peer;
  route.qpn = peer.qpn;
  Publish(vport, route);
  generation_.fetch_add(1, std::memory_order_release);
  return true;
}

bool VPortDirectory::SetAddressHandle(VPortId vport, AhIndex ah) {
  absl::MutexLock lock(&mutex_);
  Route route = Get(vport);
  if (route.kind != Route::Kind::kRemote) return false;
  route.ah = ah;
  Publish(vport, route);
  return true;
}

void VPortDirectory::Remove(VPortId vport) {
  absl::MutexLock lock(&mutex_);
  const Route::Kind kind = Get(vport).kind;
  if (kind == Route::Kind::kNone) return;
  Publish(vport, Route());
  removed_.push_back(vport);
  generation_.fetch_add(1, std::memory_order_release);
  if (kind != Route::Kind::kRemote) return;
  const auto known = by_peer_.find(peers_[vport.value()]);
  if (known != by_peer_.end() && known->second == vport) by_peer_.erase(known);
}

std::vector<VPortDirectory::Row> VPortDirectory::Dump() const {
  absl::ReaderMutexLock lock(&mutex_);
  std::vector<Row> rows;
  for (uint32_t i = 0; i < peers_.size(); ++i) {
    const Route route = Get(VPortId(i));
    if (route.kind != Route::Kind::kNone) rows.push_back({VPortId(i), route, peers_[i]});
  }
  return rows;
}

}  // namespace eoib
