#include "vswitch/fabric/softhca/soft_port.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/base/check.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/wire/ib/ib_headers.h"

namespace eoib::softhca {
namespace {

constexpr size_t kMaxMads = 1024;
constexpr uint32_t kMaxDatagram = 4096;  // IBA's largest MTU

std::shared_ptr<UniqueFd> MakeSharedEventFd() { return std::make_shared<UniqueFd>(MakeEventFd()); }

// The records that one call takes before it releases the mutex to the port's other users.
constexpr int kLeastRecordsAPoll = 32;
constexpr uint64_t kMostRecordsAnEvent = 1024;

bool IsNonBlocking(int fd) { return (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0; }

// A message as captures record it.
UdPacket PacketOf(const RecordHeader& header, Lid slid, const Gid& sgid) {
  UdPacket packet;
  packet.slid = slid;
  packet.dlid = header.dlid;
  packet.sl = Sl(header.sl);
  packet.sgid = sgid;
  packet.dgid = Gid(header.dgid);
  packet.traffic_class = header.traffic_class;
  packet.flow_label = header.flow_label;
  packet.hop_limit = header.hop_limit;
  packet.pkey = PKey(header.pkey);
  packet.destination_qpn = Qpn(header.destination_qpn);
  packet.source_qpn = Qpn(header.source_qpn);
  packet.psn = header.psn;
  packet.qkey = QKey(header.qkey);
  packet.solicited = (header.flags & RecordHeader::kSolicited) != 0;
  packet.payload_length = header.length + ((header.flags & RecordHeader::kImmediate) != 0 ? sizeof(header.immediate) : 0);
  return packet;
}

}  // namespace

// ---- Life.

SoftPort::SoftPort(std::unique_ptr<SubnetLink> link, std::string name, const Options& options)
    : link_(std::move(link)),
      name_(std::move(name)),
      options_(options),
      clock_(options.clock != nullptr ? options.clock : &system_clock_),
      doorbell_(MakeSharedEventFd()),
      space_(MakeSharedEventFd()),
      kick_(MakeEventFd()),
      mad_event_(MakeEventFd()),
      outbound_(&options_.outbound, clock_, &counters_),
      queue_pairs_(&counters_),
      faults_(clock_, &counters_) {}

absl::StatusOr<std::shared_ptr<SoftPort>> SoftPort::Open(std::unique_ptr<SubnetLink> link, const std::string& name,
                                                         const Options& options) {
  std::shared_ptr<SoftPort> port(new SoftPort(std::move(link), name, options));
  if (absl::Status status = port->Register(); !status.ok()) return status;
  return port;
}

absl::Status SoftPort::Register() {
  if (!doorbell_->valid() || !space_->valid() || !kick_.valid() || !mad_event_.valid()) {
    return absl::ErrnoToStatus(errno, absl::StrCat("open port ", name_, ": make an eventfd"));
  }
  absl::StatusOr<std::shared_ptr<CountersPage>> counters = CountersPage::Create();
  if (!counters.ok()) return counters.status();
  {
    absl::MutexLock lock(&mutex_);
    counters_page_ = *counters;
    outbound_.set_page(counters_page_.get());
  }
  const PortResources resources = {doorbell_->get(), *counters};
  const PortUse use = options_.query_only ? PortUse::kQuery : PortUse::kOwn;
  if (absl::Status status = link_->Register(name_, resources, use, this); !status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  if (!mutex_.AwaitWithTimeout(absl::Condition(&configured_), options_.patience)) {
    return absl::DeadlineExceededError(absl::StrCat("open port ", name_, ": the subnet does not configure it"));
  }
  if (!options_.query_only) background_ = std::thread(&SoftPort::Background, this);
  return absl::OkStatus();
}

SoftPort::~SoftPort() {
  {
    absl::MutexLock lock(&mutex_);
    const auto all_left = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return outbound_.parked() == 0; };
    mutex_.AwaitWithTimeout(absl::Condition(&all_left), options_.linger);
    stopping_ = true;
  }
  if (background_.joinable()) {
    Kick();
    background_.join();
  }
  {
    absl::MutexLock lock(&mutex_);
    outbound_.End();
    for (const auto& ring : inbound_.TakeAll()) LeaveRing(ring.get());
    counters_.ended = 1;
    if (counters_page_ != nullptr) counters_page_->Store(counters_);
  }
  link_->Unregister();
  StopCapture().status().IgnoreError();
}

PortConfig SoftPort::config() const {
  absl::MutexLock lock(&mutex_);
  return queue_pairs_.config();
}

PortCounters SoftPort::counters() const {
  absl::MutexLock lock(&mutex_);
  return counters_;
}

SoftPort::RingStatus SoftPort::rings() const {
  absl::MutexLock lock(&mutex_);
  RingStatus status;
  status.inbound = inbound_.size();
  status.parked = outbound_.parked();
  const_cast<Outbound&>(outbound_).ForEach([&](const RingSender* sender) {
    status.outbound += sender->open() ? 1 : 0;
    status.largest_outbound = std::max(status.largest_outbound, sender->capacity());
  });
  return status;
}

absl::Status SoftPort::StartCapture(const std::string& path) {
  absl::StatusOr<std::unique_ptr<PacketCapture>> opened = PacketCapture::Open(path);
  if (!opened.ok()) return opened.status();
  absl::MutexLock lock(&mutex_);
  opened->swap(capture_);  // the old capture is closed after the mutex is released
  return absl::OkStatus();
}

absl::StatusOr<CaptureReport> SoftPort::StopCapture() {
  std::unique_ptr<PacketCapture> capture;
  {
    absl::MutexLock lock(&mutex_);
    capture.swap(capture_);
  }
  if (capture == nullptr) return NoCaptureRuns(absl::StrCat("soft:", name_));
  CaptureReport report = capture->Close();
  if (!report.status.ok()) return report.status;
  return report;
}

absl::optional<CaptureReport> SoftPort::Capture() const {
  absl::MutexLock lock(&mutex_);
  if (capture_ == nullptr) return absl::nullopt;
  return capture_->report();
}

// ---- MADs and asynchronous events.

void SoftPort::OnMad(Lid source, absl::Span<const uint8_t> mad) {
  absl::MutexLock lock(&mad_mutex_);
  if (mads_.size() >= kMaxMads) return;  // drop it, as a wire might
  mads_.emplace_back(mad.begin(), mad.end());
  RingEventFd(mad_event_.get());
}

bool SoftPort::ReceiveMad(std::vector<uint8_t>* mad) {
  absl::MutexLock lock(&mad_mutex_);
  if (!mads_.empty()) {
    *mad = std::move(mads_.front());
    mads_.pop_front();
    if (mads_.empty()) ClearEventFd(mad_event_.get());
    return true;
  }
  return false;
}

void SoftPort::AddContext(SoftContext* context) {
  absl::MutexLock lock(&mutex_);
  contexts_.push_back(context);
}

void SoftPort::RemoveContext(SoftContext* context) {
  absl::MutexLock lock(&mutex_);
  contexts_.erase(std::remove(contexts_.begin(), contexts_.end(), context), contexts_.end());
}

void SoftPort::Raise(ibv_event_type type) {
  for (SoftContext* context : contexts_) {
    ibv_async_event event{};
    event.element.port_num = 1;
    event.event_type = type;
    context->events.push_back(event);
    RingEventFd(context->async.get());
  }
}

// Raises one event for each queue pair, in the context that made it.
void SoftPort::RaiseForQueuePairs(ibv_event_type type) {
  queue_pairs_.ForEach([this, type](SoftQp* qp) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const auto owner = std::find_if(contexts_.begin(), contexts_.end(),
                                    [qp](SoftContext* context) { return &context->context == qp->context; });
    if (owner == contexts_.end()) return;
    ibv_async_event event{};
    event.element.qp = qp;
    event.event_type = type;
    (*owner)->events.push_back(event);
    RingEventFd((*owner)->async.get());
  });
}

// The eventfd counts events one by one, and blocks if its reader made it blocking. TakeBackEventsOf may remove an event
// between the read and the lock.
int SoftPort::GetAsyncEvent(SoftContext* context, ibv_async_event* event) {
  for (;;) {
    uint64_t one;
    if (read(context->async.get(), &one, sizeof(one)) != sizeof(one)) return -1;
    absl::MutexLock lock(&mutex_);
    if (context->events.empty()) continue;
    *event = context->events.front();
    context->events.pop_front();
    return 0;
  }
}

// Removes the pending events of a destroyed queue pair, so that no program gets an event with a dangling pointer.
// ibv_destroy_qp would wait for acknowledgements.
void SoftPort::TakeBackEventsOf(const SoftQp* qp) {
  for (SoftContext* context : contexts_) {
    std::deque<ibv_async_event>& events = context->events;
    for (auto event = events.begin(); event != events.end();) {
      if (event->event_type != IBV_EVENT_QP_FATAL || event->element.qp != qp) {
        ++event;
        continue;
      }
      event = events.erase(event);
      ClearEventFd(context->async.get());  // takes one from its count
    }
  }
}

// ---- Objects.

void SoftPort::AddRegion(SoftMr* region) {
  absl::MutexLock lock(&mutex_);
  queue_pairs_.AddRegion(region);
}

void SoftPort::RemoveRegion(SoftMr* region) {
  absl::MutexLock lock(&mutex_);
  queue_pairs_.RemoveRegion(region);
}

int SoftPort::AddChannel(SoftChannel* channel) {
  channel->event = MakeEventFd();
  channel->epoll = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!channel->event.valid() || !channel->epoll.valid()) return errno;
  for (const int fd : {channel->event.get(), doorbell_->get()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (epoll_ctl(channel->epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0) return errno;
  }
  channel->fd = channel->epoll.get();
  return 0;
}

void SoftPort::RemoveCq(SoftCq* cq) {
  absl::MutexLock lock(&mutex_);
  queue_pairs_.Disarm(cq);
  SoftChannel* channel = cq->soft_channel();
  if (channel == nullptr) return;
  const bool had_events = !channel->pending.empty();
  channel->pending.erase(std::remove(channel->pending.begin(), channel->pending.end(), cq), channel->pending.end());
  if (had_events && channel->pending.empty()) ClearEventFd(channel->event.get());
}

int SoftPort::AddQp(SoftQp* qp) {
  if (options_.query_only) return EBUSY;
  absl::MutexLock lock(&mutex_);
  return queue_pairs_.Add(qp);
}

int SoftPort::ModifyQp(SoftQp* qp, const ibv_qp_attr& attributes, int mask) {
  absl::MutexLock lock(&mutex_);
  return queue_pairs_.Modify(qp, attributes, mask);
}

void SoftPort::QueryQp(SoftQp* qp, ibv_qp_attr* attributes, ibv_qp_init_attr* init) const {
  absl::MutexLock lock(&mutex_);
  *attributes = ibv_qp_attr{};
  attributes->qp_state = attributes->cur_qp_state = qp->state;
  attributes->path_mtu = static_cast<ibv_mtu>(queue_pairs_.config().mtu);
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
  const int error = queue_pairs_.Remove(qp);
  if (error == 0) TakeBackEventsOf(qp);
  return error;
}

int SoftPort::Attach(SoftQp* qp, const Gid& mgid) {
  absl::MutexLock lock(&mutex_);
  return queue_pairs_.Attach(qp, mgid);
}

int SoftPort::Detach(SoftQp* qp, const Gid& mgid) {
  absl::MutexLock lock(&mutex_);
  return queue_pairs_.Detach(qp, mgid);
}

// ---- Sending.

int SoftPort::PostSend(SoftQp* qp, ibv_send_wr* request, ibv_send_wr** bad) {
  int error = 0;
  bool link_work, kick;
  {
    absl::MutexLock lock(&mutex_);
    for (; request != nullptr; request = request->next) {
      error = SendOne(qp, *request);
      if (error != 0) break;
    }
    outbound_.PublishAll();
    counters_page_->Store(counters_);
    link_work = outbound_.HasWishes();
    kick = outbound_.is_busy() && !std::exchange(background_awake_, true);
  }
  if (error != 0) *bad = request;
  if (link_work) RunLinkWork();
  if (kick) Kick();
  return error;
}

int SoftPort::SendOne(SoftQp* qp, const ibv_send_wr& request) {
  if (const int error = queue_pairs_.CheckSend(*qp, request); error != 0) return error;
  RecordHeader header;
  uint32_t length = 0;
  const ibv_wc_status status = queue_pairs_.CheckMessage(*qp, request, &length);
  if (status == IBV_WC_SUCCESS) {
    if (queue_pairs_.MakeHeader(qp, request, length, &header)) {
      Transmit(header, Gather{request.sg_list, request.num_sge});
    } else {
      ++counters_.xmit_copies;
      // The P_Key was withdrawn: the datagram is dropped, and its send completes.
      ++counters_.xmit_pkey_errors;
    }
  }
  queue_pairs_.CompleteSend(qp, request, status);
  return 0;
}

void SoftPort::Transmit(const RecordHeader& header, const Gather& gather) {
  const PortConfig& config = queue_pairs_.config();
  if (!config.active) {
    ++counters_.xmit_copies;
    // The link is down: the datagram is dropped, and its send completes.
    ++counters_.xmit_discards;
    return;
  }
  ++counters_.xmit_packets;
  counters_.xmit_bytes += header.length;
  counters_.xmit_data += WireWords(header);
  if (capture_ != nullptr) CapturePacket(header, config.lid, config.gid, gather);
  if (header.dlid < Mlid::kMin) {
    ++counters_.xmit_copies;
    outbound_.Send(Lid(header.dlid), header, gather);
    return;
  }
  ++counters_.xmit_multicast_packets;
  const auto group = groups_.find(Mlid(header.dlid));
  if (group == groups_.end()) {
    ++counters_.xmit_copies;
    ++counters_.xmit_no_group;
    return;
  }
  counters_.xmit_copies += group->second.size();
  // Each member has its own ring and queue, so a stopped member delays none of the others.
  for (const Lid member : group->second) outbound_.Send(member, header, gather);
}

// ---- Receiving.

int SoftPort::PostReceive(SoftQp* qp, ibv_recv_wr* request, ibv_recv_wr** bad) {
  absl::MutexLock lock(&mutex_);
  for (; request != nullptr; request = request->next) {
    if (const int error = queue_pairs_.PostReceive(qp, *request); error != 0) {
      *bad = request;
      return error;
    }
  }
  return 0;
}

void SoftPort::CountTaken(const InboundRing& ring, uint64_t records) {
  counters_.rcv_taken += records;
  if (ring.loopback) {
    counters_.loopback_queued -= records;
  } else if (SubnetOfRing(ring.id) == counters_.ring_subnet) {
    counters_.ring_taken += records;
  }
}

void SoftPort::LeaveRing(InboundRing* ring) {
  const uint64_t records = ring->Leave();
  CountTaken(*ring, records);
  counters_.rcv_ring_closed += records;
}

void SoftPort::Receive(InboundRing* ring, const RecordHeader& header, const uint8_t* payload) {
  ++records_taken_;
  CountTaken(*ring, 1);
  if (ring->loopback) return queue_pairs_.Deliver(ring->source, header, payload);
  // A ring's record may be longer than any datagram, and QueuePairs then drops it.
  if (capture_ != nullptr && header.length <= kMaxDatagram) {
    const ibv_sge piece = {reinterpret_cast<uintptr_t>(payload), header.length, 0};
    CapturePacket(header, ring->source.lid, ring->source.gid, Gather{&piece, 1});
  }
  if (!faults_.active()) return queue_pairs_.Deliver(ring->source, header, payload);
  faults_.Take(ring->source, header, payload,
               [this](const SourceIdentity& source, const RecordHeader& taken, const uint8_t* bytes)
                   ABSL_NO_THREAD_SAFETY_ANALYSIS { queue_pairs_.Deliver(source, taken, bytes); });
}

void SoftPort::CapturePacket(const RecordHeader& header, Lid slid, const Gid& sgid, const Gather& gather) {
  PacketCapture::Packet packet;
  packet.global = (header.flags & RecordHeader::kGlobal) != 0;
  if ((header.flags & RecordHeader::kImmediate) != 0) packet.immediate = ReadWire<be32>(&header.immediate);
  packet.headers = MakeUdHeaders(PacketOf(header, slid, sgid));
  if (!capture_->Record(packet, header.length, [&gather](uint8_t* to) { gather.CopyTo(to); })) ++counters_.capture_drops;
}

// Takes at most `limit` records, until `done()`, then wakes sleeping receivers: records that are left may be theirs, and
// records that were taken may have used up the doorbell that they asked for.
template <typename Done>
void SoftPort::DrainInbound(uint64_t limit, Done done) {
  const uint64_t before = records_taken_;
  const auto enough = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return records_taken_ - before >= limit || done(); };
  faults_.DeliverDue(enough, [this](const SourceIdentity& source, const RecordHeader& header, const uint8_t* payload)
                                 ABSL_NO_THREAD_SAFETY_ANALYSIS {
                                   ++records_taken_;
                                   queue_pairs_.Deliver(source, header, payload);
                                 });
  if (records_taken_ != before) counters_page_->Store(counters_);
  const bool empty = inbound_.Drain([this](InboundRing* ring, const RecordHeader& header, const uint8_t* payload)
                                        ABSL_NO_THREAD_SAFETY_ANALYSIS { Receive(ring, header, payload); },
                                    enough, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { counters_page_->Store(counters_); });
  if (inbound_.has_finished()) Kick();
  if (!queue_pairs_.receiver_armed()) return;
  WakeReceivers(/*has_records=*/!empty);
  WatchDueTime();
}

void SoftPort::WakeReceivers(bool has_records) {
  const absl::Time due = faults_.next_due();
  const bool is_due = due != absl::InfiniteFuture() && due <= clock_->Now();
  // Arm() first, since it must arm all rings in any case.
  if (inbound_.Arm() || has_records || is_due) RingDoorbell();
}

// A receiver that was woken will come here again.
void SoftPort::WatchDueTime() {
  if (!doorbell_rung_ && faults_.next_due() < background_wakes_) Kick();
}

void SoftPort::RingDoorbell() {
  if (!std::exchange(doorbell_rung_, true)) RingEventFd(doorbell_->get());
}

void SoftPort::SilenceDoorbell() {
  doorbell_rung_ = false;
  ClearEventFd(doorbell_->get());
}

int SoftPort::Poll(SoftCq* cq, int count, ibv_wc* completions) {
  int polled;
  bool give_way;
  {
    absl::MutexLock lock(&mutex_);
    polled = PollOnce(cq, count, completions);
    polls_in_vain_ = polled == 0 ? polls_in_vain_ + 1 : 0;
    give_way = options_.polls_before_yield != 0 && polls_in_vain_ > options_.polls_before_yield;
  }
  // The thread that would send may need this processor.
  if (give_way) sched_yield();
  return polled;
}

int SoftPort::PollOnce(SoftCq* cq, int count, ibv_wc* completions) {
  if (cq->receivers != 0 && cq->size() < static_cast<size_t>(std::max(count, 0))) {
    // Also limits what is taken for other queues: polling an idle queue must not run a busy queue of this port out of
    // receives.
    DrainInbound(static_cast<uint64_t>(std::max(count, kLeastRecordsAPoll)),
                 [cq, count] { return cq->size() >= static_cast<size_t>(count) || cq->full(); });
  }
  return queue_pairs_.Poll(cq, count, completions);
}

int SoftPort::RequestNotify(SoftCq* cq, bool solicited_only) {
  absl::MutexLock lock(&mutex_);
  queue_pairs_.Arm(cq, solicited_only);
  if (!queue_pairs_.receiver_armed()) return 0;
  // A caller polls once more after arming, so present records need no event.
  inbound_.Arm();
  WatchDueTime();
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
      SilenceDoorbell();
      DrainInbound(kMostRecordsAnEvent, [channel] { return !channel->pending.empty(); });
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
