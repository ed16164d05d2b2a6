// The data path of a vhost port: frames between virtqueues and the pool's buffers.
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/base/optimization.h"
#include "vswitch/base/event_fd.h"
#include "vswitch/port/divide_super_frame.h"
#include "vswitch/port/vhost/guest_buffers.h"
#include "vswitch/port/vhost/vhost_port.h"
#include "vswitch/port/vnet_writer.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/flow_hash.h"
#include "vswitch/wire/ip/arp.h"

namespace eoib {
namespace {

constexpr uint64_t kQueueSeed = 0x766d;  // queues of one guest: no secret

}  // namespace

// The frames of one call of Receive.
struct VhostPort::Taken {
  BufferPool* pool;
  PieceLayout layout;
  absl::Span<Frame> out;
  PortReceiveCounts* counts;
  size_t frames = 0;
  size_t buffers = 0;
  size_t tries = 0;

  bool full() const { return frames == out.size() || buffers >= out.size() || tries >= out.size(); }
  // Whether all parts of a frame fit. The first frame of a batch has all the room that there is.
  bool HasRoomToDivide(size_t length) const {
    return (frames == 0 || out.size() - frames >= MostParts(length, layout)) &&
           free() >= MostBuffers(length, layout);
  }
  size_t free() const { return pool->count(BufferPool::State::kFree); }
  void Add(const Frame& frame) {
    out[frames++] = frame;
    buffers += frame.buffers;
  }
};

// ---- From the guest -----------------------------------------------------------------------------

size_t VhostPort::Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out,
                          PortReceiveCounts* counts) noexcept {
  if (ABSL_PREDICT_FALSE(!IsToEnter())) {
    ClearReady();
    return 0;
  }
  const GuestAccess access(lost_.get());
  Taken taken{pool, PieceLayout(mtu), out, counts};
  if (ABSL_PREDICT_FALSE(announced_.load(std::memory_order_relaxed) != 0)) TakeAnnouncement(&taken);
  Collect(&taken);
  NoteFaults();
  if (unpublished_ == 0) gate_.Leave();
  return taken.frames;
}

// Takes frames from all queues. The descriptor stays ready until all of them are empty.
void VhostPort::Collect(Taken* taken) noexcept {
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < pairs(); ++i) {
      if (!CollectFrom(&queues_[2 * ((next_pair_ + i) % pairs()) + 1], taken)) {
        next_pair_ = (next_pair_ + i + 1) % pairs();
        // The guest did not notify of frames that it made available before WaitForMore.
        if (round != 0) RingEventFd(wake_.get());
        return;
      }
    }
    ClearReady();
    if (!WaitForMore()) return;
  }
  RingEventFd(wake_.get());
}

// False if more frames may wait.
bool VhostPort::CollectFrom(Queue* queue, Taken* taken) noexcept {
  bool empty = false;
  while (!taken->full()) {
    if (!queue->ring.Next(Virtqueue::Direction::kFromGuest, &chain_)) {
      empty = true;
      break;
    }
    ++taken->tries;
    if (ABSL_PREDICT_FALSE(TakeFrame(taken) == Outcome::kNoBuffer)) {
      queue->ring.Rewind(1);
      break;
    }
    queue->ring.Use(chain_.head, 0);
  }
  if (!empty) queue->ring.DisableNotification();
  if (queue->ring.Publish()) Interrupt(*queue);
  return empty;
}

// Copies the frame of a chain into buffers.
VhostPort::Outcome VhostPort::TakeFrame(Taken* taken) noexcept {
  if (ABSL_PREDICT_FALSE(chain_.length < header_size_ + kEthernetHeaderSize)) {
    ++taken->counts->runt;
    return Outcome::kRefused;
  }
  const uint64_t length = chain_.length - header_size_;
  ChainReader reader(chain_);
  VnetHeader header;
  reader.Read(&header, sizeof(header));
  reader.Skip(header_size_ - sizeof(header));
  const absl::optional<Gso> gso = header.gso();
  const bool plain = gso.has_value() && gso->type == GsoType::kNone;
  if (ABSL_PREDICT_FALSE(!gso.has_value() || length > kLargestFrame - kVlanTagSize ||
                         (plain && length > std::max(taken->layout.datagram,
                                                     largest_.load(std::memory_order_relaxed))) ||
                         (plain && length > taken->layout.Largest()))) {
    ++taken->counts->too_large;
    return Outcome::kRefused;
  }
  // A driver must set NEEDS_CSUM in a super-frame (virtio 1.1 §5.1.6.2.1), and no guest is asked
  // whether a checksum is good.
  if (ABSL_PREDICT_FALSE(!plain && !header.checksum().needed)) {
    ++taken->counts->bad_checksum_request;
    return Outcome::kRefused;
  }
  return TakeWhole(header, static_cast<uint32_t>(length), *gso, &reader, taken);
}

