// FaultyHca: wraps another HCA (a software one, on which datagrams arrive) and injects faults, for
// tests of agents: failing verbs, changed port attributes, asynchronous events, completions with
// errors, lost requests to the SA, a lost device.
#ifndef EOIB_CONTROL_FAULTY_HCA_FOR_TEST_H_
#define EOIB_CONTROL_FAULTY_HCA_FOR_TEST_H_

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <atomic>
#include <cerrno>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/fabric/mad_transport.h"

namespace eoib {

// Loses MADs on their way to the SA. Control thread.
class FaultyMads final : public MadTransport {
 public:
  // `behind` may be null; then the object must not be used.
  explicit FaultyMads(MadTransport* behind) : behind_(behind) {}

  // From now on loses the MADs for which `lost` returns true.
  void Lose(std::function<bool(const Mad&)> lost) { lost_ = std::move(lost); }

  absl::Status Send(const Mad& mad) override {
    return lost_(mad) ? absl::OkStatus() : behind_->Send(mad);
  }
  absl::Status Reply(const Mad& mad) override { return behind_->Reply(mad); }
  bool ReceivesReports() const override { return behind_->ReceivesReports(); }
  bool Receive(std::vector<uint8_t>* mad) override { return behind_->Receive(mad); }
  int fd() const override { return behind_->fd(); }
  bool lost() const override { return behind_->lost(); }

 private:
  MadTransport* const behind_;
  std::function<bool(const Mad&)> lost_ = [](const Mad&) { return false; };
};

// All wrapped HCAs in a program must be of the same kind. Any thread.
class FaultyHca final : public Hca {
 public:
  explicit FaultyHca(std::unique_ptr<Hca> hca);
  ~FaultyHca() override;

  const VerbsTable& verbs() const override { return Table(); }
  ibv_context* context() const override { return hca_->context(); }
  uint8_t port() const override { return hca_->port(); }
  int gid_index() const override { return hca_->gid_index(); }
  std::string name() const override { return hca_->name(); }
  MadTransport* mads() override { return hca_->mads() != nullptr ? &mads_ : nullptr; }
  absl::Status StartCapture(const CaptureOptions& options) override {
    return hca_->StartCapture(options);
  }
  absl::StatusOr<CaptureReport> StopCapture() override { return hca_->StopCapture(); }
  absl::optional<CaptureReport> Capture() const override { return hca_->Capture(); }

  // Makes that verb fail with `error` until Mend.
  void Fail(const std::string& verb, int error) {
    absl::MutexLock lock(&mutex_);
    errors_[verb] = error;
  }
  void Mend(const std::string& verb) {
    absl::MutexLock lock(&mutex_);
    errors_.erase(verb);
  }
  // Loses the MADs to the SA for which `lost` returns true.
  void LoseMads(std::function<bool(const Mad&)> lost) { mads_.Lose(std::move(lost)); }
  // As after the driver is unloaded: every verb fails with EIO. Verbs that destroy still free their
  // objects, as in libibverbs.
  void Vanish() {
    absl::MutexLock lock(&mutex_);
    gone_ = true;
    eventfd_write(event_.get(), 1);  // stays readable
  }
  // Applies `edit` to the results of query_port.
  void EditPort(std::function<void(ibv_port_attr*)> edit) {
    absl::MutexLock lock(&mutex_);
    edit_port_ = std::move(edit);
  }
  // Raises an asynchronous event like the kernel; about the last queue pair or completion queue,
  // where it names one.
  void Raise(ibv_event_type type);
  // Gives the next receive (or send) completion of the last queue pair the status `status`; the
  // queue pair is in `state` from then on.
  void SpoilReceive(ibv_wc_status status, ibv_qp_state state) {
    Spoil(&ibv_qp::recv_cq, status, state);
  }
  void SpoilSend(ibv_wc_status status, ibv_qp_state state) {
    Spoil(&ibv_qp::send_cq, status, state);
  }
  // Applies `edit` to each completion of a receive.
  void EditReceives(std::function<void(ibv_wc*)> edit) {
    absl::MutexLock lock(&mutex_);
    edit_receive_ = std::move(edit);
  }
  // Makes polling the completion queues of the last queue pair fail, as after an overrun.
  void OverrunQueues() {
    absl::MutexLock lock(&mutex_);
    overrun_ = {qp_->recv_cq, qp_->send_cq};
  }

 private:
  struct Spoiled {
    ibv_cq* cq = nullptr;  // null: none
    ibv_wc_status status = IBV_WC_SUCCESS;
    ibv_qp* qp = nullptr;
    ibv_qp_state state = IBV_QPS_RTS;
  };

  static const VerbsTable& Table();
  static std::atomic<const VerbsTable*>& BehindAll() {
    static std::atomic<const VerbsTable*> behind{nullptr};
    return behind;
  }
  static const VerbsTable* Behind() { return BehindAll(); }
  static absl::Mutex& InstancesMutex() {
    static absl::Mutex mutex;
    return mutex;
  }
  static std::map<ibv_context*, FaultyHca*>& Instances() {
    static std::map<ibv_context*, FaultyHca*> instances;
    return instances;
  }
  static FaultyHca* Of(ibv_context* context) {
    absl::MutexLock lock(&InstancesMutex());
    return Instances().at(context);
  }
  static int Poll(ibv_cq* cq, int entries, ibv_wc* wc);

