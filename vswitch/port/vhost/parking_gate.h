// ParkingGate: keeps the worker out of a guest's memory while another thread changes where that is.
// The worker never waits.
#ifndef EOIB_VSWITCH_PORT_VHOST_PARKING_GATE_H_
#define EOIB_VSWITCH_PORT_VHOST_PARKING_GATE_H_

#include <sched.h>

#include <atomic>

namespace eoib {

class ParkingGate {
 public:
  // The worker. It is inside if this returns true, until it calls Leave.
  bool Enter() noexcept {
    inside_.store(true);
    if (!parked_.load()) return true;
    inside_.store(false);
    return false;
  }
  void Leave() noexcept { inside_.store(false, std::memory_order_release); }

  // The other thread. After Park the worker is outside, and what it wrote is visible; after Resume
  // the other way round. The worker stays inside for a batch at most.
  void Park() {
    parked_.store(true);
    while (inside_.load()) sched_yield();
  }
  void Resume() { parked_.store(false); }
  bool parked() const { return parked_.load(); }

 private:
  std::atomic<bool> parked_{true};
  std::atomic<bool> inside_{false};
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_VHOST_PARKING_GATE_H_
