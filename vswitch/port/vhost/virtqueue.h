// Virtqueue: the device's side of one split virtqueue (virtio 1.1 §2.6), over plain memory.
//
// The guest writes the rings and may write anything, at any time. Each word of them is read once. A
// ring that breaks a rule of virtio stops the queue for good: fault() says why, and no function
// finds anything from then on. Nothing outside of the guest's memory is read or written.
//
// Order of calls: Next takes a chain, and Rewind gives the last ones back. Use returns a chain to
// the guest, which sees it after Publish. The queue holds no chain between two turns of the worker.
//
// For one thread at a time.
#ifndef EOIB_VSWITCH_PORT_VHOST_VIRTQUEUE_H_
#define EOIB_VSWITCH_PORT_VHOST_VIRTQUEUE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "vswitch/port/vhost/guest_memory.h"
#include "vswitch/port/vhost/split_ring.h"

namespace eoib {

// Records what was written to the guest's memory, while the guest migrates. The worker calls it.
class DirtyLog {
 public:
  virtual ~DirtyLog() = default;
  // Bytes at a guest-physical address.
  virtual void LogGuest(uint64_t address, uint64_t length) noexcept = 0;
  // Bytes in the used ring of a queue.
  virtual void LogUsed(uint16_t queue, uint64_t offset, uint64_t length) noexcept = 0;
};

// The buffers that the guest chained for one frame, or a part of a frame.
struct DescriptorChain {
  static constexpr size_t kMost = 256;  // a Linux guest makes 19 at most

  struct Piece {
    uint8_t* data;
    uint32_t length;
    uint64_t guest;  // guest-physical address
  };

  absl::Span<const Piece> pieces() const { return {parts.data(), count}; }

  uint16_t head = 0;
  size_t count = 0;
  uint64_t length = 0;  // of all pieces
  std::array<Piece, kMost> parts;
};

class Virtqueue {
 public:
  // Where the queue is. All is null while the driver does not run.
  struct Rings {
    uint8_t* descriptors = nullptr;
    uint8_t* available = nullptr;
    uint8_t* used = nullptr;
    uint16_t size = 0;  // a power of two
  };
  struct Features {
    bool indirect = false;
    bool event_index = false;
  };
  // How far the device has come in each ring.
  struct Indices {
    uint16_t available = 0;
    uint16_t used = 0;
    friend bool operator==(const Indices&, const Indices&) = default;
  };
  enum class Direction : uint8_t { kFromGuest, kToGuest };

  // `number` is that of the queue in its device. `memory` outlives the queue's use, up to the next
  // Attach or Detach; so does `log`, which is null unless the guest migrates. The queue is broken
  // if a ring of that size, with those features, is not in one region of the memory.
  void Attach(uint16_t number, const Rings& rings, const Features& features, const Indices& indices,
              const GuestMemory* memory, DirtyLog* log);
  void Detach() { *this = Virtqueue(); }
  bool attached() const { return size_ != 0; }
  Indices indices() const { return {next_available_, next_used_}; }

  // Why the queue stopped; empty if it did not.
  std::string fault() const;
  bool broken() const { return fault_ != nullptr; }

  // Takes the next chain that the guest made available, whose pieces are all readable, or all
  // writable, as `direction` says. False if there is none, or the queue is broken.
  bool Next(Direction direction, DescriptorChain* chain) noexcept;
  // Gives the last `chains` of Next back, which were not used.
  void Rewind(uint16_t chains) noexcept {
    next_available_ = static_cast<uint16_t>(next_available_ - chains);
  }
  // Returns a chain, with `written` bytes in it.
  void Use(uint16_t head, uint32_t written) noexcept;
  // Logs bytes that the caller wrote to a piece of a chain.
  void LogWrite(const DescriptorChain::Piece& piece, uint64_t bytes) noexcept {
    if (log_ != nullptr) log_->LogGuest(piece.guest, bytes);
  }
  // Shows the guest what was used. Returns whether it wants an interrupt for that.
  bool Publish() noexcept;

  // Asks the guest to notify the device of further chains. Returns whether there is one already.
  bool EnableNotification() noexcept;
  // Spares the guest notifications, as far as that is possible: with the event index they end by
  // themselves.
  void DisableNotification() noexcept;
  bool HasAvailable() noexcept;

 private:
  bool Stop(const char* why, uint64_t detail) noexcept;
  uint16_t Load(const uint16_t* word) const noexcept;
  void Store(uint16_t* word, uint16_t value) noexcept;
  enum class Table : uint8_t { kQueue, kIndirect };
  bool Collect(Direction direction, Table kind, absl::Span<const RingDescriptor> table,
               RingDescriptor first, DescriptorChain* chain) noexcept;
  bool Add(Direction direction, const RingDescriptor& descriptor, DescriptorChain* chain) noexcept;
  void SetUsedFlags(uint16_t flags) noexcept;

  const RingDescriptor* descriptors_ = nullptr;
  const uint16_t* available_ = nullptr;
  uint16_t* used_ = nullptr;
  uint16_t size_ = 0;
  uint16_t number_ = 0;
  Features features_;
  const GuestMemory* memory_ = nullptr;
  DirtyLog* log_ = nullptr;

  uint16_t next_available_ = 0;
  uint16_t available_index_ = 0;  // the guest's, as of the last look
  uint16_t next_used_ = 0;
  uint16_t published_ = 0;  // the used index that the guest sees
  const char* fault_ = nullptr;
  uint64_t fault_detail_ = 0;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_VHOST_VIRTQUEUE_H_
