// GuestAccess: a stretch of code that reads and writes a guest's memory.
//
// The machine's program may shrink the file behind that memory at any time, or its file system may
// be full. The kernel then answers an access with SIGBUS; so it does for memory that is broken.
// Inside of a stretch, a signal handler puts zeros in the place of the region with that address,
// and sets the machine's `lost`. The access succeeds, and its caller looks at `lost` afterwards.
// Elsewhere the signal ends the process as before. The zeros last until the memory is unmapped.
#ifndef EOIB_VSWITCH_PORT_VHOST_GUEST_ACCESS_H_
#define EOIB_VSWITCH_PORT_VHOST_GUEST_ACCESS_H_

#include <atomic>
#include <memory>
#include <utility>

#include "vswitch/port/vhost/guest_memory.h"

namespace eoib {

class GuestAccess {
 public:
  // Whether a machine has lost memory.
  class Lost {
   public:
    explicit Lost(bool lost) : lost_(lost) {}
    bool load(std::memory_order order = std::memory_order_seq_cst) const {
      return lost_.load(order);
    }
    void store(bool lost) { lost_.store(lost); }
    // What one mapping each replaces. Without it, each page that is lost becomes a mapping, and the
    // kernel limits their number. While no thread is in a stretch. None while the library may unmap
    // regions: something else may then be there.
    void SetRegions(const GuestMemory& memory) { regions_ = memory; }

   private:
    friend class GuestAccess;
    std::atomic<bool> lost_;
    GuestMemory regions_;
  };

  // Installs the signal handler, on the first call. SIGBUS must not be blocked on the threads that
  // access guests.
  static void CatchLosses();

  // The stretch lasts as long as the object, on one thread.
  explicit GuestAccess(Lost* lost) noexcept : before_(Begin(lost)) {}
  ~GuestAccess() { Begin(before_); }
  GuestAccess(const GuestAccess&) = delete;
  GuestAccess& operator=(const GuestAccess&) = delete;

  // For a thread of the library, whose code is not ours: a stretch until the next call there. null:
  // outside of one.
  static void BeginOnThread(std::shared_ptr<Lost> lost);

 private:
  static Lost* Begin(Lost* lost) noexcept {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    Lost* const before = std::exchange(current_, lost);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return before;
  }
  static bool Recover(void* address) noexcept;
  friend struct BusErrorHandler;

  static inline constinit thread_local Lost* current_ = nullptr;

  Lost* const before_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_VHOST_GUEST_ACCESS_H_