VhostPort::Outcome VhostPort::TakeWhole(const VnetHeader& header, uint32_t length, const Gso& gso,
                                        ChainReader* reader, Taken* taken) noexcept {
  const PieceLayout& layout = taken->layout;
  if (ABSL_PREDICT_FALSE(length > layout.Largest())) {
    if (!taken->HasRoomToDivide(length)) return Outcome::kNoBuffer;
    reader->Read(whole_.get(), length);
    const size_t parts = DivideSuperFrame({whole_.get(), length}, gso, layout, taken->pool,
                                          taken->out.subspan(taken->frames));
    for (size_t i = 0; i < parts; ++i) taken->buffers += taken->out[taken->frames + i].buffers;
    taken->frames += parts;
    taken->counts->too_large += parts == 0;
    return parts == 0 ? Outcome::kRefused : Outcome::kTaken;
  }
  const bool one_datagram = gso.type == GsoType::kNone && length <= layout.datagram;
  const size_t buffers = one_datagram ? 1 : layout.BuffersFor(length);
  if (ABSL_PREDICT_FALSE(taken->free() < buffers)) return Outcome::kNoBuffer;
  Frame frame{taken->pool->Allocate()};
  frame.data = taken->pool->Frame(frame.buffer);
  frame.length = one_datagram ? length : std::min(length, layout.first);
  frame.gso = gso;
  reader->Read(frame.data, frame.length);
  frame.rest = length - frame.length;
  BufferId last = frame.buffer;
  for (uint32_t left = frame.rest; left != 0; ++frame.buffers) {
    const BufferId next = taken->pool->Allocate();
    const uint32_t bytes = std::min(left, layout.piece);
    reader->Read(taken->pool->Frame(next), bytes);
    taken->pool->Append(last, next, taken->pool->Frame(next), bytes);
    last = next;
    left -= bytes;
  }
  if (ABSL_PREDICT_FALSE(!header.ReadChecksum(frame.length, &frame.checksum))) {
    ++taken->counts->bad_checksum_request;
    taken->pool->Free(frame.buffer);
    return Outcome::kRefused;
  }
  taken->Add(frame);
  return Outcome::kTaken;
}

// A reverse-ARP request of the guest's MAC for itself, as QEMU sends for guests without
// GUEST_ANNOUNCE.
void VhostPort::TakeAnnouncement(Taken* taken) noexcept {
  Frame frame{taken->pool->Allocate()};
  if (frame.buffer.IsNone()) return;
  const MacAddr mac = MacAddr::FromUint64(announced_.exchange(0, std::memory_order_relaxed));
  frame.data = taken->pool->Frame(frame.buffer);
  frame.length = kMinFrameSize;
  std::memset(frame.data, 0, kMinFrameSize);
  MacAddr::Broadcast().ToWire(frame.data);
  mac.ToWire(frame.data + MacAddr::kSize);
  WriteWire(be16(kEtherTypeRarp), frame.data + kMacsSize);
  EncodeArp(EthernetArp{ArpOperation::kReverseRequest, mac, Ipv4Addr(), mac, Ipv4Addr()},
            frame.bytes().subspan(kEthernetHeaderSize));
  taken->Add(frame);
}

// Asks for notifications. Returns whether there are frames already.
bool VhostPort::WaitForMore() noexcept {
  bool more = false;
  if (ABSL_PREDICT_FALSE(!has_chains_.load(std::memory_order_relaxed))) NoteChains();
  for (size_t i = 1; i < queues_.size(); i += 2) more |= queues_[i].ring.EnableNotification();
  return more;
}

void VhostPort::NoteChains() noexcept {
  bool any = false;
  for (Queue& queue : queues_)
    any |= queue.ring.HasAvailable() || queue.ring.indices() != Virtqueue::Indices();
  if (any) has_chains_.store(true, std::memory_order_relaxed);
}

// Takes the readiness of what is watched edge-triggered.
void VhostPort::ClearReady() noexcept {
  std::array<epoll_event, 16> events;
  const int count = epoll_wait(ready_.get(), events.data(), static_cast<int>(events.size()), 0);
  if (ABSL_PREDICT_TRUE(has_chains_.load(std::memory_order_relaxed))) return;
  for (int i = 0; i < count; ++i) {
    if (events[static_cast<size_t>(i)].data.u64 == kNotification)
      empty_notifications_.fetch_add(1, std::memory_order_relaxed);
  }
}

// ---- To the guest -------------------------------------------------------------------------------

bool VhostPort::TakesLarge(const Gso& gso) const noexcept {
  constexpr uint64_t kTso =
      VhostFeature::kGuestChecksum | VhostFeature::kGuestTso4 | VhostFeature::kGuestTso6;
  const uint64_t features = features_.load(std::memory_order_relaxed);
  switch (gso.type) {
    case GsoType::kNone:
      return true;
    case GsoType::kTcp:
      return (features & kTso) == kTso;
    case GsoType::kTcpEcn:
      return (features & kTso) == kTso && (features & VhostFeature::kGuestEcn) != 0;
    case GsoType::kUdp:
      return false;  // virtio has it since 1.3
  }
  return false;
}

DropReason VhostPort::Transmit(const Frame& frame, bool strip_tag) noexcept {
  return Write(nullptr, frame, strip_tag);
}

