#include "vswitch/port/long_frame_sender.h"

#include <linux/if_packet.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>

#include "vswitch/port/vnet_header.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {
namespace {

constexpr size_t kRingSize = 512 << 10;  // 256 frames of an MTU of 1,500
constexpr size_t kSmallestBlock = 64 << 10;
// Of what is to be sent, in a slot.
constexpr size_t kDataOffset = TPACKET_ALIGN(sizeof(tpacket2_hdr));

// The kernel writes it, too.
std::atomic_ref<uint32_t> StatusOf(uint8_t* slot) {
  return std::atomic_ref<uint32_t>(reinterpret_cast<tpacket2_hdr*>(slot)->tp_status);
}

}  // namespace

void LongFrameSender::Attach(int index, uint32_t mtu) {
  absl::MutexLock lock(&mutex_);
  if (index == index_ && mtu == mtu_) return;
  Close();
  index_ = index;
  mtu_ = mtu;
  slot_size_ = std::bit_ceil(kDataOffset + kVnetHeaderSize + mtu + kMtuOverhead);
  if (!Open()) Close();
}

void LongFrameSender::Leave() {
  absl::MutexLock lock(&mutex_);
  Close();
}

bool LongFrameSender::Open() {
  // Without a protocol it receives nothing.
  socket_.reset(socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int fd = socket_.get();
  const int version = TPACKET_V2, on = 1;
  tpacket_req ring{};
  ring.tp_block_size = static_cast<unsigned>(std::max(slot_size_, kSmallestBlock));
  ring.tp_block_nr = static_cast<unsigned>(kRingSize / ring.tp_block_size);
  ring.tp_frame_size = static_cast<unsigned>(slot_size_);
  ring.tp_frame_nr = static_cast<unsigned>(kRingSize / slot_size_);
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_ifindex = index_;
  if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) != 0 ||
      setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) != 0 ||
      setsockopt(fd, SOL_PACKET, PACKET_TX_RING, &ring, sizeof(ring)) != 0 ||
      bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return false;
  }
  void* const mapped = mmap(nullptr, kRingSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return false;
  ring_ = static_cast<uint8_t*>(mapped);
  return true;
}

void LongFrameSender::Close() {
  if (ring_ != nullptr) munmap(ring_, kRingSize);
  ring_ = nullptr;
  socket_.reset();
  next_ = 0;
  index_ = 0;
  mtu_ = 0;
}

int LongFrameSender::Send(absl::Span<const iovec> parts) noexcept {
  absl::MutexLock lock(&mutex_);
  size_t length = 0;
  for (const iovec& part : parts.subspan(1)) length += part.iov_len;
  const size_t tags_end =
      PayloadBehindTags({static_cast<const uint8_t*>(parts[1].iov_base), parts[1].iov_len});
  if (ring_ == nullptr || length > mtu_ + kMtuOverhead || length - tags_end > mtu_) return EMSGSIZE;
  uint8_t* const slot = ring_ + next_ * slot_size_;
  const std::atomic_ref<uint32_t> status = StatusOf(slot);
  if (status.load(std::memory_order_acquire) != TP_STATUS_AVAILABLE) return ENOBUFS;
  uint8_t* to = slot + kDataOffset;
  for (const iovec& part : parts) {
    std::memcpy(to, part.iov_base, part.iov_len);
    to += part.iov_len;
  }
  reinterpret_cast<tpacket2_hdr*>(slot)->tp_len = static_cast<uint32_t>(kVnetHeaderSize + length);
  status.store(TP_STATUS_SEND_REQUEST, std::memory_order_release);
  if (send(socket_.get(), nullptr, 0, MSG_DONTWAIT) < 0) {
    // The kernel stays at the slot, too.
    status.store(TP_STATUS_AVAILABLE, std::memory_order_release);
    return errno;
  }
  next_ = (next_ + 1) % (kRingSize / slot_size_);
  return 0;
}

}  // namespace eoib
