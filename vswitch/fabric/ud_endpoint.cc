#include "vswitch/fabric/ud_endpoint.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "vswitch/base/check.h"
#include "vswitch/fabric/error_advice.h"

namespace eoib {
namespace {

constexpr int kPollBatch = 32;
constexpr size_t kReceiveBatch = 64;
// The largest payload that is sent inline: a frame of a short datagram or of an acknowledgement.
constexpr uint32_t kInline = 128;
// In a work request: use the QP's own Q_Key (IBA 1.4 §10.2.5).
constexpr uint32_t kOwnQKey = 0x8000'0000;

// IBA 1.4 §8.3: in a GRH the SGID is at byte 8 and the DGID at byte 24.
constexpr size_t kGrhSgid = 8;
constexpr size_t kGrhDgid = 24;

}  // namespace

UdEndpoint::UdEndpoint(Hca* hca, BufferPool* pool, AddressHandles* handles, const Options& options)
    : hca_(hca),
      pool_(pool),
      handles_(handles),
      capture_(hca->rebuilt_capture()),
      pkey_index_(options.pkey_index),
      receive_depth_(static_cast<size_t>(options.receive_depth)),
      qkey_(options.qkey.value()),
      sends_(pool, handles, this, static_cast<size_t>(options.send_depth)),
      receive_wrs_(kReceiveBatch),
      receive_sges_(kReceiveBatch) {}

absl::StatusOr<std::unique_ptr<UdEndpoint>> UdEndpoint::Create(Hca* hca, ibv_pd* pd,
                                                               BufferPool* pool,
                                                               AddressHandles* handles,
                                                               const Options& options) {
  if (options.receive_depth <= 0 || options.send_depth <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("create a QP on ", hca->name(), ": receive depth ", options.receive_depth,
                     " and send depth ", options.send_depth, " must be positive"));
  }
  std::unique_ptr<UdEndpoint> endpoint(new UdEndpoint(hca, pool, handles, options));
  if (absl::Status status = endpoint->CreateQueues(pd); !status.ok()) return status;
  if (absl::Status status = endpoint->BringUp(options); !status.ok()) return status;
  return endpoint;
}

absl::Status UdEndpoint::CreateQueues(ibv_pd* pd) {
  const VerbsTable& verbs = hca_->verbs();
  const absl::StatusOr<ibv_port_attr> port = hca_->QueryAttributes();
  if (!port.ok()) return port.status();
  ethernet_ = port->link_layer == IBV_LINK_LAYER_ETHERNET;
  ibv_device_attr device = {};
  verifies_checksums_ = verbs.query_device(hca_->context(), &device) == 0 &&
                        (device.device_cap_flags & IBV_DEVICE_UD_IP_CSUM) != 0;
  channel_ = verbs.create_comp_channel(hca_->context());
  if (channel_ == nullptr) return Failed(errno, "create a completion channel");
  const int flags = fcntl(channel_->fd, F_GETFL);
  if (flags < 0 || fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) < 0) {
    return Failed(errno, "make a completion channel non-blocking");
  }
  receive_cq_ =
      verbs.create_cq(hca_->context(), static_cast<int>(receive_depth_), nullptr, channel_, 0);
  if (receive_cq_ == nullptr)
    return FailedToMake(errno, absl::StrCat("create a completion queue of ", receive_depth_));
  send_cq_ =
      verbs.create_cq(hca_->context(), static_cast<int>(sends_.depth()), nullptr, channel_, 0);
  if (send_cq_ == nullptr)
    return FailedToMake(errno, absl::StrCat("create a completion queue of ", sends_.depth()));

  ibv_qp_init_attr init = {};
  init.send_cq = send_cq_;
  init.recv_cq = receive_cq_;
  init.cap.max_send_wr = static_cast<uint32_t>(sends_.depth());
  init.cap.max_recv_wr = static_cast<uint32_t>(receive_depth_);
  init.cap.max_send_sge = 1;
  init.cap.max_recv_sge = 1;
  init.cap.max_inline_data = kInline;
  init.qp_type = IBV_QPT_UD;
  qp_ = verbs.create_qp(pd, &init);
  // The HCA sends so much inline with fewer requests only, or nothing at all.
  if (qp_ == nullptr && errno == EINVAL) {
    init.cap.max_inline_data = 0;
    qp_ = verbs.create_qp(pd, &init);
  }
  if (qp_ == nullptr) {
    return FailedToMake(errno, absl::StrFormat("create a UD QP of %d sends and %d receives",
                                               sends_.depth(), receive_depth_));
  }
  if (capture_ != nullptr) capture_->Created(qpn());
  sends_.set_inline_limit(std::min(init.cap.max_inline_data, kInline));
  groups_ = std::make_unique<GroupAttachments>(hca_, qp_, ethernet_);
  return absl::OkStatus();
}

