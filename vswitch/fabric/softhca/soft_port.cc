#include "vswitch/fabric/softhca/soft_port.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/fabric/hca.h"

namespace eoib::softhca {
namespace {

bool IsNonBlocking(int fd) { return (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0; }

}  // namespace

// ---- Life.

SoftPort::SoftPort(std::unique_ptr<SubnetLink> link, std::string name, const Options& options)
    : link_(std::move(link)),
      name_(std::move(name)),
      options_(options),
      clock_(options.clock != nullptr ? options.clock : &system_clock_),
      path_(&options_.outbound, clock_, &fds_),
      maintainer_(&mutex_, &path_, link_.get(), &fds_, clock_, options.outbound.idle_close),
      management_(&mutex_, &path_, &events_, &fds_) {}

absl::StatusOr<std::shared_ptr<SoftPort>> SoftPort::Open(std::unique_ptr<SubnetLink> link,
                                                         const std::string& name,
                                                         const Options& options) {
  std::shared_ptr<SoftPort> port(new SoftPort(std::move(link), name, options));
  if (absl::Status status = port->Register(); !status.ok()) return status;
  return port;
}

absl::Status SoftPort::Register() {
  if (!fds_.valid() || mad_fd() < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("open port ", name_, ": make an eventfd"));
  }
  absl::StatusOr<std::shared_ptr<CountersPage>> counters = CountersPage::Create();
  if (!counters.ok()) return counters.status();
  {
    absl::MutexLock lock(&mutex_);
    path_.SetPage(*counters);
  }
  const PortResources resources = {fds_.doorbell->get(), *counters};
  const PortUse use = options_.query_only ? PortUse::kQuery : PortUse::kOwn;
  if (absl::Status status = link_->Register(name_, resources, use, &management_); !status.ok())
    return status;
  if (!management_.AwaitConfig(options_.patience)) {
    return absl::DeadlineExceededError(
        absl::StrCat("open port ", name_, ": the subnet does not configure it"));
  }
  if (!options_.query_only) maintainer_.Start();
  return absl::OkStatus();
}

SoftPort::~SoftPort() {
  {
    absl::MutexLock lock(&mutex_);
    const auto all_left = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return path_.outbound().parked() == 0;
    };
    mutex_.AwaitWithTimeout(absl::Condition(&all_left), options_.linger);
  }
  maintainer_.Stop();
  {
    absl::MutexLock lock(&mutex_);
    path_.End();
  }
  link_->Unregister();
  StopCapture().status().IgnoreError();
}

PortConfig SoftPort::config() const {
  absl::MutexLock lock(&mutex_);
  return path_.queue_pairs().config();
}

SoftPortCounters SoftPort::counters() const {
  absl::MutexLock lock(&mutex_);
  return path_.counters();
}

SoftPort::RingStatus SoftPort::rings() const {
  absl::MutexLock lock(&mutex_);
  RingStatus status;
  status.inbound = path_.inbound().size();
  status.parked = path_.outbound().parked();
  path_.outbound().ForEach([&](const RingSender* sender) {
    status.outbound += sender->open() ? 1 : 0;
    status.largest_outbound = std::max(status.largest_outbound, sender->capacity());
  });
  return status;
}

absl::Status SoftPort::StartCapture(const CaptureOptions& options) {
  absl::StatusOr<std::unique_ptr<PacketCapture>> opened = PacketCapture::Open(options);
  if (!opened.ok()) return opened.status();
  absl::MutexLock lock(&mutex_);
  opened->swap(path_.capture());  // the old capture is closed after the mutex is released
  return absl::OkStatus();
}

absl::StatusOr<CaptureReport> SoftPort::StopCapture() {
  std::unique_ptr<PacketCapture> capture;
  {
    absl::MutexLock lock(&mutex_);
    capture.swap(path_.capture());
  }
  return PacketCapture::Stop(std::move(capture), absl::StrCat("soft:", name_));
}

absl::optional<CaptureReport> SoftPort::Capture() const {
  absl::MutexLock lock(&mutex_);
  if (path_.capture() == nullptr) return absl::nullopt;
  return path_.capture()->report();
}

// ---- Asynchronous events.

void SoftPort::AddContext(SoftContext* context) {
  absl::MutexLock lock(&mutex_);
  events_.AddContext(context);
}

void SoftPort::RemoveContext(SoftContext* context) {
  absl::MutexLock lock(&mutex_);
  events_.RemoveContext(context);
}

// The eventfd counts events one by one, and blocks if its reader made it blocking. RemoveQp may
// take an event back between the read and the lock.
int SoftPort::GetAsyncEvent(SoftContext* context, ibv_async_event* event) {
  for (;;) {
    uint64_t one;
    if (read(context->async.get(), &one, sizeof(one)) != sizeof(one)) return -1;
    absl::MutexLock lock(&mutex_);
    if (AsyncEvents::Take(context, event)) return 0;
  }
}

// ---- Objects.

