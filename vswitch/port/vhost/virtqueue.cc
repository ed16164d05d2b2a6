#include "vswitch/port/vhost/virtqueue.h"

#include <atomic>
#include <bit>
#include <cstring>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"

namespace eoib {
namespace {

// Reads a descriptor once: the guest may change it meanwhile.
RingDescriptor ReadDescriptor(const RingDescriptor* at) {
  const auto* const from = reinterpret_cast<const volatile RingDescriptor*>(at);
  return {from->address, from->length, from->flags, from->next};
}

bool IsAligned(const void* at, size_t to) { return reinterpret_cast<uintptr_t>(at) % to == 0; }

// virtio 1.1 §2.6.7.1 and §2.6.8.1: whether `event` is among the indices from `before` to `after`
// - 1.
bool Passed(uint16_t event, uint16_t before, uint16_t after) {
  return static_cast<uint16_t>(after - event - 1) < static_cast<uint16_t>(after - before);
}

}  // namespace

void Virtqueue::Attach(uint16_t number, const Rings& rings, const Features& features,
                       const Indices& indices, const GuestMemory* memory, DirtyLog* log) {
  *this = Virtqueue();
  number_ = number;
  descriptors_ = reinterpret_cast<const RingDescriptor*>(rings.descriptors);
  available_ = reinterpret_cast<const uint16_t*>(rings.available);
  used_ = reinterpret_cast<uint16_t*>(rings.used);
  size_ = rings.size;
  features_ = features;
  memory_ = memory;
  log_ = log;
  next_available_ = available_index_ = indices.available;
  next_used_ = published_ = indices.used;
  if (!std::has_single_bit(size_) || size_ > 32768) {
    Stop("a size that is no power of two", size_);
  } else if (!IsAligned(rings.descriptors, 16) || !IsAligned(rings.available, 2) ||
             !IsAligned(rings.used, 4)) {
    Stop("rings that are not aligned, of size", size_);
  } else if (!memory->Contains(rings.descriptors, size_ * sizeof(RingDescriptor)) ||
             !memory->Contains(rings.available, AvailRing::Bytes(size_, features.event_index)) ||
             !memory->Contains(rings.used, UsedRing::Bytes(size_, features.event_index))) {
    Stop("rings that are not in the guest's memory, of size", size_);
  }
}

bool Virtqueue::Stop(const char* why, uint64_t detail) noexcept {
  fault_ = why;
  fault_detail_ = detail;
  return false;
}

std::string Virtqueue::fault() const {
  return fault_ == nullptr ? ""
                           : absl::StrCat("queue ", number_, " has ", fault_, " ", fault_detail_);
}

uint16_t Virtqueue::Load(const uint16_t* word) const noexcept {
  return std::atomic_ref(*const_cast<uint16_t*>(word)).load(std::memory_order_acquire);
}

void Virtqueue::Store(uint16_t* word, uint16_t value) noexcept {
  std::atomic_ref(*word).store(value, std::memory_order_release);
  if (log_ != nullptr)
    log_->LogUsed(number_, static_cast<uint64_t>(word - used_) * sizeof(uint16_t),
                  sizeof(uint16_t));
}

bool Virtqueue::HasAvailable() noexcept {
  if (ABSL_PREDICT_FALSE(broken() || !attached())) return false;
  if (next_available_ != available_index_) return true;
  available_index_ = Load(&available_[AvailRing::kIndex]);
  if (ABSL_PREDICT_FALSE(static_cast<uint16_t>(available_index_ - next_available_) > size_)) {
    return Stop("more chains than entries: its available index is", available_index_);
  }
  return next_available_ != available_index_;
}

bool Virtqueue::Next(Direction direction, DescriptorChain* chain) noexcept {
  if (!HasAvailable()) return false;
  const uint16_t slot = next_available_ & (size_ - 1);
  const uint16_t head = Load(&available_[AvailRing::kHeads + slot]);
  if (ABSL_PREDICT_FALSE(head >= size_))
    return Stop("a chain that begins outside of the table, at descriptor", head);
  chain->head = head;
  chain->count = 0;
  chain->length = 0;
  if (!Collect(direction, Table::kQueue, {descriptors_, size_}, ReadDescriptor(&descriptors_[head]),
               chain))
    return false;
  ++next_available_;
  return true;
}

// Walks a chain in a table. A chain has at most as many descriptors as the table, which ends loops.
// An indirect table may lie anywhere in the guest's memory, also where the queue's own is, so
// `kind` ends the recursion.
bool Virtqueue::Collect(Direction direction, Table kind, absl::Span<const RingDescriptor> table,
                        RingDescriptor first, DescriptorChain* chain) noexcept {
  RingDescriptor descriptor = first;
  for (size_t walked = 1;; ++walked) {
    if ((descriptor.flags & RingDescriptor::kIndirect) != 0) {
      if (!features_.indirect || kind == Table::kIndirect ||
          (descriptor.flags & RingDescriptor::kNext) != 0) {
        return Stop("an indirect table where none may be, in the chain of descriptor", chain->head);
      }
      const size_t inner = descriptor.length / sizeof(RingDescriptor);
      if (inner == 0 || descriptor.length % sizeof(RingDescriptor) != 0) {
        return Stop("an indirect table of a wrong size:", descriptor.length);
      }
      const uint8_t* const at = memory_->Translate(descriptor.address, descriptor.length);
      if (at == nullptr || !IsAligned(at, alignof(RingDescriptor))) {
        return Stop("an indirect table outside of the guest's memory or not aligned, at address",
                    descriptor.address);
      }
      const auto* const indirect = reinterpret_cast<const RingDescriptor*>(at);
      return Collect(direction, Table::kIndirect, {indirect, inner}, ReadDescriptor(indirect),
                     chain);
    }
    if (!Add(direction, descriptor, chain)) return false;
    if ((descriptor.flags & RingDescriptor::kNext) == 0) return true;
    if (descriptor.next >= table.size())
      return Stop("a chain that leaves its table, to descriptor", descriptor.next);
    if (walked == table.size() || walked == DescriptorChain::kMost) {
      return Stop("a loop, or too many descriptors, in the chain of descriptor", chain->head);
    }
    descriptor = ReadDescriptor(&table[descriptor.next]);
  }
}

bool Virtqueue::Add(Direction direction, const RingDescriptor& descriptor,
                    DescriptorChain* chain) noexcept {
  const bool writable = (descriptor.flags & RingDescriptor::kWrite) != 0;
  if (writable != (direction == Direction::kToGuest)) {
    return Stop(
        writable ? "a buffer to write to among those to send, in the chain of descriptor"
                 : "a buffer to read from among those to receive into, in the chain of descriptor",
        chain->head);
  }
  if (descriptor.length == 0) return true;
  uint8_t* const data = memory_->Translate(descriptor.address, descriptor.length);
  if (ABSL_PREDICT_FALSE(data == nullptr))
    return Stop("a buffer outside of the guest's memory, at address", descriptor.address);
  if (ABSL_PREDICT_FALSE(chain->count == DescriptorChain::kMost)) {
    return Stop("too many descriptors in the chain of descriptor", chain->head);
  }
  chain->parts[chain->count++] = {data, descriptor.length, descriptor.address};
  chain->length += descriptor.length;
  return true;
}

void Virtqueue::Use(uint16_t head, uint32_t written) noexcept {
  if (ABSL_PREDICT_FALSE(!attached() || broken())) return;
  const size_t at = UsedRing::ElementAt(next_used_ & (size_ - 1));
  const UsedElement element{head, written};
  std::memcpy(used_ + at, &element, sizeof(element));
  if (log_ != nullptr) log_->LogUsed(number_, at * sizeof(uint16_t), sizeof(element));
  ++next_used_;
}

bool Virtqueue::Publish() noexcept {
  if (next_used_ == published_ || broken()) return false;
  const uint16_t before = published_;
  Store(&used_[UsedRing::kIndex], next_used_);
  published_ = next_used_;
  // The guest first allows interrupts and then looks at the index.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (features_.event_index)
    return Passed(Load(&available_[AvailRing::UsedEvent(size_)]), before, published_);
  return (Load(&available_[AvailRing::kFlags]) & AvailRing::kNoInterrupt) == 0;
}

bool Virtqueue::EnableNotification() noexcept {
  if (broken() || !attached()) return false;
  features_.event_index ? Store(&used_[UsedRing::AvailEvent(size_)], next_available_)
                        : SetUsedFlags(0);
  // The guest first makes a chain available and then looks whether to notify.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return HasAvailable();
}

void Virtqueue::DisableNotification() noexcept {
  if (!features_.event_index && attached() && !broken()) SetUsedFlags(UsedRing::kNoNotify);
}

void Virtqueue::SetUsedFlags(uint16_t flags) noexcept {
  if (Load(&used_[UsedRing::kFlags]) != flags) Store(&used_[UsedRing::kFlags], flags);
}

}  // namespace eoib
