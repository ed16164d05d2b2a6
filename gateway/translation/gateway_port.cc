#include "gateway/translation/gateway_port.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/base/daemon/log.h"
#include "vswitch/wire/ethernet.h"

namespace eoib::gateway {
namespace {

constexpr size_t kLargestPacket = 65535;

}  // namespace

GatewayPort::GatewayPort(const Options& options, ipoib::Channel* channel, const Clock* clock)
    : options_(options),
      channel_(channel),
      clock_(clock),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(MakeEventFd()),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      translator_(options.translation, clock, this),
      hellos_(options.hellos, channel, clock, [this](std::vector<IpoibAddress> others) {
        translator_.SetOtherGateways(std::move(others));
      }) {
  translator_.SetActive(false);  // until the election says otherwise
  channel_->SetListener(this);
}

GatewayPort::~GatewayPort() = default;

absl::StatusOr<std::unique_ptr<GatewayPort>> GatewayPort::Create(const Options& options,
                                                                 ipoib::Channel* channel,
                                                                 const Clock* clock) {
  auto port = std::unique_ptr<GatewayPort>(new GatewayPort(options, channel, clock));
  if (absl::Status status = port->Watch(); !status.ok()) return status;
  return port;
}

absl::Status GatewayPort::Watch() {
  for (const int fd : {wake_.get(), timer_.get(), channel_->fd()}) {
    epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) continue;
    return absl::ErrnoToStatus(
        errno, absl::StrCat("gateway ", options_.name, ": wait for what it is to do"));
  }
  Wake();  // the first Receive sets the timer
  return absl::OkStatus();
}

// ---- To the VES ---------------------------------------------------------------------------------

size_t GatewayPort::Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out,
                            PortReceiveCounts* counts) noexcept {
  receiving_ = {pool, out, 0, out.size()};
  joiner_.Start(pool, mtu);
  ClearEventFd(wake_.get());
  uint64_t expirations;
  if (read(timer_.get(), &expirations, sizeof(expirations)) > 0) timer_at_ = absl::InfiniteFuture();
  RunTasks();
  HandPending();
  channel_->Work(1);
  sender_.reset();  // frames of later work are the gateway's own
  RunDue();
  EndTurn();
  joiner_.End();
  if (!pending_.empty()) Wake();
  return std::exchange(receiving_, {}).count;
}

// A frame of `size` bytes, to be filled, in a buffer of the VES; null outside Receive, without a
// free buffer, or if the frame is too long.
Frame* GatewayPort::Room(size_t size) {
  if (receiving_.count == receiving_.out.size() || receiving_.buffers == 0) return nullptr;
  if (size > receiving_.pool->frame_size()) return nullptr;
  const BufferId buffer = receiving_.pool->Allocate();
  if (buffer.IsNone()) return nullptr;
  Frame* const frame = &receiving_.out[receiving_.count++];
  *frame = {buffer, receiving_.pool->Frame(buffer), static_cast<uint32_t>(size), {}};
  --receiving_.buffers;
  ++counters_.frames_handed;
  return frame;
}

void GatewayPort::HandPending() {
  while (!pending_.empty()) {
    const std::vector<uint8_t>& bytes = pending_.front();
    if (bytes.size() > receiving_.pool->frame_size()) {
      counters_.drops.Add(PortDrop::kFrameTooLong);
    } else if (Frame* const frame = Room(bytes.size()); frame != nullptr) {
      std::memcpy(frame->data, bytes.data(), bytes.size());
    } else {
      return;
    }
    pending_.pop_front();
  }
}

