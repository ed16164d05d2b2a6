#include "vswitch/port/vhost/vhost_port.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "vswitch/base/check.h"
#include "vswitch/base/event_fd.h"
#include "vswitch/port/divide_super_frame.h"
#include "vswitch/port/vhost/guest_buffers.h"
#include "vswitch/port/vnet_writer.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/flow_hash.h"
#include "vswitch/wire/ip/arp.h"

namespace eoib {
namespace {

constexpr size_t kLargestFrame = 65536 + 64;  // a packet of 64 KiB, its headers and two tags
constexpr uint64_t kQueueSeed = 0x766d;       // queues of one guest: no secret

absl::Status Refusal(const std::string& path, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("use the socket ", path, ": ", why));
}

// Whether a program listens at the socket.
bool IsListening(const std::string& path) {
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return connect(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

// Makes way for a server at `path`.
absl::Status RemoveStaleSocket(const std::string& path) {
  struct stat status;
  const std::string directory = path.substr(0, path.rfind('/') + 1);
  if (stat(directory.c_str(), &status) != 0) {
    return Refusal(path, absl::StrCat("directory ", directory, ": ", strerror(errno), "; make it, or change socket"));
  }
  if (lstat(path.c_str(), &status) != 0) return absl::OkStatus();
  if (!S_ISSOCK(status.st_mode)) return Refusal(path, "there is a file that is no socket; remove it, or change socket");
  if (IsListening(path)) {
    return Refusal(
        path,
        "another program listens there. If it is the virtual machine (QEMU's chardev has server=on), set socket_mode "
        "= \"client\"; else stop that program, or change socket");
  }
  if (unlink(path.c_str()) == 0) return absl::OkStatus();
  return Refusal(path, absl::StrCat("remove the socket of a former process: ", strerror(errno)));
}

// Watches a descriptor that another program made, edge-triggered, and never blocks on it.
constexpr uint64_t kNotification = 1;  // what an event of it carries; other events carry 0
UniqueFd WatchCopy(int fd, int epoll) {
  UniqueFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return copy;
  fcntl(copy.get(), F_SETFL, fcntl(copy.get(), F_GETFL) | O_NONBLOCK);
  if (epoll < 0) return copy;
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.u64 = kNotification;
  epoll_ctl(epoll, EPOLL_CTL_ADD, copy.get(), &event);
  return copy;
}

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
  size_t free() const { return pool->count(BufferPool::State::kFree); }
  void Add(const Frame& frame) {
    out[frames++] = frame;
    buffers += frame.buffers;
  }
};

absl::StatusOr<std::unique_ptr<VhostPort>> VhostPort::Open(const Options& options, VhostBackend* backend) {
  if (options.server) {
    if (absl::Status status = RemoveStaleSocket(options.socket); !status.ok()) return status;
  }
  auto port = std::unique_ptr<VhostPort>(new VhostPort(options, backend));
  const std::string error = backend->Open(options.socket, options.server, port.get());
  if (!error.empty()) return Refusal(options.socket, error);
  return port;
}

VhostPort::VhostPort(const Options& options, VhostBackend* backend)
    : options_(options),
      backend_(backend),
      ready_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(MakeEventFd()),
      whole_(new uint8_t[kLargestFrame]) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  epoll_ctl(ready_.get(), EPOLL_CTL_ADD, wake_.get(), &event);
}

VhostPort::~VhostPort() { backend_->Close(options_.socket); }

// ---- The library's threads ----------------------------------------------------------------------------------------------

bool VhostPort::Connect() {
  absl::MutexLock lock(&mutex_);
  if (connected_) {
    ++refused_;
    return false;
  }
  connected_ = true;
  return true;
}

void VhostPort::Disconnect() {
  Park();
  absl::MutexLock lock(&mutex_);
  connected_ = false;
  Attach(VhostState());
}

std::vector<Virtqueue::Indices> VhostPort::Park() {
  gate_.Park();
  std::vector<Virtqueue::Indices> indices;
  for (const Queue& queue : queues_) indices.push_back(queue.ring.indices());
  return indices;
}

void VhostPort::Resume(const VhostState& state) {
  bool any;
  {
    absl::MutexLock lock(&mutex_);
    Attach(state);
    any = ready_pairs_ != 0;
  }
  if (!any) return;
  gate_.Resume();
  RingEventFd(wake_.get());
}

void VhostPort::Announce(MacAddr mac) {
  announced_.store(mac.ToUint64(), std::memory_order_relaxed);
  RingEventFd(wake_.get());
}

// Takes over the state of the device, while the worker is parked.
void VhostPort::Attach(const VhostState& state) {
  for (const Queue& queue : queues_) {
    // The description of the descriptor is shared with the machine's program, so closing it would not end the watch.
    if (queue.notify.valid()) epoll_ctl(ready_.get(), EPOLL_CTL_DEL, queue.notify.get(), nullptr);
  }
  queues_.clear();
  memory_ = GuestMemory(state.memory);
  features_.store(state.features, std::memory_order_relaxed);
  faulty_.store(false);
  header_size_ = (state.features & (VhostFeature::kVersion1 | VhostFeature::kMergeable)) != 0 ? 12 : 10;
  const Virtqueue::Features features{.indirect = (state.features & VhostFeature::kIndirect) != 0,
                                     .event_index = (state.features & VhostFeature::kEventIndex) != 0};
  ready_pairs_ = 0;
  while (2 * ready_pairs_ + 1 < state.queues.size() && state.queues[2 * ready_pairs_].ready &&
         state.queues[2 * ready_pairs_ + 1].ready) {
    ++ready_pairs_;
  }
  for (size_t i = 0; i < 2 * ready_pairs_; ++i) {
    const VhostState::Queue& from = state.queues[i];
    Queue queue;
    queue.ring.Attach(static_cast<uint16_t>(i), from.rings, features, from.indices, &memory_,
                      (state.features & VhostFeature::kLog) != 0 ? state.log : nullptr);
    if (i % 2 == 0) queue.ring.DisableNotification();
    queue.notify = i % 2 == 0 ? UniqueFd() : WatchCopy(from.notify_fd, ready_.get());
    if (from.interrupt_fd >= 0) queue.interrupt = WatchCopy(from.interrupt_fd, -1);
    queues_.push_back(std::move(queue));
  }
  if (ready_pairs_ == 0) {
    has_chains_.store(false);
    empty_notifications_.store(0);
  }
  shares_memory_ = !memory_.empty();
  guest_mtu_ = state.mtu;
}

// ---- Control ------------------------------------------------------------------------------------------------------------

std::string VhostPort::Trouble() const {
  absl::MutexLock lock(&mutex_);
  if (!connected_) {
    struct stat status;
    if (options_.server) return "no virtual machine has connected to its socket";
    if (stat(options_.socket.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) {
      return absl::StrCat("no virtual machine accepts the connection to ", options_.socket,
                          "; start it, or if its chardev has no server=on, set socket_mode = \"server\"");
    }
    return absl::StrCat("there is no socket ", options_.socket,
                        "; start the virtual machine, with server=on in its chardev, or set socket_mode = \"server\"");
  }
  if (faulty_.load()) {
    for (const Queue& queue : queues_) {
      if (const std::string fault = queue.ring.fault(); !fault.empty()) {
        return absl::StrCat("the guest's driver breaks the rules of virtio: ", fault,
                            "; the vPort is down until the guest resets the interface");
      }
    }
  }
  // QEMU itself notifies each queue once at the start.
  const bool looks_empty = !has_chains_.load() && empty_notifications_.load() > 2 * ready_pairs_;
  if (ready_pairs_ != 0 && !looks_empty) return "";
  if (ready_pairs_ != 0 || (features_.load(std::memory_order_relaxed) != 0 && !shares_memory_)) {
    return "the virtual machine does not share its memory; give QEMU -object memory-backend-memfd,share=on and -machine "
           "memory-backend= with its id, or libvirt <memoryBacking> with <access mode='shared'/>";
  }
  return "the virtual machine is connected, but its guest has not started the interface";
}

std::string VhostPort::Describe() const {
  absl::MutexLock lock(&mutex_);
  std::string text = absl::StrCat("vhost-user ", options_.socket, options_.server ? "" : " (client)");
  if (ready_pairs_ != 0) {
    const uint64_t features = features_.load(std::memory_order_relaxed);
    std::vector<absl::string_view> names;
    if ((features & VhostFeature::kGuestChecksum) != 0) names.push_back("checksum");
    if (TakesLarge({GsoType::kTcp, 1})) names.push_back("TSO");
    if ((features & VhostFeature::kMergeable) != 0) names.push_back("mergeable buffers");
    absl::StrAppend(&text, ", ", ready_pairs_, ready_pairs_ == 1 ? " queue pair" : " queue pairs");
    if (!names.empty()) absl::StrAppend(&text, ", ", absl::StrJoin(names, ", "));
    if ((features & VhostFeature::kLog) != 0) text += ", migrating";
    const uint32_t mtu = largest_.load(std::memory_order_relaxed) - kEthernetHeaderSize - kVlanTagSize;
    if (guest_mtu_ != 0) absl::StrAppend(&text, ", MTU ", guest_mtu_);
    if (guest_mtu_ > mtu) absl::StrAppend(&text, " (more than ", mtu, ": set host_mtu=", mtu, ")");
  }
  if (refused_ != 0) absl::StrAppend(&text, ", ", refused_, " further machines refused");
  return text;
}

// ---- From the guest -----------------------------------------------------------------------------------------------------

size_t VhostPort::Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out, PortReceiveCounts* counts) noexcept {
  if (ABSL_PREDICT_FALSE(faulty_.load(std::memory_order_relaxed) || !gate_.Enter())) {
    ClearReady();
    return 0;
  }
  Taken taken{pool, PieceLayout(mtu), out, counts};
  if (ABSL_PREDICT_FALSE(announced_.load(std::memory_order_relaxed) != 0)) TakeAnnouncement(&taken);
  Collect(&taken);
  NoteFaults();
  gate_.Leave();
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
                         (plain && length > std::max(taken->layout.datagram, largest_.load(std::memory_order_relaxed))) ||
                         (plain && length > taken->layout.Largest()))) {
    ++taken->counts->too_large;
    return Outcome::kRefused;
  }
  return TakeWhole(header, static_cast<uint32_t>(length), *gso, &reader, taken);
}

