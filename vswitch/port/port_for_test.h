// TestPort: a port whose outside is a test.
#ifndef EOIB_VSWITCH_PORT_PORT_FOR_TEST_H_
#define EOIB_VSWITCH_PORT_PORT_FOR_TEST_H_

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/port/port.h"
#include "vswitch/wire/ethernet.h"

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

  const std::string& name() const { return name_; }
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

inline TestPort::TestPort(std::string name, MacAddr mac)
    : name_(std::move(name)), mac_(mac), event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

inline void TestPort::Inject(std::vector<uint8_t> bytes, ChecksumRequest checksum) {
  absl::MutexLock lock(&mutex_);
  waiting_.push_back({std::move(bytes), checksum});
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(event_.get(), &one, sizeof(one));
}

inline std::vector<TestPort::Transmitted> TestPort::TakeTransmitted() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(transmitted_, {});
}

inline void TestPort::SetTransmitResult(DropReason reason) {
  absl::MutexLock lock(&mutex_);
  result_ = reason;
}

inline void TestPort::SetDiscard(bool discard) {
  absl::MutexLock lock(&mutex_);
  discard_ = discard;
}

inline size_t TestPort::Receive(BufferPool* pool, absl::Span<Frame> out, PortReceiveCounts* counts) noexcept {
  absl::MutexLock lock(&mutex_);
  size_t received = 0;
  while (received < out.size() && !waiting_.empty()) {
    const Transmitted& next = waiting_.front();
    if (next.bytes.size() > pool->frame_size()) {
      ++counts->too_large;
    } else {
      const BufferId buffer = pool->Allocate();
      if (buffer.IsNone()) return received;
      std::copy(next.bytes.begin(), next.bytes.end(), pool->Frame(buffer));
      out[received++] = {buffer, pool->Frame(buffer), static_cast<uint32_t>(next.bytes.size()), next.checksum};
    }
    waiting_.pop_front();
  }
  if (waiting_.empty()) {
    uint64_t count;
    [[maybe_unused]] ssize_t got = read(event_.get(), &count, sizeof(count));
  }
  return received;
}

inline DropReason TestPort::Transmit(const Frame& frame, bool strip_tag) noexcept {
  absl::MutexLock lock(&mutex_);
  if (result_ != DropReason::kNone || discard_) return result_;
  if (transmitted_.size() == kMaxKept) return DropReason::kPortFull;
  Transmitted sent{{frame.data, frame.data + frame.length}, frame.checksum};
  if (strip_tag) {
    sent.bytes.erase(sent.bytes.begin() + kMacsSize, sent.bytes.begin() + kMacsSize + kVlanTagSize);
    if (sent.checksum.needed) sent.checksum.start -= kVlanTagSize;
  }
  transmitted_.push_back(std::move(sent));
  return DropReason::kNone;
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_PORT_FOR_TEST_H_
