// SpscQueue: a bounded single-producer, single-consumer queue with an eventfd that wakes the
// consumer.
//
// A worker and control share them, for punts, frames and messages (control_queues.h). Neither side
// waits for the other: if the queue is full, Push fails and the producer decides what to do.
#ifndef EOIB_VSWITCH_BASE_SPSC_QUEUE_H_
#define EOIB_VSWITCH_BASE_SPSC_QUEUE_H_

#include <array>
#include <atomic>
#include <cstddef>

#include "vswitch/base/event_fd.h"

namespace eoib {

template <typename T, size_t kCapacity>
class SpscQueue {
  static_assert((kCapacity & (kCapacity - 1)) == 0, "a power of two");

 public:
  static constexpr size_t capacity() { return kCapacity; }
  // Producer. False if the queue is full. Call Notify once after a burst.
  bool Push(const T& item) {
    const size_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_.load(std::memory_order_acquire) == kCapacity) return false;
    items_[tail % kCapacity] = item;
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }
  // The number of items that Push takes now.
  size_t Room() const {
    return kCapacity -
           (tail_.load(std::memory_order_relaxed) - head_.load(std::memory_order_acquire));
  }
  void Notify() { RingEventFd(event_.get()); }
  // The number of items that were popped, in all.
  size_t popped() const { return head_.load(std::memory_order_acquire); }

  // Consumer. False if the queue is empty.
  bool Pop(T* item) {
    const size_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_.load(std::memory_order_acquire)) return false;
    *item = items_[head % kCapacity];
    head_.store(head + 1, std::memory_order_release);
    return true;
  }
  // Readable after Notify, until Clear.
  int fd() const { return event_.get(); }
  void Clear() { ClearEventFd(event_.get()); }

 private:
  const UniqueFd event_ = MakeEventFd();
  alignas(64) std::atomic<size_t> head_{0};
  alignas(64) std::atomic<size_t> tail_{0};
  std::array<T, kCapacity> items_{};
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_SPSC_QUEUE_H_