int SoftPort::AddChannel(SoftChannel* channel) {
  channel->event = MakeEventFd();
  channel->epoll = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!channel->event.valid() || !channel->epoll.valid()) return errno;
  for (const int fd : {channel->event.get(), fds_.doorbell->get()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (epoll_ctl(channel->epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0) return errno;
  }
  channel->fd = channel->epoll.get();
  return 0;
}

void SoftPort::RemoveCq(SoftCq* cq) {
  absl::MutexLock lock(&mutex_);
  path_.queue_pairs().Disarm(cq);
  SoftChannel* channel = cq->soft_channel();
  if (channel == nullptr) return;
  const bool had_events = !channel->pending.empty();
  std::erase(channel->pending, cq);
  if (had_events && channel->pending.empty()) ClearEventFd(channel->event.get());
}

int SoftPort::AddQp(SoftQp* qp) {
  if (options_.query_only) return EBUSY;
  absl::MutexLock lock(&mutex_);
  return path_.queue_pairs().Add(qp);
}

void SoftPort::QueryQp(SoftQp* qp, ibv_qp_attr* attributes, ibv_qp_init_attr* init) const {
  absl::MutexLock lock(&mutex_);
  *attributes = ibv_qp_attr{};
  attributes->qp_state = attributes->cur_qp_state = qp->state;
  attributes->path_mtu = static_cast<ibv_mtu>(path_.queue_pairs().config().mtu);
  attributes->qkey = qp->qkey;
  attributes->sq_psn = qp->psn & 0xffffff;
  attributes->cap = qp->capabilities;
  attributes->pkey_index = qp->pkey_index;
  attributes->port_num = qp->port_num;
  *init = ibv_qp_init_attr{};
  init->qp_context = qp->qp_context;
  init->send_cq = qp->send_cq;
  init->recv_cq = qp->recv_cq;
  init->cap = qp->capabilities;
  init->qp_type = qp->qp_type;
  init->sq_sig_all = qp->signal_all ? 1 : 0;
}

int SoftPort::RemoveQp(SoftQp* qp) {
  absl::MutexLock lock(&mutex_);
  const int error = path_.queue_pairs().Remove(qp);
  if (error == 0) events_.TakeBack(qp);
  return error;
}

// ---- Datagrams.

int SoftPort::PostSend(SoftQp* qp, ibv_send_wr* request, ibv_send_wr** bad) {
  int error;
  bool link_requests, background;
  {
    absl::MutexLock lock(&mutex_);
    error = path_.PostSend(qp, request, bad);
    link_requests = path_.outbound().HasRequests();
    background = path_.TakeBackgroundNeeded();
  }
  if (link_requests) maintainer_.RunRequests();
  if (background) fds_.WakeBackground();
  return error;
}

int SoftPort::PostReceive(SoftQp* qp, ibv_recv_wr* request, ibv_recv_wr** bad) {
  absl::MutexLock lock(&mutex_);
  for (; request != nullptr; request = request->next) {
    if (const int error = path_.queue_pairs().PostReceive(qp, *request); error != 0) {
      *bad = request;
      return error;
    }
  }
  return 0;
}

int SoftPort::Poll(SoftCq* cq, int count, ibv_wc* completions) {
  int polled;
  bool give_way, link_requests;
  {
    absl::MutexLock lock(&mutex_);
    polled = path_.Poll(cq, count, completions);
    link_requests = path_.outbound().HasRequests();
    polls_in_vain_ = polled == 0 ? polls_in_vain_ + 1 : 0;
    give_way = options_.polls_before_yield != 0 && polls_in_vain_ > options_.polls_before_yield;
  }
  if (link_requests) maintainer_.RunRequests();
  // The thread that would send may need this processor.
  if (give_way) sched_yield();
  return polled;
}

int SoftPort::RequestNotify(SoftCq* cq, bool solicited_only) {
  absl::MutexLock lock(&mutex_);
  path_.Arm(cq, solicited_only);
  return 0;
}

bool SoftPort::TakeCqEvent(SoftChannel* channel, ibv_cq** cq, void** cq_context) {
  if (channel->pending.empty()) return false;
  SoftCq* ready = channel->pending.front();
  channel->pending.pop_front();
  if (channel->pending.empty()) ClearEventFd(channel->event.get());
  ++ready->events_raised;
  *cq = ready;
  *cq_context = ready->cq_context;
  return true;
}

int SoftPort::GetCqEvent(SoftChannel* channel, ibv_cq** cq, void** cq_context) {
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      if (TakeCqEvent(channel, cq, cq_context)) return 0;
      path_.SilenceDoorbell();
      path_.DrainUntilEvent(channel);
      if (TakeCqEvent(channel, cq, cq_context)) return 0;
    }
    if (IsNonBlocking(channel->fd)) {
      errno = EAGAIN;
      return -1;
    }
    pollfd ready = {channel->fd, POLLIN, 0};
    if (poll(&ready, 1, -1) < 0) return -1;
  }
}

uint32_t SoftPort::EventsRaised(SoftCq* cq) const {
  absl::MutexLock lock(&mutex_);
  return cq->events_raised;
}

}  // namespace eoib::softhca