DropReason VhostPort::TransmitLarge(const BufferPool& pool, const Frame& frame,
                                    bool strip_tag) noexcept {
  return Write(&pool, frame, strip_tag);
}

// Between the first frame of a batch and Flush the worker is inside already. With several workers
// (LockedPort) one may call Receive, too, while the frames of another one wait for Flush.
bool VhostPort::IsToEnter() noexcept {
  return !faulty_.load(std::memory_order_relaxed) && (unpublished_ != 0 || gate_.Enter());
}

DropReason VhostPort::Write(const BufferPool* pool, const Frame& frame, bool strip_tag) noexcept {
  // A message of the machine parks the worker for a moment. The guest's stations stay where they
  // are.
  if (ABSL_PREDICT_FALSE(!IsToEnter()))
    return down() ? DropReason::kPortDown : DropReason::kPortFull;
  const GuestAccess access(lost_.get());
  const DropReason reason = WriteTo(QueueFor(frame), pool, frame, strip_tag);
  if (ABSL_PREDICT_TRUE(reason == DropReason::kNone)) {
    ++unpublished_;
    return reason;
  }
  NoteFaults();
  if (unpublished_ == 0) gate_.Leave();
  return reason;
}

// The queues to the guest that its driver uses. A flow stays in its queue.
VhostPort::Queue* VhostPort::QueueFor(const Frame& frame) noexcept {
  if (ABSL_PREDICT_TRUE(pairs() == 1)) return &queues_[0];
  return &queues_[2 * (FlowHash(kQueueSeed, frame.bytes()) % pairs())];
}

DropReason VhostPort::WriteTo(Queue* queue, const BufferPool* pool, const Frame& frame,
                              bool strip_tag) noexcept {
  const uint32_t tag = strip_tag ? kVlanTagSize : 0;
  VnetHeader header = VnetWriter::HeaderFor(frame);
  const bool plain = frame.gso.type == GsoType::kNone;
  const uint32_t largest_segment =
      plain ? frame.total() : uint32_t{header.header_length} + frame.gso.size;
  if (ABSL_PREDICT_FALSE(largest_segment - tag > largest_.load(std::memory_order_relaxed)))
    return DropReason::kPortTooLarge;

  // The frame without its tag.
  std::array<absl::Span<const uint8_t>, kMaxSegments + 1> parts;
  size_t count = 0;
  const absl::Span<const uint8_t> first = frame.bytes();
  if (strip_tag) parts[count++] = first.first(kMacsSize);
  parts[count++] = first.subspan(strip_tag ? kMacsSize + kVlanTagSize : 0);
  if (frame.buffers > 1) {
    for (BufferId id = pool->Next(frame.buffer); !id.IsNone(); id = pool->Next(id))
      parts[count++] = pool->Bytes(id);
  }
  if (header.flags != 0) header.checksum_start = static_cast<uint16_t>(header.checksum_start - tag);
  if (!plain) header.header_length = static_cast<uint16_t>(header.header_length - tag);
  const uint64_t features = features_.load(std::memory_order_relaxed);
  if (ABSL_PREDICT_FALSE(header.flags != 0 && (features & VhostFeature::kGuestChecksum) == 0)) {
    size_t size = 0;
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(whole_.get() + size, parts[i].data(), parts[i].size());
      size += parts[i].size();
    }
    CompleteChecksum({whole_.get(), size}, header.checksum());
    header = VnetHeader();
    parts[0] = {whole_.get(), size};
    count = 1;
  }

  FrameWriter writer(&queue->ring, (features & VhostFeature::kMergeable) != 0, &chain_);
  bool written = writer.Write({reinterpret_cast<const uint8_t*>(&header), sizeof(header)}) &&
                 (header_size_ == sizeof(header) || writer.WriteCount());
  for (size_t i = 0; written && i < count; ++i) written = writer.Write(parts[i]);
  if (ABSL_PREDICT_TRUE(written)) {
    writer.Finish();
    return DropReason::kNone;
  }
  writer.GiveUp();
  if (queue->ring.broken()) return DropReason::kPortDown;
  return writer.AtLimit() ? DropReason::kPortTooLarge : DropReason::kPortFull;
}

size_t VhostPort::Flush(DropReason* reason) noexcept {
  *reason = DropReason::kNone;
  if (unpublished_ == 0) return 0;
  const GuestAccess access(lost_.get());
  for (size_t i = 0; i < queues_.size(); i += 2) {
    if (queues_[i].ring.Publish()) Interrupt(queues_[i]);
  }
  unpublished_ = 0;
  NoteFaults();
  gate_.Leave();
  return 0;
}

void VhostPort::Interrupt(const Queue& queue) noexcept {
  if (queue.interrupt.valid()) interrupts_->Raise(queue.interrupt.get());
}

// From now on the worker stays outside, until the guest resets the device, or the machine starts
// again.
void VhostPort::NoteFaults() noexcept {
  bool faulty = lost_->load(std::memory_order_relaxed);
  for (const Queue& queue : queues_) faulty |= queue.ring.broken();
  if (ABSL_PREDICT_FALSE(faulty)) faulty_.store(true);
}

}  // namespace eoib