// IBA 1.4 §10.3.1: RESET to INIT, RTR and RTS.
absl::Status UdEndpoint::BringUp(const Options& options) {
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_INIT;
  attr.pkey_index = options.pkey_index;
  attr.port_num = hca_->port();
  attr.qkey = options.qkey.value();
  absl::Status status =
      ModifyQp(&attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, " to INIT");
  if (!status.ok()) return status;
  attr = {};
  attr.qp_state = IBV_QPS_RTR;
  if (status = ModifyQp(&attr, IBV_QP_STATE, " to RTR"); !status.ok()) return status;
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  return ModifyQp(&attr, IBV_QP_STATE | IBV_QP_SQ_PSN, " to RTS");
}

absl::Status UdEndpoint::ModifyQp(ibv_qp_attr* attr, int mask, absl::string_view what) {
  const int error = hca_->verbs().modify_qp(qp_, attr, mask);
  if (error == 0) return absl::OkStatus();
  const std::string advice =
      (mask & IBV_QP_QKEY) != 0 ? ControlledQKeyAdvice(error, QKey(attr->qkey)) : "";
  return ErrnoWithAdvice(
      error, absl::StrCat("modify QP ", qpn().ToString(), what, " on ", hca_->name()), advice);
}

absl::Status UdEndpoint::Failed(int error, absl::string_view what) const {
  return absl::ErrnoToStatus(error, absl::StrCat(what, " on ", hca_->name()));
}

// Like Failed, for a verb that pins memory.
absl::Status UdEndpoint::FailedToMake(int error, absl::string_view what) const {
  return ErrnoWithAdvice(error, absl::StrCat(what, " on ", hca_->name()),
                         LockedMemoryAdvice(error));
}

// If the device is gone, the destroy verbs fail with EIO, but libibverbs still frees its own
// objects.
UdEndpoint::~UdEndpoint() {
  const VerbsTable& verbs = hca_->verbs();
  if (qp_ != nullptr) {
    // First: another endpoint may get the QPN.
    if (capture_ != nullptr) capture_->Destroyed(qpn());
    // A QP that is attached to a group cannot be destroyed.
    groups_.reset();
    // The HCA touches no buffer after this.
    [[maybe_unused]] const int error = verbs.destroy_qp(qp_);
    EOIB_DCHECK(error != EBUSY);
  }
  if (send_cq_ != nullptr) verbs.destroy_cq(send_cq_);
  if (receive_cq_ != nullptr) verbs.destroy_cq(receive_cq_);
  if (channel_ != nullptr) verbs.destroy_comp_channel(channel_);
  for (uint32_t i = 0; i < pool_->size(); ++i) {
    const BufferId buffer(i);
    if (pool_->IsHeldBy(this, buffer) && pool_->StateOf(buffer) == BufferPool::State::kPosted)
      pool_->Free(buffer);
  }
}

Qpn UdEndpoint::qpn() const { return Qpn(qp_->qp_num); }

bool UdEndpoint::IsLostBy(const ibv_async_event& event) const {
  if (event.event_type == IBV_EVENT_QP_FATAL) return event.element.qp == qp_;
  return event.event_type == IBV_EVENT_CQ_ERR &&
         (event.element.cq == receive_cq_ || event.element.cq == send_cq_);
}

int UdEndpoint::event_fd() const { return channel_->fd; }

size_t UdEndpoint::Receive(absl::Span<Datagram> out) {
  size_t received = 0;
  while (received < out.size()) {
    ibv_wc wcs[kPollBatch];
    const int wanted = static_cast<int>(std::min<size_t>(kPollBatch, out.size() - received));
    const int polled = ibv_poll_cq(receive_cq_, wanted, wcs);
    if (ABSL_PREDICT_FALSE(Captures()) && polled > 0)
      CaptureReceived({wcs, static_cast<size_t>(polled)});
    for (int i = 0; i < polled; ++i) received += TakeReceive(wcs[i], &out[received]);
    if (polled < 0) SetFailed();
    if (polled < wanted) break;
  }
  if (ABSL_PREDICT_FALSE(receive_failed_)) CheckFailedReceives();
  return received;
}

// Costs one system call for a batch with a failed receive, and none once the QP is known to be in
// ERR.
void UdEndpoint::CheckFailedReceives() {
  receive_failed_ = false;
  if (failed()) return;
  ibv_qp_state state;
  if (!QueryState(&state) || state == IBV_QPS_ERR) SetFailed();
}

