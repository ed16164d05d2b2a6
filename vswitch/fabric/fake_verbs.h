// FakeHca: an HCA that does nothing by itself, for tests of error paths and of ownership above
// verbs.
//
// A test makes any verb fail (FailNext), inspects what was posted, completes work requests, and
// counts live objects. For tests in which datagrams arrive, use the software HCA (softhca/).
#ifndef EOIB_VSWITCH_FABRIC_FAKE_VERBS_H_
#define EOIB_VSWITCH_FABRIC_FAKE_VERBS_H_

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "vswitch/base/check.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/fabric/rebuilt_capture.h"

namespace eoib {

// The objects of the fake verbs: each is the verbs struct and what tests inspect.
struct FakeAh : ibv_ah {
  ibv_ah_attr attr = {};
  std::atomic<bool> destroyed{false};
};
struct FakeCq : ibv_cq {
  std::deque<ibv_wc> completions;
  bool armed = false;
  unsigned unacknowledged = 0;
};
struct FakeChannel : ibv_comp_channel {
  std::deque<FakeCq*> events;
};
struct FakeSend {
  uint64_t wr_id;
  ibv_ah* ah;
  uint32_t remote_qpn;
  uint32_t remote_qkey;
  ibv_sge sge;
  unsigned flags;
};
struct FakeReceive {
  uint64_t wr_id;
  ibv_sge sge;
};
struct FakeTransition {
  ibv_qp_attr attr;
  int mask;
};
struct FakeQp : ibv_qp {
  std::vector<FakeTransition> transitions;
  std::deque<FakeReceive> receives;
  std::deque<FakeSend> sends;
  std::map<Gid, uint16_t> groups;  // with the MLID of each attachment
};

// One thread, but create_ah and destroy_ah may run on any thread, beside a worker that reads
// `destroyed`.
class FakeHca final : public Hca {
 public:
  FakeHca();
  ~FakeHca() override = default;

  const VerbsTable& verbs() const override;
  ibv_context* context() const override { return const_cast<FakeContext*>(&context_); }
  uint8_t port() const override { return 1; }
  int gid_index() const override { return chosen_gid_index; }
  std::string name() const override { return "fake0/1"; }
  MadTransport* mads() override { return nullptr; }
  absl::Status StartCapture(const CaptureOptions& options) override {
    return capture_.Start(*this, options);
  }
  absl::StatusOr<CaptureReport> StopCapture() override { return capture_.Stop(*this); }
  absl::optional<CaptureReport> Capture() const override { return capture_.report(); }
  RebuiltCapture* rebuilt_capture() override { return &capture_; }
  void OnPortChange() override { capture_.OnPortChange(*this); }

  // The call number `skip` + 1 of the named verb from now on fails with `error`.
  void FailNext(const std::string& verb, int error, int skip = 0) {
    absl::MutexLock lock(&failures_mutex_);
    failures_[verb] = {skip, error};
  }
  // A protection domain that tests need not make.
  ibv_pd* pd() { return &pd_; }
  // Objects of all kinds that verbs made and did not destroy yet.
  int alive() const { return alive_; }

  // The queue pair made last.
  FakeQp* qp() const { return qp_; }
  static FakeCq* receive_cq(FakeQp* qp) { return static_cast<FakeCq*>(qp->recv_cq); }
  static FakeCq* send_cq(FakeQp* qp) { return static_cast<FakeCq*>(qp->send_cq); }
  static void Complete(FakeCq* cq, const ibv_wc& wc);
  // Completes the oldest send.
  void CompleteSend(ibv_wc_status status = IBV_WC_SUCCESS);
  // The first send is done, without a completion.
  void SkipSend() { qp_->sends.pop_front(); }
  // Writes `bytes`, which start with the GRH, into the oldest posted receive and completes it.
  void Deliver(absl::Span<const uint8_t> bytes,
               const ibv_wc& wc = {.status = IBV_WC_SUCCESS, .wc_flags = IBV_WC_GRH});

  // The answers to queries.
  ibv_device_attr device_attr = {};
  ibv_port_attr port_attr = {};
  std::vector<uint16_t> pkeys;
  Gid gid;
  int chosen_gid_index = 0;
  uint32_t next_qpn = 0x48;           // of queue pairs to be made
  std::map<int, ibv_gid_entry> gids;  // query_gid_ex's entries, by index
  // How many work requests one post call accepts before it fails with ENOMEM; -1: all.
  int post_room = -1;
  int post_send_calls = 0;
  int post_receive_calls = 0;
  size_t registered_bytes = 0;
  int registered_access = 0;
  std::vector<std::unique_ptr<FakeAh>> ahs;  // includes destroyed ones
  // create_ah calls this before it makes anything. It may block.
  std::function<void(const ibv_ah_attr& attr)> while_creating_ah;

