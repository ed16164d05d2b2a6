// LongFrameSender: sends frames of a netdev's full MTU behind two tags, or behind one of 802.1ad.
// Netdevs carry them, but a send() to a packet socket refuses all that is longer than the MTU with
// one 802.1Q tag. A ring (PACKET_TX_RING) with a virtio_net_hdr has no such limit. README.md
// ("Other netdevs") says why it is not used for all frames.
#ifndef EOIB_VSWITCH_PORT_LONG_FRAME_SENDER_H_
#define EOIB_VSWITCH_PORT_LONG_FRAME_SENDER_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "vswitch/base/unique_fd.h"

namespace eoib {

// Control calls Attach and Leave, any worker Send.
class LongFrameSender {
 public:
  LongFrameSender() = default;
  ~LongFrameSender() { Leave(); }

  // From now on sends on the netdev with this index and MTU, which is in the network namespace of
  // the calling thread. If the kernel has no memory for the ring, Send refuses all frames, and the
  // next call tries again.
  void Attach(int index, uint32_t mtu);
  void Leave();

  // `parts`: a virtio_net_hdr, and a frame, whose first part has all tags. Returns an errno value,
  // or 0. EMSGSIZE: the packet behind the tags is larger than the MTU, or no netdev is attached;
  // ENOBUFS: the netdev has not sent earlier frames yet.
  int Send(absl::Span<const iovec> parts) noexcept;

 private:
  bool Open() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Close() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  UniqueFd socket_ ABSL_GUARDED_BY(mutex_);
  uint8_t* ring_ ABSL_GUARDED_BY(mutex_) = nullptr;
  size_t slot_size_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;  // slot
  int index_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t mtu_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_LONG_FRAME_SENDER_H_
