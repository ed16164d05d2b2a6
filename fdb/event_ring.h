// EventRing: the last events of one writer, for readers at their own pace.
//
// The writer never waits and never fails: it overwrites the oldest event. A reader passes the
// number of the next event it wants and is told how many events were overwritten before it came. A
// larger ring can continue a smaller one (ContinueFrom).
#ifndef EOIB_FDB_EVENT_RING_H_
#define EOIB_FDB_EVENT_RING_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

namespace eoib {

template <typename Event>
class EventRing {
  static_assert(std::is_trivially_copyable_v<Event> && sizeof(Event) % sizeof(uint64_t) == 0);
  static constexpr size_t kWords = sizeof(Event) / sizeof(uint64_t);

 public:
  // Holds the last `size` events.
  explicit EventRing(size_t size) : size_(size), slots_(std::make_unique<Slot[]>(size)) {}
  // Starts with the events of `former` and continues its numbering. Nothing may write to `former`
  // during this or later.
  void ContinueFrom(const EventRing& former) {
    std::vector<Event> events;
    uint64_t next = former.end() - std::min<uint64_t>(former.end(), former.size_);
    end_.store(next, std::memory_order_relaxed);
    former.Read(&next, former.size_, &events);
    for (const Event& event : events) Write(event);
  }

  // Call it from one thread at a time.
  void Write(const Event& event) {
    const uint64_t number = end_.load(std::memory_order_relaxed);
    Slot& slot = slots_[number % size_];
    slot.number.store(kChanging, std::memory_order_relaxed);
    // The fence orders the mark before the words, so a reader that saw a new word also sees that
    // the slot changes.
    std::atomic_thread_fence(std::memory_order_release);
    std::array<uint64_t, kWords> words;
    std::memcpy(words.data(), &event, sizeof(Event));
    for (size_t i = 0; i < kWords; ++i) slot.words[i].store(words[i], std::memory_order_relaxed);
    slot.number.store(number, std::memory_order_release);
    end_.store(number + 1, std::memory_order_release);
  }

  // Any thread. The number of events written so far, which is the number of the next event.
  uint64_t end() const { return end_.load(std::memory_order_acquire); }

  // Any thread. Appends at most `most` events, from number *next on, and moves *next past the last.
  // Returns how many events from *next on were overwritten before they could be read. A *next in
  // the future is set to the end.
  uint64_t Read(uint64_t* next, size_t most, std::vector<Event>* events) const {
    uint64_t lost = 0;
    for (uint64_t end = this->end(); *next < end && most != 0; ++*next) {
      const uint64_t oldest = end < size_ ? 0 : end - size_;
      if (*next < oldest) {
        lost += oldest - *next;
        *next = oldest;
      }
      Event event;
      if (Copy(*next, &event)) {
        events->push_back(event);
        --most;
      } else {  // the writer overwrote it during the copy
        ++lost;
        end = this->end();
      }
    }
    if (*next > end()) *next = end();
    return lost;
  }

 private:
  static constexpr uint64_t kChanging = ~uint64_t{0};
  struct Slot {
    std::atomic<uint64_t> number{kChanging};
    std::array<std::atomic<uint64_t>, kWords> words{};
  };

  bool Copy(uint64_t number, Event* event) const {
    const Slot& slot = slots_[number % size_];
    if (slot.number.load(std::memory_order_acquire) != number) return false;
    std::array<uint64_t, kWords> words;
    for (size_t i = 0; i < kWords; ++i) words[i] = slot.words[i].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (slot.number.load(std::memory_order_relaxed) != number) return false;
    std::memcpy(static_cast<void*>(event), words.data(), sizeof(Event));
    return true;
  }

  const size_t size_;
  const std::unique_ptr<Slot[]> slots_;
  std::atomic<uint64_t> end_{0};
};

}  // namespace eoib

#endif  // EOIB_FDB_EVENT_RING_H_
