// The objects behind the verbs' handles. Each derives from its handle type, so a handle is the
// object.
//
// The mutex of the port guards all members that are not immutable or atomic.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_VERBS_OBJECTS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_VERBS_OBJECTS_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "vswitch/base/address.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/softhca/ring.h"

namespace eoib::softhca {

class SoftPort;
struct SoftQp;

// Limits of this HCA.
inline constexpr int kMaxSge = 32;
inline constexpr uint32_t kDefaultInline = 256;
inline constexpr uint32_t kMaxInline = 1024;
inline constexpr int kMaxWr = 16384;
inline constexpr int kMaxCqe = 4 * kMaxWr;
inline constexpr int kMaxQp = 4096;

struct SoftContext : verbs_context {
  explicit SoftContext(std::shared_ptr<SoftPort> port) : verbs_context{}, port(std::move(port)) {}
  const std::shared_ptr<SoftPort> port;
  std::shared_ptr<const ibv_device> keeps_device;
  UniqueFd async;  // context.async_fd: an eventfd that counts `events`
  std::deque<ibv_async_event> events;
};

struct SoftPd : ibv_pd {
  std::atomic<int> users{0};  // objects that refer to it
};

struct SoftMr : ibv_mr {
  bool local_write = false;
};

struct SoftAh : ibv_ah {
  ibv_ah_attr attributes;  // immutable
};

struct SoftCq;

struct SoftChannel : ibv_comp_channel {
  UniqueFd epoll;  // `fd`: watches the port's doorbell and `event`
  UniqueFd event;  // readable while `pending` is not empty
  std::deque<SoftCq*> pending;
  std::atomic<int> users{0};  // completion queues
};

struct SoftCq : ibv_cq {
  enum class Armed : uint8_t { kNo, kSolicited, kAny };

  // A completion that was not polled yet.
  struct Entry {
    ibv_wc wc;
    SoftQp* qp;
    uint32_t send_number;  // for a send: polling it frees the send queue up to here
    bool is_send;
  };

  std::vector<Entry> entries;  // a circular buffer of a power of two
  uint64_t head = 0;           // next to poll
  uint64_t tail = 0;
  size_t held = 0;  // completions of queue pairs that will come here (SoftQp::held)
  Armed armed = Armed::kNo;
  int receivers = 0;           // QPs that receive into it
  std::atomic<int> users{0};   // queue pairs
  uint32_t events_raised = 0;  // returned by get_cq_event

  size_t size() const { return tail - head; }
  bool full() const { return size() + held >= static_cast<size_t>(cqe); }
  Entry& at(uint64_t position) { return entries[position & (entries.size() - 1)]; }
  SoftChannel* soft_channel() const { return static_cast<SoftChannel*>(channel); }
};

struct SoftQp : ibv_qp {
  struct Receive {
    uint64_t wr_id;
    uint64_t length;  // of all its sges
    int count;        // of sges
  };

  ibv_qp_cap capabilities{};
  bool signal_all = false;
  uint16_t pkey_index = 0;
  uint32_t qkey = 0;
  uint32_t psn = 0;  // of the next send
  uint8_t port_num = 0;

  // A slot is free again when its completion, or a later one, was polled.
  uint32_t sends_posted = 0;
  uint32_t sends_freed = 0;

  // A send completes when it is posted, unless a message of this queue pair waits for room in a
  // ring. Then its completion is held, in order, until those that waited by then have found room or
  // were discarded.
  struct HeldCompletion {
    SoftCq::Entry entry;
    uint64_t parked;  // messages, up to this one
  };
  uint64_t parked = 0;    // messages that had to wait
  uint64_t unparked = 0;  // of these, do not wait any more
  std::deque<HeldCompletion> held;

  std::vector<Receive> receives;      // a circular buffer of a power of two
  std::vector<ibv_sge> receive_sges;  // max_recv_sge for each receive
  uint64_t receive_head = 0;
  uint64_t receive_tail = 0;

  std::vector<Gid> groups;  // attached to

  bool has_receive() const { return receive_head != receive_tail; }
  size_t posted_receives() const { return receive_tail - receive_head; }
  size_t slot(uint64_t position) const { return position & (receives.size() - 1); }
  ibv_sge* sges(uint64_t position) {
    return &receive_sges[slot(position) * capabilities.max_recv_sge];
  }
  SoftCq* soft_send_cq() const { return static_cast<SoftCq*>(send_cq); }
  SoftCq* soft_recv_cq() const { return static_cast<SoftCq*>(recv_cq); }
  bool CanReceive() const {
    return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD ||
           state == IBV_QPS_SQE;
  }
};

inline SoftContext* AsSoft(ibv_context* context) {
  return static_cast<SoftContext*>(verbs_get_ctx(context));
}
inline SoftQp* AsSoft(ibv_qp* qp) { return static_cast<SoftQp*>(qp); }
inline SoftCq* AsSoft(ibv_cq* cq) { return static_cast<SoftCq*>(cq); }
inline SoftPd* AsSoft(ibv_pd* pd) { return static_cast<SoftPd*>(pd); }

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_VERBS_OBJECTS_H_