  // The error that was set for the verb, also in errno; or 0.
  int Error(const char* verb) {
    absl::MutexLock lock(&mutex_);
    const auto found = errors_.find(verb);
    if (!gone_ && found == errors_.end()) return 0;
    return errno = gone_ ? EIO : found->second;
  }
  // For verbs that destroy: they run in any case.
  int Or(int result, const char* verb) {
    const int error = Error(verb);
    return error != 0 ? error : result;
  }
  void Spoil(ibv_cq* ibv_qp::*cq, ibv_wc_status status, ibv_qp_state state) {
    absl::MutexLock lock(&mutex_);
    spoiled_ = {qp_->*cq, status, qp_, state};
  }
  bool TakeEvent(ibv_async_event* event) {
    absl::MutexLock lock(&mutex_);
    eventfd_t one;
    if (events_.empty() || eventfd_read(event_.get(), &one) != 0) return false;
    *event = events_.front();
    events_.pop_front();
    return true;
  }

  const std::unique_ptr<Hca> hca_;
  FaultyMads mads_{hca_->mads()};
  const int async_fd_;  // of the wrapped HCA
  int (*const poll_)(ibv_cq*, int, ibv_wc*);
  const UniqueFd epoll_{epoll_create1(EPOLL_CLOEXEC)};
  const UniqueFd event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)};

  absl::Mutex mutex_;
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, int> errors_ ABSL_GUARDED_BY(mutex_);
  std::function<void(ibv_port_attr*)> edit_port_ ABSL_GUARDED_BY(mutex_) = [](ibv_port_attr*) {};
  std::function<void(ibv_wc*)> edit_receive_ ABSL_GUARDED_BY(mutex_) = [](ibv_wc*) {};
  std::deque<ibv_async_event> events_ ABSL_GUARDED_BY(mutex_);
  ibv_qp* qp_ ABSL_GUARDED_BY(mutex_) = nullptr;  // the last one made
  Spoiled spoiled_ ABSL_GUARDED_BY(mutex_);
  // Injected; the wrapped HCA does not know them.
  std::map<ibv_qp*, ibv_qp_state> states_ ABSL_GUARDED_BY(mutex_);
  std::pair<ibv_cq*, ibv_cq*> overrun_ ABSL_GUARDED_BY(mutex_);
};

inline FaultyHca::FaultyHca(std::unique_ptr<Hca> hca)
    : hca_(std::move(hca)),
      async_fd_(hca_->context()->async_fd),
      poll_(hca_->context()->ops.poll_cq) {
  BehindAll() = &hca_->verbs();
  {
    absl::MutexLock lock(&InstancesMutex());
    Instances()[context()] = this;
  }
  fcntl(async_fd_, F_SETFL, fcntl(async_fd_, F_GETFL) | O_NONBLOCK);
  for (const int fd : {async_fd_, event_.get()}) {
    epoll_event readable = {};
    readable.events = EPOLLIN;
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &readable);
  }
  context()->async_fd = epoll_.get();
  context()->ops.poll_cq = &Poll;
}

inline FaultyHca::~FaultyHca() {
  context()->async_fd = async_fd_;
  context()->ops.poll_cq = poll_;
  absl::MutexLock lock(&InstancesMutex());
  Instances().erase(context());
}

inline void FaultyHca::Raise(ibv_event_type type) {
  absl::MutexLock lock(&mutex_);
  ibv_async_event event = {};
  event.event_type = type;
  switch (type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      event.element.qp = qp_;
      break;
    case IBV_EVENT_CQ_ERR:
      event.element.cq = qp_->send_cq;
      break;
    default:
      event.element.port_num = 1;
      break;
  }
  events_.push_back(event);
  eventfd_write(event_.get(), 1);
}

inline int FaultyHca::Poll(ibv_cq* cq, int entries, ibv_wc* wc) {
  FaultyHca* const hca = Of(cq->context);
  const int polled = hca->poll_(cq, entries, wc);
  absl::MutexLock lock(&hca->mutex_);
  if (cq == hca->overrun_.first || cq == hca->overrun_.second) return -1;
  for (int i = 0; i < polled; ++i) {
    if (wc[i].status == IBV_WC_SUCCESS && (wc[i].opcode & IBV_WC_RECV) != 0)
      hca->edit_receive_(&wc[i]);
  }
  Spoiled& spoiled = hca->spoiled_;
  if (polled <= 0 || cq != spoiled.cq) return polled;
  wc[0].status = spoiled.status;
  hca->states_[spoiled.qp] = spoiled.state;
  spoiled = {};
  return polled;
}

