// Reading and writing the bytes of descriptor chains.
#ifndef EOIB_VSWITCH_PORT_VHOST_GUEST_BUFFERS_H_
#define EOIB_VSWITCH_PORT_VHOST_GUEST_BUFFERS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "vswitch/port/vhost/virtqueue.h"

namespace eoib {

// Reads a chain from its start. The caller does not read more than the chain's length.
class ChainReader {
 public:
  explicit ChainReader(const DescriptorChain& chain) : chain_(chain) {}

  void Read(void* to, size_t size) noexcept {
    auto* at = static_cast<uint8_t*>(to);
    Advance(size, [&at](const uint8_t* from, size_t bytes) {
      std::memcpy(at, from, bytes);
      at += bytes;
    });
  }
  void Skip(size_t size) noexcept {
    Advance(size, [](const uint8_t*, size_t) {});
  }

 private:
  template <typename Visit>
  void Advance(size_t size, Visit visit) noexcept {
    while (size != 0) {
      const DescriptorChain::Piece& piece = chain_.parts[piece_];
      const size_t bytes = std::min<size_t>(size, piece.length - offset_);
      visit(piece.data + offset_, bytes);
      offset_ += static_cast<uint32_t>(bytes);
      size -= bytes;
      if (offset_ != piece.length) continue;
      ++piece_;
      offset_ = 0;
    }
  }

  const DescriptorChain& chain_;
  size_t piece_ = 0;
  uint32_t offset_ = 0;
};

// Writes one frame into the chains that the guest made available: one, or with mergeable buffers
// several.
class FrameWriter {
 public:
  static constexpr size_t kMostChains = 128;

  // `chain` is room for the current chain.
  FrameWriter(Virtqueue* queue, bool mergeable, DescriptorChain* chain)
      : queue_(queue), most_(mergeable ? kMostChains : 1), chain_(*chain) {
    chain_.count = 0;
  }

  // False if the guest has no room; then GiveUp.
  bool Write(absl::Span<const uint8_t> bytes) noexcept {
    while (!bytes.empty()) {
      if (piece_ == chain_.count && !NextChain()) return false;
      const DescriptorChain::Piece& piece = chain_.parts[piece_];
      const size_t size = std::min<size_t>(bytes.size(), piece.length - offset_);
      std::memcpy(piece.data + offset_, bytes.data(), size);
      queue_->LogWrite({piece.data, piece.length, piece.guest + offset_}, size);
      used_[chains_ - 1].written += static_cast<uint32_t>(size);
      bytes.remove_prefix(size);
      offset_ += static_cast<uint32_t>(size);
      if (offset_ != piece.length) continue;
      ++piece_;
      offset_ = 0;
    }
    return true;
  }
  // Writes zeros where Finish puts the number of chains.
  bool WriteCount() noexcept {
    for (CountByte& byte : count_) {
      if (piece_ == chain_.count && !NextChain()) return false;
      const DescriptorChain::Piece& piece = chain_.parts[piece_];
      byte = {piece.data + offset_, piece.guest + offset_};
      const uint8_t zero = 0;
      if (!Write({&zero, 1})) return false;
    }
    return true;
  }
  // Returns the chains to the guest, which sees them after Publish.
  void Finish() noexcept {
    for (size_t i = 0; i < count_.size() && count_[i].data != nullptr; ++i) {
      *count_[i].data = static_cast<uint8_t>(chains_ >> (8 * i));
      queue_->LogWrite({count_[i].data, 1, count_[i].guest}, 1);
    }
    for (size_t i = 0; i < chains_; ++i) queue_->Use(used_[i].head, used_[i].written);
  }
  void GiveUp() noexcept { queue_->Rewind(static_cast<uint16_t>(chains_)); }
  // Whether more chains than a frame may have would be needed, so that it will never fit.
  bool AtLimit() const { return chains_ == most_; }

 private:
  struct UsedChain {
    uint16_t head;
    uint32_t written;
  };
  struct CountByte {
    uint8_t* data = nullptr;
    uint64_t guest = 0;
  };

  bool NextChain() noexcept {
    if (chains_ == most_) return false;
    do {
      if (chains_ == most_ || !queue_->Next(Virtqueue::Direction::kToGuest, &chain_)) return false;
      used_[chains_++] = {chain_.head, 0};
    } while (chain_.count == 0);
    piece_ = 0;
    offset_ = 0;
    return true;
  }

  Virtqueue* const queue_;
  const size_t most_;
  DescriptorChain& chain_;
  size_t piece_ = 0;
  uint32_t offset_ = 0;
  size_t chains_ = 0;
  std::array<CountByte, 2> count_;
  std::array<UsedChain, kMostChains> used_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_VHOST_GUEST_BUFFERS_H_
