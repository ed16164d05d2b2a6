#include "gateway/gateway_port.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/daemon/log.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ethernet.h"

namespace eoib::gateway {
namespace {

constexpr size_t kMacsSize = 2 * MacAddr::kSize;

}  // namespace

GatewayPort::GatewayPort(const Options& options, ipoib::Channel* channel, const Clock* clock)
    : options_(options),
      channel_(channel),
      clock_(clock),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(MakeEventFd()),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      translator_(options.translation, clock, this),
      hellos_(options.hellos, channel, clock,
              [this](std::vector<IpoibAddress> others) { translator_.SetOtherGateways(std::move(others)); }) {
  translator_.SetActive(false);  // until the election says otherwise
  channel_->SetListener(this);
}

GatewayPort::~GatewayPort() = default;

absl::StatusOr<std::unique_ptr<GatewayPort>> GatewayPort::Create(const Options& options, ipoib::Channel* channel,
                                                                 const Clock* clock) {
  auto port = std::unique_ptr<GatewayPort>(new GatewayPort(options, channel, clock));
  if (absl::Status status = port->Watch(); !status.ok()) return status;
  return port;
}

absl::Status GatewayPort::Watch() {
  for (const int fd : {wake_.get(), timer_.get(), channel_->fd()}) {
    epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) continue;
    return absl::ErrnoToStatus(errno, absl::StrCat("gateway ", options_.name, ": wait for what it is to do"));
  }
  Wake();  // the first Receive sets the timer
  return absl::OkStatus();
}

// ---- To the VES -------------------------------------------------------------------------------------------------------

size_t GatewayPort::Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out, PortReceiveCounts* counts) noexcept {
  receiving_ = {pool, out, 0};
  ClearEventFd(wake_.get());
  uint64_t expirations;
  if (read(timer_.get(), &expirations, sizeof(expirations)) > 0) timer_at_ = absl::InfiniteFuture();
  RunTasks();
  HandPending();
  channel_->Work(1);
  RunDue();
  EndTurn();
  if (!pending_.empty()) Wake();
  return std::exchange(receiving_, {}).count;
}

// Space for a frame in a buffer of the VES; null outside Receive, without a free buffer, or if the frame is too long.
uint8_t* GatewayPort::Room(size_t size) {
  if (receiving_.count == receiving_.out.size() || size > receiving_.pool->frame_size()) return nullptr;
  const BufferId buffer = receiving_.pool->Allocate();
  if (buffer.IsNone()) return nullptr;
  uint8_t* const data = receiving_.pool->Frame(buffer);
  receiving_.out[receiving_.count++] = {buffer, data, static_cast<uint32_t>(size), {}};
  ++counters_.handed;
  return data;
}

void GatewayPort::HandPending() {
  while (!pending_.empty()) {
    const std::vector<uint8_t>& frame = pending_.front();
    if (frame.size() > receiving_.pool->frame_size()) {
      counters_.drops.Add(PortDrop::kFrameTooLong);
    } else if (uint8_t* const room = Room(frame.size()); room != nullptr) {
      std::memcpy(room, frame.data(), frame.size());
    } else {
      return;
    }
    pending_.pop_front();
  }
}

void GatewayPort::ToEthernet(MacAddr destination, MacAddr source, uint16_t ethertype, absl::Span<const uint8_t> payload) {
  const size_t size = kEthernetHeaderSize + payload.size();
  uint8_t* frame = pending_.empty() ? Room(size) : nullptr;  // frames keep their order
  if (frame == nullptr) {
    if (receiving_.pool == nullptr) Wake();
    if (pending_.size() == kMaxPending) return counters_.drops.Add(PortDrop::kQueueFull);
    frame = pending_.emplace_back(size).data();
  }
  destination.ToWire(frame);
  source.ToWire(frame + MacAddr::kSize);
  WriteWire(be16(ethertype), frame + kMacsSize);
  std::memcpy(frame + kEthernetHeaderSize, payload.data(), payload.size());
}

// ---- To the IPoIB link ------------------------------------------------------------------------------------------------

// Other ports may transmit the same frame, and the translation changes it. So this copies the frame, without its tag.
DropReason GatewayPort::Transmit(const Frame& frame, bool strip_tag) noexcept {
  ChecksumRequest checksum = frame.checksum;
  const bool tagged =
      frame.length >= kEthernetHeaderSize + kVlanTagSize && ReadWire<be16>(frame.data + kMacsSize).value() == kEtherTypeVlan;
  transmitted_.assign(frame.data, frame.data + kMacsSize);
  const size_t rest = kMacsSize + (strip_tag || tagged ? kVlanTagSize : 0);
  transmitted_.insert(transmitted_.end(), frame.data + rest, frame.data + frame.length);
  if (checksum.needed) checksum.start = static_cast<uint16_t>(checksum.start - (rest - kMacsSize));
  translator_.FromEthernet(absl::MakeSpan(transmitted_), checksum);
  return DropReason::kNone;
}

// No frame is reported as lost here: the translator has counted each one.
size_t GatewayPort::Flush(DropReason* reason) noexcept {
  EndTurn();
  *reason = DropReason::kNone;
  return 0;
}

void GatewayPort::ToIpoib(IpoibType type, absl::Span<const uint8_t> payload, const IpoibAddress& to) {
  channel_->Send(type, payload, to);
}
void GatewayPort::ToIpoibGroup(IpoibType type, absl::Span<const uint8_t> payload, const IpoibGroup& group, bool beyond_link) {
  channel_->SendToGroup(type, payload, group, beyond_link);
}
void GatewayPort::Listen(const IpoibGroup& group) { channel_->Listen(group); }
void GatewayPort::Unlisten(const IpoibGroup& group) { channel_->Unlisten(group); }

// ---- From the IPoIB link ----------------------------------------------------------------------------------------------

void GatewayPort::OnPacket(const ipoib::Packet& packet) {
  if (!hellos_.OnPacket(packet)) return translator_.FromIpoib(packet);
  NoteElection();
}

void GatewayPort::OnLinkState() {
  translator_.OnLinkState(channel_->state());
  hellos_.OnLinkState();
  NoteElection();
}

void GatewayPort::SetVesUp(bool up) {
  hellos_.SetVesUp(up);
  NoteElection();
}

void GatewayPort::NoteElection() {
  const Election& election = hellos_.election();
  if (was_active_ == election.active()) return;
  was_active_ = election.active();
  translator_.SetActive(was_active_);
  const std::string because =
      election.other().has_value() ? absl::StrCat(": gateway ", election.other()->address.ToString(), " works") : "";
  LogInfo(absl::StrCat("gateway ", options_.name, ": ", StateName(election.state()), because));
}

// ---- Time, and other threads ------------------------------------------------------------------------------------------

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
  if (before == changes_ || std::exchange(told_of_change_, true)) return;  // one notice until Saved()
  on_change_();
}

void GatewayPort::SetTimer() {
  const absl::Time next = NextDeadline();
  if (next == timer_at_ && next > clock_->Now()) return;
  timer_at_ = next;
  itimerspec when = {};
  if (next != absl::InfiniteFuture()) {
    when.it_value = absl::ToTimespec(std::max(next - clock_->Now(), absl::Microseconds(1)));  // zero would disarm the timer
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
  if (asked->mutex.AwaitWithDeadline(absl::Condition(&asked->done), deadline)) return absl::OkStatus();
  asked->task = nullptr;
  return absl::DeadlineExceededError(absl::StrCat("gateway ", options_.name, " is too busy to answer; try again"));
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
