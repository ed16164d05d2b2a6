// ModelQueue: the driver's side of a virtqueue, in the memory of a guest that is a test.
#ifndef EOIB_VSWITCH_PORT_VHOST_MODEL_GUEST_FOR_TEST_H_
#define EOIB_VSWITCH_PORT_VHOST_MODEL_GUEST_FOR_TEST_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/port/vhost/guest_memory.h"
#include "vswitch/port/vhost/split_ring.h"
#include "vswitch/port/vhost/virtqueue.h"

namespace eoib {

// A file in memory, which its owner may shrink. Nothing is mapped before and after it, so that an
// access there is a crash.
class ModelFile {
 public:
  // A multiple of the page size.
  explicit ModelFile(size_t size) : size_(size), file_(memfd_create("guest", MFD_CLOEXEC)) {
    const auto guard = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    all_ = size + 2 * guard;
    start_ =
        static_cast<uint8_t*>(mmap(nullptr, all_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    bytes_ = start_ + guard;
    if (!Resize(size) || mmap(bytes_, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                              file_.get(), 0) == static_cast<void*>(MAP_FAILED)) {
      std::abort();
    }
  }
  ~ModelFile() { munmap(start_, all_); }
  ModelFile(const ModelFile&) = delete;
  ModelFile& operator=(const ModelFile&) = delete;
  uint8_t* bytes() const { return bytes_; }
  size_t size() const { return size_; }
  bool Resize(size_t size) { return ftruncate(file_.get(), static_cast<off_t>(size)) == 0; }

 private:
  const size_t size_;
  const UniqueFd file_;
  size_t all_ = 0;
  uint8_t* start_ = nullptr;
  uint8_t* bytes_ = nullptr;
};

// Memory in two regions with a gap, so that neither guest addresses nor regions are those of the
// host.
class ModelMemory {
 public:
  static constexpr uint64_t kLow = 0x10'0000, kHigh = 0x1'0000'0000;

  explicit ModelMemory(size_t size) : low_(size), high_(size) {}
  GuestMemory Map() const {
    return GuestMemory({{kLow, size(), low_.bytes()}, {kHigh, size(), high_.bytes()}});
  }
  uint8_t* At(uint64_t guest) const {
    return guest >= kHigh ? high_.bytes() + (guest - kHigh) : low_.bytes() + (guest - kLow);
  }
  // Memory that is used until Reset of nothing: the low region has rings, the high one buffers.
  uint64_t TakeLow(size_t bytes) {
    return kLow + std::exchange(low_used_, low_used_ + (bytes + 63) / 64 * 64);
  }
  uint64_t TakeHigh(size_t bytes) {
    if (high_used_ + bytes > size()) high_used_ = 0;  // what was there has been used
    return kHigh + std::exchange(high_used_, high_used_ + (bytes + 63) / 64 * 64);
  }
  size_t size() const { return low_.size(); }
  // The machine's program takes memory away, from the end.
  void Shrink(uint64_t region, size_t size) {
    if (!(region == kHigh ? high_ : low_).Resize(size)) std::abort();
  }

 private:
  ModelFile low_, high_;
  size_t low_used_ = 0, high_used_ = 0;
};

class ModelQueue {
 public:
  struct Buffer {
    uint64_t guest;
    uint32_t length;
  };
  struct Returned {
    std::vector<Buffer> buffers;
    uint32_t written;
  };

  ModelQueue(ModelMemory* memory, uint16_t size, bool event_index, uint16_t start = 0)
      : memory_(memory),
        size_(size),
        event_index_(event_index),
        descriptors_(memory->TakeLow(size * sizeof(RingDescriptor))),
        available_(memory->TakeLow(AvailRing::Bytes(size, event_index))),
        used_(memory->TakeLow(UsedRing::Bytes(size, event_index))),
        next_available_(start),
        next_used_(start) {
    for (uint16_t i = 0; i < size; ++i) free_.push_back(i);
    Word(available_, AvailRing::kIndex) = start;
    Word(used_, UsedRing::kIndex) = start;
  }

  Virtqueue::Rings rings() const {
    return {memory_->At(descriptors_), memory_->At(available_), memory_->At(used_), size_};
  }
  size_t free() const { return free_.size(); }
  size_t outstanding() const { return outstanding_.size(); }
  RingDescriptor* Descriptor(uint16_t i) {
    return reinterpret_cast<RingDescriptor*>(memory_->At(descriptors_)) + i;
  }
  uint16_t& AvailableWord(size_t i) { return Word(available_, i); }
  uint16_t& UsedWord(size_t i) { return Word(used_, i); }

  // Makes a chain available, in an indirect table if asked. The caller checks that there are free
  // descriptors. Returns whether the driver would notify the device.
  bool Offer(const std::vector<Buffer>& buffers, bool writable, bool indirect = false) {
    const size_t needed = indirect ? 1 : buffers.size();
    const std::vector<uint16_t> taken(free_.end() - static_cast<ptrdiff_t>(needed), free_.end());
    free_.resize(free_.size() - needed);
    const uint16_t flags = writable ? RingDescriptor::kWrite : 0;
    if (indirect) {
      const auto bytes = static_cast<uint32_t>(buffers.size() * sizeof(RingDescriptor));
      const uint64_t table = memory_->TakeHigh(bytes);
      auto* const entries = reinterpret_cast<RingDescriptor*>(memory_->At(table));
      for (uint16_t i = 0; i < buffers.size(); ++i)
        entries[i] = Link(buffers, i, flags, static_cast<uint16_t>(i + 1));
      *Descriptor(taken[0]) = {table, bytes, RingDescriptor::kIndirect, 0};
    } else {
      for (size_t i = 0; i < buffers.size(); ++i) {
        *Descriptor(taken[i]) =
            Link(buffers, i, flags, i + 1 < taken.size() ? taken[i + 1] : uint16_t{0});
      }
    }
    outstanding_[taken[0]] = {taken, buffers};
    return MakeAvailable(taken[0]);
  }
  bool MakeAvailable(uint16_t head) {
    AvailableWord(AvailRing::kHeads + next_available_ % size_) = head;
    const uint16_t before = next_available_++;
    AvailableWord(AvailRing::kIndex) = next_available_;
    return event_index_ ? UsedWord(UsedRing::AvailEvent(size_)) == before
                        : (UsedWord(UsedRing::kFlags) & UsedRing::kNoNotify) == 0;
  }
  // The next chain that the device has returned.
  absl::optional<Returned> Take() {
    if (UsedWord(UsedRing::kIndex) == next_used_) return absl::nullopt;
    UsedElement element;
    std::memcpy(&element, &UsedWord(UsedRing::ElementAt(next_used_ % size_)), sizeof(element));
    ++next_used_;
    const auto chain = outstanding_.find(static_cast<uint16_t>(element.head));
    // The device returned what it did not have.
    if (chain == outstanding_.end()) return Returned{{}, 0xffffffff};
    Returned returned{chain->second.buffers, element.written};
    free_.insert(free_.end(), chain->second.descriptors.begin(), chain->second.descriptors.end());
    outstanding_.erase(chain);
    return returned;
  }
  // Asks for an interrupt after the next chain, or for none.
  void WantInterrupt(bool wanted) {
    if (event_index_)
      AvailableWord(AvailRing::UsedEvent(size_)) =
          static_cast<uint16_t>(next_used_ - (wanted ? 0 : 1));
    AvailableWord(AvailRing::kFlags) = wanted ? 0 : AvailRing::kNoInterrupt;
  }

 private:
  struct Chain {
    std::vector<uint16_t> descriptors;
    std::vector<Buffer> buffers;
  };

  static RingDescriptor Link(const std::vector<Buffer>& buffers, size_t i, uint16_t flags,
                             uint16_t next) {
    const bool last = i + 1 == buffers.size();
    return {buffers[i].guest, buffers[i].length,
            static_cast<uint16_t>(flags | (last ? 0 : RingDescriptor::kNext)),
            last ? uint16_t{0} : next};
  }
  uint16_t& Word(uint64_t ring, size_t i) {
    return reinterpret_cast<uint16_t*>(memory_->At(ring))[i];
  }

  ModelMemory* const memory_;
  const uint16_t size_;
  const bool event_index_;
  const uint64_t descriptors_, available_, used_;
  uint16_t next_available_, next_used_;
  std::vector<uint16_t> free_;
  std::map<uint16_t, Chain> outstanding_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_VHOST_MODEL_GUEST_FOR_TEST_H_
