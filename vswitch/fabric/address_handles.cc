#include "vswitch/fabric/address_handles.h"

#include <algorithm>
#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "vswitch/base/check.h"

namespace eoib {
namespace {

// For messages: "address handle to fe80:... (LID 0x5, SL 0) on mlx5_0/1".
std::string Describe(const PathKey& key, const Hca& hca) {
  return absl::StrFormat("address handle to %s (LID 0x%x, SL %d) on %s", key.dgid.ToString(),
                         key.dlid, key.sl.value(), hca.name());
}

}  // namespace

// Acquire against Put and Reap. The worker counts its send first, then loads the handle; control
// takes the handle out of the slot first, then loads the count. All four accesses are sequentially
// consistent: if control reads zero sends, a worker that counts later reads a null handle.

AddressHandles::AddressHandles(Hca* hca, ibv_pd* pd, size_t limit)
    : hca_(hca), pd_(pd), limit_(std::min(limit, kMax)), slots_(new Slot[limit_]) {
  free_.reserve(limit_);
  for (size_t i = limit_; i-- > 0;) free_.push_back(static_cast<uint32_t>(i));
}

AddressHandles::~AddressHandles() {
  absl::MutexLock lock(&mutex_);
  for (size_t i = 0; i < limit_; ++i) {
    if (ibv_ah* ah = slots_[i].ah.load()) hca_->verbs().destroy_ah(ah);
    EOIB_DCHECK(slots_[i].sends.load() == 0);
  }
  for (const Retired& retired : retired_) hca_->verbs().destroy_ah(retired.ah);
}

AhIndex AddressHandles::IndexOf(uint32_t slot) const {
  return AhIndex(slots_[slot].generation.load(std::memory_order_relaxed) << kSlotBits | slot);
}

absl::StatusOr<ibv_ah*> AddressHandles::Make(const PathKey& key,
                                             const PathAttributes& attributes) const {
  ibv_ah_attr attr = {};
  attr.is_global = attributes.grh;
  key.dgid.ToWire(attr.grh.dgid.raw);
  attr.grh.sgid_index = static_cast<uint8_t>(hca_->gid_index());
  attr.grh.flow_label = attributes.flow_label;
  attr.grh.hop_limit = attributes.hop_limit;
  attr.grh.traffic_class = attributes.traffic_class;
  attr.dlid = key.dlid;
  attr.sl = key.sl.value();
  attr.static_rate = attributes.rate;
  attr.port_num = hca_->port();
  ibv_ah* ah = hca_->verbs().create_ah(pd_, &attr);
  if (ah == nullptr)
    return absl::ErrnoToStatus(errno, absl::StrCat("create ", Describe(key, *hca_)));
  return ah;
}

absl::StatusOr<AhIndex> AddressHandles::Get(const PathKey& key, const PathAttributes& attributes) {
  const Key wanted(key, attributes);
  for (;;) {
    uint64_t renewals = 0;
    {
      absl::MutexLock lock(&mutex_);
      const absl::StatusOr<AhIndex> found = Find(wanted);
      if (!found.ok() || !found->IsNone()) return found;
      renewals = renewals_;
    }
    // Without the mutex: on RoCE this may take a second, and other callers must not wait for it.
    const absl::StatusOr<ibv_ah*> ah = Make(key, attributes);
    if (!ah.ok()) return ah.status();
    absl::MutexLock lock(&mutex_);
    if (renewals == renewals_ && !free_.empty() && !by_key_.contains(wanted))
      return Insert(wanted, *ah);
    hca_->verbs().destroy_ah(*ah);  // another thread was faster, or Renew made it obsolete
  }
}

absl::StatusOr<AhIndex> AddressHandles::Find(const Key& key) {
  if (const auto it = by_key_.find(key); it != by_key_.end()) {
    ++slots_[it->second].users;
    return IndexOf(it->second);
  }
  if (free_.empty()) ReapLocked();
  if (!free_.empty()) return AhIndex::None();
  return absl::ResourceExhaustedError(
      absl::StrCat("create ", Describe(key.first, *hca_), ": all ", limit_, " are in use"));
}

AhIndex AddressHandles::Insert(const Key& key, ibv_ah* ah) {
  const uint32_t slot = free_.back();
  free_.pop_back();
  slots_[slot].key = key;
  slots_[slot].users = 1;
  slots_[slot].ah.store(ah);
  by_key_.emplace(key, slot);
  return IndexOf(slot);
}

void AddressHandles::Put(AhIndex index) {
  if (index.IsNone()) return;
  absl::MutexLock lock(&mutex_);
  const uint32_t slot = SlotOf(index);
  EOIB_CHECK(slot < limit_ && index == IndexOf(slot) && slots_[slot].users > 0);
  if (--slots_[slot].users > 0) return;
  // After Renew the key may be gone, or name the slot of a newer handle.
  const auto current = by_key_.find(slots_[slot].key);
  if (current != by_key_.end() && current->second == slot) by_key_.erase(current);
  retired_.push_back({slot, slots_[slot].ah.exchange(nullptr)});
}

void AddressHandles::Renew() {
  absl::MutexLock lock(&mutex_);
  by_key_.clear();
  ++renewals_;
}

size_t AddressHandles::Reap() {
  absl::MutexLock lock(&mutex_);
  ReapLocked();
  return retired_.size();
}

void AddressHandles::ReapLocked() {
  size_t waiting = 0;
  for (const Retired retired : retired_) {
    Slot& slot = slots_[retired.slot];
    if (slot.sends.load() != 0) {
      retired_[waiting++] = retired;
      continue;
    }
    hca_->verbs().destroy_ah(retired.ah);
    // The slot gets a new generation, so an index that a worker still holds is unknown from now on.
    slot.generation.store((slot.generation.load(std::memory_order_relaxed) + 1) % kGenerations,
                          std::memory_order_relaxed);
    free_.push_back(retired.slot);
  }
  retired_.resize(waiting);
}

ibv_ah* AddressHandles::Acquire(AhIndex index) {
  const uint32_t at = SlotOf(index);
  if (index.IsNone() || at >= limit_) return nullptr;
  Slot& slot = slots_[at];
  slot.sends.fetch_add(1);
  ibv_ah* ah = slot.ah.load();
  // A handle that is present after its send was counted stays until Release, and so does its
  // generation.
  if (ah != nullptr && slot.generation.load(std::memory_order_relaxed) == GenerationOf(index))
    return ah;
  slot.sends.fetch_sub(1);
  return nullptr;
}

void AddressHandles::Release(AhIndex index) {
  [[maybe_unused]] const uint32_t before = slots_[SlotOf(index)].sends.fetch_sub(1);
  EOIB_DCHECK(before > 0);
}

size_t AddressHandles::size() const {
  absl::MutexLock lock(&mutex_);
  return by_key_.size();
}

}  // namespace eoib
