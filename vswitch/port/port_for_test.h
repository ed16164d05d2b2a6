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
#include "absl/types/optional.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/port/piece_layout.h"
#include "vswitch/port/port.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {

// Any thread may call Inject, TakeTransmitted and the setters.
class TestPort final : public Port {
 public:
  struct Transmitted {
    std::vector<uint8_t> bytes;  // as transmitted, without the tag if that was stripped
    ChecksumRequest checksum;    // offsets count from bytes[0]
    Gso gso = {};
    bool checksum_is_good = false;  // of an injected frame
  };

  // It keeps up to this number of transmitted frames; then the port is full.
  static constexpr size_t kMaxKept = 4096;

  TestPort(std::string name, MacAddr mac);

  // Sends a frame from the outside. `gso` and more bytes than a datagram has require SetTakesLarge.
  void Inject(std::vector<uint8_t> bytes, ChecksumRequest checksum = {}, Gso gso = {},
              bool checksum_is_good = false);
  // The frames that the outside received since the last call.
  std::vector<Transmitted> TakeTransmitted();
  // From now on Transmit refuses every frame for `reason` (kNone: takes it).
  void SetTransmitResult(DropReason reason);
  // From now on Transmit discards the frames that it takes, without an allocation.
  void SetDiscard(bool discard);

  // From now on the port gives and takes super-frames and other large frames.
  void SetTakesLarge(bool takes);

  const std::string& name() const { return name_; }
  int receive_fd() const override { return event_.get(); }
  size_t Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out,
                 PortReceiveCounts* counts) noexcept override;
  DropReason Transmit(const Frame& frame, bool strip_tag) noexcept override {
    return Take(frame.bytes(), frame, strip_tag);
  }
  bool TakesLarge(const Gso& gso) const noexcept override;
  DropReason TransmitLarge(const BufferPool& pool, const Frame& frame,
                           bool strip_tag) noexcept override;
  bool ServesSockets() const noexcept override { return true; }
  MacAddr mac() const override { return mac_; }

 private:
  absl::optional<Frame> MakeFrame(BufferPool* pool, const PieceLayout& layout,
                                  const Transmitted& next) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  DropReason Take(absl::Span<const uint8_t> bytes, const Frame& frame, bool strip_tag);

  const std::string name_;
  const MacAddr mac_;
  UniqueFd event_;  // an eventfd, readable while frames wait
  mutable absl::Mutex mutex_;
  std::deque<Transmitted> waiting_ ABSL_GUARDED_BY(mutex_);
  std::vector<Transmitted> transmitted_ ABSL_GUARDED_BY(mutex_);
  DropReason result_ ABSL_GUARDED_BY(mutex_) = DropReason::kNone;
  bool discard_ ABSL_GUARDED_BY(mutex_) = false;
  bool takes_large_ ABSL_GUARDED_BY(mutex_) = false;
};

inline TestPort::TestPort(std::string name, MacAddr mac)
    : name_(std::move(name)), mac_(mac), event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

inline void TestPort::Inject(std::vector<uint8_t> bytes, ChecksumRequest checksum, Gso gso,
                             bool checksum_is_good) {
  absl::MutexLock lock(&mutex_);
  waiting_.push_back({std::move(bytes), checksum, gso, checksum_is_good});
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

inline void TestPort::SetTakesLarge(bool takes) {
  absl::MutexLock lock(&mutex_);
  takes_large_ = takes;
}

// Nothing if the pool has too few buffers.
inline absl::optional<Frame> TestPort::MakeFrame(BufferPool* pool, const PieceLayout& layout,
                                                 const Transmitted& next) const {
  const size_t size = next.bytes.size();
  const bool whole = !takes_large_ || (next.gso.type == GsoType::kNone && size <= layout.datagram);
  Frame frame{pool->Allocate(), nullptr,
              static_cast<uint32_t>(whole ? size : std::min<size_t>(size, layout.first)),
              next.checksum};
  if (frame.buffer.IsNone()) return absl::nullopt;
  frame.data = pool->Frame(frame.buffer);
  frame.gso = next.gso;
  frame.checksum_is_good = next.checksum_is_good;
  std::copy_n(next.bytes.begin(), frame.length, frame.data);
  BufferId last = frame.buffer;
  for (size_t at = frame.length; at < size; ++frame.buffers) {
    const BufferId buffer = pool->Allocate();
    if (buffer.IsNone()) {
      pool->Free(frame.buffer);
      return absl::nullopt;
    }
    const size_t bytes = std::min<size_t>(size - at, layout.piece);
    std::copy_n(next.bytes.begin() + static_cast<ptrdiff_t>(at), bytes, pool->Frame(buffer));
    pool->Append(last, buffer, pool->Frame(buffer), static_cast<uint32_t>(bytes));
    last = buffer;
    at += bytes;
  }
  frame.rest = static_cast<uint32_t>(size) - frame.length;
  return frame;
}

inline size_t TestPort::Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out,
                                PortReceiveCounts* counts) noexcept {
  absl::MutexLock lock(&mutex_);
  const PieceLayout layout(mtu);
  size_t received = 0;
  size_t buffers = 0;
  while (received < out.size() && buffers < out.size() && !waiting_.empty()) {
    if (waiting_.front().bytes.size() > (takes_large_ ? layout.Largest() : pool->frame_size())) {
      ++counts->too_large;
    } else {
      const absl::optional<Frame> frame = MakeFrame(pool, layout, waiting_.front());
      if (!frame.has_value()) return received;
      buffers += frame->buffers;
      out[received++] = *frame;
    }
    waiting_.pop_front();
  }
  if (waiting_.empty()) {
    uint64_t count;
    [[maybe_unused]] ssize_t got = read(event_.get(), &count, sizeof(count));
  }
  return received;
}

inline bool TestPort::TakesLarge(const Gso&) const noexcept {
  absl::MutexLock lock(&mutex_);
  return takes_large_;
}

inline DropReason TestPort::TransmitLarge(const BufferPool& pool, const Frame& frame,
                                          bool strip_tag) noexcept {
  {
    absl::MutexLock lock(&mutex_);
    if (discard_) return result_;
  }
  std::vector<uint8_t> bytes;
  VisitPieces(pool, frame, [&bytes](absl::Span<uint8_t> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  return Take(bytes, frame, strip_tag);
}

inline DropReason TestPort::Take(absl::Span<const uint8_t> bytes, const Frame& frame,
                                 bool strip_tag) {
  absl::MutexLock lock(&mutex_);
  if (result_ != DropReason::kNone || discard_) return result_;
  if (transmitted_.size() == kMaxKept) return DropReason::kPortFull;
  Transmitted sent{{bytes.begin(), bytes.end()}, frame.checksum, frame.gso};
  if (strip_tag) {
    sent.bytes.erase(sent.bytes.begin() + kMacsSize, sent.bytes.begin() + kMacsSize + kVlanTagSize);
    if (sent.checksum.needed) sent.checksum.start -= kVlanTagSize;
  }
  transmitted_.push_back(std::move(sent));
  return DropReason::kNone;
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_PORT_FOR_TEST_H_