bool UdEndpoint::QueryState(ibv_qp_state* state) {
  ibv_qp_attr attr = {};
  ibv_qp_init_attr init = {};
  if (hca_->verbs().query_qp(qp_, &attr, IBV_QP_STATE, &init) != 0) return false;
  *state = attr.qp_state;
  return true;
}

// Fills *out from a completion. Returns false for a receive that the QP flushed in ERR: no datagram
// arrived.
bool UdEndpoint::TakeReceive(const ibv_wc& wc, Datagram* out) {
  const BufferId buffer(static_cast<uint32_t>(wc.wr_id));
  EOIB_DCHECK(pool_->IsHeldBy(this, buffer));
  --posted_;
  if (ABSL_PREDICT_FALSE(wc.status != IBV_WC_SUCCESS)) receive_failed_ = true;
  if (wc.status == IBV_WC_WR_FLUSH_ERR) {
    SetFailed();  // only a QP in ERR flushes receives
    pool_->Move(buffer, BufferPool::State::kFree);
    return false;
  }
  pool_->Move(buffer, BufferPool::State::kBatch);
  *out = Datagram();
  out->buffer = buffer;
  out->ok = wc.status == IBV_WC_SUCCESS && wc.byte_len >= kGrhSize;
  if (!out->ok) return true;
  // The GRH's 40 bytes count, used or not (IBA 1.4 §11.4.1.2)
  out->length = wc.byte_len - kGrhSize;
  out->has_grh = (wc.wc_flags & IBV_WC_GRH) != 0;
  out->checksums_ok = verifies_checksums_ && (wc.wc_flags & IBV_WC_IP_CSUM_OK) != 0;
  if (out->has_grh) {
    out->sgid = Gid::FromWire(pool_->Grh(buffer) + kGrhSgid);
    out->dgid = Gid::FromWire(pool_->Grh(buffer) + kGrhDgid);
  }
  out->source_qpn = Qpn(wc.src_qp);
  // RoCE has no LIDs and SLs.
  if (ethernet_) return true;
  out->slid = Lid(wc.slid);
  out->sl = Sl(wc.sl);
  return true;
}

void UdEndpoint::Refill() {
  if (ABSL_PREDICT_FALSE(failed())) return;  // in ERR the HCA flushes each receive at once
  for (;;) {
    const size_t prepared = PrepareReceives();
    if (prepared == 0) return;
    ibv_recv_wr* bad = &receive_wrs_[0];
    const int error = ibv_post_recv(qp_, &receive_wrs_[0], &bad);
    const size_t posted = error == 0 ? prepared : static_cast<size_t>(bad - &receive_wrs_[0]);
    posted_ += posted;
    for (size_t i = posted; i < prepared; ++i) {
      pool_->Move(BufferId(static_cast<uint32_t>(receive_wrs_[i].wr_id)), BufferPool::State::kFree);
    }
    if (error != 0) return;  // the next Refill tries again
  }
}

// Builds a chain of receives into free buffers and returns its length.
size_t UdEndpoint::PrepareReceives() {
  const size_t missing = std::min(receive_depth_ - posted_, kReceiveBatch);
  size_t count = 0;
  for (; count < missing; ++count) {
    const BufferId buffer = pool_->Take(BufferPool::State::kPosted, this);
    if (buffer.IsNone()) break;
    ibv_sge& sge = receive_sges_[count];
    sge.addr = reinterpret_cast<uintptr_t>(pool_->Grh(buffer));
    sge.length = static_cast<uint32_t>(BufferPool::kFrameOffset - BufferPool::kGrhOffset +
                                       pool_->frame_capacity());
    sge.lkey = pool_->lkey();
    receive_wrs_[count] = {.wr_id = buffer.value(), .next = nullptr, .sg_list = &sge, .num_sge = 1};
    if (count > 0) receive_wrs_[count - 1].next = &receive_wrs_[count];
  }
  return count;
}

size_t UdEndpoint::Send(absl::Span<const SendRequest> requests, absl::Span<DropReason> result) {
  EOIB_DCHECK(result.size() >= requests.size());
  if (ABSL_PREDICT_FALSE(send_failed_ || failed())) {
    std::fill_n(result.begin(), requests.size(), DropReason::kSendError);
    return 0;
  }
  const uint32_t qkey = qkey_.load(std::memory_order_relaxed) | kOwnQKey;
  std::fill_n(result.begin(), requests.size(), DropReason::kNone);
  for (size_t i = 0, length; i < requests.size(); i += length) {
    length = requests[i].train;
    const DropReason reason = sends_.Add({&requests[i], length}, qkey);
    if (ABSL_PREDICT_FALSE(reason != DropReason::kNone)) std::fill_n(&result[i], length, reason);
  }
  int error;
  const size_t posted = sends_.Post(qp_, &error);
  if (ABSL_PREDICT_FALSE(error != 0)) RefuseUnposted(posted, error, result.first(requests.size()));
  if (ABSL_PREDICT_FALSE(Captures())) CaptureSent(requests, result);
  return posted;
}