inline const VerbsTable& FaultyHca::Table() {
  static const VerbsTable kTable = [] {
    VerbsTable t = *Behind();
    t.query_port = [](ibv_context* context, uint8_t port, ibv_port_attr* attr) {
      FaultyHca* const hca = Of(context);
      if (const int error = hca->Error("query_port")) return error;
      const int result = Behind()->query_port(context, port, attr);
      absl::MutexLock lock(&hca->mutex_);
      hca->edit_port_(attr);
      return result;
    };
    t.query_gid = [](ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
      return Of(context)->Error("query_gid") != 0 ? -1
                                                  : Behind()->query_gid(context, port, index, gid);
    };
    t.query_pkey = [](ibv_context* context, uint8_t port, int index, uint16_t* pkey) {
      return Of(context)->Error("query_pkey") != 0
                 ? -1
                 : Behind()->query_pkey(context, port, index, pkey);
    };
    t.alloc_pd = [](ibv_context* context) {
      return Of(context)->Error("alloc_pd") != 0 ? nullptr : Behind()->alloc_pd(context);
    };
    t.dealloc_pd = [](ibv_pd* pd) {
      FaultyHca* const hca = Of(pd->context);
      return hca->Or(Behind()->dealloc_pd(pd), "dealloc_pd");
    };
    t.reg_mr = [](ibv_pd* pd, void* address, size_t length, int access) {
      return Of(pd->context)->Error("reg_mr") != 0 ? nullptr
                                                   : Behind()->reg_mr(pd, address, length, access);
    };
    t.dereg_mr = [](ibv_mr* mr) {
      FaultyHca* const hca = Of(mr->context);
      return hca->Or(Behind()->dereg_mr(mr), "dereg_mr");
    };
    t.create_comp_channel = [](ibv_context* context) {
      return Of(context)->Error("create_comp_channel") != 0
                 ? nullptr
                 : Behind()->create_comp_channel(context);
    };
    t.get_cq_event = [](ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
      return Of(channel->context)->Error("get_cq_event") != 0
                 ? -1
                 : Behind()->get_cq_event(channel, cq, cq_context);
    };
    t.create_qp = [](ibv_pd* pd, ibv_qp_init_attr* attr) -> ibv_qp* {
      FaultyHca* const hca = Of(pd->context);
      if (hca->Error("create_qp") != 0) return nullptr;
      ibv_qp* const qp = Behind()->create_qp(pd, attr);
      absl::MutexLock lock(&hca->mutex_);
      hca->qp_ = qp;
      hca->states_.erase(qp);
      return qp;
    };
    t.modify_qp = [](ibv_qp* qp, ibv_qp_attr* attr, int mask) {
      FaultyHca* const hca = Of(qp->context);
      if (const int error = hca->Error("modify_qp")) return error;
      absl::MutexLock lock(&hca->mutex_);
      if ((mask & IBV_QP_STATE) != 0) hca->states_.erase(qp);
      return Behind()->modify_qp(qp, attr, mask);
    };
    t.query_qp = [](ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init) {
      FaultyHca* const hca = Of(qp->context);
      if (const int error = hca->Error("query_qp")) return error;
      const int result = Behind()->query_qp(qp, attr, mask, init);
      absl::MutexLock lock(&hca->mutex_);
      if (const auto found = hca->states_.find(qp); found != hca->states_.end())
        attr->qp_state = found->second;
      return result;
    };
    t.destroy_qp = [](ibv_qp* qp) {
      FaultyHca* const hca = Of(qp->context);
      return hca->Or(Behind()->destroy_qp(qp), "destroy_qp");
    };
    t.destroy_cq = [](ibv_cq* cq) {
      FaultyHca* const hca = Of(cq->context);
      return hca->Or(Behind()->destroy_cq(cq), "destroy_cq");
    };
    t.destroy_comp_channel = [](ibv_comp_channel* channel) {
      FaultyHca* const hca = Of(channel->context);
      return hca->Or(Behind()->destroy_comp_channel(channel), "destroy_comp_channel");
    };
    t.attach_mcast = [](ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
      const int error = Of(qp->context)->Error("attach_mcast");
      return error != 0 ? error : Behind()->attach_mcast(qp, gid, lid);
    };
    t.detach_mcast = [](ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
      return Of(qp->context)->Or(Behind()->detach_mcast(qp, gid, lid), "detach_mcast");
    };
    t.create_ah = [](ibv_pd* pd, ibv_ah_attr* attr) {
      return Of(pd->context)->Error("create_ah") != 0 ? nullptr : Behind()->create_ah(pd, attr);
    };
    t.destroy_ah = [](ibv_ah* ah) {
      FaultyHca* const hca = Of(ah->context);
      return hca->Or(Behind()->destroy_ah(ah), "destroy_ah");
    };
    t.get_async_event = [](ibv_context* context, ibv_async_event* event) {
      FaultyHca* const hca = Of(context);
      if (hca->TakeEvent(event)) return 0;
      return hca->Error("get_async_event") != 0 ? -1 : Behind()->get_async_event(context, event);
    };
    return t;
  }();
  return kTable;
}

}  // namespace eoib

#endif  // EOIB_CONTROL_FAULTY_HCA_FOR_TEST_H_