 private:
  struct FakeContext : ibv_context {
    FakeHca* hca = nullptr;
  };

  static FakeHca* Of(ibv_context* context) { return static_cast<FakeContext*>(context)->hca; }
  // Returns 0, or the error (also in errno) with which this call must fail.
  int Failure(const std::string& verb);
  template <typename T>
  T* Alive(T* object) {
    ++alive_;
    return object;
  }
  template <typename T>
  int Gone(T* object) {
    --alive_;
    delete object;
    return 0;
  }
  static int Post(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
  static int PostReceive(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
  static int Poll(ibv_cq* cq, int entries, ibv_wc* wc);

  FakeContext context_ = {};
  ibv_pd pd_ = {&context_, 0};
  absl::Mutex failures_mutex_;
  std::map<std::string, std::pair<int, int>> failures_ ABSL_GUARDED_BY(failures_mutex_);
  std::atomic<int> alive_{0};
  absl::Mutex ah_mutex_;  // for `ahs`
  FakeQp* qp_ = nullptr;
  RebuiltCapture capture_;
};

inline FakeHca::FakeHca() {
  context_.hca = this;
  context_.ops.post_send = &Post;
  context_.ops.post_recv = &PostReceive;
  context_.ops.poll_cq = &Poll;
  context_.ops.req_notify_cq = [](ibv_cq* cq, int) {
    if (int error = Of(cq->context)->Failure("req_notify_cq")) return error;
    static_cast<FakeCq*>(cq)->armed = true;
    return 0;
  };
  device_attr.device_cap_flags = IBV_DEVICE_UD_IP_CSUM;
  port_attr.state = IBV_PORT_ACTIVE;
  port_attr.active_mtu = IBV_MTU_4096;
  port_attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
}

inline int FakeHca::Failure(const std::string& verb) {
  absl::MutexLock lock(&failures_mutex_);
  auto it = failures_.find(verb);
  if (it == failures_.end() || it->second.first-- > 0) return 0;
  const int error = it->second.second;
  failures_.erase(it);
  errno = error;
  return error;
}

inline int FakeHca::Post(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  FakeHca* hca = Of(qp->context);
  ++hca->post_send_calls;
  int error = hca->Failure("post_send");
  for (int taken = 0; wr != nullptr; wr = wr->next, ++taken) {
    if (error == 0 && hca->post_room >= 0 && taken == hca->post_room) error = ENOMEM;
    if (error != 0) {
      *bad = wr;
      return error;
    }
    static_cast<FakeQp*>(qp)->sends.push_back({wr->wr_id, wr->wr.ud.ah, wr->wr.ud.remote_qpn,
                                               wr->wr.ud.remote_qkey, wr->sg_list[0],
                                               wr->send_flags});
  }
  return 0;
}

inline int FakeHca::PostReceive(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  FakeHca* hca = Of(qp->context);
  ++hca->post_receive_calls;
  int error = hca->Failure("post_recv");
  for (int taken = 0; wr != nullptr; wr = wr->next, ++taken) {
    if (error == 0 && hca->post_room >= 0 && taken == hca->post_room) error = ENOMEM;
    if (error != 0) {
      *bad = wr;
      return error;
    }
    static_cast<FakeQp*>(qp)->receives.push_back({wr->wr_id, wr->sg_list[0]});
  }
  return 0;
}

inline int FakeHca::Poll(ibv_cq* cq, int entries, ibv_wc* wc) {
  if (Of(cq->context)->Failure("poll_cq")) return -1;
  std::deque<ibv_wc>& completions = static_cast<FakeCq*>(cq)->completions;
  int count = 0;
  for (; count < entries && !completions.empty(); ++count) {
    wc[count] = completions.front();
    completions.pop_front();
  }
  return count;
}

inline void FakeHca::Complete(FakeCq* cq, const ibv_wc& wc) {
  cq->completions.push_back(wc);
  if (!std::exchange(cq->armed, false)) return;
  auto* channel = static_cast<FakeChannel*>(cq->channel);
  channel->events.push_back(cq);
  eventfd_write(channel->fd, 1);
}

inline void FakeHca::CompleteSend(ibv_wc_status status) {
  ibv_wc wc = {};
  wc.wr_id = qp_->sends.front().wr_id;
  wc.status = status;
  qp_->sends.pop_front();
  Complete(send_cq(qp_), wc);
}

inline void FakeHca::Deliver(absl::Span<const uint8_t> bytes, const ibv_wc& wc) {
  const FakeReceive receive = qp_->receives.front();
  qp_->receives.pop_front();
  std::memcpy(reinterpret_cast<void*>(receive.sge.addr), bytes.data(),
              std::min<size_t>(bytes.size(), receive.sge.length));
  ibv_wc completion = wc;
  completion.wr_id = receive.wr_id;
  completion.byte_len = static_cast<uint32_t>(bytes.size());
  Complete(receive_cq(qp_), completion);
}

inline const VerbsTable& FakeHca::verbs() const {
  static const VerbsTable kTable = [] {
    VerbsTable t = {};
    t.query_device = [](ibv_context* context, ibv_device_attr* attr) {
      if (int error = Of(context)->Failure("query_device")) return error;
      *attr = Of(context)->device_attr;
      return 0;
    };
    t.query_port = [](ibv_context* context, uint8_t, ibv_port_attr* attr) {
      if (int error = Of(context)->Failure("query_port")) return error;
      *attr = Of(context)->port_attr;
      attr->pkey_tbl_len = static_cast<uint16_t>(Of(context)->pkeys.size());
      return 0;
    };
    t.query_gid = [](ibv_context* context, uint8_t, int, ibv_gid* gid) {
      if (Of(context)->Failure("query_gid")) return -1;
      Of(context)->gid.ToWire(gid->raw);
      return 0;
    };
    t.query_gid_ex = [](ibv_context* context, uint8_t, int index, ibv_gid_entry* entry) {
      if (int error = Of(context)->Failure("query_gid_ex")) return error;
      const auto found = Of(context)->gids.find(index);
      if (found == Of(context)->gids.end()) return ENODATA;
      *entry = found->second;
      return 0;
    };
    t.query_pkey = [](ibv_context* context, uint8_t, int index, uint16_t* pkey) {
      if (Of(context)->Failure("query_pkey")) return -1;
      *pkey = htons(Of(context)->pkeys.at(static_cast<size_t>(index)));
      return 0;
    };
    t.alloc_pd = [](ibv_context* context) -> ibv_pd* {
      if (Of(context)->Failure("alloc_pd")) return nullptr;
      return Of(context)->Alive(new ibv_pd{context, 0});
    };
    t.dealloc_pd = [](ibv_pd* pd) { return Of(pd->context)->Gone(pd); };
    t.reg_mr = [](ibv_pd* pd, void* address, size_t length, int access) -> ibv_mr* {
      FakeHca* hca = Of(pd->context);
      if (hca->Failure("reg_mr")) return nullptr;
      hca->registered_bytes = length;
      hca->registered_access = access;
      auto* mr = new ibv_mr{};
      mr->context = pd->context;
      mr->pd = pd;
      mr->addr = address;
      mr->length = length;
      mr->lkey = 0x1234;
      return hca->Alive(mr);
    };
    t.dereg_mr = [](ibv_mr* mr) { return Of(mr->context)->Gone(mr); };
    t.create_comp_channel = [](ibv_context* context) -> ibv_comp_channel* {
      if (Of(context)->Failure("create_comp_channel")) return nullptr;
      auto* channel = new FakeChannel{};
      channel->context = context;
      channel->fd = eventfd(0, EFD_CLOEXEC);
      return Of(context)->Alive(channel);
    };
    // Destroy verbs destroy even if they return an error, like libibverbs on a device that is gone.
    t.destroy_comp_channel = [](ibv_comp_channel* channel) {
      close(channel->fd);
      const int error = Of(channel->context)->Failure("destroy_comp_channel");
      Of(channel->context)->Gone(static_cast<FakeChannel*>(channel));
      return error;
    };
    t.create_cq = [](ibv_context* context, int entries, void*, ibv_comp_channel* channel,
                     int) -> ibv_cq* {
      if (Of(context)->Failure("create_cq")) return nullptr;
      auto* cq = new FakeCq{};
      cq->context = context;
      cq->channel = channel;
      cq->cqe = entries;
      return Of(context)->Alive(cq);
    };
    // libibverbs would wait for ever to destroy a CQ with unacknowledged events; this verb fails
    // instead.
    t.destroy_cq = [](ibv_cq* cq) {
      if (static_cast<FakeCq*>(cq)->unacknowledged > 0) return EBUSY;
      const int error = Of(cq->context)->Failure("destroy_cq");
      Of(cq->context)->Gone(static_cast<FakeCq*>(cq));
      return error;
    };
    t.get_cq_event = [](ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
      if (Of(channel->context)->Failure("get_cq_event")) return -1;
      auto* fake = static_cast<FakeChannel*>(channel);
      if (fake->events.empty()) {
        EOIB_CHECK((fcntl(channel->fd, F_GETFL) & O_NONBLOCK) != 0);  // or it would wait for ever
        errno = EAGAIN;
        return -1;
      }
      *cq = fake->events.front();
      *cq_context = nullptr;
      fake->events.front()->unacknowledged++;
      fake->events.pop_front();
      eventfd_t value = 0;
      if (fake->events.empty()) eventfd_read(channel->fd, &value);
      return 0;
    };
    t.ack_cq_events = [](ibv_cq* cq, unsigned events) {
      static_cast<FakeCq*>(cq)->unacknowledged -= events;
    };
    t.create_qp = [](ibv_pd* pd, ibv_qp_init_attr* attr) -> ibv_qp* {
      FakeHca* hca = Of(pd->context);
      if (hca->Failure("create_qp")) return nullptr;
      auto* qp = new FakeQp{};
      qp->context = pd->context;
      qp->pd = pd;
      qp->send_cq = attr->send_cq;
      qp->recv_cq = attr->recv_cq;
      qp->qp_num = hca->next_qpn;
      qp->qp_type = attr->qp_type;
      qp->state = IBV_QPS_RESET;
      hca->qp_ = qp;
      return hca->Alive(qp);
    };
    t.modify_qp = [](ibv_qp* qp, ibv_qp_attr* attr, int mask) {
      if (int error = Of(qp->context)->Failure("modify_qp")) return error;
      static_cast<FakeQp*>(qp)->transitions.push_back({*attr, mask});
      if ((mask & IBV_QP_STATE) != 0) qp->state = attr->qp_state;
      return 0;
    };
    t.query_qp = [](ibv_qp* qp, ibv_qp_attr* attr, int, ibv_qp_init_attr*) {
      if (int error = Of(qp->context)->Failure("query_qp")) return error;
      attr->qp_state = qp->state;
      return 0;
    };
    // Like the kernel, refuses to destroy a QP that is attached to a group.
    t.destroy_qp = [](ibv_qp* qp) {
      const int error = Of(qp->context)->Failure("destroy_qp");
      if (error == 0 && !static_cast<FakeQp*>(qp)->groups.empty()) return EBUSY;
      if (Of(qp->context)->qp_ == qp) Of(qp->context)->qp_ = nullptr;
      Of(qp->context)->Gone(static_cast<FakeQp*>(qp));
      return error;
    };
    t.attach_mcast = [](ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
      if (int error = Of(qp->context)->Failure("attach_mcast")) return error;
      // By GID alone, as HCAs do.
      static_cast<FakeQp*>(qp)->groups.emplace(Gid::FromWire(gid->raw), lid);
      return 0;
    };
    t.detach_mcast = [](ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
      if (int error = Of(qp->context)->Failure("detach_mcast")) return error;
      return static_cast<FakeQp*>(qp)->groups.erase(Gid::FromWire(gid->raw)) == 1 ? 0 : EINVAL;
    };
    t.create_ah = [](ibv_pd* pd, ibv_ah_attr* attr) -> ibv_ah* {
      FakeHca* hca = Of(pd->context);
      if (hca->while_creating_ah) hca->while_creating_ah(*attr);
      absl::MutexLock lock(&hca->ah_mutex_);
      if (hca->Failure("create_ah")) return nullptr;
      hca->ahs.push_back(std::make_unique<FakeAh>());
      hca->ahs.back()->context = pd->context;
      hca->ahs.back()->pd = pd;
      hca->ahs.back()->attr = *attr;
      return hca->Alive(hca->ahs.back().get());
    };
    t.destroy_ah = [](ibv_ah* ah) {
      absl::MutexLock lock(&Of(ah->context)->ah_mutex_);
      --Of(ah->context)->alive_;
      return static_cast<FakeAh*>(ah)->destroyed.exchange(true) ? EINVAL : 0;
    };
    return t;
  }();
  return kTable;
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_FAKE_VERBS_H_
