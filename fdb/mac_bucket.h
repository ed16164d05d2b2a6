// MacBucket: a bucket of the MAC table. It holds four entries and their metadata in one cache line,
// under a sequence lock.
//
// The head says whether the bucket is stable, counts its changes, and carries what must change
// together with the entries: the marks (which tags of keys at home here took a detour) and the
// entries' flags. The writer makes the head unstable, changes the entries, and publishes a head
// with the next sequence number. A reader takes the head, then the data, then the head again; if
// both are equal and stable, the data is of one moment. An all-zero bucket, which the kernel
// supplies for a returned page, is not stable, so no reader takes it for an empty one.
#ifndef EOIB_FDB_MAC_BUCKET_H_
#define EOIB_FDB_MAC_BUCKET_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fdb/key_hash.h"

namespace eoib {

struct alignas(64) MacBucket {
  static constexpr int kSlots = 4;
  static constexpr uint64_t kNoKey = ~uint64_t{0};  // no key has more than 60 bits
  // Of a free slot: a valid flush group number, which readers may look up.
  static constexpr uint32_t kNoValue = 0;

  // The head: stable 1 bit, sequence number 31, marks 16 (one per tag), flags 4 per slot.
  static constexpr uint64_t kStable = 1;
  static constexpr uint64_t kSequenceStep = 2;
  static constexpr uint64_t kSequenceMask = 0xffff'fffe;
  static constexpr int kMarkShift = 32;
  static constexpr int kFlagsShift = 48;
  static constexpr int kFlagBits = 4;

  // The keys fill one aligned half of the line, for a single vector load.
  std::atomic<uint64_t> keys[kSlots];
  std::atomic<uint32_t> values[kSlots];
  // The only member that readers write (Touch); 0: does not age.
  mutable std::atomic<uint16_t> seen[kSlots];
  std::atomic<uint64_t> head;

  static bool IsMarked(uint64_t head, uint32_t position) {
    return (head >> (kMarkShift + KeyHash::Tag(position)) & 1) != 0;
  }
  static uint32_t Flags(uint64_t head, int slot) {
    return static_cast<uint32_t>(head >> (kFlagsShift + kFlagBits * slot)) &
           ((1u << kFlagBits) - 1);
  }
  // True if the bucket was stable when `before` was taken and has not changed since. Readers call
  // it after they read the data.
  bool IsStillAt(uint64_t before) const {
    std::atomic_thread_fence(std::memory_order_acquire);
    return (before & kStable) != 0 && head.load(std::memory_order_relaxed) == before;
  }

  // For readers: marks the entry in `slot`, last seen at `before`, as seen at `now`. Written at
  // most once a tick, so the line stays shared between the workers' caches. If the writer replaced
  // the entry meanwhile, the new one may look younger than it is and live a little longer; an entry
  // that does not age (0) never equals `before`, so it stays as it is.
  void MarkSeen(int slot, uint16_t before, uint16_t now) const {
    seen[slot].compare_exchange_strong(before, now, std::memory_order_relaxed);
  }

  // For the writer, which needs no sequence lock.
  uint64_t Key(int slot) const { return keys[slot].load(std::memory_order_relaxed); }
  uint64_t Head() const { return head.load(std::memory_order_relaxed); }
  uint32_t Marks() const {
    return static_cast<uint32_t>(Head() >> kMarkShift) & ((1u << KeyHash::kTags) - 1);
  }
  // A bit mask of the slots that have `key`. Without branches, because the slot is unpredictable.
  uint32_t Match(uint64_t key) const {
    uint32_t match = 0;
    for (int slot = 0; slot < kSlots; ++slot)
      match |= static_cast<uint32_t>(Key(slot) == key) << slot;
    return match;
  }
  // The slot of `key`, or -1. SlotOf(kNoKey) is a free slot.
  int SlotOf(uint64_t key) const {
    const uint32_t match = Match(key);
    return match == 0 ? -1 : __builtin_ctz(match);
  }
};
static_assert(sizeof(MacBucket) == 64 && alignof(MacBucket) == 64, "a bucket is a cache line");
static_assert(offsetof(MacBucket, keys) == 0 && offsetof(MacBucket, values) == 32 &&
                  offsetof(MacBucket, seen) == 48 && offsetof(MacBucket, head) == 56,
              "vector loads rely on it");
static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<uint16_t>::is_always_lock_free);
static_assert(MacBucket::kFlagsShift + MacBucket::kFlagBits * MacBucket::kSlots == 64);
static_assert(MacBucket::kMarkShift + KeyHash::kTags == MacBucket::kFlagsShift);

// An entry outside its bucket, for the writer.
struct MacRecord {
  uint64_t key = MacBucket::kNoKey;
  uint32_t value = MacBucket::kNoValue;
  uint16_t seen = 0;
  uint8_t flags = 0;
};

inline MacRecord RecordAt(const MacBucket& bucket, int slot) {
  return {bucket.Key(slot), bucket.values[slot].load(std::memory_order_relaxed),
          bucket.seen[slot].load(std::memory_order_relaxed),
          static_cast<uint8_t>(MacBucket::Flags(bucket.Head(), slot))};
}

// One change of a bucket, for the writer. Readers see all of it or nothing.
class BucketChange {
 public:
  explicit BucketChange(MacBucket* bucket) : bucket_(bucket), head_(bucket->Head()) {
    bucket_->head.store(head_ & ~MacBucket::kStable, std::memory_order_relaxed);
    // The unstable head is visible before the changes.
    std::atomic_thread_fence(std::memory_order_release);
  }
  ~BucketChange() {
    const uint64_t sequence = (head_ + MacBucket::kSequenceStep) & MacBucket::kSequenceMask;
    bucket_->head.store((head_ & ~MacBucket::kSequenceMask) | sequence | MacBucket::kStable,
                        std::memory_order_release);
  }
  BucketChange(const BucketChange&) = delete;
  BucketChange& operator=(const BucketChange&) = delete;

  void Set(int slot, const MacRecord& record) {
    bucket_->keys[slot].store(record.key, std::memory_order_relaxed);
    bucket_->values[slot].store(record.value, std::memory_order_relaxed);
    bucket_->seen[slot].store(record.seen, std::memory_order_relaxed);
    const int shift = MacBucket::kFlagsShift + MacBucket::kFlagBits * slot;
    head_ = (head_ & ~(uint64_t{(1u << MacBucket::kFlagBits) - 1} << shift)) |
            uint64_t{record.flags} << shift;
  }
  void Clear(int slot) { Set(slot, MacRecord()); }
  void Mark(uint32_t tag) { head_ |= uint64_t{1} << (MacBucket::kMarkShift + tag); }
  void Unmark(uint32_t tag) { head_ &= ~(uint64_t{1} << (MacBucket::kMarkShift + tag)); }

 private:
  MacBucket* const bucket_;
  uint64_t head_;
};

}  // namespace eoib

#endif  // EOIB_FDB_MAC_BUCKET_H_
