// TapReader: reads the frames that the kernel transmits on a TAP into buffers, a burst of small
// ones with one system call.
#ifndef EOIB_VSWITCH_PORT_TAP_READER_H_
#define EOIB_VSWITCH_PORT_TAP_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/port/burst_reader.h"
#include "vswitch/port/frame.h"
#include "vswitch/port/port.h"
#include "vswitch/port/scatter_list.h"
#include "vswitch/port/vnet_header.h"

namespace eoib {

// Thread: the worker that owns the port.
class TapReader {
 public:
  struct Limits {
    uint32_t mtu;      // of the VES, for the layout of frames in several buffers
    uint32_t largest;  // frame of the interface's MTU, with two tags
  };

  // `tap` is the descriptor of a TAP with a virtio_net_hdr, and does not block. With `super_frames`
  // the kernel may hand over super-frames.
  TapReader(int tap, bool super_frames);
  ~TapReader();

  bool takes_super_frames() const { return spill_bytes_ != nullptr; }

  // Port::Receive. Sets *error to the errno of a failed read (EAGAIN: no frame is left), or 0.
  size_t Receive(BufferPool* pool, const Limits& limits, absl::Span<Frame> out,
                 PortReceiveCounts* counts, int* error) noexcept;

 private:
  struct Batch;
  struct Bursts;

  void ReceiveOneByOne(Batch* batch) noexcept;
  void ReceiveBursts(Batch* batch) noexcept;
  size_t ReceiveBurst(Batch* batch, size_t reads) noexcept;
  bool CanBurst(const BufferPool& pool) noexcept;
  static void Accept(const VnetHeader& header, uint32_t length, ScatterList* list,
                     Batch* batch) noexcept;

  const int tap_;
  const std::unique_ptr<uint8_t[]> spill_bytes_;  // null without super-frames
  ScatterList::Spill spill_;
  std::unique_ptr<Bursts> bursts_;  // made when small frames arrive
  bool io_uring_is_refused_ = false;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_TAP_READER_H_
