#include "tests/bench/generator_port.h"

#include <cstring>

namespace eoib::bench {

void GeneratorPort::SetFrame(std::vector<uint8_t> frame, const ChecksumRequest& checksum) {
  frame_ = std::move(frame);
  checksum_ = checksum;
}

size_t GeneratorPort::Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out,
                              PortReceiveCounts* counts) noexcept {
  size_t received = 0;
  for (const auto& [destination, source] : queued_) {
    const BufferId buffer = pool->Allocate();
    uint8_t* const data = pool->Frame(buffer);
    std::memcpy(data, frame_.data(), frame_.size());
    destination.ToWire(data);
    source.ToWire(data + MacAddr::kSize);
    out[received++] = {buffer, data, static_cast<uint32_t>(frame_.size()), checksum_};
  }
  queued_.clear();
  return received;
}

DropReason GeneratorPort::Transmit(const Frame& frame, bool strip_tag) noexcept {
  ++delivered_;
  return DropReason::kNone;
}

}  // namespace eoib::bench
