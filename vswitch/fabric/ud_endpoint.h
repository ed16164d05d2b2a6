// UdEndpoint: one Unreliable Datagram QP with its completion queues, as a worker uses it.
//
// Shape of a worker's turn: Receive a batch, forward it, Send, ReapSends, Refill; when there is nothing left, Arm, then once
// more Receive and ReapSends (an arrival between the last poll and Arm raises no event), then sleep on event_fd(); after
// waking, DrainEvents. The QP's Q_Key is the flood group's; sends use it by passing a Q_Key with the high-order bit set
// (IBA 1.4 §10.2.5).
//
// Every send asks for a completion: its buffer and its count on the address handle come back as soon as the HCA has taken it.
//
// A send that fails leaves a UD QP's send queue in the state SQE (IBA 1.4 §10.3.1.6): sends already posted are flushed. Until
// they are, Send refuses with kSendError; then ReapSends takes the queue back to RTS.
//
// On an Ethernet link layer a group is also joined by the network device (netdev_multicast.h), and a completion's LID and SL
// mean nothing.
//
// A receive that fails takes the whole QP to ERR, where all receives are flushed (§10.3.1.7). Then, and if the send queue does
// not come back, or a completion queue cannot be read, the endpoint has failed: it sends and posts nothing more, and whoever
// owns it makes another one.
//
// Where the HCA does not capture packets by itself, the endpoint tells a RebuiltCapture of them: that is one look at a flag for
// each batch while there is no capture.
//
// One thread: the worker that owns the QP, except SetQKey, Attach and Detach, which control calls. Nothing here allocates after
// Create.
#ifndef EOIB_VSWITCH_FABRIC_UD_ENDPOINT_H_
#define EOIB_VSWITCH_FABRIC_UD_ENDPOINT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "fdb/address.h"
#include "vswitch/fabric/address_handles.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/fabric/netdev_multicast.h"
#include "vswitch/fabric/rebuilt_capture.h"
#include "vswitch/wire/drop_reason.h"

namespace eoib {

// A datagram that arrived. Its payload is at BufferPool::Grh(buffer) + 40 == Frame(buffer) - 4, `length` bytes.
struct Datagram {
  BufferId buffer;
  uint32_t length = 0;  // of the UD payload: EoIB header and frame
  bool ok = true;       // false: completed with an error; only `buffer` is meaningful
  bool has_grh = false;
  Gid sgid;  // from the GRH
  Gid dgid;  // from the GRH: the group's MGID, or this port's GID
  Qpn source_qpn;
  Lid slid;  // this, path_bits and sl: 0 on RoCE
  uint8_t path_bits = 0;
  Sl sl;

  PeerAddress source() const { return {sgid, source_qpn}; }
};

// A datagram to send: `length` bytes at `payload`, which lie in `buffer`.
struct SendRequest {
  BufferId buffer;
  const uint8_t* payload = nullptr;
  uint32_t length = 0;
  AhIndex ah = AhIndex::None();
  Qpn qpn;  // Qpn::kMulticast for a group
};

class UdEndpoint {
 public:
  struct Options {
    uint16_t pkey_index = 0;
    QKey qkey;
    int receive_depth = 512;
    int send_depth = 512;
  };

  // Creates the QP and brings it to RTS. `hca`, `pd`, `pool` and `handles` outlive the endpoint.
  static absl::StatusOr<std::unique_ptr<UdEndpoint>> Create(Hca* hca, ibv_pd* pd, BufferPool* pool, AddressHandles* handles,
                                                            const Options& options);
  // Detaches the QP from its groups, destroys it and frees the buffers that were posted or in flight.
  ~UdEndpoint();
  UdEndpoint(const UdEndpoint&) = delete;
  UdEndpoint& operator=(const UdEndpoint&) = delete;

  Qpn qpn() const;
  // Whether an asynchronous event tells of the loss of this queue pair or of one of its completion queues.
  bool IsLostBy(const ibv_async_event& event) const;
  // Any thread. Whether the worker found that this queue pair is of no use any more. Events may tell of it as well, or not.
  bool failed() const { return failed_.load(std::memory_order_relaxed); }