// Of the requests in the chain, those behind the first `posted` were refused.
void UdEndpoint::RefuseUnposted(size_t posted, int error, absl::Span<DropReason> result) {
  for (DropReason& reason : result) {
    if (reason != DropReason::kNone) continue;
    if (posted == 0) reason = error == ENOMEM ? DropReason::kSendQueueFull : DropReason::kSendError;
    if (posted != 0) --posted;
  }
}

RebuiltCapture::QueuePair UdEndpoint::CaptureIdentity() const {
  return {qpn(), QKey(qkey_.load(std::memory_order_relaxed)), pkey_index_};
}

// Reports the requests that were posted. Their buffers do not change before ReapSends frees them.
void UdEndpoint::CaptureSent(absl::Span<const SendRequest> requests,
                             absl::Span<const DropReason> result) {
  const RebuiltCapture::QueuePair qp = CaptureIdentity();
  for (size_t i = 0; i < requests.size(); ++i) {
    if (result[i] != DropReason::kNone) continue;
    const SendRequest& request = requests[i];
    const auto& [path, attributes] = handles_->KeyOf(request.ah);
    capture_->Sent(qp, path, attributes, request.qpn, {request.payload, request.length});
  }
}

void UdEndpoint::CaptureReceived(absl::Span<const ibv_wc> completions) {
  const RebuiltCapture::QueuePair qp = CaptureIdentity();
  for (const ibv_wc& wc : completions) {
    if (wc.status != IBV_WC_SUCCESS || wc.byte_len < kGrhSize) continue;
    capture_->Received(qp, wc, pool_->Grh(BufferId(static_cast<uint32_t>(wc.wr_id))));
  }
}

size_t UdEndpoint::ReapSends(size_t* failed) {
  *failed = 0;
  size_t completed = 0;
  for (int polled = kPollBatch; polled == kPollBatch && sends_.in_flight() != 0;) {
    ibv_wc wcs[kPollBatch];
    polled = ibv_poll_cq(send_cq_, kPollBatch, wcs);
    if (polled < 0) {
      SetFailed();
      break;
    }
    for (int i = 0; i < polled; ++i) {
      const SendQueue::Completed done = sends_.Complete(wcs[i]);
      completed += done.trains;
      *failed += done.failed;
      // The rest will be flushed.
      if (ABSL_PREDICT_FALSE(wcs[i].status != IBV_WC_SUCCESS)) send_failed_ = true;
    }
  }
  if (send_failed_ && sends_.in_flight() == 0) RecoverSendQueue();
  return completed;
}

// All sends are flushed: takes the send queue from SQE back to RTS. Does nothing if the failure
// left the queue in RTS.
void UdEndpoint::RecoverSendQueue() {
  send_failed_ = false;
  ibv_qp_state state;
  if (!QueryState(&state) || state == IBV_QPS_ERR) return SetFailed();
  if (state != IBV_QPS_SQE) return;
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_RTS;
  if (!ModifyQp(&attr, IBV_QP_STATE, " to RTS").ok()) SetFailed();
}

absl::Status UdEndpoint::Arm() {
  for (ibv_cq* cq : {receive_cq_, send_cq_}) {
    if (const int error = ibv_req_notify_cq(cq, /*solicited_only=*/0); error != 0) {
      return Failed(error, absl::StrCat("arm a completion queue of QP ", qpn().ToString()));
    }
  }
  return absl::OkStatus();
}

void UdEndpoint::DrainEvents() {
  unsigned receive_events = 0;
  unsigned send_events = 0;
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  while (hca_->verbs().get_cq_event(channel_, &cq, &cq_context) == 0)
    ++(cq == receive_cq_ ? receive_events : send_events);
  // EIO: the device is gone, and its channel stays readable.
  if (errno != EAGAIN && errno != EINTR) SetFailed();
  if (receive_events > 0) hca_->verbs().ack_cq_events(receive_cq_, receive_events);
  if (send_events > 0) hca_->verbs().ack_cq_events(send_cq_, send_events);
}

absl::Status UdEndpoint::SetQKey(QKey qkey) {
  ibv_qp_attr attr = {};
  attr.qkey = qkey.value();
  absl::Status status = ModifyQp(&attr, IBV_QP_QKEY, absl::StrCat(" to Q_Key ", qkey.ToString()));
  if (status.ok()) qkey_.store(qkey.value(), std::memory_order_relaxed);
  return status;
}

}  // namespace eoib