void GatewayPort::ToEthernet(MacAddr destination, MacAddr source, uint16_t ethertype,
                             absl::Span<const uint8_t> payload) {
  uint8_t header[kEthernetHeaderSize];
  destination.ToWire(header);
  source.ToWire(header + MacAddr::kSize);
  WriteWire(be16(ethertype), header + kMacsSize);
  const size_t size = kEthernetHeaderSize + payload.size();
  const bool in_order = pending_.empty() && receiving_.pool != nullptr;  // frames keep their order
  if (in_order && joiner_.Append(header, payload, &receiving_.buffers)) {
    ++counters_.frames_joined;
    return;
  }
  Frame* const frame = in_order ? Room(size) : nullptr;
  uint8_t* bytes = frame != nullptr ? frame->data : nullptr;
  if (frame == nullptr) {
    if (receiving_.pool == nullptr) Wake();
    if (pending_.size() == kMaxPending) return counters_.drops.Add(PortDrop::kQueueFull);
    bytes = pending_.emplace_back(size).data();
  }
  std::memcpy(bytes, header, kEthernetHeaderSize);
  std::memcpy(bytes + kEthernetHeaderSize, payload.data(), payload.size());
  if (frame == nullptr) return;
  frame_sender_ = sender_;
  joiner_.Begin(frame);
}

// ---- To the IPoIB link --------------------------------------------------------------------------

// Other ports may transmit the same frame, and the translation changes it. So this copies the
// frame, without its tag.
DropReason GatewayPort::Transmit(const Frame& frame, bool strip_tag) noexcept {
  ChecksumRequest checksum = frame.checksum;
  const bool tagged = frame.length >= kEthernetHeaderSize + kVlanTagSize &&
                      ReadWire<be16>(frame.data + kMacsSize).value() == kEtherTypeVlan;
  transmitted_.assign(frame.data, frame.data + kMacsSize);
  const size_t rest = kMacsSize + (strip_tag || tagged ? kVlanTagSize : 0);
  transmitted_.insert(transmitted_.end(), frame.data + rest, frame.data + frame.length);
  if (checksum.needed) checksum.start = static_cast<uint16_t>(checksum.start - (rest - kMacsSize));
  translator_.FromEthernet(absl::MakeSpan(transmitted_), checksum);
  return DropReason::kNone;
}

DropReason GatewayPort::TransmitLarge(const BufferPool& pool, const Frame& frame,
                                      bool /*strip_tag*/) noexcept {
  EthernetInfo info;
  absl::optional<PacketCutter> cutter = PacketCutter::Of(pool, frame);
  if (!cutter.has_value() || ParseEthernet(frame.bytes(), &info) != DropReason::kNone)
    return DropReason::kNotSegmentable;
  ++counters_.super_frames_cut;
  translator_.SuperFrameFromEthernet(info, [this, &cutter] { return NextPacket(&*cutter); });
  return DropReason::kNone;
}

// Makes the packet where it will be sent from, or, if there is no room, where it will be found too
// large or dropped.
absl::Span<uint8_t> GatewayPort::NextPacket(PacketCutter* cutter) {
  const size_t size = cutter->NextSize();
  if (size == 0) return {};
  absl::Span<uint8_t> room = channel_->Draft();
  if (room.size() < size) {
    transmitted_.resize(kLargestPacket);
    room = absl::MakeSpan(transmitted_);
  }
  return cutter->Next(room);
}

// No frame is reported as lost here: the translator has counted each one.
size_t GatewayPort::Flush(DropReason* reason) noexcept {
  EndTurn();
  *reason = DropReason::kNone;
  return 0;
}

void GatewayPort::ToIpoib(IpoibType type, absl::Span<const uint8_t> payload,
                          const IpoibAddress& to) {
  channel_->Send(type, payload, to);
}
void GatewayPort::ToIpoibGroup(IpoibType type, absl::Span<const uint8_t> payload,
                               const IpoibGroup& group, bool beyond_link) {
  channel_->SendToGroup(type, payload, group, beyond_link);
}
void GatewayPort::Listen(const IpoibGroup& group) { channel_->Listen(group); }
void GatewayPort::Unlisten(const IpoibGroup& group) { channel_->Unlisten(group); }

// ---- From the IPoIB link ------------------------------------------------------------------------

void GatewayPort::OnPacket(const ipoib::Packet& packet) {
  if (Continues(packet)) return;
  sender_ = packet.group ? absl::nullopt : packet.source;
  if (!hellos_.OnPacket(packet)) return translator_.FromIpoib(packet);
  NoteElection();
}