  // Up to out.size() datagrams that arrived; their buffers now belong to the batch.
  size_t Receive(absl::Span<Datagram> out);
  // Posts free buffers until receive_depth are posted or the pool is empty; call it after the batch's buffers were freed.
  void Refill();

  // Posts `requests`. result[i] says what became of the i-th: kNone (its buffer is in flight), kUnresolved (no such handle),
  // kSendQueueFull or kSendError; a buffer that was not posted stays the batch's. Returns how many were posted.
  size_t Send(absl::Span<const SendRequest> requests, absl::Span<DropReason> result);
  // Frees the buffers of completed sends; returns how many completed, and in *failed how many of these with an error.
  size_t ReapSends(size_t* failed);
  size_t sends_in_flight() const { return in_flight_; }

  int event_fd() const;
  // Asks for an event at the next completion of either queue.
  absl::Status Arm();
  // Takes and acknowledges the events that woke the worker; does not block.
  void DrainEvents();

  // Control: the Q_Key that the flood group's record asks for, in place of the one the endpoint was created with.
  absl::Status SetQKey(QKey qkey);
  absl::Status Attach(const Mgid& mgid, Mlid mlid);
  absl::Status Detach(const Mgid& mgid, Mlid mlid);

 private:
  // What the endpoint holds a buffer for.
  enum class Use : uint8_t { kNone, kReceive, kSend };

  UdEndpoint(Hca* hca, BufferPool* pool, AddressHandles* handles, const Options& options);

  absl::Status CreateQueues(ibv_pd* pd);
  absl::Status BringUp(const Options& options);
  absl::Status ModifyQp(ibv_qp_attr* attr, int mask, absl::string_view what);
  absl::Status Failed(int error, absl::string_view what) const;
  absl::Status FailedToMake(int error, absl::string_view what) const;
  bool TakeReceive(const ibv_wc& wc, Datagram* out);
  size_t PrepareReceives();
  DropReason PrepareSend(const SendRequest& request, size_t at);
  size_t PostSends(absl::Span<const SendRequest> requests, size_t prepared, absl::Span<DropReason> result);
  void FinishSend(BufferId buffer);
  bool Captures() const { return capture_ != nullptr && capture_->on(); }
  RebuiltCapture::QueuePair CaptureIdentity() const;
  void CaptureSent(absl::Span<const SendRequest> requests, size_t posted);
  void CaptureReceived(absl::Span<const ibv_wc> completions);
  absl::Status JoinOnNetdev(const Mgid& mgid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RecoverSendQueue();
  bool QueryState(ibv_qp_state* state);
  void LookAtFailedReceives();
  void SetFailed() { failed_.store(true, std::memory_order_relaxed); }
  void DetachAll();

  Hca* const hca_;
  BufferPool* const pool_;
  AddressHandles* const handles_;
  RebuiltCapture* const capture_;  // or null
  const uint16_t pkey_index_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* receive_cq_ = nullptr;
  ibv_cq* send_cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  const size_t receive_depth_;
  const size_t send_depth_;
  size_t posted_ = 0;
  size_t in_flight_ = 0;
  bool send_failed_ = false;     // the send queue may be in SQE
  bool receive_failed_ = false;  // the QP may be in ERR
  bool ethernet_ = false;        // the port's link layer
  std::atomic<bool> failed_{false};
  std::atomic<uint32_t> qkey_;         // of the QP
  std::vector<Use> use_;               // by BufferId; the pool may serve other endpoints too
  std::vector<AhIndex> ah_of_buffer_;  // by BufferId: to release at completion
  // Work requests are built here; elements of the same index belong together.
  std::vector<ibv_recv_wr> receive_wrs_;
  std::vector<ibv_sge> receive_sges_;
  std::vector<ibv_send_wr> send_wrs_;
  std::vector<ibv_sge> send_sges_;
  std::vector<uint32_t> send_requests_;  // which of Send's requests it is

  absl::Mutex mutex_;
  std::vector<std::pair<Mgid, Mlid>> groups_ ABSL_GUARDED_BY(mutex_);  // attached to: control only
  NetdevMulticast netdev_groups_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_UD_ENDPOINT_H_