VhostPort::Outcome VhostPort::TakeWhole(const VnetHeader& header, uint32_t length, const Gso& gso, ChainReader* reader,
                                        Taken* taken) noexcept {
  const PieceLayout& layout = taken->layout;
  if (ABSL_PREDICT_FALSE(length > layout.Largest())) {
    // More buffers than two of the largest frames have are never needed.
    if (taken->free() < 2 * layout.BuffersFor(layout.Largest())) return Outcome::kNoBuffer;
    reader->Read(whole_.get(), length);
    const size_t parts = header.checksum().needed ? DivideSuperFrame({whole_.get(), length}, gso, layout, taken->pool,
                                                                     taken->out.subspan(taken->frames))
                                                  : 0;
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

// A reverse-ARP request of the guest's MAC for itself, as QEMU sends for guests without GUEST_ANNOUNCE.
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
  for (Queue& queue : queues_) any |= queue.ring.HasAvailable() || queue.ring.indices() != Virtqueue::Indices();
  if (any) has_chains_.store(true, std::memory_order_relaxed);
}

// Takes the readiness of what is watched edge-triggered.
void VhostPort::ClearReady() noexcept {
  std::array<epoll_event, 16> events;
  const int count = epoll_wait(ready_.get(), events.data(), static_cast<int>(events.size()), 0);
  if (ABSL_PREDICT_TRUE(has_chains_.load(std::memory_order_relaxed))) return;
  for (int i = 0; i < count; ++i) {
    if (events[static_cast<size_t>(i)].data.u64 == kNotification) empty_notifications_.fetch_add(1, std::memory_order_relaxed);
  }
}

// ---- To the guest -------------------------------------------------------------------------------------------------------

bool VhostPort::TakesLarge(const Gso& gso) const noexcept {
  constexpr uint64_t kTso = VhostFeature::kGuestChecksum | VhostFeature::kGuestTso4 | VhostFeature::kGuestTso6;
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

DropReason VhostPort::Transmit(const Frame& frame, bool strip_tag) noexcept { return Write(nullptr, frame, strip_tag); }

DropReason VhostPort::TransmitLarge(const BufferPool& pool, const Frame& frame, bool strip_tag) noexcept {
  return Write(&pool, frame, strip_tag);
}

// Between the first frame of a batch and Flush the worker is inside already.
bool VhostPort::IsToEnter() noexcept {
  return !faulty_.load(std::memory_order_relaxed) && (unpublished_ != 0 || gate_.Enter());
}

DropReason VhostPort::Write(const BufferPool* pool, const Frame& frame, bool strip_tag) noexcept {
  if (ABSL_PREDICT_FALSE(!IsToEnter())) return DropReason::kPortDown;
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

DropReason VhostPort::WriteTo(Queue* queue, const BufferPool* pool, const Frame& frame, bool strip_tag) noexcept {
  const uint32_t tag = strip_tag ? kVlanTagSize : 0;
  VnetHeader header = VnetWriter::HeaderFor(frame);
  const bool plain = frame.gso.type == GsoType::kNone;
  const uint32_t largest_segment = plain ? frame.total() : uint32_t{header.header_length} + frame.gso.size;
  if (ABSL_PREDICT_FALSE(largest_segment - tag > largest_.load(std::memory_order_relaxed))) return DropReason::kPortTooLarge;

  // The frame without its tag.
  std::array<absl::Span<const uint8_t>, kMaxSegments + 1> parts;
  size_t count = 0;
  const absl::Span<const uint8_t> first = frame.bytes();
  if (strip_tag) parts[count++] = first.first(kMacsSize);
  parts[count++] = first.subspan(strip_tag ? kMacsSize + kVlanTagSize : 0);
  if (frame.buffers > 1) {
    for (BufferId id = pool->Next(frame.buffer); !id.IsNone(); id = pool->Next(id)) parts[count++] = pool->Bytes(id);
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
  for (size_t i = 0; i < queues_.size(); i += 2) {
    if (queues_[i].ring.Publish()) Interrupt(queues_[i]);
  }
  unpublished_ = 0;
  gate_.Leave();
  return 0;
}

void VhostPort::Interrupt(const Queue& queue) noexcept {
  if (queue.interrupt.valid()) RingEventFd(queue.interrupt.get());
}

// From now on the worker stays outside, until the guest resets the device.
void VhostPort::NoteFaults() noexcept {
  for (const Queue& queue : queues_) {
    if (ABSL_PREDICT_FALSE(queue.ring.broken())) faulty_.store(true);
  }
}

}  // namespace eoib
