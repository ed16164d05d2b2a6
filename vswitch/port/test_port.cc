#include "vswitch/port/test_port.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "vswitch/wire/ethernet.h"

namespace eoib {

TestPort::TestPort(std::string name, MacAddr mac)
    : name_(std::move(name)), mac_(mac), event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

void TestPort::Inject(std::vector<uint8_t> bytes, ChecksumRequest checksum) {
  absl::MutexLock lock(&mutex_);
  waiting_.push_back({std::move(bytes), checksum});
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(event_.get(), &one, sizeof(one));
}

std::vector<TestPort::Transmitted> TestPort::TakeTransmitted() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(transmitted_, {});
}

void TestPort::SetTransmitResult(DropReason reason) {
  absl::MutexLock lock(&mutex_);
  result_ = reason;
}

void TestPort::SetDiscard(bool discard) {
  absl::MutexLock lock(&mutex_);
  discard_ = discard;
}

size_t TestPort::Receive(BufferPool* pool, absl::Span<Frame> out, PortReceiveCounts* counts) noexcept {
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
    counts->would_block = true;
    uint64_t count;
    [[maybe_unused]] ssize_t got = read(event_.get(), &count, sizeof(count));
  }
  return received;
}

DropReason TestPort::Transmit(const Frame& frame, bool strip_tag) noexcept {
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
