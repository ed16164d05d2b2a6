// VnetQueue: a TapPort or NetdevPort at another queue of its VES, for another worker. It writes by
// itself, to the same descriptor. To read, it calls the port itself; one worker does that, so the
// others do not.
#ifndef EOIB_VSWITCH_PORT_VNET_QUEUE_H_
#define EOIB_VSWITCH_PORT_VNET_QUEUE_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "vswitch/port/port.h"
#include "vswitch/port/vnet_writer.h"

namespace eoib {

class VnetQueue final : public Port {
 public:
  // `first` outlives the object; `writer` is its writer.
  VnetQueue(Port* first, const VnetWriter* writer) : first_(*first), writer_(writer) {}

  int receive_fd() const override { return first_.receive_fd(); }
  size_t Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out,
                 PortReceiveCounts* counts) noexcept override {
    return first_.Receive(pool, mtu, out, counts);
  }
  DropReason Transmit(const Frame& frame, bool strip_tag) noexcept override {
    return writer_.Transmit(frame, strip_tag);
  }
  bool TakesLarge(const Gso& gso) const noexcept override { return first_.TakesLarge(gso); }
  DropReason TransmitLarge(const BufferPool& pool, const Frame& frame,
                           bool strip_tag) noexcept override {
    return writer_.TransmitLarge(pool, frame, strip_tag);
  }
  size_t Flush(DropReason* reason) noexcept override { return writer_.Flush(reason); }
  bool ServesSockets() const noexcept override { return first_.ServesSockets(); }
  MacAddr mac() const override { return first_.mac(); }

 private:
  Port& first_;
  VnetWriter writer_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_VNET_QUEUE_H_