// Joins a TCP segment to the last frame, if the translation would: it decides by the sender and the
// IP header, and those of the segment before it, a moment ago, were the same.
bool GatewayPort::Continues(const ipoib::Packet& packet) {
  if (packet.group || !packet.source.has_value() || packet.source != frame_sender_) return false;
  if (!joiner_.Continue(packet.payload, packet.checksums_ok, &receiving_.buffers)) return false;
  ++counters_.frames_joined;
  translator_.CountJoined();
  return true;
}

void GatewayPort::OnLinkState() {
  joiner_.End();
  translator_.OnLinkState(channel_->state());
  hellos_.OnLinkState();
  NoteElection();
}

void GatewayPort::SetVesUp(bool up) {
  hellos_.SetVesUp(up);
  NoteElection();
}

// Deadlines may have changed, so the worker sets the timer again.
void GatewayPort::Change(const Options& options) {
  options_ = options;
  hellos_.Change(options.hellos);
  translator_.Change(options.translation);
  Wake();
}

void GatewayPort::NoteElection() {
  const Election& election = hellos_.election();
  if (was_active_ == election.active()) return;
  was_active_ = election.active();
  joiner_.End();
  translator_.SetActive(was_active_);
  const std::string because =
      election.other().has_value()
          ? absl::StrCat(": gateway ", election.other()->address.ToString(), " works")
          : "";
  LogInfo(absl::StrCat("gateway ", options_.name, ": ", StateName(election.state()), because));
}

// ---- Time, and other threads --------------------------------------------------------------------

absl::Time GatewayPort::NextDeadline() const {
  return std::min({channel_->NextDeadline(), translator_.NextDeadline(), hellos_.NextDeadline()});
}

void GatewayPort::RunDue() {
  const absl::Time now = clock_->Now();
  if (channel_->NextDeadline() <= now) channel_->Expire();
  if (translator_.NextDeadline() <= now) translator_.Tick();
  if (hellos_.NextDeadline() > now) return;
  hellos_.Run();
  NoteElection();
}

void GatewayPort::EndTurn() {
  channel_->Flush();
  SetTimer();
  const uint64_t before = std::exchange(changes_, translator_.changes());
  // One notice until Saved()
  if (before == changes_ || std::exchange(told_of_change_, true)) return;
  on_change_();
}

void GatewayPort::SetTimer() {
  const absl::Time next = NextDeadline();
  if (next == timer_at_ && next > clock_->Now()) return;
  timer_at_ = next;
  itimerspec when = {};
  if (next != absl::InfiniteFuture()) {
    // Zero would disarm the timer.
    when.it_value = absl::ToTimespec(std::max(next - clock_->Now(), absl::Microseconds(1)));
  }
  timerfd_settime(timer_.get(), 0, &when, nullptr);
}

GatewayPort::TaskContext GatewayPort::task_context() {
  counters_.waiting = pending_.size();
  return {&translator_, &hellos_, channel_, counters_};
}

void GatewayPort::Post(Task task) {
  {
    absl::MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
  }
  Wake();
}

// The state is shared, because the worker may reach the task after this caller has given up.
absl::Status GatewayPort::PostAndWait(Task task, absl::Time deadline) {
  struct Asked {
    absl::Mutex mutex;
    Task task ABSL_GUARDED_BY(mutex);  // null: given up
    bool done ABSL_GUARDED_BY(mutex) = false;
  };
  auto asked = std::make_shared<Asked>();
  absl::MutexLock lock(&asked->mutex);
  asked->task = std::move(task);
  Post([asked](const TaskContext& context) {
    absl::MutexLock worker_lock(&asked->mutex);
    if (asked->task != nullptr) asked->task(context);
    asked->done = true;
  });
  if (asked->mutex.AwaitWithDeadline(absl::Condition(&asked->done), deadline))
    return absl::OkStatus();
  asked->task = nullptr;
  return absl::DeadlineExceededError(
      absl::StrCat("gateway ", options_.name, " is too busy to answer; try again"));
}

void GatewayPort::RunTasks() {
  std::vector<Task> tasks;
  {
    absl::MutexLock lock(&mutex_);
    tasks.swap(tasks_);
  }
  for (const Task& task : tasks) task(task_context());
}

}  // namespace eoib::gateway
