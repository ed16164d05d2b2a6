// EventRing: the last events of one writer, for readers that come when they like.
//
// The writer never waits and never fails: it overwrites the oldest. A reader says how far it has come and is told how many it
// came too late for. A ring may go on where a smaller one ends.
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
  // Of the last `size` events.
  explicit EventRing(size_t size) : size_(size), slots_(std::make_unique<Slot[]>(size)) {}
  // Begins with those of `former`, which is not written to meanwhile or any more, and with its numbers.
  void GoOnFrom(const EventRing& former) {
    std::vector<Event> events;
    uint64_t next = former.end() - std::min<uint64_t>(former.end(), former.size_);
    end_.store(next, std::memory_order_relaxed);
    former.Read(&next, former.size_, &events);
    for (const Event& event : events) Write(event);
  }

  // One thread at a time.
  void Write(const Event& event) {
    const uint64_t number = end_.load(std::memory_order_relaxed);
    Slot& slot = slots_[number % size_];
    slot.number.store(kChanging, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    std::array<uint64_t, kWords> words;
    std::memcpy(words.data(), &event, sizeof(Event));
    for (size_t i = 0; i < kWords; ++i) slot.words[i].store(words[i], std::memory_order_relaxed);
    slot.number.store(number, std::memory_order_release);
    end_.store(number + 1, std::memory_order_release);
  }

  // Any thread. How many were written so far, which is the number of the next one.
  uint64_t end() const { return end_.load(std::memory_order_acquire); }

  // Any thread. Adds events from number *next on, at most `most`, and moves *next behind the last. Returns how many of those
  // from *next on were overwritten before they could be read. A *next that has not been yet is taken for the end.
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
      } else {  // the writer has come round
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
