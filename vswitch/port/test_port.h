// TestPort: a port whose outside is a test.
#ifndef EOIB_VSWITCH_PORT_TEST_PORT_H_
#define EOIB_VSWITCH_PORT_TEST_PORT_H_

#include <deque>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/port/port.h"

namespace eoib {

// Any thread may call Inject, TakeTransmitted and the setters.
class TestPort final : public Port {
 public:
  struct Transmitted {
    std::vector<uint8_t> bytes;  // as transmitted, without the tag if that was stripped
    ChecksumRequest checksum;    // offsets count from bytes[0]
  };

  // It keeps up to this number of transmitted frames; then the port is full.
  static constexpr size_t kMaxKept = 4096;

  TestPort(std::string name, MacAddr mac);

  // Sends a frame from the outside.
  void Inject(std::vector<uint8_t> bytes, ChecksumRequest checksum = {});
  // The frames that the outside received since the last call.
  std::vector<Transmitted> TakeTransmitted();
  // From now on Transmit refuses every frame for `reason` (kNone: takes it).
  void SetTransmitResult(DropReason reason);
  // From now on Transmit discards the frames that it takes, without an allocation.
  void SetDiscard(bool discard);

  const std::string& name() const override { return name_; }
  int receive_fd() const override { return event_.get(); }
  size_t Receive(BufferPool* pool, absl::Span<Frame> out, PortReceiveCounts* counts) noexcept override;
  DropReason Transmit(const Frame& frame, bool strip_tag) noexcept override;
  MacAddr mac() const override { return mac_; }

 private:
  const std::string name_;
  const MacAddr mac_;
  UniqueFd event_;  // an eventfd, readable while frames wait
  absl::Mutex mutex_;
  std::deque<Transmitted> waiting_ ABSL_GUARDED_BY(mutex_);
  std::vector<Transmitted> transmitted_ ABSL_GUARDED_BY(mutex_);
  DropReason result_ ABSL_GUARDED_BY(mutex_) = DropReason::kNone;
  bool discard_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_TEST_PORT_H_
