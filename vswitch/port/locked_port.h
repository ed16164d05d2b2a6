// LockedPort: a port that belongs to one worker, at each queue of its VES. The workers take turns,
// by a mutex.
//
// This is for memory that is shared with a guest, where each frame moves an index. A lock that no
// other thread holds costs some 20 ns for a frame. A ring to the worker that owns the port would
// cost a second copy and a wake-up, and the frames that it has no room for, or that the port
// refuses later, would need a count of their own.
#ifndef EOIB_VSWITCH_PORT_LOCKED_PORT_H_
#define EOIB_VSWITCH_PORT_LOCKED_PORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "vswitch/port/port.h"

namespace eoib {

class LockedPort final : public Port {
 public:
  // `port` may be flushed between the frames of a batch. Its Flush loses no frame, because the
  // frames may be another worker's.
  explicit LockedPort(std::unique_ptr<Port> port)
      : shared_(std::make_shared<Shared>(std::move(port))) {}

  // The port for another queue of the VES.
  std::unique_ptr<Port> MakeQueue() const { return std::unique_ptr<Port>(new LockedPort(shared_)); }

  int receive_fd() const override { return shared_->port->receive_fd(); }
  size_t Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out,
                 PortReceiveCounts* counts) noexcept override {
    absl::MutexLock lock(&shared_->mutex);
    return shared_->port->Receive(pool, mtu, out, counts);
  }
  DropReason Transmit(const Frame& frame, bool strip_tag) noexcept override {
    absl::MutexLock lock(&shared_->mutex);
    return shared_->port->Transmit(frame, strip_tag);
  }
  bool TakesLarge(const Gso& gso) const noexcept override { return shared_->port->TakesLarge(gso); }
  DropReason TransmitLarge(const BufferPool& pool, const Frame& frame,
                           bool strip_tag) noexcept override {
    absl::MutexLock lock(&shared_->mutex);
    return shared_->port->TransmitLarge(pool, frame, strip_tag);
  }
  size_t Flush(DropReason* reason) noexcept override {
    absl::MutexLock lock(&shared_->mutex);
    return shared_->port->Flush(reason);
  }
  bool ServesSockets() const noexcept override { return shared_->port->ServesSockets(); }
  MacAddr mac() const override { return shared_->port->mac(); }

 private:
  struct Shared {
    explicit Shared(std::unique_ptr<Port> owned) : port(std::move(owned)) {}
    absl::Mutex mutex;  // for the members of Port that the worker calls
    const std::unique_ptr<Port> port;
  };

  explicit LockedPort(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  const std::shared_ptr<Shared> shared_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_LOCKED_PORT_H_
